"""What runs together, when it starts, and how large it may be."""

from headway.core import BatchFailed, Complete, Fail, RequestCancelled, SetTimer, SlotClass, Stage
from headway.predict import Profile
from headway.testing import MeanPredictor, a_dispatch, a_kernel, a_model, dispatched, without_timers

MS = 1_000_000


def test_whatever_waits_when_a_slot_frees_is_batched():
    """Four that wait run as one batch of four, with no linger set (triton#3624)."""
    talk = a_kernel(models=[a_model(batch_rows_max=8)])
    for request_id in range(1, 6):
        talk.arrives(request_id)
    assert without_timers(talk.finishes(1, at="3ms")) == [
        Complete(request_id=1, batch_id=1, batch_rows=1, queue_delay_ns=0, service_ns=3 * MS),
        a_dispatch(2, 2, 3, 4, 5, expected="3ms"),
    ]


def test_batch_is_never_larger_than_the_model_takes():
    """Rows count, not requests, and what does not fit is the head of the next batch."""
    talk = a_kernel(models=[a_model(batch_rows_max=4)])
    talk.arrives(1)
    talk.arrives(2, rows=3)
    talk.arrives(3, rows=2)
    talk.arrives(4, rows=1)
    assert dispatched(talk.finishes(1)) == [(2,)]
    assert dispatched(talk.finishes(2)) == [(3, 4)]


def test_order_is_kept_when_the_next_does_not_fit():
    """A small request does not overtake a large one to fill a batch."""
    talk = a_kernel(models=[a_model(batch_rows_max=4)])
    talk.arrives(1)
    talk.arrives(2, rows=2)
    talk.arrives(3, rows=4)
    talk.arrives(4, rows=2)
    assert dispatched(talk.finishes(1)) == [(2,)]


def test_model_without_a_batch_axis_runs_one_request_a_batch():
    """However many wait, each is a batch of its own."""
    talk = a_kernel(models=[a_model(batch_rows_max=8, can_batch=False)])
    for request_id in (1, 2, 3):
        talk.arrives(request_id)
    assert dispatched(talk.finishes(1)) == [(2,)]


def test_different_shapes_never_share_a_batch():
    """Buckets split batches; the older head goes first (triton#6937, mlserver#916)."""
    talk = a_kernel(models=[a_model(batch_rows_max=8)])
    talk.arrives(1, bucket="3x224x224")
    talk.arrives(2, bucket="3x64x64")
    talk.arrives(3, bucket="3x224x224")
    talk.arrives(4, bucket="3x64x64")
    assert dispatched(talk.finishes(1)) == [(2, 4)]
    assert dispatched(talk.finishes(2)) == [(3,)]


def test_models_share_slots_in_one_order():
    """A slot goes to whoever is first over all models."""
    talk = a_kernel(models=["m", "n"])
    talk.arrives(1)
    talk.arrives(2, model="n")
    talk.arrives(3)
    assert dispatched(talk.finishes(1)) == [(2,)]


def test_every_free_slot_is_used():
    """Two slots run two batches at once, the second on the lane that is idle."""
    talk = a_kernel(slots=2)
    assert without_timers(talk.arrives(1)) == [a_dispatch(1, 1)]
    assert without_timers(talk.arrives(2)) == [a_dispatch(2, 2, slot=1)]
    assert without_timers(talk.arrives(3)) == []


def test_linger_waits_for_company_until_it_is_over():
    """A lone request waits its linger, then starts alone."""
    talk = a_kernel(models=[a_model(batch_rows_max=4, linger="5ms")])
    assert talk.arrives(1, at="1ms") == [SetTimer(at_ns=6 * MS)]
    assert without_timers(talk.wakes()) == [a_dispatch(1, 1)]


def test_linger_counts_from_the_oldest():
    """A later arrival does not start the linger again."""
    talk = a_kernel(models=[a_model(batch_rows_max=4, linger="5ms")])
    talk.arrives(1, at="1ms")
    assert talk.arrives(2, at="3ms") == []
    assert without_timers(talk.wakes(at="6ms")) == [a_dispatch(1, 1, 2)]


def test_full_batch_does_not_linger():
    """The last row that fits starts the batch at once."""
    talk = a_kernel(models=[a_model(batch_rows_max=2, linger="5ms")])
    talk.arrives(1)
    assert without_timers(talk.arrives(2, at="1ms")) == [a_dispatch(1, 1, 2)]


