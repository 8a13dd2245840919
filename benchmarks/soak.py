"""A server under everything at once for half an hour: is every request answered once, and rightly?

Three models in a worker each are asked over HTTP and gRPC at 1.1 times the rate that they were
found to serve, urgent requests and others, small ones and large ones, each answer checked. All the
while workers are killed, models reloaded, clients vanish, trickle or do not read, the journal's
disk is full and the wall clock steps (`soaking/trouble.py`). Then: does every request have exactly
one answer, do the sums of the clients agree with the server's own, are memory and descriptors flat,
are urgent requests as fast in the last part as in the first?

A part is a minute, or a sixth of a short run; each is a row. The last row is the whole, with what
was promised and whether it holds. Slopes are Theil-Sen over readings every second or so, the first
fifth left out. Memory is flat where the slope over the run comes to no more than
`GROWTH_MIB_MAX`, descriptors where it comes to no more than `GROWTH_FDS_MAX`.

Usage: `python benchmarks/soak.py [--minutes 30] [--quick] [--format table|json] [--seed N]`.
`--quick` is a run of less than a minute. With `--format json` the document goes to stdout;
otherwise a table, and a full run puts the document into `benchmarks/results/soak.json`. Exits with
1 where a promise is broken.
"""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import harness
from harness import Row
from soaking.asks import FICKLE, HIGH, LOW
from soaking.crowd import Crowd, Tally, account
from soaking.figures import slope
from soaking.subject import Reading, Subject, soaked
from soaking.trouble import Trouble

NAME = "soak"
MINUTES, MINUTES_QUICK = 30.0, 0.6
OVERLOAD = 1.1
CAPACITY_S, CAPACITY_CLIENTS = 6.0, 40
GROWTH_MIB_MAX, GROWTH_FDS_MAX = 8.0, 4.0
P99_RATIO_MAX = 1.1
SETTLE_S = 20.0
COLUMNS = (
    "part",
    "sent",
    "completed",
    "rejected",
    "expired",
    "failed",
    "other",
    "vanished",
    "high_p50_ms",
    "high_p99_ms",
    "low_p99_ms",
    "server_mib",
    "workers_mib",
    "server_fds",
    "connections",
    "kills",
    "reloads",
    "clock_steps",
)
KNOWN = ("completed", "rejected", "expired", "failed")


