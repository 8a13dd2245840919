"""The measured part of `docs/concepts/policies.md`: each experiment with its command and figures.

Every figure is read from `benchmarks/results`; an experiment whose file is not there is left out.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from prediction_table import table

Row = Mapping[str, Any]
Document = Mapping[str, Any]
Documents = Mapping[str, Document]

ROOT = Path(__file__).parent.parent
PICTURES = "../images"
OWN = "headway"
KINDS = ((False, "slots that cannot preempt"), (True, "low slots niced"))


def blocks(found: Documents) -> Iterator[str]:
    """The page's measured part, in order."""
    parts = {
        "policies_stationary": _stationary,
        "policies_moving": _moving,
        "versus_triton": _versus,
        "policies_published": _published,
        "policies_bursts": _plain_contest,
        "fairness": _fairness,
        "starvation": _starvation,
    }
    known = [name for name in parts if name in found]
    if known:
        yield "## What is measured"
        yield (
            "Violations are in %, high and low class, with the half of their 95 % interval over "
            "seeds where there is one; what is refused, given up, late or failed is a violation. "
            "Work in time is in cores."
        )
    for name in known:
        yield f"### {_TITLES[name]}"
        yield _where(found[name])
        yield from parts[name](found[name])
        yield from _pictures(name)


_TITLES = {
    "policies_stationary": "One steady mix of real models, live",
    "policies_moving": "Eight mixes that move, of real models, live",
    "versus_triton": "Beside Triton, live",
    "policies_published": "The published mix, emulated",
    "policies_bursts": "Sixteen models in bursts on four cards, emulated",
    "fairness": "Three tenants, one sending ten times as much, simulated",
    "starvation": "Too much important work for a minute, simulated",
}


def _where(document: Document) -> str:
    machine = document["machine"]
    seeds = max((row.get("seeds") or 0) for row in document["rows"])
    emulated = " Emulated: no accelerator was there." if document.get("emulated") else ""
    return (
        f"`{document['command']}`, {document['date'][:10]}, {machine['cores']} cores, "
        f"{machine['cpu']}; {seeds} {'seed' if seeds == 1 else 'seeds'}.{emulated}"
    )


def _stationary(document: Document) -> Iterator[str]:
    rows = _policies(document)
    for niced, words in KINDS:
        lines = [_line(row) for row in rows if row["niced"] is niced]
        if lines:
            yield f"With {words}:"
            yield table(_HEAD, lines)


def _moving(document: Document) -> Iterator[str]:
    rows = _policies(document)
    for niced, words in KINDS:
        of_kind = [row for row in rows if row["niced"] is niced]
        if not of_kind:
            continue
        names = list(dict.fromkeys(row["policy"] for row in of_kind))
        mixes = list(dict.fromkeys(row["mix"] for row in of_kind))
        cell = {(row["mix"], row["policy"]): _on_front(row) for row in of_kind}
        yield (
            f"With {words}: high violations / low work in time; `-` where another policy is better "
            "in both."
        )
        yield table(
            ("mix", *names),
            [(mix, *(cell.get((mix, name), "") for name in names)) for mix in mixes],
        )
        yield from _differences(document, niced=niced, mix="moving (all)")


def _on_front(row: Row) -> str:
    mark = "" if row["is_on_front"] else " -"
    return f"{_percent(row['high_violations'])} / {row['low_goodput_work']:.2f}{mark}"


def _plain_contest(document: Document) -> Iterator[str]:
    rows = _policies(document)
    for mix in dict.fromkeys(row["mix"] for row in rows):
        lines = [_line(row) for row in rows if row["mix"] == mix]
        yield f"`{mix}`:"
        yield table(_HEAD, lines)
        yield from _differences(document, mix=mix)


def _versus(document: Document) -> Iterator[str]:
    head = ("server", "high", "low", "low in time, 1/s", "`headway` over it: high", "low in time")
    rows = [row for row in document["rows"] if row["seed"] == "all"]
    for mix in dict.fromkeys(row["mix"] for row in rows):
        lines = [
            (
                f"`{row['server']}`",
                _violations(row, "high"),
                _violations(row, "low"),
                f"{row['low_goodput_rps']:.1f}",
                _times(row, "headway_high_ratio"),
                _times(row, "headway_low_goodput_ratio"),
            )
            for row in rows
            if row["mix"] == mix
        ]
        yield f"`{mix}`:"
        yield table(head, lines)


