"""This machine's GPUs and MPS daemons: how they are now, and one change at a time.

Knows NVML and MPS through `devices`, and what is noted beside a daemon. Refuses to decide what is
changed, and in which order.
"""

import fcntl
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Final, Protocol

from headway.devices import MigDriver, MigGpu, MigInstance, MpsControl, open_mig
from headway.errors import HeadwayError
from headway.rollout.mps_daemons import is_daemon_name
from headway.rollout.steps import DaemonToday

__all__ = ["LocalMachine", "Machine", "open_machine"]

_LOCK: Final = "lock"
_DAEMONS_MAX: Final = 1024
"""More folders than that are none of ours."""


class Machine(Protocol):
    """What can be asked and changed; every change raises HeadwayError where it fails."""

    def gpus(self) -> Mapping[int, MigGpu]:
        """As they are now, by index."""

    def daemons(self) -> tuple[DaemonToday, ...]:
        """Those that run now."""

    def set_mode(self, index: int, *, is_on: bool) -> None:
        """Switch MIG mode, at once."""

    def create(self, index: int, profile: str, start: int) -> MigInstance:
        """Make a MIG instance in one part."""

    def destroy(self, index: int, instance_id: int) -> None:
        """Unmake one."""

    def start_daemon(self, name: str, device: str, commands: Sequence[str]) -> None:
        """Start an MPS daemon, tell it these, and note both."""

    def stop_daemon(self, name: str) -> None:
        """Stop one."""


class LocalMachine:
    """The machine that this process is on."""

    def __init__(self, driver: MigDriver, state_folder: Path) -> None:
        self._driver = driver
        self._state_folder = state_folder

    def gpus(self) -> Mapping[int, MigGpu]:
        """As they are now, by index."""
        return {gpu.index: gpu for gpu in self._driver.gpus()}

    def daemons(self) -> tuple[DaemonToday, ...]:
        """Those that run now, by name."""
        if not self._state_folder.is_dir():
            return ()
        folders = sorted(self._state_folder.iterdir())[:_DAEMONS_MAX]
        names = [folder.name for folder in folders if is_daemon_name(folder.name)]
        return tuple(self._daemon(name) for name in names if self._control(name).is_running())

    def set_mode(self, index: int, *, is_on: bool) -> None:
        """Switch MIG mode, at once.

        Raises:
            HeadwayError: NVML refuses, or it would be so only after a reset.
        """
        if not self._driver.set_mode(index, on=is_on):
            self._driver.set_mode(index, on=not is_on)  # or the next reset would surprise someone
            raise HeadwayError(
                f"MIG mode of GPU `{index}` changes only with a reset",
                hint=f"`nvidia-smi -i {index} -mig {int(is_on)}`, then `nvidia-smi -i {index} "
                "--gpu-reset`, which ends what runs on it; then try again",
            )

    def create(self, index: int, profile: str, start: int) -> MigInstance:
        """Make a MIG instance in one part.

        Raises:
            HeadwayError: NVML refuses.
        """
        return self._driver.create(index, profile, start)

    def destroy(self, index: int, instance_id: int) -> None:
        """Unmake one.

        Raises:
            HeadwayError: NVML refuses.
        """
        self._driver.destroy(index, instance_id)

    def start_daemon(self, name: str, device: str, commands: Sequence[str]) -> None:
        """Start an MPS daemon, tell it these, and note both.

        Raises:
            HeadwayError: it does not start, or refuses a command.
        """
        planned = self._planned(name)
        try:
            planned.parent.mkdir(parents=True, exist_ok=True)
            planned.write_text("".join(f"{line}\n" for line in [device, *commands]))
            self._control(name).start(device, commands)
        except OSError as error:
            raise _no_state(self._state_folder, error) from error
        except HeadwayError:
            planned.unlink(missing_ok=True)
            raise

    def stop_daemon(self, name: str) -> None:
        """Stop one.

        Raises:
            HeadwayError: it does not answer, or does not end.
        """
        self._control(name).stop()
        self._planned(name).unlink(missing_ok=True)

    def _control(self, name: str) -> MpsControl:
        folder = self._state_folder / name
        return MpsControl(folder / "pipe", folder / "log")

    def _planned(self, name: str) -> Path:
        return self._state_folder / name / "planned"

    def _daemon(self, name: str) -> DaemonToday:
        control = self._control(name)
        try:
            servers, clients = control.servers(), control.clients()
        except HeadwayError:
            servers, clients = (), None
        try:
            device, *commands = self._planned(name).read_text().splitlines()
        except (OSError, ValueError):
            return DaemonToday(name, None, (), servers, clients)
        return DaemonToday(name, device, tuple(commands), servers, clients)


@contextmanager
def open_machine(state_folder: Path, *, is_to_change: bool) -> Iterator[LocalMachine]:
    """This machine, for as long as the block lasts.

    Args:
        state_folder: where the daemons' folders are.
        is_to_change: whether it will be changed, which one process does at a time.

    Raises:
        HeadwayError: its driver does not answer, the folder cannot be written, or another process
            changes it.
    """
    with open_mig() as driver:
        if not is_to_change:
            yield LocalMachine(driver, state_folder)
            return
        try:
            state_folder.mkdir(parents=True, exist_ok=True)
            lock = (state_folder / _LOCK).open("w")
        except OSError as error:
            raise _no_state(state_folder, error) from error
        with lock:
            _take(lock, state_folder)
            yield LocalMachine(driver, state_folder)


def _take(lock: IO[str], state_folder: Path) -> None:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise HeadwayError(
            f"another process changes this machine: it holds `{state_folder / _LOCK}`",
            hint="wait for it to end",
        ) from error


def _no_state(state_folder: Path, error: OSError) -> HeadwayError:
    return HeadwayError(
        f"cannot write below `{state_folder}`: {error.strerror}",
        hint="run it as root, or give another `--state-folder`",
    )
