"""Scenarios as people write them: plain dicts, durations as "20s", mistakes with their path.

Knows the words of a scenario file, which are those of a server's configuration wherever they mean
the same. Never reads the file itself.

    devices: [{name: "cpu:0", slots: 4, lanes: 2}]
    sharing: {kind: lanes, niced: true}
    tiers:
      live: {priority: 0, budget: 40ms}
      bulk: {priority: 5, budget: 2s, slot_class: low}
    models:
      - {name: ocr, service: {1: 20ms, 4: 80ms}, noise_cv: 0.03, batch: {rows_max: 4}}
    workload:
      duration: 60s
      streams: [{model: ocr, tier: live, arrivals: {kind: poisson, rate_rps: 40}}]
    faults: [{at: 20s, device: "cpu:0"}, {at: 40s, pause: 200ms}]

With `accelerator: a100-pcie4` devices are those of an emulated machine, and a model says under
`options` what it asks of one, as in a server's configuration, instead of `service`.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from headway.core import (
    DeviceName,
    DeviceParams,
    KernelParams,
    ModelName,
    ModelParams,
    SlotClass,
    TenantId,
    TierName,
)
from headway.devices import (
    Accelerator,
    EmulatedModel,
    accelerator,
    accelerator_names,
    emulated_profile,
)
from headway.errors import ConfigError
from headway.predict import Profile
from headway.sim.mistakes import convert, known, refuse_twins, wrong
from headway.sim.scenario import EmulatedSetup, Scenario, SimulatedModel, SimulatedTier
from headway.sim.words import (
    DeviceSpec,
    FaultSpec,
    LanesSpec,
    LimitsSpec,
    ModelSpec,
    Oversize,
    ScenarioSpec,
    SharingKind,
    SoloSpec,
    Span,
    TierSpec,
)
from headway.sim.world import Fault, HostPause
from headway.workload import Workload, workload_from_dict

__all__ = ["NICED_WEIGHTS", "scenario_from_dict"]

NICED_WEIGHTS: Final[Mapping[SlotClass, float]] = {SlotClass.HIGH: 1024.0, SlotClass.LOW: 15.0}
"""Shares of a core that Linux gives to threads of nice 0 and of nice 19: `sched_prio_to_weight`, in
the kernel's source at kernel/sched/core.c."""

_EVEN_WEIGHTS: Final[Mapping[SlotClass, float]] = dict.fromkeys(SlotClass, 1.0)


def scenario_from_dict(data: Mapping[str, object], *, traces: Path | None = None) -> Scenario:
    """Build a scenario from plain values, as YAML or JSON give them.

    Args:
        data: see the module's example.
        traces: folder of recorded traces, for workloads that name one.

    Raises:
        ConfigError: with the path of the wrong value, the value and a hint.
    """
    spec = convert(data, ScenarioSpec, "", words=(Span,))
    machine = None if spec.accelerator is None else _accelerator(spec, spec.accelerator)
    weights = None if machine is not None else _weights(spec.sharing)
    devices = _devices(spec.devices, weights, machine)
    device_names = [device.name for device in devices]
    tiers = {}
    for name, plain in spec.tiers.items():
        tier = convert(plain, TierSpec, f"tiers.{name}", words=(Span,))
        tiers[TierName(name)] = SimulatedTier(
            tier.priority, tier.budget.ns, tier.slot_class, tier.late_ns
        )
    models = tuple(
        _model(model, device_names, f"models[{index}]", machine)
        for index, model in enumerate(spec.models)
    )
    refuse_twins([str(model.params.name) for model in models], "models")
    workload = _workload(spec, traces)
    for index, stream in enumerate(workload.streams):
        path = f"workload.streams[{index}]"
        known(stream.model, [model.params.name for model in models], "model", f"{path}.model")
        known(stream.tier, list(tiers), "tier", f"{path}.tier")
        if spec.tenants:
            known(stream.tenant, list(spec.tenants), "tenant", f"{path}.tenant")
    return Scenario(
        params=_kernel_params(devices, spec.limits),
        models=models,
        tiers=tiers,
        weights=weights,
        load_ns=spec.load.ns,
        faults=tuple(
            _fault(fault, device_names, f"faults[{i}]") for i, fault in enumerate(spec.faults)
        ),
        workload=workload,
        shares={TenantId(name): tenant.share for name, tenant in spec.tenants.items()},
        emulated=None
        if machine is None
        else EmulatedSetup(machine, tuple(_demand(model) for model in spec.models)),
    )


