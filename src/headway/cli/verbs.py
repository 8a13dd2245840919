"""The verbs, and the way from a command line to an exit code.

Knows names. A verb's module is imported only when it is asked for, so that a quick verb is quick.
"""

import importlib
import os
import sys
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from types import MappingProxyType
from typing import Final, NamedTuple, Protocol, cast

from headway.cli.arguments import UsageError, VerbParser
from headway.cli.output import print_error, say
from headway.errors import ConfigError, HeadwayError

__all__ = ["EXIT_FAILED", "EXIT_MISSED", "EXIT_OK", "EXIT_USAGE", "VERBS", "main", "parser_of"]

EXIT_OK: Final = 0
EXIT_FAILED: Final = 1
EXIT_USAGE: Final = 2
"""Bad usage, or a bad configuration."""
EXIT_MISSED: Final = 3
"""It ran, and a target was not met."""


class VerbEntry(NamedTuple):
    """Where a verb is and what it does."""

    module: str
    summary: str


VERBS: Final[Mapping[str, VerbEntry]] = MappingProxyType(
    {
        "demo": VerbEntry(
            "headway.cli.demo",
            "Serve real models under a bursty load and compare policies, on this machine.",
        ),
        "serve": VerbEntry(
            "headway.cli.serve", "Serve the models of a configuration, or one model file as it is."
        ),
        "load": VerbEntry(
            "headway.cli.load", "Play a workload at a live server and report what its clients saw."
        ),
        "conformance": VerbEntry(
            "headway.cli.conformance",
            "Ask a server what clients of the Open Inference Protocol rely on.",
        ),
        "bench": VerbEntry(
            "headway.cli.bench",
            "Measure what predictors and policies are worth, on real models under load.",
        ),
        "profile": VerbEntry(
            "headway.cli.profile", "Measure models on this machine, alone and beside stressors."
        ),
        "profile explain": VerbEntry(
            "headway.cli.profile_explain",
            "Say whether arithmetic or memory limits a model on this device, and why.",
        ),
        "calibrate": VerbEntry(
            "headway.cli.calibrate",
            "Measure this machine: cores, copies, compute and bandwidth ceilings.",
        ),
        "sim": VerbEntry(
            "headway.cli.sim", "Run a scenario in virtual time, under one policy or several."
        ),
        "plan": VerbEntry(
            "headway.cli.plan",
            "Say how to share devices between models and tenants, who sits where, and why.",
        ),
        "plan capacity": VerbEntry(
            "headway.cli.plan_capacity",
            "Say how many devices a workload needs to keep its deadlines, with a curve.",
        ),
        "plan batching": VerbEntry(
            "headway.cli.plan_batching",
            "Say what batches of a model are worth on a device, by size.",
        ),
        "plan preemption": VerbEntry(
            "headway.cli.plan_preemption",
            "Say how many tokens' cache fits, and when to move one instead of computing it again.",
        ),
        "plan policy": VerbEntry(
            "headway.cli.plan_policy",
            "Recommend a policy for a scenario, with simulated evidence and the reasons in words.",
        ),
        "plan fleet": VerbEntry(
            "headway.cli.plan_fleet", "Print this machine's GPUs as `headway plan` reads them."
        ),
        "plan emit": VerbEntry(
            "headway.cli.plan_emit",
            "Write a plan as the files that cut, share and schedule devices.",
        ),
        "plan validate": VerbEntry(
            "headway.cli.plan_validate",
            "Check files of those formats, offline, by published schemas where there are any.",
        ),
        "plan diff": VerbEntry(
            "headway.cli.plan_diff", "Compare this machine's devices with a plan."
        ),
        "plan apply": VerbEntry(
            "headway.cli.plan_apply",
            "Cut this machine's GPUs and start its MPS daemons as planned, or print the commands.",
        ),
        "doctor": VerbEntry(
            "headway.cli.doctor",
            "Say what ails a server, a device or a recorded run: evidence, how sure, what to do.",
        ),
        "doctor watch": VerbEntry(
            "headway.cli.doctor_watch",
            "Watch a server or a device for minutes, plot what was seen, and say what ails it.",
        ),
        "replay": VerbEntry(
            "headway.cli.replay", "Feed a journal's events back and demand the same decisions."
        ),
        "report": VerbEntry(
            "headway.cli.report", "Turn samples and journals into a table and a plot."
        ),
        "report tail": VerbEntry(
            "headway.cli.report_tail",
            "Split the way from p50 to p99 into causes, each with what helps against it.",
        ),
        "timeline": VerbEntry(
            "headway.cli.timeline",
            "Draw a journal as a timeline of slots and requests, for Perfetto.",
        ),
        "monitoring rules": VerbEntry(
            "headway.cli.monitoring_rules",
            "Print alert rules for Prometheus, each with its runbook page.",
        ),
        "monitoring dashboards": VerbEntry(
            "headway.cli.monitoring_dashboards", "Print or write dashboards for Grafana."
        ),
        "monitoring scrape": VerbEntry(
            "headway.cli.monitoring_scrape", "Print how Prometheus finds the servers."
        ),
        "explain": VerbEntry(
            "headway.cli.explain",
            "Tell one request's story: where its time went, and what would have saved it.",
        ),
        "generate convert": VerbEntry(
            "headway.cli.generate_convert",
            "Make a published token-by-token model one that the built-in engine runs.",
        ),
        "generate text": VerbEntry(
            "headway.cli.generate_text",
            "Let a converted model write, here and now, with the engine that also serves it.",
        ),
        "key": VerbEntry(
            "headway.cli.key",
            "Make a key for a tenant or for management, and the hash that is kept of it.",
        ),
        "usage": VerbEntry(
            "headway.cli.usage", "Print what tenants have used: requests, rows, device time, bytes."
        ),
        "config": VerbEntry(
            "headway.cli.config",
            "Show what is configured and where each value came from, check it, print its schema.",
        ),
        "version": VerbEntry(
            "headway.cli.version", "Print the versions of headway and of what it runs on."
        ),
    }
)


