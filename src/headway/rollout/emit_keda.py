"""A ScaledObject of KEDA for each kind of process that has several replicas.

What a replica was planned to be asked is the threshold, and the number of them that the plan has
places for is the maximum. Knows headway's own metrics and KEDA's trigger `prometheus`.
"""

import re
from typing import Any, Final

from headway.plan import SharingPlan
from headway.rollout.emission import Emission, EmitOptions, EmittedFile, header
from headway.rollout.servers import Deployable, deployables_of
from headway.rollout.yaml_text import to_yaml

__all__ = ["emit_keda"]

_TARGET_SUFFIX: Final = "-predictor"
"""Of deployments that KServe makes."""
_POLLING_S: Final = 15
_COOLDOWN_S: Final = 300
_WINDOW: Final = "1m"


def emit_keda(plan: SharingPlan, options: EmitOptions) -> Emission:
    """One object for each deployment with more than one replica."""
    scaled = [one for one in deployables_of(plan) if len(one.servers) > 1]
    alone = [one.name for one in deployables_of(plan) if len(one.servers) == 1]
    notes = (
        "targets are the deployments that the format `kserve` makes",
        *(
            (f"not scaled, for the plan has one place for each: {', '.join(alone)}",)
            if alone
            else ()
        ),
    )
    if not scaled:
        return Emission((), notes)
    text = to_yaml([_object(one, options) for one in scaled], comments=header("KEDA", notes))
    return Emission((EmittedFile("keda.yaml", text),), notes)


def _object(deployable: Deployable, options: EmitOptions) -> dict[str, Any]:
    models = "|".join(_quoted(model) for model in deployable.first.models)
    query = f'sum(rate(headway_requests_total{{model=~"{models}"}}[{_WINDOW}]))'
    return {
        "apiVersion": "keda.sh/v1alpha1",
        "kind": "ScaledObject",
        "metadata": {"name": deployable.name, "namespace": options.namespace},
        "spec": {
            "scaleTargetRef": {"name": deployable.name + _TARGET_SUFFIX},
            "pollingInterval": _POLLING_S,
            "cooldownPeriod": _COOLDOWN_S,
            "minReplicaCount": 1,
            "maxReplicaCount": len(deployable.servers),
            "triggers": [
                {
                    "type": "prometheus",
                    "metadata": {
                        "serverAddress": options.prometheus_url,
                        "query": query,
                        "threshold": f"{deployable.rate_rps:.6g}",
                    },
                }
            ],
        },
    }


def _quoted(model: str) -> str:
    """A name as a pattern inside a string of PromQL."""
    return re.escape(model).replace("\\", "\\\\").replace('"', '\\"')
