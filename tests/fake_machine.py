"""A machine in memory that obeys the rules of MIG and MPS, and fails when it is told to.

Knows the MIG table. What it refuses a driver would refuse: overlaps, instances in use, modes of a
GPU that is in use.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tests.sharing_plans import PRODUCT

from headway.devices import MigGpu, MigInstance, MigPlacement, MigProfile
from headway.errors import HeadwayError
from headway.plan import Placement, mig_product, placement_problems
from headway.rollout import DaemonToday


@dataclass
class FakeGpu:
    """One GPU; instances by id."""

    product: str | None = PRODUCT
    has_mig: bool = False
    instances: dict[int, MigInstance] = field(default_factory=dict)
    pids: tuple[int, ...] = ()
    """Of processes outside instances."""
    trouble: str | None = None


class FakeMachine:
    """GPUs by index, and daemons by name."""

    def __init__(self, *gpus: FakeGpu, fails_at: int | None = None) -> None:
        self.fakes = dict(enumerate(gpus))
        self.running: dict[str, DaemonToday] = {}
        self.changes: list[str] = []
        """What was asked for, in order, whether it was done or not."""
        self.fails_at = fails_at
        """The how manieth change fails."""
        self._next_id = 1

    # --- what a test sets up ----------------------------------------------------------------------

    def put(self, index: int, *places: str, pids: Sequence[int] = ()) -> None:
        """Instances that are there already, `3g.40gb@4`, with processes in them."""
        self.fakes[index].has_mig = True
        for place in places:
            profile, _, start = place.partition("@")
            made = self._make(index, profile, int(start))
            self.fakes[index].instances[made.id or 0] = made._replace(pids=tuple(pids))

    def state(self) -> object:
        """All that a plan can see, without the ids, which no two makings share."""
        gpus = [
            (gpu.has_mig, sorted((i.profile or "", i.placement) for i in gpu.instances.values()))
            for gpu in self.fakes.values()
        ]
        daemons = sorted((d.name, d.device, d.commands) for d in self.running.values())
        # An instance that was made anew has another UUID, by which its daemon is started.
        return gpus, [(n, (d or "").partition("-")[0], c) for n, d, c in daemons]

    # --- Machine ----------------------------------------------------------------------------------

    def gpus(self) -> Mapping[int, MigGpu]:
        return {index: self._gpu(index, gpu) for index, gpu in self.fakes.items()}

    def daemons(self) -> tuple[DaemonToday, ...]:
        return tuple(self.running.values())

    def set_mode(self, index: int, *, is_on: bool) -> None:
        self._change(f"mode {index} {is_on}")
        gpu = self.fakes[index]
        if gpu.product is None or gpu.instances or gpu.pids or self._serves(str(index)):
            raise HeadwayError("in use")
        gpu.has_mig = is_on

    def create(self, index: int, profile: str, start: int) -> MigInstance:
        self._change(f"create {index} {profile}@{start}")
        made = self._make(index, profile, start)
        self.fakes[index].instances[made.id or 0] = made
        return made

    def destroy(self, index: int, instance_id: int) -> None:
        self._change(f"destroy {index} {instance_id}")
        there = self.fakes[index].instances[instance_id]
        if there.pids or self._serves(*(there.uuids or ())):
            raise HeadwayError("in use")
        del self.fakes[index].instances[instance_id]

    def start_daemon(self, name: str, device: str, commands: Sequence[str]) -> None:
        self._change(f"start {name}")
        if name in self.running or self._serves(device):
            raise HeadwayError("a daemon runs there")
        self.running[name] = DaemonToday(name, device, tuple(commands))

    def stop_daemon(self, name: str) -> None:
        self._change(f"stop {name}")
        if self.running[name].clients:
            raise HeadwayError("it waits for its clients")
        del self.running[name]

    # ----------------------------------------------------------------------------------------------

    def _change(self, words: str) -> None:
        self.changes.append(words)
        if self.fails_at == len(self.changes):
            raise HeadwayError("the driver refuses", hint="try again")

    def _serves(self, *devices: str) -> bool:
        return any(one.device in devices for one in self.running.values())

    def _gpu(self, index: int, gpu: FakeGpu) -> MigGpu:
        if gpu.trouble is not None:
            return MigGpu(index, trouble=gpu.trouble)
        here = tuple(sorted(gpu.instances.values(), key=lambda one: one.placement))
        inside = {pid for one in here for pid in one.pids or ()}
        return MigGpu(
            index=index,
            name="a GPU",
            uuid=f"GPU-{index}",
            has_mig=None if gpu.product is None else gpu.has_mig,
            profiles=None if gpu.product is None else _profiles(gpu.product),
            instances=here if gpu.has_mig else None,
            pids=tuple(sorted({*gpu.pids, *inside})),
        )

    def _make(self, index: int, profile: str, start: int) -> MigInstance:
        gpu = self.fakes[index]
        if not gpu.has_mig or gpu.product is None:
            raise HeadwayError("MIG is off")
        product = mig_product(gpu.product)
        placed = [Placement(i.profile or "", i.placement.start) for i in gpu.instances.values()]
        if problems := placement_problems(product, [*placed, Placement(profile, start)]):
            raise HeadwayError(problems[0])
        size = product.profile(profile).size
        made_id, self._next_id = self._next_id, self._next_id + 1
        uuids = (f"MIG-{index}-{made_id}",)
        return MigInstance(made_id, profile, MigPlacement(start, size), uuids, ())


def _profiles(product: str) -> tuple[MigProfile, ...]:
    return tuple(
        MigProfile(
            name=profile.name,
            id=number,
            slices=profile.compute_slices,
            sm_count=profile.sm_count,
            memory_bytes=profile.memory_bytes,
            instances_max=profile.instances_max,
            placements=tuple(MigPlacement(start, profile.size) for start in profile.starts),
            remaining=None,
        )
        for number, profile in enumerate(mig_product(product).profiles)
    )
