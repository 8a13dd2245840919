"""The oracle: how well one could predict who knew in advance everything that will run beside it.

A batch progresses at the speed that its share of the cores gives it. With all starts and ends
known, what is left of the error is what no forecast of the future could mend: the system's time
slices, caches, and other programs. It shares cores evenly and looks back over the whole run, so it
is a mark to measure by and no strict limit: who learns how the system slices time may pass it.
Pure.
"""

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from headway.bench.shadows import Execution
from headway.report import Observation

__all__ = ["Sharing", "busy_ratios", "foresee_all"]

_DEGREE_EDGES: Final = (1.25, 1.75)
"""Slowdowns from which on a class has a factor of its own."""


class Sharing(NamedTuple):
    """How the batches of a device share its cores."""

    is_pinned: bool
    """A batch shares the core of its lane alone; else all cores with all that run."""
    cores: int
    threads: int = 1
    """Of one batch."""

    def speed(self, running: int) -> float:
        """Progress of each of so many batches on a lane, or on the device; 1 is alone."""
        if self.is_pinned:
            return 1.0 / max(1, running)
        return min(1.0, self.cores / (self.threads * max(1, running)))


def foresee_all(
    executions: Sequence[Execution], solo_ns: Mapping[str, int], sharing: Sharing
) -> list[Observation]:
    """What the oracle says of each execution whose class has a time alone.

    A class is corrected by one factor for each of three degrees of slowdown, the one with the least
    error over the whole run: a profile that was measured on a cooler machine, or slices that
    favour whoever runs already, are no error of foresight. It gives no bound: the bound is its
    prediction.
    """
    known = [e for e in executions if e.group in solo_ns]
    counts = _running(executions, sharing)
    raw = {
        id(e): _duration_ns(e, counts[_place(e, sharing)], solo_ns[e.group], sharing) for e in known
    }
    ratios: dict[tuple[str, int], list[float]] = {}
    for e in known:
        key = (e.group, _degree(raw[id(e)] / solo_ns[e.group]))
        ratios.setdefault(key, []).append(e.stages.execution_ns / raw[id(e)])
    factors = {key: _best_factor(own) for key, own in ratios.items()}
    foreseen = []
    for e in known:
        factor = factors[e.group, _degree(raw[id(e)] / solo_ns[e.group])]
        predicted_ns = round(raw[id(e)] * factor)
        foreseen.append(
            Observation(
                group=e.group,
                seen=e.seen,
                predicted_ns=predicted_ns,
                actual_ns=max(1, e.stages.execution_ns),
                bound_ns=predicted_ns,
                bounded_ns=max(1, e.stages.execution_ns),
            )
        )
    return foreseen


def busy_ratios(
    executions: Sequence[Execution], sharing: Sharing, *, from_ns: int, to_ns: int, step_ns: int
) -> list[float]:
    """Part of the cores that had a batch to run, in each step of a stretch of time.

    Args:
        executions: of one device.
        sharing: how it shares its cores.
        from_ns: start of the stretch.
        to_ns: its end; what is left after the last whole step is left out.
        step_ns: length of a step.
    """
    counts = _running(executions, sharing)
    per_place = 1 if sharing.is_pinned else sharing.cores
    ratios = []
    for start_ns in range(from_ns, to_ns - step_ns + 1, step_ns):
        busy_ns = 0.0
        for line in counts.values():
            for begin_ns, end_ns, count in line.pieces(start_ns, start_ns + step_ns):
                busy_ns += min(count * sharing.threads, per_place) * (end_ns - begin_ns)
        ratios.append(busy_ns / (sharing.cores * step_ns))
    return ratios


