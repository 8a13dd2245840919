"""`headway plan`: how to share devices between models and tenants, who sits where, and why."""

import argparse
import importlib.util
import shlex
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

from headway.cli.arguments import (
    POLICY_METAVAR,
    VerbParser,
    add_format,
    count,
    policy_flag,
    positive,
)
from headway.cli.output import drawing, print_json, print_note, print_rich, say
from headway.cli.plan_words import drawn_devices, plan_subtitle, plan_tables, plan_words

if TYPE_CHECKING:
    from headway.cli.arguments import PolicyFlag
    from headway.config import SharingQuestion
    from headway.plan import PlayLimits, PolicyMaker, SharingPlan, Verdict

__all__ = ["EXAMPLE", "add_arguments", "add_play_arguments", "limits_of", "maker_of", "run"]

EXAMPLE = "headway plan examples/plan/onprem.yaml --maker fast --requests 4000"

_POLICY: Final = "headway"
_SECONDS: Final = 30
_REQUESTS: Final = 30_000
_MAKERS: Final = ("auto", "solver", "fast", "first-fit")
_CONFLICT_WORK_S: Final = 0.3
"""Of each question that is asked where something has no place."""


def add_arguments(parser: VerbParser) -> None:
    """Say what may be given."""
    parser.description = (
        f"{parser.description} `plan capacity` says how many devices a workload needs, `plan "
        "batching` what batches are worth, `plan preemption` when to move a cache, `plan policy` "
        "which policy to serve with."
    )
    parser.add_argument("file", metavar="FILE", help="models, tenants and devices (.yaml)")
    parser.add_argument(
        "--maker",
        choices=_MAKERS,
        default="auto",
        help="how a plan is looked for: by the solver, by the fast path, or by first fit as a "
        "yardstick (the solver, where it is installed)",
    )
    parser.add_argument(
        "--seconds",
        type=positive(int),
        default=_SECONDS,
        metavar="N",
        help=f"that the solver may take ({_SECONDS})",
    )
    add_play_arguments(parser)
    parser.add_argument(
        "--no-simulation", action="store_true", help="let only the quick bound judge objectives"
    )
    parser.add_argument("--plot", metavar="FILE", help="draw who sits where (.svg or .png)")
    add_format(parser)


def add_play_arguments(parser: VerbParser) -> None:
    """What the verbs that play a plan have in common."""
    parser.add_argument(
        "--policy",
        type=policy_flag,
        default=None,
        metavar=POLICY_METAVAR,
        help=f"that the placed plan is played with ({_POLICY})",
    )
    parser.add_argument(
        "--requests",
        type=positive(int),
        default=_REQUESTS,
        metavar="N",
        help=f"about so many are played, of all models together ({_REQUESTS})",
    )
    parser.add_argument("--seed", type=count, default=1, metavar="N", help="of all chance (1)")


def run(args: argparse.Namespace) -> int:
    """Read, plan, judge and print."""
    from headway.cli.verbs import EXIT_MISSED, EXIT_OK
    from headway.config import load_sharing

    question = load_sharing(Path(args.file))
    plan = _planned(args, question)
    plan = _judged(args, plan, question)
    if args.format == "json":
        import msgspec

        print_json({"file": args.file, "seed": args.seed, "plan": msgspec.to_builtins(plan)})
    else:
        for table in plan_tables(plan, question):
            print_rich(table)
        for line in plan_words(plan, question):
            print(line)
    if args.plot is not None:
        _draw(args, plan, question)
    is_met = not plan.unplaced and all(verdict.is_met for verdict in plan.verdicts)
    return EXIT_OK if is_met else EXIT_MISSED


def has_solver() -> bool:
    """Whether what solves plans, and what bounds them, can be loaded."""
    return all(importlib.util.find_spec(name) is not None for name in ("ortools", "scipy"))


def maker_of(flag: "PolicyFlag | None") -> "PolicyMaker":
    """What makes the policy that a plan is played with."""
    from headway.bench import policy_maker

    return policy_maker({"kind": _POLICY} if flag is None else flag.settings)


def limits_of(args: argparse.Namespace) -> "PlayLimits":
    """How much is to be played."""
    from headway.plan import PlayLimits

    return PlayLimits(requests_max=args.requests, seed=args.seed)


def _planned(args: argparse.Namespace, question: "SharingQuestion") -> "SharingPlan":
    """The plan, with what stands in the way where it is not whole."""
    from headway.plan import Effort, PlanMaker, SearchLimits, explain_unplaced, plan_sharing

    maker = args.maker
    if maker == "auto":
        maker = "solver" if has_solver() else "fast"
        if maker == "fast":
            print_note("note", "the fast path made this plan; `pip install headway[plan]` solves")
    makers = {
        "solver": PlanMaker.SOLVER,
        "fast": PlanMaker.FAST,
        "first-fit": PlanMaker.FIRST_FIT,
    }
    demand, fleet = question
    models, devices = len(demand.models), len(fleet.devices)
    say(f"{args.file}: {models} models on {devices} devices, seed {args.seed}")
    until_s = time.monotonic() + args.seconds
    plan = plan_sharing(
        demand,
        fleet,
        makers[maker],
        limits=SearchLimits(work_s=float(args.seconds), seed=args.seed),
        left_s=lambda: until_s - time.monotonic(),
    )
    effort = Effort(_CONFLICT_WORK_S, seed=args.seed) if has_solver() else None
    return explain_unplaced(plan, demand, fleet, effort)


def _judged(
    args: argparse.Namespace, plan: "SharingPlan", question: "SharingQuestion"
) -> "SharingPlan":
    """The plan with what the bound says of each model, and what the simulation says."""
    from msgspec.structs import replace

    from headway.plan import bound_verdicts, play_plan

    verdicts: list[Verdict] = list(bound_verdicts(plan, *question))
    if not args.no_simulation:
        make_policy = maker_of(args.policy)
        say(f"playing about {args.requests} requests")
        verdicts += play_plan(plan, *question, make_policy, limits_of(args))
    return replace(plan, verdicts=tuple(verdicts))


def _draw(args: argparse.Namespace, plan: "SharingPlan", question: "SharingQuestion") -> None:
    from headway.report import plot_sharing

    command = f"headway plan {shlex.quote(args.file)}"
    with drawing(args.plot):
        plot_sharing(
            drawn_devices(plan, question),
            Path(args.plot),
            title=f"{Path(args.file).name}: who sits where",
            subtitle=plan_subtitle(plan),
            command=command,
        )
