"""The measured part of `docs/guides/soak.md`: what was promised of a server under fire, and held.

Every figure is read from `benchmarks/results`; a part whose file is not there is left out.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import measurements

Documents = Mapping[str, Mapping[str, Any]]
Row = Mapping[str, Any]

PROMISES = {
    "one_answer_each": "every request had exactly one answer",
    "answers_are_right": "every answer was its request's own",
    "sums_agree": "the clients' counts are the server's, by tier and outcome",
    "memory_is_flat": "memory is flat",
    "descriptors_are_flat": "descriptors and threads are flat",
    "reloads_do_not_fail": "every reload succeeded",
    "kills_are_survived": "every killed worker was replaced",
    "slow_are_cut_off": "slow senders and silent readers were cut off",
    "disk_was_full": "the journal's disk was full, and the server went on",
    "journal_replays": "what the journal has replays to the same decisions",
    "no_bug_is_logged": "nothing in the log is a bug",
    "ends_in_order": "SIGTERM ended it in order",
}


def blocks(found: Documents) -> Iterator[str]:
    """The page's measured part, in order."""
    if "soak" in found:
        yield "## What came of it"
        yield from _soak(found["soak"])
    if "reload" in found:
        yield "## Reloads and restarts"
        yield from _reload(found["reload"])
    if "fuzz" in found:
        yield "## Inputs that are nearly right"
        yield from _fuzz(found["fuzz"])


def _soak(document: Mapping[str, Any]) -> Iterator[str]:
    *parts, total = document["rows"]
    yield (
        f"`{document['command']}`, {document['date'][:10]}, on {measurements.machine_of(document)}:"
        f" {total['minutes']:g} minutes at 1.1 times a capacity of {total['capacity_rps']:g}"
        f" requests a second. {total['sent']:,} were sent: {total['completed']:,} completed,"
        f" {total['rejected']:,} rejected, {total['expired']:,} expired, {total['failed']:,} failed"
        f" with their worker; {total['vanished']:,} more had clients that left. {total['kills']}"
        f" workers were killed, {total['reloads']} models reloaded, the clock stepped"
        f" {total['clock_steps']} times, {total['slow_senders_cut']} slow senders and"
        f" {total['silent_readers_cut']} silent readers cut off."
    )
    yield _table(
        ("what was promised", "holds"),
        [(PROMISES[name], "yes" if total[name] else "no") for name in PROMISES if name in total],
    )
    yield (
        f"Slopes, an hour: server {total['server_mib_per_hour']:+.2f} MiB, workers"
        f" {total['workers_mib_per_hour']:+.2f} MiB, descriptors"
        f" {total['server_fds_per_hour']:+.2f}, threads {total['server_threads_per_hour']:+.2f}."
        f" The 99th percentile of urgent requests was {parts[0]['high_p99_ms']:.1f} ms in the first"
        f" minute and {parts[-1]['high_p99_ms']:.1f} ms in the last,"
        f" {total['high_p99_last_to_first']:.2f} times that."
    )


def _reload(document: Mapping[str, Any]) -> Iterator[str]:
    rows = {row["part"]: row for row in document["rows"]}
    reloads, cycles = rows["reloads"], rows["cycles"]
    yield (
        f"`{document['command']}`, {document['date'][:10]}: {reloads['failed']} of"
        f" {reloads['requests']:,} requests failed over {reloads['reloads']} reloads at"
        f" {reloads['rate_rps']} a second. {cycles['cycles']} unloads and loads left"
        f" {cycles['mib_before']:.1f} MiB at {cycles['mib_after']:.1f},"
        f" {cycles['kib_per_cycle']:+.1f} KiB a cycle."
    )
    yield _table(
        ("ended by", "times", "requests", "without an answer", "wrong", "tries again", "told 503"),
        [
            (
                name,
                str(row["restarts"]),
                f"{row['requests']:,}",
                str(row["failed"]),
                str(row["wrong"]),
                f"{row['retries']:,}",
                str(row["told_at_the_end"]),
            )
            for name, row in rows.items()
            if "restarts" in row
        ],
    )


def _fuzz(document: Mapping[str, Any]) -> Iterator[str]:
    total = next(row for row in document["rows"] if row["door"] == "all")
    yield (
        f"`{document['command']}`, {document['date'][:10]}: {total['inputs']:,} inputs at"
        f" {len(document['rows']) - 1} ways in, {total['accepted']:,} of them valid after all,"
        f" {total['refused']:,} refused with an error of the protocol, {total['wrong']} anything"
        f" else. The slowest took {total['slowest_ms']:.0f} ms; memory went from"
        f" {total['rss_mib_first']:.0f} to {total['rss_mib_last']:.0f} MiB."
    )


def _table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    lines = [head, ("---",) * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)
