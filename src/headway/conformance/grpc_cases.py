"""What clients rely on over gRPC: health, metadata, tensors raw and typed, errors, streams."""

import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

import grpc

from headway.conformance.case import Cases, FailedError, SkippedError, expect, told
from headway.conformance.tensors import KINDS, Kind, model_of
from headway.frontends import grpc_messages

__all__ = ["CASES", "GrpcTarget", "reach"]

INFERENCE: Final = grpc_messages("inference.GRPCInferenceService")
HEALTH: Final = grpc_messages("grpc.health.v1.Health")
MODEL: Final = "identity_fp32"
VALUES: Final = [0.5, -1.0, 2.0, 3.25]
PACKED: Final = struct.pack("<4f", *VALUES)
_TIMEOUT_S: Final = 20.0
_MESSAGE_BYTES_MAX: Final = 64 << 20
_LARGE_ROWS: Final = 1 << 19
"""Of four floats: eight MiB, twice what the library takes unless it is told to."""
_FIELDS: Final = {
    "BOOL": "bool_contents",
    "INT8": "int_contents",
    "INT16": "int_contents",
    "INT32": "int_contents",
    "INT64": "int64_contents",
    "UINT8": "uint_contents",
    "UINT16": "uint_contents",
    "UINT32": "uint_contents",
    "UINT64": "uint64_contents",
    "FP32": "fp32_contents",
    "FP64": "fp64_contents",
    "BYTES": "bytes_contents",
}


class GrpcTarget:
    """The server that is asked, on a channel of its own."""

    def __init__(self, channel: Any, *, can_load: bool) -> None:
        self.channel = channel
        self.can_load = can_load
        self._known: dict[str, bool] = {}

    def ask(
        self, method: str, request: Any = None, *, timeout_s: float = _TIMEOUT_S, **how: Any
    ) -> Any:
        """One unary call; a request without fields unless one is given.

        Raises:
            grpc.RpcError: it ended without an answer.
        """
        given = INFERENCE[f"{method}Request"]() if request is None else request
        return self.call(INFERENCE, method, f"{method}Response")(given, timeout=timeout_s, **how)

    def call(self, messages: Any, method: str, answer: str) -> Any:
        """A unary call that can be made."""
        return self.channel.unary_unary(
            f"/{messages.service}/{method}",
            request_serializer=lambda message: message.SerializeToString(),
            response_deserializer=messages[answer].FromString,
        )

    def needs(self, model: str) -> str:
        """A model of the suite.

        Raises:
            SkippedError: the server does not have it.
        """
        if model not in self._known:
            try:
                self.ask("ModelMetadata", INFERENCE["ModelMetadataRequest"](name=model))
                self._known[model] = True
            except grpc.RpcError:
                self._known[model] = False
        if not self._known[model]:
            raise SkippedError(f"the server has no model `{model}`")
        return model


@contextmanager
def reach(address: str, *, can_load: bool) -> Iterator[GrpcTarget]:
    """A target at `host:port`."""
    options = [
        ("grpc.max_receive_message_length", _MESSAGE_BYTES_MAX),
        ("grpc.max_send_message_length", _MESSAGE_BYTES_MAX),
    ]
    with grpc.insecure_channel(address.removeprefix("grpc://"), options=options) as channel:
        yield GrpcTarget(channel, can_load=can_load)


CASES: Final[Cases[GrpcTarget]] = Cases()


def echo_request(model: str = MODEL, **fields: Any) -> Any:
    """Four floats, raw."""
    request = INFERENCE["ModelInferRequest"](model_name=model, **fields)
    request.inputs.add(name="x", datatype="FP32", shape=[1, 4])
    request.raw_input_contents.append(PACKED)
    return request


def floats_of(response: Any) -> list[float]:
    """The one output's values, whichever way they come."""
    expect(len(response.outputs) == 1, "one output", response.outputs)
    if response.raw_output_contents:
        data = response.raw_output_contents[0]
        return list(struct.unpack(f"<{len(data) // 4}f", data))
    return list(response.outputs[0].contents.fp32_contents)


def is_echoed(response: Any) -> None:
    """The four floats came back."""
    expect((found := floats_of(response)) == VALUES, f"{VALUES}", found)


def fails_with(codes: set[str], call: Callable[[], object]) -> None:
    """A call ends with one of some status codes, and with a text."""
    wanted = " or ".join(sorted(codes))
    try:
        answer = call()
    except grpc.RpcError as error:
        expect(error.code().name in codes, wanted, error.code().name)
        expect(error.details(), "a text", error)
        return
    raise FailedError(f"expected {wanted}; got {told(answer)}")


