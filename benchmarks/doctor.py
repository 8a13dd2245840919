"""Illnesses that are really caused, and whether the doctor finds them; and healthy servers.

Each row is a real server under a real load, in processes of its own, watched by the doctor while it
runs and diagnosed from its journal, its metrics and its processes:

1. *ill*: a server with one illness, so many times; `found` counts the diagnoses that name it,
   `confidence` is the least sure of them, `alarms_beside` counts other findings that are more than
   a note.
2. *healthy*: servers of several kinds, 20 runs in all; `false_alarms` counts findings that are more
   than a note.

That other programs use the cores may be true whatever the server does; it is counted apart, under
`neighbours`, beside the cores that others really used.

Usage: `python benchmarks/doctor.py [--quick] [--format table|json]`. `--quick` takes three
illnesses and three healthy runs. With `--format json` the document goes to stdout; otherwise a
table, and the document to `benchmarks/results/doctor.json`. Exits with 1 where an illness was never
found or once called fine, or a healthy server alarmed. `--picture PNG` measures nothing and draws
the guide's picture instead: a server whose model leaks, as `headway doctor watch` sees it.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import harness
from harness import Row
from sickbay.cases import HEALTHY, ILL, SLOWLY_ILL, TOLERATED, cores_count, ill
from sickbay.ward import Case, Examined, examined, served, under_load

from headway import cli
from headway.doctor import CHECKS, Finding, Severity

NAME = "doctor"
RUNS_ILL, RUNS_HEALTHY = 3, 20
QUICK_CODES = ("memory_leak", "copies_per_row", "too_many_threads")
TWO_CORES = frozenset({"slots_in_turn", "noisy_neighbour"})
COLUMNS = (
    "part",
    "server",
    "illness",
    "runs",
    "found",
    "confidence",
    "alarms_beside",
    "false_alarms",
    "neighbours",
    "not_told",
    "watched_s",
    "others_cores",
    "holds",
)


def ill_row(case: Case, seen: Sequence[Examined]) -> Row:
    """How often an illness was found, and what was said beside it."""
    for why in dict.fromkeys(each.diagnosis.unknown.get(case.code) for each in seen):
        if why is not None:
            print(f"not told: {why}", file=sys.stderr)
    named = [_findings(each, case.code) for each in seen]
    found = [findings for findings in named if findings]
    sure = min((max(f.confidence_ratio for f in findings) for findings in found), default=0.0)
    return {
        "part": "ill",
        "server": case.name,
        "illness": case.code,
        "runs": len(seen),
        "found": len(found),
        "confidence": int(1e4 * sure) / 1e4,
        "alarms_beside": sum(len(_alarms(each) - {case.code}) for each in seen),
        "not_told": sum(case.code in each.diagnosis.unknown for each in seen),
        **_circumstances(case, seen),
        # A run in which it was called fine was a miss, whatever the other runs found.
        "holds": bool(found) and all(case.code not in each.diagnosis.healthy for each in seen),
    }


def healthy_row(case: Case, seen: Sequence[Examined]) -> Row:
    """How often a healthy server was called ill."""
    for each in seen:
        for code in sorted(_alarms(each)):
            print(f"false alarm: {_findings(each, code)}", file=sys.stderr)
    false_alarms = sum(len(_alarms(each)) for each in seen)
    return {
        "part": "healthy",
        "server": case.name,
        "illness": "none",
        "runs": len(seen),
        "false_alarms": false_alarms,
        "neighbours": sum(bool(_findings(each, *TOLERATED)) for each in seen),
        "not_told": round(sum(len(each.diagnosis.unknown) for each in seen) / len(seen), 1),
        **_circumstances(case, seen),
        "holds": not false_alarms,
    }


def measure(is_quick: bool) -> Iterator[Row]:
    """A row for each case."""
    cases = [ill(code) for code in QUICK_CODES] if is_quick else ILL
    with tempfile.TemporaryDirectory() as home:
        for case in cases:
            if case.code in TWO_CORES and cores_count() < 2:
                print(f"passed over, it needs two cores: {case.name}", file=sys.stderr)
                continue
            times = 1 if is_quick else RUNS_ILL
            yield ill_row(case, _examined(Path(home), case, times))
        for index, case in enumerate(HEALTHY):
            times = 1 if is_quick else RUNS_HEALTHY // len(HEALTHY)
            if index < 3 or not is_quick:
                yield healthy_row(case, _examined(Path(home), case, times))


def _examined(home: Path, case: Case, times: int) -> list[Examined]:
    print(f"{case.code or 'healthy'}: {case.name}", file=sys.stderr, flush=True)
    return [examined(Path(tempfile.mkdtemp(dir=home)), case) for _ in range(times)]


def _circumstances(case: Case, seen: Sequence[Examined]) -> Row:
    return {
        "watched_s": case.seconds,
        "others_cores": max(each.others_cores for each in seen),
    }


def _findings(seen: Examined, *codes: str) -> list[Finding]:
    return [finding for finding in seen.diagnosis.findings if finding.code in codes]


def _alarms(seen: Examined) -> set[str]:
    """Codes of what is more than a note."""
    return {
        finding.code
        for finding in seen.diagnosis.findings
        if finding.severity is not Severity.NOTE and finding.code not in TOLERATED
    }


def draw(path: str) -> int:
    """A minute of a leaking server, as the verb draws it; the verb's exit code."""
    case = SLOWLY_ILL
    with (
        tempfile.TemporaryDirectory() as home,
        served(Path(home), case.config) as ward,
        under_load(ward.port, case.loads),
    ):
        watch = ["doctor", "watch", "--url", ward.url, "--minutes", "1", "--every", "250ms"]
        return cli.main([*watch, "--plot", path])


def main() -> int:
    """Measure, and put the figures where they are asked for."""
    parser = harness.quick_parser(__doc__, "three illnesses and three healthy runs")
    parser.add_argument("--picture", metavar="PNG", help="draw the guide's picture instead")
    options = parser.parse_args()
    harness.adopt_orphans()
    if options.picture:
        return 0 if draw(options.picture) == cli.EXIT_MISSED else 1
    rows = list(measure(options.quick))
    caused = {case.code for case in ILL}
    unseen = ", ".join(sorted(check.code for check in CHECKS if check.code not in caused))
    harness.publish(
        NAME,
        rows,
        COLUMNS,
        options,
        notes=[
            f"Each healthy server answered {len(CHECKS)} checks; not_told is how many of them had"
            " too little to go by, on average, and for an illness how often it was one of these.",
            "others_cores: the most that programs of neither the server nor the doctor used; the"
            " neighbour's own cores are left out of it.",
            f"Not caused here, but judged in tests from recorded evidence: {unseen}.",
        ],
    )
    return 0 if all(row["holds"] for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
