"""Gradient-boosted trees through LightGBM: trained whole, asked one row at a time.

Knows rows of numbers and the library; its sole home, imported only when trees are wanted. Refuses
to know what a row means.
"""

import ctypes
import weakref
from collections.abc import Sequence
from types import ModuleType
from typing import Final

import numpy as np
from numpy.typing import NDArray

from headway.errors import HeadwayError

__all__ = ["Trees", "library"]

_ROUNDS: Final = 100
_PARAMS: Final[dict[str, object]] = {
    # A relative error punishes the guess that is too high more, so a little below the median.
    "objective": "quantile",
    "alpha": 0.45,
    "learning_rate": 0.05,
    "num_leaves": 15,
    "min_data_in_leaf": 40,
    "lambda_l2": 1.0,
    "max_bin": 63,
    # One thread and one order of sums: the same rows make the same trees, and no core is taken
    # from what is being served.
    "num_threads": 1,
    "deterministic": True,
    "force_row_wise": True,
    "seed": 1,
    "verbose": -1,
}
_FLOAT64: Final = 1
_RAW_SCORE: Final = 1


def library() -> ModuleType:
    """LightGBM.

    Raises:
        HeadwayError: It is not installed.
    """
    try:
        import lightgbm
    except ImportError as error:
        raise HeadwayError(
            "predictor `boosted` needs LightGBM, which is not installed",
            hint="pip install headway[boosted]",
        ) from error
    return lightgbm


class Trees:
    """A trained ensemble; f(row) by a sum over its trees.

    Asking goes through the library's C interface for single rows, prepared once, and holds the
    interpreter lock: the call takes microseconds, and to get the lock back from a busy thread may
    take milliseconds.

    Args:
        rows: (n, width) float32, at least one row.
        targets: (n,) float64.
        category: Column whose numbers are names, each a whole number from 0.

    Cost: O(trees · depth) a row, microseconds.
    """

    def __init__(
        self, rows: NDArray[np.float32], targets: NDArray[np.float64], *, category: int
    ) -> None:
        lightgbm = library()
        table = lightgbm.Dataset(
            rows, targets, categorical_feature=[category], params={"verbose": -1}
        )
        booster = lightgbm.train(_PARAMS, table, _ROUNDS)
        self._width = rows.shape[1]
        self._row = (ctypes.c_double * self._width)()
        self._answer = ctypes.c_double()
        self._answers_count = ctypes.c_int64()
        self._load(lightgbm, booster.model_to_string().encode())

    def value(self, row: Sequence[float]) -> float:
        """The ensemble's sum for one row of `width` numbers. Not for two threads at once."""
        self._row[:] = row
        _check(self._call(self._config, self._row, self._count_at, self._answer_at))
        return self._answer.value

    def _load(self, lightgbm: ModuleType, text: bytes) -> None:
        """A booster of our own, which no Python object of the library shares."""
        # Named privately, but the C interface behind it is documented and has been stable since
        # LightGBM 3.0. PyDLL, unlike CDLL, keeps the interpreter lock during a call.
        shared = ctypes.PyDLL(None, handle=lightgbm.basic._LIB._handle)  # noqa: SLF001
        rounds, booster, config = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_void_p()
        _check(
            shared.LGBM_BoosterLoadModelFromString(
                text, ctypes.byref(rounds), ctypes.byref(booster)
            )
        )
        weakref.finalize(self, shared.LGBM_BoosterFree, booster)
        _check(
            shared.LGBM_BoosterPredictForMatSingleRowFastInit(
                booster,
                _RAW_SCORE,
                ctypes.c_int(0),
                ctypes.c_int(-1),
                _FLOAT64,
                ctypes.c_int32(self._width),
                b"num_threads=1",
                ctypes.byref(config),
            )
        )
        # The last registered runs first: the configuration goes before its booster.
        weakref.finalize(self, shared.LGBM_FastConfigFree, config)
        self._call = shared.LGBM_BoosterPredictForMatSingleRowFast
        self._config = config
        self._count_at = ctypes.byref(self._answers_count)
        self._answer_at = ctypes.byref(self._answer)


def _check(status: int) -> None:
    assert status == 0, "LightGBM refused a call of its C interface"
