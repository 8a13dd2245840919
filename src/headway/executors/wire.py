"""What parent and worker say to each other: small messages; tensors are named by where they lie.

Two kinds of connection, both SOCK_SEQPACKET, so that one message is one packet. *Control* carries
loads and unloads. Each slot has one of its own for batches, which its thread reads itself: a batch
crosses with one `send` and one `recv` each way. Knows names, shapes and offsets; never a byte of a
tensor.
"""

from typing import Final

from msgspec import Struct
from msgspec.msgpack import Decoder, Encoder

from headway.core import Datatype
from headway.executors.model import ModelSpec, ParameterValue, Signature

__all__ = [
    "CONTROL_REPLIES",
    "CONTROL_REQUESTS",
    "ENCODER",
    "MESSAGE_BYTES_MAX",
    "SLOT_REPLIES",
    "SLOT_REQUESTS",
    "TEXT_CHARS_MAX",
    "BatchDone",
    "BatchError",
    "GiveUp",
    "Hello",
    "Load",
    "LoadError",
    "Loaded",
    "RunBatch",
    "SlotSetup",
    "Stop",
    "TensorRef",
    "Unload",
    "Unloaded",
    "Warmed",
    "shorten",
]

MESSAGE_BYTES_MAX: Final = 128 << 10
"""Below the smallest default socket buffer, so that a packet to an idle peer never waits."""
TEXT_CHARS_MAX: Final = 4_000
"""Longest error text that crosses; the rest is in the worker's output."""


class TensorRef(Struct, frozen=True, array_like=True, gc=False):
    """A tensor in the slot's arena."""

    name: str
    datatype: Datatype
    shape: tuple[int, ...]
    offset: int
    size_bytes: int
    member_ends: tuple[int, ...] = ()
    """For BYTES of several members: where each member's rows end, counted from ``offset``."""


class RunBatch(Struct, frozen=True, array_like=True):
    """Run this; the inputs lie in the arena, and the outputs go behind them."""

    batch_id: int
    replica_id: int
    is_low: bool
    can_batch: bool
    member_rows: tuple[int, ...]
    arena_bytes: int
    """Size of the arena file, which may have grown since the last batch."""
    inputs: tuple[TensorRef, ...]
    outputs: tuple[str, ...]
    parameters: dict[str, ParameterValue]


class BatchDone(Struct, frozen=True, array_like=True, tag="done"):
    """The outputs lie in the arena."""

    batch_id: int
    arena_bytes: int
    outputs: tuple[TensorRef, ...]
    transfer_in_ns: int
    execution_ns: int
    transfer_out_ns: int


class BatchError(Struct, frozen=True, array_like=True, tag="error"):
    """The batch raised, did not fit, or was cancelled before it began."""

    batch_id: int
    arena_bytes: int
    code: str
    message: str


class SlotSetup(Struct, frozen=True, kw_only=True):
    """What a slot's thread inherits and how it behaves."""

    socket_fd: int
    arena_fd: int
    cores: tuple[int, ...]
    niceness_high: int
    niceness_low: int


class Hello(Struct, frozen=True, kw_only=True, tag=True):
    """The first message to a worker."""

    slots: tuple[SlotSetup, ...]
    arena_bytes_max: int


class Load(Struct, frozen=True, kw_only=True, tag=True):
    """Load and warm a model."""

    replica_id: int
    spec: ModelSpec


class Unload(Struct, frozen=True, kw_only=True, tag=True):
    """Drop a model that runs nothing."""

    replica_id: int


class GiveUp(Struct, frozen=True, kw_only=True, tag=True):
    """Whatever loads now takes too long: leave it to itself and take the next."""


class Stop(Struct, frozen=True, kw_only=True, tag=True):
    """Unload everything and exit."""


class Loaded(Struct, frozen=True, kw_only=True, tag=True):
    """The model is in memory."""

    replica_id: int
    signature: Signature


class Warmed(Struct, frozen=True, kw_only=True, tag=True):
    """The model has run each of its warm-up sizes."""

    replica_id: int


class LoadError(Struct, frozen=True, kw_only=True, tag=True):
    """Loading or warming raised."""

    replica_id: int
    message: str


class Unloaded(Struct, frozen=True, kw_only=True, tag=True):
    """The model is gone."""

    replica_id: int


ENCODER: Final = Encoder()
SLOT_REQUESTS: Final = Decoder(RunBatch)
SLOT_REPLIES: Final = Decoder(BatchDone | BatchError)
CONTROL_REQUESTS: Final = Decoder(Hello | Load | Unload | GiveUp | Stop)
CONTROL_REPLIES: Final = Decoder(Loaded | Warmed | LoadError | Unloaded)


def shorten(text: str) -> str:
    """Bound an error's text; what is left out is counted."""
    if len(text) <= TEXT_CHARS_MAX:
        return text
    return f"{text[:TEXT_CHARS_MAX]}… ({len(text) - TEXT_CHARS_MAX} more characters)"
