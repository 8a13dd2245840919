"""Every format that a plan can be written in, by name.

Knows the emitters. Writes nothing itself.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from headway.plan import SharingPlan
from headway.rollout.emission import Emission, EmitOptions
from headway.rollout.emit_ansible import emit_ansible
from headway.rollout.emit_device_plugin import emit_device_plugin
from headway.rollout.emit_dra import emit_dra
from headway.rollout.emit_hami import emit_hami
from headway.rollout.emit_kai import emit_kai
from headway.rollout.emit_keda import emit_keda
from headway.rollout.emit_kserve import emit_kserve
from headway.rollout.emit_kueue import emit_kueue
from headway.rollout.emit_mig_parted import emit_gpu_operator, emit_mig_parted
from headway.rollout.emit_mps import emit_mps
from headway.rollout.emit_nvidia_smi import emit_nvidia_smi
from headway.rollout.emit_serve import emit_serve

__all__ = ["FORMATS", "Format"]


class Format(NamedTuple):
    """A kind of file that others read."""

    summary: str
    emit: Callable[[SharingPlan, EmitOptions], Emission]


FORMATS: Final[Mapping[str, Format]] = MappingProxyType(
    {
        "mig-parted": Format("configuration of nvidia-mig-parted", emit_mig_parted),
        "gpu-operator": Format("its ConfigMap and the labels of nodes", emit_gpu_operator),
        "nvidia-smi": Format("scripts that cut GPUs, with placements", emit_nvidia_smi),
        "mps": Format("scripts, environments and TOML of MPS", emit_mps),
        "ansible": Format("a playbook of both", emit_ansible),
        "device-plugin": Format("sharing by NVIDIA's device plugin", emit_device_plugin),
        "dra": Format("claims of dynamic resource allocation", emit_dra),
        "serve": Format("what the plan decides of each server's configuration", emit_serve),
        "kserve": Format("a ServingRuntime and InferenceServices", emit_kserve),
        "keda": Format("ScaledObjects on headway's own metrics", emit_keda),
        "hami": Format("deployments for HAMi", emit_hami),
        "kai": Format("queues and deployments for KAI", emit_kai),
        "kueue": Format("quotas of tenants for Kueue", emit_kueue),
    }
)
