"""What is fuzzed: a server in this process, whole but for its workers, which echo at once.

Everything that bytes of a client can reach is the real thing: HTTP's protocol object, both codecs,
the binding of a call to its model's signature, the scheduler, the checks of a model's settings.
A load stops when its settings have been checked, so that no input changes what the next one meets.

Knows the server's parts. Refuses to know inputs.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from msgspec import structs

from fuzzing.corpus import REGION, REGION_BYTES, REGION_KEY
from headway.app import ConfigCatalogue, Server
from headway.config import Config
from headway.core import Datatype, ModelName, Tensor
from headway.executors import BatchJob, ModelSpec, Signature, TensorSpec
from headway.frontends import HttpApp, HttpLimits, HttpServer, OipRest, OpenAiRest, Regions
from headway.frontends.oip_grpc import OipGrpc
from headway.runtime import EngineLayer
from headway.testing import ScriptedExecutor

__all__ = ["BUG_CODES", "BugLog", "Target", "serving"]

BUG_CODES = frozenset({"internal", "invalid_transition", "invariant", "headway"})
"""Codes of errors that no client can be to blame for."""
BODY_BYTES_MAX = 1 << 20
VECTORS = TensorSpec(name="vectors", datatype=Datatype.FP32, shape=(-1, 4))
"""Of an embedding model of that name."""
COUNTS = TensorSpec(name="tokens", datatype=Datatype.INT64, shape=(-1,))
SETTLE_TURNS_MAX = 200


def _signature(spec: ModelSpec) -> Signature:
    """By the model's name: any matrix, all datatypes at once, text, or one request at a time."""
    kinds = {
        "echo": [(Datatype.FP32, (-1, -1))],
        "pair": [(Datatype.FP32, (-1, 2)), (Datatype.INT64, (-1, 2))],
        "text": [(Datatype.BYTES, (-1, 1))],
        "all": [(datatype, (-1, -1)) for datatype in Datatype],
        "alone": [(Datatype.UINT8, (-1,))],
    }
    if spec.name == VECTORS.name:
        texts = TensorSpec(name="texts", datatype=Datatype.BYTES, shape=(-1,))
        return Signature(
            platform="scripted", inputs=(texts,), outputs=(VECTORS, COUNTS), can_batch=True
        )
    specs = kinds[spec.name]
    names = ["INPUT"] if len(specs) == 1 else [f"INPUT{at}" for at in range(len(specs))]
    return Signature(
        platform="scripted",
        inputs=tuple(
            TensorSpec(name=name, datatype=datatype, shape=shape)
            for name, (datatype, shape) in zip(names, specs, strict=True)
        ),
        outputs=tuple(
            TensorSpec(name=name.replace("IN", "OUT"), datatype=datatype, shape=shape)
            for name, (datatype, shape) in zip(names, specs, strict=True)
        ),
        can_batch=spec.name != "alone",
    )


class _Echoes(ScriptedExecutor):
    """Answers at once, and remembers nothing: a million batches must not look like a leak."""

    def run(self, job: BatchJob) -> None:
        super().run(_with_vectors(job) if self._gives_vectors(job) else job)
        self.jobs.clear()
        self.cancelled.clear()

    def _gives_vectors(self, job: BatchJob) -> bool:
        signature = self._signatures.get(job.replica_id)
        return signature is not None and signature.outputs[:1] == (VECTORS,)


def _with_vectors(job: BatchJob) -> BatchJob:
    """What is echoed of texts: a vector and a count for each."""
    members = []
    for (texts,) in job.members:
        rows = texts.shape[0]
        vectors = Tensor(VECTORS.name, VECTORS.datatype, (rows, 4), bytes(16 * rows))
        members.append([vectors, Tensor(COUNTS.name, COUNTS.datatype, (rows,), bytes(8 * rows))])
    return structs.replace(job, members=members)


class _Front(EngineLayer):
    """The engine, but for what would change it."""

    def __init__(self, inner: Any, catalogue: ConfigCatalogue) -> None:
        super().__init__(inner)
        self._catalogue = catalogue

    async def load(self, model: ModelName, overrides: Mapping[str, object]) -> None:
        """Check the settings, and leave it at that."""
        self._catalogue.plan(model, overrides)

    async def unload(self, model: ModelName) -> None:
        """See that there is one, and leave it at that."""
        self.status(model)


