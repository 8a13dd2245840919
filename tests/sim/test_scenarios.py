"""Whole runs in virtual time: overload, classes under it, workers that die, always the same.

    python -c "import runpy; print(runpy.run_path('tests/sim/test_scenarios.py')['digest'](1))"

prints what a run of the mixed scenario with seed 1 did, as one number.
"""

import subprocess
import sys
from hashlib import sha256
from pathlib import Path
from random import Random

import msgspec
import pytest

import headway
from headway.core import Fail, Kernel, KernelParams, Reject, SlotClass, check_invariants
from headway.policy import edf, fifo, priority
from headway.predict import Profile
from headway.sim import Fault, SharedLanes, SoloTimes, Tally, World, record_into
from headway.testing import MeanPredictor, a_device, a_model, a_request
from headway.units import NS_PER_MS, NS_PER_S

POLICIES = {"fifo": fifo, "priority": priority, "edf": edf}
PROFILE = Profile({1: 20 * NS_PER_MS, 8: 40 * NS_PER_MS})
CAPACITY_RPS = 200
"""Of one slot with batches of eight."""
WAITING_MAX = 64


class Run:
    """One simulated run: its world, its tally, and how full the queue ever was."""

    def __init__(
        self,
        policy,
        requests,
        *,
        faults=(),
        lanes=(0,),
        record=False,
        load_ms=0,
        waiting_max=WAITING_MAX,
        rows_max=8,
    ):
        device = a_device(lanes=lanes)
        predictor = MeanPredictor({"m": PROFILE})
        kernel = Kernel(KernelParams(devices=(device,)), POLICIES[policy](predictor))
        self.tally = Tally()
        self.records = []
        self.waiting_max = 0
        self.refusals = []
        self.failures = []
        keep = record_into(self.records)

        def observe(now_ns, event, commands):
            self.tally(now_ns, event, commands)
            self.waiting_max = max(self.waiting_max, kernel.room.count)
            self.refusals += [c for c in commands if isinstance(c, Reject)]
            self.failures += [(now_ns, c) for c in commands if isinstance(c, Fail)]
            if record:
                keep(now_ns, event, commands)

        def service_ns(dispatch):
            return PROFILE.service_ns(dispatch.rows)

        executor = (
            SoloTimes(service_ns)
            if len(set(lanes)) == len(lanes)
            else SharedLanes(service_ns, [device], {SlotClass.HIGH: 68.0, SlotClass.LOW: 1.0})
        )
        self.world = World(kernel, executor, observe=observe, load_ns=load_ms * NS_PER_MS)
        self.world.load([a_model(batch_rows_max=rows_max, queue_requests_max=waiting_max)])
        self.world.run(requests, faults=faults)
        check_invariants(kernel)
        assert kernel.ledger.live == {}

    @property
    def tiers(self):
        """Counts by tier."""
        return self.tally.tiers


def poisson(rps, duration_s, *, seed=1, tiers=(("normal", 1, 1.0),), budget="1s"):
    """Requests at random instants, each of a tier by chance: (name, priority, share)."""
    chance = Random(f"{seed}/arrivals")
    now_ns, request_id = 0, 0
    while True:
        now_ns += round(chance.expovariate(rps) * NS_PER_S)
        if now_ns >= duration_s * NS_PER_S:
            return
        request_id += 1
        (tier, level, _), *_ = chance.choices(tiers, [share for *_, share in tiers])
        low = level > 0 and len(tiers) > 1
        yield a_request(
            request_id,
            at=now_ns,
            budget=budget,
            tier=tier,
            priority=level,
            slot_class=SlotClass.LOW if low else SlotClass.HIGH,
        )


def mixed(seed, duration_s=20, load=2.0):
    """Two classes, the high one well within what the machine can do, both together far beyond."""
    tiers = (("high", 0, 0.25), ("low", 5, 0.75))
    return poisson(load * CAPACITY_RPS, duration_s, seed=seed, tiers=tiers, budget="400ms")


def digest(seed):
    """What a run of the mixed scenario with a fault did, to the last command."""
    run = Run(
        "priority", mixed(seed, 5), faults=[Fault(2 * NS_PER_S, "cpu:0")], lanes=(0, 0), record=True
    )
    return sha256(msgspec.json.encode(run.records)).hexdigest()


@pytest.mark.parametrize("policy", POLICIES)
def test_tenfold_overload_is_bounded_and_every_request_answered(policy):
    """Thirty seconds at ten times capacity: memory flat, all answered, the machine kept busy."""
    run = Run(policy, poisson(10 * CAPACITY_RPS, 30))
    (tier,) = run.tiers.values()
    assert run.waiting_max <= WAITING_MAX
    answered = tier.completed + tier.rejected + tier.expired + tier.failed
    assert answered == tier.arrived > 9 * CAPACITY_RPS * 30
    assert tier.late == 0
    assert tier.completed >= 0.95 * CAPACITY_RPS * 30
    assert min(refusal.retry_after_ns for refusal in run.refusals) >= 10 * NS_PER_MS


