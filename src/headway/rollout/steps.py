"""The steps in which a machine becomes what a plan says: as typed by a person, with a check each.

Plain values that say how a step is typed, what is typed after it and what that must show, and how
it is taken back. Knows the words of `nvidia-smi` and `nvidia-cuda-mps-control`. Runs nothing.
"""

import shlex
from typing import NamedTuple

from msgspec import Struct

from headway.rollout.mps_daemons import MpsDaemon

__all__ = [
    "CreateInstance",
    "DaemonToday",
    "DestroyInstance",
    "SetMode",
    "StartDaemon",
    "Step",
    "StopDaemon",
    "planned_file",
]


class DaemonToday(NamedTuple):
    """An MPS daemon that runs below the state folder."""

    name: str
    device: str | None
    """What it serves, as it was started for: an index, or the UUID of a MIG device. None where
    nobody noted it."""
    commands: tuple[str, ...] = ()
    """What it was told."""
    servers: tuple[int, ...] = ()
    """Processes of its own, through which its clients reach the device."""
    clients: tuple[int, ...] | None = ()
    """Processes that are connected; None where it does not say."""


class SetMode(Struct, frozen=True, kw_only=True):
    """Switch MIG mode."""

    index: int
    is_on: bool

    @property
    def words(self) -> str:
        """What it does."""
        return f"GPU {self.index}: MIG mode {'on' if self.is_on else 'off'}"

    @property
    def command(self) -> str:
        """As it is typed."""
        return f"nvidia-smi -i {self.index} -mig {int(self.is_on)}"

    @property
    def check(self) -> str:
        """What is typed after it."""
        return f"nvidia-smi -i {self.index} --query-gpu=mig.mode.current --format=csv,noheader"

    @property
    def expected(self) -> str:
        """What that must show."""
        return "Enabled" if self.is_on else "Disabled"


class DestroyInstance(Struct, frozen=True, kw_only=True):
    """Unmake a MIG instance, with what is in it."""

    index: int
    profile: str
    start: int
    id: int | None
    """As the driver counts; None where the plan alone says that there is one."""

    @property
    def words(self) -> str:
        """What it does."""
        hint = f"; GI is its id in `{self.check}`" if self.id is None else ""
        return f"GPU {self.index}: {self.profile} at {self.start} makes room{hint}"

    @property
    def command(self) -> str:
        """As it is typed."""
        instance = f"nvidia-smi mig -i {self.index} -gi {'GI' if self.id is None else self.id}"
        return f"{instance} -dci && {instance} -dgi"

    @property
    def check(self) -> str:
        """What is typed after it."""
        return f"nvidia-smi mig -i {self.index} -lgi"

    @property
    def expected(self) -> str:
        """What that must show."""
        return f"no {self.profile} at {self.start}"


class CreateInstance(Struct, frozen=True, kw_only=True):
    """Make a MIG instance at its place, in one part."""

    index: int
    profile: str
    start: int
    size: int

    @property
    def words(self) -> str:
        """What it does."""
        cells = "1 cell" if self.size == 1 else f"{self.size} cells"
        return f"GPU {self.index}: {self.profile} at {self.start}, over {cells}"

    @property
    def command(self) -> str:
        """As it is typed."""
        place = shlex.quote(f"{self.profile}:{self.start}")
        return f"nvidia-smi mig -i {self.index} -cgi {place} -C"

    @property
    def check(self) -> str:
        """What is typed after it."""
        return f"nvidia-smi mig -i {self.index} -lgi"

    @property
    def expected(self) -> str:
        """What that must show."""
        return f"{self.profile} with placement {self.start}:{self.size}"


class StartDaemon(Struct, frozen=True, kw_only=True):
    """Start an MPS daemon, and tell it what it gives by default."""

    daemon: MpsDaemon
    state_folder: str

    @property
    def index(self) -> int:
        """Of the GPU."""
        return self.daemon.index

    @property
    def words(self) -> str:
        """What it does."""
        daemon = self.daemon
        clients = ", ".join(client.name for client in daemon.clients)
        hint = ""
        if daemon.start is not None:
            hint = f"; MIG-UUID, in `nvidia-smi -L`, is that of {daemon.profile} at {daemon.start}"
        return f"{daemon.name}: MPS for {clients}{hint}"

    @property
    def command(self) -> str:
        """As it is typed; its last line notes what was done, for `headway plan diff`."""
        daemon, state = self.daemon, self.state_folder
        pipe, log = daemon.pipe_folder(state), daemon.log_folder(state)
        device = str(daemon.index) if daemon.start is None else "MIG-UUID"
        noted = " ".join(map(shlex.quote, (device, *daemon.defaults())))
        return "\n".join(
            [
                f"mkdir -p {shlex.quote(pipe)} {shlex.quote(log)}",
                f"{_at(daemon, state)} CUDA_MPS_LOG_DIRECTORY={shlex.quote(log)} "
                f"CUDA_DEVICE_ORDER=PCI_BUS_ID CUDA_VISIBLE_DEVICES={device} "
                "nvidia-cuda-mps-control -d",
                *(_told(one, daemon, state) for one in daemon.defaults()),
                f"printf '%s\\n' {noted} >{shlex.quote(planned_file(daemon, state))}",
            ]
        )

    @property
    def check(self) -> str:
        """What is typed after it."""
        return _told("get_server_list", self.daemon, self.state_folder)

    @property
    def expected(self) -> str:
        """What that must show."""
        return "an answer, empty until the first client comes"


class StopDaemon(Struct, frozen=True, kw_only=True):
    """Stop an MPS daemon."""

    daemon: MpsDaemon
    before: DaemonToday
    """What it was, for whoever has to start it again."""
    state_folder: str

    @property
    def index(self) -> int:
        """Of the GPU."""
        return self.daemon.index

    @property
    def words(self) -> str:
        """What it does."""
        return f"{self.daemon.name}: its MPS daemon stops"

    @property
    def command(self) -> str:
        """As it is typed."""
        return _told("quit", self.daemon, self.state_folder)

    @property
    def check(self) -> str:
        """What is typed after it."""
        return _told("get_server_list", self.daemon, self.state_folder)

    @property
    def expected(self) -> str:
        """What that must show."""
        return "that no daemon answers"


Step = SetMode | DestroyInstance | CreateInstance | StartDaemon | StopDaemon
"""One change of one GPU."""


def planned_file(daemon: MpsDaemon, state_folder: str) -> str:
    """Where it is noted what a daemon was started for and told, a line each."""
    return f"{daemon.folder(state_folder)}/planned"


def _told(command: str, daemon: MpsDaemon, state_folder: str) -> str:
    return f"echo {command} | {_at(daemon, state_folder)} nvidia-cuda-mps-control"


def _at(daemon: MpsDaemon, state_folder: str) -> str:
    return f"CUDA_MPS_PIPE_DIRECTORY={shlex.quote(daemon.pipe_folder(state_folder))}"
