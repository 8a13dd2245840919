"""What the demo shows, read as plain text."""

import io

import pytest
from rich.console import Console

from headway.core import ModelName, TenantId, TierName
from headway.demo import Screen
from headway.demo.outcome import Turn
from headway.demo.scenario import Scenario
from headway.report import summarise
from headway.units import NS_PER_MS, NS_PER_S
from headway.workload import Outcome, Sample


class Screens:
    """A screen that writes into two strings."""

    def __init__(self, *, is_terminal: bool = False, width: int = 120) -> None:
        self.words, self.data = io.StringIO(), io.StringIO()
        self.screen = Screen(
            *(
                Console(file=file, width=width, force_terminal=is_terminal, color_system=None)
                for file in (self.words, self.data)
            )
        )


def a_turn(policy: str) -> Turn:
    samples = [
        Sample(
            model=ModelName("silero-vad"),
            tier=TierName("speech"),
            tenant=TenantId("default"),
            intended_at_ns=0,
            sent_at_ns=0,
            done_at_ns=10 * NS_PER_MS,
            outcome=outcome,
            budget_ns=50 * NS_PER_MS,
        )
        for outcome in (Outcome.COMPLETED, Outcome.REJECTED)
    ]
    return Turn(
        policy=policy,
        runs=[samples],
        summary=summarise(samples, duration_ns=NS_PER_S),
    )


def test_step_without_terminal_prints_one_line() -> None:
    """In a file nothing moves: a step is one line, when it has ended."""
    screens = Screens()
    with screens.screen.step("models") as step:
        step.note, step.done = "on the way", 0.5
        step.result = "6 models"
    assert screens.words.getvalue().split() == ["✓", "models", "6", "models"]


def test_step_on_a_terminal_shows_the_counts() -> None:
    """While it lasts, a bar and the number of requests that were let down."""
    screens = Screens(is_terminal=True)
    with screens.screen.step("fifo") as step:
        step.done, step.tiers = 0.5, {"speech": (10, 3)}
        step.result = "over"
    assert "3 of 10 not in time" in screens.words.getvalue()


def test_step_that_fails_claims_nothing() -> None:
    """Where an error ends a step, no line says that it was done."""
    screens = Screens()
    with pytest.raises(RuntimeError), screens.screen.step("models"):
        raise RuntimeError
    assert screens.words.getvalue() == ""


def test_turns_are_data() -> None:
    """The table goes to the data console, with both policies and the share of violations."""
    screens = Screens()
    screens.screen.show_turns([a_turn("fifo"), a_turn("priority")])
    table = screens.data.getvalue()
    assert screens.words.getvalue() == ""
    assert table.count("50 %") == 2
    for word in ("speech", "within 50ms", "fifo", "priority", "10.0"):
        assert word in table


def test_turns_fit_eighty_columns() -> None:
    """Nothing of the result is cut off on a small terminal."""
    screens = Screens(width=80)
    screens.screen.show_turns([a_turn("fifo"), a_turn("priority")])
    assert "…" not in screens.data.getvalue()


@pytest.mark.parametrize("width", [80, 120])
def test_scenario_fits_its_terminal(width: int) -> None:
    """What the models do is told where there is room for it, and nothing is cut off."""
    screens = Screens(width=width)
    scenario = Scenario(solo_ns={"silero-vad": NS_PER_MS, "minilm": 10 * NS_PER_MS}, core_count=2)
    screens.screen.show_scenario(scenario, scenario.rates_rps(1.0))
    shown = screens.words.getvalue()
    assert "…" not in shown
    assert ("turn sentences into vectors" in shown) == (width == 120)
