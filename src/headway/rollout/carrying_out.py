"""Steps carried out one by one on a machine, each checked, all taken back when one fails.

Before anything is ended it is asked once more whether a process would be, for what was proposed may
be a while ago. Knows steps and a machine. Refuses to choose either.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple, assert_never

from headway.devices import MigInstance
from headway.errors import HeadwayError
from headway.rollout.machine import Machine
from headway.rollout.mps_daemons import MpsDaemon
from headway.rollout.proposal import device_of, idle_servers, process_words
from headway.rollout.steps import (
    CreateInstance,
    DaemonToday,
    DestroyInstance,
    SetMode,
    StartDaemon,
    Step,
    StopDaemon,
)

__all__ = ["Outcome", "carry_out"]


class Outcome(NamedTuple):
    """What came of it."""

    done: tuple[str, ...]
    """Steps in words; also those that were taken back."""
    failure: str | None = None
    """Why the next one was not done."""
    hint: str | None = None
    remains: tuple[str, ...] = ()
    """What could not be taken back, and why."""


class _Undo(NamedTuple):
    words: str
    run: Callable[[], object]


def carry_out(
    steps: Sequence[Step], machine: Machine, tell: Callable[[str], None] = lambda _: None
) -> Outcome:
    """Do them in order; with the first failure, or an interruption, undo what was done.

    Args:
        steps: of one proposal.
        machine: where.
        tell: is told each step before it is done, and each that is taken back.
    """
    done: list[str] = []
    undos: list[_Undo] = []
    for step in steps:
        tell(step.words)
        try:
            undos.append(_Undo(step.words, _do(step, machine)))
            _check(step, machine)
        except HeadwayError as error:
            failure = f"{step.words}: {error.message}"
            return Outcome(tuple(done), failure, error.hint, _take_back(undos, tell))
        except KeyboardInterrupt:
            return Outcome(tuple(done), "interrupted", None, _take_back(undos, tell))
        done.append(step.words)
    return Outcome(tuple(done))


def _take_back(undos: Sequence[_Undo], tell: Callable[[str], None]) -> tuple[str, ...]:
    """The last first; one that cannot be undone keeps none of the others."""
    remains = []
    for undo in reversed(undos):
        tell(f"taken back: {undo.words}")
        try:
            undo.run()
        except HeadwayError as error:
            remains.append(f"{undo.words}: {error.message}")
    return tuple(remains)


def _do(step: Step, machine: Machine) -> Callable[[], object]:
    """Do a step; what undoes it comes back."""
    match step:
        case SetMode(index=index, is_on=is_on):
            _refuse_busy(machine.gpus()[index].pids, machine)
            machine.set_mode(index, is_on=is_on)
            return lambda: machine.set_mode(index, is_on=not is_on)
        case DestroyInstance(index=index):
            there = _instance(step, machine)
            if there is None or there.id is None:
                raise HeadwayError("it is no longer there", hint="somebody else changes this GPU")
            _refuse_busy(there.pids, machine)
            machine.destroy(index, there.id)
            return partial(_make_again, machine, there, index)
        case CreateInstance(index=index, profile=profile, start=start):
            made = machine.create(index, profile, start)
            assert made.id is not None, "the driver was asked"
            made_id = made.id
            return lambda: machine.destroy(index, made_id)
        case StartDaemon(daemon=daemon):
            device = device_of(daemon, machine.gpus())
            if device is None:
                raise HeadwayError(f"GPU {daemon.index} has no instance at {daemon.start} for it")
            machine.start_daemon(daemon.name, device, daemon.defaults())
            return lambda: machine.stop_daemon(daemon.name)
        case StopDaemon(daemon=daemon, before=before):
            now = next((one for one in machine.daemons() if one.name == daemon.name), None)
            if now is None:
                raise HeadwayError("it is no longer there", hint="somebody else stopped it")
            _refuse_busy(now.clients, machine)
            machine.stop_daemon(daemon.name)
            return partial(_start_again, machine, daemon, before)
        case _:
            assert_never(step)


def _make_again(machine: Machine, before: MigInstance, index: int) -> None:
    if before.profile is None:
        raise HeadwayError("nobody knows of which profile it was")
    machine.create(index, before.profile, before.placement.start)
    if before.uuids is not None and len(before.uuids) != 1:
        raise HeadwayError(f"it is there again in one part, and was in {len(before.uuids)}")


def _start_again(machine: Machine, daemon: MpsDaemon, before: DaemonToday) -> None:
    """An instance that was made again has another UUID than the daemon was started for."""
    device = before.device
    if device is None:
        raise HeadwayError("nobody noted what it served, so it is not started again")
    if daemon.start is not None:
        here = machine.gpus()[daemon.index].instances or ()
        uuids = [one.uuids for one in here if one.placement.start == daemon.start and one.uuids]
        if not uuids:
            raise HeadwayError("the instance that it served is gone")
        device = uuids[0][0]
    machine.start_daemon(daemon.name, device, before.commands)


def _refuse_busy(pids: tuple[int, ...] | None, machine: Machine) -> None:
    """Raise where a process would be ended, or might; idle servers of MPS do not count."""
    if pids is None:
        raise HeadwayError("nobody says which processes run there")
    harmless = idle_servers(machine.daemons())
    if others := [pid for pid in pids if pid not in harmless]:
        raise HeadwayError(
            f"{process_words(others)} would be ended", hint="stop what runs there, and try again"
        )


def _check(step: Step, machine: Machine) -> None:
    """Raise where a step says that it was done, and was not."""
    match step:
        case SetMode(index=index, is_on=is_on):
            is_so = machine.gpus()[index].has_mig is is_on
        case DestroyInstance():
            is_so = _instance(step, machine) is None
        case CreateInstance(start=start, size=size):
            there = _instance(step, machine)
            is_so = there is not None and there.placement == (start, size)
        case StartDaemon(daemon=daemon) | StopDaemon(daemon=daemon):
            runs = daemon.name in {one.name for one in machine.daemons()}
            is_so = runs is isinstance(step, StartDaemon)
        case _:
            assert_never(step)
    if not is_so:
        raise HeadwayError(f"it was done, and `{step.check}` does not show {step.expected}")


def _instance(step: DestroyInstance | CreateInstance, machine: Machine) -> MigInstance | None:
    for one in machine.gpus()[step.index].instances or ():
        if (one.profile, one.placement.start) == (step.profile, step.start):
            return one
    return None
