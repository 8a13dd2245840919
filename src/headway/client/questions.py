"""What is asked of a server, as requests that are ready to be sent: the codec's way out.

Pure: values in, bytes out. Knows the protocol's JSON and its binary tensors.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Generic, NamedTuple, TypeVar
from urllib.parse import quote

import msgspec
import numpy as np
import numpy.typing as npt
from msgspec import UNSET, Struct, UnsetType

from headway.client.answers import (
    Answer,
    Estimate,
    ModelMetadata,
    ModelState,
    Reply,
    read_estimate,
    read_index,
    read_metadata,
    read_nothing,
    read_reply,
    read_statistics,
    read_yes,
)
from headway.core import Datatype, Tensor
from headway.errors import (
    DeadlineExceededError,
    HeadwayError,
    InvalidRequestError,
    UnavailableError,
)
from headway.executors import ParameterValue, tensor_of
from headway.units import NS_PER_S

__all__ = [
    "Ask",
    "Bf16",
    "Inputs",
    "ParameterValue",
    "Request",
    "estimate",
    "infer",
    "is_live",
    "is_model_ready",
    "is_ready",
    "load",
    "metadata",
    "models",
    "statistics",
    "unload",
]

HEADER_LENGTH: Final = "inference-header-content-length"
_PROBE_NS_MAX: Final = 5 * NS_PER_S
"""A probe that takes longer has answered: no."""
_JSON_TYPE: Final = {"content-type": "application/json"}
_BINARY_TYPE: Final = {"content-type": "application/octet-stream"}

T = TypeVar("T")


class Bf16(NamedTuple):
    """Bits of BF16 in a uint16 array, for where `ml_dtypes` is not installed."""

    bits: npt.ArrayLike


Inputs = Mapping[str, npt.ArrayLike | Bf16]
"""What a model takes, by name: arrays, or whatever numpy makes one of."""


class Request(NamedTuple):
    """One HTTP request, but for the budget that is left when it is sent."""

    method: str
    path: str
    headers: Mapping[str, str] = {}
    body: bytes = b""


class Ask(Struct, Generic[T], frozen=True):
    """A request, how its answer is read, and what may be done if none comes."""

    request: Request
    read: Callable[[Answer], T]
    """Of a 2xx; see `answers`."""
    budget_ns: int | None = None
    """What the server is told that it has, from the first try on; None tells it nothing."""
    timeout_ns: int | None = None
    """How long the whole may take where there is no budget; None takes the client's."""
    can_retry: bool = True
    """To ask twice does no more than to ask once."""
    instead: Callable[[HeadwayError], T] | None = None
    """What stands for an answer after an error; None raises it."""


class _BinaryParameters(Struct):
    binary_data_size: int


class _Input(Struct):
    name: str
    shape: tuple[int, ...]
    datatype: Datatype
    parameters: _BinaryParameters | UnsetType = UNSET


class _Output(Struct):
    name: str


class _Infer(Struct):
    inputs: list[_Input]
    outputs: list[_Output] | UnsetType = UNSET
    parameters: Mapping[str, ParameterValue] | UnsetType = UNSET


def infer(
    model: str,
    inputs: Inputs,
    *,
    version: str = "",
    outputs: Sequence[str] = (),
    parameters: Mapping[str, ParameterValue] | None = None,
    headers: Mapping[str, str],
    budget_ns: int | None = None,
) -> Ask[Reply]:
    """Run a model; every tensor travels as bytes, both ways.

    Raises:
        InvalidRequestError: an input is nothing that the protocol can carry.
    """
    tensors = _tensors_of(inputs)
    head = msgspec.json.encode(
        _Infer(
            [
                _Input(one.name, one.shape, one.datatype, _BinaryParameters(one.size_bytes))
                for one in tensors
            ],
            [_Output(name) for name in outputs] or UNSET,
            {**(parameters or {}), "binary_data_output": True},
        )
    )
    lines = {**headers, **_BINARY_TYPE, HEADER_LENGTH: str(len(head))}
    body = b"".join([head, *(tensor.data for tensor in tensors)])
    request = Request("POST", _path(model, version, "infer"), lines, body)
    return Ask(request, read_reply, budget_ns)


