"""A fit that was made in the background is handed to the predictor, at one step of the journal."""

import msgspec

from headway.core import Event, PredictorTrained
from headway.testing import MeanPredictor, a_kernel


class Fitted(MeanPredictor):
    """Notes which fits it was given."""

    def __init__(self):
        super().__init__()
        self.counts = []

    def install(self, count):
        """Note it."""
        self.counts.append(count)


def test_fit_is_installed_and_nothing_else_happens():
    """Also while requests wait and run: no command, and what was said stands."""
    predictor = Fitted()
    talk = a_kernel("fifo", predictor=predictor)
    talk.arrives(1)
    talk.arrives(2)
    assert talk.handle(PredictorTrained(count=200)) == []
    assert predictor.counts == [200]
    talk.drain()
    assert set(talk.outcomes) == {1, 2}


def test_fit_survives_the_journal():
    """It is read back as it was written."""
    event = PredictorTrained(count=400)
    assert msgspec.json.decode(msgspec.json.encode(event), type=Event) == event