class Run:
    """One soak: what was asked, what was disturbed, what was read."""

    def __init__(self, subject: Subject, minutes: float, seed: int) -> None:
        self.subject = subject
        self.part_s = 60.0 if minutes >= 3 else minutes * 10
        self.parts = max(2, round(minutes * 60 / self.part_s))
        self.crowd = Crowd(subject.port, subject.grpc_port, seed)
        self.trouble = Trouble(subject, self.part_s, self.parts, seed)
        self.readings: list[Reading] = []
        self.rows: list[Row] = []
        self.capacity_rps = 0.0

    async def play(self) -> None:
        """Find the capacity, then load and trouble; then wait until nothing is under way."""
        self.capacity_rps = await self.crowd.capacity_rps(CAPACITY_S, CAPACITY_CLIENTS)
        self.crowd.end_part()
        began_s = time.monotonic()
        until_s = began_s + self.parts * self.part_s
        async with asyncio.TaskGroup() as group:
            group.create_task(self.crowd.arrive(self.capacity_rps * OVERLOAD, until_s))
            group.create_task(self.trouble.make(until_s))
            group.create_task(self._watch(began_s))
        self.rows.append(self._part_row(self.crowd.end_part(), self.parts))
        await self.crowd.close()

    async def _watch(self, began_s: float) -> None:
        """Read what the server holds, and close the books of each part; the last stays open."""
        for part in range(self.parts):
            ends_s = began_s + (part + 1) * self.part_s
            while time.monotonic() < ends_s:
                self.readings.append(self.subject.read(time.monotonic() - began_s))
                await asyncio.sleep(max(0.25, self.part_s / 60))
            if part < self.parts - 1:
                self.rows.append(self._part_row(self.crowd.end_part(), part + 1))

    def _part_row(self, tally: Tally, number: int) -> Row:
        last = self.readings[-1]
        known = {outcome: tally.of(outcome) for outcome in KNOWN}
        done = self.trouble.done
        row: Row = {
            "part": f"{number}",
            "sent": tally.sent,
            **known,
            "other": tally.ends.total() - sum(known.values()),
            "vanished": tally.vanished,
            "high_p50_ms": tally.p_ms(HIGH, 0.5),
            "high_p99_ms": tally.p_ms(HIGH, 0.99),
            "low_p99_ms": tally.p_ms(LOW, 0.99),
            "server_mib": last.server_mib,
            "workers_mib": last.workers_mib,
            "server_fds": last.server_fds,
            "connections": last.connections,
            "kills": done["kills"],
            "reloads": done["reloads"],
            "clock_steps": len(self.subject.clock.steps),
        }
        print(
            f"part {number} of {self.parts}: {tally.sent} sent, "
            + ", ".join(f"{count} {name}" for name, count in known.items())
            + f", high p99 {row['high_p99_ms']} ms, {last.server_mib} MiB,"
            f" {last.server_fds} descriptors",
            file=sys.stderr,
            flush=True,
        )
        return row

    def totals(self) -> Row:
        """The whole, and what was promised."""
        ended, left = self._settled()
        asked = account(self.crowd.parts)
        hours = self.parts * self.part_s / 3600
        slopes = {
            name: 3600 * slope([(r.at_s, float(getattr(r, name))) for r in self.readings])
            for name in ("server_mib", "workers_mib", "server_fds", "workers_fds", "server_threads")
        }
        done, whole = self.trouble.done, self.rows
        first_ms, last_ms = (float(whole[at]["high_p99_ms"] or 0) for at in (0, -1))
        differences = _differences(asked, ended)
        sent = sum(part.sent for part in self.crowd.parts)
        promises = {
            "one_answer_each": asked.total() == sent and not self.crowd.extra and not _lost(asked),
            "answers_are_right": not _ended(asked, "wrong"),
            "sums_agree": not differences and left == 0,
            "memory_is_flat": all(
                slopes[name] * hours <= GROWTH_MIB_MAX for name in ("server_mib", "workers_mib")
            ),
            "descriptors_are_flat": all(
                slopes[name] * hours <= GROWTH_FDS_MAX
                for name in ("server_fds", "workers_fds", "server_threads")
            ),
            "reloads_do_not_fail": not done["reloads_failed"],
            "kills_are_survived": not done["not_ready_after_kill"],
            "slow_are_cut_off": not done["cut_slow_never"] and not done["cut_silent_never"],
        }
        for what in (*self.crowd.oddities[:20], *differences):
            print(f"odd: {what}", file=sys.stderr)
        print(f"trouble: {dict(done)}; slopes an hour: {slopes}", file=sys.stderr)
        return {
            "part": "all",
            "sent": sent,
            **{outcome: _ended(asked, outcome) for outcome in KNOWN},
            "other": asked.total() - sum(_ended(asked, outcome) for outcome in KNOWN),
            "vanished": sum(part.vanished for part in self.crowd.parts),
            "high_p99_ms": round(last_ms / first_ms, 3) if first_ms else None,
            "kills": done["kills"],
            "reloads": done["reloads"],
            "clock_steps": len(self.subject.clock.steps),
            "minutes": round(self.parts * self.part_s / 60, 2),
            "capacity_rps": round(self.capacity_rps, 1),
            "high_p99_last_to_first": round(last_ms / first_ms, 3) if first_ms else None,
            "slow_senders_cut": done["cut_slow"],
            "silent_readers_cut": done["cut_silent"],
            "slowest_cut_s": round(self.trouble.slowest_cut_s, 1),
            **{f"{name}_per_hour": round(value, 2) for name, value in slopes.items()},
            **promises,
        }

    def _settled(self) -> tuple[Counter[tuple[str, str]], int]:
        """The server's counters once nothing waits or runs."""
        give_up_at_s = time.monotonic() + SETTLE_S
        while True:
            ended, left = self.subject.counters()
            if not left or time.monotonic() > give_up_at_s:
                return Counter(ended), left
            time.sleep(0.1)


