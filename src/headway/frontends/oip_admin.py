"""What both wires of the protocol may ask of models and settings, checked in one place.

Knows `Engine` and its errors. Refuses to know HTTP and gRPC.
"""

from collections.abc import Mapping
from typing import Any, Final

from msgspec import DecodeError
from msgspec.json import Decoder

from headway.core import ModelName
from headway.errors import (
    InvalidRequestError,
    ModelNotFoundError,
    NotAllowedError,
    UnavailableError,
    UnsupportedError,
)
from headway.runtime import Engine

__all__ = ["is_model_ready", "overrides_of", "refuse_changes", "refuse_management"]

_object_decoder: Final = Decoder(dict[str, Any])


def is_model_ready(engine: Engine, model: ModelName, version: str) -> bool:
    """Whether it serves; known but not served, for example while it loads, is no error.

    Raises:
        ModelNotFoundError: nobody knows such a model or version.
    """
    try:
        return engine.status(model, version).is_ready
    except UnavailableError:
        return False
    except ModelNotFoundError:
        names = {state.name for state in engine.index() if version in {"", state.version}}
        if model not in names:
            raise
        return False


def refuse_management(*, can_load: bool) -> None:
    """See that models may be loaded and unloaded by clients.

    Raises:
        NotAllowedError: they may not.
    """
    if not can_load:
        raise NotAllowedError(
            "models may not be loaded or unloaded here", hint="set server.admin.can_load: true"
        )


def overrides_of(parameters: Mapping[str, Any]) -> dict[str, object]:
    """The parameter `config` of a load, which is an object written as a string.

    Raises:
        InvalidRequestError: it is none.
        UnsupportedError: the load brings a file.
    """
    files = [name for name in parameters if name.startswith("file:")]
    if files:
        raise UnsupportedError(
            f"parameter `{files[0][:200]}` brings a file, which is not supported",
            hint="put the file where the server can read it, and name its path in `config`",
        )
    config = parameters.get("config")
    if config is None:
        return {}
    if not isinstance(config, str):
        raise InvalidRequestError(
            "parameter `config` is no string", hint="it is a JSON object, written as a string"
        )
    try:
        return _object_decoder.decode(config.strip() or "{}")
    except (DecodeError, ValueError, RecursionError) as error:
        raise InvalidRequestError(f"parameter `config` is no JSON object: {error}") from None


def refuse_changes(settings: Mapping[str, Any], wanted: Mapping[str, Any]) -> None:
    """See that nothing would change: a setting may be sent as it is, or as None for its default.

    Raises:
        InvalidRequestError: there is no such setting.
        UnsupportedError: it would change.
    """
    for name, value in wanted.items():
        if name not in settings:
            raise InvalidRequestError(f"there is no setting `{name[:200]}`")
        if value is not None and _words(value) != _words(settings[name]):
            raise UnsupportedError(
                f"setting `{name}` cannot be changed while the server runs",
                hint=f"it is `{settings[name]}`; headway's own logs and journal are configured at"
                " its start",
            )


def _words(setting: object) -> list[str]:
    """A setting as its values' texts: clients send `OFF` for `["OFF"]`, and 1000 for `"1000"`."""
    return [str(value) for value in (setting if isinstance(setting, list) else [setting])]
