"""Any model of execution times as a predictor."""

import pytest

from headway.core import DeviceParams, ModelParams, Run, SlotClass, Stages
from headway.predict import ModelProfile, Shell, SoloTime
from headway.testing import a_request

MS = 1_000_000
LANES = (0, 1)


class Doubled:
    """Twice the solo time for each neighbour; keeps what it was shown."""

    name = "doubled"

    def __init__(self):
        self.ended = []

    def execution_ns(self, scene):
        return scene.base_ns * 2 ** len(scene.neighbours)

    def learn(self, ended):
        self.ended.append(ended)

    def state(self):
        return {"seen": len(self.ended)}

    def restore(self, state):
        self.ended = [None] * state["seen"]


class Queue:
    """Requests of one model."""

    def __init__(self, *waiting):
        self.waiting = waiting
        self.count = len(waiting)

    def requests(self):
        return iter(self.waiting)

    def params(self, model):
        return ModelParams(name=model, devices=("d",))


def a_run(batch_id=0, slot=0):
    return Run(
        batch_id=batch_id,
        model="m",
        bucket="",
        rows=1,
        payload_bytes=0,
        device="d",
        slot=slot,
        lane=LANES[slot],
        slot_class=SlotClass.HIGH,
        priority=1,
    )


def a_shell(model=None):
    solo = (SoloTime(rows=1, median_ns=10 * MS, p95_ns=10 * MS, runs=9),)
    profile = ModelProfile(model="m", device="d", solo=solo)
    return Shell(model or Doubled(), [DeviceParams(name="d", slot_lanes=LANES)], [profile])


def test_the_models_word_is_the_execution():
    """Alone 10 ms, beside one neighbour 20; base and interference add up to it."""
    shell = a_shell()
    assert shell.started(a_run(1), Queue(), 0).execution_ns == 10 * MS
    candidate, running = shell.forecast(a_run(slot=1), "d", Queue(), 0)
    assert (candidate.base_ns, candidate.interference_ns) == (10 * MS, 10 * MS)
    assert running.mean_ns == 20 * MS


def test_what_has_elapsed_is_taken_off():
    """3 ms later a running batch has 7 left."""
    shell = a_shell()
    shell.started(a_run(1), Queue(), 0)
    assert shell.forecast(None, "d", Queue(), 3 * MS)[0].mean_ns == 7 * MS


def test_a_model_is_shown_the_end_with_all_who_were_there():
    """The scene of the start, the time it took, and part of it beside another."""
    model = Doubled()
    shell = a_shell(model)
    shell.started(a_run(1), Queue(), 0)
    shell.started(a_run(2, slot=1), Queue(), 5 * MS)
    shell.finished(1, Stages(service_ns=10 * MS, execution_ns=10 * MS), 10 * MS)
    (ended,) = model.ended
    assert ended.scene.neighbours == ()
    assert (ended.execution_ns, ended.predicted_ns) == (10 * MS, 10 * MS)
    assert [(o.run.batch_id, o.ratio) for o in ended.overlaps] == [(2, pytest.approx(0.5))]


def test_a_request_is_foreseen_behind_the_queue():
    """Two slots run 10 ms each and one request waits: it starts when the second slot frees."""
    shell = a_shell()
    shell.started(a_run(1), Queue(), 0)
    shell.started(a_run(2, slot=1), Queue(), 0)
    foreseen = shell.foresee(a_request(9), Queue(a_request(8)), 0)
    assert foreseen.queue_ns == 20 * MS
    assert foreseen.mean_ns == 30 * MS


def test_untimed_stages_are_all_execution():
    """An executor that times nothing still teaches."""
    model = Doubled()
    shell = a_shell(model)
    shell.started(a_run(1), Queue(), 0)
    shell.finished(1, Stages(service_ns=12 * MS), 12 * MS)
    assert model.ended[0].execution_ns == 12 * MS
    assert shell.service_ns("m", 1) == 12 * MS
    assert shell.floor_ns("m", 1) == 12 * MS


def test_the_usual_service_is_that_of_the_profile_before_anything_ran():
    """And is that of the nearest rows where these were never seen."""
    assert a_shell().service_ns("m", 1) == 10 * MS


def test_time_alone_leaves_the_neighbours_out():
    """Beside another it took twice as long; alone it takes little more than the profile says."""
    shell = a_shell()
    assert shell.solo_ns("m", 1) == 10 * MS
    assert shell.solo_ns("other", 1) == 0
    shell.started(a_run(1), Queue(), 0)
    shell.started(a_run(2, slot=1), Queue(), 0)
    for batch_id in (1, 2):
        stages = Stages(service_ns=21 * MS, execution_ns=20 * MS)
        shell.finished(batch_id, stages, 21 * MS)
    assert shell.service_ns("m", 1) == 21 * MS
    assert 11 * MS <= shell.solo_ns("m", 1) < 15 * MS


def test_a_new_device_is_taken_up():
    """A run on a device that nobody named is booked there."""
    shell = Shell(Doubled())
    run = a_run(1, slot=1)
    shell.started(run, Queue(), 0)
    shell.finished(1, Stages(service_ns=5 * MS, execution_ns=5 * MS), 5 * MS)
    assert shell.forecast(run, "d", Queue(), 6 * MS)[0].execution_ns == 5 * MS


def test_state_of_the_model_comes_back():
    """With all that the shell knows."""
    shell = a_shell()
    shell.started(a_run(1), Queue(), 0)
    shell.finished(1, Stages(service_ns=12 * MS), 12 * MS)
    model = Doubled()
    fresh = a_shell(model)
    assert fresh.restore(shell.state())
    assert (len(model.ended), fresh.service_ns("m", 1)) == (1, 12 * MS)
