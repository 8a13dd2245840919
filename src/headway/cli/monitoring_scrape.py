"""`headway monitoring scrape`: how Prometheus finds the servers."""

import argparse

from headway.cli.arguments import UsageError, VerbParser

__all__ = ["EXAMPLE", "add_arguments", "run"]

EXAMPLE = "headway monitoring scrape --targets gpu-1:8000,gpu-2:8000"


def add_arguments(parser: VerbParser) -> None:
    """Say what may be given."""
    from headway.monitoring import AlertSettings, Form

    job = AlertSettings().job
    parser.add_argument(
        "--as",
        dest="form",
        choices=[str(form) for form in Form],
        default=str(Form.PROMETHEUS),
        help="a part of prometheus.yml, or a ServiceMonitor (prometheus)",
    )
    parser.add_argument(
        "--targets",
        default="localhost:8000",
        metavar="HOST:PORT,...",
        help="where servers answer /metrics; a ServiceMonitor finds them by label (localhost:8000)",
    )
    parser.add_argument(
        "--job", default=job, metavar="TEXT", help=f"what the rules call their job ({job})"
    )


def run(args: argparse.Namespace) -> int:
    """Print the file."""
    from headway.monitoring import AlertSettings, Form, scrape_text

    try:
        settings = AlertSettings(job=args.job)
    except ValueError as error:
        raise UsageError(str(error), hint="see `headway monitoring scrape --help`") from error
    print(scrape_text(settings, args.targets.split(","), Form(args.form)), end="")
    return 0
