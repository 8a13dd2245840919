"""What one entry of a plan's file says about another: names, times and devices that fit together.

Knows the whole file. Refuses to know where it was written: a problem names its keys.
"""

from collections import Counter
from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING

from headway.config.problem import Keys, Problem
from headway.config.words import choice_hint
from headway.plan import Placement, mig_product, mig_products, placement_problems

if TYPE_CHECKING:
    from headway.config.sharing import (
        FleetDeviceConfig,
        PlannedModelConfig,
        SharingConfig,
        TimesConfig,
    )

__all__ = ["sharing_problems"]


def sharing_problems(config: "SharingConfig") -> Iterator[Problem]:
    """Everything that makes a file of valid entries invalid."""
    yield from _twice(("models",), [model.name for model in config.models])
    yield from _twice(("chains",), [chain.name for chain in config.chains])
    yield from _twice(("fleet", "nodes"), [node.name for node in config.fleet.nodes])
    names = [model.name for model in config.models]
    for index, model in enumerate(config.models):
        where: Keys = ("models", index)
        yield from _named((*where, "tenant"), model.tenant, config.tenants, "tenant")
        yield from _named((*where, "tier"), model.tier, config.tiers, "tier")
        for position, other in enumerate(model.apart_from):
            yield from _named((*where, "apart_from", position), other, names, "model")
        yield from _model_problems(config, model, where)
    for index, chain in enumerate(config.chains):
        where = ("chains", index)
        yield from _named((*where, "tier"), chain.tier, config.tiers, "tier")
        for position, step in enumerate(chain.steps):
            yield from _named((*where, "steps", position), step, names, "model")
    yield from _fleet_problems(config)


def _model_problems(
    config: "SharingConfig", model: "PlannedModelConfig", where: Keys
) -> Iterator[Problem]:
    asked = {step for chain in config.chains for step in chain.steps}
    if model.rate == 0 and model.name not in asked:
        message = f"`{model.rate:g}`: nobody asks for `{model.name}`"
        hint = "say how many requests a second it has, or name it in a chain"
        yield Problem((*where, "rate"), model.rate, message, hint)
    if model.rows > model.batch_rows_max:
        message = f"`{model.rows}` rows a request are more than batch_rows_max"
        hint = "raise batch_rows_max to the rows of one request at least"
        yield Problem((*where, "rows"), model.rows, message, hint)
    if model.replicas_min > model.replicas_max:
        message = f"`{model.replicas_min}` is above replicas_max, `{model.replicas_max}`"
        yield Problem((*where, "replicas_min"), model.replicas_min, message, "lower it")
    for position, times in enumerate(model.times):
        yield from _times_problems(times, (*where, "times", position))


def _times_problems(times: "TimesConfig", where: Keys) -> Iterator[Problem]:
    if bool(times.service) is (times.profile is not None):
        hint = "write `service: {1: 9ms}`, or `profile: FILE` of `headway profile`"
        yield Problem((*where, "service"), None, "either `service` or `profile` is wanted", hint)
    if times.slice is None:
        return
    if times.part is not None:
        hint = "leave one of them out"
        yield Problem((*where, "part"), times.part, "`part` beside `slice`", hint)
    yield from _profile_problems(times.product, times.slice, (*where, "slice"))


def _profile_problems(product: str, profile: str, where: Keys) -> Iterator[Problem]:
    if product not in mig_products():
        message = f"`{product}` is not in the MIG table"
        hint = f"write a part; the table has {', '.join(f'`{p}`' for p in mig_products())}"
        yield Problem(where, profile, message, hint)
        return
    known = [entry.name for entry in mig_product(product).profiles]
    if profile not in known:
        message = f"`{product}` has no MIG profile `{profile}`"
        yield Problem(where, profile, message, choice_hint(profile, known))


def _fleet_problems(config: "SharingConfig") -> Iterator[Problem]:
    sizes: dict[str, tuple[int | None, int | None]] = {}
    for node_index, node in enumerate(config.fleet.nodes):
        for index, device in enumerate(node.devices):
            where: Keys = ("fleet", "nodes", node_index, "devices", index)
            size = (device.memory, device.multiprocessors)
            if sizes.setdefault(device.product, size) != size:
                message = f"`{device.product}` has another size here than before"
                hint = "give GPUs of another size another name"
                yield Problem((*where, "product"), device.product, message, hint)
            yield from _device_problems(device, where)


def _device_problems(device: "FleetDeviceConfig", where: Keys) -> Iterator[Problem]:
    in_table = device.product in mig_products()
    for key, value in (("memory", device.memory), ("multiprocessors", device.multiprocessors)):
        is_known = in_table and (key == "memory" or mig_product(device.product).sm_count)
        if value is None and not is_known:
            message = f"`{device.product}` is not a GPU whose `{key}` is known"
            hint = f"add `{key}`, or name one of {', '.join(f'`{p}`' for p in mig_products())}"
            yield Problem((*where, key), None, message, hint)
    if device.uuid and device.count > 1:
        yield Problem((*where, "uuid"), device.uuid, "one UUID for several devices", "list each")
    if device.mig is None:
        return
    if not in_table:
        message = f"`{device.product}` is not in the MIG table"
        hint = f"leave `mig` out; the table has {', '.join(f'`{p}`' for p in mig_products())}"
        yield Problem((*where, "mig"), None, message, hint)
        return
    if device.mig.instances and not device.mig.enabled:
        message = "instances, and MIG is not enabled"
        yield Problem((*where, "mig", "instances"), None, message, "set enabled: true")
    wrong = False
    for position, instance in enumerate(device.mig.instances):
        spot = (*where, "mig", "instances", position, "profile")
        for problem in _profile_problems(device.product, instance.profile, spot):
            wrong = True
            yield problem
    if not wrong:
        placed = [Placement(one.profile, one.start) for one in device.mig.instances]
        for words in placement_problems(mig_product(device.product), placed):
            hint = "compare with what `nvidia-smi mig -lgi` prints"
            yield Problem((*where, "mig", "instances"), None, words, hint)


def _named(where: Keys, name: str, known: Collection[str], what: str) -> Iterator[Problem]:
    if name not in known:
        yield Problem(where, name, f"there is no {what} `{name}`", choice_hint(name, known))


def _twice(section: Keys, names: list[str]) -> Iterator[Problem]:
    for name, count in Counter(names).items():
        if count > 1:
            second = [index for index, other in enumerate(names) if other == name][1]
            message = f"`{name}` stands twice"
            yield Problem((*section, second, "name"), name, message, "give each its own name")
