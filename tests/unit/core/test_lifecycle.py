"""Models come, are replaced, crash, return and go, while requests wait and run."""

import pytest

from headway.core import (
    Complete,
    ConcludeLoad,
    ConcludeUnload,
    DrainStarted,
    Expire,
    Fail,
    LoadReplica,
    ModelLoadRequested,
    ModelUnloadRequested,
    Reject,
    RejectReason,
    ReplicaLoaded,
    ReplicaLoadFailed,
    ReplicasLost,
    ReplicaState,
    ReplicaStopped,
    ReplicaWarmed,
    RequestArrived,
    SetTimer,
    Stage,
    UnloadReplica,
)
from headway.testing import (
    a_device,
    a_dispatch,
    a_kernel,
    a_model,
    a_request,
    dispatched,
    without_timers,
)

MS = 1_000_000


def asks_to_load(**what):
    """The wish for a model."""
    return ModelLoadRequested(model=a_model(**what))


def a_load(replica_id, version="1", device="cpu:0"):
    """The order to load a replica of `m`."""
    return LoadReplica(replica_id=replica_id, model="m", version=version, device=device)


def concluded(version="1", error=None):
    """How a load of `m` ended."""
    return ConcludeLoad(model="m", version=version, error=error)


def lost(*replica_ids):
    """A worker died with these replicas."""
    return ReplicasLost(replica_ids=replica_ids, message="killed")


def a_failure(request_id, stage=Stage.WAITING, code="load_failed", message="no file"):
    """A request's end by an error."""
    return Fail(request_id=request_id, stage=stage, code=code, message=message)


def states(talk):
    """Where each replica stands."""
    return {i: r.state for i, r in talk.kernel.fleet.replicas.items()}


# --- first load -----------------------------------------------------------------------------------


def test_load_is_loaded_then_warmed_then_serves():
    """Work that waits for a load starts when the replica is warm, not before."""
    talk = a_kernel(models=[])
    assert talk.handle(asks_to_load()) == [a_load(1)]
    assert without_timers(talk.arrives(1)) == []
    assert talk.handle(ReplicaLoaded(replica_id=1)) == []
    assert without_timers(talk.handle(ReplicaWarmed(replica_id=1))) == [
        concluded(),
        a_dispatch(1, 1),
    ]


def test_load_on_two_devices_serves_when_both_are_warm():
    """A load is one step: all its replicas join at once."""
    talk = a_kernel(devices=[a_device("cpu:0"), a_device("cpu:1")], models=[])
    commands = talk.handle(asks_to_load(devices=["cpu:0", "cpu:1"]))
    assert commands == [a_load(1), a_load(2, device="cpu:1")]
    assert talk.warm(2) == []
    assert without_timers(talk.arrives(1)) == []
    assert without_timers(talk.warm(1)) == [concluded(), a_dispatch(1, 1)]
    assert dispatched(talk.arrives(2)) == [(2,)]


def test_load_failure_answers_who_waits():
    """A model that never came fails its waiting requests with the reason, and is forgotten."""
    talk = a_kernel(models=[])
    talk.handle(asks_to_load())
    talk.arrives(1)
    failed = ReplicaLoadFailed(replica_id=1, message="no file")
    assert without_timers(talk.handle(failed)) == [concluded(error="no file"), a_failure(1)]
    assert talk.handle(failed) == []
    assert (talk.kernel.queues, talk.kernel.fleet.replicas) == ({}, {})


def test_load_failure_on_one_device_abandons_the_load():
    """Half a load is none: the other replica is unloaded."""
    talk = a_kernel(devices=[a_device("cpu:0"), a_device("cpu:1")], models=[])
    talk.handle(asks_to_load(devices=["cpu:0", "cpu:1"]))
    talk.warm(1)
    commands = talk.handle(ReplicaLoadFailed(replica_id=2, message="no file"))
    assert commands == [concluded(error="no file"), UnloadReplica(replica_id=1)]
    talk.handle(ReplicaStopped(replica_id=1))
    assert talk.kernel.fleet.replicas == {}


