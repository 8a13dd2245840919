"""`headway plan apply`: a plan carried out on this machine, or the commands that would do it."""

import argparse
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from headway.cli.arguments import VerbParser, add_format
from headway.cli.output import print_json, print_note, say
from headway.cli.plan_node import add_node_flags, node_of, steps_in_words
from headway.errors import HeadwayError

if TYPE_CHECKING:
    from headway.devices import MigGpu
    from headway.plan import SharingPlan
    from headway.rollout import DaemonToday, Proposal, ServerEnvironment, Step

__all__ = ["EXAMPLE", "add_arguments", "run"]

EXAMPLE = "headway plan apply examples/plan/onprem.plan.json --dry-run"


def add_arguments(parser: VerbParser) -> None:
    """Say what may be given."""
    parser.add_argument(
        "plan", metavar="PLAN", help="a plan, as `headway plan --format json` prints it"
    )
    parser.add_argument(
        "--dry-run",
        action="store_true",
        help="change nothing: print the commands in order, of all nodes, with the check after each",
    )
    add_node_flags(parser)
    add_format(parser)


def run(args: argparse.Namespace) -> int:
    """Do what this machine alone is needed for, or print what would be done anywhere."""
    from headway.rollout import read_plan

    plan = read_plan(Path(args.plan))
    if args.dry_run:
        _print_paper(args, _on_paper(args, plan))
        return 0
    return _apply(args, plan)


# --- on paper -------------------------------------------------------------------------------------


class _Paper(NamedTuple):
    """What would be done to a node, and what its processes would be started with."""

    proposal: "Proposal"
    servers: "list[ServerEnvironment]"


def _on_paper(args: argparse.Namespace, plan: "SharingPlan") -> dict[str, _Paper]:
    """By node: with `--node` this machine as it is now, else what the plan takes them to be."""
    from headway.rollout import assumed_gpu, nodes_of

    nodes = nodes_of(plan)
    if args.node is not None:
        node = node_of(args, plan)
        nodes = {node: nodes[node]}
        try:
            return {node: _here(args, plan, node)}
        except HeadwayError as error:
            print_note("warning", f"this machine cannot be asked: {error.message}")
    say("steps from what the plan takes each GPU to be today")
    found = {}
    for node, shares in nodes.items():
        gpus = {share.index: assumed_gpu(share) for share in shares}
        found[node] = _paper(args, plan, node, gpus, ())
    return found


def _here(args: argparse.Namespace, plan: "SharingPlan", node: str) -> _Paper:
    from headway.rollout import open_machine

    with open_machine(Path(args.state_folder), is_to_change=False) as machine:
        return _paper(args, plan, node, machine.gpus(), machine.daemons())


def _paper(
    args: argparse.Namespace,
    plan: "SharingPlan",
    node: str,
    gpus: "Mapping[int, MigGpu]",
    running: "Sequence[DaemonToday]",
) -> _Paper:
    from headway.rollout import environments, nodes_of, propose, servers_of

    servers = [server for server in servers_of(plan) if server.node == node]
    return _Paper(
        propose(nodes_of(plan)[node], gpus, running, args.state_folder),
        environments(servers, gpus, args.state_folder),
    )


def _print_paper(args: argparse.Namespace, papers: Mapping[str, _Paper]) -> None:
    if args.format == "json":
        print_json({node: _plain(paper) for node, paper in papers.items()})
        return
    for node, paper in papers.items():
        for line in _lines(node, paper):
            print(line)
    for node, paper in papers.items():
        for refusal in paper.proposal.refusals:
            print_note("refused", f"{node}: {refusal}")


def _lines(node: str, paper: _Paper) -> Iterator[str]:
    """A script that a person reads: after each command the check, and what it must show."""
    steps = paper.proposal.steps
    yield f"# {node}: {steps_in_words(steps)}, as root" if steps else f"# {node}: no steps"
    for left in paper.proposal.left_alone:
        yield f"# stays as it is: {left}"
    for number, step in enumerate(steps, start=1):
        yield ""
        yield f"# {number}. {step.words}"
        yield step.command
        yield f"{step.check}  # must show: {step.expected}"
    if paper.servers:
        yield ""
        yield "# then its servers are started, each with"
    for server in paper.servers:
        yield f"# {_server_words(server)}"
    yield ""


def _server_words(server: "ServerEnvironment") -> str:
    values = " ".join(f"{key}={value}" for key, value in server.values.items())
    return f"{', '.join(server.models)} ({server.where}): {values}"


def _plain(paper: _Paper) -> dict[str, object]:
    keys = ("words", "command", "check", "expected")
    proposal = paper.proposal
    return {
        "steps": [{key: getattr(step, key) for key in keys} for step in proposal.steps],
        "refusals": list(proposal.refusals),
        "left_alone": list(proposal.left_alone),
        "servers": [server._asdict() for server in paper.servers],
    }


# --- on this machine ------------------------------------------------------------------------------


def _apply(args: argparse.Namespace, plan: "SharingPlan") -> int:
    from headway.rollout import carry_out, nodes_of, open_machine, propose

    node = node_of(args, plan)
    shares = nodes_of(plan)[node]
    with open_machine(Path(args.state_folder), is_to_change=True) as machine:
        proposal = propose(shares, machine.gpus(), machine.daemons(), args.state_folder)
        _refuse(node, proposal)
        outcome = carry_out(proposal.steps, machine, say)
        if outcome.failure is not None:
            raise _failure(outcome.failure, outcome.hint, outcome.remains)
        after = _paper(args, plan, node, machine.gpus(), machine.daemons())
    _report(args, node, proposal.steps, after.servers)
    return 0


def _refuse(node: str, proposal: "Proposal") -> None:
    """Stop here where a process would be ended, or the plan cannot be had at all."""
    if not proposal.refusals:
        return
    error = HeadwayError(
        f"nothing was changed on `{node}`: {proposal.refusals[0]}",
        hint="stop what runs there, or plan again from how things are now",
    )
    for refusal in proposal.refusals[1:]:
        error.add_note(refusal)
    raise error


def _failure(failure: str, hint: str | None, remains: Sequence[str]) -> HeadwayError:
    if not remains:
        return HeadwayError(f"{failure}; what was done before was taken back", hint=hint)
    error = HeadwayError(
        f"{failure}; not all of what was done before could be taken back", hint=hint
    )
    for one in remains:
        error.add_note(f"not taken back: {one}")
    return error


def _report(
    args: argparse.Namespace,
    node: str,
    steps: "Sequence[Step]",
    servers: "Sequence[ServerEnvironment]",
) -> None:
    if args.format == "json":
        done = [step.words for step in steps]
        print_json({"node": node, "done": done, "servers": [one._asdict() for one in servers]})
        return
    print(f"{node}: {steps_in_words(steps)} done" if steps else f"{node}: is as planned already")
    for server in servers:
        print(_server_words(server))
