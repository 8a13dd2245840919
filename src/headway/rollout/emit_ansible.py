"""A playbook that cuts each node's GPUs and runs its MPS daemons as services.

Tasks may be run again: each asks first, changes only what is not so, and checks after. Knows
Ansible's built-in modules and systemd's units.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Final

from headway.plan import DeviceShare, PlacedSlice, SharingMode, SharingPlan
from headway.rollout.emission import Emission, EmitOptions, EmittedFile, header
from headway.rollout.mig_changes import MigChange, leaving_of, made_of
from headway.rollout.mps_daemons import MpsDaemon, daemons_of
from headway.rollout.servers import is_used, nodes_of
from headway.rollout.yaml_text import to_yaml

__all__ = ["emit_ansible"]

_COMMAND: Final = "ansible.builtin.command"
_NO_INSTANCES: Final = 6
"""What `nvidia-smi mig -lgi` exits with where there are none."""
_CONTROL: Final = "/usr/bin/nvidia-cuda-mps-control"
_NOTES: Final = (
    "hosts are called as the plan's nodes; run it while no process uses what is to be destroyed",
)
_BY_SCRIPT: Final = (
    "{node}: daemons inside MIG instances are left to the format `mps`, for their UUIDs are known "
    "only once the instances are made"
)


def emit_ansible(plan: SharingPlan, options: EmitOptions) -> Emission:
    """A play a node."""
    plays, notes = [], list(_NOTES)
    for node, shares in nodes_of(plan).items():
        daemons = daemons_of(shares)
        tasks = [task for share in shares for task in _mig_tasks(share)]
        for daemon in daemons:
            if daemon.start is None:
                tasks += _mps_tasks(daemon, options)
        if any(daemon.start is not None for daemon in daemons):
            notes.append(_BY_SCRIPT.format(node=node))
        if tasks:
            plays.append(
                {
                    "name": f"Share the GPUs of {node}",
                    "hosts": node,
                    "become": True,
                    "gather_facts": False,
                    "tasks": tasks,
                }
            )
    told = tuple(notes)
    if not plays:
        return Emission((), told)
    text = to_yaml([plays], comments=header("Ansible", told))
    return Emission((EmittedFile("playbook.yaml", text),), told)


def _mig_tasks(share: DeviceShare) -> Iterator[dict[str, Any]]:
    """What is in the way goes first: MIG mode is not switched off while there are instances."""
    is_mig = share.mode is SharingMode.MIG
    if not is_used(share) or (not is_mig and not share.must_be_idle):
        return
    leaving = leaving_of(share)
    if leaving:
        yield _listing(share, "list its instances")
        for change in leaving:
            yield from _destroying(share, change)
    yield from _mode_tasks(share, "Enabled" if is_mig else "Disabled")
    if is_mig:
        pieces = made_of(share)
        yield _listing(share, "list the instances that stay")
        yield from (_creating(share, piece) for piece in pieces)
        yield _listing(share, "every instance is where it should be", pieces)


def _destroying(share: DeviceShare, change: MigChange) -> Iterator[dict[str, Any]]:
    pattern = f"MIG {_plain(change.profile)} +[0-9]+ +([0-9]+) +{change.start}:"
    found = f"{{{{ headway_instances.stdout | regex_search('{pattern}', '\\1') | first }}}}"
    for flag, words in (("-dci", "compute instances of"), ("-dgi", "GPU instance")):
        yield {
            "name": f"GPU {share.index}: destroy {words} {change.profile} at {change.start}",
            _COMMAND: {"argv": [*_mig(share), "-gi", found, flag]},
            "when": f"headway_instances.stdout is search('{pattern}')",
        }


def _creating(share: DeviceShare, piece: PlacedSlice) -> dict[str, Any]:
    return {
        "name": f"GPU {share.index}: {piece.profile} at {piece.start}",
        _COMMAND: {"argv": [*_mig(share), "-cgi", f"{piece.profile}:{piece.start}", "-C"]},
        "when": f"headway_instances.stdout is not search('{_row(piece)}')",
    }


def _mig(share: DeviceShare) -> list[str]:
    return ["nvidia-smi", "mig", "-i", str(share.index)]


def _mode_tasks(share: DeviceShare, mode: str) -> Iterator[dict[str, Any]]:
    query = ["nvidia-smi", "-i", str(share.index)]
    query += ["--query-gpu=mig.mode.current", "--format=csv,noheader"]
    ask = {_COMMAND: {"argv": query}, "register": "headway_mode", "changed_when": False}
    switch = ["nvidia-smi", "-i", str(share.index), "-mig", "1" if mode == "Enabled" else "0"]
    differs = f"headway_mode.stdout | trim != '{mode}'"
    yield {"name": f"GPU {share.index}: ask for its MIG mode", **ask}
    yield {
        "name": f"GPU {share.index}: MIG mode becomes {mode}",
        _COMMAND: {"argv": switch},
        "when": differs,
    }
    yield {
        "name": f"GPU {share.index}: MIG mode is {mode}; if not, reset the GPU and run this again",
        **ask,
        "failed_when": differs,
    }


def _listing(share: DeviceShare, words: str, pieces: Sequence[PlacedSlice] = ()) -> dict[str, Any]:
    """Ask which instances there are; an error where one of these is not."""
    missing = [f"headway_instances.stdout is not search('{_row(piece)}')" for piece in pieces]
    return {
        "name": f"GPU {share.index}: {words}",
        _COMMAND: {"argv": [*_mig(share), "-lgi"]},
        "register": "headway_instances",
        "changed_when": False,
        "failed_when": " or ".join(
            missing or [f"headway_instances.rc not in [0, {_NO_INSTANCES}]"]
        ),
    }


def _row(piece: PlacedSlice) -> str:
    """A line of `nvidia-smi mig -lgi`."""
    return f"MIG {_plain(piece.profile or '')} +[0-9]+ +[0-9]+ +{piece.start}:{piece.size} "


def _plain(profile: str) -> str:
    """A profile as a pattern, without backslashes, which two languages would each read."""
    return profile.replace(".", "[.]").replace("+", "[+]")


def _mps_tasks(daemon: MpsDaemon, options: EmitOptions) -> Iterator[dict[str, Any]]:
    unit = f"{options.name}-mps-{daemon.name}.service"
    yield {
        "name": f"{daemon.name}: its service",
        "ansible.builtin.copy": {
            "dest": f"/etc/systemd/system/{unit}",
            "content": _unit(daemon, options),
            "owner": "root",
            "mode": "0644",
        },
        "register": "headway_unit",
    }
    yield {
        "name": f"{daemon.name}: it runs, and again with what has changed",
        "ansible.builtin.systemd_service": {
            "name": unit,
            "state": "{{ 'restarted' if headway_unit is changed else 'started' }}",
            "enabled": True,
            "daemon_reload": True,
        },
    }
    yield {
        "name": f"{daemon.name}: it answers",
        _COMMAND: {"argv": [_CONTROL], "stdin": "get_server_list"},
        "environment": {"CUDA_MPS_PIPE_DIRECTORY": daemon.pipe_folder(options.state_folder)},
        "changed_when": False,
    }


def _unit(daemon: MpsDaemon, options: EmitOptions) -> str:
    pipe, log = daemon.pipe_folder(options.state_folder), daemon.log_folder(options.state_folder)
    after = [
        f"ExecStartPost=/bin/sh -c 'echo {command} | {_CONTROL}'" for command in daemon.defaults()
    ]
    return "\n".join(
        [
            "[Unit]",
            f"Description=MPS for {daemon.name}, as planned by headway",
            "",
            "[Service]",
            "Type=forking",
            "Environment=CUDA_DEVICE_ORDER=PCI_BUS_ID",
            f"Environment=CUDA_VISIBLE_DEVICES={daemon.index}",
            f"Environment=CUDA_MPS_PIPE_DIRECTORY={pipe}",
            f"Environment=CUDA_MPS_LOG_DIRECTORY={log}",
            f"ExecStartPre=/bin/mkdir -p {pipe} {log}",
            f"ExecStart={_CONTROL} -d",
            *after,
            f"ExecStop=/bin/sh -c 'echo quit | {_CONTROL}'",
            "Restart=on-failure",
            "",
            "[Install]",
            "WantedBy=multi-user.target",
            "",
        ]
    )