def estimate(
    model: str,
    inputs: Inputs,
    *,
    version: str = "",
    outputs: Sequence[str] = (),
    parameters: Mapping[str, ParameterValue] | None = None,
    headers: Mapping[str, str],
    budget_ns: int | None = None,
) -> Ask[Estimate]:
    """What would become of such a request; of its inputs only shapes and datatypes are sent.

    Raises:
        InvalidRequestError: as `infer`.
    """
    described = [_Input(one.name, one.shape, one.datatype) for one in _tensors_of(inputs)]
    wanted = [_Output(name) for name in outputs] or UNSET
    body = msgspec.json.encode(_Infer(described, wanted, parameters or UNSET))
    request = Request("POST", _path(model, version, "estimate"), {**headers, **_JSON_TYPE}, body)
    return Ask(request, read_estimate, budget_ns)


def models(headers: Mapping[str, str], *, only_ready: bool = False) -> Ask[list[ModelState]]:
    """Every model that the server knows, or those that serve."""
    body = msgspec.json.encode({"ready": only_ready})
    request = Request("POST", "/v2/repository/index", {**headers, **_JSON_TYPE}, body)
    return Ask(request, read_index)


def metadata(model: str, headers: Mapping[str, str], *, version: str = "") -> Ask[ModelMetadata]:
    """What a model takes and gives."""
    return Ask(Request("GET", _path(model, version), headers), read_metadata)


def statistics(
    model: str, headers: Mapping[str, str], *, version: str = ""
) -> Ask[list[dict[str, Any]]]:
    """Counters of one model, or of all where none is named."""
    path = _path(model, version, "stats") if model else "/v2/models/stats"
    return Ask(Request("GET", path, headers), read_statistics)


def is_live(headers: Mapping[str, str]) -> Ask[bool]:
    """Whether a server answers there."""
    return _probe("/v2/health/live", headers)


def is_ready(headers: Mapping[str, str]) -> Ask[bool]:
    """Whether it serves all that it is to serve."""
    return _probe("/v2/health/ready", headers)


def is_model_ready(model: str, headers: Mapping[str, str], *, version: str = "") -> Ask[bool]:
    """Whether a model serves."""
    return _probe(_path(model, version, "ready"), headers)


def load(
    model: str,
    headers: Mapping[str, str],
    *,
    config: Mapping[str, object] | None = None,
    timeout_ns: int | None = None,
) -> Ask[None]:
    """Load or reload a model, perhaps with other settings."""
    said: dict[str, object] = {}
    if config is not None:
        said["parameters"] = {"config": msgspec.json.encode(config).decode()}
    return _manage(model, "load", headers, said, timeout_ns)


def unload(model: str, headers: Mapping[str, str], *, timeout_ns: int | None = None) -> Ask[None]:
    """Have a model finish what it holds, and go."""
    return _manage(model, "unload", headers, {}, timeout_ns)


def _manage(
    model: str,
    verb: str,
    headers: Mapping[str, str],
    said: Mapping[str, object],
    timeout_ns: int | None,
) -> Ask[None]:
    path = f"/v2/repository/models/{quote(model, safe='')}/{verb}"
    body = msgspec.json.encode(said)
    request = Request("POST", path, {**headers, **_JSON_TYPE}, body)
    return Ask(request, read_nothing, timeout_ns=timeout_ns, can_retry=False)


def _probe(path: str, headers: Mapping[str, str]) -> Ask[bool]:
    return Ask(
        Request("GET", path, headers),
        read_yes,
        timeout_ns=_PROBE_NS_MAX,
        can_retry=False,
        instead=_no_answer,
    )


def _no_answer(error: HeadwayError) -> bool:
    """Nobody there, not yet, and not in time are all a no; what else went wrong is told."""
    if isinstance(error, UnavailableError | DeadlineExceededError):
        return False
    raise error


def _path(model: str, version: str, verb: str = "") -> str:
    """Where a model is asked."""
    if not model:
        raise InvalidRequestError("no model is named")
    path = f"/v2/models/{quote(model, safe='')}"
    if version:
        path += f"/versions/{quote(version, safe='')}"
    return f"{path}/{verb}" if verb else path


def _tensors_of(inputs: Inputs) -> list[Tensor]:
    return [_tensor_of(name, value) for name, value in inputs.items()]


def _tensor_of(name: str, value: npt.ArrayLike | Bf16) -> Tensor:
    try:
        if not isinstance(value, Bf16):
            return tensor_of(name, np.asarray(value))
        bits = np.asarray(value.bits)
        if bits.dtype != np.uint16:
            raise TypeError(f"`Bf16` holds `{bits.dtype}`, not `uint16`")
        tensor = tensor_of(name, bits)
        return Tensor(name, Datatype.BF16, tensor.shape, tensor.data)
    except (TypeError, ValueError) as error:
        raise InvalidRequestError(
            f"input `{name}` cannot be sent: {error}",
            hint="send numbers, booleans, text or bytes in an array whose rows are all as long",
        ) from error
