"""Ways to run the models: cores, slots, pinning, processes and threads.

Pure: names and numbers. Never a configuration or a process.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from msgspec import Struct

from headway.errors import ConfigError

__all__ = ["SETUPS", "Setup", "find_setup"]


class Setup(Struct, frozen=True, kw_only=True):
    """One way to share the cores."""

    name: str
    cores_count: int = 2
    """Cores that serve, the first of those that may be used."""
    slots_per_core: int = 2
    is_pinned: bool = True
    """Each slot's thread stays on its core."""
    is_isolated: bool = False
    """Each model has a process of its own."""
    intra_op_threads: int = 1
    allows_spinning: bool = False
    """Threads inside an operator wait for work by spinning."""

    @property
    def options(self) -> dict[str, int | bool]:
        """Of the onnx back end; what has its default is left out."""
        options: dict[str, int | bool] = {"intra_op_threads": self.intra_op_threads}
        if self.allows_spinning:
            options["allow_spinning"] = True
        return options


SETUPS: Final[Mapping[str, Setup]] = MappingProxyType(
    {
        setup.name: setup
        for setup in (
            Setup(name="pinned"),
            Setup(name="unpinned", is_pinned=False),
            Setup(name="per_model", is_pinned=False, is_isolated=True),
            Setup(name="intra2", is_pinned=False, intra_op_threads=2),
            Setup(
                name="intra2_spinning", is_pinned=False, intra_op_threads=2, allows_spinning=True
            ),
        )
    }
)


def find_setup(name: str) -> Setup:
    """The set-up of this name.

    Raises:
        ConfigError: there is none.
    """
    if name not in SETUPS:
        hint = f"valid: {', '.join(SETUPS)}"
        raise ConfigError(f"there is no set-up `{name}`", path="configs", value=name, hint=hint)
    return SETUPS[name]
