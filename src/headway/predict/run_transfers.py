"""The transfers of batches: what goes in when one starts and comes out when it has executed.

Knows which batches run and when each is expected to have executed. Refuses to know links: that is
`transfer.py`. A predictor tells it every start and end, and asks with `transfer_ns`.
"""

from collections.abc import Callable, Sequence
from math import log
from typing import Final, NamedTuple

from headway.core import BatchId, Run, Stages
from headway.predict.flows import Copy
from headway.predict.link_residual import LogResidual
from headway.predict.links import Direction
from headway.predict.scene import Neighbour
from headway.predict.transfer import TransferModel

__all__ = ["RunBytes", "RunTransfers", "TransferTimes"]

_RUNS_MAX: Final = 128
"""Batches that are kept as running; of those that never end the oldest go."""
_SURPRISE_MAX: Final = 0.2


class RunBytes(NamedTuple):
    """What a batch moves."""

    in_bytes: int
    out_bytes: int


class TransferTimes(NamedTuple):
    """How long a batch's transfers take, in nanoseconds."""

    in_ns: float
    out_ns: float

    @property
    def total_ns(self) -> float:
        """Both."""
        return self.in_ns + self.out_ns


class _Out(NamedTuple):
    """A copy that will start when its batch has executed."""

    at_ns: float
    copy: Copy


class RunTransfers:
    """Transfer times of batches on the devices of one tree.

    The copy in is forecast on the links as they are, with the copies out that running batches will
    need meanwhile. When the candidate's own copy out will start, and beside whom, is not known: it
    is taken for its floor times a learnt factor.

    Args:
        bytes_of: what a batch moves, in both directions.

    Invariants: an answer is finite and not below the floors of both copies; 0 for a device that is
    not on the tree.
    """

    def __init__(self, model: TransferModel, bytes_of: Callable[[Run], RunBytes]) -> None:
        self._model = model
        self._bytes_of = bytes_of
        self._runs: dict[BatchId, Run] = {}
        self._outs: dict[BatchId, _Out] = {}
        """Of batches that execute, as far as is known."""
        self._out_residual = LogResidual(1, load_from=0, surprise_max=_SURPRISE_MAX)

    def transfer_ns(self, run: Run, neighbours: Sequence[Neighbour], now_ns: int) -> float:
        """Both transfers of a batch that would start now; 0 for a device not on the tree."""
        return self.times(run, neighbours, now_ns).total_ns

    def times(self, run: Run, neighbours: Sequence[Neighbour], now_ns: int) -> TransferTimes:
        """The same in two parts.

        Args:
            neighbours: when these are expected to end is taken from them; of batches that are not
                among them, on other devices, from what was expected when they started.
        """
        if run.device not in self._model.tree.devices:
            return TransferTimes(0.0, 0.0)
        self._move_to(now_ns)
        later = self._later(neighbours, now_ns)
        in_ns = self._model.duration_ns(self._copy(run, Direction.IN), now_ns, later)
        return TransferTimes(in_ns, self._out_ns(run))

    def started(self, run: Run, execution_ns: float, now_ns: int) -> TransferTimes:
        """A batch starts, and is expected to execute for so long; what its transfers will take."""
        if run.device not in self._model.tree.devices:
            return TransferTimes(0.0, 0.0)
        self._move_to(now_ns)
        in_ns = self._model.started(self._copy(run, Direction.IN), now_ns, is_told=False)
        out = self._copy(run, Direction.OUT)
        self._runs[run.batch_id] = run
        self._outs[run.batch_id] = _Out(now_ns + in_ns + execution_ns, out)
        if len(self._runs) > _RUNS_MAX:
            self.dropped(next(iter(self._runs)), now_ns)
        return TransferTimes(in_ns, self._out_ns(run))

    def finished(self, batch_id: BatchId, stages: Stages, now_ns: int) -> None:
        """A batch has run; unknown ones are ignored."""
        run = self._runs.pop(batch_id, None)
        if run is None:
            return
        self._move_to(now_ns)
        self._outs.pop(batch_id, None)
        self._model.finished(2 * batch_id, now_ns, took_ns=stages.transfer_in_ns)
        self._model.finished(2 * batch_id + 1, now_ns, took_ns=stages.transfer_out_ns)
        floor_ns = self._model.floor_ns(self._copy(run, Direction.OUT))
        ratio = max(1, stages.transfer_out_ns) / max(1.0, floor_ns)
        self._out_residual.learn((1.0,), log(ratio))

    def dropped(self, batch_id: BatchId, now_ns: int) -> None:
        """A batch failed or was lost."""
        if self._runs.pop(batch_id, None) is None:
            return
        self._outs.pop(batch_id, None)
        self._model.dropped(2 * batch_id, now_ns)
        self._model.dropped(2 * batch_id + 1, now_ns)

    def state(self) -> dict[str, object]:
        """All that was learnt, as plain JSON values."""
        return {"links": self._model.state(), "out": self._out_residual.state()}

    def restore(self, state: dict[str, object]) -> None:
        """Take up what `state` gave; what does not fit is ignored."""
        links, out = state.get("links"), state.get("out")
        if isinstance(links, dict):
            self._model.restore(links)
        if isinstance(out, dict):
            self._out_residual.restore(out)

    def _copy(self, run: Run, direction: Direction) -> Copy:
        size = self._bytes_of(run)
        is_out = direction is Direction.OUT
        return Copy(
            copy_id=2 * run.batch_id + is_out,
            device=run.device,
            direction=direction,
            size_bytes=size.out_bytes if is_out else size.in_bytes,
            priority=run.priority,
        )

    def _out_ns(self, run: Run) -> float:
        floor_ns = self._model.floor_ns(self._copy(run, Direction.OUT))
        return floor_ns * self._out_residual.factor((1.0,))

    def _later(self, neighbours: Sequence[Neighbour], now_ns: int) -> list[tuple[int, Copy]]:
        """The copies out to come, from now on, the soonest first."""
        at_ns = {batch_id: out.at_ns for batch_id, out in self._outs.items()}
        for neighbour in neighbours:
            if neighbour.run.batch_id in at_ns:
                end_ns = now_ns + neighbour.left_ns
                at_ns[neighbour.run.batch_id] = end_ns - self._out_ns(neighbour.run)
        return sorted(
            (
                (max(0, round(at - now_ns)), self._outs[batch_id].copy)
                for batch_id, at in at_ns.items()
            ),
            key=lambda later: (later[0], later[1].copy_id),
        )

    def _move_to(self, now_ns: int) -> None:
        """Let those that should have executed by now copy out."""
        due = sorted((out.at_ns, batch_id) for batch_id, out in self._outs.items())
        for at_ns, batch_id in due:
            if at_ns > now_ns:
                break
            self._model.started(self._outs.pop(batch_id).copy, round(at_ns), is_told=False)
