"""Log lines: one JSON object each for machines, short words for people."""

import io
import json
import logging
import re

import pytest

from headway.observe import configure_logging


@pytest.fixture(autouse=True)
def _log_as_before():
    root = logging.getLogger("headway")
    before = (root.handlers[:], root.level, root.propagate)
    yield
    root.handlers[:], root.level, root.propagate = before


class Terminal(io.StringIO):
    def isatty(self):
        return True


def logged(format_name, stream=None, level="info", name="headway.test", error=None, **extra):
    stream = io.StringIO() if stream is None else stream
    configure_logging(format_name, level, stream)
    log = logging.getLogger(name)
    log.debug("hidden")
    log.info("%d models", 3, extra=extra, exc_info=error)
    log.warning("careful")
    return stream.getvalue().splitlines()


def test_json_lines_hold_what_machines_want():
    """Time, level, logger and message; whatever `extra` brought stands beside them."""
    first, second = (json.loads(line) for line in logged("json", model="echo", rows=2))
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}\+00:00", first.pop("time"))
    assert first == {
        "level": "info",
        "logger": "headway.test",
        "message": "3 models",
        "model": "echo",
        "rows": 2,
    }
    assert second["level"] == "warning"


def test_json_takes_any_value():
    """What JSON does not know is written as text; a line never fails."""
    [first, _] = logged("json", what=ValueError("x"), where=io.StringIO)
    assert json.loads(first)["what"] == "x"


def test_json_line_with_an_error_is_still_one_line():
    """The traceback is a field."""
    [first, _] = logged("json", error=ValueError("broken"))
    assert json.loads(first)["error"].endswith("ValueError: broken")


def test_human_lines_are_short():
    """Time of day and message; the level only where it matters."""
    first, second = logged("human")
    assert re.fullmatch(r"\d\d:\d\d:\d\d 3 models", first)
    assert re.fullmatch(r"\d\d:\d\d:\d\d warning: careful", second)


def test_human_lines_show_the_traceback_below():
    """It is for reading."""
    lines = logged("human", error=ValueError("broken"))
    assert lines[1] == "ValueError: broken"


def test_auto_is_human_on_a_terminal_and_json_elsewhere():
    """Nobody has to choose."""
    assert "{" not in logged("auto", Terminal())[0]
    assert json.loads(logged("auto")[0])["message"] == "3 models"


def test_level_is_the_least_that_is_written():
    """And configuring again replaces what was there."""
    assert len(logged("human", level="debug")) == 3
    assert len(logged("human", level="warning")) == 1
