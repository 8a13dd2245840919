"""What an operator may set about the alerts: thresholds, windows, where pages are kept.

Knows numbers and why each is what it is; the reasons are data, because the command line and the
reference page repeat them.
"""

from dataclasses import dataclass, field, fields
from typing import Final, NamedTuple, TypeVar

from headway.monitoring.promql import number
from headway.units import NS_PER_MS, NS_PER_S

__all__ = ["AlertSettings", "Burn", "Setting", "settings_of"]

_MINUTE_NS: Final = 60 * NS_PER_S
_HOUR_NS: Final = 60 * _MINUTE_NS
_DAY_NS: Final = 24 * _HOUR_NS
_WHY: Final = "why"
_PARTS: Final = (
    *("utilisation_ratio_min", "slots_busy_ratio_min", "memory_ratio_max", "fill_ratio_min"),
    *("cut_ratio_min", "coverage_ratio_min"),
)
"""Parts of a whole. The other ratios may be above 1: a mean may be off by more than all of it."""

_T = TypeVar("_T")


class Burn(NamedTuple):
    """How fast an error budget may be spent before somebody is told."""

    factor: float
    """Times as fast as would spend exactly all of it in its period."""
    long_ns: int
    """What is looked at: long enough that a short burst alone tells nobody."""
    short_ns: int
    """What must be as bad as well, so that the alert ends soon after its cause."""


class Setting(NamedTuple):
    """One of the settings, for whoever lists them."""

    name: str
    default: float | int | str
    why: str


def _set_to(default: _T, why: str) -> _T:
    """A default with its reason."""
    return field(default=default, metadata={_WHY: why})


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertSettings:
    """Everything that the rules take from outside. Each reason stands beside its default."""

    job: str = _set_to("headway", "name of the scrape job of the servers, as in scrape_configs")
    runbooks: str = _set_to(
        "docs/runbooks",
        "where the runbook pages are kept; each alert links to ADDRESS/ALERT.md. The default is "
        "their place in the repository: give the address under which your people read them",
    )
    grafana: str = _set_to(
        "", "address of Grafana; with it each alert links to its dashboard, without it to none"
    )
    window_ns: int = _set_to(
        5 * _MINUTE_NS, "what rates and means are taken over: twenty scrapes of 15 s"
    )
    pending_ns: int = _set_to(
        5 * _MINUTE_NS, "how long something must hold before it is told: one burst is no trouble"
    )
    pending_urgent_ns: int = _set_to(
        _MINUTE_NS, "the same for what cannot wait: a server that is gone, a queue that grows old"
    )
    utilisation_ratio_min: float = _set_to(
        0.30, "below it a device that has work to do is idle for a reason worth finding"
    )
    waiting_min: float = _set_to(
        1.0,
        "requests that wait for it on average, from which on an idle device is one that has work",
    )
    slots_busy_ratio_min: float = _set_to(
        0.70, "part of the slots' time in batches, from which on an idle device is one that serves"
    )
    memory_ratio_max: float = _set_to(
        0.90, "above it the next model, or the next large batch, may not fit"
    )
    latency_quantile: float = _set_to(
        0.99, "which quantile of the latency has to be within the budget"
    )
    requests_min: float = _set_to(
        100, "requests in the window below which a 99th percentile is that of their slowest one"
    )
    queue_age_ratio_max: float = _set_to(
        0.50,
        "part of its budget that the oldest may wait: with half of it gone, little can be done",
    )
    fill_ratio_min: float = _set_to(
        0.70, "below it batches are smaller than what waits would allow, and throughput is lost"
    )
    cut_ratio_min: float = _set_to(
        0.30, "part of the batches that left some of their model waiting; with fewer, load is low"
    )
    budget_period_ns: int = _set_to(
        30 * _DAY_NS,
        "period of the error budget. The windows are parts of it: at 30 days 1 h and 5 min at 14.4 "
        "times the even pace (2 % of the budget in an hour), 6 h and 30 min at 6 times (5 % in six "
        "hours), 3 days and 6 h at the even pace (10 % in three days)",
    )
    violations_min: float = _set_to(
        10, "violations in the long window below which a rate says nothing: one of three is 33 %"
    )
    predictor_window_ns: int = _set_to(
        30 * _MINUTE_NS, "what predictions are judged over: they settle again within minutes"
    )
    predictions_min: float = _set_to(
        100, "predictions in that window below which their coverage is chance"
    )
    coverage_ratio_min: float = _set_to(
        0.90, "part of the bounds that has to hold; predictor.confidence less some room for chance"
    )
    bias_ratio_max: float = _set_to(
        0.50, "how far the mean may be off to one side; margins then no longer make up for it"
    )
    error_ratio_max: float = _set_to(
        0.30, "median error of a batch's time; on mixed loads that it was made for it is about 0.1"
    )
    losses_max: float = _set_to(2, "workers that may be lost before it is taken for a loop")
    losses_window_ns: int = _set_to(
        10 * _MINUTE_NS, "in which they are counted: pauses between restarts grow to 10 s"
    )
    leak_window_ns: int = _set_to(
        _HOUR_NS,
        "over which memory has to grow, in nearly every sixth of it: a load is a step in one",
    )
    leak_ratio_min: float = _set_to(
        0.10, "growth an hour, as part of what is held, below which it is not called a leak"
    )
    leak_bytes_min: float = _set_to(
        float(64 << 20), "growth an hour in bytes below which it is not called a leak"
    )
    decision_ns_max: int = _set_to(
        5 * NS_PER_MS, "99th percentile of one decision; usual are some ten microseconds"
    )
    lag_ns_max: int = _set_to(
        20 * NS_PER_MS, "99th percentile of how late the scheduler is woken; usual is below 1 ms"
    )

    def __post_init__(self) -> None:
        """Refuse what no rule can be written with.

        Raises:
            ValueError: a value is out of range.
        """
        if not 0 < self.latency_quantile < 1:
            raise ValueError(f"latency_quantile `{self.latency_quantile}` is not between 0 and 1")
        for name in _PARTS:
            ratio = getattr(self, name)
            if not 0 < ratio <= 1:
                raise ValueError(f"{name} `{number(ratio)}` is not a part of 1: 30 % is 0.3")
        if set(self.job) & set('"\\\n') or not self.job:
            raise ValueError(f"job `{self.job}` cannot stand in a PromQL matcher")
        shortest_ns = {
            "window_ns": self.window_ns,
            "predictor_window_ns": self.predictor_window_ns,
            "losses_window_ns": self.losses_window_ns,
            "leak_window_ns": self.leak_part_ns,
            "budget_period_ns": self.burns[0].short_ns,
        }
        for name, length_ns in shortest_ns.items():
            if length_ns < NS_PER_MS:
                raise ValueError(f"{name} is too short: nothing can be looked at below 1 ms")

    @property
    def leak_part_ns(self) -> int:
        """The parts of the window in which memory has to grow: a sixth of it each."""
        return self.leak_window_ns // 6

    @property
    def burns(self) -> tuple[Burn, Burn, Burn]:
        """From the fastest to the slowest. A short window is a twelfth of its long one."""
        hour_ns = self.budget_period_ns // 720
        return (
            Burn(14.4, hour_ns, hour_ns // 12),
            Burn(6.0, 6 * hour_ns, hour_ns // 2),
            Burn(1.0, 72 * hour_ns, 6 * hour_ns),
        )


def settings_of() -> list[Setting]:
    """Every setting with its default and its reason, in the order in which they stand above."""
    usual = AlertSettings()
    return [
        Setting(each.name, getattr(usual, each.name), each.metadata[_WHY]) for each in fields(usual)
    ]
