"""What `nvidia-smi topo -m` prints of a node: which device reaches which over what.

Knows that matrix, for those who have no driver at hand. Distances are ranks and not times: they say
who is nearer, and no more.
"""

import re
from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import Final, NamedTuple

from headway.errors import ConfigError

__all__ = ["NodeTopology", "Proximity", "read_topology"]

_CODES: Final = re.compile(r"^(?:X|NV\d+|PIX|PXB|PHB|NODE|SYS)$")


class Proximity(IntEnum):
    """How far it is from one device to another; less is nearer."""

    SAME = 0
    NVLINK = 1
    SWITCH = 2
    """One PCIe switch, or several without the processor between them (PIX, PXB)."""
    SOCKET = 3
    """Through the bridges of one socket (PHB, NODE)."""
    NODE = 4
    """Through the link between sockets (SYS)."""
    NETWORK = 5


class NodeTopology(NamedTuple):
    """What was read of one node."""

    pairs: Mapping[tuple[int, int], Proximity]
    """By indices, the smaller first."""
    numa: Mapping[int, int]
    """By index, where it was printed."""

    def nvlink_domains(self) -> dict[int, int]:
        """Groups that reach each other over NVLink, by index; whoever has none is in no group."""
        linked = [pair for pair, near in self.pairs.items() if near is Proximity.NVLINK]
        groups = {index: index for pair in linked for index in pair}
        for one, other in linked * len(groups):  # so often the least index has reached everybody
            groups[one] = groups[other] = min(groups[one], groups[other])
        return groups


def read_topology(text: str) -> NodeTopology:
    """What `nvidia-smi topo -m` printed on one node.

    Raises:
        ConfigError: it is no such matrix.
    """
    pairs: dict[tuple[int, int], Proximity] = {}
    numa: dict[int, int] = {}
    lines = [line.split() for line in text.splitlines() if line.strip()]
    rows = {int(line[0][3:]): line[1:] for line in lines if re.fullmatch(r"GPU\d+", line[0])}
    header = next((line for line in lines if line[0] == "GPU0" and len(line) > 1), [])
    rows = {index: cells for index, cells in rows.items() if _is_row(cells)}
    if not rows:
        raise ConfigError(
            "this is no topology", hint="save what `nvidia-smi topo -m` prints, header and all"
        )
    count = len(rows)
    for index, cells in rows.items():
        for other, code in enumerate(cells[:count]):
            if other != index and _CODES.match(code):
                pairs[min(index, other), max(index, other)] = _proximity_of(code)
        if (node := _numa_of(header, cells)) is not None:
            numa[index] = node
    return NodeTopology(pairs, numa)


def _is_row(cells: Sequence[str]) -> bool:
    return "X" in cells and bool(cells) and bool(_CODES.match(cells[0]))


def _proximity_of(code: str) -> Proximity:
    if code.startswith("NV"):
        return Proximity.NVLINK
    if code in {"PIX", "PXB"}:
        return Proximity.SWITCH
    return Proximity.SOCKET if code in {"PHB", "NODE"} else Proximity.NODE


def _numa_of(header: Sequence[str], cells: Sequence[str]) -> int | None:
    """What stands under `NUMA Affinity`: the second cell behind the codes, after the cores."""
    if "NUMA" not in header or "CPU" not in header:
        return None
    codes = next((at for at, cell in enumerate(cells) if not _CODES.match(cell)), len(cells))
    behind = cells[codes:]
    return int(behind[1]) if len(behind) > 1 and behind[1].isdigit() else None
