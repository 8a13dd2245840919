"""Scripts and environments as emitters write them: every command in the grammar of its tool.

Only what headway writes is known here; a command of another kind is a fault, so that a slip of a
hand edit is seen. Knows the grammars of `nvidia-cuda-mps-control`, `kubectl label` and the
functions of our own scripts. Runs nothing.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from headway.rollout.check_shapes import Fault

__all__ = ["environment_faults", "script_faults"]

_PERCENT: Final = r"(?:[1-9][0-9]?|100)"
_BYTES: Final = r"[1-9][0-9]*[MG]"
_PROFILE: Final = r"[1-7]g\.[0-9]+gb(?:\+me|\+gfx|\+me\.all)?(?:-me)?"
_LABEL: Final = r"[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
_NODE: Final = r"[a-z0-9](?:[-a-z0-9.]{0,251}[a-z0-9])?"
_PATH: Final = r"/[-\w./]+"
_CONTROL: Final = (
    rf"set_default_active_thread_percentage {_PERCENT}",
    rf"set_default_device_pinned_mem_limit [0-9]+ {_BYTES}",
    r"set_default_client_priority [01]",
)
_CREATE: Final = re.compile(
    rf"create (?P<gpu>[0-9]+) (?P<profile>{_PROFILE}) (?P<start>[0-9]+) (?P<size>[0-9]+)"
)
_COMMANDS: Final = tuple(
    re.compile(pattern)
    for pattern in (
        r"set -euo pipefail",
        r"mode [0-9]+ (?:Enabled|Disabled)",
        rf"remove [0-9]+ {_PROFILE} [0-9]+",
        _CREATE.pattern,
        rf"daemon {_PATH} (?:[0-9]+|\"\$\(mig_uuid [0-9]+ [0-9]+\)\")"
        rf"(?: '(?:{'|'.join(_CONTROL)})')*",
        rf"no_daemon {_PATH}",
        r"kubectl apply -f [-\w.]+\.yaml",
        rf"kubectl label node {_NODE} [-\w./]+={_LABEL} --overwrite",
        rf"cut {_NODE} {_LABEL}",
        r"kubectl patch clusterpolicies\.nvidia\.com/cluster-policy --type merge "
        r"--patch '\{\"spec\": .*\}'",
    )
)
_SETTINGS: Final[Mapping[str, re.Pattern[str]]] = MappingProxyType(
    {
        "CUDA_MPS_PIPE_DIRECTORY": re.compile(_PATH),
        "CUDA_MPS_LOG_DIRECTORY": re.compile(_PATH),
        "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": re.compile(_PERCENT),
        "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT": re.compile(rf"[0-9]+={_BYTES}(?:,[0-9]+={_BYTES})*"),
        "CUDA_MPS_CLIENT_PRIORITY": re.compile(r"[01]"),
        "CUDA_VISIBLE_DEVICES": re.compile(r"[-\w,/]+"),
    }
)


class _Taken(NamedTuple):
    """Cells of a GPU that a script gives to an instance."""

    gpu: str
    start: int
    size: int
    line: int


def script_faults(text: str, *, functions: Iterable[str]) -> list[Fault]:
    """What a shell or a tool would refuse; `functions` are blocks that are taken as they are."""
    for block in functions:
        # As many empty lines instead, so that the lines below keep their numbers.
        text = text.replace(block, "\n" * block.count("\n"))
    lines = text.split("\n")
    found = [] if lines[0] == "#!/usr/bin/env bash" else [Fault("line 1", "it has no `#!` line")]
    if "set -euo pipefail" not in lines:
        found.append(Fault("", "it goes on after a command that failed: `set -euo pipefail`"))
    created: list[_Taken] = []
    for number, line in enumerate(lines, start=1):
        if not line or line.startswith("#"):
            continue
        if not any(pattern.fullmatch(line) for pattern in _COMMANDS):
            found.append(Fault(f"line {number}", f"`{line}` is no command of a plan's script"))
        elif match := _CREATE.fullmatch(line):
            taken = _Taken(match["gpu"], int(match["start"]), int(match["size"]), number)
            found += _overlaps(taken, created)
            created.append(taken)
    return found


def _overlaps(taken: _Taken, created: Iterable[_Taken]) -> Iterator[Fault]:
    for other in created:
        is_apart = (
            taken.gpu != other.gpu
            or taken.start + taken.size <= other.start
            or other.start + other.size <= taken.start
        )
        if not is_apart:
            message = f"GPU {taken.gpu}: the instance wants cells of the one of line {other.line}"
            yield Fault(f"line {taken.line}", message)


def environment_faults(text: str) -> list[Fault]:
    """What an MPS client would be refused for, or would not understand."""
    found = []
    seen: set[str] = set()
    for number, line in enumerate(text.splitlines(), start=1):
        if not line or line.startswith("#"):
            continue
        key, equals, value = line.partition("=")
        pattern = _SETTINGS.get(key)
        if not equals or pattern is None:
            found.append(Fault(f"line {number}", f"`{line}` is no setting of an MPS client"))
        elif not pattern.fullmatch(value):
            found.append(Fault(f"line {number}", f"`{value}` is no value of `{key}`"))
        if key in seen:
            found.append(Fault(f"line {number}", f"`{key}` stands there twice"))
        seen.add(key)
    return found