@pytest.mark.parametrize("policy", POLICIES)
def test_overload_with_tight_deadlines_still_finishes_work(policy):
    """When most of the queue is hopeless, what is started alone can make it: no collapse."""
    run = Run(policy, poisson(500, 10, budget="150ms"), rows_max=1)
    (tier,) = run.tiers.values()
    assert tier.expired > 0
    assert tier.completed >= 0.95 * 50 * 10


@pytest.mark.parametrize("policy", POLICIES)
def test_overload_with_tight_deadlines_and_batches_still_finishes_work(policy):
    """A batch does not grow past what its tightest member can bear, so batches are not all late."""
    run = Run(policy, poisson(500, 10, budget="150ms"), rows_max=8)
    (tier,) = run.tiers.values()
    assert tier.late == 0
    assert tier.completed >= 0.8 * 50 * 10


@pytest.mark.parametrize("seed", range(1, 4))
def test_priority_beats_fifo_for_the_high_tier(seed):
    """On a mixed overload strict classes keep the high tier's deadlines; fifo shares the pain."""
    strict, plain = (Run(p, mixed(seed), waiting_max=10_000) for p in ("priority", "fifo"))
    assert strict.tiers["high"].arrived == plain.tiers["high"].arrived
    assert strict.tiers["high"].violations == 0
    assert plain.tiers["high"].violation_ratio > 0.3
    assert strict.tiers["high"].latency_ns(0.99) < 0.6 * plain.tiers["high"].latency_ns(0.99)


def test_full_queue_lets_high_work_in():
    """Where a full queue holds less important work, that gives way; nobody important is refused."""
    run = Run("priority", mixed(1))
    assert (run.tiers["high"].violations, run.tiers["high"].rejected) == (0, 0)
    assert {refusal.reason for refusal in run.refusals} == {"model_queue_full", "displaced"}


def test_full_queue_refuses_whoever_comes_under_fifo():
    """Without classes room at the door is given by arrival alone."""
    run = Run("fifo", mixed(1))
    assert run.tiers["high"].rejected > 0
    assert {refusal.reason for refusal in run.refusals} == {"model_queue_full"}


def test_low_tier_starves_under_strict_priority():
    """What `priority` says in writing: a high tier beyond capacity leaves the low one nothing."""
    tiers = (("high", 0, 0.9), ("low", 5, 0.1))
    run = Run("priority", poisson(3 * CAPACITY_RPS, 10, tiers=tiers), waiting_max=10_000)
    assert run.tiers["low"].completed <= 0.05 * run.tiers["low"].arrived


def test_no_overload_means_no_loss():
    """At half of capacity nobody is refused and nobody is late."""
    run = Run("fifo", poisson(CAPACITY_RPS / 2, 30))
    (tier,) = run.tiers.values()
    assert (tier.violations, tier.completed) == (0, tier.arrived)


@pytest.mark.parametrize("policy", POLICIES)
def test_worker_faults_in_the_middle_cost_only_what_ran(policy):
    """Each death fails at most the batches that ran; the rest waits, and service returns."""
    instants = [5 * NS_PER_S, 6 * NS_PER_S, 12 * NS_PER_S]
    faults = [Fault(at_ns, "cpu:0") for at_ns in instants]
    run = Run(
        policy, poisson(CAPACITY_RPS, 20, budget="3s"), faults=faults, lanes=(0, 1), load_ms=200
    )
    (tier,) = run.tiers.values()
    assert {at_ns for at_ns, _ in run.failures} <= set(instants)
    assert {failure.code for _, failure in run.failures} == {"worker_lost"}
    assert 1 <= tier.failed <= 3 * 2 * 8
    assert tier.completed + tier.failed + tier.rejected == tier.arrived
    assert tier.completed >= 0.9 * tier.arrived


def test_worker_that_dies_again_and_again_leaves_nobody_waiting():
    """Faults quicker than the restart: requests expire or fail in time, none hangs."""
    faults = [Fault(at * 100 * NS_PER_MS, "cpu:0") for at in range(1, 100)]
    run = Run("fifo", poisson(CAPACITY_RPS, 10, budget="200ms"), faults=faults, load_ms=50)
    (tier,) = run.tiers.values()
    assert tier.completed + tier.failed + tier.rejected + tier.expired == tier.arrived
    assert (tier.expired > 0, tier.failed > 0, tier.completed > 0) == (True, True, True)


def test_shared_lanes_let_the_high_class_through():
    """Two slots on one core: the class of its slot keeps the high tier fast under low load."""
    run = Run("priority", mixed(1, 10, load=0.6), lanes=(0, 0))
    assert run.tiers["high"].violations == 0
    assert run.tiers["high"].latency_ns(0.5) < run.tiers["low"].latency_ns(0.5)


def test_same_seed_is_the_same_run_whatever_the_hash_seed():
    """Nothing depends on the order of a set or on a string's hash, also in another process."""
    code = f"import runpy; print(runpy.run_path({__file__!r})['digest'](1))"
    source = str(Path(headway.__file__).parent.parent)
    digests = [
        subprocess.run(
            [sys.executable, "-c", code],
            env={"PYTHONPATH": source, "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()
        for hash_seed in ("0", "12345")
    ]
    assert digests == [digest(1), digest(1)]
    assert digest(2) != digest(1)
