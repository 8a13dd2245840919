"""The table of `docs/concepts/prediction.md`: what was to be reached, and what was measured.

Every figure is read from `benchmarks/results`; a figure whose file is not there is left out.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

Row = Mapping[str, Any]
Documents = Mapping[str, Mapping[str, Any]]

MAIN = "pinned"
LOADS = (0.85, 0.95)
BASELINES = ("max10", "pairwise", "windowed-pcie", "rls", "boosted")
HEAD = ("figure", "to reach", "measured, 85 % / 95 %", "fixed", "best baseline", "oracle")
PICTURES = "../images/prediction"
DRAWN = {
    "errors": "Error of the predicted execution time by load and predictor",
    "calibration": "Predicted against actual execution time",
    "learning": "Error against executions seen, without a profile",
    "bounds": "Coverage and width of the 95 % bounds",
}


def blocks(found: Documents) -> Iterator[str]:
    """The page's measured part, in order."""
    if "prediction" in found:
        document = found["prediction"]
        yield "## What is measured"
        yield _where(document)
        yield table(HEAD, [*_executions(found), *_responses(found), *_coverage(found)])
        yield "\n\n".join(f"![{words}]({PICTURES}/{name}.png)" for name, words in DRAWN.items())
        yield _cost(found["prediction"]["rows"])
        yield _setups(found["prediction"]["rows"])
    if "prediction_cold_start" in found:
        yield _cold(found["prediction_cold_start"]["rows"])
    if "prediction_shift" in found:
        yield _shift(found["prediction_shift"]["rows"])
    if "transfer" in found:
        yield _transfer(found["transfer"])


def _where(document: Mapping[str, Any]) -> str:
    machine = document["machine"]
    noise = max(row["others_cores"] or 0.0 for row in document["rows"] if row["config"] == MAIN)
    return (
        f"`{document['command']}` on {machine['cores']} cores, {machine['cpu']}, "
        f"{machine['system']}, {document['date'][:10]}: six real models in eight sizes, 0.4 to "
        "90 ms alone, two slots on each pinned core, Poisson arrivals, all predictors on the same "
        f"executions. Other programs used at most {noise:.2f} cores. The oracle knows "
        "every later overlap; what it misses is the system's own scheduling. Shortfalls are in "
        "the table."
    )


def _executions(found: Documents) -> Iterator[tuple[str, ...]]:
    yield _compared(found["prediction"]["rows"], "MAPE of execution time, at dispatch", "9 / 7 %")


def _responses(found: Documents) -> Iterator[tuple[str, ...]]:
    if "response_prediction" not in found:
        return
    rows = found["response_prediction"]["rows"]
    yield _compared(rows, "MAPE of response time, at arrival", "12 / 9 %")
    bias = [_percent(_one(rows, "headway", load)["bias"], sign=True) for load in LOADS]
    yield ("bias of response time", "within 5 %", " / ".join(bias), "", "", "")


def _compared(rows: Iterable[Row], figure: str, target: str) -> tuple[str, ...]:
    """`headway`, `fixed`, the best of the others at each load, and the oracle if it is there."""
    rows = list(rows)
    best = []
    for load in LOADS:
        others = [r for r in rows if r["predictor"] in BASELINES and _is_main(r, load)]
        least = min(others, key=lambda row: row["mape"])
        best.append(f"{_percent(least['mape'])} ({least['predictor']})")
    cells = [_pair(rows, "headway"), _pair(rows, "fixed"), " / ".join(best), _pair(rows, "oracle")]
    return (figure, f"at most {target}", *cells)


def _coverage(found: Documents) -> Iterator[tuple[str, ...]]:
    rows = found["prediction"]["rows"]
    for words, target, cell in (
        ("coverage of the 95 % bound, all", "93-97 %", lambda r: _percent(r["coverage"])),
        (
            "the same, lowest and highest class",
            "93-97 %",
            lambda r: f"{_percent(r['coverage_min'])}-{_percent(r['coverage_max'])}",
        ),
        ("mean bound over actual", "none claimed", lambda r: f"{r['width']:.2f}"),
    ):
        yield (words, target, _cells(rows, "headway", cell), _cells(rows, "fixed", cell), "", "")


def _cost(rows: Iterable[Row]) -> str:
    costs = [r["cost_us"] for r in rows if r["predictor"] == "headway" and r["config"] == MAIN]
    return (
        "A forecast for a candidate and all that run beside it takes "
        f"{min(costs):.0f} to {max(costs):.0f} us of processor time in these recordings, with what "
        "waits and what is expected."
    )


