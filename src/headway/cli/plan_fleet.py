"""`headway plan fleet`: this machine's GPUs, as the file of `headway plan` has them."""

import argparse
import socket

from headway.cli.arguments import VerbParser, add_format
from headway.cli.output import print_json, print_note

__all__ = ["EXAMPLE", "add_arguments", "run"]

EXAMPLE = "headway plan fleet --node gpu1"


def add_arguments(parser: VerbParser) -> None:
    """Say what may be given."""
    parser.add_argument("--node", metavar="NAME", help="what it is called (its host name)")
    add_format(parser)


def run(args: argparse.Namespace) -> int:
    """Print what belongs under `fleet: {nodes: [...]}`, and what has to be looked at."""
    from headway.devices import open_mig
    from headway.rollout import fleet_today, to_yaml

    with open_mig() as driver:
        gpus = driver.gpus()
    found = fleet_today(args.node or socket.gethostname(), gpus)
    if args.format == "json":
        print_json({"node": found.node, "notes": list(found.notes)})
        return 0
    print(to_yaml([{"fleet": {"nodes": [found.node]}}]), end="")
    for note in found.notes:
        print_note("note", note)
    return 0
