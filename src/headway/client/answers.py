"""What a server answers, as values: the codec's way in.

Pure: bytes in, values out; `ValueError`, `msgspec.MsgspecError` and what numpy raises for numbers
(`TypeError`, `OverflowError`) for what cannot be understood. A server that is not headway is
understood too, it only tells less. Errors are in `failures`.
"""

from collections.abc import Mapping, Sequence
from math import isfinite
from typing import Any, Final, NamedTuple, TypeVar

import msgspec
import numpy as np
import numpy.typing as npt
from msgspec import Struct

from headway.core import Datatype, Tensor
from headway.executors import array_of, numpy_dtype
from headway.units import NS_PER_MS, NS_PER_US

__all__ = [
    "Answer",
    "Array",
    "Estimate",
    "ModelMetadata",
    "ModelState",
    "Reply",
    "TensorMetadata",
    "read_estimate",
    "read_index",
    "read_metadata",
    "read_nothing",
    "read_reply",
    "read_statistics",
    "read_yes",
    "request_id_of",
]

Array = npt.NDArray[Any]
T = TypeVar("T")

_HEADER_LENGTH: Final = "inference-header-content-length"


class Answer(NamedTuple):
    """A whole HTTP response."""

    status: int
    headers: Mapping[str, str]
    """Their names in lower case."""
    body: bytes | memoryview
    tries: int = 1
    """Which try it answers."""

    @property
    def is_success(self) -> bool:
        """Whether it is what was asked for."""
        return 200 <= self.status < 300


class Reply(Struct, frozen=True, kw_only=True, eq=False):
    """A computed answer and what the server says of it. None is what a server did not say."""

    model: str
    version: str
    outputs: Mapping[str, Array]
    """By name. They share the memory of the answer, which no one else holds."""
    tier: str | None = None
    budget_ns: int | None = None
    limit: str | None = None
    """What set the budget: `tier`, `timeout` or `headway-budget-ms`."""
    queue_delay_ns: int | None = None
    service_ns: int | None = None
    batch_rows: int | None = None
    segments: int = 1
    """Batches that its rows ran in, one after another."""
    expected_ns: int | None = None
    """What it was expected to take when it was admitted; None while nothing was known."""
    bound_ns: int | None = None
    """What it was not expected to exceed."""
    request_id: int | None = None
    """By which `headway explain` finds it."""
    late_ns: int = 0
    """How long after its deadline it was ready, where its tier has late requests served."""
    tries: int = 1
    """How often it was sent."""
    parameters: Mapping[str, Any] = {}
    """All that stood beside the outputs."""

    def __getitem__(self, name: str) -> Array:
        return self.outputs[name]


class Estimate(Struct, frozen=True, kw_only=True):
    """What would become of a request now. None is what is not known."""

    model: str
    version: str
    is_admitted: bool
    reason: str | None
    """Why it would be refused."""
    retry_after_ns: int | None
    expected_ns: int | None
    bound_ns: int | None
    parts_ns: Mapping[str, int]
    """What `expected_ns` is the sum of: queue, overhead, base, transfer, interference."""
    will_meet_expected: bool | None
    """Whether the answer would be in time if it took as long as expected."""
    will_meet_bound: bool | None
    """Whether it would be if it took as long as it may."""
    budget_ns: int
    limit: str
    tier: str


class TensorMetadata(Struct, frozen=True):
    """Name, datatype and shape of an input or output; -1 is any size."""

    name: str
    datatype: Datatype
    shape: tuple[int, ...]


class ModelMetadata(Struct, frozen=True):
    """What a model takes and gives."""

    name: str
    inputs: tuple[TensorMetadata, ...]
    outputs: tuple[TensorMetadata, ...]
    versions: tuple[str, ...] = ()
    platform: str = ""


class ModelState(Struct, frozen=True):
    """A line of the server's index."""

    name: str
    version: str = ""
    state: str = ""
    """READY, LOADING, UNLOADING or UNAVAILABLE."""
    reason: str = ""


class _Output(Struct):
    name: str
    datatype: Datatype
    shape: tuple[int, ...]
    data: list[Any] | None = None
    parameters: dict[str, Any] | None = None


class _Reply(Struct):
    model_name: str
    outputs: list[_Output]
    model_version: str | None = None
    parameters: dict[str, Any] | None = None


class _Said(Struct):
    """Of the parameters of a reply those that mean something here."""

    queue_us: float | None = None
    service_us: float | None = None
    batch_rows: int | None = None
    budget_ms: float | None = None
    limit: str | None = None
    tier: str | None = None
    segments: int = 1
    late_ms: float = 0


class _Meets(Struct, frozen=True):
    expected: bool | None = None
    bound: bool | None = None


class _Estimate(Struct):
    model_name: str
    model_version: str
    admitted: bool
    deadline_ms: float
    limit: str
    tier: str
    reason: str | None = None
    retry_after_ms: float | None = None
    expected_ms: float | None = None
    bound_ms: float | None = None
    parts_ms: dict[str, float] | None = None
    will_meet_deadline: _Meets = _Meets()


