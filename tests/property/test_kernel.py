"""The kernel under any order of events: its laws after each step, one outcome a request at the end.

The machine plays the driver and the world behind it: it knows which replicas a worker holds and
which batches run, reports on them in any order, and now and then says what is stale, early or late.
"""

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from headway.core import (
    BatchFailed,
    BatchFinished,
    ConcludeLoad,
    ConcludeUnload,
    Dispatch,
    DrainStarted,
    LoadReplica,
    ModelLoadRequested,
    ModelUnloadRequested,
    PredictorTrained,
    ReplaceWorker,
    ReplicaLoaded,
    ReplicaLoadFailed,
    ReplicasLost,
    ReplicaStopped,
    ReplicaWarmed,
    RequestCancelled,
    SetTimer,
    TimerFired,
    UnloadReplica,
    check_invariants,
)
from headway.predict import Recipe, build_predictor
from headway.testing import a_device, a_kernel, a_model

MS = 1_000_000
MODELS = st.sampled_from(["a", "a", "a", "b"])
VERSIONS = st.sampled_from(["1", "2"])
DEVICES = st.sampled_from([("cpu:0",), ("cpu:1",), ("cpu:0", "cpu:1")])
PAUSES_NS = st.sampled_from([0, 0, 1, MS, 7 * MS, 40 * MS, 200 * MS])
SELDOM = st.sampled_from([False, False, False, True])
"""Whether something that turns everything over happens: else nothing would ever run for long."""
PREDICTORS = st.sampled_from([None, "rls", "headway"])
"""None for the one that kernel tests have when they say nothing."""
NOBODY = 10_000
REQUESTS = st.fixed_dictionaries(
    {
        "model": MODELS,
        "bucket": st.sampled_from(["x", "x", "y"]),
        "version": st.sampled_from(["", "", "", "1", "2"]),
        "rows": st.sampled_from([1, 1, 2, 3, 5]),
        "payload": st.integers(0, 120),
        "priority": st.integers(0, 2),
        "budget": st.sampled_from([-1, 0, MS, 10 * MS, 50 * MS, 200 * MS, 900 * MS]),
    }
)


