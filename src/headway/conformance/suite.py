"""Asks a server every case, and takes down how it did.

Knows which cases there are. Refuses to know how results are shown.
"""

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any, Final

from headway.conformance.case import Case, Result, judged
from headway.conformance.http_wire import HttpTarget
from headway.errors import HeadwayError

__all__ = ["cases_of", "run_cases"]

_REST: Final = "headway.conformance.rest_tensor_cases"
_GRPC: Final = "headway.conformance.grpc_cases"

OnCase = Callable[[Result], None]


def cases_of(wire: str) -> Sequence[Case[Any]]:
    """The cases of `http` or `grpc`.

    Raises:
        HeadwayError: gRPC's library is not installed.
    """
    if wire == "http":
        cases: Sequence[Case[Any]] = import_module(_REST).CASES.all
        return cases
    try:
        cases = import_module(_GRPC).CASES.all
    except ImportError as error:
        raise HeadwayError(
            f"gRPC cannot be asked: {error}", hint="pip install 'headway[conformance]'"
        ) from error
    return cases


def run_cases(
    url: str, grpc: str | None, *, can_load: bool = False, on_case: OnCase | None = None
) -> list[Result]:
    """Ask a server everything.

    Args:
        url: of its HTTP interface.
        grpc: `host:port` of its gRPC interface; None leaves that out.
        can_load: a model may be unloaded and loaded again.
        on_case: told of each case when it has ended.

    Raises:
        HeadwayError: there is no server, or gRPC's library is not installed.
    """
    target = HttpTarget(url, can_load=can_load)
    try:
        target.get("/v2/health/live")
    except OSError as error:
        raise HeadwayError(
            f"there is no server at `{url}`: {error}", hint="start it, or give another address"
        ) from error
    results: list[Result] = []
    _run(cases_of("http"), target, results, on_case)
    if grpc is not None:
        cases = cases_of("grpc")
        with import_module(_GRPC).reach(grpc, can_load=can_load) as to:
            _run(cases, to, results, on_case)
    return results


def _run(
    cases: Sequence[Case[Any]], target: object, results: list[Result], on_case: OnCase | None
) -> None:
    for case in cases:
        with judged(case.area, case.name, results):
            case.check(target)
        if on_case is not None:
            on_case(results[-1])