# --- from words to parameters ---------------------------------------------------------------------


def _devices(
    specs: Sequence[DeviceSpec],
    weights: Mapping[SlotClass, float] | None,
    machine: Accelerator | None,
) -> tuple[DeviceParams, ...]:
    refuse_twins([spec.name for spec in specs], "devices")
    devices = []
    for index, spec in enumerate(specs):
        slots = _slots(spec, f"devices[{index}]", machine)
        lanes = spec.lanes or slots
        if lanes > slots:
            raise wrong(
                f"devices[{index}].lanes",
                lanes,
                f"more lanes than the {slots} slots leave some of them empty",
                "give a device at least one slot a lane",
            )
        slot_lanes = tuple(slot % lanes for slot in range(slots))
        shares = _EVEN_WEIGHTS if weights is None else weights
        devices.append(
            DeviceParams(
                name=DeviceName(spec.name),
                slot_lanes=slot_lanes,
                shares_all=machine is not None,
                weight_high=shares[SlotClass.HIGH],
                weight_low=shares[SlotClass.LOW],
            )
        )
    return tuple(devices)


def _slots(spec: DeviceSpec, path: str, machine: Accelerator | None) -> int:
    if machine is None:
        if spec.slots is None:
            hint = "say how many batches it may run at once"
            raise wrong(path, None, "a device needs `slots`", hint)
        return spec.slots
    if spec.lanes is not None:
        hint = "leave `lanes` out"
        raise wrong(f"{path}.lanes", spec.lanes, "an accelerator has a lane a slot", hint)
    if spec.slots is not None and spec.slots > machine.slots:
        what = f"a device of `{machine.name}` has {machine.slots} slots"
        raise wrong(f"{path}.slots", spec.slots, what, "use no more, or leave `slots` out")
    return spec.slots or machine.slots


def _accelerator(spec: ScenarioSpec, name: str) -> Accelerator:
    """The machine, if it has the devices that are asked of it."""
    if name not in accelerator_names():
        hint = f"accelerators are {', '.join(f'`{known}`' for known in accelerator_names())}"
        raise wrong("accelerator", name, f"there is no accelerator `{name}`", hint)
    if spec.sharing is not None:
        hint = "leave `sharing` out, or `accelerator`"
        raise wrong("sharing", None, "how batches of an accelerator share it is its own", hint)
    machine = accelerator(name)
    if len(spec.devices) > len(machine.device_links):
        what = f"`{name}` has {len(machine.device_links)} devices"
        raise wrong("devices", len(spec.devices), what, "use no more of them")
    return machine


def _demand(spec: ModelSpec) -> EmulatedModel:
    return EmulatedModel.of(ModelName(spec.name), spec.options)


def _fault(spec: FaultSpec, device_names: Sequence[DeviceName], path: str) -> Fault | HostPause:
    if spec.pause is not None and spec.device is None:
        return HostPause(spec.at.ns, spec.pause.ns)
    if spec.device is None or spec.pause is not None:
        hint = "write `device`, whose worker dies, or `pause`, for which the scheduler stands still"
        raise wrong(path, None, "a fault is one of the two", hint)
    return Fault(spec.at.ns, _device(spec.device, device_names, f"{path}.device"))


def _kernel_params(devices: tuple[DeviceParams, ...], limits: LimitsSpec) -> KernelParams:
    return KernelParams(
        devices=devices,
        requests_max=limits.requests_max,
        restart_delay_ns_min=limits.restart_delay_min.ns,
        restart_delay_ns_max=limits.restart_delay_max.ns,
    )


def _device(name: str, names: Sequence[DeviceName], path: str) -> DeviceName:
    known(name, names, "device", path)
    return DeviceName(name)


