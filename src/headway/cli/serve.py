"""`headway serve`: a server for a configuration, or for one model file as it is."""

import argparse

from headway.cli.arguments import VerbParser, add_server_flags, server_flags

__all__ = ["EXAMPLE", "add_arguments", "run"]

EXAMPLE = "headway serve examples/serve.yaml --port 8000"


def add_arguments(parser: VerbParser) -> None:
    """Say what may be given."""
    parser.add_argument(
        "target",
        metavar="FILE",
        help="configuration (.yaml), model (.onnx) or Python class (file.py:Class)",
    )
    add_server_flags(parser)


def run(args: argparse.Namespace) -> int:
    """Serve until told to stop."""
    # Here, for `headway serve --help` needs neither a loop nor a server.
    from headway.app import serve
    from headway.config import LoadedConfig, load_target

    flags = server_flags(args)

    def read() -> LoadedConfig:
        return load_target(args.target, flags=flags)

    return serve(read(), read_again=read)
