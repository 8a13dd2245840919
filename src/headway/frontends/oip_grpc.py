"""The Open Inference Protocol over gRPC, with Triton's extensions.

Every call takes bytes and gives bytes; messages are parsed here, so that nothing else depends on
how. What a client has left, or what its deadline has ended, is cancelled with the call's task,
waiting or running. All that can be asked here can be asked over REST, and is answered by the same
functions.

Knows `Engine` and its errors. Refuses to know queues, workers and policies.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final

from google.protobuf import json_format
from google.protobuf.message import DecodeError
from msgspec.json import encode

from headway.core import Buffer, ModelName
from headway.errors import HeadwayError, InvalidRequestError, UnsupportedError
from headway.frontends.access import Door, Need
from headway.frontends.client_call import credential_of
from headway.frontends.grpc_errors import CODES, Failure, failure_of
from headway.frontends.grpc_service import Call, Method, MethodKind, Methods
from headway.frontends.oip_admin import (
    is_model_ready,
    overrides_of,
    refuse_changes,
    refuse_management,
)
from headway.frontends.oip_grpc_infer import DecodedCall, decode_call, value_of
from headway.frontends.oip_grpc_raw import RawReader, encode_answer
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
from headway.frontends.oip_request import ID_CHARS_MAX, THREAD_BYTES_MIN
from headway.frontends.shared_memory import Regions
from headway.runtime import Engine, InferReply

__all__ = ["OipGrpc"]

_STREAM_IN_FLIGHT_MAX: Final = 256
"""Requests of one stream that are under way; further ones are read when one has ended."""
_NEEDS: Final = {
    "ServerLive": Need.NOTHING,
    "ServerReady": Need.NOTHING,
    "RepositoryModelLoad": Need.ADMIN,
    "RepositoryModelUnload": Need.ADMIN,
}
"""What a method asks for; the others for a tenant's key."""
_CODES: Final = ("OK", *sorted(code.name for code in set(CODES.values())))
_CUDA_HINT: Final = "use system shared memory, or send tensors in the request"

Answer = Callable[[Any], Any | Awaitable[Any]]


