"""Padding that was run and batches that were cut, counted from kernel steps alone."""

import pytest

from headway.core import RequestCancelled
from headway.observe.shapes import BatchShapes
from headway.testing import a_kernel, a_model

PLAIN = "|x FP32 (4,)"
WIDE = "|x FP32 (8,)"
TOLD = "|x FP32 (4,)|[('beam', 2)]"
OTHER_TOLD = "|x FP32 (4,)|[('beam', 3)]"
SECOND = "2|x FP32 (4,)"


class Seen:
    """What an observer counted of the steps of a dialogue, which it may ask for at any time."""

    def __init__(self, *models, slots=1, knows=("m",)):
        self.talk = a_kernel(models=models or [a_model(batch_rows_max=4)], slots=slots)
        self.knows = knows

    @property
    def samples(self):
        """By name and labels, those at 0 left out."""
        shapes = BatchShapes()
        for model in self.knows:
            shapes.know(model)
        for record in self.talk.records:
            shapes(record.event, record.commands)
        assert len(shapes._live) == len(self.talk.kernel.ledger.live)
        return {
            (sample.name, *sample.labels.values()): sample.value
            for family in shapes.families()
            for sample in family.samples
            if sample.value
        }

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
    assert seen.samples == {
        ("headway_batch_input_bytes_total", "m"): 100,
        ("headway_batch_padding_bytes_total", "m"): 40,
    }
    seen.talk.finishes(1)
    assert seen.samples == {
        ("headway_batch_input_bytes_total", "m"): 110,
        ("headway_batch_padding_bytes_total", "m"): 41,
    }
