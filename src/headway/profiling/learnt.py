"""What a predictor learnt, kept in a file from one run to the next.

What was learnt holds for the machine, the slots and the threads that it was learnt on, so the file
names them, and on others it is as if there were none. A file that cannot be read is no reason not
to serve. Knows the file; what is in a state is the predictor's own affair.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from headway.core import DeviceParams
from headway.devices import Fingerprint, hardware_differences

__all__ = ["Circumstances", "Recalled", "read_learnt", "write_learnt"]

_FORMAT: Final = "headway-learnt"
_VERSION: Final = 1


class Circumstances(Struct, frozen=True, kw_only=True):
    """What must be as it was for a state to hold."""

    machine: Fingerprint
    devices: tuple[DeviceParams, ...]
    threads: dict[str, int] = {}
    """Threads of one execution by model."""
    spins: dict[str, bool] = {}
    """Whether those threads keep their cores busy while they wait, by model."""
    has_classes: bool = True
    """Slots are told the class of their batch, so that a low one leaves its lane to a high one."""


class _Learnt(Struct, frozen=True, kw_only=True):
    format: str = _FORMAT
    version: int = _VERSION
    predictor: str
    circumstances: Circumstances
    state: dict[str, object]


class Recalled(Struct, frozen=True, kw_only=True):
    """A state, or why there is none."""

    state: dict[str, object] = {}
    why_not: str | None = None
    """None too where there is no file yet."""


def read_learnt(path: Path, predictor: str, now: Circumstances) -> Recalled:
    """What the predictor of this name had learnt under the same circumstances."""
    try:
        text = path.read_bytes()
    except FileNotFoundError:
        return Recalled()
    except OSError as error:
        return Recalled(why_not=f"it cannot be read: {error}")
    try:
        learnt = msgspec.json.decode(text, type=_Learnt)
    except msgspec.MsgspecError as error:
        return Recalled(why_not=f"it is not a file of this version: {error}")
    why_not = _why_not(learnt, predictor, now)
    return Recalled(state=learnt.state) if why_not is None else Recalled(why_not=why_not)


def _why_not(learnt: _Learnt, predictor: str, now: Circumstances) -> str | None:
    if (learnt.format, learnt.version) != (_FORMAT, _VERSION):
        return f"it is version {learnt.version} of {learnt.format}"
    if learnt.predictor != predictor:
        return f"it was learnt by `{learnt.predictor}`"
    then = learnt.circumstances
    if differences := hardware_differences(then.machine, now.machine):
        return f"it was learnt on another machine: {'; '.join(differences)}"
    if then.devices != now.devices:
        return "it was learnt with other devices or slots"
    if then.has_classes != now.has_classes:
        return "it was learnt with another `policy.class_slots`"
    if (model := _changed(then.threads, now.threads)) is not None:
        return f"`{model}` ran with another number of threads"
    if (model := _changed(then.spins, now.spins)) is not None:
        return f"`{model}` ran with another `allow_spinning`"
    return None


def _changed(then: Mapping[str, int], now: Mapping[str, int]) -> str | None:
    """A model of both times for which it is not what it was."""
    return next((model for model in now if then.get(model, now[model]) != now[model]), None)


def write_learnt(path: Path, predictor: str, now: Circumstances, state: dict[str, object]) -> None:
    """Replace the file in one step: a crash leaves the old one or the new one, whole.

    Raises:
        OSError: it cannot be written.
    """
    learnt = _Learnt(predictor=predictor, circumstances=now, state=state)
    new = path.with_name(f".{path.name}.new")
    with new.open("wb") as file:
        file.write(msgspec.json.encode(learnt))
        file.flush()
        os.fsync(file.fileno())
    new.replace(path)
