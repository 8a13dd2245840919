"""MIG on each node by `nvidia-smi`, which alone among the formats pins where an instance lies.

A script may be run again: what is there already stays. It destroys only what the plan names, and
`nvidia-smi` itself refuses where a process runs in it. Knows the commands' grammar.
"""

import shlex
from collections.abc import Iterator
from typing import Final

from headway.plan import DeviceShare, SharingMode, SharingPlan
from headway.rollout.emission import Emission, EmitOptions, EmittedFile, dns_name
from headway.rollout.mig_changes import leaving_of, made_of
from headway.rollout.scripts import Line, script
from headway.rollout.servers import is_used, nodes_of

__all__ = ["MIG_FUNCTIONS", "emit_nvidia_smi"]

MIG_FUNCTIONS: Final = r"""# The id of the instance of profile $2 at cell $3 of GPU $1, if any.
instance_id() {
  { nvidia-smi mig -i "$1" -lgi || true; } | awk -v profile="$2" -v start="$3" \
    '$4 == profile {split($7, at, ":"); if (at[1] == start) print $6}'
}

# MIG mode of GPU $1 becomes $2, `Enabled` or `Disabled`.
mode() {
  local query=(nvidia-smi -i "$1" "--query-gpu=mig.mode.current" "--format=csv,noheader")
  local number=0
  [ "$2" = Disabled ] || number=1
  [ "$("${query[@]}")" = "$2" ] || nvidia-smi -i "$1" -mig "$number"
  [ "$("${query[@]}")" = "$2" ] || { echo "GPU $1: reset it, then run this again" >&2; exit 1; }
}

# No instance of profile $2 begins at cell $3 of GPU $1 any more.
remove() {
  local gi
  gi=$(instance_id "$1" "$2" "$3")
  if [ -n "$gi" ]; then
    nvidia-smi mig -i "$1" -gi "$gi" -dci
    nvidia-smi mig -i "$1" -gi "$gi" -dgi
  fi
  [ -z "$(instance_id "$1" "$2" "$3")" ] || { echo "GPU $1: $2 is still at $3" >&2; exit 1; }
}

# An instance of profile $2 begins at cell $3 of GPU $1 and covers $4 cells.
create() {
  [ -n "$(instance_id "$1" "$2" "$3")" ] || nvidia-smi mig -i "$1" -cgi "$2:$3" -C
  [ -n "$(instance_id "$1" "$2" "$3")" ] || { echo "GPU $1: there is no $2 at $3" >&2; exit 1; }
}
"""


def emit_nvidia_smi(plan: SharingPlan, options: EmitOptions) -> Emission:
    """A script for each node with MIG, now or to be."""
    del options
    files = []
    for node, shares in nodes_of(plan).items():
        lines = [line for share in shares for line in _lines(share)]
        if lines:
            text = script(f"MIG on {node}; run as root", lines, functions=MIG_FUNCTIONS)
            files.append(EmittedFile(f"{dns_name(node)}-mig.sh", text, is_executable=True))
    return Emission(tuple(files))


def _lines(share: DeviceShare) -> Iterator[Line]:
    is_mig = share.mode is SharingMode.MIG
    if not is_used(share) or (not is_mig and not share.must_be_idle):
        return
    yield Line(f"GPU {share.index}, {share.product}: {'; '.join(share.reasons) or share.mode}")
    for change in leaving_of(share):
        yield Line(None, f"remove {share.index} {shlex.quote(change.profile)} {change.start}")
    yield Line(None, f"mode {share.index} {'Enabled' if is_mig else 'Disabled'}")
    for piece in made_of(share) if is_mig else ():
        profile = shlex.quote(piece.profile or "")
        yield Line(None, f"create {share.index} {profile} {piece.start} {piece.size}")