def test_model_that_says_it_cannot_batch_is_believed():
    """What the loaded model says of its batch axis overrules what was asked for."""
    talk = a_kernel(models=[])
    talk.handle(asks_to_load(batch_rows_max=8))
    talk.warm(1, can_batch=False)
    for request_id in (1, 2, 3):
        talk.arrives(request_id)
    assert dispatched(talk.finishes(1)) == [(2,)]


def test_load_on_an_unknown_device_raises_and_changes_nothing():
    """A driver's mistake leaves no half-made model behind."""
    talk = a_kernel(models=[])
    with pytest.raises(KeyError):
        talk.kernel.handle(asks_to_load(devices=["cpu:0", "gpu:7"]), 0)
    assert (talk.kernel.queues, talk.kernel.fleet.replicas) == ({}, {})
    assert talk.handle(asks_to_load()) == [a_load(1)]


def test_stale_reports_of_replicas_are_ignored():
    """A report about a replica that is gone, or further on, changes nothing."""
    talk = a_kernel()
    for event in (
        ReplicaLoaded(replica_id=1),
        ReplicaWarmed(replica_id=1),
        ReplicaLoadFailed(replica_id=1, message="?"),
        ReplicaStopped(replica_id=1),
        ReplicaLoaded(replica_id=9),
        ReplicaWarmed(replica_id=9),
        ReplicaLoadFailed(replica_id=9, message="?"),
        ReplicaStopped(replica_id=9),
        lost(9),
        ModelUnloadRequested(model="other"),
    ):
        assert talk.handle(event) == []
    assert states(talk) == {1: ReplicaState.READY}


# --- reload ---------------------------------------------------------------------------------------


def test_reload_serves_from_the_old_until_the_new_is_warm():
    """New loaded and warmed, then switched, then the old drained: no gap and no lost request."""
    talk = a_kernel()
    talk.arrives(1)
    assert talk.handle(asks_to_load(version="2")) == [a_load(2, "2")]
    talk.arrives(2)
    assert without_timers(talk.finishes(1))[1:] == [a_dispatch(2, 2)]
    talk.handle(ReplicaLoaded(replica_id=2))
    assert talk.handle(ReplicaWarmed(replica_id=2)) == [concluded("2")]
    talk.arrives(3)
    commands = without_timers(talk.finishes(2))
    assert commands[1:] == [UnloadReplica(replica_id=1), a_dispatch(3, 3, replica_id=2)]
    assert talk.handle(ReplicaStopped(replica_id=1)) == []
    assert states(talk) == {2: ReplicaState.READY}


def test_reload_unloads_an_idle_old_replica_at_once():
    """What runs nothing and is waited for by nobody goes in the step of the switch."""
    talk = a_kernel()
    talk.handle(asks_to_load(version="2"))
    assert talk.warm(2) == [concluded("2"), UnloadReplica(replica_id=1)]


def test_reload_serves_the_waiting_work_of_a_pinned_version_first():
    """Who asked for the old version and was admitted still gets it, then the old one goes."""
    talk = a_kernel()
    talk.arrives(1)
    talk.arrives(2, version="1")
    talk.arrives(3)
    talk.handle(asks_to_load(version="2"))
    assert talk.warm(2) == [concluded("2")]
    assert talk.arrives(4, version="1")[0].reason is RejectReason.MODEL_NOT_FOUND
    assert without_timers(talk.finishes(1))[1:] == [a_dispatch(2, 2)]
    assert without_timers(talk.finishes(2))[1:] == [
        UnloadReplica(replica_id=1),
        a_dispatch(3, 3, replica_id=2),
    ]


def test_last_pinned_request_that_leaves_lets_the_old_replica_go():
    """An expiry ends the wait for the old version just as a batch does."""
    talk = a_kernel(models=["m", "n"])
    talk.arrives(1, model="n")
    talk.arrives(2, version="1", budget="10ms")
    talk.handle(asks_to_load(version="2"))
    talk.warm(3)
    commands = without_timers(talk.wakes())
    assert [type(c) for c in commands] == [Expire, UnloadReplica]


