"""The configuration of `nvidia-mig-parted`, and the GPU operator's form of it with its labels.

mig-parted knows counts of profiles, not places: it tries orders until one fits. Knows the format's
version 1. Runs nothing.
"""

import hashlib
import json
from collections import Counter
from typing import Final

from headway.plan import DeviceShare, SharingMode, SharingPlan
from headway.rollout.emission import Emission, EmitOptions, EmittedFile, header
from headway.rollout.scripts import Line, script
from headway.rollout.servers import is_used, nodes_of
from headway.rollout.yaml_text import to_yaml

__all__ = ["OPERATOR_FUNCTIONS", "emit_gpu_operator", "emit_mig_parted"]

_DIGEST: Final = 8
OPERATOR_FUNCTIONS: Final = r"""# The operator cuts node $1 as configuration $2.
# What it said of an earlier one goes with the same call, or the wait would take that for its
# answer; where the label is there already, it stands.
cut() {
  local label=nvidia.com/mig.config now
  now=$(kubectl get node "$1" -o "jsonpath={.metadata.labels.nvidia\.com/mig\.config}")
  [ "$now" = "$2" ] || kubectl label node "$1" "$label=$2" "$label.state=pending" --overwrite
  kubectl wait --timeout=10m \
    --for=jsonpath='{.metadata.labels.nvidia\.com/mig\.config\.state}'=success "node/$1"
}
"""
_PLACES: Final = (
    "this format has no placements: which cells an instance gets is up to mig-parted, and "
    "`headway plan diff` shows whether they are the plan's; the format `nvidia-smi` pins them"
)


def emit_mig_parted(plan: SharingPlan, options: EmitOptions) -> Emission:
    """One configuration for each way in which a node is cut."""
    names = _names(plan, options)
    configs = _configs(plan, options)
    if not configs:
        return Emission((), (_PLACES,))
    used = [
        f"{node}: nvidia-mig-parted apply -f mig-parted.yaml -c {names[node]}" for node in names
    ]
    text = to_yaml([_document(configs)], comments=[*header("mig-parted", (_PLACES,)), *used])
    return Emission((EmittedFile("mig-parted.yaml", text),), (_PLACES,))


def emit_gpu_operator(plan: SharingPlan, options: EmitOptions) -> Emission:
    """The same as a ConfigMap, and the commands that have the operator apply it node by node."""
    name = f"{options.name}-mig-parted-config"
    every_node_off: dict[str, list[dict[str, object]]] = {
        "all-disabled": [{"devices": "all", "mig-enabled": False}]
    }
    inner = to_yaml([_document({**every_node_off, **_configs(plan, options)})])
    config_map = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": options.operator_namespace},
        "data": {"config.yaml": inner},
    }
    patch = json.dumps({"spec": {"migManager": {"config": {"name": name}}}})
    lines = [
        Line("The configurations, and the operator's pointer to them."),
        Line(None, "kubectl apply -f mig-configmap.yaml"),
        Line(
            None,
            "kubectl patch clusterpolicies.nvidia.com/cluster-policy --type merge "
            f"--patch '{patch}'",
        ),
    ]
    for node, config in _names(plan, options).items():
        lines += [
            Line(f"{node}: its GPUs must be idle; the operator evicts its own pods and no others."),
            Line(None, f"cut {node} {config}"),
        ]
    files = (
        EmittedFile(
            "mig-configmap.yaml", to_yaml([config_map], comments=header("the GPU operator"))
        ),
        EmittedFile(
            "label-nodes.sh",
            script("the GPU operator", lines, functions=OPERATOR_FUNCTIONS),
            is_executable=True,
        ),
    )
    return Emission(files, (_PLACES,))


def _document(configs: dict[str, list[dict[str, object]]]) -> dict[str, object]:
    return {"version": "v1", "mig-configs": configs}


def _configs(plan: SharingPlan, options: EmitOptions) -> dict[str, list[dict[str, object]]]:
    """Nodes that are cut alike have one together."""
    names = _names(plan, options)
    nodes = nodes_of(plan)
    return {name: _entries(nodes[node]) for node, name in names.items()}


def _names(plan: SharingPlan, options: EmitOptions) -> dict[str, str]:
    """Of each node's configuration: another cut is another name, so that a label means one cut."""
    return {
        node: f"{options.name}-{_digest(entries)}"
        for node, shares in nodes_of(plan).items()
        if (entries := _entries(shares))
    }


def _digest(entries: list[dict[str, object]]) -> str:
    return hashlib.sha256(json.dumps(entries).encode()).hexdigest()[:_DIGEST]


def _entries(shares: list[DeviceShare]) -> list[dict[str, object]]:
    """Devices that are cut alike are one entry; those that nobody uses have none and stay."""
    groups: dict[str, list[DeviceShare]] = {}
    for share in filter(is_used, shares):
        groups.setdefault(json.dumps(_cut(share)), []).append(share)
    return [
        {"devices": sorted(share.index for share in group), **_cut(group[0])}
        for group in groups.values()
    ]


def _cut(share: DeviceShare) -> dict[str, object]:
    if share.mode is not SharingMode.MIG:
        return {"mig-enabled": False}
    counts = Counter(piece.profile for piece in share.slices if piece.profile is not None)
    return {"mig-enabled": True, "mig-devices": dict(sorted(counts.items(), reverse=True))}
