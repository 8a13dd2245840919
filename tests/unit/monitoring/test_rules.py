"""The rules: what they ask for is there, and every setting is heeded."""

from dataclasses import fields, replace

import pytest
import yaml
from tests.metric_catalogue import CATALOGUE, problems_of, selected_in

from headway.monitoring import (
    AlertSettings,
    Form,
    Severity,
    alerts_of,
    rule_groups,
    rules_text,
    scrape_text,
    settings_of,
)
from headway.monitoring.promql import number, window
from headway.units import NS_PER_MS, NS_PER_S

MINUTE_NS = 60 * NS_PER_S
RULES = [(group.name, rule) for group in rule_groups() for rule in group.rules]
RECORDED = frozenset(rule.name for group in rule_groups() for rule in group.recordings)
OTHERS = {"job": "other", "runbooks": "https://x.example/book", "grafana": "https://x.example/g"}


@pytest.mark.parametrize(("group", "rule"), RULES, ids=[f"{g}/{r.name}" for g, r in RULES])
def test_rule_asks_for_what_is_exported(group, rule):
    """Every metric, with every label that it is chosen by, is one of the catalogue."""
    assert not list(problems_of(rule.expression, RECORDED)), group


def test_misspelt_metric_is_found():
    """The check that the others rely on sees names, labels and endings that do not exist."""
    assert list(problems_of("rate(headway_requsts_total[5m])", RECORDED))
    assert list(problems_of('headway_queue_depth{modle="m"}', RECORDED))
    assert list(problems_of("headway_latency_seconds", RECORDED))
    assert list(problems_of("headway_queue_depth_bucket", RECORDED))
    assert list(problems_of("sum by (modle) (rate(headway_batches_total[5m]))", RECORDED))
    assert not list(problems_of("sum by (le) (headway_latency_seconds_bucket)", RECORDED))
    assert not list(problems_of("sum by (model) (rate(headway_batches_total[5m]))", RECORDED))
    assert len(CATALOGUE) > 40


def test_recordings_are_read_and_recorded_before():
    """None is for nothing, and an alert reads what a rule before it or an earlier group says."""
    seen: set[str] = set()
    read: set[str] = set()
    for _, rule in RULES:
        asked = {name for name, _ in selected_in(rule.expression) if ":" in name}
        assert asked <= seen, rule.name
        read |= asked
        if rule.name in RECORDED:
            seen.add(rule.name)
    # This one is read by the description of an alert.
    assert RECORDED - read == {"job_model_tier:headway_latency_seconds:p99"}
    texts = [alert.description for alert in alerts_of()]
    assert any("job_model_tier:headway_latency_seconds:p99" in text for text in texts)


@pytest.mark.parametrize("setting", settings_of(), ids=lambda setting: setting.name)
def test_setting_reaches_the_rules(setting):
    """There is no flag that changes nothing."""
    default = setting.default
    other = OTHERS.get(setting.name, default if isinstance(default, str) else default / 2)
    changed = type(default)(other)
    usual = rules_text(AlertSettings())
    assert rules_text(replace(AlertSettings(), **{setting.name: changed})) != usual
    assert setting.why


@pytest.mark.parametrize(
    "wrong",
    [
        {"job": 'a"b'},
        {"job": ""},
        {"latency_quantile": 1.0},
        {"budget_period_ns": NS_PER_S},
        {"leak_window_ns": NS_PER_MS},
        {"window_ns": 0},
    ],
)
def test_settings_that_no_rule_can_have_are_refused(wrong):
    """A file that Prometheus would refuse, or that says something else, is not written."""
    with pytest.raises(ValueError, match=next(iter(wrong))):
        AlertSettings(**wrong)


def test_burns_are_those_of_a_month():
    """The windows and factors of Google's workbook, and shorter ones for a shorter period."""
    burns = AlertSettings().burns
    assert [(burn.factor, window(burn.long_ns), window(burn.short_ns)) for burn in burns] == [
        (14.4, "1h", "5m"),
        (6.0, "6h", "30m"),
        (1.0, "3d", "6h"),
    ]
    day = replace(AlertSettings(), budget_period_ns=24 * 60 * MINUTE_NS).burns[0]
    assert (window(day.long_ns), window(day.short_ns)) == ("2m", "10s")


def test_alerts_of_one_name_are_told_apart():
    """Each has a severity, a label of its own where it shares its name, and says its value."""
    alerts = alerts_of()
    told = [(alert.name, tuple(sorted(alert.labels.items()))) for alert in alerts]
    assert len(set(told)) == len(told)
    for alert in alerts:
        assert alert.severity in set(Severity)
        assert "\n" not in alert.summary
        assert "$value" in alert.description or alert.name in {
            "HeadwayNoServer",
            "HeadwayServerDown",
        }


def test_forms_say_the_same():
    """A PrometheusRule holds the groups that a file of rules holds; a ServiceMonitor its job."""
    settings = AlertSettings(grafana="https://grafana.example/")
    plain = yaml.safe_load(rules_text(settings, Form.PROMETHEUS))
    operator = yaml.safe_load(rules_text(settings, Form.KUBERNETES))
    assert operator["kind"] == "PrometheusRule"
    assert operator["spec"] == plain
    alerts = [rule for group in plain["groups"] for rule in group["rules"] if "alert" in rule]
    for alert in alerts:
        annotations = alert["annotations"]
        assert annotations["runbook_url"] == f"docs/runbooks/{alert['alert']}.md"
        assert annotations["dashboard_url"].startswith("https://grafana.example/d/headway-")
    urls = {alert["alert"]: alert["annotations"]["dashboard_url"] for alert in alerts}
    assert urls["HeadwayNoServer"].endswith("/d/headway-overview")
    assert urls["HeadwayUtilisationLow"].endswith(
        "/d/headway-devices?var-instance={{ $labels.instance | urlquery }}"
        "&var-device={{ $labels.device | urlquery }}"
    )
    scrape = yaml.safe_load(scrape_text(settings, ["a:1", "b:2"], Form.PROMETHEUS))
    (job,) = scrape["scrape_configs"]
    assert (job["job_name"], job["static_configs"]) == ("headway", [{"targets": ["a:1", "b:2"]}])
    monitor = yaml.safe_load(scrape_text(settings, [], Form.KUBERNETES))
    (name,) = monitor["spec"]["selector"]["matchLabels"].values()
    assert (monitor["kind"], name) == ("ServiceMonitor", settings.job)


def test_lengths_of_time_are_written_as_prometheus_reads_them():
    """From milliseconds to days, several units where one does not do."""
    written = {
        MINUTE_NS: "1m",
        90 * MINUTE_NS: "1h30m",
        72 * 60 * MINUTE_NS: "3d",
        1500 * NS_PER_MS: "1s500ms",
    }
    assert {length_ns: window(length_ns) for length_ns in written} == written
    with pytest.raises(ValueError, match="millisecond"):
        window(NS_PER_MS - 1)
    assert (number(1 - 0.99), number(14.4), number(6.0)) == ("0.01", "14.4", "6")


def test_settings_list_is_the_dataclass():
    """What the command line offers is all there is."""
    assert [setting.name for setting in settings_of()] == [f.name for f in fields(AlertSettings)]