def test_pinned_version_outlives_a_second_reload():
    """Two reloads in a row do not strand who waits for the first version."""
    talk = a_kernel()
    talk.arrives(1)
    talk.arrives(2, version="1")
    talk.handle(asks_to_load(version="2"))
    talk.warm(2)
    talk.handle(asks_to_load(version="3"))
    talk.warm(3)
    assert dispatched(talk.finishes(1)) == [(2,)]


def test_reload_of_the_same_version_sends_pinned_work_to_the_new_replica():
    """The old copy of a version goes, though requests for that version wait on."""
    talk = a_kernel()
    talk.arrives(1)
    talk.arrives(2, version="1")
    talk.handle(asks_to_load())
    talk.warm(2)
    assert without_timers(talk.finishes(1))[1:] == [
        UnloadReplica(replica_id=1),
        a_dispatch(2, 2, replica_id=2),
    ]


def test_pinned_work_is_never_given_to_a_replica_that_did_not_finish_loading():
    """A load that is superseded while it loads serves nobody; who waits for it is told."""
    talk = a_kernel()
    talk.handle(asks_to_load(version="2"))
    talk.arrives(1)
    talk.arrives(2, version="2")
    commands = talk.handle(asks_to_load(version="3"))
    gone = a_failure(2, code="model_not_found", message="version `2` is no longer served")
    assert commands == [
        concluded("2", "superseded by a newer load of the same model"),
        a_load(3, "3"),
        gone,
        UnloadReplica(replica_id=2),
    ]


def test_reload_failure_keeps_the_old_one_serving():
    """A reload that fails changes nothing for anybody but who asked."""
    talk = a_kernel()
    talk.handle(asks_to_load(version="2"))
    talk.arrives(1)
    assert talk.handle(ReplicaLoadFailed(replica_id=2, message="bad")) == [concluded("2", "bad")]
    assert [type(c) for c in without_timers(talk.finishes(1))] == [Complete]
    assert dispatched(talk.arrives(2)) == [(2,)]


def test_reload_settings_hold_for_what_waits():
    """A shorter linger takes hold at the switch, not after the old one is over."""
    talk = a_kernel(models=[a_model(batch_rows_max=4, linger="10s")])
    talk.arrives(1, budget="60s")
    talk.handle(asks_to_load(version="2", batch_rows_max=4, linger="0s"))
    assert dispatched(talk.warm(2)) == [(1,)]


def test_reload_settings_leave_due_work_due():
    """What may start already is not made to linger by a reload."""
    talk = a_kernel(models=[a_model(batch_rows_max=4)])
    talk.arrives(1, budget="60s")
    talk.arrives(2, budget="60s")
    talk.handle(asks_to_load(version="2", batch_rows_max=4, linger="10s"))
    talk.warm(2)
    assert dispatched(talk.finishes(1)) == [(2,)]


def test_late_report_of_a_superseded_load_is_ignored():
    """A replica that drains before it is loaded is left to its unload."""
    talk = a_kernel(models=[])
    talk.handle(asks_to_load(version="1"))
    talk.handle(asks_to_load(version="2"))
    assert talk.warm(1) == []
    assert talk.warm(2) == [concluded("2")]
    assert talk.handle(ReplicaStopped(replica_id=1)) == []
    assert states(talk) == {2: ReplicaState.READY}


# --- unload ---------------------------------------------------------------------------------------


def test_unload_finishes_what_waits_and_runs_first():
    """Closing admits nothing, ends what was admitted, then frees the memory, then says so."""
    talk = a_kernel()
    talk.arrives(1)
    talk.arrives(2)
    assert talk.handle(ModelUnloadRequested(model="m")) == []
    assert talk.arrives(3)[0].reason is RejectReason.MODEL_NOT_FOUND
    assert dispatched(talk.finishes(1)) == [(2,)]
    assert without_timers(talk.finishes(2))[1:] == [UnloadReplica(replica_id=1)]
    assert talk.handle(ReplicaStopped(replica_id=1)) == [ConcludeUnload(model="m")]
    assert talk.kernel.queues == {}


