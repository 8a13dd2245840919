"""An exposition of metrics, read back: what a server said of itself, as samples.

Knows Prometheus' text format, through its own library. Refuses to know what any metric means.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from prometheus_client.parser import text_string_to_metric_families

from headway.errors import HeadwayError

__all__ = ["ExposedSample", "Exposition", "read_exposition"]


class ExposedSample(NamedTuple):
    """One line."""

    name: str
    labels: Mapping[str, str]
    value: float


class Exposition:
    """All samples of one scrape."""

    def __init__(self, samples: Sequence[ExposedSample]) -> None:
        self.samples = samples

    def of(self, name: str) -> list[ExposedSample]:
        """Those of one name; none where there is no such metric."""
        return [sample for sample in self.samples if sample.name == name]

    def total(self, name: str) -> float | None:
        """Their sum; None where there is no such metric."""
        found = self.of(name)
        return sum(sample.value for sample in found) if found else None


def read_exposition(text: str) -> Exposition:
    """Read the text format.

    Raises:
        HeadwayError: a line of it makes no sense.
    """
    try:
        families = list(text_string_to_metric_families(text))
    except ValueError as error:
        raise HeadwayError(
            f"these are no metrics: {error}", hint="is it a headway server that answers there?"
        ) from error
    return Exposition(
        [ExposedSample(s.name, s.labels, s.value) for family in families for s in family.samples]
    )
