"""What the plug-in for vLLM is told: settings, and who a request is from."""

import pytest

from headway.errors import ConfigError
from headway.generate.events import PreemptWay
from headway.generate.vllm_terms import PRIORITY_MAX, PluginSettings
from headway.units import NS_PER_MS, NS_PER_S

SECTION = {
    "tiers": {
        "gold": {"priority": -5, "ttft": "400ms", "tpot": "50ms"},
        "bronze": {"priority": 3, "gated": True},
    },
    "tier": "bronze",
    "weights": {"team-a": 4},
    "age_after": "10s",
}


def test_settings_reach_the_step_scheduler():
    """Weights, marks and times stand where the rules look for them; others are defaults."""
    settings = PluginSettings.read(SECTION | {"high_ratio": 0.9}).step_settings(None)
    assert settings.credits.weights == {"team-a": 4.0}
    assert settings.watermark.high_ratio == 0.9
    assert settings.aging.after_ns == 10 * NS_PER_S
    assert settings.swap.ways == (PreemptWay.RECOMPUTE,)
    assert PluginSettings.read(None) == PluginSettings()


def test_swap_is_bounded_by_the_hosts_memory():
    """Memory and bandwidth become tokens by what a token's keys and values take."""
    settings = PluginSettings.read({"host_memory": "1MiB", "link_bandwidth": "1GiB"})
    assert settings.step_settings(1024.0).swap.host_tokens_max == 1024
    assert settings.step_settings(1024.0).swap.ways == (PreemptWay.RECOMPUTE, PreemptWay.SWAP)
    assert settings.copy_law(1024.0).token_ns == pytest.approx(NS_PER_S / 1024**2)


def test_request_says_tenant_tier_and_targets():
    """A tier brings its terms, and a request may state targets of its own."""
    settings = PluginSettings.read(SECTION)
    origin = settings.origin_of({"tenant": "team-a", "tier": "gold", "tpot_ms": 20}, 0)
    assert origin.tenant == "team-a"
    assert origin.terms.name == "gold"
    assert origin.terms.ttft_ns == 400 * NS_PER_MS
    assert origin.terms.tpot_ns == 20 * NS_PER_MS
    assert origin.terms.priority < settings.origin_of(None, 0).terms.priority


def test_request_without_a_tier_goes_by_its_priority():
    """Where it says neither it has the settings' tier; else the class of its number."""
    settings = PluginSettings.read(SECTION)
    assert settings.origin_of(None, 0).terms.name == "bronze"
    assert settings.origin_of(None, 0).terms.is_gated
    assert settings.origin_of({}, 3).terms.priority == settings.origin_of({}, 0).terms.priority
    assert settings.origin_of({}, 3).terms.name == "priority 3"
    plain = PluginSettings()
    ranks = [plain.origin_of(None, each).terms.priority for each in (-9999, -1, 0, 1, 9999)]
    assert ranks == sorted(set(ranks))
    assert ranks[0] == 0
    assert ranks[-1] == 2 * PRIORITY_MAX


@pytest.mark.parametrize(
    "args",
    [
        {"tenant": ["a"], "tier": "copper", "ttft_ms": "soon", "tpot_ms": -1},
        {"tenant": "", "tier": 3, "ttft_ms": True, "tpot_ms": float("nan")},
        {},
    ],
)
def test_what_a_request_says_wrong_is_left_out(args):
    """A client's mistake costs it its tier, not its answer."""
    origin = PluginSettings.read(SECTION).origin_of(args, 0)
    assert origin.tenant == "default"
    assert origin.terms == PluginSettings.read(SECTION).origin_of(None, 0).terms


@pytest.mark.parametrize(
    ("section", "words"),
    [
        ({"tierz": {}}, "tierz"),
        ({"high_ratio": 0.5, "low_ratio": 0.6}, "0.6"),
        ({"tiers": {"gold": {"ttft": "soon"}}}, "soon"),
        ({"tiers": {"gold": {"prio": 1}}}, "prio"),
        ({"weights": {"a": -1}}, "weights"),
        ({"tier": "gold"}, "gold"),
        ({"host_memory": "much"}, "much"),
        ({"link_bandwidth": "0GiB"}, "0GiB"),
        ({"ways": []}, "way"),
        ("fast", "object"),
    ],
)
def test_wrong_setting_is_named(section, words):
    """The error says where the setting stands and what is wrong with it."""
    with pytest.raises(ConfigError, match=words) as raised:
        PluginSettings.read(section)
    assert "headway" in raised.value.path
    assert raised.value.hint