def test_unload_of_an_idle_model_is_at_once():
    """Nothing waits, nothing runs: the replica is freed in the same step."""
    talk = a_kernel()
    unload = ModelUnloadRequested(model="m")
    assert talk.handle(unload) == [UnloadReplica(replica_id=1)]
    assert talk.handle(unload) == []
    assert talk.handle(ReplicaStopped(replica_id=1)) == [ConcludeUnload(model="m")]


def test_unload_while_loading_concludes_both():
    """Who asked for the load and who asked for the unload are both told."""
    talk = a_kernel(models=[])
    talk.handle(asks_to_load())
    talk.arrives(1)
    commands = without_timers(talk.handle(ModelUnloadRequested(model="m")))
    gone = a_failure(1, code="model_not_found", message="the model was unloaded")
    why = "the model was unloaded while it was loading"
    assert commands == [concluded(error=why), gone, UnloadReplica(replica_id=1)]
    assert talk.handle(ReplicaStopped(replica_id=1)) == [ConcludeUnload(model="m")]


def test_unload_of_a_lost_model_waits_for_nothing():
    """A replica whose worker is dead holds no memory to free."""
    talk = a_kernel()
    talk.handle(lost(1))
    assert talk.handle(ModelUnloadRequested(model="m")) == [ConcludeUnload(model="m")]
    assert without_timers(talk.wakes()) == []


def test_hopeless_last_request_of_a_closing_model_does_not_unload_under_a_batch():
    """The replica that a batch is about to take is not unloaded in the same step."""
    talk = a_kernel(models=[a_model(batch_rows_max=4)])
    talk.arrives(1)
    talk.finishes(1, at="50ms")
    talk.arrives(2)
    talk.arrives(3)
    talk.arrives(4, budget="80ms")
    talk.handle(ModelUnloadRequested(model="m"))
    commands = without_timers(talk.finishes(2, at="110ms"))
    assert [type(c).__name__ for c in commands[1:]] == ["Expire", "Dispatch"]
    assert without_timers(talk.finishes(3, at="160ms"))[1:] == [UnloadReplica(replica_id=1)]


def test_load_overtakes_an_unload_and_ends_it_at_the_switch():
    """Who asked for the unload is answered too, and the old replica drains as in any reload."""
    talk = a_kernel()
    talk.arrives(1)
    talk.arrives(2)
    talk.handle(ModelUnloadRequested(model="m"))
    assert talk.handle(asks_to_load(version="2")) == [a_load(2, "2")]
    assert without_timers(talk.arrives(3)) == []
    talk.handle(ReplicaLoaded(replica_id=2))
    assert talk.handle(ReplicaWarmed(replica_id=2)) == [
        ConcludeUnload(model="m"),
        concluded("2"),
    ]
    assert without_timers(talk.finishes(1))[1:] == [
        UnloadReplica(replica_id=1),
        a_dispatch(2, 2, replica_id=2),
    ]


def test_unload_goes_on_when_the_load_that_overtook_it_fails():
    """An unload is suspended by a load, never forgotten."""
    talk = a_kernel()
    talk.arrives(1)
    talk.handle(ModelUnloadRequested(model="m"))
    talk.handle(asks_to_load(version="2"))
    commands = talk.handle(ReplicaLoadFailed(replica_id=2, message="bad"))
    assert commands == [concluded("2", "bad")]
    talk.finishes(1)
    assert talk.handle(ReplicaStopped(replica_id=1)) == [ConcludeUnload(model="m")]


# --- losses ---------------------------------------------------------------------------------------


def test_worker_loss_fails_only_its_batches():
    """What runs elsewhere goes on, what waits is served by who is left."""
    talk = a_kernel(
        devices=[a_device("cpu:0"), a_device("cpu:1")],
        models=[a_model(devices=["cpu:0", "cpu:1"])],
    )
    talk.arrives(1)
    talk.arrives(2)
    talk.arrives(3)
    commands = talk.handle(lost(1))
    assert without_timers(commands) == [a_failure(1, Stage.RUNNING, "worker_lost", "killed")]
    assert without_timers(talk.finishes(2))[1:] == [a_dispatch(3, 3, replica_id=2, device="cpu:1")]


