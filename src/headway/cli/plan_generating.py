"""`headway plan capacity` of a generating model: engines for a rate at targets, with a curve."""

import argparse
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from headway.cli.arguments import UsageError
from headway.cli.output import drawing, print_json, print_table, say
from headway.units import format_bytes, format_duration

if TYPE_CHECKING:
    from headway.plan import EngineAnswer, EnginePoint
    from headway.sim import GenerationScenario

__all__ = ["run_generating"]


def run_generating(args: argparse.Namespace, scenario: "GenerationScenario") -> int:
    """Say what the law says, play one number of engines after another, print.

    Raises:
        UsageError: a flag that means nothing here, or an engine without room.
    """
    from headway.cli.verbs import EXIT_MISSED, EXIT_OK
    from headway.plan import engines_needed

    for name in ("product", "policy"):
        if getattr(args, name) is not None:
            raise UsageError(
                f"`--{name}` is not for a file with an engine",
                hint="the file says what an engine is like, and its `scheduler`",
            )
    if scenario.engine.blocks() < 1:
        raise UsageError(
            f"`{args.file}`: the engine has no room for keys and values",
            hint="capacity is of engines that hold their whole model: give it more `memory`",
        )
    scenario = scenario.with_seed(args.seed).taking(min(args.requests, scenario.source.count))
    answer = engines_needed(
        scenario,
        rate_rps=args.rate,
        engines_max=args.devices_max,
        tell=lambda engines: say(f"playing {engines} engines, seed {args.seed}"),
    )
    if args.format == "json":
        import msgspec

        plain = {"file": args.file, "seed": args.seed, "generated": scenario.is_generated}
        print_json({**plain, "simulated": True, "capacity": msgspec.to_builtins(answer)})
    else:
        _print(answer)
    if args.plot is not None:
        _draw(args, answer)
    return EXIT_OK if answer.by_simulation is not None else EXIT_MISSED


def _print(answer: "EngineAnswer") -> None:
    mix, most = answer.mix, answer.most
    print(
        f"{answer.rate_rps:.3g} requests/s of {mix.prompt_tokens:,.0f} tokens of prompt and "
        f"{mix.output_tokens:,.0f} of answer; met in memory with {mix.resident_tokens:,.0f} "
        f"({format_bytes(round(mix.resident_tokens * answer.kv_token_bytes))})"
    )
    print(
        f"by Little's law one engine bears at most {most.rate_rps:.2f}/s, with "
        f"{most.sequences:.0f} sequences at once in {answer.kv_room_tokens:,} tokens of room\n"
    )
    print_table(
        (
            *("engines", "busy", "at once", "played", "memory", "KV in use", "kept both"),
            *("tier", "TTFT p99", "TPOT p99", "holds"),
        ),
        [line for point in answer.points for line in _lines(point)],
    )
    print(f"\n{_sentence(answer)}")
    for verdict in answer.points[-1].tiers if answer.points else ():
        if verdict.beyond:
            print(
                f"{verdict.tier}: {verdict.beyond} of {verdict.requests} prompts are longer than "
                f"the {verdict.prompt_tokens_max:,} tokens up to which its TTFT can hold; they are "
                "not in its p99"
            )


def _lines(point: "EnginePoint") -> Iterator[tuple[str, ...]]:
    """One for each tier; the engines' own figures stand in the first."""
    law = point.law
    own = (
        f"{point.engines}",
        "too much" if law is None else f"{100 * law.busy_ratio:.0f} %",
        "–" if law is None else f"{law.sequences:.1f}",
        f"{point.sequences:.1f}",
        "–" if point.memory_bytes is None else format_bytes(point.memory_bytes),
        f"{point.kv_tokens:,.0f}",
        f"{100 * point.met_ratio:.1f} %",
    )
    for index, verdict in enumerate(point.tiers):
        first = own if index == 0 else ("",) * len(own)
        yield (
            *first,
            str(verdict.tier),
            _against(verdict.ttft_p99_ns, verdict.ttft_ns),
            _against(verdict.tpot_p99_ns, verdict.tpot_ns),
            "yes" if verdict.is_met else "no",
        )


def _against(value_ns: int | None, target_ns: int | None) -> str:
    played = "–" if value_ns is None else format_duration(value_ns)
    return played if target_ns is None else f"{played} of {format_duration(target_ns)}"


def _sentence(answer: "EngineAnswer") -> str:
    law = f"by the law alone {answer.by_law} would do"
    if answer.by_simulation is None:
        last = answer.points[-1].engines if answer.points else 0
        return f"up to {last} engines are not enough when played; {law}"
    return f"{answer.by_simulation} engines keep every target when played; {law}"


def _draw(args: argparse.Namespace, answer: "EngineAnswer") -> None:
    from headway.report import CurveAxis, plot_curves

    marks = {"law": float(answer.by_law)}
    if answer.by_simulation is not None and answer.by_simulation != answer.by_law:
        marks["played"] = float(answer.by_simulation)
    curves = {
        "first token and pace in time": [(p.engines, 100 * p.met_ratio) for p in answer.points],
        "busy, by the law": [
            (p.engines, 100 * p.law.busy_ratio) for p in answer.points if p.law is not None
        ],
    }
    with drawing(args.plot):
        plot_curves(
            {name: curve for name, curve in curves.items() if curve},
            Path(args.plot),
            x=CurveAxis("engines"),
            y=CurveAxis("%"),
            title=f"{Path(args.file).name}: how many engines for {answer.rate_rps:.3g}/s",
            command=f"headway plan capacity {shlex.quote(args.file)}",
            marks=marks,
        )
