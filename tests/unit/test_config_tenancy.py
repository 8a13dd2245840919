"""Tenants, keys and encryption in a configuration."""

import traceback
from pathlib import Path

import pytest

from headway.config import (
    admin_keys,
    load_config,
    policy_of,
    tenant_params,
    warnings_of,
)
from headway.errors import ConfigError
from headway.tenancy import Period, hash_of
from headway.units import NS_PER_S

ROOT = Path(__file__).parent.parent.parent
KEY = hash_of("hwk_x")


@pytest.fixture
def read(tmp_path):
    """Reads the text of a configuration."""

    def read_text(text):
        path = tmp_path / "serve.yaml"
        path.write_text(text)
        return load_config(path, environ={}).config

    return read_text


def test_example_has_three_tenants_in_three_tiers():
    """Its first key is the one that its comment names."""
    config = load_config(ROOT / "examples/tenants.yaml", environ={}).config
    speech, search, students = tenant_params(config)
    assert speech.keys[0].key_hash == hash_of("example-gold")
    assert (speech.tier, speech.tiers) == ("gold", {"gold", "silver"})
    assert (search.rows_per_s, search.burst_s) == (2000.0, 2.0)
    assert students.quota.period is Period.DAY
    assert students.quota.device_ns == 1800 * NS_PER_S
    assert warnings_of(config) == ()


def test_tenant_may_name_its_own_tier_and_those_that_are_listed(read):
    """All of them where neither is said."""
    config = read(
        "tiers: {a: {}, b: {}}\n"
        "tenancy: {tenants: {x: {tier: a}, y: {tiers: [b]}, z: {tier: a, tiers: [b]}, w: {}}}"
    )
    assert [set(one.tiers) for one in tenant_params(config)] == [{"a"}, {"b"}, {"a", "b"}, set()]


def test_key_expires_at_the_beginning_of_its_day(read):
    """In UTC."""
    config = read(f"server: {{admin: {{keys: [{{hash: '{KEY}', expires: 1970-01-02}}]}}}}")
    assert admin_keys(config)[0].expires_at_unix_ns == 86_400 * NS_PER_S


def test_shares_and_reserves_of_tenants_are_the_policy_s(read):
    """What the policy says itself wins."""
    config = read(
        "policy: {kind: headway, shares: {x: 5}}\n"
        "tenancy: {tenants: {x: {share: 2}, y: {share: 3, reserve: 0.25}}}"
    )
    section = policy_of(config)
    assert (section.shares, section.floors) == ({"x": 5, "y": 3}, {"y": 0.25})
    fifo = read("policy: {kind: fifo}\ntenancy: {tenants: {x: {share: 2}}}")
    assert policy_of(fifo) == fifo.policy


def test_ledger_and_certificates_are_looked_for_beside_the_file(read, tmp_path):
    """A database elsewhere, and one in memory, are left as they are."""
    config = read("tenancy: {tenants: {x: {}}}\nserver: {tls: {certificate: a.pem, key: /b.key}}")
    assert config.tenancy.ledger == f"sqlite:///{tmp_path}/headway-usage.db"
    assert config.server.tls.certificate == f"{tmp_path}/a.pem"
    assert config.server.tls.key == "/b.key"
    for url in ("sqlite:////x.db", "sqlite:///:memory:", "postgresql://here/usage"):
        found = read(f"tenancy: {{tenants: {{x: {{}}}}, ledger: '{url}'}}")
        assert found.tenancy.ledger == url
    assert read("tenancy: {tenants: {x: {}}, ledger: null}").tenancy.ledger is None


