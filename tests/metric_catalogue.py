"""The metrics that a server exports, as the generated page lists them, and what a query asks for.

Knows the page and PromQL. A query that names a metric which is not there would be a panel or an
alert that stays empty for ever, and nobody would notice.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import promql_parser

__all__ = [
    "CATALOGUE",
    "Family",
    "Selected",
    "filled",
    "problems_of",
    "selected_in",
]

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs/reference/metrics.md"
ROW = re.compile(r"^\| `(?P<name>\S+)` \| (?P<type>\w+) \| (?P<labels>[^|]*) \|", re.MULTILINE)
SUFFIXES = ("_bucket", "_sum", "_count")
ALWAYS = {"job", "instance", "le"}
"""Labels that every scraped series has, and that of a histogram's buckets."""


class Family(NamedTuple):
    """A metric: its name without the endings of a histogram, its type, its labels."""

    name: str
    type: str
    labels: frozenset[str]
    """Empty also where the page shows none because nothing was counted there."""


class Selected(NamedTuple):
    """A series that a query asks for, with the labels that it is asked for by."""

    name: str
    labels: frozenset[str]


def _catalogue() -> Mapping[str, Family]:
    families = [
        Family(row["name"], row["type"], frozenset(re.findall(r"`(\w+)`", row["labels"])))
        for row in ROW.finditer(PAGE.read_text("utf-8"))
    ]
    # Of prometheus_client, for its own process, and of Prometheus itself.
    plain = ("process_resident_memory_bytes", "process_cpu_seconds_total", "up")
    families += [Family(name, "gauge", frozenset()) for name in plain]
    families.append(Family("ALERTS", "gauge", frozenset({"alertname", "alertstate", "severity"})))
    return {family.name: family for family in families}


CATALOGUE = _catalogue()


def filled(query: str) -> str:
    """What Grafana would ask with everything chosen."""
    query = query.replace("$__rate_interval", "5s").replace("$__range", "1m")
    return re.sub(r"\$\w+", ".*", query)


def selected_in(query: str) -> list[Selected]:
    """Every selector of a query."""
    return [_selected(node) for node in _nodes(query) if _is_selector(node)]


def problems_of(query: str, recorded: frozenset[str]) -> Iterator[str]:
    """What a query asks for that is not there: metrics, labels to choose by, labels to add up by.

    Args:
        query: in PromQL.
        recorded: names of recording rules.
    """
    for name, labels in selected_in(query):
        if name in recorded:
            continue
        family = _family_of(name)
        if family is None:
            yield f"there is no metric `{name}`"
        elif family.labels and not labels <= family.labels | ALWAYS:
            yield f"`{name}` has no label {sorted(labels - family.labels - ALWAYS)}"
    for node in _nodes(query):
        if isinstance(node, promql_parser.AggregateExpr) and node.modifier is not None:
            yield from _problems_of_sum(node, set(node.modifier.labels))


def _problems_of_sum(node: promql_parser.AggregateExpr, by: set[str]) -> Iterator[str]:
    """A sum over a label that nothing in it has is one line where many were meant."""
    inside = list(_walk(node.expr))
    families = [_family_of(str(each.name)) for each in inside if _is_selector(each)]
    if all(family is not None and family.labels for family in families):
        known = set().union(*(family.labels for family in families if family is not None))
        if not by <= known | ALWAYS:
            yield f"nothing in `{node.expr.prettify()}` has a label {sorted(by - known - ALWAYS)}"


def _family_of(name: str) -> Family | None:
    """Of a series; those of a histogram have endings, and it has no series of its bare name."""
    family = CATALOGUE.get(name)
    if family is not None:
        return None if family.type == "histogram" else family
    for suffix in SUFFIXES:
        family = CATALOGUE.get(name.removesuffix(suffix))
        if name.endswith(suffix) and family is not None:
            return family if family.type == "histogram" else None
    return None


def _is_selector(node: object) -> bool:
    return isinstance(node, promql_parser.VectorSelector)


def _selected(node: promql_parser.VectorSelector) -> Selected:
    return Selected(str(node.name), frozenset(each.name for each in node.matchers.matchers))


def _nodes(query: str) -> Iterator[object]:
    return _walk(promql_parser.parse(filled(query)))


def _walk(node: object) -> Iterator[object]:
    """A node and all below it."""
    yield node
    for child in _children(node):
        yield from _walk(child)


def _children(node: object) -> Sequence[object]:
    match node:
        case promql_parser.MatrixSelector():
            return [node.vector_selector]
        case promql_parser.BinaryExpr():
            return [node.lhs, node.rhs]
        case promql_parser.Call():
            return node.args
        case (
            promql_parser.AggregateExpr()
            | promql_parser.ParenExpr()
            | promql_parser.UnaryExpr()
            | promql_parser.SubqueryExpr()
        ):
            return [node.expr]
        case (
            promql_parser.VectorSelector()
            | promql_parser.NumberLiteral()
            | promql_parser.StringLiteral()
        ):
            return []
        case _:
            raise TypeError(f"{type(node)} is not known here")
