"""The measured part of `docs/concepts/generation.md`: each experiment with its command and figures.

Every figure is read from `benchmarks/results`; an experiment whose file is not there is left out.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import measurements
from prediction_table import table

Row = Mapping[str, Any]
Documents = Mapping[str, Mapping[str, Any]]


def blocks(found: Documents) -> Iterator[str]:
    """The page's measured part, in order."""
    parts = {
        "generate_tiers": _tiers,
        "generate_fairness": _fairness,
        "generate_preemption": _preemption,
        "swap_or_recompute": _swap,
        "generate_layouts": _layouts,
        "generate_capacity": _capacity,
    }
    known = [name for name in parts if name in found]
    if known:
        yield "## What is measured"
        yield (
            "All of it in virtual time, with a cost model in place of an accelerator; `fcfs`,"
            " `priority` and `vtc` are our own versions of what others do."
        )
    for name in known:
        yield f"### {_TITLES[name]}"
        yield f"`{found[name]['command']}`, {found[name]['date'][:10]}."
        yield from parts[name](found[name]["rows"])


_TITLES = {
    "generate_tiers": "Three tiers on recorded arrivals",
    "generate_fairness": "A flood beside a small tenant, and backlogs",
    "generate_preemption": "Important requests that find the engine full",
    "swap_or_recompute": "Recompute, swap, or by cost",
    "generate_layouts": "Four engines: together, prompts and answers apart, layers on the host",
    "generate_capacity": "Little's law beside the simulation",
}


def _tiers(rows: Sequence[Row]) -> Iterator[str]:
    yield (
        "Gold, silver and bronze 1 to 1 to 3. First tokens in seconds, p50 / p99; bronze's pace in"
        " milliseconds a token."
    )
    yield _table(
        (
            *("trace", "speed", "scheduler", "gold", "silver p99", "bronze"),
            *("bronze pace p99", "preemptions", "makespan s"),
        ),
        [
            (
                row["trace"],
                f"{row['speed']:g}",
                row["policy"],
                f"{row['gold_ttft_p50_s']:.2f} / {row['gold_ttft_p99_s']:.2f}",
                f"{row['silver_ttft_p99_s']:.2f}",
                f"{row['bronze_ttft_p50_s']:.1f} / {row['bronze_ttft_p99_s']:.1f}",
                f"{row['bronze_tpot_p99_ms']:.0f}",
                f"{row['preemptions']:,}",
                f"{row['makespan_s']:.0f}",
            )
            for row in rows
        ],
    )


def _fairness(rows: Sequence[Row]) -> Iterator[str]:
    floods = [row for row in rows if row["scenario"] == "flood"]
    yield (
        "One tenant sends 64 requests, another eight right after, on eight slots: first tokens of"
        " the eight in steps, and in milliseconds beside what they have alone."
    )
    yield _table(
        ("prompt", "scheduler", "steps, mean", "steps, most", "ms, mean", "alone", "makespan s"),
        [
            (
                f"{row['prompt_tokens']}",
                row["policy"],
                f"{row['ttft_mean_steps']:.1f}",
                f"{row['ttft_max_steps']}",
                f"{row['ttft_mean_ms']:.0f}",
                f"{row['alone_mean_ms']:.0f}",
                f"{row['makespan_s']:.2f}",
            )
            for row in floods
        ],
    )
    yield "Tenants that always want more: the largest difference of service over weight."
    yield _table(
        ("tenants", "scheduler", "difference", "bound", "tokens a second"),
        [
            (
                row["scenario"].removeprefix("backlog: "),
                row["policy"],
                f"{row['difference_max']:,.0f}",
                "none" if row.get("bound") is None else f"{row['bound']:,.0f}",
                f"{row['tokens_per_s']:,.0f}",
            )
            for row in rows
            if row["scenario"] != "flood"
        ],
    )


def _preemption(rows: Sequence[Row]) -> Iterator[str]:
    yield (
        "`slots`: long bronze requests hold all slots. `memory`: they fill the memory. Steps from"
        " the arrival of a gold request to its first token; every request ends with all its tokens."
    )
    yield _table(
        ("full of", "scheduler", "steps, p50", "steps, most", "preemptions", "computed / prompts"),
        [
            (
                row["scenario"],
                row["policy"],
                f"{row['gold_ttft_p50_steps']}",
                f"{row['gold_ttft_max_steps']}",
                f"{row['preemptions']}",
                f"{row['computed_tokens'] / row['prompt_tokens']:.2f}",
            )
            for row in rows
        ],
    )


def _swap(rows: Sequence[Row]) -> Iterator[str]:
    yield "`L*` is the length from which a copy is cheaper; latencies are means of whole requests."
    yield _table(
        (
            "engine",
            "L*",
            "way",
            "makespan s",
            "latency s",
            "over the better",
            "swaps",
            "recomputed",
        ),
        [
            (
                row["engine"],
                "none" if row["crossover_tokens"] is None else f"{row['crossover_tokens']:,.0f}",
                row["way"],
                f"{row['makespan_s']:.0f}",
                f"{row['latency_mean_s']:.2f}",
                _over(row),
                f"{row['swaps']:,}",
                f"{row['recomputes']:,}",
            )
            for row in rows
        ],
    )


def _layouts(rows: Sequence[Row]) -> Iterator[str]:
    yield (
        "Simulated: `apart 1:3` has one engine for prompts and three for answers, `streamed 8`"
        " eight of 32 layers on the host; links carry 25 GB/s. Of all requests those that kept"
        " first token and pace both, and how many a second that is; `bursts` are generated."
    )
    yield _table(
        (
            *("trace", "targets", "speed", "layout", "kept both", "goodput /s", "TTFT p99 s"),
            *("pace p99 ms", "refused", "busy"),
        ),
        [
            (
                row["trace"],
                row["targets"],
                f"{row['speed']:g}",
                row["layout"],
                f"{row['met_pct']:.1f} %",
                f"{row['goodput_rps']:.2f}",
                f"{row['ttft_p99_s']:.2f}",
                f"{row['tpot_p99_ms']:.0f}",
                f"{row['refused']}",
                _busy(row),
            )
            for row in rows
        ],
    )


def _busy(row: Row) -> str:
    both = [row["busy"], row["busy_receivers"]]
    return " / ".join([f"{100 * part:.0f} %" for part in both if part is not None])


def _capacity(rows: Sequence[Row]) -> Iterator[str]:
    yield (
        "At parts of the highest rate that the law states, independent arrivals: sequences in the"
        " engine and tokens in its memory at once. At 1.5 times that rate, the rate it does."
    )
    yield _table(
        ("lengths", "load", "sequences", "played", "off", "KV tokens", "played", "off", "rate"),
        [
            (
                row["lengths"],
                f"{row['load']:g}",
                f"{row['sequences']:.1f}",
                f"{row['played_sequences']:.1f}",
                f"{row['sequences_off_pct']:+.0f} %",
                f"{row['kv_tokens']:,.0f}",
                f"{row['played_kv_tokens']:,.0f}",
                f"{row['kv_off_pct']:+.0f} %",
                f"{row['law_rate_rps']:.2f} / {row['played_rate_rps']:.2f}",
            )
            for row in rows
        ],
    )


def _over(row: Row) -> str:
    if row.get("over_best_makespan") is None:
        return ""
    return f"{100 * row['over_best_makespan']:+.1f} %, {100 * row['over_best_latency']:+.1f} %"


def _table(head: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    return table(head, [[measurements.cell_of(cell) for cell in line] for line in lines])
