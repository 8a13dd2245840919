"""MPS on each node: scripts for the interface that every driver has, TOML for version 3 of it.

Version 2 keeps limits by the environment of each client, so there is a file of it for each;
version 3 keeps them by namespaces, so that a client cannot forget them. Knows both formats.
"""

import shlex
from collections.abc import Iterator, Sequence
from typing import Final

from headway.plan import SharingPlan
from headway.rollout.emission import Emission, EmitOptions, EmittedFile, dns_name, header
from headway.rollout.mps_daemons import MpsClient, MpsDaemon, daemons_of
from headway.rollout.scripts import Line, script
from headway.rollout.servers import nodes_of

__all__ = ["MPS_FUNCTIONS", "emit_mps"]

_NOTES: Final = (
    "a fault of one client ends every client on its device; MPS divides no memory bandwidth",
    "limits are fixed when a client starts: to change them, start the clients again",
)
_LATER: Final = (
    "{node}: version 3 names MIG instances by UUIDs, which they have only once they are made; the "
    "script looks them up, the TOML leaves them out"
)
_OF_TOML: Final = (
    "devices are told by the driver's index, for which the daemon wants "
    "CUDA_DEVICE_ORDER=PCI_BUS_ID; UUIDs of `nvidia-smi -L` may stand there instead",
    "a client's CUDA_MPS_PIPE_DIRECTORY is its namespace's, SERVER/NAMESPACE below the daemon's",
)
MPS_FUNCTIONS: Final = r"""# The UUID of the MIG device on GPU $1 whose instance begins at cell $2.
mig_uuid() {
  local gi index
  gi=$(nvidia-smi mig -i "$1" -lgi | sed -nE "s/.* ([0-9]+) +$2:[0-9]+ .*/\1/p")
  index=$(nvidia-smi -q -i "$1" | awk -v gi="${gi:?GPU $1 has no instance at $2}" \
    '/^ +Index +:/ {i = $NF} /GPU Instance ID +:/ && $NF == gi {print i; exit}')
  nvidia-smi -L -i "$1" | sed -nE "s/.*Device +${index:?}: \(UUID: (MIG-[^)]+)\).*/\1/p"
}

# A daemon listens below folder $1 for device $2 alone, and was told $3 and so on.
daemon() {
  local folder=$1 wanted command
  shift
  : "${1:?there is no such device}"
  wanted=$(printf '%s\n' "$@")
  export CUDA_MPS_PIPE_DIRECTORY="$folder/pipe" CUDA_MPS_LOG_DIRECTORY="$folder/log"
  if echo get_server_list | nvidia-cuda-mps-control >/dev/null 2>&1; then
    [ "$(cat "$folder/planned" 2>/dev/null)" != "$wanted" ] || return 0
    echo "$folder: the daemon there was planned otherwise; stop it first" >&2
    exit 1
  fi
  mkdir -p "$folder/pipe" "$folder/log"
  # CUDA would put the fastest GPU first. And away from this script's own output, which a daemon
  # would keep open for as long as it runs.
  CUDA_DEVICE_ORDER=PCI_BUS_ID CUDA_VISIBLE_DEVICES="$1" nvidia-cuda-mps-control -d \
    </dev/null >>"$folder/log/start.log" 2>&1 || { cat "$folder/log/start.log" >&2; exit 1; }
  shift
  for command in "$@"; do echo "$command" | nvidia-cuda-mps-control; done
  echo get_server_list | nvidia-cuda-mps-control >/dev/null
  echo "$wanted" >"$folder/planned"
}

# No daemon listens below folder $1; one that does ends once its clients have left.
no_daemon() {
  export CUDA_MPS_PIPE_DIRECTORY="$1/pipe"
  if echo get_server_list | nvidia-cuda-mps-control >/dev/null 2>&1; then
    echo quit | nvidia-cuda-mps-control
  fi
  rm -f "$1/planned"
}
"""


