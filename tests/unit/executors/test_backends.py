"""Back ends without a worker around them: what they declare, accept, refuse and give back."""

import textwrap

import numpy as np
import pytest
from tests import models

from headway.core import Datatype
from headway.errors import ExecutorError, LoadError
from headway.executors import ModelSpec, TensorSpec
from headway.executors.backend import open_model, warm_up
from headway.executors.onnx_backend import OnnxModel, _session_options

X = {"x": np.ones((2, 4), np.float32)}


def written(tmp_path, body: str, **fields) -> ModelSpec:
    """A class `M` in a file of its own."""
    path = tmp_path / "model.py"
    path.write_text("import numpy as np\nclass M:\n" + textwrap.indent(textwrap.dedent(body), "  "))
    return ModelSpec(name="m", backend="python", path=f"{path}:M", **fields)


ROWS = """
inputs = [{"name": "x", "datatype": "FP32", "shape": [-1, 4]}]
outputs = [{"name": "y", "datatype": "FP32", "shape": [-1, 4]}]
"""
ECHO = ROWS + 'def infer(self, batch): return {"y": batch["x"]}\n'
BARE = "def infer(self, batch): return dict(batch)\n"


# -- Python ------------------------------------------------------------------------------------


def test_declared_tensors_may_be_methods_or_specs(tmp_path):
    """Dictionaries, TensorSpecs and methods that return them are all read after `load`."""
    body = """
    def load(self, columns): self.columns = columns
    def inputs(self):
        from headway.executors import TensorSpec
        return [TensorSpec(name="x", datatype="FP32", shape=(-1, self.columns))]
    outputs = [{"name": "y", "datatype": "FP32", "shape": [-1, 4]}]
    def infer(self, batch): return {"y": batch["x"]}
    """
    model = open_model(written(tmp_path, body, options={"columns": 4}))
    assert model.signature.inputs == (TensorSpec(name="x", datatype=Datatype.FP32, shape=(-1, 4)),)
    assert (model.signature.platform, model.signature.can_batch) == ("python", True)
    warm_up(model, ModelSpec(name="m", backend="python", path=""))


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("inputs = 5\n" + BARE, "`inputs` is not a sequence of tensors"),
        ('inputs = [{"name": "x"}]\n' + BARE, "`inputs` is not a sequence of tensors"),
        ("async def infer(self, batch): pass", "`infer` is async"),
        ("infer = None", "no method `infer`"),
        (
            'inputs = [{"name": "x", "datatype": "FP32", "shape": [4]}]\ncan_batch = True\n' + BARE,
            "not every shape begins with -1",
        ),
    ],
)
def test_what_makes_no_sense_is_refused(tmp_path, body, message):
    """A declaration that cannot be served fails the load and says why."""
    with pytest.raises(LoadError, match=message):
        open_model(written(tmp_path, body))


def test_options_without_load_are_refused(tmp_path):
    """Options that nobody takes are an error, not silence."""
    with pytest.raises(LoadError, match=r"no `load` to take the options \['a'\]"):
        open_model(written(tmp_path, ECHO, options={"a": 1}))


def test_model_may_refuse_to_be_batched(tmp_path):
    """`can_batch = False` holds although every axis is free."""
    spec = written(tmp_path, "can_batch = False\n" + ECHO)
    model = open_model(spec)
    assert not model.signature.can_batch
    warm_up(model, spec)


def test_undeclared_outputs_are_taken_as_they_are(tmp_path):
    """A model that declares nothing is not warmed; its outputs need only a known dtype."""
    spec = written(tmp_path, BARE)
    model = open_model(spec)
    assert (model.signature.inputs, model.signature.can_batch) == ((), False)
    warm_up(model, spec)
    assert model.infer(dict(X), (), {}).keys() == {"x"}
    assert model.infer({"a": np.ones(1), "b": np.ones(1)}, ("b",), {}).keys() == {"b"}
    with pytest.raises(ExecutorError, match="did not return the output `w`"):
        model.infer(dict(X), ("w",), {})
    with pytest.raises(ExecutorError, match="`x` is a complex128"):
        model.infer({"x": np.ones(1, complex)}, (), {})


def test_bfloat16_may_come_as_bits(tmp_path):
    """A declared BF16 output is accepted as uint16."""
    body = """
    inputs = []
    outputs = [{"name": "y", "datatype": "BF16", "shape": [1]}]
    def infer(self, batch): return {"y": np.array([16256], np.uint16)}
    """
    assert open_model(written(tmp_path, body)).infer({}, (), {})["y"].dtype == np.uint16


def test_file_is_read_anew_for_each_load(tmp_path):
    """A changed file gives a changed model while the old one still runs."""
    old = open_model(written(tmp_path, ECHO))
    new = open_model(written(tmp_path, ECHO.replace('batch["x"]', '-batch["x"]')))
    assert old.infer(dict(X), (), {})["y"][0, 0] == 1
    assert new.infer(dict(X), (), {})["y"][0, 0] == -1


def test_closed_model_does_not_run(tmp_path):
    """After `close` a call is an error."""
    model = open_model(written(tmp_path, ECHO))
    model.close()
    with pytest.raises(ExecutorError, match="unloaded"):
        model.infer(dict(X), (), {})


