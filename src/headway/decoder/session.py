"""Runs steps through ONNX Runtime, in place on the rows of keys and values.

A run takes neighbouring rows: one token of each, or any number of tokens of a single one. A row in
between that is not in the step rides along: what is written for it lands where its next token will
be written anyway, so that nothing it holds is touched. `runs_of` cuts a step so that few do.

Knows arrays. Refuses to know sequences.
"""

from collections import OrderedDict
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from headway.decoder.card import GRAPH_FILE, Card
from headway.decoder.rows import KvRows
from headway.decoder.weights import Floats
from headway.errors import LoadError

try:
    import onnxruntime as ort
except ModuleNotFoundError as error:
    raise LoadError(
        "the built-in engine needs the package `onnxruntime`",
        hint="pip install 'headway[generate]'",
    ) from error

__all__ = ["DecoderSession", "runs_of"]

_BINDINGS_MAX: Final = 64
_RIDERS_MAX: Final = 4
"""Rows that ride along between two that are in a step; where more do, a run of its own is less."""


class _Bound(NamedTuple):
    """A range of rows with its inputs and outputs, made once."""

    binding: Any
    ids: NDArray[np.int64]  # (row, 1)
    past_lengths: NDArray[np.int32]  # (row,)
    total: NDArray[np.int32]  # ()
    logits: Floats  # (row, vocabulary)


class DecoderSession:
    """A loaded model.

    Args:
        folder: where it lies.
        card: what it is.
        rows: of keys and values.
        threads: inside an operator.

    Raises:
        LoadError: the graph cannot be loaded.
    """

    def __init__(self, folder: Path, card: Card, rows: KvRows, threads: int) -> None:
        self._shape = card.shape
        self._rows = rows
        options = ort.SessionOptions()
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        options.enable_mem_pattern = False
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        path = folder / GRAPH_FILE
        if not path.is_file():
            raise LoadError(f"there is no `{path}`", hint="convert the model again")
        try:
            self._session = ort.InferenceSession(
                str(path), options, providers=["CPUExecutionProvider"]
            )
        except Exception as error:
            raise LoadError(f"`{path}` cannot be loaded: {error}") from error
        self._bound: OrderedDict[tuple[int, int], _Bound] = OrderedDict()

    def step_rows(self, first: int, ids: Sequence[int], starts: Sequence[int]) -> Floats:
        """One token of each of neighbouring rows.

        Args:
            first: the first row.
            ids: a token a row.
            starts: tokens that each row holds.

        Returns:
            Logits (row, vocabulary) of the tokens after; overwritten by the next run.
        """
        bound = self._bind(first, len(ids))
        bound.ids[:, 0] = ids
        bound.past_lengths[:] = starts
        bound.total[...] = max(starts) + 1
        bound.binding.bind_cpu_input("ids", bound.ids)
        self._session.run_with_iobinding(bound.binding)
        return bound.logits

    def prefill(self, row: int, ids: Sequence[int], start: int) -> Floats:
        """Tokens of one row, of which it holds so many before; logits (vocabulary) after them."""
        bound = self._bind(row, 1)
        total = start + len(ids)
        bound.past_lengths[0] = total - 1
        bound.total[...] = total
        bound.binding.bind_cpu_input("ids", np.array([ids], np.int64))
        self._session.run_with_iobinding(bound.binding)
        logits: Floats = bound.logits[0]
        return logits

    def _bind(self, first: int, count: int) -> _Bound:
        key = (first, count)
        found = self._bound.get(key)
        if found is not None:
            self._bound.move_to_end(key)
            return found
        bound = _Bound(
            self._session.io_binding(),
            np.zeros((count, 1), np.int64),
            np.zeros(count, np.int32),
            np.zeros((), np.int32),
            np.zeros((count, self._shape.vocabulary), np.float32),
        )
        binding = bound.binding
        binding.bind_ortvalue_input("past_lengths", _shared(bound.past_lengths))
        binding.bind_ortvalue_input("total", _shared(bound.total))
        binding.bind_ortvalue_output("logits", _shared(bound.logits))
        for layer in range(self._shape.layers):
            for offset, part in enumerate(("keys", "values")):
                memory = _shared(self._rows.parts[2 * layer + offset, first : first + count])
                binding.bind_ortvalue_input(f"layer{layer}.{part}", memory)
                binding.bind_ortvalue_output(f"layer{layer}.{part}.out", memory)
        self._bound[key] = bound
        while len(self._bound) > _BINDINGS_MAX:
            self._bound.popitem(last=False)
        return bound


def runs_of(rows: Sequence[int]) -> list[range]:
    """Ranges of rows that hold all of these, in order, with few others in between."""
    runs: list[range] = []
    for row in sorted(rows):
        if runs and row - runs[-1].stop <= _RIDERS_MAX:
            runs[-1] = range(runs[-1].start, row + 1)
        else:
            runs.append(range(row, row + 1))
    return runs


def _shared(array: NDArray[Any]) -> Any:
    """The runtime's view of an array's own memory."""
    value = ort.OrtValue.ortvalue_from_numpy(array)
    assert value.data_ptr() == array.ctypes.data, "the runtime has made a copy"
    return value
