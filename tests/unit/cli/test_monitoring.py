"""`headway monitoring`: files on stdout or in a folder, settings as flags."""

import json
from pathlib import Path

import pytest
import yaml

from headway.cli import EXIT_FAILED, EXIT_OK, EXIT_USAGE, main
from headway.cli.monitoring_rules import flag_of, written
from headway.monitoring import dashboards, settings_of

ROOT = Path(__file__).parents[3]


def test_committed_files_are_those_of_the_defaults(capsys: pytest.CaptureFixture[str]) -> None:
    """Whoever runs the command without flags gets what is under deploy/."""
    for words, path in (
        ("rules", "prometheus/headway.rules.yaml"),
        ("rules --as kubernetes", "kubernetes/prometheusrule.yaml"),
        ("scrape", "prometheus/scrape.yaml"),
        ("scrape --as kubernetes", "kubernetes/servicemonitor.yaml"),
        ("dashboards --name devices", "grafana/headway-devices.json"),
    ):
        assert main(["monitoring", *words.split()]) == EXIT_OK
        assert capsys.readouterr().out == (ROOT / "deploy" / path).read_text("utf-8")


def test_thresholds_are_flags(capsys: pytest.CaptureFixture[str]) -> None:
    """Durations and numbers, written as elsewhere."""
    flags = "--window 10s --pending 1s --queue-age-ratio-max 0.8 --lag-max 100ms --job mine"
    assert main(["monitoring", "rules", *flags.split()]) == EXIT_OK
    text = capsys.readouterr().out
    groups = yaml.safe_load(text)["groups"]
    rules = {rule.get("alert"): rule for group in groups for rule in group["rules"]}
    assert "0.8 * job_tier" in rules["HeadwayQueueOld"]["expr"]
    assert "[10s]" in rules["HeadwaySchedulerSlow"]["expr"]
    assert rules["HeadwaySchedulerSlow"]["expr"].endswith("> 0.1")
    assert rules["HeadwaySchedulerSlow"]["for"] == "1s"
    assert rules["HeadwayServerDown"]["expr"] == 'up{job="mine"} == 0'


def test_defaults_in_the_help_can_be_given(capsys: pytest.CaptureFixture[str]) -> None:
    """As the help and the reference write them, they make the file that no flags make."""
    words = [
        word
        for setting in settings_of()
        if setting.default != ""
        for word in (flag_of(setting.name), written(setting))
    ]
    assert main(["monitoring", "rules"]) == EXIT_OK
    plain = capsys.readouterr().out
    assert main(["monitoring", "rules", *words]) == EXIT_OK
    assert capsys.readouterr().out == plain
    assert "720h" in words


@pytest.mark.parametrize(
    "line",
    [
        "rules --window soon",
        "rules --fill-ratio-min -1",
        "rules --latency-quantile 2",
        "rules --memory-ratio-max 90",
        'scrape --job my"job',
        "rules --as yaml",
        "dashboards --name nothing",
        "dashboards --name overview --out x",
    ],
)
def test_wrong_flags_are_bad_usage(line: str, capsys: pytest.CaptureFixture[str]) -> None:
    """With an error and a hint, and nothing on stdout."""
    assert main(["monitoring", *line.split()]) == EXIT_USAGE
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "hint: " in captured.err


def test_dashboards_are_written_to_a_folder(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One file each, the folder is made; without a folder they are listed."""
    out = tmp_path / "deep" / "here"
    assert main(["monitoring", "dashboards", "--out", str(out)]) == EXIT_OK
    names = {page.name for page in dashboards()}
    assert {path.name for path in out.iterdir()} == {f"headway-{name}.json" for name in names}
    for path in out.iterdir():
        assert json.loads(path.read_text("utf-8"))["panels"]
    assert capsys.readouterr().out == ""
    assert main(["monitoring", "dashboards"]) == EXIT_OK
    listed = capsys.readouterr().out
    assert all(name in listed for name in names)


def test_folder_that_cannot_be_made_fails(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A file in its place is an error with a name, no traceback."""
    (tmp_path / "here").write_text("a file")
    assert main(["monitoring", "dashboards", "--out", str(tmp_path / "here")]) == EXIT_FAILED
    assert "cannot write" in capsys.readouterr().err
