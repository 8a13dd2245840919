"""What one setting says about another: rules across the configuration, and doubts worth a word.

Knows the whole configuration. Refuses to know where it was written: a problem names its keys.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from headway.config.batch_checks import batch_problems
from headway.config.generator_checks import generator_problems
from headway.config.pipeline_checks import pipeline_problems
from headway.config.problem import Keys, Problem
from headway.config.tenant_checks import tenancy_doubts, tenancy_problems
from headway.config.words import choice_hint, is_class_path
from headway.core import ModelName, SlotClass
from headway.devices import EmulatedModel, accelerator, accelerator_names
from headway.errors import ConfigError
from headway.units import format_duration

if TYPE_CHECKING:
    from headway.config.schema import (
        Config,
        CpuDeviceConfig,
        DeviceConfig,
        EmulatedDeviceConfig,
        ModelConfig,
    )

__all__ = [
    "CrossCheckError",
    "Keys",
    "Problem",
    "cross_problems",
    "dotted",
    "warnings_of",
]


class CrossCheckError(ValueError):
    """Settings that are fine one by one and contradict each other."""

    def __init__(self, problems: tuple[Problem, ...]) -> None:
        super().__init__("; ".join(f"{dotted(p.keys)}: {p.message}" for p in problems))
        self.problems = problems


def dotted(keys: Keys) -> str:
    """The path of a setting as people write it."""
    return ".".join(str(key) for key in keys)


def cross_problems(config: "Config") -> Iterator[Problem]:
    """Everything that makes a configuration of valid settings invalid."""
    yield from _twice(("models",), [model.name for model in config.models])
    yield from _twice(("devices",), [device.name for device in config.devices])
    for index, model in enumerate(config.models):
        yield from _model_problems(config, model, index)
    for index, device in enumerate(config.devices):
        yield from _device_problems(device, index, config.devices[0])
    if config.devices[0].kind == "emulated":
        yield from _accelerator_problems(config.devices[0], len(config.devices))
    for service_tier, tier in config.server.openai.service_tiers.items():
        if tier not in config.tiers:
            where: Keys = ("server", "openai", "service_tiers", service_tier)
            message = f"there is no tier `{tier}`"
            yield Problem(where, tier, message, choice_hint(tier, config.tiers))
    limits = config.limits
    for name, low_ns, high_ns in (
        ("restart_delay", limits.restart_delay_min, limits.restart_delay_max),
        ("retry_after", limits.retry_after_min, limits.retry_after_max),
    ):
        if low_ns > high_ns:
            low, high = format_duration(low_ns), format_duration(high_ns)
            message = f"`{low}` is above {name}_max, `{high}`"
            hint = f"lower it, or raise {name}_max"
            yield Problem(("limits", f"{name}_min"), low, message, hint)
    yield from generator_problems(config)
    yield from tenancy_problems(config)


def warnings_of(config: "Config") -> tuple[str, ...]:
    """What is allowed and probably not meant, one sentence each."""
    return tuple(_doubts(config))


def _device_problems(
    device: "DeviceConfig", index: int, first: "DeviceConfig"
) -> Iterator[Problem]:
    where: Keys = ("devices", index)
    if device.kind != first.kind:
        message = f"`{device.kind}` beside a device of kind `{first.kind}`"
        hint = "the devices of a server are of one kind; start a server for each"
        yield Problem((*where, "kind"), device.kind, message, hint)
    elif device.kind == "cpu":
        cores = device.cores or ()
        if len(set(cores)) < len(cores):
            message = f"`{list(cores)}` names a core twice"
            hint = "name each core once; slots_per_core says how much runs on each"
            yield Problem((*where, "cores"), cores, message, hint)
    elif first.kind == "emulated":
        for key, value, wanted in (
            ("accelerator", device.accelerator, first.accelerator),
            ("seed", device.seed, first.seed),
        ):
            if value != wanted:
                message = f"`{value}` is not that of devices.0, `{wanted}`"
                hint = "emulated devices are cards of one machine; start a server for each"
                yield Problem((*where, key), value, message, hint)


def _accelerator_problems(first: "EmulatedDeviceConfig", count: int) -> Iterator[Problem]:
    name = first.accelerator
    if name not in accelerator_names():
        message = f"there is no emulated accelerator `{name}`"
        hint = choice_hint(name, accelerator_names())
        yield Problem(("devices", 0, "accelerator"), name, message, hint)
        return
    count_max = len(accelerator(name).device_links)
    if count > count_max:
        message = f"`{name}` has {count_max} devices, not {count}"
        hint = "leave some out, or choose another accelerator"
        yield Problem(("devices", count_max), name, message, hint)


def _twice(section: Keys, names: Sequence[str]) -> Iterator[Problem]:
    for name, count in Counter(names).items():
        if count > 1:
            first, second = [index for index, other in enumerate(names) if other == name][:2]
            message = f"`{name}` is the name of {dotted(section)}.{first} already"
            yield Problem((*section, second, "name"), name, message, "give each its own name")


def _model_problems(config: "Config", model: "ModelConfig", index: int) -> Iterator[Problem]:
    where: Keys = ("models", index)
    if model.tier is not None and model.tier not in config.tiers:
        message = f"there is no tier `{model.tier}`"
        yield Problem((*where, "tier"), model.tier, message, choice_hint(model.tier, config.tiers))
    devices = [device.name for device in config.devices]
    for position, device in enumerate(model.devices):
        if device not in devices:
            message = f"there is no device `{device}`"
            hint = choice_hint(device, devices)
            yield Problem((*where, "devices", position), device, message, hint)
    yield from _twice((*where, "inputs"), [tensor.name for tensor in model.inputs])
    yield from _twice((*where, "outputs"), [tensor.name for tensor in model.outputs])
    for position, rows in enumerate(model.warmup.rows):
        if rows > model.batch.rows_max:
            message = f"`{rows}` rows are more than batch.rows_max, `{model.batch.rows_max}`"
            hint = "warm up with no more rows than a batch may have"
            yield Problem((*where, "warmup", "rows", position), rows, message, hint)
    if model.pipeline is not None:
        yield from pipeline_problems(config, model, where)
        return
    yield from batch_problems(model, where)
    if config.devices[0].kind == "emulated":
        yield from _emulated_problems(model, where)
    else:
        yield from _path_problems(model, where)


def _emulated_problems(model: "ModelConfig", where: Keys) -> Iterator[Problem]:
    if model.backend not in ("auto", "emulated"):
        message = f"`{model.backend}` does not run on an emulated device"
        hint = "leave it out, or set it to `emulated`: nothing of the model is run there"
        yield Problem((*where, "backend"), model.backend, message, hint)
        return
    for key, tensors in (("inputs", model.inputs), ("outputs", model.outputs)):
        if not tensors:
            hint = "declare them, for no file is read that says what they are"
            yield Problem((*where, key), None, f"an emulated model needs `{key}`", hint)
    for key in ("in_bytes", "out_bytes"):
        if key in model.options:
            hint = "leave it out: it follows from inputs and outputs"
            message = f"`{key}` is not an option of a served model"
            yield Problem((*where, "options", key), model.options[key], message, hint)
    try:
        EmulatedModel.of(ModelName(model.name), model.options)
    except ConfigError as error:
        yield Problem((*where, "options"), dict(model.options), error.message, error.hint)


def _path_problems(model: "ModelConfig", where: Keys) -> Iterator[Problem]:
    if model.backend == "emulated":
        message = "`emulated` does not run on a device of kind `cpu`"
        hint = "give the server devices of kind `emulated`"
        yield Problem((*where, "backend"), model.backend, message, hint)
        return
    if model.path is None:
        hint = "add it: The model, a file, or `file.py:Class`"
        yield Problem((*where, "path"), None, "`path` is missing", hint)
        return
    problem: tuple[str, str] | None = None
    if model.backend == "auto":
        problem = (
            "does not show which back end runs it",
            "end it in `.onnx`, write `file.py:Class`, or set backend to `onnx` or `python`",
        )
    elif model.backend == "python" and not is_class_path(model.path):
        problem = ("names no class", "write `file.py:Class` or `module:Class`")
    if problem is not None:
        yield Problem((*where, "path"), model.path, f"`{model.path}` {problem[0]}", problem[1])


def _doubts(config: "Config") -> Iterator[str]:
    if not config.models and not config.generators:
        yield "no models are configured, so every request will be refused"
    tiers = config.tiers
    if config.policy.kind == "fifo" and len({tier.priority for tier in tiers.values()}) > 1:
        yield "tiers differ in priority, which policy `fifo` ignores"
    for name, tier in tiers.items():
        later = [
            other
            for other in tiers
            if tiers[other].slot_class is SlotClass.HIGH and tiers[other].priority > tier.priority
        ]
        if tier.slot_class is SlotClass.LOW and later:
            yield (
                f"tier `{name}` starts before `{later[0]}`, yet gives way to it once both run: "
                f"its slot_class is `low`"
            )
    for device in config.devices:
        if device.kind == "cpu":
            yield from _unpredictable(config, device)
    yield from tenancy_doubts(config)


def _unpredictable(config: "Config", device: "CpuDeviceConfig") -> Iterator[str]:
    """Settings of a device that make the time of a batch beside others hard to foresee."""
    if device.slots_per_core == 1 and len(device.cores or (0, 0)) == 1:
        return  # one batch at a time has no neighbours
    first = config.devices[0].name
    models = [m for m in config.served if device.name in (m.devices or (first,))]
    where = f"device `{device.name}`"
    if not device.pin:
        yield (
            f"{where}: with pin: false the system moves batches between cores, and how long they "
            "take is harder to predict; set pin: true"
        )
    if device.isolation == "per_model" and len(models) > 1:
        yield (
            f"{where}: with isolation: per_model each model has threads of its own on the same "
            "cores, and how long batches take is harder to predict; set isolation: shared"
        )
    for model in models:
        yield from _busy_threads(model)


def _busy_threads(model: "ModelConfig") -> Iterator[str]:
    """Options of the ONNX back end by which batches that run at once hinder each other."""
    if model.backend != "onnx":
        return
    threads = model.options.get("intra_op_threads", 1)
    if isinstance(threads, int) and threads > 1:
        yield (
            f"model `{model.name}`: with intra_op_threads: {threads} a batch waits for the threads "
            "of others that run at once, and how long it takes is harder to predict; set "
            "intra_op_threads: 1, or give its device one slot"
        )
    if model.options.get("allow_spinning") is True:
        yield (
            f"model `{model.name}`: with allow_spinning: true its threads keep cores busy while "
            "they wait, which slows batches that run at once several times over; set "
            "allow_spinning: false, or give its device one slot"
        )
