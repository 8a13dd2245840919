"""Functions as models: how they are called, what lists become, and what is refused when loading."""

import textwrap

import numpy as np
import pytest

from headway.errors import ExecutorError, LoadError
from headway.executors import ModelSpec
from headway.executors.backend import open_model

FOUR = np.arange(4, dtype=np.float32)


def loaded(tmp_path, body, **fields):
    """A function `f` in a file of its own."""
    path = tmp_path / "steps.py"
    path.write_text("import numpy as np\n" + textwrap.dedent(body))
    return open_model(ModelSpec(name="p/f", backend="python", path=f"{path}:f", **fields))


def test_function_is_called_with_named_arrays(tmp_path):
    """Arguments by their names, results by theirs; any datatype and shape goes."""
    model = loaded(tmp_path, "def f(a, b, scale=2): return {'y': (a + b) * scale}")
    assert model.signature.free_inputs == ("a", "b", "scale")
    assert (model.signature.inputs, model.signature.can_batch) == ((), False)
    assert model.signature.parameters == ()
    given = model.infer({"a": FOUR, "b": FOUR}, (), {})
    np.testing.assert_array_equal(given["y"], 4 * FOUR)


def test_list_among_the_results_becomes_items_and_their_number(tmp_path):
    """Each item is an array of its own, of its own shape; none is still a list."""
    model = loaded(tmp_path, "def f(x): return {'part': [x[:1], x[1:]], 'none': []}")
    given = model.infer({"x": FOUR}, (), {})
    assert list(given) == ["part[]", "part[0]", "part[1]", "none[]"]
    assert (given["part[]"].tolist(), given["none[]"].tolist()) == ([2], [0])
    assert [given[f"part[{i}]"].shape for i in (0, 1)] == [(1,), (3,)]


def test_items_become_a_list_again_in_order(tmp_path):
    """What another step's list is wired to is handed over as one, whatever order it came in."""
    model = loaded(tmp_path, "def f(x): return {'y': np.concatenate(x), 'n': np.asarray(len(x))}")
    ten = [np.full(1, i, np.float32) for i in range(11)]
    inputs = {f"x[{i}]": ten[i] for i in reversed(range(11))} | {"x[]": np.asarray([11])}
    given = model.infer(inputs, (), {})
    assert given["y"].tolist() == list(range(11))
    with pytest.raises(ExecutorError, match="lacks its item"):
        model.infer({"x[]": np.asarray([2]), "x[0]": FOUR}, (), {})


def test_text_goes_in_and_out(tmp_path):
    """Strings among the results travel as BYTES."""
    model = loaded(tmp_path, "def f(x): return {'y': np.asarray([t.decode() for t in x])}")
    given = model.infer({"x": np.asarray([b"a", b"b"], object)}, (), {})
    assert given["y"].tolist() == ["a", "b"]


def test_options_are_keyword_arguments(tmp_path):
    """What is configured is bound once, and no input."""
    body = "def f(x, by): return {'y': x * by}"
    model = loaded(tmp_path, body, options={"by": 3}, arguments=("x",))
    assert model.signature.free_inputs == ("x",)
    assert model.infer({"x": FOUR}, (), {})["y"].tolist() == [0, 3, 6, 9]


def test_class_is_made_once_with_its_options_and_called(tmp_path):
    """For what should be read beforehand: the object lives as long as the model."""
    body = """
    class f:
        def __init__(self, start): self.count = start
        def __call__(self, x):
            self.count += 1
            return {"y": np.asarray(self.count)}
    """
    model = loaded(tmp_path, body, options={"start": 5}, arguments=("x",))
    assert [int(model.infer({"x": FOUR}, (), {})["y"]) for _ in range(2)] == [6, 7]


def test_parameters_reach_a_function_that_asks_for_them(tmp_path):
    """They are then a part of what its answer depends on."""
    model = loaded(tmp_path, "def f(x, parameters): return {'y': x * parameters['by']}")
    assert model.signature.free_inputs == ("x",)
    assert model.signature.parameters is None
    assert model.infer({"x": FOUR}, (), {"by": 2})["y"].tolist() == [0, 2, 4, 6]


@pytest.mark.parametrize(
    ("body", "fields", "message"),
    [
        ("def f(x): pass", {"arguments": ("z",)}, r"cannot be called with the inputs `z`"),
        (
            "def f(x): pass",
            {"arguments": ("x",), "options": {"x": 2}},
            r"`x` is an option of `f` and an input as well",
        ),
        ("def f(x, y): pass", {"arguments": ("x",)}, r"missing a required argument: 'y'"),
        ("async def f(x): pass", {}, "is async"),
        ("class f:\n  async def __call__(self, x): pass", {}, "is async"),
        ("f = 5", {}, "not callable"),
    ],
)
def test_function_that_cannot_be_called_so_is_not_loaded(tmp_path, body, fields, message):
    """Seen when it is loaded, not by the first client."""
    with pytest.raises((LoadError, TypeError), match=message):
        loaded(tmp_path, body, **fields)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("def f(x): return [x]", "returned a `list`, not a mapping"),
        ("def f(x): return {'y[0]': x}", "cannot be an output's name"),
        ("def f(x): return {'y': x.astype('c8')}", "complex64, which has no datatype"),
    ],
)
def test_result_that_cannot_travel_is_refused(tmp_path, body, message):
    """The error says what was returned."""
    with pytest.raises(ExecutorError, match=message):
        loaded(tmp_path, body).infer({"x": FOUR}, (), {})