def test_missing_import_of_a_module_is_not_a_missing_model(tmp_path, monkeypatch):
    """A module that is there but lacks what it imports raises its own error."""
    (tmp_path / "lacking_module.py").write_text("import not_installed_anywhere\n")
    monkeypatch.syspath_prepend(tmp_path)
    spec = ModelSpec(name="m", backend="python", path="lacking_module:M")
    with pytest.raises(ModuleNotFoundError, match="not_installed_anywhere"):
        open_model(spec)


def test_unknown_back_end_is_refused():
    """Only known back ends are looked for."""
    with pytest.raises(LoadError, match="use `onnx` or `python`"):
        open_model(ModelSpec(name="m", backend="cobol", path=""))


# -- ONNX --------------------------------------------------------------------------------------


def onnx_spec(path: str, **fields) -> ModelSpec:
    return ModelSpec(name="m", backend="onnx", path=path, **fields)


@pytest.mark.parametrize("datatype", Datatype)
def test_onnx_signature_names_the_graphs_datatype(datatype, tmp_path):
    """Each of ONNX's element types has its datatype, and runs as zeros."""
    spec = onnx_spec(models.identity(tmp_path / "m.onnx", datatype), warmup_rows=(1, 3))
    model = open_model(spec)
    assert model.signature.inputs == (TensorSpec(name="x", datatype=datatype, shape=(-1, 4)),)
    warm_up(model, spec)
    model.close()


def test_onnx_wrong_options_are_refused(tmp_path):
    """Missing files, unknown options and impossible thread counts are named."""
    path = models.identity(tmp_path / "m.onnx", Datatype.FP32)
    with pytest.raises(LoadError, match="no model file"):
        OnnxModel.load(onnx_spec(path + "x"))
    with pytest.raises(LoadError, match="no option `speed`"):
        OnnxModel.load(onnx_spec(path, options={"speed": 11}))
    with pytest.raises(LoadError, match="not `many`"):
        OnnxModel.load(onnx_spec(path, options={"intra_op_threads": "many"}))
    with pytest.raises(LoadError, match="`allow_spinning` must be true or false, not `1`"):
        OnnxModel.load(onnx_spec(path, options={"allow_spinning": 1}))


@pytest.mark.parametrize(
    ("options", "entry"),
    [({}, "0"), ({"allow_spinning": False}, "0"), ({"allow_spinning": True}, "1")],
)
def test_onnx_threads_spin_only_when_asked_to(tmp_path, options, entry):
    """Pools that spin take the cores from each other, so it is off unless a model asks for it."""
    spec = onnx_spec(models.identity(tmp_path / "m.onnx", Datatype.FP32), options=options)
    session = _session_options(spec)
    assert session.get_session_config_entry("session.intra_op.allow_spinning") == entry
    assert session.get_session_config_entry("session.inter_op.allow_spinning") == "0"
    x = np.ones((2, 4), np.float32)
    np.testing.assert_array_equal(OnnxModel.load(spec).infer({"x": x}, (), {})["y"], x)


def test_onnx_declarations_are_checked(tmp_path):
    """Overrides must name tensors of the graph with their datatype; sequences are refused."""
    path = models.two_outputs(tmp_path / "m.onnx")
    y = TensorSpec(name="y", datatype=Datatype.FP32, shape=(-1, 4))
    model = OnnxModel.load(onnx_spec(path, outputs=(y,)))
    assert model.infer(dict(X), (), {}).keys() == {"y"}
    with pytest.raises(ExecutorError, match="no output `negative`"):
        model.infer(dict(X), ("negative",), {})
    for wrong in (
        TensorSpec(name="w", datatype=Datatype.FP32, shape=(1,)),
        TensorSpec(name="y", datatype=Datatype.FP64, shape=(1,)),
    ):
        with pytest.raises(LoadError, match=f"`{wrong.name}`"):
            OnnxModel.load(onnx_spec(path, outputs=(wrong,)))
    with pytest.raises(LoadError, match="the protocol cannot carry"):
        OnnxModel.load(onnx_spec(models.sequence_output(tmp_path / "s.onnx")))


def test_onnx_bfloat16_and_strings_do_not_mix(tmp_path):
    """A graph with both is refused at its load: the runtime's calls take one or the other."""
    path = models.mixed_identity(tmp_path / "m.onnx", Datatype.BF16, Datatype.BYTES)
    with pytest.raises(LoadError, match="cannot mix BF16 and string"):
        OnnxModel.load(onnx_spec(path))
    mixed = models.mixed_identity(tmp_path / "n.onnx", Datatype.BF16, Datatype.FP32)
    model = OnnxModel.load(onnx_spec(mixed))
    warm_up(model, onnx_spec(mixed))


def test_onnx_strings_must_be_text(tmp_path):
    """Bytes which are not UTF-8 fail the batch."""
    model = OnnxModel.load(onnx_spec(models.identity(tmp_path / "m.onnx", Datatype.BYTES, (-1,))))
    assert model.infer({"x": np.array(["é".encode()], object)}, (), {})["y"].tolist() == ["é"]
    with pytest.raises(ExecutorError, match="not UTF-8"):
        model.infer({"x": np.array([b"\xff"], object)}, (), {})