# --- health and metadata --------------------------------------------------------------------------


@CASES("grpc health", "live and ready")
def live(to: GrpcTarget) -> None:
    """Both true."""
    expect(to.ask("ServerLive").live, "live", False)
    expect(to.ask("ServerReady").ready, "ready", False)


@CASES("grpc health", "grpc.health.v1 says SERVING")
def health(to: GrpcTarget) -> None:
    """As kubelets and load balancers ask."""
    check = to.call(HEALTH, "Check", "HealthCheckResponse")
    status = check(HEALTH["HealthCheckRequest"](), timeout=_TIMEOUT_S).status
    expect(status == 1, "1 (SERVING)", status)


@CASES("grpc metadata", "the server tells name, version and extensions")
def server(to: GrpcTarget) -> None:
    """By which clients choose what to send."""
    answer = to.ask("ServerMetadata")
    expect(answer.name and answer.version, "name and version", answer)
    expect(len(answer.extensions) > 0, "extensions", answer)


@CASES("grpc metadata", "a model tells its tensors")
def model(to: GrpcTarget) -> None:
    """Names, datatypes and shapes."""
    answer = to.ask("ModelMetadata", INFERENCE["ModelMetadataRequest"](name=to.needs(MODEL)))
    (given,), (taken,) = answer.outputs, answer.inputs
    expect((taken.name, taken.datatype) == ("x", "FP32"), "x FP32", taken)
    expect((given.name, given.datatype) == ("y", "FP32"), "y FP32", given)
    expect(taken.shape[-1] == 4, "a last axis of 4", taken)


@CASES("grpc metadata", "a model that serves is ready")
def model_ready(to: GrpcTarget) -> None:
    """Before a client sends anything."""
    request = INFERENCE["ModelReadyRequest"](name=to.needs(MODEL))
    expect(to.ask("ModelReady", request).ready, "ready", False)


# --- tensors --------------------------------------------------------------------------------------


@CASES("grpc infer", "raw tensors")
def raw(to: GrpcTarget) -> None:
    """In raw_input_contents."""
    is_echoed(to.ask("ModelInfer", echo_request(to.needs(MODEL))))


@CASES("grpc infer", "typed tensors")
def typed(to: GrpcTarget) -> None:
    """In the input's contents."""
    request = INFERENCE["ModelInferRequest"](model_name=to.needs(MODEL))
    tensor = request.inputs.add(name="x", datatype="FP32", shape=[1, 4])
    tensor.contents.fp32_contents.extend(VALUES)
    is_echoed(to.ask("ModelInfer", request))


@CASES("grpc infer", "an id is given back")
def identified(to: GrpcTarget) -> None:
    """By which clients find their request."""
    answer = to.ask("ModelInfer", echo_request(to.needs(MODEL), id="my-7"))
    expect(answer.id == "my-7", "the id my-7", answer.id)


@CASES("grpc infer", "an answer names model, datatype and shape")
def described(to: GrpcTarget) -> None:
    """Without which its data mean nothing."""
    answer = to.ask("ModelInfer", echo_request(to.needs(MODEL)))
    (output,) = answer.outputs
    expect(answer.model_name == MODEL, f"the model {MODEL}", answer.model_name)
    expect((output.name, output.datatype) == ("y", "FP32"), "y FP32", output)
    expect(list(output.shape) == [1, 4], "[1, 4]", output)


@CASES("grpc infer", "an output may be asked for by name")
def named(to: GrpcTarget) -> None:
    """And is the only one."""
    request = echo_request(to.needs(MODEL))
    request.outputs.add(name="y")
    is_echoed(to.ask("ModelInfer", request))


@CASES("grpc infer", "unknown parameters of every type do no harm")
def unknown_parameters(to: GrpcTarget) -> None:
    """Clients send their own."""
    request = echo_request(to.needs(MODEL))
    request.parameters["a"].bool_param = True
    request.parameters["b"].int64_param = -1
    request.parameters["c"].string_param = "text"
    is_echoed(to.ask("ModelInfer", request))


@CASES("grpc infer", "priority and timeout are accepted")
def scheduling(to: GrpcTarget) -> None:
    """Of the types that Triton's client sends."""
    request = echo_request(to.needs(MODEL))
    request.parameters["priority"].uint64_param = 1
    request.parameters["timeout"].int64_param = 30_000_000
    is_echoed(to.ask("ModelInfer", request))