def emit_mps(plan: SharingPlan, options: EmitOptions) -> Emission:
    """For each node with MPS: a script to start, one to stop, environments, and TOML."""
    files: list[EmittedFile] = []
    notes: list[str] = []
    for node, shares in nodes_of(plan).items():
        daemons = daemons_of(shares)
        if not daemons:
            continue
        files += _files(node, daemons, options)
        if any(daemon.start is not None for daemon in daemons):
            notes.append(_LATER.format(node=node))
    return Emission(tuple(files), (*_NOTES, *notes) if files else ())


def _files(node: str, daemons: Sequence[MpsDaemon], options: EmitOptions) -> Iterator[EmittedFile]:
    stem, subject, state = dns_name(node), f"MPS on {node}", options.state_folder
    starts = [line for daemon in daemons for line in _start_lines(daemon, state)]
    stops = [line for daemon in daemons for line in _stop_lines(daemon, state)]
    text = script(subject, starts, notes=_NOTES, functions=MPS_FUNCTIONS)
    yield EmittedFile(f"{stem}-mps-start.sh", text, is_executable=True)
    text = script(subject, stops, functions=MPS_FUNCTIONS)
    yield EmittedFile(f"{stem}-mps-stop.sh", text, is_executable=True)
    for daemon in daemons:
        for client in daemon.clients:
            name = f"{stem}-{daemon.name}-{dns_name(client.name)}.env"
            yield EmittedFile(name, _environment(client, daemon.pipe_folder(state)))
    whole = [daemon for daemon in daemons if daemon.start is None]
    if whole:
        yield EmittedFile(f"{stem}-mps.toml", _toml(node, whole))


def _start_lines(daemon: MpsDaemon, state_folder: str) -> Iterator[Line]:
    device = str(daemon.index)
    if daemon.start is not None:
        device = f'"$(mig_uuid {daemon.index} {daemon.start})"'
    words = [shlex.quote(daemon.folder(state_folder)), device]
    words += [shlex.quote(command) for command in daemon.defaults()]
    yield Line(f"{daemon.name}: {', '.join(client.name for client in daemon.clients)}")
    yield Line(None, " ".join(["daemon", *words]))


def _stop_lines(daemon: MpsDaemon, state_folder: str) -> Iterator[Line]:
    yield Line(daemon.name)
    yield Line(None, f"no_daemon {shlex.quote(daemon.folder(state_folder))}")


def _environment(client: MpsClient, pipe_folder: str) -> str:
    lines = [f"# {line}" for line in header(f"what {client.name} is started with")]
    settings = {"CUDA_MPS_PIPE_DIRECTORY": pipe_folder, **client.limits()}
    lines += [f"{key}={value}" for key, value in settings.items()]
    return "\n".join(lines) + "\n"


def _toml(node: str, daemons: Sequence[MpsDaemon]) -> str:
    """One daemon for all, a server a device, a namespace a client."""
    lines = [f"# {line}" for line in header(f"MPS version 3 on {node}", (*_NOTES, *_OF_TOML))]
    lines += ["# nvidia-cuda-mps-control -d -p 3 -a FILE", 'schema_version = "1.0"']
    for daemon in daemons:
        lines += ["", f"[servers.{daemon.name}]", f'allowed_devices = "{daemon.index}"']
        for client in daemon.clients:
            lines += ["", f"[servers.{daemon.name}.namespaces.{_toml_key(client.name)}]"]
            if client.memory_limit_mib is not None:
                lines.append(f'pinned_memory_limit = "{client.memory_limit_mib}M"')
            if client.thread_percent is not None:
                lines.append(f'active_thread_percentage = "{client.thread_percent}"')
            if client.client_priority is not None:
                lines.append(f'client_priority = "{client.client_priority}"')
    return "\n".join(lines) + "\n"


def _toml_key(name: str) -> str:
    """As a bare key, which is a folder's name too."""
    return dns_name(name)
