"""`headway plan diff`: this machine as it is today, beside a plan."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from headway.cli.arguments import VerbParser, add_format
from headway.cli.output import print_json, print_table, say
from headway.cli.plan_node import add_node_flags, node_of, steps_in_words

if TYPE_CHECKING:
    from headway.rollout import Difference, Proposal

__all__ = ["EXAMPLE", "add_arguments", "run"]

EXAMPLE = "headway plan diff examples/plan/onprem.plan.json --node gpu1"


def add_arguments(parser: VerbParser) -> None:
    """Say what may be given."""
    parser.add_argument(
        "plan", metavar="PLAN", help="a plan, as `headway plan --format json` prints it"
    )
    add_node_flags(parser)
    add_format(parser)


def run(args: argparse.Namespace) -> int:
    """Print what is there and what is planned; exit 3 where they differ."""
    from headway.rollout import Standing, differences, nodes_of, open_machine, propose, read_plan

    plan = read_plan(Path(args.plan))
    node = node_of(args, plan)
    shares = nodes_of(plan)[node]
    with open_machine(Path(args.state_folder), is_to_change=False) as machine:
        gpus, running = machine.gpus(), machine.daemons()
    rows = differences(shares, gpus, running)
    proposal = propose(shares, gpus, running, args.state_folder)
    _print(args, node, rows, proposal)
    is_same = not proposal.steps and all(
        row.standing in {Standing.SAME, Standing.UNPLANNED} for row in rows
    )
    return 0 if is_same else 3


def _print(
    args: argparse.Namespace, node: str, rows: "list[Difference]", proposal: "Proposal"
) -> None:
    if args.format == "json":
        print_json(
            {
                "node": node,
                "rows": [row._asdict() for row in rows],
                "steps": [step.words for step in proposal.steps],
                "refusals": list(proposal.refusals),
            }
        )
        return
    print_table(
        (node, "planned", "today", ""),
        [(row.where, row.planned or None, row.today or None, row.standing) for row in rows],
    )
    for refusal in proposal.refusals:
        say(f"in the way: {refusal}")
    if proposal.steps:
        steps = steps_in_words(proposal.steps)
        say(f"{steps} away from the plan: see `headway plan apply --dry-run`")