def _ended(ends: Counter[tuple[str, str]], outcome: str) -> int:
    return sum(count for (_, ended), count in ends.items() if ended == outcome)


def _lost(ends: Counter[tuple[str, str]]) -> int:
    return _ended(ends, "lost")


def _differences(asked: Counter[tuple[str, str]], ended: Counter[tuple[str, str]]) -> list[str]:
    """Where clients and server do not agree, in words. What the fickle asked for is left out."""
    return [
        f"{tier} {outcome}: clients {asked[tier, outcome]}, server {ended[tier, outcome]}"
        for tier, outcome in sorted({*asked, *ended})
        if tier != FICKLE and asked[tier, outcome] != ended[tier, outcome]
    ]


def aftermath(subject: Subject) -> Row:
    """What is left when the server is asked to end: its exit code, its log, its journal."""
    journal = Path(subject.disk.journal)
    subject.tell(signal.SIGTERM)
    code = subject.wait_ended()
    log = subject.log()
    row: Row = {
        "disk_was_full": "No space left on device" in log,
        "ends_in_order": code == 0,
        "no_bug_is_logged": "bug" not in log and "Traceback" not in log,
    }
    if subject.disk.is_mounted:
        command = [sys.executable, "-m", "headway", "replay", str(journal)]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
        row["journal_replays"] = done.returncode == 0
        print(f"replay: {done.stdout.strip()[-200:]}{done.stderr.strip()[-500:]}", file=sys.stderr)
    return row


async def played(subject: Subject, minutes: float, seed: int) -> Run:
    """A run that has been; gRPC's clients belong to the loop in which they are made."""
    run = Run(subject, minutes, seed)
    await run.play()
    return run


def soak(minutes: float, seed: int) -> list[Row]:
    """A row for each part, and the whole.

    Raises:
        LoadFailedError: the server did not start.
    """
    with tempfile.TemporaryDirectory() as home, soaked(Path(home)) as subject:
        with harness.Interval() as interval:
            run = asyncio.run(played(subject, minutes, seed))
        total = run.totals() | {"others_cores": interval.others_cores}
        total |= aftermath(subject)
        if not total["no_bug_is_logged"]:
            print(subject.log()[-5000:], file=sys.stderr)
    return [*run.rows, total]


def broken(total: Row, minutes: float) -> Sequence[str]:
    """The promises that do not hold. How fast the last part was is asked of a long run only."""
    missed = [name for name, holds in total.items() if holds is False]
    ratio = total["high_p99_last_to_first"]
    if minutes >= MINUTES and isinstance(ratio, float) and ratio > P99_RATIO_MAX:
        missed.append("high_p99_last_to_first")
    return missed


def main() -> int:
    """Soak, and put the figures where they are asked for."""
    parser = harness.quick_parser(__doc__, f"{MINUTES_QUICK} minutes, unless told")
    parser.add_argument("--minutes", type=float, help=f"how long ({MINUTES:.0f})")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    minutes = options.minutes or (MINUTES_QUICK if options.quick else MINUTES)
    harness.adopt_orphans()
    try:
        rows = soak(minutes, options.seed)
    except harness.LoadFailedError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    # A soak of another length is no results file, or every try would replace the measured one.
    options.quick = options.quick or options.minutes not in (None, MINUTES)
    harness.publish(
        NAME,
        rows,
        COLUMNS,
        options,
        notes=[
            f"Open arrivals at {OVERLOAD} times the measured capacity, a fifth over gRPC, in"
            f" addition a twentieth whose clients vanish. Seed {options.seed}.",
            "In the row `all`, high_p99_ms is that of the last part over that of the first."
            " Kills, reloads and steps are counted up; the first and the last part have no kills.",
            f"Memory is flat: less than {GROWTH_MIB_MAX:.0f} MiB over the run by its slope.",
        ],
    )
    missed = broken(rows[-1], minutes)
    print("broken: " + ", ".join(missed) if missed else "all promises hold", file=sys.stderr)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