def _model(
    spec: ModelSpec, device_names: Sequence[DeviceName], path: str, machine: Accelerator | None
) -> SimulatedModel:
    wanted = [
        _device(name, device_names, f"{path}.devices[{index}]")
        for index, name in enumerate(spec.devices)
    ]
    params = ModelParams(
        name=ModelName(spec.name),
        devices=tuple(wanted or device_names[:1]),
        batch_rows_max=spec.batch.rows_max,
        linger_ns=spec.batch.linger.ns,
        can_split=spec.batch.oversize is Oversize.SPLIT,
        segments_max=spec.batch.segments_max,
        queue_requests_max=spec.queue.requests_max,
        batch_ns_max=spec.batch_max.ns,
    )
    if machine is not None:
        return SimulatedModel(params, _emulated(spec, params, path, machine), 0.0)
    if spec.options:
        hint = "write `service`, or name an `accelerator` at the top"
        raise wrong(f"{path}.options", None, "options are for an emulated accelerator", hint)
    if spec.service is None:
        hint = 'write the time of one row, "9ms", or times by rows, {1: 9ms, 8: 60ms}'
        raise wrong(f"{path}.service", None, "a model needs `service`", hint)
    return SimulatedModel(params, _profile(spec.service, f"{path}.service"), spec.noise_cv)


def _emulated(spec: ModelSpec, params: ModelParams, path: str, machine: Accelerator) -> Profile:
    """What the model would take alone on an accelerator."""
    for name, value in (("service", spec.service), ("noise_cv", spec.noise_cv)):
        if value:
            hint = "leave it out: `options` say what the model asks of the accelerator"
            raise wrong(f"{path}.{name}", value, f"`{name}` is for plain devices", hint)
    try:
        demand = _demand(spec)
    except ConfigError as error:
        hint = str(error.hint)
        raise wrong(f"{path}.options", spec.options, error.message, hint) from error
    profile = emulated_profile(machine, demand, params.devices[0], params.batch_rows_max)
    return Profile({solo.rows: solo.median_ns for solo in profile.solo})


def _profile(service: str | Mapping[Any, Any], path: str) -> Profile:
    """Solo service time by rows; a single time is that of one row."""
    hint = 'write the time of one row, "9ms", or times by rows, {1: 9ms, 8: 60ms}'
    by_rows = {1: service} if isinstance(service, str) else service
    times_ns: dict[int, int] = {}
    for rows, text in by_rows.items():
        place = path if isinstance(service, str) else f"{path}.{rows}"
        try:
            times_ns[int(rows)] = Span(text).ns
        except ValueError as error:
            raise wrong(place, text, str(error), hint) from error
    try:
        return Profile(times_ns)
    except ValueError as error:
        raise wrong(path, service, str(error), hint) from error


def _weights(
    sharing: SharingKind | SoloSpec | LanesSpec | None,
) -> Mapping[SlotClass, float] | None:
    if isinstance(sharing, LanesSpec):
        if sharing.niced and sharing.weights is not None:
            hint = "niced: true stands for high 1024, low 15; leave one of the two out"
            raise wrong("sharing.weights", sharing.weights, "`niced` sets the weights", hint)
        if sharing.niced:
            return NICED_WEIGHTS
        return {**_EVEN_WEIGHTS, **(sharing.weights or {})}
    return _EVEN_WEIGHTS if sharing in (None, SharingKind.LANES) else None


def _workload(spec: ScenarioSpec, traces: Path | None) -> Workload:
    if "seed" in spec.workload:
        hint = "a scenario has one seed for all chance: write `seed:` at the top"
        raise wrong("workload.seed", spec.workload["seed"], "it is not read here", hint)
    try:
        return workload_from_dict({**spec.workload, "seed": spec.seed}, traces=traces)
    except ConfigError as error:
        path = ".".join(filter(None, ("workload", error.path)))
        message = error.message.replace(f"`{error.path or 'workload'}`", f"`{path}`", 1)
        raise ConfigError(message, path=path, value=error.value, hint=error.hint) from error
