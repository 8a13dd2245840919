"""The text of an answer as it may be shown: up to where it is told to stop.

What might be the beginning of a text to stop at is held back until it is known not to be; so a
client never sees a part of one.
"""

from collections.abc import Sequence

__all__ = ["StopWatch"]


class StopWatch:
    """Looks for texts that end an answer.

    Invariants: what was given out contains none of them, nor a beginning of one at its end.
    Cost: what is held back is at most the longest of them.
    """

    def __init__(self, stops: Sequence[str]) -> None:
        self._stops = tuple(stops)
        self._held = ""
        self.has_stopped = False

    def add(self, text: str) -> str:
        """More of the answer; returns what of it may be shown now."""
        if not self._stops or self.has_stopped:
            return "" if self.has_stopped else text
        text = self._held + text
        found = [at for at in (text.find(stop) for stop in self._stops) if at >= 0]
        if found:
            self.has_stopped, self._held = True, ""
            return text[: min(found)]
        held = max(_overlap(text, stop) for stop in self._stops)
        self._held = text[len(text) - held :]
        return text[: len(text) - held]

    def finish(self) -> str:
        """The answer has ended: what was held back was none."""
        held, self._held = self._held, ""
        return held


def _overlap(text: str, stop: str) -> int:
    """The longest end of the text with which a stop begins."""
    for size in range(min(len(text), len(stop) - 1), 0, -1):
        if text.endswith(stop[:size]):
            return size
    return 0