class OipGrpc:
    """The protocol's gRPC side.

    Args:
        engine: what answers.
        version: of the server, as its metadata says.
        regions: shared memory of clients.
        can_load: whether clients may load and unload models.
        door: who may ask for what; anyone for everything by default.
    """

    def __init__(
        self,
        engine: Engine,
        *,
        version: str,
        regions: Regions,
        can_load: bool = True,
        door: Door | None = None,
    ) -> None:
        self._engine = engine
        self._version = version
        self._regions = regions
        self._can_load = can_load
        self._door = door or Door()
        self._raw = RawReader()
        self.answers: dict[str, int] = dict.fromkeys(_CODES, 0)
        """Answers so far by the name of their status code."""
        self.streamed = 0
        """Requests of streams that are under way."""

    def methods(self) -> Methods:
        """What can be called, by name."""
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
        return {
            **{
                name: Method(MethodKind.UNARY, self._unary(name, answer))
                for name, answer in answers.items()
            },
            "ModelInfer": Method(MethodKind.UNARY, self._infer),
            "ModelStreamInfer": Method(MethodKind.STREAM, self._stream),
        }

    def _unary(self, name: str, answer: Answer) -> Callable[[bytes, Call], Awaitable[bytes]]:
        """A method that takes one message and gives one."""
        kind = INFERENCE.request_of(name)
        need = _NEEDS.get(name, Need.TENANT)

        async def call(request: bytes, call: Call) -> bytes:
            if need is not Need.NOTHING:
                self._door.check(need, credential_of(call.metadata))
            outcome = answer(_parsed(kind, request))
            response = await outcome if isinstance(outcome, Awaitable) else outcome
            return bytes(response.SerializeToString())

        return call

    def count(self, code: str) -> None:
        """Count an answer; whatever carries the service does so, but for requests of streams."""
        self.answers[code] = self.answers.get(code, 0) + 1

    # --- infer ---

    def submit(
        self,
        request: bytes | bytearray,
        metadata: Mapping[bytes, bytes],
        left_ns: int | None,
        tell: Callable[[Sequence[Buffer] | Failure], None],
    ) -> Callable[[], None] | None:
        """Take an infer request the short way, without a task.

        Args:
            request: a `ModelInferRequest`.
            metadata: of the call, as headers.
            left_ns: until the call's own deadline; None where it has none.
            tell: is called once with the answer's parts or a failure, maybe before this returns.

        Returns:
            What takes it back, or None where it has to go the long way: its message is large, and
            must be read in a thread.
        """
        engine = self._engine
        try:
            self._door.check(Need.TENANT, credential_of(metadata))
            decoded = self._read(request, engine.now_ns(), metadata, left_ns)
            if decoded is None:
                return None

            def on_end(end: InferReply | HeadwayError) -> None:
                try:
                    if not isinstance(end, InferReply):
                        tell(failure_of(end))
                        return
                    parts = encode_answer(end, decoded)
                except Exception as error:  # noqa: BLE001 (nothing may go unanswered)
                    tell(failure_of(error))
                    return
                tell(parts)

            request_id = engine.submit(decoded.call, on_end)
        except Exception as error:  # noqa: BLE001 (as above)
            tell(failure_of(error))
            return _nothing_to_cancel
        return partial(engine.cancel, request_id)

    def _read(
        self,
        request: bytes | bytearray,
        arrived_at_ns: int,
        metadata: Mapping[bytes, bytes],
        left_ns: int | None,
    ) -> DecodedCall | None:
        """Decode a request, unless that would take so long that others must not wait for it."""
        decoded = self._raw.read(
            request, arrived_at_ns=arrived_at_ns, metadata=metadata, left_ns=left_ns
        )
        if decoded is None and len(request) < THREAD_BYTES_MIN:
            decoded = self._parse(request, arrived_at_ns, metadata, left_ns)
        return decoded

    def _parse(
        self,
        request: bytes | bytearray,
        arrived_at_ns: int,
        metadata: Mapping[bytes, bytes],
        left_ns: int | None,
    ) -> DecodedCall:
        """Decode any request."""
        return decode_call(
            _parsed(INFERENCE["ModelInferRequest"], bytes(request)),
            arrived_at_ns=arrived_at_ns,
            metadata=metadata,
            left_ns=left_ns,
            regions=self._regions,
        )

    async def _infer(self, request: bytes, call: Call) -> bytes:
        reply, decoded = await self._run(request, call.metadata, call.left_ns())
        return b"".join(encode_answer(reply, decoded))

    async def _run(
        self, request: bytes, metadata: Mapping[bytes, bytes], left_ns: int | None
    ) -> tuple[InferReply, DecodedCall]:
        arrived_at_ns = self._engine.now_ns()
        self._door.check(Need.TENANT, credential_of(metadata))
        decoded = self._read(request, arrived_at_ns, metadata, left_ns)
        if decoded is None:
            decoded = await asyncio.to_thread(
                self._parse, request, arrived_at_ns, metadata, left_ns
            )
        return await self._engine.infer(decoded.call), decoded

    async def _stream(self, requests: AsyncIterator[bytes], call: Call) -> None:
        """Answers as they are ready, in any order, each with the id of its request.

        A deadline of the whole stream is no budget of its requests: they may name their own.
        """
        metadata = call.metadata
        room, writing = asyncio.Semaphore(_STREAM_IN_FLIGHT_MAX), asyncio.Lock()

        async def answer(request: bytes) -> None:
            try:
                response = await self._streamed(request, metadata)
                async with writing:
                    await call.write(response)
            finally:
                self.streamed -= 1
                room.release()

        async with asyncio.TaskGroup() as under_way:
            async for request in requests:
                await room.acquire()
                self.streamed += 1
                under_way.create_task(answer(request))

    async def _streamed(self, request: bytes, metadata: Mapping[bytes, bytes]) -> bytes:
        """One request of a stream to its response; an error is one, too."""
        try:
            reply, decoded = await self._run(request, metadata, None)
            response = b"".join(encode_answer(reply, decoded, is_final=True))
        except Exception as error:  # noqa: BLE001 (nothing may go unanswered)
            code, text, _ = failure_of(error)
            self.count(code.name)
            failed = INFERENCE["ModelStreamInferResponse"](error_message=text)
            failed.infer_response.id = _id_of(request)
            return bytes(failed.SerializeToString())
        self.count("OK")
        return response

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


def _nothing_to_cancel() -> None:
    """For a request that has ended already."""


def _parsed(kind: Any, request: bytes) -> Any:
    try:
        return kind.FromString(request)
    except DecodeError as error:
        raise InvalidRequestError(f"the message is no `{kind.DESCRIPTOR.name}`: {error}") from None


def _id_of(request: bytes) -> str:
    """The id of a request that failed, where it has one that can be read."""
    try:
        return str(INFERENCE["ModelInferRequest"].FromString(request).id)[:ID_CHARS_MAX]
    except DecodeError:
        return ""


def _message(name: str, plain: Mapping[str, Any]) -> Any:
    """What REST says as JSON, as a message; of a configuration what the message has a place for."""
    return json_format.Parse(
        encode(plain), INFERENCE[name](), ignore_unknown_fields=True, descriptor_pool=POOL
    )


def _no_cuda(request: Any) -> Any:
    raise UnsupportedError(
        f"CUDA shared memory region `{request.name[:200]}` cannot be registered", hint=_CUDA_HINT
    )
