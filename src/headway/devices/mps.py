"""The control daemon of MPS: whether one runs, starting and stopping it, a command to it.

Knows the program `nvidia-cuda-mps-control` and the folder in which a daemon listens. Refuses to
know which limits are good.
"""

import os
import shutil
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Final

from headway.errors import HeadwayError

__all__ = ["MpsControl"]

_PROGRAM: Final = "nvidia-cuda-mps-control"
_TIMEOUT_S: Final = 30.0
_LOOK_AGAIN_S: Final = 0.05


class MpsControl:
    """One daemon, by the folder in which it listens.

    Args:
        pipe_folder: where its clients find it.
        log_folder: where it writes.
    """

    def __init__(self, pipe_folder: Path, log_folder: Path) -> None:
        self._pipe_folder = pipe_folder
        self._log_folder = log_folder

    def is_running(self) -> bool:
        """Whether it answers."""
        if not self._pipe_folder.is_dir() or shutil.which(_PROGRAM) is None:
            return False
        return self._run([_PROGRAM], "get_server_list\n").returncode == 0

    def servers(self) -> tuple[int, ...]:
        """Processes of its own, one for each user whose clients have come.

        Raises:
            HeadwayError: it does not say.
        """
        return tuple(_numbers(self.tell("get_server_list")))

    def clients(self) -> tuple[int, ...]:
        """Processes that are connected to it now.

        Raises:
            HeadwayError: it does not say.
        """
        return tuple(pid for server in self.servers() for pid in self._clients_of(server))

    def start(self, device: str, commands: Sequence[str]) -> None:
        """Start it for one device and give it its defaults.

        Raises:
            HeadwayError: it does not start, or refuses a command; then it is stopped again.
        """
        self._pipe_folder.mkdir(parents=True, exist_ok=True)
        self._log_folder.mkdir(parents=True, exist_ok=True)
        # Into a file: a daemon keeps what it is given, and a pipe would never end.
        with (self._log_folder / "start.log").open("w+") as log:
            # Indexes are the driver's; CUDA would put the fastest GPU first.
            seen = {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": device}
            done = self._run([_PROGRAM, "-d"], "", seen, output=log)
            log.seek(0)
            words = log.read().strip() or f"exit status {done.returncode}"
        if done.returncode != 0:
            raise HeadwayError(
                f"`{_PROGRAM}` did not start for `{device}`: {words}",
                hint=f"see the logs in `{self._log_folder}`",
            )
        try:
            for command in commands:
                self.tell(command)
        except HeadwayError:
            self.stop()
            raise

    def stop(self) -> None:
        """Stop it, and see that it and its servers are gone: until then they hold the device.

        Raises:
            HeadwayError: it does not answer, or does not end.
        """
        servers = self.servers()
        self.tell("quit")
        give_up_at_s = time.monotonic() + _TIMEOUT_S
        while self.is_running() or any(Path(f"/proc/{pid}").exists() for pid in servers):
            if time.monotonic() > give_up_at_s:
                raise HeadwayError(
                    f"the MPS daemon in `{self._pipe_folder}` does not end",
                    hint="its servers end when their last client has left",
                )
            time.sleep(_LOOK_AGAIN_S)

    def tell(self, command: str) -> str:
        """One command; returns what it answers.

        Raises:
            HeadwayError: there is no such program, no daemon, or it refuses.
        """
        done = self._run([_PROGRAM], command + "\n")
        if done.returncode != 0:
            raise HeadwayError(f"MPS refused `{command}`: {_words(done)}")
        return done.stdout

    def _clients_of(self, server: int) -> list[int]:
        return _numbers(self.tell(f"get_client_list {server}"))

    def _run(
        self,
        command: Sequence[str],
        text: str,
        more: Mapping[str, str] | None = None,
        *,
        output: IO[str] | None = None,
    ) -> subprocess.CompletedProcess[str]:
        environment = {
            **os.environ,
            "CUDA_MPS_PIPE_DIRECTORY": str(self._pipe_folder),
            "CUDA_MPS_LOG_DIRECTORY": str(self._log_folder),
            **(more or {}),
        }
        try:
            return subprocess.run(  # noqa: S603 (the program is NVIDIA's own, and no shell is asked)
                list(command),
                input=text,
                env=environment,
                stdout=subprocess.PIPE if output is None else output,
                stderr=subprocess.PIPE if output is None else subprocess.STDOUT,
                text=True,
                timeout=_TIMEOUT_S,
                check=False,
            )
        except FileNotFoundError as error:
            raise HeadwayError(
                f"there is no program `{_PROGRAM}`", hint="it comes with the NVIDIA driver"
            ) from error
        except subprocess.TimeoutExpired as error:
            raise HeadwayError(f"`{_PROGRAM}` did not answer within {_TIMEOUT_S:g} s") from error


def _numbers(text: str) -> list[int]:
    return [int(word) for word in text.split() if word.isdigit()]


def _words(done: subprocess.CompletedProcess[str]) -> str:
    return (done.stderr or done.stdout).strip() or f"exit status {done.returncode}"
