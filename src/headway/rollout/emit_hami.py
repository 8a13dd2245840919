"""Deployments for HAMi, which cuts devices by limits on memory and cores in a library of its own.

Its limits are kept by a preloaded library and not by hardware: a note says so. Knows HAMi's
resources and annotations.
"""

from math import ceil
from typing import Any, Final

from headway.plan import SharingMode, SharingPlan
from headway.rollout.emission import Emission, EmitOptions, EmittedFile, header
from headway.rollout.pods import deployment, namespace_object
from headway.rollout.servers import Deployable, deployables_of
from headway.rollout.yaml_text import to_yaml

__all__ = ["emit_hami"]

_MIB: Final = 1 << 20
_SOFT: Final = (
    "HAMi's limits are kept by a library that is loaded before CUDA's, not by hardware: a process "
    "that goes around it has no limit"
)
_WHERE: Final = "which device a pod gets is up to HAMi's scheduler; in MIG mode it also cuts them"


def emit_hami(plan: SharingPlan, options: EmitOptions) -> Emission:
    """A deployment each."""
    notes = (_SOFT, _WHERE)
    objects = [namespace_object(options)]
    objects += [_deployment(one, options) for one in deployables_of(plan)]
    text = to_yaml(objects, comments=header("HAMi", notes))
    return Emission((EmittedFile("hami.yaml", text),), notes)


def _deployment(deployable: Deployable, options: EmitOptions) -> dict[str, Any]:
    server = deployable.first
    limits: dict[str, object] = {
        "nvidia.com/gpu": len(server.places),
        "nvidia.com/gpumem": ceil(server.memory_bytes / _MIB),
    }
    if server.profile is None and server.inside is SharingMode.MPS and deployable.thread_percent:
        limits["nvidia.com/gpucores"] = deployable.thread_percent
    if server.profile is None and server.inside in {SharingMode.WHOLE, SharingMode.STREAMS}:
        limits["nvidia.com/gpucores"] = 100
    annotations = {
        "hami.io/node-scheduler-policy": "binpack",
        "hami.io/gpu-scheduler-policy": "binpack",
        "nvidia.com/vgpu-mode": "mig" if server.profile else "hami-core",
    }
    return deployment(
        deployable,
        options,
        limits=limits,
        annotations=annotations,
        pod={"schedulerName": "hami-scheduler"},
    )