class _Line:
    """How many batches ran at each instant of a lane or device."""

    def __init__(self) -> None:
        self._changes: list[tuple[int, int]] = []
        self.at_ns: list[int] = []
        self._counts: list[int] = []

    def add(self, from_ns: int, to_ns: int) -> None:
        self._changes += [(from_ns, 1), (to_ns, -1)]

    def close(self) -> None:
        count = 0
        for at_ns, change in sorted(self._changes):
            count += change
            if self.at_ns and self.at_ns[-1] == at_ns:
                self._counts[-1] = count
            else:
                self.at_ns.append(at_ns)
                self._counts.append(count)

    def pieces(self, from_ns: int, to_ns: int) -> list[tuple[int, int, int]]:
        """Stretches with a constant count, from an instant to another."""
        index = max(0, bisect_left(self.at_ns, from_ns + 1) - 1)
        pieces = []
        while index < len(self.at_ns) and self.at_ns[index] < to_ns:
            end_ns = self.at_ns[index + 1] if index + 1 < len(self.at_ns) else to_ns
            begin_ns, end_ns = max(from_ns, self.at_ns[index]), min(to_ns, end_ns)
            if end_ns > begin_ns:
                pieces.append((begin_ns, end_ns, self._counts[index]))
            index += 1
        return pieces


def _degree(slowdown_factor: float) -> int:
    """Alone, sometimes beside another, mostly beside others."""
    return sum(slowdown_factor > edge for edge in _DEGREE_EDGES)


def _best_factor(ratios: Sequence[float]) -> float:
    """Of actual over predicted: the one that makes the mean relative error least.

    |f p - a| / a, summed, is least at the median of a / p, each weighing p / a.
    """
    ordered = sorted(ratio for ratio in ratios if ratio > 0)
    half = sum(1 / ratio for ratio in ordered) / 2
    for ratio in ordered:
        half -= 1 / ratio
        if half <= 0:
            return ratio
    return 1.0


def _place(execution: Execution, sharing: Sharing) -> tuple[str, int]:
    run = execution.run
    return (run.device, run.lane if sharing.is_pinned else 0)


def _span_ns(execution: Execution) -> tuple[int, int]:
    """When it executed: at the end of its service time, less the copy out.

    A worker that has just run reports at once; it is at the start that it waits, for its turn on
    a core where another batch runs.
    """
    stages = execution.stages
    to_ns = execution.ended_at_ns - stages.transfer_out_ns
    return to_ns - max(1, stages.execution_ns), to_ns


def _running(executions: Sequence[Execution], sharing: Sharing) -> dict[tuple[str, int], _Line]:
    lines: dict[tuple[str, int], _Line] = {}
    for execution in executions:
        lines.setdefault(_place(execution, sharing), _Line()).add(*_span_ns(execution))
    for line in lines.values():
        line.close()
    return lines


def _duration_ns(execution: Execution, line: _Line, solo_ns: int, sharing: Sharing) -> float:
    """Time until the work is done at the speeds that the neighbours leave.

    Its own part of the count stands until its real end; a forecast that reaches beyond it adds
    itself to those that ran then.
    """
    from_ns, own_end_ns = _span_ns(execution)
    left_ns, horizon_ns = float(solo_ns), from_ns + 1000 * solo_ns
    last_ns = from_ns
    for begin_ns, end_ns, count in line.pieces(from_ns, horizon_ns):
        for piece_from_ns, piece_to_ns in _split(begin_ns, end_ns, own_end_ns):
            running = count if piece_from_ns < own_end_ns else count + 1
            speed = sharing.speed(running)
            if (piece_to_ns - piece_from_ns) * speed >= left_ns:
                return piece_from_ns + left_ns / speed - from_ns
            left_ns -= (piece_to_ns - piece_from_ns) * speed
            last_ns = piece_to_ns
    return last_ns + left_ns / sharing.speed(1) - from_ns


def _split(from_ns: int, to_ns: int, at_ns: int) -> list[tuple[int, int]]:
    if from_ns < at_ns < to_ns:
        return [(from_ns, at_ns), (at_ns, to_ns)]
    return [(from_ns, to_ns)]
