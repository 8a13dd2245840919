"""The command line: verbs, exit codes, and what goes to which stream."""

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from headway import __version__
from headway.cli import EXIT_FAILED, EXIT_OK, EXIT_USAGE, VERBS, main, parser_of
from headway.config import config_schema
from headway.config.environment import environment
from headway.errors import HeadwayError

ROOT = Path(__file__).parents[3]
RUN_HERE = (
    "config",
    "generate text",
    "monitoring dashboards",
    "monitoring rules",
    "monitoring scrape",
    "plan policy",
    "version",
)
"""Verbs whose example needs no server, no file of a run and no minute; the others are parsed."""


@pytest.fixture
def in_root(monkeypatch: pytest.MonkeyPatch) -> None:
    """Examples name files from the root of the repository."""
    monkeypatch.chdir(ROOT)
    for name in [name for name in environment() if name.startswith("HEADWAY_")]:
        monkeypatch.delenv(name)


def example_of(verb: str) -> list[str]:
    """The words of the example with which a verb's help ends."""
    _, _, example = parser_of(verb).format_help().rpartition("example:\n")
    program, *words = shlex.split(example)
    assert (program, words[: len(verb.split())]) == ("headway", verb.split())
    return words


@pytest.mark.parametrize("verb", list(VERBS))
def test_example_of_every_verb_parses(verb: str) -> None:
    """The help of each verb ends with one command line that its own parser takes."""
    words = example_of(verb)
    assert parser_of(verb).parse_args(words[len(verb.split()) :]) is not None


