"""Batches on an emulated machine, in virtual time: transfers, interference and all.

Knows the machine and which ends the world was told. Refuses to know its law.
"""

from collections.abc import Sequence

from headway.core import BatchId, Dispatch
from headway.devices import EmulatedBatch, EmulatedMachine
from headway.sim.devices import Finish
from headway.sim.futures import EmulatedFuture

__all__ = ["EmulatedDevices"]


class EmulatedDevices:
    """A `SimulatedExecutor` whose devices are those of an emulated machine.

    A batch moves its model's bytes for so many rows. Only the next end is announced, and those
    announced before are kept right: what comes after the next end depends on what starts then.

    Invariants: whenever a batch runs, the earliest end is announced. Emulated figures are to be
    labelled so.
    """

    def __init__(self, machine: EmulatedMachine) -> None:
        self._machine = machine
        self._announced: dict[BatchId, int] = {}
        """When each was said to end."""

    def start(self, dispatch: Dispatch, now_ns: int) -> Sequence[Finish]:
        """Everyone on the device, and on its links, slows down.

        Raises:
            KeyError: the machine has no such device, or does not know the model.
        """
        batch = EmulatedBatch(
            dispatch.batch_id,
            dispatch.model,
            dispatch.rows,
            dispatch.device,
            dispatch.slot_class,
        )
        self._machine.start(batch, now_ns)
        return self._moved()

    def end(self, batch_id: BatchId, now_ns: int) -> Sequence[Finish]:
        """Whoever is left speeds up."""
        self._machine.advance(now_ns)
        self._machine.drop(batch_id)
        self._announced.pop(batch_id, None)
        return self._moved()

    def future(self) -> EmulatedFuture:
        """The machine as it is now, to be moved on by itself."""
        return EmulatedFuture(self._machine.fork())

    def _moved(self) -> list[Finish]:
        """The next end and those announced, as far as they are new."""
        moved: list[Finish] = []
        for batch_id, end in self._machine.next_ends(self._announced).items():
            if self._announced.get(batch_id) != end.at_ns:
                self._announced[batch_id] = end.at_ns
                moved.append(Finish(batch_id, end.at_ns, end.transfer_in_ns, end.transfer_out_ns))
        return moved
