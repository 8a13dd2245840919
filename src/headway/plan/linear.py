"""Linear programs, some of whose variables are whole numbers: written down, then handed to HiGHS.

Sole home of SciPy, which brings HiGHS along. HiGHS's own package cannot be loaded together with
OR-Tools, which brings another version of the same library.
How much it may try is counted in branches, so that a run can be repeated.
"""

from collections.abc import Iterable
from math import inf
from typing import Any, Final, NamedTuple

import numpy as np

from headway.errors import HeadwayError

__all__ = ["LinearProgram", "Settled"]

_OPTIMAL: Final = 0
_INFEASIBLE: Final = 2
"""Codes of `scipy.optimize.milp`."""


class Settled(NamedTuple):
    """What the solver says."""

    bound: float
    """No answer is below it; infinite where there is none."""
    is_settled: bool
    """There is an answer at the bound, or it is certain that there is none."""


class LinearProgram:
    """A sum of variables that is to be small, and rows: weighted sums of them within limits."""

    def __init__(self) -> None:
        self._costs: list[float] = []
        self._highest: list[float] = []
        self._whole: list[bool] = []
        self._starts: list[int] = [0]
        self._at: list[int] = []
        self._weights: list[float] = []
        self._least: list[float] = []
        self._most: list[float] = []

    def number(self, most: float = inf, *, cost: float = 0.0, is_whole: bool = False) -> int:
        """A variable from 0 up; its index."""
        self._costs.append(cost)
        self._highest.append(most)
        self._whole.append(is_whole)
        return len(self._costs) - 1

    def row(
        self, terms: Iterable[tuple[int, float]], *, least: float = -inf, most: float = inf
    ) -> None:
        """A sum of variables with their weights; a variable may come more than once."""
        sums: dict[int, float] = {}
        for variable, weight in terms:
            sums[variable] = sums.get(variable, 0.0) + weight
        self._at += sums.keys()
        self._weights += sums.values()
        self._starts.append(len(self._at))
        self._least.append(least)
        self._most.append(most)

    @property
    def size(self) -> int:
        """Variables."""
        return len(self._costs)

    def minimum(self, *, nodes_max: int = 1, wall_s: float = inf) -> Settled:
        """Look for the least cost.

        Args:
            nodes_max: branches that may be looked at.
            wall_s: how long whoever waits is willing to.

        Raises:
            HeadwayError: SciPy is not installed.
        """
        if not self._costs:
            is_possible = all(least <= 0.0 for least in self._least)
            return Settled(0.0 if is_possible else inf, True)
        optimize, sparse = _scipy()
        shape = (len(self._least), len(self._costs))
        rows = sparse.csr_array((self._weights, self._at, self._starts), shape=shape)
        options = {"node_limit": nodes_max, "mip_rel_gap": 0.0}
        if wall_s < inf:
            options["time_limit"] = max(0.01, wall_s)
        found = optimize.milp(
            np.array(self._costs),
            integrality=np.array(self._whole, dtype=int),
            bounds=optimize.Bounds(0.0, np.array(self._highest)),
            constraints=optimize.LinearConstraint(rows, self._least, self._most),
            options=options,
        )
        if found.status == _INFEASIBLE:
            return Settled(inf, True)
        is_best = found.status == _OPTIMAL
        bound = found.mip_dual_bound
        if bound is None or not np.isfinite(bound):
            bound = found.fun if is_best else -inf
        return Settled(float(bound), is_best)


def _scipy() -> tuple[Any, Any]:
    try:
        from scipy import optimize, sparse
    except ModuleNotFoundError as error:
        raise HeadwayError(
            "`scipy` is not installed, which says what no plan can better",
            hint="pip install headway[plan], or ask for `--maker fast`",
        ) from error
    return optimize, sparse
