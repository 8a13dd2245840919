"""What every section of the configuration is made from: its base, names and whole numbers.

Knows how one value may be written. Refuses to know what any setting means.
"""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

__all__ = ["Count", "Name", "PathName", "Section", "Whole"]


class Section(BaseModel):
    """What all sections share: nothing unknown is accepted, nothing changes later."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)


Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._:-]*$", max_length=128)]
PathName = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$", max_length=128)]
# Strict, for else `true` would pass as 1.
Count = Annotated[int, Field(ge=1, strict=True)]
Whole = Annotated[int, Field(ge=0, strict=True)]
