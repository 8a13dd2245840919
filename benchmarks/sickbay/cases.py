"""The cases: each illness with the server that has it, and healthy servers of several kinds.

Knows configurations and loads. Tests and the benchmark take the same, so that what is published is
what is tested.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import harness

from sickbay.ward import Case, Load, Ward

__all__ = ["HEALTHY", "ILL", "SLOWLY_ILL", "TOLERATED", "cores_count", "ill"]

MODELS = Path(__file__).with_name("sick_models.py")
TOLERATED = frozenset({"noisy_neighbour"})
"""May be true of any server on a machine that others use, too; it is counted apart."""
_BATCH = {"batch": {"rows_max": 8}}
_ONE = {"batch": {"rows_max": 1}}
_LIMITS = {"restart_delay_min": "50ms", "restart_delay_max": "100ms"}
_BROAD, _WIDE = 64 << 10, 1 << 20
_SLOW_S, _DEATHS, _LOOKS = 0.02, 3, 10
_LONG_S = 3.0
"""A healthy server is watched longer: there is more time to be wrong about it."""


def cores_count() -> int:
    """Cores that a server here may use."""
    return len(os.sched_getaffinity(0))


def _model(kind: str, name: str = "", **settings: object) -> dict[str, object]:
    return {"name": name or kind, "path": f"{MODELS}:{kind}", **settings}


def _config(
    *models: Mapping[str, object],
    slots: int = 1,
    cores: int = 1,
    isolation: str = "shared",
    **sections: object,
) -> dict[str, object]:
    """Not pinned, and as important as whoever looks, so that a busy machine starves nobody."""
    device = {
        "name": "cpu:0",
        "cores": sorted(os.sched_getaffinity(0))[:cores],
        "slots_per_core": slots,
        "pin": False,
        "niceness": {"high": 0, "low": 0},
        "isolation": isolation,
    }
    return {"models": list(models), "devices": [device], **sections}


def _kill_thrice(ward: Ward) -> None:
    """Each time when it is back."""
    for count in range(1, 1 + _DEATHS):
        ward.wait_until(lambda: ward.is_serving("Dies"))
        ward.ask("Dies", -1.0)
        ward.wait_until(lambda count=count: ward.losses() >= count)
    ward.wait_until(lambda: ward.is_serving("Dies"))


def _reload(*names: str):  # noqa: ANN202 (what `Case.during` is)
    """Unload, load and unload each, and look on after every step."""

    def during(ward: Ward) -> None:
        for name in names:
            for turn in (ward.unload, ward.load, ward.unload):
                turn(name)
                ward.look_on(_LOOKS)

    return during


_HEAVY = {"columns": 256, "layers": 8}
_PACED = {"every_s": 0.01, "clients": 2}

ILL: tuple[Case, ...] = (
    Case(
        "a model that keeps 128 KiB of every call",
        _config(_model("Leaks", options={"kept_kib": 128}, **_BATCH)),
        [Load("Leaks", **_PACED)],
        "memory_leak",
        seconds=3.0,
    ),
    Case(
        "a model that leaves its weights behind",
        _config(
            _model("MovesMuch"),
            _model("KeepsModels"),
            _model("Healthy", options={"columns": 1024, "layers": 16}),
        ),
        [Load("MovesMuch", **_PACED)],
        "memory_kept",
        during=_reload("KeepsModels", "Healthy"),
    ),
    Case(
        "a model that copies row by row",
        _config(_model("CopiesRows", options={"columns": _BROAD}, **_BATCH)),
        [Load("CopiesRows", rows=(1, 8), columns=_BROAD)],
        "copies_per_row",
    ),
    Case(
        "a model that hands back a large tensor",
        _config(_model("MovesMuch", options={"columns": _WIDE}, **_ONE)),
        [Load("MovesMuch", columns=_WIDE)],
        "transfer_bound",
    ),
    Case(
        "a model that takes less than the way to it, one row at a time",
        _config(_model("MovesMuch", **_ONE)),
        [Load("MovesMuch", clients=6)],
        "host_bound",
    ),
    Case(
        "requests that a parameter keeps apart",
        _config(_model("TakesParameters", options={"columns": 64, "layers": 24}, **_BATCH)),
        [Load("TakesParameters", clients=6, parameters=lambda n: {"temperature": n / 7})],
        "small_batches",
    ),
    Case(
        "eight threads a core",
        _config(_model("Threads", **_BATCH)),
        [Load("Threads")],
        "too_many_threads",
    ),
    Case(
        "slots that wait for one lock",
        _config(_model("HoldsTheInterpreter", **_ONE), cores=2),
        [Load("HoldsTheInterpreter"), Load("HoldsTheInterpreter", every_s=0.15)],
        "slots_in_turn",
        seconds=4.0,
    ),
    Case(
        "a program beside the server on each core",
        _config(_model("Healthy", options=_HEAVY, **_BATCH), cores=2),
        [Load("Healthy", clients=2, columns=256)],
        "noisy_neighbour",
        burnt_cores=sorted(os.sched_getaffinity(0))[:2] * 2,
    ),
    Case(
        "a worker that dies",
        _config(_model("Dies"), _model("Healthy"), isolation="per_model", slots=2, limits=_LIMITS),
        [Load("Healthy", **_PACED)],
        "crash_loop",
        during=_kill_thrice,
    ),
    Case(
        "a model that raises",
        _config(_model("Raises")),
        [Load("Raises", first=lambda n: -1.0 if n % 2 else 1.0, every_s=0.005)],
        "failing_batches",
    ),
    Case(
        "a first call that takes 0.3 s",
        _config(_model("StartsSlowly", **_BATCH)),
        [Load("StartsSlowly", **_PACED)],
        "cold_start",
    ),
    Case(
        "a budget of 5 ms for a model that takes 20",
        _config(
            _model("TakesLong", options={"seconds": _SLOW_S}),
            tiers={"standard": {"budget": "10s"}, "hasty": {"budget": "5ms"}},
        ),
        [Load("TakesLong", headers={"headway-tier": "hasty"}, every_s=0.03)],
        "budget_infeasible",
    ),
    Case(
        "eight times of what the slot can do",
        _config(
            _model("TakesLong", options={"seconds": 5 * _SLOW_S}, **_ONE),
            tiers={"standard": {"budget": "500ms"}},
        ),
        [Load("TakesLong", clients=16, every_s=0.2)],
        "overload",
    ),
)

SLOWLY_ILL = Case(
    "a model that keeps 8 KiB of every call",
    _config(_model("Leaks", options={"kept_kib": 8}, **_BATCH)),
    [Load("Leaks", **_PACED)],
    "memory_leak",
    seconds=60.0,
)
"""Of which a picture is drawn."""

HEALTHY: tuple[Case, ...] = (
    Case(
        "one model, batches of several sizes, two cores",
        _config(_model("Healthy", options=_HEAVY, **_BATCH), cores=2),
        [Load("Healthy", clients=2, rows=(1, 2, 4), columns=256)],
        seconds=_LONG_S,
    ),
    Case(
        "two models of two tiers in one worker",
        _config(
            _model("Healthy", options=_HEAVY, **_BATCH),
            _model("TakesBatches", options=_HEAVY, **_BATCH),
            tiers={
                "standard": {"budget": "1s"},
                "bulk": {"budget": "10s", "priority": 5, "slot_class": "low"},
            },
        ),
        [
            Load("Healthy", columns=256, every_s=0.02, clients=2),
            Load(
                "TakesBatches",
                rows=(8,),
                columns=256,
                every_s=0.05,
                headers={"headway-tier": "bulk"},
            ),
        ],
        seconds=_LONG_S,
    ),
    Case(
        "a worker for each model, a slow one beside a fast one",
        _config(
            _model("Healthy", **_BATCH),
            _model("TakesLong", options={"seconds": _SLOW_S}, **_ONE),
            slots=2,
            isolation="per_model",
        ),
        [Load("Healthy", **_PACED), Load("TakesLong", every_s=0.05)],
        seconds=_LONG_S,
    ),
    Case(
        "a model that is loaded and unloaded",
        _config(_model("Healthy", options=_HEAVY, **_BATCH), _model("TakesBatches", **_BATCH)),
        [Load("Healthy", columns=256, **_PACED)],
        seconds=_LONG_S,
        during=_reload("TakesBatches"),
    ),
)


def ill(code: str) -> Case:
    """The case of an illness.

    Raises:
        LoadFailedError: there is none.
    """
    for case in ILL:
        if case.code == code:
            return case
    raise harness.LoadFailedError(f"there is no case of `{code}`")
