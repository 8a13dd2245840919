"""Requests made before the run, because making one while it runs would delay the others.

Knows shapes and chance. Never sends anything.
"""

from collections.abc import Callable, Mapping, Sequence
from itertools import cycle
from random import Random
from typing import Final, Protocol

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from headway.core import Datatype, ModelName, Tensor, concat_bytes, elements_of
from headway.errors import ConfigError
from headway.loadgen.wire import Body, encode_body, tensors_of
from headway.workload import Arrival, Workload

__all__ = [
    "BodySource",
    "InputMaker",
    "InputSpec",
    "ModelMetadata",
    "PreparedBodies",
    "prepare_bodies",
    "random_inputs",
    "stacked",
]

InputMaker = Callable[[Random, int], Sequence[Tensor]]
"""The inputs of one request with this many rows, from a source of chance."""

_WORDS: Final = (b"quick", b"slow", b"early", b"late", b"near", b"far", b"bright", b"quiet")
_INTEGER_MAX: Final = 100
"""Random integers stay small: many models look them up in a table."""


class BodySource(Protocol):
    """Where the bytes of a request come from."""

    def body(self, arrival: Arrival) -> Body:
        """The body of this request; called while the load runs, so it must be quick."""


class InputSpec(Struct, frozen=True):
    """Name, datatype and shape that a server declares; -1 is any size."""

    name: str
    datatype: Datatype
    shape: tuple[int, ...]


class ModelMetadata(Struct, frozen=True):
    """What a server says of a model."""

    name: str
    inputs: tuple[InputSpec, ...]


class PreparedBodies:
    """A pool of bodies for each model and number of rows, handed out in turn."""

    def __init__(self, pools: Mapping[tuple[ModelName, int], Sequence[Body]]) -> None:
        assert all(pools.values())
        self._turns = {key: cycle(bodies) for key, bodies in pools.items()}

    def body(self, arrival: Arrival) -> Body:
        """See `BodySource`."""
        return next(self._turns[arrival.model, arrival.rows])


def prepare_bodies(
    workload: Workload, makers: Mapping[ModelName, InputMaker], *, chance: Random, count: int = 32
) -> PreparedBodies:
    """Make `count` bodies for each model and number of rows that the workload can ask for.

    Raises:
        ConfigError: no maker for one of the models.
    """
    pools: dict[tuple[ModelName, int], list[Body]] = {}
    for index, stream in enumerate(workload.streams):
        maker = makers.get(stream.model)
        if maker is None:
            message = f"nothing makes requests for the model `{stream.model}`"
            raise ConfigError(message, path=f"streams[{index}].model", value=stream.model)
        for rows in stream.rows.support():
            if (stream.model, rows) not in pools:
                bodies = [encode_body(maker(chance, rows)) for _ in range(count)]
                pools[stream.model, rows] = bodies
    return PreparedBodies(pools)


def random_inputs(metadata: ModelMetadata, *, free_axis_size: int = 8) -> InputMaker:
    """Make noise in the shapes that a model declares.

    Args:
        metadata: a leading -1 is taken for the batch axis.
        free_axis_size: what any other -1 becomes.
    """

    def make(chance: Random, rows: int) -> list[Tensor]:
        noise = np.random.default_rng(chance.getrandbits(64))
        return [_noise(spec, rows, free_axis_size, noise) for spec in metadata.inputs]

    return make


def stacked(
    sample_maker: Callable[[Random], Mapping[str, npt.NDArray[np.generic]]],
) -> InputMaker:
    """Make requests of any number of rows from a maker of one row."""

    def make(chance: Random, rows: int) -> list[Tensor]:
        samples = [sample_maker(chance) for _ in range(rows)]
        if rows == 1:
            return tensors_of(samples[0])
        names = samples[0]
        return tensors_of(
            {name: np.concatenate([sample[name] for sample in samples]) for name in names}
        )

    return make


def _noise(spec: InputSpec, rows: int, free_axis_size: int, noise: np.random.Generator) -> Tensor:
    free = [size if size >= 0 else free_axis_size for size in spec.shape]
    if spec.shape and spec.shape[0] < 0:
        free[0] = rows
    elif rows != 1:
        message = f"input `{spec.name}` has no batch axis, so a request has 1 row, not {rows}"
        raise ConfigError(message, path="rows", value=rows)
    shape = tuple(free)
    return Tensor(spec.name, spec.datatype, shape, _noise_bytes(spec.datatype, shape, noise))


def _noise_bytes(datatype: Datatype, shape: tuple[int, ...], noise: np.random.Generator) -> bytes:
    match datatype:
        case Datatype.BYTES:
            picks = noise.integers(0, len(_WORDS), elements_of(shape))
            return concat_bytes(_WORDS[pick] for pick in picks)
        case Datatype.BF16:
            # The upper half of a little-endian FP32 is that number as BF16, cut off.
            halves = noise.standard_normal(shape, np.float32).astype("<f4").view("<u2")
            return halves.reshape(-1)[1::2].tobytes()
        case Datatype.FP16 | Datatype.FP32 | Datatype.FP64:
            return noise.standard_normal(shape).astype(_LAYOUTS[datatype]).tobytes()
        case Datatype.BOOL:
            return noise.integers(0, 2, shape, np.uint8).tobytes()
        case _:
            return noise.integers(0, _INTEGER_MAX, shape).astype(_LAYOUTS[datatype]).tobytes()


_LAYOUTS: Final[dict[Datatype, str]] = {
    Datatype.UINT8: "<u1",
    Datatype.UINT16: "<u2",
    Datatype.UINT32: "<u4",
    Datatype.UINT64: "<u8",
    Datatype.INT8: "<i1",
    Datatype.INT16: "<i2",
    Datatype.INT32: "<i4",
    Datatype.INT64: "<i8",
    Datatype.FP16: "<f2",
    Datatype.FP32: "<f4",
    Datatype.FP64: "<f8",
}
