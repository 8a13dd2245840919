"""The Open Inference Protocol over gRPC, with Triton's extensions.

Every call takes bytes and gives bytes; messages are parsed here, so that nothing else depends on
how. What a client has left, or what its deadline has ended, is cancelled with the call's task,
waiting or running. All that can be asked here can be asked over REST, and is answered by the same
functions.

Knows `Engine` and its errors. Refuses to know queues, workers and policies.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any, Final, NoReturn

import grpc
from google.protobuf import json_format
from google.protobuf.message import DecodeError
from msgspec.json import encode

from headway.core import ModelName
from headway.errors import HeadwayError, InvalidRequestError, UnsupportedError
from headway.frontends.grpc_errors import failure_of
from headway.frontends.oip_admin import (
    is_model_ready,
    overrides_of,
    refuse_changes,
    refuse_management,
)
from headway.frontends.oip_grpc_infer import decode_call, encode_reply, value_of
from headway.frontends.oip_messages import INFERENCE, POOL
from headway.frontends.oip_models import (
    LOG_SETTINGS,
    TRACE_SETTINGS,
    model_config,
    model_metadata,
    repository_index,
    server_metadata,
    statistics,
)
from headway.frontends.oip_request import HEADER_NAMES, THREAD_BYTES_MIN
from headway.frontends.shared_memory import Regions
from headway.runtime import Engine
from headway.units import NS_PER_S

__all__ = ["OipGrpc"]

_STREAM_IN_FLIGHT_MAX: Final = 256
"""Requests of one stream that are under way; further ones are read when one has ended."""
_CUDA_HINT: Final = "use system shared memory, or send tensors in the request"

_log: Final = logging.getLogger(__name__)

Context = Any
"""`grpc.aio.ServicerContext`, which has no type of its own."""
Answer = Callable[[Any], Any | Awaitable[Any]]


class OipGrpc:
    """The protocol's gRPC side.

    Args:
        engine: what answers.
        version: of the server, as its metadata says.
        regions: shared memory of clients.
        can_load: whether clients may load and unload models.
    """

    def __init__(
        self, engine: Engine, *, version: str, regions: Regions, can_load: bool = True
    ) -> None:
        self._engine = engine
        self._version = version
        self._regions = regions
        self._can_load = can_load
        self.answers: dict[str, int] = {}
        """Calls so far by the name of their status code; streamed requests each count."""

    def handler(self) -> Any:
        """What a gRPC server serves."""
        answers: dict[str, Answer] = {
            "ServerLive": self._server_live,
            "ServerReady": self._server_ready,
            "ModelReady": self._model_ready,
            "ServerMetadata": self._server_metadata,
            "ModelMetadata": self._model_metadata,
            "ModelConfig": self._model_config,
            "ModelStatistics": self._model_statistics,
            "RepositoryIndex": self._index,
            "RepositoryModelLoad": self._load,
            "RepositoryModelUnload": self._unload,
            "SystemSharedMemoryStatus": self._region_status,
            "SystemSharedMemoryRegister": self._register,
            "SystemSharedMemoryUnregister": self._unregister,
            "CudaSharedMemoryStatus": lambda _: INFERENCE["CudaSharedMemoryStatusResponse"](),
            "CudaSharedMemoryRegister": _no_cuda,
            "CudaSharedMemoryUnregister": lambda _: INFERENCE[
                "CudaSharedMemoryUnregisterResponse"
            ](),
            "TraceSetting": self._trace,
            "LogSettings": self._log_settings,
        }
        handlers = {
            name: grpc.unary_unary_rpc_method_handler(self._unary(name, answer))
            for name, answer in answers.items()
        }
        handlers["ModelInfer"] = grpc.unary_unary_rpc_method_handler(self._infer)
        handlers["ModelStreamInfer"] = grpc.stream_stream_rpc_method_handler(self._stream)
        return grpc.method_handlers_generic_handler(INFERENCE.service, handlers)

    def _unary(self, name: str, answer: Answer) -> Callable[[bytes, Context], Awaitable[bytes]]:
        """A method that takes one message and gives one."""
        kind = INFERENCE.request_of(name)

        async def call(request: bytes, context: Context) -> bytes:
            try:
                outcome = answer(_parsed(kind, request))
                response = await outcome if isinstance(outcome, Awaitable) else outcome
            except Exception as error:  # noqa: BLE001 (nothing may go unanswered)
                await self._fail(error, context)
            self._count("OK")
            return bytes(response.SerializeToString())

        return call

    async def _fail(self, error: Exception, context: Context) -> NoReturn:
        """End a call without an answer."""
        if not isinstance(error, HeadwayError):
            _log.error("a call failed", exc_info=error)
        code, text, metadata = failure_of(error)
        self._count(code.name)
        await context.abort(code, text, metadata)
        raise AssertionError("an aborted call does not go on")

    def _count(self, code: str) -> None:
        self.answers[code] = self.answers.get(code, 0) + 1

    # --- infer ---

    async def _infer(self, request: bytes, context: Context) -> bytes:
        try:
            response = await self._answer(request, _metadata_of(context), _left_ns(context))
        except asyncio.CancelledError:
            self._count(grpc.StatusCode.CANCELLED.name)
            raise
        except Exception as error:  # noqa: BLE001 (nothing may go unanswered)
            await self._fail(error, context)
        self._count("OK")
        return bytes(response.SerializeToString())

    async def _answer(
        self, request: bytes, metadata: Mapping[bytes, bytes], left_ns: int | None
    ) -> Any:
        engine = self._engine
        arrived_at_ns = engine.now_ns()

        def decode() -> Any:
            return decode_call(
                _parsed(INFERENCE["ModelInferRequest"], request),
                arrived_at_ns=arrived_at_ns,
                metadata=metadata,
                left_ns=left_ns,
                regions=self._regions,
            )

        is_small = len(request) < THREAD_BYTES_MIN
        decoded = decode() if is_small else await asyncio.to_thread(decode)
        return encode_reply(await engine.infer(decoded.call), decoded)

    async def _stream(self, requests: AsyncIterator[bytes], context: Context) -> None:
        """Answers as they are ready, in any order, each with the id of its request.

        A deadline of the whole stream is no budget of its requests: they may name their own.
        """
        metadata = _metadata_of(context)
        room, writing = asyncio.Semaphore(_STREAM_IN_FLIGHT_MAX), asyncio.Lock()

        async def answer(request: bytes) -> None:
            try:
                response = await self._streamed(request, metadata)
                async with writing:
                    await context.write(response)
            finally:
                room.release()

        async with asyncio.TaskGroup() as under_way:
            async for request in requests:
                await room.acquire()
                under_way.create_task(answer(request))

    async def _streamed(self, request: bytes, metadata: Mapping[bytes, bytes]) -> bytes:
        """One request of a stream to its response; an error is one, too."""
        kind = INFERENCE["ModelStreamInferResponse"]
        try:
            response = await self._answer(request, metadata, None)
        except Exception as error:  # noqa: BLE001 (nothing may go unanswered)
            if not isinstance(error, HeadwayError):
                _log.error("a streamed request failed", exc_info=error)
            code, text, _ = failure_of(error)
            self._count(code.name)
            failed = kind(error_message=text)
            failed.infer_response.id = _id_of(request)
            return bytes(failed.SerializeToString())
        response.parameters["triton_final_response"].bool_param = True
        self._count("OK")
        return bytes(kind(infer_response=response).SerializeToString())

    # --- the server and its models ---

    def _server_live(self, _: Any) -> Any:
        return INFERENCE["ServerLiveResponse"](live=True)

    def _server_ready(self, _: Any) -> Any:
        return INFERENCE["ServerReadyResponse"](ready=self._engine.is_ready)

    def _model_ready(self, request: Any) -> Any:
        is_ready = is_model_ready(self._engine, ModelName(request.name), request.version)
        return INFERENCE["ModelReadyResponse"](ready=is_ready)

    def _server_metadata(self, _: Any) -> Any:
        plain = server_metadata(self._version, has_shared_memory=self._regions.is_allowed)
        return _message("ServerMetadataResponse", plain)

    def _model_metadata(self, request: Any) -> Any:
        status = self._engine.status(ModelName(request.name), request.version)
        return _message("ModelMetadataResponse", model_metadata(status))

    def _model_config(self, request: Any) -> Any:
        status = self._engine.status(ModelName(request.name), request.version)
        return _message("ModelConfigResponse", {"config": model_config(status)})

    def _model_statistics(self, request: Any) -> Any:
        model = ModelName(request.name) if request.name else None
        plain = statistics(self._engine.statistics(model, request.version))
        return _message("ModelStatisticsResponse", plain)

    # --- the repository ---

    def _index(self, request: Any) -> Any:
        models = repository_index(self._engine.index(), only_ready=request.ready)
        return _message("RepositoryIndexResponse", {"models": models})

    async def _load(self, request: Any) -> Any:
        refuse_management(can_load=self._can_load)
        parameters = {name: value_of(value) for name, value in request.parameters.items()}
        await self._engine.load(ModelName(request.model_name), overrides_of(parameters))
        return INFERENCE["RepositoryModelLoadResponse"]()

    async def _unload(self, request: Any) -> Any:
        refuse_management(can_load=self._can_load)
        await self._engine.unload(ModelName(request.model_name))
        return INFERENCE["RepositoryModelUnloadResponse"]()

    # --- shared memory and settings ---

    def _region_status(self, request: Any) -> Any:
        response = INFERENCE["SystemSharedMemoryStatusResponse"]()
        for region in self._regions.all(request.name):
            status = response.regions[region.name]
            status.name, status.key = region.name, region.key
            status.offset, status.byte_size = region.offset, region.byte_size
        return response

    def _register(self, request: Any) -> Any:
        self._regions.register(request.name, request.key, request.offset, request.byte_size)
        return INFERENCE["SystemSharedMemoryRegisterResponse"]()

    def _unregister(self, request: Any) -> Any:
        self._regions.unregister(request.name)
        return INFERENCE["SystemSharedMemoryUnregisterResponse"]()

    def _trace(self, request: Any) -> Any:
        if request.model_name:
            self._engine.status(ModelName(request.model_name))
        wanted = {
            name: list(each.value) if len(each.value) != 1 else each.value[0]
            for name, each in request.settings.items()
        }
        refuse_changes(TRACE_SETTINGS, {name: value or None for name, value in wanted.items()})
        response = INFERENCE["TraceSettingResponse"]()
        for name, value in TRACE_SETTINGS.items():
            response.settings[name].value.extend(value if isinstance(value, list) else [value])
        return response

    def _log_settings(self, request: Any) -> Any:
        wanted = {name: value_of(each) for name, each in request.settings.items()}
        refuse_changes(LOG_SETTINGS, wanted)
        response = INFERENCE["LogSettingsResponse"]()
        for name, value in LOG_SETTINGS.items():
            setting = response.settings[name]
            if isinstance(value, bool):
                setting.bool_param = value
            elif isinstance(value, int):
                setting.uint32_param = value
            else:
                setting.string_param = value
        return response


def _parsed(kind: Any, request: bytes) -> Any:
    try:
        return kind.FromString(request)
    except DecodeError as error:
        raise InvalidRequestError(f"the message is no `{kind.DESCRIPTOR.name}`: {error}") from None


def _id_of(request: bytes) -> str:
    """The id of a request that failed, where it has one that can be read."""
    try:
        return str(INFERENCE["ModelInferRequest"].FromString(request).id)
    except DecodeError:
        return ""


def _message(name: str, plain: Mapping[str, Any]) -> Any:
    """What REST says as JSON, as a message; of a configuration what the message has a place for."""
    return json_format.Parse(
        encode(plain), INFERENCE[name](), ignore_unknown_fields=True, descriptor_pool=POOL
    )


def _metadata_of(context: Context) -> dict[bytes, bytes]:
    """Those that a request's headers may be."""
    pairs = context.invocation_metadata() or ()
    found = {}
    for name, value in pairs:
        key = name.encode()
        if key in HEADER_NAMES:
            found[key] = value if isinstance(value, bytes) else value.encode("latin-1", "replace")
    return found


def _left_ns(context: Context) -> int | None:
    """Until the call's deadline; rounded down, for time left is never overstated."""
    left_s = context.time_remaining()
    return None if left_s is None else max(0, int(left_s * NS_PER_S))


def _no_cuda(request: Any) -> Any:
    raise UnsupportedError(
        f"CUDA shared memory region `{request.name[:200]}` cannot be registered", hint=_CUDA_HINT
    )
