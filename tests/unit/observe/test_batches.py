"""Batches counted from kernel steps: padding that was run, batches cut, how full they were."""

import pytest
from tests.counted import listen

from headway.core import LoadReplica, ModelLoadRequested, ReplicaLoadFailed, RequestCancelled
from headway.observe.batches import batch_families
from headway.testing import a_kernel, a_model

PLAIN = "|x FP32 (4,)"
WIDE = "|x FP32 (8,)"
TOLD = "|x FP32 (4,)|[('beam', 2)]"
OTHER_TOLD = "|x FP32 (4,)|[('beam', 3)]"
SECOND = "2|x FP32 (4,)"


class Seen:
    """What was counted of the steps of a dialogue, which may be asked for at any time."""

    def __init__(self, *models, slots=1, knows=("m",)):
        self.talk = a_kernel(models=models or [a_model(batch_rows_max=4)], slots=slots)
        self.metrics = listen(self.talk, knows=knows)

    @property
    def samples(self):
        """By name and labels, those at 0 left out."""
        assert len(self.metrics._live) == len(self.talk.kernel.ledger.live)
        return {
            (sample.name, *sample.labels.values()): sample.value
            for family in batch_families(self.metrics._models)
            for sample in family.samples
            if sample.value
        }

    @property
    def inputs(self):
        """Bytes that batches ran with."""
        names = ("headway_batch_input_bytes_total", "headway_batch_padding_bytes_total")
        return {key: count for key, count in self.samples.items() if key[0] in names}

    @property
    def cuts(self):
        """Batches cut of model `m`, by reason."""
        return {
            key[2]: n for key, n in self.samples.items() if key[0] == "headway_batches_cut_total"
        }


@pytest.mark.parametrize(
    ("running", "waiting", "reasons"),
    [
        (PLAIN, [WIDE], {"shape": 1}),
        (PLAIN, [TOLD], {"parameters": 1}),
        (TOLD, [OTHER_TOLD], {"parameters": 1}),
        (PLAIN, [SECOND], {"version": 1}),
        (PLAIN, [WIDE, WIDE, "|x FP32 (16,)", TOLD], {"shape": 1, "parameters": 1}),
        (PLAIN, [], {}),
    ],
)
def test_batch_is_cut_by_what_keeps_others_out(running, waiting, reasons):
    """A batch with room counts once for each reason why a waiting request was not in it."""
    seen = Seen()
    seen.talk.arrives(1, bucket="held")
    seen.talk.arrives(2, bucket=running)
    for request_id, bucket in enumerate(waiting, start=3):
        seen.talk.arrives(request_id, bucket=bucket)
    assert seen.cuts == {}
    seen.talk.finishes(1)
    assert seen.cuts == reasons


def test_full_batch_is_not_cut():
    """Who waits for the next batch was kept out by nothing but the batch's size."""
    seen = Seen(a_model(batch_rows_max=2))
    seen.talk.arrives(1, bucket=PLAIN)
    for request_id, bucket in ((2, PLAIN), (3, PLAIN), (4, WIDE)):
        seen.talk.arrives(request_id, bucket=bucket)
    seen.talk.finishes(1)
    assert seen.cuts == {}


def test_batch_with_room_for_less_than_the_next_is_cut_by_rows():
    """Three of four rows run because the next request has two."""
    seen = Seen()
    seen.talk.arrives(1, bucket=PLAIN, rows=4)
    seen.talk.arrives(2, bucket=PLAIN, rows=3)
    seen.talk.arrives(3, bucket=PLAIN, rows=2)
    seen.talk.finishes(1)
    assert seen.cuts == {"rows": 1}


def test_model_without_a_batch_axis_is_never_cut():
    """There one request is one batch, and nothing could have been fuller."""
    seen = Seen(a_model(batch_rows_max=4, can_batch=False))
    for request_id, bucket in ((1, PLAIN), (2, PLAIN), (3, WIDE)):
        seen.talk.arrives(request_id, bucket=bucket)
    seen.talk.finishes(1)
    assert seen.cuts == {}


def test_who_has_left_cuts_nothing():
    """A cancelled request no longer waits, and is forgotten."""
    seen = Seen()
    seen.talk.arrives(1, bucket="held")
    seen.talk.arrives(2, bucket=PLAIN)
    seen.talk.arrives(3, bucket=WIDE)
    seen.talk.handle(RequestCancelled(request_id=3))
    seen.talk.finishes(1)
    assert seen.cuts == {}


