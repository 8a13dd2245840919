"""What a plan decides of each server's own configuration: its models, and how large a batch is.

A part of `serve.yaml` for each kind of process. What a model is, and where it lies, the plan does
not know: a note says so. Knows the words of headway's configuration.
"""

from typing import Any, Final

from headway.plan import SharingPlan
from headway.rollout.emission import Emission, EmitOptions, EmittedFile, header
from headway.rollout.servers import Deployable, deployables_of
from headway.rollout.yaml_text import to_yaml

__all__ = ["emit_serve"]

_PART: Final = (
    "a part of `serve.yaml`: add to each model its `path`, its `tier` and whatever else it needs"
)
_LIMIT: Final = (
    "`rows_max` is the largest batch that the plan reckons with, for the sake of deadlines and of "
    "what else sits there"
)


def emit_serve(plan: SharingPlan, options: EmitOptions) -> Emission:
    """A file each, called as the process is in the other formats."""
    del options
    notes = (_PART, _LIMIT)
    files = tuple(
        EmittedFile(
            f"{one.name}.yaml",
            to_yaml([_settings(one)], comments=header(f"the server `{one.name}`", notes)),
        )
        for one in deployables_of(plan)
    )
    return Emission(files, notes if files else ())


def _settings(deployable: Deployable) -> dict[str, Any]:
    seats = sorted(deployable.first.seats, key=lambda seat: (seat.priority, seat.model))
    return {
        "models": [{"name": seat.model, "batch": {"rows_max": seat.batch_rows}} for seat in seats]
    }
