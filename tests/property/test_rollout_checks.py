"""Checks of files on anything that looks like one: they say what is wrong, and never fall over."""

import copy
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.sharing_plans import a_mixed_plan

from headway.rollout import FORMATS, EmitOptions, check_file, shipped_definitions

FILES = {
    f"{name}/{file.name}": file.text
    for name, format_ in FORMATS.items()
    for file in format_.emit(a_mixed_plan(), EmitOptions()).files
}
DOCUMENTS = {
    name: [one for one in yaml.load_all(text, Loader=yaml.CSafeLoader) if one]
    for name, text in FILES.items()
    if name.endswith(".yaml")
}
SCALARS = st.none() | st.booleans() | st.integers(-9, 99) | st.text(max_size=6)
VALUES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=6), inner, max_size=2)
    ),
    max_leaves=4,
)


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every place in a document, the whole of it first."""
    found = [path]
    if isinstance(value, dict | list):
        for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
            found += places(inner, (*path, key))
    return found


@settings(max_examples=150)
@given(st.sampled_from(sorted(DOCUMENTS)), st.data())
def test_document_with_anything_anywhere_is_judged(name: str, data: st.DataObject) -> None:
    """Whatever stands where something else is wanted."""
    document = copy.deepcopy(data.draw(st.sampled_from(DOCUMENTS[name])))
    path = data.draw(st.sampled_from(places(document)[1:]))
    node = document
    for step in path[:-1]:
        node = node[step]
    node[path[-1]] = data.draw(VALUES)
    check_file("one.yaml", yaml.safe_dump(document), shipped_definitions())


@settings(max_examples=150)
@given(st.sampled_from(sorted(FILES)), st.data())
def test_text_with_a_part_cut_out_is_judged(name: str, data: st.DataObject) -> None:
    """Scripts, environments, TOML and YAML that end in the middle of anything."""
    text = FILES[name]
    start = data.draw(st.integers(0, len(text)))
    length = data.draw(st.integers(1, 40))
    check_file(
        name.rpartition("/")[2], text[:start] + text[start + length :], shipped_definitions()
    )


@given(st.text(max_size=80), st.sampled_from(["sh", "env", "toml", "yaml", "json", "x"]))
def test_any_text_is_judged(text: str, suffix: str) -> None:
    """And nothing that was not understood is called valid."""
    found = check_file(f"a.{suffix}", text, shipped_definitions())
    if suffix in {"sh", "yaml", "json", "x"}:
        assert found.faults


@pytest.mark.parametrize("name", sorted(DOCUMENTS))
def test_documents_are_valid_to_begin_with(name: str) -> None:
    """Else the tests above would prove nothing."""
    text = yaml.safe_dump_all(DOCUMENTS[name])
    assert check_file("one.yaml", text, shipped_definitions()).faults == ()
