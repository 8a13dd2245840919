"""A plan's file: what `headway plan` prints is what is read."""

import json
from pathlib import Path

import pytest
from tests.sharing_plans import a_mixed_plan, plan_text

from headway.errors import ConfigError
from headway.rollout import read_plan


def test_plan_comes_back_as_it_was(tmp_path: Path) -> None:
    """Every field of every part."""
    path = tmp_path / "plan.json"
    path.write_text(plan_text(a_mixed_plan()))
    assert read_plan(path) == a_mixed_plan()


def test_files_that_hold_no_plan_are_refused(tmp_path: Path) -> None:
    """With what is wrong, and how a plan is made."""
    path = tmp_path / "plan.json"
    with pytest.raises(ConfigError, match=r"cannot read .*plan\.json.*: No such file"):
        read_plan(path)
    whole = json.loads(plan_text(a_mixed_plan()))
    whole["plan"]["devices"][0]["mode"] = "sometimes"
    broken = [
        ("models: []", "is no plan: JSON is malformed"),
        ("{}", "is no plan: Object missing required field `plan`"),
        (json.dumps({"plan": {}}), r"missing required field .*\$\.plan"),
        (json.dumps(whole), r"'sometimes' - at `\$\.plan\.devices\[0\]\.mode`"),
    ]
    for text, message in broken:
        path.write_text(text)
        with pytest.raises(ConfigError, match=message) as caught:
            read_plan(path)
        assert "--format json > PLAN.json" in str(caught.value.hint)
