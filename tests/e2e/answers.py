"""What a server gives back, read: an HTTP answer, and the samples of its metrics."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Self

from prometheus_client.parser import text_string_to_metric_families

__all__ = ["Answer", "Samples", "tags_of"]


class Answer(NamedTuple):
    """A whole HTTP response, and how long it took."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    elapsed_s: float

    @property
    def json(self) -> Any:
        """The body, decoded."""
        return json.loads(self.body)

    @property
    def code(self) -> str:
        """The stable code of an error."""
        return str(self.json["code"])

    @property
    def rows(self) -> list[list[float]]:
        """The rows of the only output of a completed request."""
        assert self.status == 200, self.body
        (output,) = self.json["outputs"]
        count, columns = output["shape"]
        data = output["data"]
        return [data[row * columns : (row + 1) * columns] for row in range(count)]


class Samples(NamedTuple):
    """An exposition, read."""

    all: Sequence[tuple[str, Mapping[str, str], float]]

    @classmethod
    def read(cls, text: str) -> Self:
        """From Prometheus' text format."""
        families = text_string_to_metric_families(text)
        return cls([(s.name, s.labels, s.value) for f in families for s in f.samples])

    def total(self, name: str, **labels: str) -> float:
        """The sum of the samples of one name with these labels; there must be one."""
        wanted = labels.items()
        values = [value for n, has, value in self.all if n == name and wanted <= has.items()]
        assert values, f"there is no series {name} {labels}"
        return sum(values)


def tags_of(answer: Answer) -> list[int]:
    """Whose rows came back."""
    return [int(row[0]) for row in answer.rows]
