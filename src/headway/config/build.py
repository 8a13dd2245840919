"""From the configuration to the plain parameters that kernel, pool and frontends are built from.

Knows what each layer below takes. Asks this machine one thing: which cores there are.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from headway.config.batching import BucketsConfig, Larger, Oversize, RaggedConfig
from headway.config.schema import (
    Config,
    CpuDeviceConfig,
    DeviceConfig,
    Isolation,
    ModelConfig,
    TensorConfig,
)
from headway.config.words import choice_hint
from headway.core import (
    DeviceName,
    DeviceParams,
    KernelParams,
    ModelName,
    ModelParams,
    SlotClass,
    TierName,
)
from headway.devices import EmulatedMachine, accelerator, usable_cores
from headway.errors import ConfigError
from headway.executors import (
    AxisBuckets,
    LaneSpec,
    ModelSpec,
    RaggedInputs,
    TensorSpec,
    WorkerGroup,
)

__all__ = [
    "Tier",
    "emulated_machine",
    "kernel_params",
    "model_params",
    "model_spec",
    "service_tiers",
    "tensor_specs",
    "tier_of",
    "tiers",
    "usable_cores",
    "worker_groups",
]


class Tier(NamedTuple):
    """What a request of a tier is given."""

    name: TierName
    priority: int
    budget_ns: int
    slot_class: SlotClass
    late_ns: int = 0
    """How long after its deadline it is still served."""
    attainment_ratio: float = 0.99
    """The part of its requests that is to be met."""


def kernel_params(config: Config, *, cores: Sequence[int] | None = None) -> KernelParams:
    """Limits and devices.

    Args:
        config: the configuration.
        cores: the machine's, for devices that name none.
    """
    limits = config.limits
    return KernelParams(
        devices=tuple(_device_params(device, cores) for device in config.devices),
        requests_max=limits.requests_max,
        bytes_max=limits.bytes_max,
        retry_after_ns_min=limits.retry_after_min,
        retry_after_ns_max=limits.retry_after_max,
        restart_delay_ns_min=limits.restart_delay_min,
        restart_delay_ns_max=limits.restart_delay_max,
    )


def model_params(config: Config, model: ModelConfig) -> ModelParams:
    """What the kernel must know of a model; whether it can batch is known once it is loaded."""
    devices = model.devices or (config.devices[0].name,)
    return ModelParams(
        name=ModelName(model.name),
        version=model.version,
        devices=tuple(DeviceName(device) for device in devices),
        batch_rows_max=model.batch.rows_max,
        can_split=model.batch.oversize is Oversize.SPLIT,
        segments_max=model.batch.segments_max,
        linger_ns=model.batch.linger,
        queue_requests_max=model.queue.requests_max,
        queue_bytes_max=model.queue.bytes_max,
        batch_ns_max=model.batch_max,
    )


def model_spec(config: Config, model: ModelConfig) -> ModelSpec:  # noqa: ARG001 - as its siblings
    """How a worker loads a model."""
    return ModelSpec(
        name=model.name,
        version=model.version,
        backend=str(model.backend),
        path=model.path or "",
        options=dict(model.options),
        inputs=tensor_specs(model.inputs),
        outputs=tensor_specs(model.outputs),
        warmup_rows=model.warmup.rows,
        warmup_shapes=dict(model.warmup.shapes),
        needs_batch=model.batch.is_asked_for,
        buckets=tuple(_axis_buckets(buckets) for buckets in model.batch.buckets),
        ragged=_ragged_inputs(model.batch.ragged),
    )


def tensor_specs(tensors: Sequence[TensorConfig]) -> tuple[TensorSpec, ...]:
    """Declared inputs or outputs."""
    return tuple(
        TensorSpec(name=tensor.name, datatype=tensor.datatype, shape=tensor.shape)
        for tensor in tensors
    )


def worker_groups(config: Config, *, cores: Sequence[int] | None = None) -> tuple[WorkerGroup, ...]:
    """The devices as the pool sees them; none where they are emulated.

    Raises:
        ConfigError: a slot would be pinned to a core that this process may not use.
    """
    usable = usable_cores() if cores is None else tuple(cores)
    groups = []
    for index, device in enumerate(config.devices):
        if device.kind != "cpu":
            continue
        missing = [core for core in device.cores or () if core not in usable]
        if device.pin and missing:
            raise ConfigError(
                f"devices.{index}.cores: this process may not use core `{missing[0]}`",
                path=f"devices.{index}.cores",
                value=missing[0],
                hint=f"it may use {', '.join(map(str, usable))}; leave `cores` out to use them all",
            )
        groups.append(_worker_group(device, usable))
    return tuple(groups)


def emulated_machine(config: Config) -> EmulatedMachine | None:
    """The accelerator of the devices, with no model on it; None where they are cores."""
    first = config.devices[0]
    if first.kind != "emulated":
        return None
    names = [DeviceName(device.name) for device in config.devices]
    return EmulatedMachine(accelerator(first.accelerator), (), names, first.seed)


def tiers(config: Config) -> Mapping[TierName, Tier]:
    """Every tier, in the order of the configuration."""
    return {
        TierName(name): Tier(
            TierName(name),
            tier.priority,
            tier.budget,
            tier.slot_class,
            tier.late_ns,
            tier.attainment,
        )
        for name, tier in config.tiers.items()
    }


def tier_of(config: Config, model: ModelConfig, name: TierName | None = None) -> Tier:
    """The tier of a request: the one that it names, else its model's.

    Raises:
        ConfigError: there is no such tier.
    """
    default = "default" if "default" in config.tiers else next(iter(config.tiers))
    wanted = TierName(name or model.tier or default)
    found = tiers(config).get(wanted)
    if found is None:
        hint = choice_hint(wanted, config.tiers)
        raise ConfigError(f"there is no tier `{wanted}`", path="tiers", value=wanted, hint=hint)
    return found


def service_tiers(config: Config) -> Mapping[str, TierName]:
    """The tiers that OpenAI's service tiers stand for.

    As configured, else by their own names, else the two ends: `priority` and `flex`.
    """
    by_priority = sorted(config.tiers, key=lambda name: config.tiers[name].priority)
    usual = {"priority": by_priority[0], "flex": by_priority[-1]}
    own = {name: name for name in config.tiers}
    found = usual | own | config.server.openai.service_tiers
    return {wanted: TierName(tier) for wanted, tier in found.items()}


def _device_params(device: DeviceConfig, cores: Sequence[int] | None) -> DeviceParams:
    if device.kind == "emulated":
        # A stream a slot, and nothing known of how they share the card but that they do.
        slots = accelerator(device.accelerator).slots
        name, lanes = DeviceName(device.name), tuple(range(slots))
        return DeviceParams(name=name, slot_lanes=lanes, shares_all=True)
    lane_count = len(_cores_of(device, cores))
    lanes = tuple(i % lane_count for i in range(lane_count * device.slots_per_core))
    return DeviceParams(
        name=DeviceName(device.name),
        slot_lanes=lanes,
        is_pinned=device.pin,
        weight_high=_weight_of(device.niceness.high),
        weight_low=_weight_of(device.niceness.low),
    )


def _weight_of(niceness: int) -> float:
    """Share of a core that Linux gives: 1024 at 0, a quarter less for each step up.

    The kernel's own table (`sched_prio_to_weight` in kernel/sched/core.c) is this, rounded.
    """
    return float(round(1024 / 1.25**niceness))


def _worker_group(device: CpuDeviceConfig, usable: Sequence[int]) -> WorkerGroup:
    cores = _cores_of(device, usable)
    # Neighbouring slots lie on different cores, so that the first free ones spread the work.
    slots = tuple(
        LaneSpec(
            cores=(cores[i % len(cores)],) if device.pin else (),
            niceness_high=device.niceness.high,
            niceness_low=device.niceness.low,
        )
        for i in range(len(cores) * device.slots_per_core)
    )
    return WorkerGroup(
        device=DeviceName(device.name),
        slots=slots,
        is_isolated=device.isolation is Isolation.PER_MODEL,
        arena_bytes_max=device.arena_max,
    )


def _cores_of(device: CpuDeviceConfig, usable: Sequence[int] | None) -> tuple[int, ...]:
    if device.cores is not None:
        return device.cores
    return usable_cores() if usable is None else tuple(usable)


def _axis_buckets(buckets: BucketsConfig) -> AxisBuckets:
    return AxisBuckets(
        sizes=buckets.sizes,
        inputs=dict(buckets.inputs),
        outputs=dict(buckets.outputs),
        pads=dict(buckets.pad),
        is_strict=buckets.larger is Larger.REFUSE,
    )


def _ragged_inputs(ragged: RaggedConfig | None) -> RaggedInputs | None:
    if ragged is None:
        return None
    return RaggedInputs(inputs=ragged.inputs, lengths=ragged.lengths)
