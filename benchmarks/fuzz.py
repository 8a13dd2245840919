"""Inputs that are nearly right, a million of them, at every decoder: no crash, no leak, no hang.

A server in this process, whole but for its workers (`fuzzing/target.py`), is given valid requests
made wrong by a seed (`fuzzing/mutate.py`), through each of the ways in of `fuzzing/doors.py`: JSON,
binary and raw bodies, compressed ones, estimates, the repository's, bytes of an HTTP connection,
gRPC messages, streams of them. Each must be answered, or refused with an error that the protocol
has a name for and that is the client's own. Memory is read all along; its slope is a least-squares
line over the last three quarters of the readings.

Usage: `python benchmarks/fuzz.py [--quick] [--format table|json] [--seed N] [--inputs N]`. One
door alone: `--only DOOR`, from one input on: `--first NUMBER`. With `--format json` the document
goes to stdout; a full run puts it into `benchmarks/results/fuzz.json`. Exits with 1 if anything was
found, and says on stderr what, and by which input.
"""

from __future__ import annotations

import asyncio
import gc
import os
import statistics
import sys
import time
from collections.abc import Sequence

import harness
from fuzzing import DOORS, Door, Tally, attack, serving
from harness import Row

NAME = "fuzz"
COLUMNS = (
    "door",
    "inputs",
    "accepted",
    "refused",
    "refusals",
    "wrong",
    "mean_us",
    "slowest_ms",
    "slowest_input",
    "seconds",
    "rss_mib_first",
    "rss_mib_last",
    "kib_per_100k_inputs",
)
INPUTS, INPUTS_QUICK = 1_000_000, 100_000
WARM = 300
"""Inputs at each door before memory is first read: caches fill, and codecs are loaded."""


class Memory:
    """Resident memory of this process over the inputs so far."""

    def __init__(self) -> None:
        self.inputs = 0
        self.readings: list[tuple[int, float]] = []

    def read(self) -> None:
        """Note it as it is now."""
        self.readings.append((self.inputs, harness.rss_mib([os.getpid()])))

    def slope_kib(self) -> float | None:
        """KiB for each 100,000 inputs, the first quarter left out; None of too few readings."""
        late = self.readings[len(self.readings) // 4 :]
        if len(late) < 8:
            return None
        x, y = [float(at) for at, _ in late], [mib for _, mib in late]
        return round(statistics.linear_regression(x, y).slope * 1024 * 100_000, 1)


async def fuzz(doors: Sequence[Door], seed: int, inputs: int, first: int) -> list[Row]:
    """Every door by its share, in turns of a tenth, so that memory is read over all of them."""
    memory = Memory()
    total = sum(door.weight for door in doors)
    tallies: dict[str, list[Tally]] = {door.name: [] for door in doors}
    async with serving() as target:
        for door in doors:
            await attack(target, door, seed=seed + 1, count=min(WARM, 10 * door.weight))
        gc.collect()
        memory.read()
        began_s = time.monotonic()
        for turn in range(10):
            for door in doors:
                share = max(1, inputs * door.weight // (10 * total))
                begin = first + turn * share
                tally = await attack(
                    target, door, seed=seed, count=share, first=begin, look=memory.read
                )
                tallies[door.name].append(tally)
                memory.inputs += tally.inputs
            print(
                f"{memory.inputs} inputs in {time.monotonic() - began_s:.0f} s,"
                f" {memory.readings[-1][1]} MiB",
                file=sys.stderr,
                flush=True,
            )
        gc.collect()
        memory.read()
    rows = [_row(name, found) for name, found in tallies.items()]
    return [*rows, _total(rows, memory)]


def _row(name: str, tallies: Sequence[Tally]) -> Row:
    """What became of the inputs at one door."""
    for finding in (one for tally in tallies for one in tally.findings):
        print(
            f"WRONG at {finding.door}, --seed {finding.seed} --first {finding.number}:"
            f" {finding.what}\n{finding.item}",
            file=sys.stderr,
        )
    verdicts = sum((tally.verdicts for tally in tallies), start=type(tallies[0].verdicts)())
    inputs, took_ns = sum(t.inputs for t in tallies), sum(t.took_ns for t in tallies)
    slowest = max(tallies, key=lambda tally: tally.slowest_ns)
    accepted, wrong = verdicts.pop("accepted", 0), verdicts.pop("wrong", 0)
    return {
        "door": name,
        "inputs": inputs,
        "accepted": accepted,
        "refused": inputs - accepted - wrong,
        "refusals": ", ".join(f"{code} {count}" for code, count in verdicts.most_common(4)),
        "wrong": wrong,
        "mean_us": round(took_ns / inputs / 1e3, 1),
        "slowest_ms": round(slowest.slowest_ns / 1e6, 2),
        "slowest_input": slowest.slowest_number,
        "seconds": round(took_ns / 1e9, 1),
    }


def _total(rows: Sequence[Row], memory: Memory) -> Row:
    def of(key: str) -> float:
        return sum(float(row[key] or 0) for row in rows)

    return {
        "door": "all",
        "inputs": int(of("inputs")),
        "accepted": int(of("accepted")),
        "refused": int(of("refused")),
        "wrong": int(of("wrong")),
        "mean_us": round(of("seconds") / of("inputs") * 1e6, 1),
        "slowest_ms": max(float(row["slowest_ms"] or 0) for row in rows),
        "seconds": round(of("seconds"), 1),
        "rss_mib_first": memory.readings[0][1],
        "rss_mib_last": memory.readings[-1][1],
        "kib_per_100k_inputs": memory.slope_kib(),
    }


def main() -> int:
    """Fuzz, and put the figures where they are asked for."""
    parser = harness.quick_parser(__doc__, f"{INPUTS_QUICK:,} inputs instead of {INPUTS:,}")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--inputs", type=int, help="how many, over all doors")
    parser.add_argument("--only", choices=[door.name for door in DOORS], help="one door alone")
    parser.add_argument("--first", type=int, default=0, help="number of the first input")
    options = parser.parse_args()
    inputs = options.inputs or (INPUTS_QUICK if options.quick else INPUTS)
    doors = [door for door in DOORS if options.only in (None, door.name)]
    rows = asyncio.run(fuzz(doors, options.seed, inputs, options.first))
    is_partial = options.only is not None or options.inputs is not None
    options.quick = options.quick or is_partial
    harness.publish(
        NAME,
        rows,
        COLUMNS,
        options,
        notes=[
            f"Seed {options.seed}. Accepted: valid after all. Refused: with an error that the"
            " protocol has a name for, and that is the client's own. Wrong: anything else.",
            "slowest_ms: the least of three tries of the slowest input, which has up to 512 KiB.",
            "kib_per_100k_inputs: the slope of this process's resident memory.",
        ],
    )
    return 1 if rows[-1]["wrong"] else 0


if __name__ == "__main__":
    sys.exit(main())