def test_lost_replica_returns_and_serves_what_waited():
    """After the pause the replica is loaded again and takes the work that waited for it."""
    talk = a_kernel()
    talk.arrives(1)
    talk.arrives(2, budget="10s")
    assert SetTimer(at_ns=100 * MS) in talk.handle(lost(1))
    assert without_timers(talk.wakes()) == [a_load(1)]
    assert dispatched(talk.warm(1)) == [(2,)]


def test_back_off_doubles_with_each_loss_and_resets_with_a_batch():
    """100 ms, 200 ms, 400 ms … up to the limit; a batch that finishes starts it anew."""
    talk = a_kernel(restart_delay_ns_max=500 * MS)
    delays_ns = []
    for _ in range(4):
        talk.handle(lost(1))
        delays_ns.append(talk.kernel.timers.head_at_ns() - talk.now_ns)
        talk.wakes()
        talk.warm(1)
    assert delays_ns == [100 * MS, 200 * MS, 400 * MS, 500 * MS]
    talk.arrives(1)
    talk.finishes(1)
    talk.handle(lost(1))
    assert talk.kernel.timers.head_at_ns() - talk.now_ns == 100 * MS


def test_replica_that_has_served_is_never_given_up():
    """An idle model whose worker dies often, by another's fault, comes back every time."""
    talk = a_kernel()
    for _ in range(10):
        talk.handle(lost(1))
        assert without_timers(talk.wakes()) == [a_load(1)]
        talk.warm(1)
    assert dispatched(talk.arrives(1)) == [(1,)]


def test_replica_that_has_served_is_loaded_again_when_a_restart_fails():
    """A load that fails after a loss is tried again later, with the longer pause."""
    talk = a_kernel()
    talk.handle(lost(1))
    talk.wakes()
    failed = ReplicaLoadFailed(replica_id=1, message="device is busy")
    assert talk.handle(failed) == [SetTimer(at_ns=300 * MS)]
    assert talk.wakes() == [a_load(1)]


def test_worker_that_dies_on_every_load_is_given_up():
    """A model that kills its worker three times before it ever served is not loaded again."""
    talk = a_kernel(models=[])
    talk.handle(asks_to_load())
    talk.arrives(1, budget="10s")
    for _ in range(2):
        assert without_timers(talk.handle(lost(1))) == []
        assert without_timers(talk.wakes()) == [a_load(1)]
    end = a_failure(1, message="killed")
    assert without_timers(talk.handle(lost(1))) == [concluded(error="killed"), end]
    assert (talk.kernel.queues, talk.kernel.fleet.replicas) == ({}, {})
    assert without_timers(talk.wakes(at="20s")) == []


def test_model_that_waits_for_its_load_is_not_blamed_for_another():
    """A worker loads one model after another; only the one being loaded can have killed it."""
    talk = a_kernel(models=[])
    talk.handle(asks_to_load())
    talk.handle(asks_to_load(name="n"))
    for _ in range(2):
        talk.handle(lost(1, 2))
        talk.wakes()
    assert without_timers(talk.handle(lost(1, 2))) == [concluded(error="killed")]
    assert list(talk.kernel.queues) == ["n"]
    assert [c.replica_id for c in without_timers(talk.wakes())] == [2]


def test_reload_whose_worker_always_dies_keeps_the_old_one():
    """Giving a reload up is no loss for the model that serves."""
    talk = a_kernel(
        devices=[a_device("cpu:0"), a_device("cpu:1")],
    )
    talk.handle(asks_to_load(version="2", devices=["cpu:1"]))
    for _ in range(2):
        talk.handle(lost(2))
        talk.wakes()
    assert without_timers(talk.handle(lost(2))) == [concluded("2", "killed")]
    assert dispatched(talk.arrives(1)) == [(1,)]


