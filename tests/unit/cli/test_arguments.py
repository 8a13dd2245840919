"""Arguments that several verbs share: policies with settings."""

import argparse

import pytest

from headway.cli import EXIT_USAGE, main
from headway.cli.arguments import policy_flag, policy_flags


def test_policy_is_named_alone_or_with_settings() -> None:
    """Numbers and truths are read as such, everything else is text for the configuration."""
    assert policy_flag("edf").settings == {"kind": "edf"}
    assert policy_flag("batch3:high_max=1,class_slots=false").settings == {
        "kind": "batch3",
        "high_max": 1,
        "class_slots": False,
    }
    assert policy_flag("edf:a=0.5,b=20ms").settings == {"kind": "edf", "a": 0.5, "b": "20ms"}
    assert policy_flag("static-cap:low_max=2").text == "static-cap:low_max=2"


@pytest.mark.parametrize(
    "text", ["best", "", "edf:", "edf:a", "edf:a=", "edf:=1", "edf:a=1,a=2", "edf:a=1,"]
)
def test_policy_that_cannot_be_read_is_refused(text: str) -> None:
    """An unknown name, and settings without a key or a value, or twice."""
    with pytest.raises(argparse.ArgumentTypeError):
        policy_flag(text)


def test_list_of_policies_is_split_between_them() -> None:
    """A comma before a setting goes on with the policy, any other begins the next."""
    flags = policy_flags("fifo,static-cap:low_max=2,class_slots=false,batch3:low_min=7,edf")
    assert [flag.text for flag in flags] == [
        "fifo",
        "static-cap:low_max=2,class_slots=false",
        "batch3:low_min=7",
        "edf",
    ]


@pytest.mark.parametrize("line", ["config show --policy best", "config show --policy fifo:x=1"])
def test_wrong_policy_on_the_command_line_is_bad_usage(
    line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A name or a setting that does not exist ends with exit code 2 and what there is."""
    assert main(line.split()) == EXIT_USAGE
    said = capsys.readouterr().err
    assert "static-cap" in said or "`x` is not a setting of policy" in said


def test_settings_of_the_command_line_are_shown(capsys: pytest.CaptureFixture[str]) -> None:
    """`headway config show` has them, with where they came from."""
    assert main(["config", "show", "--policy", "static-cap:low_max=3"]) == 0
    assert "policy.low_max" in capsys.readouterr().out