def _times(row: Row, name: str) -> str:
    """A ratio with its interval; nothing of a server with itself."""
    value = row.get(name)
    if value is None or row["server"] == OWN:
        return ""
    lower, upper = row.get(f"{name}_from"), row.get(f"{name}_to")
    return f"{value:.2f}" + ("" if lower is None else f" [{lower:.2f}, {upper:.2f}]")


def _published(document: Document) -> Iterator[str]:
    lines = []
    for row in _policies(document):
        published = ""
        if row.get("published_high") is not None:
            published = f"{_percent(row['published_high'])} / {_percent(row['published_low'])}"
        lines.append((*_line(row), published))
    yield table((*_HEAD, "published"), lines)
    yield from _differences(document)


def _fairness(document: Document) -> Iterator[str]:
    head = (
        "weights",
        "policy",
        "most off in any 10 s",
        "least of Jain's index",
        "used when one is quiet",
    )
    yield table(
        head,
        [
            (
                row["mix"],
                f"`{row['policy']}`",
                f"{_percent(row['deviation_max'])} %",
                f"{row['jain_min']:.3f}",
                f"{_percent(row['quiet_busy'])} %",
            )
            for row in _policies(document)
        ],
    )


def _starvation(document: Document) -> Iterator[str]:
    head = ("slots", "policy", "high", "low", "low beyond the bound", "longest wait, of the budget")
    yield table(
        head,
        [
            (
                row["mix"],
                f"`{row['policy']}`",
                _violations(row, "high"),
                _violations(row, "low"),
                f"{row['beyond_bound']:.0f} of {row['low_requests']:.0f}",
                "never served" if row["wait_max"] is None else f"{_percent(row['wait_max'])} %",
            )
            for row in _policies(document)
        ],
    )


_HEAD = ("policy", "high", "low", "low work in time", "waste, %")


def _line(row: Row) -> tuple[str, ...]:
    work = row.get("low_goodput_work")
    waste = row.get("waste_ratio")
    return (
        f"`{row['policy']}`",
        _violations(row, "high"),
        _violations(row, "low"),
        "" if work is None else f"{work:.2f}",
        "" if waste is None else _percent(waste),
    )


def _violations(row: Row, side: str) -> str:
    value = row[f"{side}_violations"]
    upper = row.get(f"{side}_violations_to")
    half = "" if upper is None else f" ± {_percent(upper - value)}"
    return f"{_percent(value)}{half}"


def _differences(
    document: Document, *, niced: bool | None = None, mix: str | None = None
) -> Iterator[str]:
    """What `headway` changes against each other policy."""
    lines = []
    for row in document["rows"]:
        is_other = row.get("kind") != "difference" or row.get("policy") != OWN
        if is_other or (niced is not None and row["niced"] is not niced):
            continue
        if mix is not None and row["mix"] != mix:
            continue
        lines.append(
            (
                f"`{row['against']}`",
                _interval(row, "high_violations_difference"),
                _interval(row, "high_violations_relative"),
                _interval(row, "low_goodput_work_relative"),
                _interval(row, "waste_difference"),
            )
        )
    if lines:
        head = ("`headway` less", "high, points", "high, %", "low work, %", "waste, points")
        yield table(head, lines)


def _interval(row: Row, name: str) -> str:
    value = row.get(name)
    if value is None:
        return ""
    lower, upper = row.get(f"{name}_from"), row.get(f"{name}_to")
    around = "" if lower is None else f" [{100 * lower:+.1f}, {100 * upper:+.1f}]"
    return f"{100 * value:+.1f}{around}"


def _policies(document: Document) -> list[Row]:
    return [row for row in document["rows"] if row.get("kind") != "difference"]


def _pictures(name: str) -> Iterator[str]:
    stem = name.replace("_", "-")
    found = sorted((ROOT / "docs" / "images").glob(f"{stem}*.png"))
    found += sorted((ROOT / "docs" / "images").glob(f"{name}*.png"))
    for path in dict.fromkeys(found):
        yield f"![High violations against low work]({PICTURES}/{path.name})"


def _percent(ratio: float) -> str:
    return f"{100 * ratio:.1f}"