def _setups(rows: Iterable[Row]) -> str:
    """Error under each way to share the cores, where more than one was recorded."""
    rows = list(rows)
    configs = list(dict.fromkeys(row["config"] for row in rows))
    head = ("slots", "fixed", "rls", "headway", "oracle")
    lines = [
        (config, *(_pair(rows, name, config) for name in head[1:]))
        for config in configs
        if any(row["config"] == config and row["utilisation"] == LOADS[0] for row in rows)
    ]
    words = (
        "MAPE of execution time under other settings: threads not pinned, a process for each "
        "model, two threads in each operator, and those spinning for work."
    )
    return f"{words}\n\n{table(head, lines)}"


def _cold(rows: Iterable[Row]) -> str:
    settled: dict[tuple[str, bool], int | None] = {}
    for row in rows:
        settled[row["predictor"], row["has_profile"]] = row["settled_after"]
    names = list(dict.fromkeys(name for name, _ in settled if name != "oracle"))
    lines = [
        (name, *(_count(settled.get((name, has_profile))) for has_profile in (True, False)))
        for name in names
    ]
    counts = table(("predictor", "with a profile", "without"), lines)
    return (
        "Executions until the error is within a fifth of what it comes to; to reach: 30 with a "
        f"profile, 60 without.\n\n{counts}"
    )


def _shift(rows: Iterable[Row]) -> str:
    words = {
        "new_model": "a new model joins",
        "rate": "the rate doubles",
        "slots": "slots 2 to 4",
        "core": "another program takes a core",
    }
    lines = [
        (
            words.get(row["shift"], row["shift"]),
            row["predictor"],
            _percent(row["mape_before"]),
            _percent(row["mape_first"]),
            _percent(row["mape_settled"]),
            _count(row["settled_after"]),
        )
        for row in rows
        if row["predictor"] in {"fixed", "rls", "headway"}
    ]
    head = ("half way", "predictor", "before", "first 20 after", "settled", "back within a fifth")
    return f"After a shift; to reach: back within 50 executions.\n\n{table(head, lines)}"


def _transfer(document: Mapping[str, Any]) -> str:
    head = ("copies", "fixed", "windowed-pcie", "headway", "bias")
    lines = []
    for source, pattern in dict.fromkeys((r["source"], r["pattern"]) for r in document["rows"]):
        by = {
            row["predictor"]: row
            for row in document["rows"]
            if (row["source"], row["pattern"], row["copies"]) == (source, pattern, "1-8")
        }
        if "headway" in by:
            errors = [f"{by[name]['mape']:.1f} %" for name in head[1:4]]
            lines.append((f"{source}, {pattern}", *errors, f"{by['headway']['bias']:+.1f} %"))
    return (
        f"Transfer time under 1 to 8 copies at once, MAPE; to reach: 8 % on the emulated tree. "
        f"`{document['command']}`; rows that say emulated are emulated. Host rows are real copies "
        "through shared memory on the same cores: what a copy waits for there is a core, not a "
        f"link, and nothing is claimed of them.\n\n{table(head, lines)}"
    )


def _is_main(row: Row, load: float) -> bool:
    return row["config"] == MAIN and row["utilisation"] == load


def _one(rows: Iterable[Row], predictor: str, load: float, config: str = MAIN) -> Row:
    return next(
        (
            row
            for row in rows
            if (row["config"], row["utilisation"], row["predictor"]) == (config, load, predictor)
        ),
        {},
    )


def _cells(
    rows: Iterable[Row], predictor: str, cell: Callable[[Row], str], config: str = MAIN
) -> str:
    rows = list(rows)
    found = [_one(rows, predictor, load, config) for load in LOADS]
    return " / ".join(cell(row) for row in found) if all(found) else ""


def _pair(rows: Iterable[Row], predictor: str, config: str = MAIN) -> str:
    return _cells(rows, predictor, lambda row: _percent(row["mape"]), config)


def _percent(ratio: float | None, *, sign: bool = False) -> str:
    if ratio is None:
        return "-"
    return f"{100 * ratio:+.1f} %" if sign else f"{100 * ratio:.1f} %"


def _count(settled: int | None) -> str:
    return "not within the run" if settled is None else str(settled)


def table(head: Iterable[str], lines: Iterable[Iterable[str]]) -> str:
    """A table of cells that are text already, its head first."""
    head = list(head)
    rows = [head, ["---"] * len(head), *lines]
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)