class BugLog(logging.Handler):
    """The tracebacks that the server has logged: each is a bug."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self._found: list[str] = []
        self.setFormatter(logging.Formatter("%(message)s"))

    def emit(self, record: logging.LogRecord) -> None:
        """Keep what carries an exception."""
        if record.exc_info is not None or record.levelno >= logging.ERROR:
            self._found.append(self.format(record))

    def take(self) -> str:
        """What was found since the last look; nothing, mostly."""
        if not self._found:
            return ""
        found, self._found = "\n".join(self._found), []
        return found


class Target:
    """The parts that doors lead into."""

    def __init__(
        self,
        server: Server,
        executor: ScriptedExecutor,
        front: EngineLayer,
        app: HttpApp,
        http: HttpServer,
        grpc: OipGrpc,
        regions: Regions,
    ) -> None:
        self.server, self.executor, self._regions = server, executor, regions
        self.front, self.app, self.http, self.grpc = front, app, http, grpc
        self.bugs = BugLog()

    def restore(self) -> None:
        """Forget what clients registered, but for the one region that inputs may name."""
        known = self._regions.all()
        if len(known) != 1 or known[0].name != REGION or known[0].byte_size != REGION_BYTES:
            self._regions.unregister("")
            self._regions.register(REGION, REGION_KEY, 0, REGION_BYTES)

    async def settle(self) -> bool:
        """Until nothing is under way; False if something still is after many turns of the loop."""
        for _ in range(SETTLE_TURNS_MAX):
            await asyncio.sleep(0)
            if not self.http.state.tasks and not self.executor.running:
                return True
        return False

    def bug(self) -> str:
        """What the last input has broken; nothing, one hopes."""
        found = self.bugs.take()
        crash = self.server.engine.crash
        if crash.done() and not found:
            return f"the scheduler stopped: {crash.exception()!r}"
        return found


def _configuration() -> Config:
    batch = {"rows_max": 8}
    models: Sequence[Mapping[str, object]] = [
        {
            "name": name,
            "backend": "python",
            "path": "echo.py:Echo",
            "batch": batch if name != "alone" else {},
        }
        for name in ("echo", "pair", "text", "all", "alone", "vectors")
    ]
    return Config.model_validate(
        {
            "server": {"port": 0, "admin": {"can_override": True}, "shared_memory": True},
            "models": models,
            "tiers": {"standard": {"budget": "20s"}, "urgent": {"priority": 1, "budget": "5s"}},
            "policy": {"kind": "fifo"},
            # Steps that are kept on purpose would hide what is kept by mistake.
            "observe": {"recent_steps": 0},
        }
    )


@asynccontextmanager
async def serving() -> AsyncIterator[Target]:
    """The target, listening on a port that nobody uses, its models loaded."""
    config = _configuration()
    server = Server.build(config)
    executor = _Echoes(server.clock, server.engine, service_ns=0, signature=_signature)
    server.engine.attach(executor)
    front = _Front(server.engine, ConfigCatalogue(config))
    regions = Regions(is_allowed=True)
    rest = OipRest(front, version="0", regions=regions, body_bytes_max=BODY_BYTES_MAX)
    openai = OpenAiRest(front, created_at_s=0, body_bytes_max=BODY_BYTES_MAX, watch=rest.watch)
    app = HttpApp(rest, openai)
    http = HttpServer(app, port=0, limits=HttpLimits(head_bytes_max=16 << 10))
    grpc = OipGrpc(front, version="0", regions=regions)
    target = Target(server, executor, front, app, http, grpc, regions)
    loggers = [logging.getLogger(name) for name in ("headway", "uvicorn", "asyncio")]
    for logger in loggers:
        logger.addHandler(target.bugs)
        logger.propagate = False
    asyncio.get_running_loop().set_exception_handler(
        lambda _, context: logging.getLogger("asyncio").error(
            context["message"], exc_info=context.get("exception")
        )
    )
    memory = Path("/dev/shm") / REGION_KEY.strip("/")  # noqa: S108 (where Linux has it)
    memory.write_bytes(bytes(REGION_BYTES))
    await http.start()
    try:
        for model in config.models:
            await server.engine.load(ModelName(model.name), {})
        yield target
    finally:
        await http.stop(0)
        server.clock.close()
        memory.unlink(missing_ok=True)
        for logger in loggers:
            logger.removeHandler(target.bugs)
            logger.propagate = True