def test_both_replicas_of_a_load_lost_at_once_are_given_up_once():
    """One event that takes a load's last hope twice ends it once."""
    talk = a_kernel(models=[])
    talk.handle(asks_to_load(devices=["cpu:0", "cpu:0"]))
    talk.arrives(1, budget="10s")
    for _ in range(2):
        talk.handle(lost(1, 2))
        talk.wakes()
    commands = without_timers(talk.handle(lost(1, 2)))
    assert commands == [concluded(error="killed"), a_failure(1, message="killed")]


def test_loss_told_twice_gives_up_a_lost_sibling_only_once():
    """A second report that names a replica which is lost already does no harm."""
    talk = a_kernel(models=[])
    talk.handle(asks_to_load(devices=["cpu:0", "cpu:0"]))
    for _ in range(2):
        talk.handle(lost(1))
        talk.wakes()
    talk.handle(lost(2))
    assert without_timers(talk.handle(lost(1, 2, 1))) == [concluded(error="killed")]
    assert talk.kernel.fleet.replicas == {}


def test_loss_told_twice_costs_one_step_of_back_off():
    """A duplicate report of a death does not lengthen the pause."""
    talk = a_kernel()
    talk.handle(lost(1))
    assert talk.handle(lost(1)) == []
    assert without_timers(talk.wakes(at="100ms")) == [a_load(1)]


def test_loss_during_load_starts_the_load_again():
    """A worker that dies while a model loads does not end the load."""
    talk = a_kernel(models=[])
    talk.handle(asks_to_load())
    talk.handle(ReplicaLoaded(replica_id=1))
    talk.handle(lost(1))
    assert talk.wakes() == [a_load(1)]
    assert talk.warm(1) == [concluded()]


def test_loss_of_a_draining_replica_ends_its_drain():
    """A replica that was to go and whose worker died is gone."""
    talk = a_kernel()
    talk.arrives(1)
    talk.handle(ModelUnloadRequested(model="m"))
    commands = without_timers(talk.handle(lost(1)))
    failure = a_failure(1, Stage.RUNNING, "worker_lost", "killed")
    assert commands == [failure, ConcludeUnload(model="m")]


def test_loss_of_the_last_of_a_pinned_version_answers_who_waits():
    """Who waits for a version that died is told at once, not at its deadline."""
    talk = a_kernel()
    talk.arrives(1)
    talk.arrives(2, version="1")
    talk.handle(asks_to_load(version="2"))
    talk.warm(2)
    gone = a_failure(2, code="model_not_found", message="version `1` is no longer served")
    assert gone in talk.handle(lost(1))


def test_reload_while_the_old_one_is_lost_takes_over():
    """A lost replica that is replaced never comes back."""
    talk = a_kernel()
    talk.handle(lost(1))
    talk.handle(asks_to_load(version="2"))
    assert talk.warm(2) == [concluded("2")]
    assert without_timers(talk.wakes()) == []
    assert states(talk) == {2: ReplicaState.READY}


def test_lost_model_admits_work_while_it_comes_back():
    """A loss is short: requests wait through it."""
    talk = a_kernel()
    talk.handle(lost(1))
    assert without_timers(talk.arrives(1)) == []


def test_model_that_drains_away_entirely_is_unavailable():
    """A queue without a replica that could ever serve refuses instead of letting wait."""
    talk = a_kernel()
    talk.kernel.fleet.replicas[1].state = ReplicaState.DRAINING
    (command,) = talk.kernel.handle(RequestArrived(request=a_request(1)), 0)
    assert command == Reject(
        request_id=1, reason=RejectReason.MODEL_UNAVAILABLE, retry_after_ns=10 * MS
    )


def test_drain_still_brings_lost_replicas_back():
    """Admitted work is finished even when a worker dies while the server goes."""
    talk = a_kernel()
    talk.arrives(1)
    talk.arrives(2, budget="10s")
    talk.handle(DrainStarted())
    talk.handle(lost(1))
    talk.wakes()
    assert dispatched(talk.warm(1)) == [(2,)]