@pytest.mark.usefixtures("in_root")
@pytest.mark.parametrize("verb", RUN_HERE)
def test_example_of_quick_verbs_runs(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    """What the help shows can be typed and works."""
    assert main(example_of(verb)) == EXIT_OK
    assert capsys.readouterr().out


@pytest.mark.parametrize("verb", list(VERBS))
def test_help_goes_to_stdout(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Help that was asked for is data, and exits with 0."""
    assert main([*verb.split(), "--help"]) == EXIT_OK
    assert f"usage: headway {verb}" in capsys.readouterr().out


@pytest.mark.parametrize("verb", list(VERBS))
def test_flags_are_long(verb: str) -> None:
    """No verb has a flag of one letter."""
    options = [option for action in parser_of(verb)._actions for option in action.option_strings]
    assert options
    assert all(option.startswith("--") for option in options)


def test_overview_lists_every_verb(capsys: pytest.CaptureFixture[str]) -> None:
    """`headway --help` names each verb, and `headway` alone does so on stderr with exit code 2."""
    assert main(["--help"]) == EXIT_OK
    listed = capsys.readouterr().out
    assert all(f"  {verb} " in listed for verb in VERBS)
    assert main([]) == EXIT_USAGE
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == ("", listed)


def test_unknown_verb_is_bad_usage(capsys: pytest.CaptureFixture[str]) -> None:
    """A mistyped verb ends in exit code 2 and the nearest one as a hint."""
    assert main(["serv"]) == EXIT_USAGE
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "error: there is no verb `serv`\nhint: did you mean `serve`?" in captured.err


@pytest.mark.parametrize(
    "line",
    [
        "config shwo",
        "config check",
        "version --format yaml",
        "serve",
        "serve a.yaml --port -1",
        "load http://x --rate 0",
        "load http://x --rate nan",
        "load http://x --duration 10",
        "load http://x --duration 0s",
        "sim a.yaml --policy best",
        "demo --qui",
        "demo --against fifo",
        "demo --ui --keep",
        "demo --ui --format json",
    ],
)
def test_bad_usage_is_two(line: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A wrong argument is an error with a hint on stderr and exit code 2; flags are not guessed."""
    assert main(line.split()) == EXIT_USAGE
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("error: ")
    assert "hint: " in captured.err


def test_failure_is_one(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Any other error of headway is printed without a traceback, with exit code 1."""

    def broken(_args: object) -> int:
        raise HeadwayError("it broke", hint="mend it")

    monkeypatch.setattr("headway.cli.version.run", broken)
    assert main(["version"]) == EXIT_FAILED
    assert capsys.readouterr().err == "error: it broke\nhint: mend it\n"


def test_interruption_is_one(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Ctrl-C ends a verb without a traceback."""

    def interrupted(_args: object) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr("headway.cli.version.run", interrupted)
    assert main(["version"]) == EXIT_FAILED
    assert capsys.readouterr().err == "error: interrupted\n"


def test_errors_are_coloured_only_on_a_terminal_that_wants_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Red for a terminal, plain text with NO_COLOR."""
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert main(["serv"]) == EXIT_USAGE
    assert capsys.readouterr().err.startswith("\x1b[1;31merror:\x1b[0m there")
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    monkeypatch.setenv("NO_COLOR", "1")
    assert main(["serv"]) == EXIT_USAGE
    assert capsys.readouterr().err.startswith("error: there")


def test_version_is_json_for_programs(capsys: pytest.CaptureFixture[str]) -> None:
    """The keys are stable, and what is not installed is null."""
    assert main(["version", "--format", "json"]) == EXIT_OK
    found = json.loads(capsys.readouterr().out)
    assert list(found) == ["headway", "python", "platform", "onnxruntime", "torch"]
    assert found["headway"] == __version__
    assert main(["--version"]) == EXIT_OK
    assert capsys.readouterr().out.startswith("what ")


def test_version_imports_nothing_big() -> None:
    """A verb that only prints does not pay for the configuration, arrays or back ends."""
    code = (
        "import sys; from headway.cli import main; main(['version']);"
        "print(sorted({'pydantic', 'yaml', 'numpy', 'onnxruntime', 'torch', 'asyncio'}"
        " & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={"PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.splitlines()[-1] == "[]"


@pytest.mark.parametrize("line", ["config schema", "version"])
def test_closed_pipe_ends_quietly(line: str) -> None:
    """`headway config schema | head` prints no traceback, however much or little there was."""
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        [sys.executable, "-m", "headway", *line.split()],
        env={"PYTHONPATH": str(ROOT / "src")},
        stdout=writer,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    os.close(writer)
    assert (done.returncode, done.stderr) == (EXIT_FAILED, "")


@pytest.mark.usefixtures("in_root")
def test_config_show_says_where_from(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every value is shown with the flag, variable, line or default that it came from."""
    monkeypatch.setenv("HEADWAY_SERVER__GRACE", "5s")
    line = "config show examples/serve.yaml --policy edf"
    assert main(line.split()) == EXIT_OK
    rows = {words[0]: words[1:] for words in map(str.split, capsys.readouterr().out.splitlines())}
    assert rows["setting"] == ["value", "from"]
    assert rows["policy.kind"] == ["edf", "--policy"]
    assert rows["server.grace"] == ["5s", "HEADWAY_SERVER__GRACE"]
    assert rows["tiers.interactive.budget"][1].startswith("examples/serve.yaml:")
    assert rows["server.keep_alive"] == ["75s", "default"]
    assert main([*line.split(), "--format", "json"]) == EXIT_OK
    data = json.loads(capsys.readouterr().out)
    assert data["config"]["policy"] == {"kind": "edf", "class_slots": True}
    assert data["sources"]["server.grace"] == "HEADWAY_SERVER__GRACE"


@pytest.mark.usefixtures("in_root")
def test_config_show_needs_no_file(capsys: pytest.CaptureFixture[str]) -> None:
    """Without a file the defaults are shown."""
    assert main(["config", "show"]) == EXIT_OK
    assert "models" in capsys.readouterr().out


@pytest.mark.usefixtures("in_root")
def test_config_check_is_silent_on_stdout(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A good file is praised on stderr, doubts are warnings, and JSON has both."""
    path = tmp_path / "serve.yaml"
    path.write_text("models: [{name: a, path: a.onnx}]\n")
    assert main(["config", "check", str(path)]) == EXIT_OK
    captured = capsys.readouterr()
    assert captured.out == ""
    warning, praise = captured.err.splitlines()
    assert warning.startswith("warning: model `a`: there is no file ")
    assert praise == "ok: models a; tiers standard; policy priority"
    (tmp_path / "a.onnx").touch()
    assert main(["config", "check", str(path), "--format", "json"]) == EXIT_OK
    assert json.loads(capsys.readouterr().out) == {"is_valid": True, "models": 1, "warnings": []}


@pytest.mark.usefixtures("in_root")
def test_config_check_prints_every_problem(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit code 2, and one `error:` line with file and line for each thing that is wrong."""
    path = tmp_path / "serve.yaml"
    path.write_text("server:\n  prot: 1\n  grace: soon\n")
    assert main(["config", "check", str(path)]) == EXIT_USAGE
    found = [line for line in capsys.readouterr().err.splitlines() if line.startswith("error: ")]
    assert [line.split(": ")[1:3] for line in found] == [
        [f"{path}:3", "server.grace"],
        [f"{path}:2", "server.prot"],
    ]


def test_config_schema_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    """The schema goes to stdout, ready for an editor."""
    assert main(["config", "schema"]) == EXIT_OK
    assert json.loads(capsys.readouterr().out) == config_schema()