def test_model_without_a_batch_axis_does_not_linger():
    """Waiting for company that cannot come would be waste."""
    talk = a_kernel(models=[a_model(batch_rows_max=8, can_batch=False, linger="5ms")])
    assert without_timers(talk.arrives(1)) == [a_dispatch(1, 1)]


def test_linger_ends_at_the_latest_safe_start():
    """Waiting for company must not itself cause a miss."""
    predictor = MeanPredictor({"m": Profile({4: 20 * MS})})
    model = a_model(batch_rows_max=4, linger="1s")
    talk = a_kernel(models=[model], predictor=predictor)
    talk.arrives(1, budget="900ms")
    assert talk.arrives(2, budget="50ms") == [SetTimer(at_ns=30 * MS)]
    assert without_timers(talk.wakes()) == [a_dispatch(1, 1, 2, expected="20ms")]


def test_latest_safe_start_forgets_who_has_left():
    """A tight deadline that is gone hurries nobody: the rest lingers its own time."""
    predictor = MeanPredictor({"m": Profile({4: 20 * MS})})
    model = a_model(batch_rows_max=4, linger="100ms")
    talk = a_kernel(models=[model], predictor=predictor)
    talk.arrives(1, budget="30ms")
    talk.arrives(2, budget="900ms")
    talk.handle(RequestCancelled(request_id=1))
    talk.arrives(3, at="5ms", budget="900ms")
    assert dispatched(talk.wakes(at="99ms")) == []
    assert dispatched(talk.wakes()) == [(2, 3)]


def test_what_is_left_over_lingers_anew():
    """The rest of a full bucket waits for company by its own age and deadline."""
    predictor = MeanPredictor({"m": Profile({2: 20 * MS})})
    model = a_model(batch_rows_max=2, linger="50ms")
    talk = a_kernel(slots=2, models=[model, "n"], predictor=predictor)
    talk.arrives(1, model="n")
    talk.arrives(2, model="n")
    talk.arrives(3, budget="60ms")
    talk.arrives(4, at="1ms", budget="60ms")
    talk.arrives(5, at="2ms", budget="900ms")
    assert dispatched(talk.finishes(1, at="3ms")) == [(3, 4)]
    assert dispatched(talk.finishes(2, at="4ms")) == []
    assert dispatched(talk.wakes(at="52ms")) == [(5,)]


def test_due_bucket_does_not_wait_for_one_that_lingers():
    """A bucket that lingers holds no slot."""
    talk = a_kernel(models=[a_model("m", batch_rows_max=4, linger="5ms"), "n"])
    talk.arrives(1)
    assert dispatched(talk.arrives(2, model="n")) == [(2,)]


def test_failed_batch_fails_its_members_only():
    """An executor's error ends the members of its batch with its code, and the slot goes on."""
    talk = a_kernel()
    talk.arrives(1)
    talk.arrives(2)
    failure = BatchFailed(batch_id=1, code="out_of_memory", message="no room")
    assert without_timers(talk.handle(failure)) == [
        Fail(request_id=1, stage=Stage.RUNNING, code="out_of_memory", message="no room"),
        a_dispatch(2, 2),
    ]
    assert talk.handle(failure) == []


def test_end_of_an_unknown_batch_is_ignored():
    """A report that comes after its batch was failed with its worker changes nothing."""
    talk = a_kernel()
    assert talk.finishes(7) == []
    assert talk.handle(BatchFailed(batch_id=7, code="internal", message="?")) == []


def test_batch_is_low_only_when_all_members_are():
    """One member of high class lifts the batch; `fifo` tells slots no class at all."""
    low = SlotClass.LOW
    talk = a_kernel("priority", models=[a_model(batch_rows_max=2)])
    assert without_timers(talk.arrives(1, slot_class=low)) == [a_dispatch(1, 1, slot_class=low)]
    talk.arrives(2, slot_class=low)
    talk.arrives(3)
    assert a_dispatch(2, 2, 3) in talk.finishes(1)
    talk = a_kernel("fifo")
    assert without_timers(talk.arrives(1, slot_class=low)) == [a_dispatch(1, 1)]
