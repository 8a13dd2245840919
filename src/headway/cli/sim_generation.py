"""`headway sim` of a generating model: the same requests at every layout, compared."""

import argparse
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Final

from headway.cli.arguments import UsageError
from headway.cli.output import print_json, print_rich, say
from headway.units import NS_PER_S, format_bytes, format_duration

if TYPE_CHECKING:
    from rich.table import Table

    from headway.sim import FleetRun, GenerationScenario, Layout, TargetFigures

__all__ = ["run_generation"]

_OTHERS: Final = {
    "policy": "--policy",
    "predictor": "--predictor",
    "plots": "--plots",
    "journal": "--journal",
    "timeline": "--timeline",
}
"""Flags of scenarios whose models answer in one go."""


def run_generation(args: argparse.Namespace, scenario: "GenerationScenario") -> int:
    """Play every layout at every load and print what clients saw.

    Raises:
        UsageError: a flag that means nothing here, or nothing to play.
    """
    for name, flag in _OTHERS.items():
        if getattr(args, name):
            raise UsageError(
                f"`{flag}` is not for a scenario with an engine",
                hint="name `scheduler` and `layouts` in the file; --load, --seed and --traces help",
            )
    if not scenario.layouts:
        raise UsageError(
            f"`{args.scenario}` has no layouts to play",
            hint="give it some, such as {together: {kind: colocated, engines: 1}}",
        )
    if args.seeds > 1 and not scenario.is_generated:
        raise UsageError("a recorded trace is the same for every seed", hint="leave --seeds out")
    loads: list[float] = args.load or [1.0]
    seeds = range(scenario.seed, scenario.seed + args.seeds)
    say(_opening(args.scenario, scenario, seeds))
    rows = [
        _row(scenario.with_seed(seed).scaled(load), name, load)
        for load in loads
        for name in scenario.layouts
        for seed in seeds
    ]
    if args.format == "json":
        print_json(_plain(args.scenario, scenario, rows))
    else:
        print_rich(_table(scenario, rows), can_drop_columns=True)
    return 0


def _opening(path: str, scenario: "GenerationScenario", seeds: range) -> str:
    requests = f"{scenario.source.count:,} requests"
    whence = "generated" if scenario.is_generated else "recorded"
    names = ", ".join(scenario.layouts)
    seed = f"seed {seeds[0]}" if len(seeds) == 1 else f"seeds {seeds[0]} to {seeds[-1]}"
    return f"{path}: {requests}, {whence}, at each layout: {names}; {seed}"


def _row(scenario: "GenerationScenario", name: str, load: float) -> dict[str, object]:
    """One layout, played."""
    from headway.sim import target_figures

    layout = scenario.layouts[name]
    run = scenario.play(layout)
    say(f"{name} at {load:g} times the rate: {format_duration(run.makespan_ns)} of virtual time")
    by_tier = {
        terms.name: target_figures([each for each in run.samples if each.tier == terms.name])
        for terms in scenario.tiers
    }
    return {
        "layout": name,
        "load": load,
        "seed": scenario.seed,
        "devices": layout.devices,
        "kv_bytes": scenario.engine.kv_bytes(layout.offload),
        "makespan_ns": run.makespan_ns,
        "total": _figures(target_figures(run.samples), run),
        "tiers": {tier: _figures(figures, run) for tier, figures in by_tier.items()},
        **_engines(layout, run),
    }


def _figures(figures: "TargetFigures", run: "FleetRun") -> dict[str, object]:
    import msgspec

    return {
        **msgspec.to_builtins(figures),
        "met_ratio": figures.met_ratio,
        "goodput_rps": figures.goodput_rps(run.makespan_ns),
    }


def _engines(layout: "Layout", run: "FleetRun") -> dict[str, object]:
    """How busy each kind was."""

    def busy_ratio(first: int, count: int) -> float | None:
        if count == 0:
            return None
        busy_ns = sum(each.busy_ns for each in run.engines[first : first + count])
        return busy_ns / (count * run.makespan_ns)

    return {
        "busy_ratio": busy_ratio(0, layout.engines),
        "receivers_busy_ratio": busy_ratio(layout.engines, layout.receivers),
        "handed_tokens": run.handed_tokens,
        "link_busy_ns": run.link_busy_ns,
    }


def _plain(
    path: str, scenario: "GenerationScenario", rows: list[dict[str, object]]
) -> dict[str, object]:
    return {
        "scenario": path,
        "seed": scenario.seed,
        "simulated": True,
        "generated": scenario.is_generated,
        "requests": scenario.source.count,
        "rows": rows,
    }


def _table(scenario: "GenerationScenario", rows: list[dict[str, object]]) -> "Table":
    from rich.table import Table

    table = Table()
    for column in ("layout", "tier"):
        table.add_column(column)
    for column in (
        *("load", "devices", "kept both", "goodput\nreq/s", "TTFT\np50", "TTFT\np99"),
        *("TPOT\np99", "busy", "KV room\nof each"),
    ):
        table.add_column(column, justify="right")
    for row in rows:
        for line in _lines(row, has_tiers=len(scenario.tiers) > 1):
            table.add_row(*line)
        table.add_section()
    whence = "generated requests" if scenario.is_generated else "recorded requests"
    table.caption = (
        f"simulated: {whence}, an engine's step times by a law, virtual time; kept both: of all "
        "that arrived, those with first token and pace in time"
    )
    return table


def _lines(row: Mapping[str, object], *, has_tiers: bool) -> Iterator[tuple[str, ...]]:
    groups: dict[str, object] = {"all": row["total"]}
    if has_tiers:
        tiers = row["tiers"]
        assert isinstance(tiers, dict)
        groups |= tiers
    for index, (name, figures) in enumerate(groups.items()):
        assert isinstance(figures, dict)
        is_first = index == 0
        yield (
            str(row["layout"]) if is_first else "",
            name,
            f"{row['load']:g}" if is_first else "",
            str(row["devices"]) if is_first else "",
            f"{100 * figures['met_ratio']:.1f} %",
            f"{figures['goodput_rps']:.2f}",
            _time(figures["ttft_p50_ns"]),
            _time(figures["ttft_p99_ns"]),
            _time(figures["tpot_p99_ns"]),
            _busy(row) if is_first else "",
            format_bytes(_whole(row["kv_bytes"])) if is_first else "",
        )


def _busy(row: Mapping[str, object]) -> str:
    ratios = [row["busy_ratio"], row["receivers_busy_ratio"]]
    return " / ".join([f"{100 * each:.0f} %" for each in ratios if isinstance(each, float)])


def _whole(value: object) -> int:
    assert isinstance(value, int)
    return value


def _time(value_ns: int | None) -> str:
    if value_ns is None:
        return "–"
    return f"{value_ns / NS_PER_S:.2f}s" if value_ns >= NS_PER_S else format_duration(value_ns)
