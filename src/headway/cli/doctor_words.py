"""What the verbs of the doctor share: whom they look at, and how a diagnosis is printed."""

import argparse
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from textwrap import fill
from typing import TYPE_CHECKING, Final

from headway.cli.arguments import VerbParser, key_in, positive
from headway.cli.output import print_json, say
from headway.cli.verbs import EXIT_FAILED, EXIT_MISSED, EXIT_OK
from headway.units import NS_PER_S

if TYPE_CHECKING:
    from headway.devices import DeviceReading
    from headway.doctor import Diagnosis, Evidence, Finding, Patient

__all__ = [
    "WallClock",
    "add_patient",
    "exit_code",
    "finding_patient",
    "is_alive",
    "plain",
    "print_diagnosis",
    "say_lost",
]

_WHY_CHARS_MAX: Final = 300
"""Of a reason in words; JSON has all of it."""
_WIDTH: Final = 100


class WallClock:
    """The machine's own."""

    def now_ns(self) -> int:
        """Nanoseconds since 1970."""
        return time.time_ns()

    def sleep(self, duration_ns: int) -> None:
        """Wait."""
        time.sleep(duration_ns / NS_PER_S)


def add_patient(parser: VerbParser) -> None:
    """`--url`, `--key-file` and `--pid`."""
    parser.add_argument("--url", metavar="URL", help="a server, at its admin port where it has one")
    parser.add_argument(
        "--key-file", metavar="FILE", help="file with the server's admin key, where it has one"
    )
    parser.add_argument(
        "--pid",
        type=positive(int),
        metavar="N",
        help="a process of this machine and all that descends from it; without it the one that "
        "listens at the URL, if that is here",
    )
    parser.add_argument(
        "--device",
        metavar="NAME",
        help="an accelerator of this machine, as `cuda:0`; without it all that are seen",
    )


def is_alive(args: argparse.Namespace) -> bool:
    """Whether anything is named that can be watched."""
    return bool(args.url or args.pid or args.device)


@contextmanager
def finding_patient(args: argparse.Namespace) -> "Iterator[Patient]":
    """Whom those flags name; what reads devices is given back afterwards.

    Raises:
        HeadwayError: there is no such process, device or file.
    """
    from headway.doctor import find_patient

    key = "" if args.key_file is None else key_in(args.key_file)
    with _devices() as devices:
        yield find_patient(
            url=args.url or "",
            key=key,
            pid=args.pid or 0,
            devices=devices,
            device=args.device or "",
        )


@contextmanager
def _devices() -> "Iterator[Callable[[], Sequence[DeviceReading]] | None]":
    """Reads this machine's accelerators, where there are any and a driver shows them."""
    from headway.devices import open_nvml

    reader = open_nvml()
    try:
        yield None if reader is None else reader.read
    finally:
        if reader is not None:
            reader.close()


def exit_code(diagnosis: "Diagnosis", lost: str = "") -> int:
    """3 where something serious was found, else 1 where the server was lost meanwhile."""
    from headway.doctor import Severity, worst

    if worst(diagnosis.findings) is Severity.SERIOUS:
        return EXIT_MISSED
    return EXIT_FAILED if lost else EXIT_OK


def say_lost(patient: "Patient") -> None:
    """That it was not looked at to the end, if so."""
    if patient.lost:
        say(f"{patient.lost}; what was read until then is judged")


def plain(diagnosis: "Diagnosis") -> dict[str, object]:
    """For programs."""
    return {
        "is_healthy": diagnosis.is_healthy,
        "findings": [
            {
                "code": each.code,
                "severity": each.severity.value,
                "confidence": round(each.confidence_ratio, 4),
                "subject": each.subject,
                "title": each.title,
                "evidence": [
                    {"name": one.name, "value": one.value, "unit": one.unit}
                    for one in each.evidence
                ],
                "remedy": each.remedy,
            }
            for each in diagnosis.findings
        ],
        "healthy": list(diagnosis.healthy),
        "unknown": dict(diagnosis.unknown),
    }


def print_diagnosis(diagnosis: "Diagnosis", form: str) -> None:
    """The findings with what they rest on, then what was fine, then what could not be told."""
    if form == "json":
        print_json(plain(diagnosis))
        return
    for finding in diagnosis.findings:
        _print_finding(finding)
    if diagnosis.healthy:
        print(_listed("fine", diagnosis.healthy))
    by_reason: dict[str, list[str]] = {}
    for code, why in diagnosis.unknown.items():
        by_reason.setdefault(why, []).append(code)
    for why, codes in by_reason.items():
        print(_listed("not told", codes, _short(why)))
    if diagnosis.is_healthy:
        count = len(diagnosis.healthy)
        checks = "1 check" if count == 1 else f"{count} checks"
        say(f"healthy, as far as could be told: {checks} found nothing")
    else:
        say("what each code means: docs/reference/findings.md")


def _listed(result: str, codes: Sequence[str], why: str = "") -> str:
    words = f"{result}: {', '.join(codes)}" + (f" ({why})" if why else "")
    return fill(words, _WIDTH, subsequent_indent="  ", break_long_words=False)


def _print_finding(finding: "Finding") -> None:
    where = f" - {finding.subject}" if finding.subject else ""
    sure = int(1000 * finding.confidence_ratio) / 10  # never rounded up to certainty
    print(
        f"{finding.severity.value.upper()} {finding.code}: {finding.title}{where} ({sure:g} % sure)"
    )
    for one in finding.evidence:
        print(f"  {one.name}: {_value(one)}")
    print(f"  to do: {finding.remedy}")
    print()


def _value(evidence: "Evidence") -> str:
    value = evidence.value
    text = f"{value:g}" if isinstance(value, float) else str(value)
    return f"{text} {evidence.unit}".rstrip()


def _short(why: str) -> str:
    return why if len(why) <= _WHY_CHARS_MAX else why[: _WHY_CHARS_MAX - 3] + "..."
