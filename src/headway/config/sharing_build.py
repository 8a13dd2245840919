"""From the file of `headway plan` to the planner's plain values.

Knows the file, and profiles that it names. What it says is valid already.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

from pydantic import ValidationError

from headway.config.checks import Keys
from headway.config.document import read_document
from headway.config.outline import Outline, schema_of
from headway.config.problems import config_error
from headway.config.sharing import (
    FleetDeviceConfig,
    PlannedModelConfig,
    SharingConfig,
    TimesConfig,
)
from headway.core import DeviceName, ModelName, TenantId, TierName
from headway.devices import fingerprint
from headway.errors import ConfigError
from headway.plan import (
    Chain,
    Demand,
    Fleet,
    FleetDevice,
    MeasuredTimes,
    MigToday,
    ModelDemand,
    NodeTopology,
    mig_product,
    mig_products,
    read_topology,
)
from headway.profiling import read_profiles

__all__ = ["SharingQuestion", "load_sharing", "sharing_schema"]

_TITLE: Final = "headway plan"


class SharingQuestion(NamedTuple):
    """What a plan is asked for."""

    demand: Demand
    fleet: Fleet


def sharing_schema() -> dict[str, Any]:
    """JSON Schema of the file."""
    return schema_of(SharingConfig, _TITLE)


def load_sharing(path: Path) -> SharingQuestion:
    """Read the file of a plan.

    Raises:
        ConfigError: with file and line, path, value and how to mend it; further problems are its
            notes.
    """
    document = read_document(path)

    def place_of(keys: Keys) -> str:
        while keys and keys not in document.lines:
            keys = keys[:-1]
        return f"{path}:{document.lines[keys]}" if keys else str(path)

    try:
        config = SharingConfig.model_validate(document.data)
    except ValidationError as error:
        raise config_error(error, document.data, place_of, Outline(sharing_schema())) from None
    return SharingQuestion(_demand(config, path.parent), _fleet(config, path.parent))


# --- what is to be placed -------------------------------------------------------------------------


def _demand(config: SharingConfig, folder: Path) -> Demand:
    shares = dict(_budget_shares(config, folder))
    return Demand(
        models=tuple(_model(config, model, folder, shares) for model in config.models),
        isolation={TenantId(n): tenant.isolation for n, tenant in config.tenants.items()},
        chains=tuple(
            Chain(
                name=ModelName(chain.name),
                steps=tuple(ModelName(step) for step in chain.steps),
                rate_rps=chain.rate,
                budget_ns=config.tiers[chain.tier].budget,
            )
            for chain in config.chains
        ),
    )


def _model(
    config: SharingConfig, model: PlannedModelConfig, folder: Path, shares: dict[str, int]
) -> ModelDemand:
    tier = config.tiers[model.tier]
    chains = [chain for chain in config.chains if model.name in chain.steps]
    rate = model.rate + sum(chain.rate * chain.steps.count(model.name) for chain in chains)
    tiers = [config.tiers[chain.tier] for chain in chains]
    if model.rate > 0 or not tiers:
        tiers.append(tier)
    budget_ns = min(shares.get(model.name, tier.budget), max(t.budget for t in tiers))
    if model.rate > 0:
        budget_ns = min(budget_ns, tier.budget)
    return ModelDemand(
        name=ModelName(model.name),
        tenant=TenantId(model.tenant),
        tier=TierName(model.tier),
        priority=min(t.priority for t in tiers),
        slot_class=tier.slot_class,
        budget_ns=budget_ns,
        attainment_ratio=max(t.attainment for t in tiers),
        rate_rps=rate,
        request_rows=model.rows,
        arrivals_cv=model.arrivals_cv,
        service_cv=model.service_cv,
        batch_rows_max=model.batch_rows_max,
        linger_ns=model.linger,
        times=tuple(_times(times, model.name, folder) for times in model.times),
        weights_bytes=model.weights,
        overhead_bytes=model.overhead,
        row_bytes=model.row,
        gang_devices=model.gang,
        replicas_min=model.replicas_min,
        replicas_max=model.replicas_max,
        spread=model.spread,
        apart_from=tuple(ModelName(other) for other in model.apart_from),
    )


def _budget_shares(config: SharingConfig, folder: Path) -> Iterator[tuple[str, int]]:
    """Of each step its part of its chain's budget, by the time of a request; the least of several.

    Times on the smallest part that was measured: there is where a step will take longest.
    """
    models = {model.name: model for model in config.models}
    parts: dict[str, int] = {}
    for chain in config.chains:
        works = {}
        for step in chain.steps:
            model = models[step]
            times = [_times(one, model.name, folder) for one in model.times]
            works[step] = max(one.service_ns[min(one.service_ns)] for one in times)
        total_ns = sum(works[step] for step in chain.steps)
        for step, work_ns in works.items():
            share_ns = config.tiers[chain.tier].budget * work_ns // total_ns
            parts[step] = min(share_ns, parts.get(step, share_ns))
    yield from parts.items()


def _times(times: TimesConfig, model: str, folder: Path) -> MeasuredTimes:
    ratio = times.part or 1.0
    if times.slice is not None:
        product = mig_product(times.product)
        sm_count = product.sm_count or product.plain[-1].sm_count
        ratio = product.profile(times.slice).sm_count / sm_count
    service_ns = {int(rows): time_ns for rows, time_ns in times.service.items()}
    if times.profile is not None:
        service_ns = _profiled(folder / times.profile, model)
    return MeasuredTimes(product=times.product, compute_ratio=ratio, service_ns=service_ns)


def _profiled(path: Path, model: str) -> dict[int, int]:
    """Median times of a model in a profile file, whatever machine it was made on.

    Raises:
        ConfigError: it has none of this model.
    """
    read = read_profiles(path, fingerprint(), is_forced=True)
    for profile in read.file.profiles:
        if profile.model == model and profile.solo:
            return {solo.rows: solo.median_ns + profile.overhead_ns for solo in profile.solo}
    known = ", ".join(f"`{profile.model}`" for profile in read.file.profiles)
    raise ConfigError(
        f"`{path}` has no times of `{model}`", value=str(path), hint=f"it has {known or 'none'}"
    )


# --- on what --------------------------------------------------------------------------------------


def _fleet(config: SharingConfig, folder: Path) -> Fleet:
    devices: list[FleetDevice] = []
    topologies: dict[str, NodeTopology] = {}
    for node in config.fleet.nodes:
        here = [entry for entry in node.devices for _ in range(entry.count)]
        topology = None
        if node.topology is not None:
            topology = topologies[node.name] = _topology(folder / node.topology)
        for index, entry in enumerate(here):
            devices.append(_device(entry, node.name, index, topology))
    return Fleet(devices=tuple(devices), speeds=dict(config.fleet.speeds), topologies=topologies)


def _topology(path: Path) -> NodeTopology:
    """The matrix in a file.

    Raises:
        ConfigError: there is no such file, or no matrix in it.
    """
    try:
        return read_topology(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(
            f"cannot read `{path}`: {error.strerror}", value=str(path), hint="check `topology`"
        ) from error


def _device(
    entry: FleetDeviceConfig, node: str, index: int, topology: NodeTopology | None
) -> FleetDevice:
    has_mig = entry.product in mig_products()
    memory_bytes, sm_count = entry.memory, entry.multiprocessors
    if has_mig:
        product = mig_product(entry.product)
        memory_bytes = memory_bytes or max(p.memory_bytes for p in product.plain)
        sm_count = sm_count or product.sm_count
    assert memory_bytes is not None, "checked when it was read"
    assert sm_count is not None, "checked when it was read"
    numa, domain = entry.numa, entry.nvlink
    if topology is not None:
        group = topology.nvlink_domains().get(index)
        numa = topology.numa.get(index) if numa is None else numa
        domain = f"{node}/nvlink:{group}" if domain is None and group is not None else domain
    return FleetDevice(
        name=DeviceName(f"{node}/gpu:{index}"),
        node=node,
        index=index,
        product=entry.product,
        memory_bytes=memory_bytes,
        sm_count=sm_count,
        uuid=entry.uuid,
        has_mig=has_mig,
        is_mig_enabled=entry.mig is not None and entry.mig.enabled,
        instances=tuple(
            MigToday(profile=one.profile, start=one.start, is_busy=one.busy)
            for one in (entry.mig.instances if entry.mig is not None else ())
        ),
        numa_node=numa,
        nvlink_domain=domain,
        cost=entry.cost,
    )