class KernelMachine(RuleBasedStateMachine):
    """Random events for one kernel, and what must be true of its commands."""

    @initialize(policy=st.sampled_from(["fifo", "priority", "edf"]), kind=PREDICTORS)
    def start(self, policy, kind):
        """A kernel with little room, so that every limit is met."""
        devices = [a_device("cpu:0", lanes=[0, 0]), a_device("cpu:1")]
        predictor = None if kind is None else build_predictor(Recipe(kind=kind), devices)
        self.talk = a_kernel(
            policy,
            devices=devices,
            models=[],
            predictor=predictor,
            requests_max=6,
            bytes_max=400,
        )
        self.requests = {}
        self.loading = {}
        """Replica -> whether it is in memory and its warm-up runs."""
        self.warm = set()
        self.unloading = set()
        self.versions = {}
        self.batches = {}
        self.loads_open = 0
        self.unloads_open = set()
        for model in ("a", "b"):
            self.ask_for(model, "1", ("cpu:0", "cpu:1"), rows_max=4, linger_ms=0)
        self.make_ready()

    # What clients do.

    @rule(requests=st.lists(REQUESTS, min_size=1, max_size=6), pause_ns=PAUSES_NS)
    def arrive(self, requests, pause_ns):
        """Some requests come in at once."""
        self.talk.now_ns += pause_ns
        for what in requests:
            request_id = len(self.requests) + 1
            bucket = f"{what['bucket']} {what['version']}"
            self.requests[request_id] = what | {
                "bucket": bucket,
                "deadline_at_ns": self.talk.now_ns + what["budget"],
            }
            self.obey(self.talk.arrives(request_id, **(what | {"bucket": bucket})))

    @rule(which=st.integers(0, 9), pause_ns=PAUSES_NS)
    def cancel(self, which, pause_ns):
        """A client leaves: one of the latest, answered or not, or one that never was there."""
        self.tell(RequestCancelled(request_id=max(0, len(self.requests) - which)), pause_ns)

    @rule(count=st.integers(-1, 1 << 40), pause_ns=PAUSES_NS)
    def train(self, count, pause_ns):
        """A fit comes out of the background, whatever happens meanwhile."""
        self.tell(PredictorTrained(count=count), pause_ns)

    # What the executor reports.

    @precondition(lambda self: self.batches)
    @rule(which=st.integers(0, 9), pause_ns=PAUSES_NS)
    def finish(self, which, pause_ns):
        """Some batch ends, not always the oldest."""
        self.finish_batch(sorted(self.batches)[which % len(self.batches)], pause_ns)

    @precondition(lambda self: self.batches)
    @rule(which=st.integers(0, 9), pause_ns=PAUSES_NS)
    def fail(self, which, pause_ns):
        """Some batch raises."""
        batch_id = sorted(self.batches)[which % len(self.batches)]
        del self.batches[batch_id]
        self.tell(BatchFailed(batch_id=batch_id, code="executor_failed", message="?"), pause_ns)

    @precondition(lambda self: self.loading)
    @rule(which=st.integers(0, 9), fails=st.integers(0, 3), can_batch=st.integers(0, 4))
    def go_on_loading(self, which, fails, can_batch):
        """Some load takes its next step, or fails."""
        replica_id = sorted(self.loading)[which % len(self.loading)]
        if fails == 0:
            del self.loading[replica_id]
            self.tell(ReplicaLoadFailed(replica_id=replica_id, message="?"))
        else:
            self.load_step(replica_id, can_batch=can_batch > 0)

    @precondition(lambda self: self.unloading)
    @rule(which=st.integers(0, 9), pause_ns=PAUSES_NS)
    def stop(self, which, pause_ns):
        """Some unload ends."""
        self.stop_replica(sorted(self.unloading)[which % len(self.unloading)], pause_ns)

    @rule(
        picks=st.lists(st.integers(0, 9), min_size=1, max_size=3),
        pause_ns=PAUSES_NS,
        is_so=SELDOM,
    )
    def lose(self, picks, pause_ns, is_so):
        """A worker dies with some of the replicas, whatever they were doing."""
        held = sorted(self.held) if is_so else []
        lost = tuple(dict.fromkeys(held[pick % len(held)] for pick in picks)) if held else ()
        self.lose_replicas(lost, pause_ns)

    @rule(number=st.integers(1, 40), pause_ns=PAUSES_NS)
    def say_what_is_stale(self, number, pause_ns):
        """Reports about what has ended or never was change nothing but the time."""
        batch_id = number if number not in self.batches else NOBODY
        replica_id = number if number not in self.held else NOBODY
        for event in (
            BatchFinished(batch_id=batch_id),
            BatchFailed(batch_id=batch_id, code="internal", message="?"),
            ReplicaLoaded(replica_id=replica_id),
            ReplicaWarmed(replica_id=replica_id),
            ReplicaLoadFailed(replica_id=replica_id, message="?"),
            ReplicaStopped(replica_id=replica_id),
            ReplicasLost(replica_ids=(replica_id,), message="?"),
        ):
            commands = self.tell(event, pause_ns)
            assert [c for c in commands if not isinstance(c, SetTimer)] == []
            pause_ns = 0

    # What time does.

    @rule()
    def wake(self):
        """The timer fires when it was asked to, or as soon as it can."""
        armed_at_ns = self.talk.kernel.armed_at_ns
        if armed_at_ns is not None:
            self.tell(TimerFired(), max(0, armed_at_ns - self.talk.now_ns))

    @rule(pause_ns=PAUSES_NS)
    def wake_at_any_time(self, pause_ns):
        """The timer fires early, late, or without cause."""
        self.tell(TimerFired(), pause_ns)

    # What operators do.

    @rule(
        model=MODELS,
        version=VERSIONS,
        devices=DEVICES,
        rows_max=st.sampled_from([1, 4]),
        linger_ms=st.sampled_from([0, 20]),
        pause_ns=PAUSES_NS,
        is_so=SELDOM,
    )
    def load(self, model, version, devices, rows_max, linger_ms, pause_ns, is_so):
        """Someone wants a model, or another version of it, or other settings."""
        if is_so:
            self.ask_for(model, version, devices, rows_max, linger_ms, pause_ns)

    def ask_for(self, model, version, devices, rows_max, linger_ms, pause_ns=0):
        """Ask for a load."""
        params = a_model(
            model,
            version=version,
            devices=devices,
            batch_rows_max=rows_max,
            linger=linger_ms * MS,
            queue_requests_max=4,
            queue_size_max=300,
            hung_after="150ms",
        )
        self.loads_open += 1
        self.tell(ModelLoadRequested(model=params), pause_ns)

    @rule(model=MODELS, pause_ns=PAUSES_NS, is_so=SELDOM)
    def unload(self, model, pause_ns, is_so):
        """Someone wants a model gone."""
        if not is_so:
            return
        if model in self.talk.kernel.queues:
            self.unloads_open.add(model)
        self.tell(ModelUnloadRequested(model=model), pause_ns)

    @precondition(lambda self: len(self.requests) > 40)
    @rule(is_so=SELDOM)
    def drain(self, is_so):
        """The server is to go away."""
        if is_so:
            self.tell(DrainStarted())

    # The world.

    @property
    def held(self):
        """Replicas that some worker has or will have in memory."""
        return {*self.loading, *self.warm, *self.unloading}

    def tell(self, event, pause_ns=0):
        """Let time pass, tell the kernel, and do what it says."""
        self.talk.now_ns += pause_ns
        commands = self.talk.handle(event)
        self.obey(commands)
        return commands

    def obey(self, commands):
        """Carry commands out, and check that each can be."""
        for command in commands:
            match command:
                case Dispatch():
                    self.run(command)
                case LoadReplica():
                    assert command.replica_id not in self.held
                    self.loading[command.replica_id] = False
                    self.versions[command.replica_id] = (command.model, command.version)
                case UnloadReplica():
                    assert command.replica_id in self.warm | set(self.loading)
                    assert all(b.replica_id != command.replica_id for b in self.batches.values())
                    self.warm.discard(command.replica_id)
                    self.unloading.add(command.replica_id)
                case ReplaceWorker():
                    assert command.batch_id in self.batches
                case ConcludeLoad():
                    self.loads_open -= 1
                case ConcludeUnload():
                    self.unloads_open.remove(command.model)

    def run(self, command):
        """A batch may start only where it can run, with members that may share it."""
        assert command.replica_id in self.warm
        places = {(b.device, b.slot) for b in self.batches.values()}
        assert (command.device, command.slot) not in places
        model, version = self.versions[command.replica_id]
        members = [self.requests[request_id] for request_id in command.request_ids]
        assert {member["model"] for member in members} == {command.model} == {model}
        assert len({member["bucket"] for member in members}) == 1
        assert members[0]["version"] in ("", version)
        assert command.rows == sum(member["rows"] for member in members)
        rows_max = self.talk.kernel.queues[model].params.batch_rows_max
        assert len(members) == 1 or command.rows <= rows_max
        assert all(member["deadline_at_ns"] > self.talk.now_ns for member in members)
        assert not set(command.request_ids) & set(self.talk.outcomes)
        self.batches[command.batch_id] = command

    def finish_batch(self, batch_id, pause_ns=0):
        """Report that a batch has run; every member that has not ended is answered by it."""
        del self.batches[batch_id]
        started_at_ns = self.talk.kernel.fleet.batches[batch_id].started_at_ns
        execution_ns = self.talk.now_ns + pause_ns - started_at_ns
        self.tell(BatchFinished(batch_id=batch_id, execution_ns=execution_ns), pause_ns)

    def load_step(self, replica_id, *, can_batch=True):
        """Loaded first, then warm."""
        if not self.loading[replica_id]:
            self.loading[replica_id] = True
            self.tell(ReplicaLoaded(replica_id=replica_id, can_batch=can_batch))
            return
        del self.loading[replica_id]
        if replica_id not in self.unloading:
            self.warm.add(replica_id)
        self.tell(ReplicaWarmed(replica_id=replica_id))

    def stop_replica(self, replica_id, pause_ns=0):
        """An unload, also of what had not finished loading, ends."""
        self.unloading.remove(replica_id)
        self.loading.pop(replica_id, None)
        self.tell(ReplicaStopped(replica_id=replica_id), pause_ns)

    def lose_replicas(self, lost, pause_ns=0):
        """A worker is gone, with what it held and ran."""
        self.warm -= set(lost)
        self.unloading -= set(lost)
        for replica_id in lost:
            self.loading.pop(replica_id, None)
        self.batches = {i: b for i, b in self.batches.items() if b.replica_id not in lost}
        self.tell(ReplicasLost(replica_ids=lost, message="killed"), pause_ns)

    def make_ready(self):
        """Finish every load and unload."""
        while self.loading or self.unloading:
            for replica_id in sorted(self.unloading):
                self.stop_replica(replica_id)
            for replica_id in sorted(self.loading):
                if replica_id in self.loading:
                    self.load_step(replica_id)

    # The laws. `Dialogue` checks the kernel's own after every event.

    @invariant()
    def every_request_waits_runs_or_has_ended_once(self):
        """What has arrived is alive or has its one outcome."""
        alive = set(self.talk.kernel.ledger.live)
        assert not alive & set(self.talk.outcomes)
        assert alive | set(self.talk.outcomes) == set(self.requests)

    @invariant()
    def batches_are_those_that_run(self):
        """Kernel and world agree on what runs."""
        assert set(self.talk.kernel.fleet.batches) == set(self.batches)

    def teardown(self):
        """Left alone, everything comes to its end and nothing stays behind."""
        if not hasattr(self, "talk"):
            return
        kernel = self.talk.kernel
        for _ in range(1_000):
            self.make_ready()
            for batch_id in sorted(self.batches):
                if batch_id in self.batches:
                    self.finish_batch(batch_id)
            if not (kernel.ledger.live or self.held - self.warm) and not len(kernel.timers):
                break
            self.wake()
        assert set(self.talk.outcomes) == set(self.requests)
        assert (self.loads_open, self.unloads_open) == (0, set())
        assert (len(kernel.ledger.live), len(kernel.timers), kernel.room.payload_bytes) == (0, 0, 0)
        assert kernel.fleet.free_slots == kernel.fleet.slots
        check_invariants(kernel)


def test_kernel_keeps_its_laws_under_any_order_of_events():
    """Whatever happens in whatever order: no law breaks, and each request ends exactly once."""
    run_state_machine_as_test(
        KernelMachine,
        settings=settings(
            max_examples=60,
            stateful_step_count=60,
            suppress_health_check=[HealthCheck.too_slow],
        ),
    )
