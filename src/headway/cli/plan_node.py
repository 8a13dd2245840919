"""Which node of a plan this machine is, and where its MPS daemons are: what two verbs share."""

import argparse
import socket
from collections.abc import Sequence
from typing import TYPE_CHECKING

from headway.cli.arguments import UsageError, VerbParser

if TYPE_CHECKING:
    from headway.plan import SharingPlan

__all__ = ["add_node_flags", "node_of", "steps_in_words"]


def add_node_flags(parser: VerbParser) -> None:
    """`--node` and `--state-folder`."""
    parser.add_argument(
        "--node",
        metavar="NAME",
        help="which node of the plan this machine is (its host name, or the only one)",
    )
    parser.add_argument(
        "--state-folder",
        metavar="FOLDER",
        default="/run/headway",
        help="of MPS: sockets, logs, notes (/run/headway)",
    )


def node_of(args: argparse.Namespace, plan: "SharingPlan") -> str:
    """The node that is meant.

    Raises:
        UsageError: the plan has none of that name, or several and none of this machine's.
    """
    names = list(dict.fromkeys(share.node for share in plan.devices))
    if args.node is None:
        host = socket.gethostname()
        own = [name for name in names if name in {host, host.partition(".")[0]}]
        if own or len(names) == 1:
            return (own or names)[0]
    elif args.node in names:
        return str(args.node)
    wrong = (
        "none is called like this machine" if args.node is None else f"there is no `{args.node}`"
    )
    listed = ", ".join(f"`{name}`" for name in names)
    raise UsageError(f"which node of the plan? {wrong}", hint=f"--node NAME, of {listed}")


def steps_in_words(steps: Sequence[object]) -> str:
    """How many."""
    return "1 step" if len(steps) == 1 else f"{len(steps)} steps"