class Verb(Protocol):
    """What a verb's module has."""

    EXAMPLE: str
    """A command line that works, with which the help ends."""

    def add_arguments(self, parser: VerbParser) -> None:
        """Say what may be given."""

    def run(self, args: object) -> int:
        """Do it; the exit code comes back."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command line and return its exit code."""
    words = list(sys.argv[1:] if argv is None else argv)
    try:
        exit_code = _run(words)
        sys.stdout.flush()  # here, where a reader who has gone is no error yet
        return exit_code
    except HeadwayError as error:
        print_error(error)
        return EXIT_USAGE if isinstance(error, ConfigError | UsageError) else EXIT_FAILED
    except KeyboardInterrupt:
        say("error: interrupted")
        return EXIT_FAILED
    except BrokenPipeError:
        # Whoever read stdout has seen enough. Python would complain again when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_FAILED


def parser_of(verb: str) -> VerbParser:
    """The parser of one verb."""
    module = _module_of(verb)
    parser = VerbParser(verb, VERBS[verb].summary, module.EXAMPLE)
    module.add_arguments(parser)
    return parser


def _run(words: list[str]) -> int:
    if not words:
        say(_overview())
        return EXIT_USAGE
    if words[0] == "--help":
        print(_overview())
        return EXIT_OK
    verb = _verb_of(words)
    if verb not in VERBS:
        close = get_close_matches(verb, VERBS, n=1)
        near = f"did you mean `{close[0]}`? " if close else ""
        hint = f"{near}valid: {', '.join(f'`{name}`' for name in VERBS)}"
        raise UsageError(f"there is no verb `{verb}`", hint=hint)
    try:
        args = parser_of(verb).parse_args(words[len(verb.split()) :])
    except SystemExit as done:  # after --help; a mistake raises UsageError
        return done.code if isinstance(done.code, int) else EXIT_OK
    return _module_of(verb).run(args)


def _verb_of(words: Sequence[str]) -> str:
    """The first two words where they are a verb together, else the first."""
    if words[0] == "--version":
        return "version"
    two = " ".join(words[:2])
    return two if two in VERBS else words[0]


def _overview() -> str:
    width = max(map(len, VERBS)) + 2
    summaries = (f"  {verb:<{width}}{entry.summary}" for verb, entry in VERBS.items())
    return "\n".join(
        [
            "usage: headway VERB ...",
            "",
            "An inference server and scheduler that keeps deadlines on shared accelerators.",
            "",
            *summaries,
            "",
            "`headway VERB --help` says more. Exit codes: 0 done, 1 failed, 2 bad usage or",
            "configuration, 3 target not met.",
            "",
            "example:",
            "  headway config show examples/serve.yaml",
        ]
    )


def _module_of(verb: str) -> Verb:
    return cast("Verb", importlib.import_module(VERBS[verb].module))