def test_other_models_cut_nothing():
    """Only requests of the same model could have been in the batch; an unknown one is let be."""
    models = [a_model("m", batch_rows_max=4), a_model("n", batch_rows_max=4)]
    seen = Seen(*models)
    seen.talk.arrives(1, bucket="held")
    seen.talk.arrives(2, bucket=PLAIN)
    seen.talk.arrives(3, bucket=WIDE, model="n")
    seen.talk.finishes(1)
    seen.talk.finishes(2)
    assert seen.cuts == {}


def test_padding_counts_when_it_runs():
    """Bytes that batches ran with, and what of them no client sent; what never runs is not in."""
    seen = Seen()
    seen.talk.arrives(1, bucket=PLAIN, payload="100B", padding="40B")
    seen.talk.arrives(2, bucket=PLAIN, payload="10B", padding="1B")
    seen.talk.arrives(3, bucket=WIDE, payload="1000B", padding="500B")
    seen.talk.handle(RequestCancelled(request_id=3))
    assert seen.inputs == {
        ("headway_batch_input_bytes_total", "m"): 100,
        ("headway_batch_padding_bytes_total", "m"): 40,
    }
    seen.talk.finishes(1)
    assert seen.inputs == {
        ("headway_batch_input_bytes_total", "m"): 110,
        ("headway_batch_padding_bytes_total", "m"): 41,
    }


def loads(commands):
    """Replicas that are to be loaded."""
    return [command for command in commands if isinstance(command, LoadReplica)]


def fills(seen):
    """Sum and count of how full batches were, and how many were at most 70 % full."""
    name = "headway_batch_fill_ratio"
    found = seen.samples
    return (
        found.get((f"{name}_sum", "m"), 0),
        found.get((f"{name}_count", "m"), 0),
        found.get((f"{name}_bucket", "m", "0.7"), 0),
    )


def test_batch_is_as_full_as_its_rows_of_what_the_model_takes():
    """One of four rows is a quarter, three are three."""
    seen = Seen()
    seen.talk.arrives(1, rows=1)
    seen.talk.arrives(2, rows=3)
    seen.talk.finishes(1)
    assert fills(seen) == (1.0, 2, 1)


def test_model_without_a_batch_axis_is_always_full():
    """There is nothing that could have been put beside its request."""
    seen = Seen(a_model(batch_rows_max=4, can_batch=False))
    seen.talk.arrives(1, rows=1)
    assert fills(seen) == (1.0, 1, 0)


def test_fill_is_of_what_the_model_is_served_with():
    """A load that is under way, or fails, changes nothing; once it is done its settings hold."""
    seen = Seen()
    (load,) = loads(seen.talk.handle(ModelLoadRequested(model=a_model(batch_rows_max=8))))
    seen.talk.arrives(1, rows=4)
    seen.talk.arrives(2, rows=1)
    seen.talk.finishes(1)
    seen.talk.handle(ReplicaLoadFailed(replica_id=load.replica_id, message="no such file"))
    seen.talk.finishes(2)
    seen.talk.arrives(3, rows=4)
    seen.talk.arrives(4, rows=1)
    seen.talk.drain()
    assert fills(seen) == (1 + 0.25 + 1 + 0.25, 4, 2)
    assert seen.cuts == {}
    seen.talk.serve(a_model(batch_rows_max=2))
    seen.talk.arrives(5, rows=2)
    assert fills(seen) == (1 + 0.25 + 1 + 0.25 + 1, 5, 2)


def test_model_whose_file_cannot_batch_is_always_full():
    """What a replica says when it is loaded holds, not what was configured."""
    seen = Seen()
    (load,) = loads(seen.talk.handle(ModelLoadRequested(model=a_model(batch_rows_max=4))))
    seen.talk.warm(load.replica_id, can_batch=False)
    seen.talk.arrives(1, rows=1)
    assert fills(seen) == (1.0, 1, 0)


def test_segment_has_its_part_of_a_requests_bytes():
    """Rows that run apart bring their own bytes, and all of them all."""
    seen = Seen(a_model(batch_rows_max=2, can_split=True))
    seen.talk.arrives(1, rows=5, payload="500B", padding="50B")
    assert seen.inputs == {
        ("headway_batch_input_bytes_total", "m"): 200,
        ("headway_batch_padding_bytes_total", "m"): 20,
    }
    seen.talk.drain()
    assert seen.inputs == {
        ("headway_batch_input_bytes_total", "m"): 500,
        ("headway_batch_padding_bytes_total", "m"): 50,
    }
