"""Generators in a configuration."""

from pathlib import Path

import pytest

from headway.config import generator_plans, load_config, warnings_of
from headway.errors import ConfigError
from headway.generate import PreemptWay
from headway.units import NS_PER_MS, NS_PER_S

ROOT = Path(__file__).parent.parent.parent


@pytest.fixture
def read(tmp_path):
    """Reads the text of a configuration."""

    def read_text(text):
        path = tmp_path / "serve.yaml"
        path.write_text(text)
        return load_config(path, environ={}).config

    return read_text


def test_example_says_what_each_tier_is_promised():
    """Priority and budget are the tier's, targets the generator's."""
    config = load_config(ROOT / "examples/generating.yaml", environ={}).config
    (plan,) = generator_plans(config, 7)
    assert (plan.params.name, plan.tier) == ("tiny", "bulk")
    assert Path(plan.params.start.folder).resolve() == ROOT / "models/tiny"
    assert plan.params.start.seed == "7/tiny"
    gold, bulk = plan.terms["gold"], plan.terms["bulk"]
    assert (gold.priority, gold.ttft_ns, gold.tpot_ns) == (1, 500 * NS_PER_MS, 100 * NS_PER_MS)
    assert (bulk.priority, bulk.ttft_ns, bulk.is_gated) == (5, None, True)
    assert plan.budgets_ns == {"gold": 60 * NS_PER_S, "bulk": 600 * NS_PER_S}
    assert not warnings_of(config)


def test_without_memory_on_the_host_nothing_is_swapped(read):
    """What makes room is computed again."""
    config = read("generators: [{name: a, path: x, kv_host: 0, seed: 3}]")
    (plan,) = generator_plans(config, 7)
    assert plan.params.start.settings.swap.ways == (PreemptWay.RECOMPUTE,)
    assert plan.params.start.seed == "3/a"
    assert plan.tier == "standard"


@pytest.mark.parametrize(
    ("text", "path", "message"),
    [
        (
            "generators: [{name: a, path: x}, {name: a, path: y}]",
            "generators.1.name",
            "generators.0",
        ),
        (
            "models: [{name: a, path: a.onnx}]\ngenerators: [{name: a, path: x}]",
            "generators.0.name",
            "models.0",
        ),
        ("generators: [{name: a, path: x, tier: gone}]", "generators.0.tier", "no tier `gone`"),
        (
            "generators: [{name: a, path: x, tiers: {gone: {}}}]",
            "generators.0.tiers.gone",
            "no tier `gone`",
        ),
        (
            "generators: [{name: a, path: x, sequences_max: 64, step_tokens_max: 8}]",
            "generators.0.step_tokens_max",
            "fewer than sequences_max",
        ),
        ("generators: [{name: a}]", "generators.0.path", "missing"),
    ],
)
def test_what_cannot_be_meant_is_refused_where_it_stands(read, text, path, message):
    """With the key, and what it collides with."""
    with pytest.raises(ConfigError, match=message) as caught:
        read(text)
    assert path == caught.value.path


def test_tenants_may_be_limited_to_a_generator(read):
    """It is a model like others to them."""
    config = read(
        "generators: [{name: a, path: x}]\ntenancy: {ledger: null, tenants: {t: {models: [a]}}}"
    )
    assert config.tenancy.tenants["t"].models == ("a",)