@CASES("grpc infer", "two inputs of two datatypes")
def pair(to: GrpcTarget) -> None:
    """Raw, in the order of the inputs."""
    request = INFERENCE["ModelInferRequest"](model_name=to.needs("pair"))
    request.inputs.add(name="x", datatype="FP32", shape=[1, 2])
    request.inputs.add(name="z", datatype="INT64", shape=[1, 2])
    parts = {"y": struct.pack("<2f", 1.5, 2.5), "w": struct.pack("<2q", 7, 8)}
    request.raw_input_contents.extend(parts.values())
    answer = to.ask("ModelInfer", request)
    names = [output.name for output in answer.outputs]
    found = dict(zip(names, answer.raw_output_contents, strict=True))
    expect(found == parts, "both", found)


@CASES("grpc infer", "a message of 8 MiB passes both ways")
def large(to: GrpcTarget) -> None:
    """The library's own limit is four."""
    request = INFERENCE["ModelInferRequest"](model_name=to.needs("identity_fp32_any"))
    request.inputs.add(name="x", datatype="FP32", shape=[1, 4 * _LARGE_ROWS])
    request.raw_input_contents.append(PACKED * _LARGE_ROWS)
    answer = to.ask("ModelInfer", request)
    expect(answer.raw_output_contents[0] == PACKED * _LARGE_ROWS, "the same", "something else")


def _raw_case(kind: Kind) -> None:
    @CASES("grpc infer", f"{kind.datatype} survives raw")
    def check(to: GrpcTarget) -> None:
        request = INFERENCE["ModelInferRequest"](model_name=to.needs(model_of(kind.datatype)))
        request.inputs.add(name="x", datatype=kind.datatype, shape=[1, 4])
        request.raw_input_contents.append(kind.packed)
        answer = to.ask("ModelInfer", request)
        (found,) = answer.raw_output_contents
        expect(found == kind.packed, f"{kind.packed!r}", found)


def _typed_case(kind: Kind) -> None:
    @CASES("grpc infer", f"{kind.datatype} survives typed")
    def check(to: GrpcTarget) -> None:
        field = _FIELDS[kind.datatype]
        values = list(kind.values)
        if kind.datatype == "BYTES":
            values = [value.encode() for value in values]
        request = INFERENCE["ModelInferRequest"](model_name=to.needs(model_of(kind.datatype)))
        tensor = request.inputs.add(name="x", datatype=kind.datatype, shape=[1, 4])
        getattr(tensor.contents, field).extend(values)
        answer = to.ask("ModelInfer", request)
        if answer.raw_output_contents:
            (found,) = answer.raw_output_contents
            expect(found == kind.packed, f"{kind.packed!r}", found)
            return
        found = list(getattr(answer.outputs[0].contents, field))
        expect(found == values, f"{values}", found)


for _kind in KINDS.values():
    _raw_case(_kind)
    if _kind.datatype in _FIELDS:
        _typed_case(_kind)


# --- errors ---------------------------------------------------------------------------------------

_WRONG: Final = {"INVALID_ARGUMENT"}


@CASES("grpc errors", "an unknown model is NOT_FOUND")
def unknown_model(to: GrpcTarget) -> None:
    """Of infer and of metadata."""
    fails_with({"NOT_FOUND"}, lambda: to.ask("ModelInfer", echo_request("nobody")))
    request = INFERENCE["ModelMetadataRequest"](name="nobody")
    fails_with({"NOT_FOUND"}, lambda: to.ask("ModelMetadata", request))


def _wrong(name: str, change: Callable[[Any], object]) -> None:
    @CASES("grpc errors", f"{name} is INVALID_ARGUMENT")
    def check(to: GrpcTarget) -> None:
        request = echo_request(to.needs(MODEL))
        change(request)
        fails_with(_WRONG, lambda: to.ask("ModelInfer", request))


def _set(**fields: object) -> Callable[[Any], None]:
    def change(request: Any) -> None:
        for name, value in fields.items():
            setattr(request.inputs[0], name, value)

    return change


def _shaped(*shape: int) -> Callable[[Any], None]:
    def change(request: Any) -> None:
        del request.inputs[0].shape[:]
        request.inputs[0].shape.extend(shape)

    return change


_wrong("an input of an unknown name", _set(name="other"))
_wrong("a datatype that is not the model's", _set(datatype="INT32"))
_wrong("an unknown datatype", _set(datatype="FP12"))
_wrong("a shape that does not fit the data", _shaped(1, 3))
_wrong("a negative axis", _shaped(1, -4))
_wrong("no input", lambda request: request.ClearField("inputs"))
_wrong("no data", lambda request: request.ClearField("raw_input_contents"))
_wrong("more raw contents than inputs", lambda request: request.raw_input_contents.append(PACKED))
_wrong("an output of an unknown name", lambda request: request.outputs.add(name="other"))