class _Statistics(Struct):
    model_stats: list[dict[str, Any]]


def read_reply(answer: Answer) -> Reply:
    """Read an infer request's answer, its tensors as JSON or as bytes."""
    body = memoryview(answer.body)
    json_bytes = int(answer.headers.get(_HEADER_LENGTH, len(body)))
    head = msgspec.json.decode(body[:json_bytes], type=_Reply)
    parameters = head.parameters or {}
    try:
        said = msgspec.convert(parameters, _Said)
    except msgspec.ValidationError:
        said = _Said()  # another server's words, which may mean anything
    return Reply(
        model=head.model_name,
        version=head.model_version or "",
        outputs=_arrays_of(head.outputs, body[json_bytes:]),
        tier=said.tier,
        budget_ns=_scaled(said.budget_ms, NS_PER_MS),
        limit=said.limit,
        queue_delay_ns=_scaled(said.queue_us, NS_PER_US),
        service_ns=_scaled(said.service_us, NS_PER_US),
        batch_rows=said.batch_rows,
        segments=said.segments,
        expected_ns=_predicted(answer.headers.get("headway-expected-ms")),
        bound_ns=_predicted(answer.headers.get("headway-bound-ms")),
        request_id=request_id_of(answer),
        late_ns=round(said.late_ms * NS_PER_MS),
        tries=answer.tries,
        parameters=parameters,
    )


def read_estimate(answer: Answer) -> Estimate:
    """Read an estimate."""
    said = msgspec.json.decode(answer.body, type=_Estimate)
    return Estimate(
        model=said.model_name,
        version=said.model_version,
        is_admitted=said.admitted,
        reason=said.reason,
        retry_after_ns=_scaled(said.retry_after_ms, NS_PER_MS),
        expected_ns=_scaled(said.expected_ms, NS_PER_MS),
        bound_ns=_scaled(said.bound_ms, NS_PER_MS),
        parts_ns={part: round(ms * NS_PER_MS) for part, ms in (said.parts_ms or {}).items()},
        will_meet_expected=said.will_meet_deadline.expected,
        will_meet_bound=said.will_meet_deadline.bound,
        budget_ns=round(said.deadline_ms * NS_PER_MS),
        limit=said.limit,
        tier=said.tier,
    )


def read_metadata(answer: Answer) -> ModelMetadata:
    """Read what a model takes and gives."""
    return msgspec.json.decode(answer.body, type=ModelMetadata)


def read_index(answer: Answer) -> list[ModelState]:
    """Read the lines of the index."""
    return msgspec.json.decode(answer.body, type=list[ModelState])


def read_statistics(answer: Answer) -> list[dict[str, Any]]:
    """Read counters, a mapping a model, with the names that Triton gives them."""
    return msgspec.json.decode(answer.body, type=_Statistics).model_stats


def read_yes(answer: Answer) -> bool:
    """Any success is a yes."""
    return answer.is_success


def read_nothing(answer: Answer) -> None:
    """There is nothing to read in it."""


def _arrays_of(outputs: Sequence[_Output], binary: memoryview) -> dict[str, Array]:
    arrays: dict[str, Array] = {}
    at = 0
    for one in outputs:
        size_bytes = (one.parameters or {}).get("binary_data_size")
        if size_bytes is None:
            arrays[one.name] = _array_of_json(one)
            continue
        data = binary[at : at + size_bytes]
        arrays[one.name] = array_of(Tensor(one.name, one.datatype, one.shape, data))
        at += size_bytes
    if at != len(binary):
        raise ValueError(f"its outputs take {at} bytes of the {len(binary)} behind its JSON")
    return arrays


def _array_of_json(output: _Output) -> Array:
    if output.data is None:
        raise ValueError(f"output `{output.name}` has no data")
    dtype = numpy_dtype(output.datatype)
    if output.datatype is Datatype.BYTES:
        elements = np.asarray(output.data, np.object_).ravel().tolist()
        flat = np.empty(len(elements), np.object_)
        flat[:] = [str(element).encode() for element in elements]
    elif output.datatype is Datatype.BF16 and dtype == np.uint16:
        # Without a type of its own, the bits: the upper half of the same number as FP32.
        flat = (np.asarray(output.data, "<f4").view("<u4") >> 16).astype(dtype)
    else:
        flat = np.asarray(output.data, dtype)
    return flat.reshape(output.shape)


def request_id_of(answer: Answer) -> int | None:
    """By what the server's records know the request; None where it did not say."""
    text = answer.headers.get("headway-request-id", "").strip()
    digits = text.removeprefix("-")
    return int(text) if digits.isascii() and digits.isdigit() and len(digits) <= 19 else None


def _predicted(header: str | None) -> int | None:
    """A length of time in milliseconds; what is none was not said."""
    try:
        predicted_ms = float(header or "")
    except ValueError:
        return None
    return round(predicted_ms * NS_PER_MS) if isfinite(predicted_ms) else None


def _scaled(number: float | None, unit_ns: int) -> int | None:
    return None if number is None else round(number * unit_ns)