@pytest.mark.parametrize(
    ("text", "doubt"),
    [
        ("server: {host: 0.0.0.0}", "who asks it for what and unload its models"),
        ("server: {host: 0.0.0.0, admin: {can_load: false}}", "see who asks it for what; set"),
        (
            "server: {admin: {port: 0, host: 0.0.0.0}}\ntenancy: {tenants: {x: {}}, anonymous: x}",
            "management asks for no key",
        ),
        (
            "server: {admin: {port: 0, host: 0.0.0.0}}",
            "server.admin.host is `0.0.0.0` and management asks for no key",
        ),
        (
            f"server: {{admin: {{port: 0, host: 0.0.0.0, keys: [{{hash: '{KEY}'}}]}}}}",
            "server.admin.host is `0.0.0.0` and there is no server.tls",
        ),
        ("tenancy: {tenants: {x: {}}, anonymous: x}", "it is refused, /metrics included"),
        ("tenancy: {tenants: {x: {share: 2}}}", "policy `priority` does not know"),
        ("tenancy: {places: 4, tenants: {x: {reserve: 0.2}}}", "of 4 places, which is none"),
        (
            f"server: {{host: 0.0.0.0, admin: {{keys: [{{hash: '{KEY}'}}]}}}}",
            "keys are sent so that whoever is on the way can read them",
        ),
        ("tenancy: {tenants: {x: {}}}", "tenant `x` has no keys, so nobody can be it"),
        (
            "tenancy: {tenants: {x: {reserve: 0.5}}, anonymous: x}",
            "tenant `x` has a reserve, which nothing keeps",
        ),
    ],
)
def test_what_is_probably_not_meant_is_warned_of(read, text, doubt):
    """And the same at home is not."""
    assert any(doubt in warning for warning in warnings_of(read(text)))
    admin = f"{{keys: [{{hash: '{KEY}'}}]}}"
    tenancy = "tenancy: {tenants: {x: {}}, anonymous: x}"
    quiet = read(f"server: {{host: localhost, admin: {admin}}}\n{tenancy}")
    assert not any(doubt in warning for warning in warnings_of(quiet))


@pytest.mark.parametrize(
    "text",
    [
        "tenancy: {tenants: {x: {keys: [{hash: hwk_secret}]}}}",
        "tenancy: {tenants: {x: {keys: [hwk_secret]}}}",
        "tenancy: {tenants: {x: {keys: hwk_secret}}}",
        "tenancy: {tenants: {x: {keys: {hash: hwk_secret}}}}",
        "tenancy: {tenants: {x: {keys: [{hash: a secret of our own}]}}}",
        "tenancy: {tenants: {x: {keys: [a secret of our own]}}}",
        "tenancy: {tenants: {x: hwk_secret}}",
        "server: {admin: {keys: hwk_secret}}",
        "server: {admin: hwk_secret}",
        "tenancy: {tenants: {x: {}}, ledger: {url: a secret of our own}}",
    ],
)
def test_key_that_is_written_in_a_wrong_place_is_not_repeated_in_the_error(read, text):
    """Errors go to logs, and people paste what they have."""
    with pytest.raises(ConfigError) as raised:
        read(text)
    said = "".join(traceback.format_exception_only(raised.value)) + str(raised.value.hint)
    assert "secret" not in said


@pytest.mark.parametrize(
    "origin", ["https://a.example.com/", "a.example.com", "https://ä.example.com", "null"]
)
def test_origin_that_no_browser_sends_is_refused(read, origin):
    """It would never be the same as one that it sends."""
    with pytest.raises(ConfigError, match="is no origin"):
        read(f"server: {{cors_origins: ['{origin}']}}")
    assert read("server: {cors_origins: ['https://a.example.com:81', '*']}").server.cors_origins


@pytest.mark.parametrize("host", ["a.example.com:80", "A.example.com", "http://a", "*", "a..b", ""])
def test_host_that_no_browser_names_is_refused(read, host):
    """It is compared with what a header says, in lower case and without its port."""
    with pytest.raises(ConfigError, match="is no name such as"):
        read(f"server: {{admin: {{hosts: ['{host}']}}}}")
    found = read("server: {admin: {hosts: [gpu-1.example.com, headway.local]}}")
    assert found.server.admin.hosts == ("gpu-1.example.com", "headway.local")


def test_reserves_of_all_that_there_is_are_not_too_many(read):
    """Whatever a computer makes of their fractions."""
    reserves = {"a": 0.15, "b": 0.55, "c": 0.2, "d": 0.1}
    tenants = ", ".join(f"{name}: {{reserve: {ratio}}}" for name, ratio in reserves.items())
    assert read(f"tenancy: {{tenants: {{{tenants}}}}}")
