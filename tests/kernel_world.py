"""The world of one kernel, to be played with: clients, workers, operators and time.

Plays the driver and the world behind it: it knows which replicas a worker holds and which batches
run, and obeys what it is told only where that can be done. What happens next is said by a test.
"""

from dataclasses import replace

from tests.swarm_policy import Accounts

from headway.core import (
    BatchFailed,
    BatchFinished,
    Complete,
    ConcludeLoad,
    ConcludeUnload,
    Dispatch,
    DrainStarted,
    KeepSegment,
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
from headway.testing import MeanPredictor, a_device, a_kernel, a_model

MS = 1_000_000
NOBODY = 10_000


class World:
    """One kernel, what there is around it, and what must be true of its commands.

    Invariants: after each step the kernel and the world agree on what runs, and on who has ended.
    """

    may_follow = (SetTimer,)
    """What may be said upon news that is stale, since time has passed."""

    def begin(self, make, kind, *, can_split):
        """A kernel with little room, so that every limit is met.

        Args:
            make: a policy from its predictor.
            kind: of the predictor; None for the one that kernel tests have.
            can_split: whether rows of a request may run apart at first.
        """
        devices = [a_device("cpu:0", lanes=[0, 0]), a_device("cpu:1")]
        predictor = MeanPredictor()
        if kind is not None:
            predictor = build_predictor(Recipe(kind=kind), devices)
        policy = make(predictor)
        self.accounts = Accounts(policy)
        self.talk = a_kernel(
            replace(policy, feedback=self.accounts),
            devices=devices,
            models=[],
            requests_max=6,
            bytes_max=400,
        )
        self.listen()
        self.requests = {}
        self.parts = {}
        """Request -> rows and load of each segment that the driver keeps for it."""
        self.load_of = {}
        """Replica -> the load it belongs to."""
        self.loads_count = 0
        self.loading = {}
        """Replica -> whether it is in memory and its warm-up runs."""
        self.warm = set()
        self.unloading = set()
        self.versions = {}
        self.batches = {}
        self.service_ns = 0
        """Of all batches that have ended."""
        self.loads_open = 0
        self.unloads_open = set()
        for model in ("a", "b"):
            self.ask_for(model, "1", ("cpu:0", "cpu:1"), rows_max=4, can_split=can_split)
        self.make_ready()

    def listen(self):
        """For who wants to see each step: the kernel is there, and nothing has happened yet."""

    # What clients do.

    def arrive(self, requests, pause_ns):
        """Some requests come in at once."""
        self.talk.now_ns += pause_ns
        for what in requests:
            request_id = len(self.requests) + 1
            bucket = f"{what['bucket']} {what['version']}"
            self.requests[request_id] = what | {
                "bucket": bucket,
                "expires_at_ns": self.talk.now_ns + what["budget"] + what["late"],
            }
            self.obey(self.talk.arrives(request_id, **(what | {"bucket": bucket})))
            assert self.accounts.ran_ns == self.service_ns

    def cancel(self, which, pause_ns):
        """A client leaves: one of the latest, answered or not, or one that never was there."""
        self.tell(RequestCancelled(request_id=max(0, len(self.requests) - which)), pause_ns)

    def train(self, count, pause_ns):
        """A fit comes out of the background, whatever happens meanwhile."""
        self.tell(PredictorTrained(count=count), pause_ns)

    # What the executor reports.

    def finish(self, picks, pause_ns):
        """Some batches end one after the other, not always the oldest."""
        for which in picks:
            if self.batches:
                self.finish_batch(sorted(self.batches)[which % len(self.batches)], pause_ns)

    def fail(self, which, pause_ns):
        """Some batch raises."""
        batch_id = sorted(self.batches)[which % len(self.batches)]
        del self.batches[batch_id]
        self.tell(BatchFailed(batch_id=batch_id, code="executor_failed", message="?"), pause_ns)

    def go_on_loading(self, which, *, fails, can_batch):
        """Some load takes its next step, or fails."""
        replica_id = sorted(self.loading)[which % len(self.loading)]
        if fails:
            del self.loading[replica_id]
            self.tell(ReplicaLoadFailed(replica_id=replica_id, message="?"))
        else:
            self.load_step(replica_id, can_batch=can_batch)

    def stop(self, which, pause_ns):
        """Some unload ends."""
        self.stop_replica(sorted(self.unloading)[which % len(self.unloading)], pause_ns)

    def lose(self, picks, pause_ns):
        """A worker dies with some of the replicas, whatever they were doing."""
        held = sorted(self.held)
        lost = tuple(dict.fromkeys(held[pick % len(held)] for pick in picks)) if held else ()
        self.lose_replicas(lost, pause_ns)

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
            assert [c for c in commands if not isinstance(c, self.may_follow)] == []
            pause_ns = 0

    # What time does.

    def wake(self):
        """The timer fires when it was asked to, or as soon as it can."""
        armed_at_ns = self.talk.kernel.armed_at_ns
        if armed_at_ns is not None:
            self.tell(TimerFired(), max(0, armed_at_ns - self.talk.now_ns))

    def wake_at_any_time(self, pause_ns):
        """The timer fires early, late, or without cause."""
        self.tell(TimerFired(), pause_ns)

    # What operators do.

    def ask_for(
        self,
        model,
        version,
        devices,
        *,
        rows_max,
        can_split,
        linger_ms=0,
        segments_max=8,
        pause_ns=0,
    ):
        """Someone wants a model, or another version of it, or other settings."""
        params = a_model(
            model,
            version=version,
            devices=devices,
            batch_rows_max=rows_max,
            can_split=can_split,
            segments_max=segments_max,
            linger=linger_ms * MS,
            queue_requests_max=4,
            queue_size_max=300,
            hung_after="150ms",
        )
        self.loads_open += 1
        self.loads_count += 1
        self.tell(ModelLoadRequested(model=params), pause_ns)

    def unload(self, model, pause_ns):
        """Someone wants a model gone."""
        if model in self.talk.kernel.queues:
            self.unloads_open.add(model)
        self.tell(ModelUnloadRequested(model=model), pause_ns)

    def drain(self):
        """The server is to go away."""
        self.tell(DrainStarted())

    # The world.

    @property
    def held(self):
        """Replicas that some worker has or will have in memory."""
        return {*self.loading, *self.warm, *self.unloading}

    def tell(self, event, pause_ns=0):
        """Let time pass, tell the kernel, and do what it says.

        What the policy is told of the time of batches adds up to what those took that ended.
        """
        self.talk.now_ns += pause_ns
        running = dict(self.talk.kernel.fleet.batches)
        commands = self.talk.handle(event)
        for batch_id in running.keys() - self.talk.kernel.fleet.batches.keys():
            self.service_ns += self.talk.now_ns - running[batch_id].started_at_ns
        assert self.accounts.ran_ns == self.service_ns
        self.obey(commands)
        return commands

    def obey(self, commands):
        """Carry commands out, and check that each can be."""
        for command in commands:
            match command:
                case Dispatch():
                    self.run(command)
                case KeepSegment():
                    self.keep(command)
                case Complete():
                    self.answer(command)
                case LoadReplica():
                    assert command.replica_id not in self.held
                    self.loading[command.replica_id] = False
                    self.versions[command.replica_id] = (command.model, command.version)
                    self.load_of.setdefault(command.replica_id, self.loads_count)
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
        params = self.talk.kernel.queues[model].params
        if command.is_segment:
            self.cut(command, members)
        else:
            assert command.first_row == 0
            assert command.rows == sum(member["rows"] for member in members)
        assert len(members) == 1 or (params.can_batch and command.rows <= params.batch_rows_max)
        assert not params.can_split or command.rows <= params.batch_rows_max
        assert all(member["expires_at_ns"] > self.talk.now_ns for member in members)
        assert not set(command.request_ids) & set(self.talk.outcomes)
        running = {i for batch in self.batches.values() for i in batch.request_ids}
        assert not set(command.request_ids) & running
        self.batches[command.batch_id] = command
        if command.first_row == 0:
            self.parts.update(dict.fromkeys(command.request_ids, ()))

    def cut(self, command, members):
        """A segment has one request, and goes on where the last of the same load ended."""
        ((request_id,), (member,)) = command.request_ids, members
        assert 0 < command.rows < member["rows"]
        assert command.first_row + command.rows <= member["rows"]
        if command.first_row > 0:
            kept = self.parts[request_id]
            assert command.first_row == sum(rows for rows, _ in kept)
            assert {load for _, load in kept} == {self.load_of[command.replica_id]}

    def keep(self, command):
        """The driver keeps what a segment gave."""
        batch = self.ended
        assert batch.batch_id == command.batch_id
        assert batch.request_ids == (command.request_id,)
        part = (batch.rows, self.load_of[batch.replica_id])
        self.parts[command.request_id] += (part,)

    def answer(self, command):
        """An answer has all rows of its request, each once, all of one load."""
        assert self.ended.batch_id == command.batch_id
        if self.ended.is_segment:
            parts = (*self.parts[command.request_id], (self.ended.rows, 0))
            assert sum(rows for rows, _ in parts) == self.requests[command.request_id]["rows"]

    def finish_batch(self, batch_id, pause_ns=0):
        """Report that a batch has run; every member that has not ended is answered by it."""
        self.ended = self.batches.pop(batch_id)
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

    def check(self):
        """What has arrived is alive or has its one outcome, and the policy was told of it."""
        kernel, outcomes = self.talk.kernel, self.talk.outcomes
        alive = set(kernel.ledger.live)
        assert not alive & set(outcomes)
        assert alive | set(outcomes) == set(self.requests)
        assert set(self.accounts.ends) == set(outcomes)
        assert alive <= self.accounts.admitted_ids <= set(self.requests)
        met = {i for i, is_met in self.accounts.ends.items() if is_met}
        assert met <= {i for i, c in outcomes.items() if isinstance(c, Complete)}
        assert set(kernel.fleet.batches) == set(self.batches)

    def end(self):
        """Left alone, everything comes to its end and nothing stays behind."""
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
        assert not any(self.accounts.parts.values())
        self.check()
        check_invariants(kernel)
