"""What is recorded for the prediction benchmark, and the process that records it.

Knows set-ups, loads and seeds, and how to start the recorder and stop it. Never what is made of
the recordings.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from msgspec import Struct

from headway.bench.orders import NEWS, Order, Progress, Recorded, RunOrder, SoloMeasured
from headway.bench.plan import Shift
from headway.bench.process import have_carried_out
from headway.bench.setups import find_setup
from headway.units import NS_PER_S

__all__ = ["FULL", "QUICK", "Campaign", "News", "OnNews", "carry_out", "journals_of", "orders_of"]

News = SoloMeasured | Progress | Recorded
OnNews = Callable[[News], None]

_SHIFT_LOADS: Final[dict[Shift, tuple[float, float]]] = {
    Shift.NEW_MODEL: (0.75, 0.75),
    Shift.RATE: (0.45, 0.9),
    Shift.SLOTS: (0.75, 0.75),
    Shift.CORE: (0.45, 0.45),
}
"""Offered work over what the cores can do, before and after."""


class Campaign(Struct, frozen=True, kw_only=True):
    """Everything that is to be recorded."""

    configs: tuple[str, ...]
    """Set-ups; the first has every utilisation and seed, the others the two highest of the
    utilisations, once."""
    utilisations: tuple[float, ...]
    seeds: int
    """As many, from 1."""
    duration_ns: int
    """Of one recording."""
    others_duration_ns: int
    """Of one under another set-up than the first."""
    shifts: tuple[Shift, ...] = ()
    shift_seeds: int = 1
    shift_duration_ns: int = 20 * NS_PER_S
    solo_rounds: int = 20
    capacity_ns: int = 5 * NS_PER_S
    tries_max: int = 2
    """Of a recording that other programs disturbed."""

    @property
    def recordings_count(self) -> int:
        """How many journals it leaves."""
        first = self.seeds * len(self.utilisations) + self.shift_seeds * len(self.shifts)
        return first + (len(self.configs) - 1) * min(2, len(self.utilisations))


FULL: Final = Campaign(
    configs=("pinned", "unpinned", "per_model", "intra2", "intra2_spinning"),
    utilisations=(0.60, 0.75, 0.85, 0.95),
    seeds=3,
    duration_ns=25 * NS_PER_S,
    others_duration_ns=15 * NS_PER_S,
    shifts=(Shift.NEW_MODEL, Shift.RATE, Shift.SLOTS, Shift.CORE),
    shift_seeds=2,
)
QUICK: Final = Campaign(
    configs=("pinned",),
    utilisations=(0.85,),
    seeds=1,
    duration_ns=15 * NS_PER_S,
    others_duration_ns=10 * NS_PER_S,
    solo_rounds=8,
    capacity_ns=4 * NS_PER_S,
    tries_max=1,
)


def orders_of(campaign: Campaign, folder: Path, cache: Path) -> list[Order]:
    """One order for each set-up.

    Args:
        campaign: what is recorded.
        folder: where journals go, named after set-up, load and seed.
        cache: where the fetched models are.

    Raises:
        ConfigError: a set-up that does not exist.
    """
    return [
        Order(
            setup=find_setup(name),
            cache=str(cache),
            solo_rounds=campaign.solo_rounds,
            capacity_ns=campaign.capacity_ns,
            tries_max=campaign.tries_max,
            runs=tuple(_runs(campaign, name, folder, is_first=name == campaign.configs[0])),
        )
        for name in campaign.configs
    ]


def journals_of(orders: Sequence[Order]) -> list[Path]:
    """Every journal that the orders leave."""
    return [Path(run.path) for order in orders for run in order.runs]


def carry_out(order: Order, on_news: OnNews) -> None:
    """Have a process record; it is ended if this one is interrupted.

    Raises:
        HeadwayError: it failed.
    """
    have_carried_out(
        "headway.bench.recorder",
        order,
        NEWS,
        on_news,
        what=f"the recorder of set-up `{order.setup.name}`",
    )


def _runs(campaign: Campaign, name: str, folder: Path, *, is_first: bool) -> list[RunOrder]:
    if not is_first:
        loads = sorted(campaign.utilisations)[-2:]
        return [_run(folder, name, load, 1, campaign.others_duration_ns) for load in loads]
    runs = [
        _run(folder, name, load, seed, campaign.duration_ns)
        for seed in range(1, campaign.seeds + 1)
        for load in campaign.utilisations
    ]
    for seed in range(1, campaign.shift_seeds + 1):
        runs += [_shift_run(folder, name, shift, seed, campaign) for shift in campaign.shifts]
    return runs


def _run(folder: Path, name: str, utilisation: float, seed: int, duration_ns: int) -> RunOrder:
    return RunOrder(
        path=str(folder / f"{name}-u{utilisation * 100:.0f}-s{seed}.jsonl"),
        utilisation=utilisation,
        seed=seed,
        duration_ns=duration_ns,
    )


def _shift_run(folder: Path, name: str, shift: Shift, seed: int, campaign: Campaign) -> RunOrder:
    before, after = _SHIFT_LOADS[shift]
    return RunOrder(
        path=str(folder / f"{name}-{shift}-s{seed}.jsonl"),
        utilisation=before,
        utilisation_after=after,
        seed=seed,
        duration_ns=campaign.shift_duration_ns,
        shift=shift,
    )