@CASES("grpc errors", "raw and typed contents together are INVALID_ARGUMENT")
def both_ways(to: GrpcTarget) -> None:
    """Which of them is meant nobody can know."""
    request = echo_request(to.needs(MODEL))
    request.inputs[0].contents.fp32_contents.extend(VALUES)
    fails_with(_WRONG, lambda: to.ask("ModelInfer", request))


@CASES("grpc errors", "a server goes on after what was wrong")
def goes_on(to: GrpcTarget) -> None:
    """On the same channel."""
    to.needs(MODEL)
    for _ in range(3):
        fails_with({"NOT_FOUND"}, lambda: to.ask("ModelInfer", echo_request("nobody")))
        is_echoed(to.ask("ModelInfer", echo_request()))


# --- streams, time, extensions --------------------------------------------------------------------


def _stream(to: GrpcTarget, requests: list[Any]) -> list[Any]:
    call = to.channel.stream_stream(
        f"/{INFERENCE.service}/ModelStreamInfer",
        request_serializer=lambda message: message.SerializeToString(),
        response_deserializer=INFERENCE["ModelStreamInferResponse"].FromString,
    )
    return list(call(iter(requests), timeout=_TIMEOUT_S))


@CASES("grpc stream", "every request of a stream is answered")
def streamed(to: GrpcTarget) -> None:
    """Each with its id."""
    to.needs(MODEL)
    answers = _stream(to, [echo_request(id=str(number)) for number in range(8)])
    for answer in answers:
        expect(not answer.error_message, "no error", answer.error_message)
        is_echoed(answer.infer_response)
    ids = sorted(answer.infer_response.id for answer in answers)
    expect(ids == [str(number) for number in range(8)], "ids 0 to 7", ids)


@CASES("grpc stream", "an error in a stream does not end it")
def error_in_stream(to: GrpcTarget) -> None:
    """It is one of the answers."""
    to.needs(MODEL)
    answers = _stream(to, [echo_request(), echo_request("nobody"), echo_request()])
    wrong = [answer.error_message for answer in answers if answer.error_message]
    expect(len(answers) == 3 and len(wrong) == 1, "three answers, one an error", answers)


@CASES("grpc time", "a timeout that has no chance is refused")
def no_timeout(to: GrpcTarget) -> None:
    """One microsecond, as a parameter, which the server has to see to."""
    request = echo_request(to.needs(MODEL))
    request.parameters["timeout"].int64_param = 1
    codes = {"DEADLINE_EXCEEDED", "RESOURCE_EXHAUSTED", "UNAVAILABLE"}
    fails_with(codes, lambda: to.ask("ModelInfer", request))


@CASES("grpc extensions", "statistics count requests")
def statistics(to: GrpcTarget) -> None:
    """Before and after one more."""
    request = INFERENCE["ModelStatisticsRequest"](name=to.needs(MODEL))

    def count() -> int:
        (stats,) = to.ask("ModelStatistics", request).model_stats
        return int(stats.inference_stats.success.count)

    before = count()
    is_echoed(to.ask("ModelInfer", echo_request()))
    expect((after := count()) == before + 1, f"{before + 1} requests", after)


@CASES("grpc extensions", "configuration tells the tensors")
def configuration(to: GrpcTarget) -> None:
    """Load generators, as perf_analyzer, need it."""
    request = INFERENCE["ModelConfigRequest"](name=to.needs(MODEL))
    config = to.ask("ModelConfig", request).config
    expect(config.name == MODEL, f"the name {MODEL}", config.name)
    expect(config.input[0].name == "x", "the input x", config)


@CASES("grpc extensions", "the repository's index")
def index(to: GrpcTarget) -> None:
    """With the state of each model."""
    to.needs(MODEL)
    lines = to.ask("RepositoryIndex").models
    (line,) = [each for each in lines if each.name == MODEL]
    expect(line.state == "READY", "the state READY", line)


@CASES("grpc extensions", "a model is unloaded and loaded again")
def reload(to: GrpcTarget) -> None:
    """And serves as before."""
    if not to.can_load:
        raise SkippedError("models are left as they are; --reload allows it")
    name = to.needs(MODEL)
    to.ask("RepositoryModelUnload", INFERENCE["RepositoryModelUnloadRequest"](model_name=name))
    fails_with({"NOT_FOUND", "UNAVAILABLE"}, lambda: to.ask("ModelInfer", echo_request()))
    to.ask("RepositoryModelLoad", INFERENCE["RepositoryModelLoadRequest"](model_name=name))
    is_echoed(to.ask("ModelInfer", echo_request()))
