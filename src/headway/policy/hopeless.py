"""What can no longer make it: given up before it is started, but for a probe now and then.

Knows how long work takes alone, as it is told. Refuses to know neighbours: what is hopeless here is
so on an idle device.
"""

from collections import Counter
from typing import Final

from headway.core import ModelName, Request

__all__ = ["Hopeless"]

_BARREN_MAX: Final = 16
"""Then one is started all the same: an estimate that is too long must be able to come down."""


class Hopeless:
    """Whether a request should be given up; as `Feedback` it sees that not every one is.

    A tier may want late answers: then its requests are hopeless only once even those would not be
    wanted any more.

    Invariants: of a model whose requests all end unmet, one in `_BARREN_MAX` is started.
    """

    def __init__(self) -> None:
        self._barren: Counter[ModelName] = Counter()
        """Requests of a model that ended unmet since one was last started."""

    def gives_up(self, request: Request, needs_ns: int, now_ns: int) -> bool:
        """Whether work that takes so long would end too late; of unknown work, never."""
        is_late = needs_ns > 0 and now_ns + needs_ns > request.expires_at_ns
        return is_late and self.may_give_up(request)

    def may_give_up(self, request: Request) -> bool:
        """Whether there is no need to see for once how long its model takes."""
        return self._barren[request.model] < _BARREN_MAX

    def admitted(self, request: Request, now_ns: int) -> None:
        """Of no consequence."""

    def started(self, request: Request, rows: int, now_ns: int) -> None:
        """How long it takes will be seen."""
        del self._barren[request.model]

    def ran(self, request: Request, device_ns: int, now_ns: int) -> None:
        """Of no consequence."""

    def ended(self, request: Request, is_met: bool, now_ns: int) -> None:
        """One more that was in vain, or none."""
        if not is_met:
            self._barren[request.model] += 1
