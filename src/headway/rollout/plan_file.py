"""A plan as a file: what `headway plan --format json` prints.

So what was looked at is what is written, compared and applied. Knows the plan's values; whatever
else stands beside them is not read.
"""

from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from headway.errors import ConfigError
from headway.plan import SharingPlan

__all__ = ["read_plan"]

_HINT: Final = "`headway plan FILE --format json > PLAN.json` makes one"


class _PlanFile(Struct, frozen=True, kw_only=True):
    plan: SharingPlan


def read_plan(path: Path) -> SharingPlan:
    """The plan of a file.

    Raises:
        ConfigError: it cannot be read, or holds no plan.
    """
    try:
        return msgspec.json.decode(path.read_bytes(), type=_PlanFile).plan
    except OSError as error:
        raise ConfigError(
            f"cannot read `{path}`: {error.strerror}", value=str(path), hint=_HINT
        ) from error
    except msgspec.DecodeError as error:  # of which its errors of validation are a kind
        raise ConfigError(f"`{path}` is no plan: {error}", value=str(path), hint=_HINT) from error
