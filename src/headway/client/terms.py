"""What a caller says beside a model and its tensors, as header lines: who, how urgent, how long.

Pure. Knows what may stand in a header. Refuses to know tensors and connections.
"""

from collections.abc import Mapping
from contextlib import suppress
from typing import Final

from msgspec import Struct

from headway.errors import InvalidRequestError
from headway.units import NS_PER_MS, NS_PER_S, NS_PER_US, parse_duration_ns

__all__ = ["BUDGET", "Duration", "Terms", "budget_header", "duration_ns"]

Duration = str | int | float
"""A length of time: `"200ms"`, `"1.5s"`, or a number of seconds."""

BUDGET: Final = "headway-budget-ms"


def duration_ns(value: Duration, what: str) -> int:
    """Nanoseconds of a length of time that a caller names.

    Raises:
        InvalidRequestError: it is none, or below 0.
    """
    length_ns = -1
    with suppress(ValueError, OverflowError):  # no number with a unit, NaN, infinity
        if isinstance(value, str):
            length_ns = parse_duration_ns(value)
        elif isinstance(value, int | float):
            length_ns = round(value * NS_PER_S)
    if length_ns < 0:
        raise InvalidRequestError(
            f"{what} is `{value!r}`, not a length of time",
            hint='write "200ms", "1.5s", or a number of seconds',
        )
    return length_ns


def budget_header(left_ns: int) -> str:
    """What is left of a budget as the header says it, rounded down: time left is not overstated."""
    return f"{max(0, left_ns) // NS_PER_US * NS_PER_US / NS_PER_MS:.3f}"


class Terms(Struct, frozen=True, kw_only=True):
    """What one client says in each of its calls, where the call says nothing else."""

    key: str | None = None
    tenant: str | None = None
    tier: str | None = None
    budget: Duration | None = None

    def __repr__(self) -> str:
        return f"Terms(tenant={self.tenant!r}, tier={self.tier!r}, budget={self.budget!r})"

    def budget_ns(self, budget: Duration | None) -> int | None:
        """The budget of a call that names this one; None for none."""
        budget = self.budget if budget is None else budget
        return None if budget is None else duration_ns(budget, "budget")

    def headers(
        self,
        *,
        tier: str | None = None,
        tenant: str | None = None,
        priority: int | None = None,
        traceparent: str | None = None,
    ) -> dict[str, str]:
        """The header lines of a call that says this; what nobody said is left out.

        Raises:
            InvalidRequestError: a text that no header can carry.
        """
        said: Mapping[str, object | None] = {
            "authorization": None if self.key is None else f"Bearer {self.key}",
            "headway-tier": self.tier if tier is None else tier,
            "headway-tenant": self.tenant if tenant is None else tenant,
            "headway-priority": priority,
            "traceparent": traceparent,
        }
        lines = {name: str(value) for name, value in said.items() if value is not None}
        for name, text in lines.items():
            if not (text.isascii() and text.isprintable()):
                shown = "***" if name == "authorization" else text[:80]
                raise InvalidRequestError(
                    f"`{name}: {shown!r}` cannot be sent: a header is one line of printable ASCII"
                )
        return lines
