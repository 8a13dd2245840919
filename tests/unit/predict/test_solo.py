"""Solo times: from profiles, from what ran, and from what is near."""

from math import log

import pytest

from headway.core import Run, SlotClass
from headway.predict import ModelProfile, SoloTime
from headway.predict.belief import assimilate
from headway.predict.solo import SoloTimes

MS = 1_000_000


def a_run(model="m", bucket="", rows=1, payload_bytes=0, device="d"):
    return Run(
        model=model,
        bucket=bucket,
        rows=rows,
        payload_bytes=payload_bytes,
        device=device,
        slot=0,
        lane=0,
        slot_class=SlotClass.HIGH,
        priority=1,
    )


def a_profile(bucket="", in_bytes=0, ms=10, runs=9):
    times = ((1, ms * MS), (4, 4 * ms * MS))
    solo = tuple(SoloTime(rows=rows, median_ns=ns, p95_ns=ns, runs=runs) for rows, ns in times)
    return ModelProfile(model="m", device="d", bucket=bucket, solo=solo, transfer_in_bytes=in_bytes)


class Counted(int):
    """A number of rows that counts what is done with it."""

    work = 0

    def _count(self):
        Counted.work += 1
        return int(self)

    def __lt__(self, other):
        """Counted."""
        return self._count() < other

    def __gt__(self, other):
        """Counted."""
        return self._count() > other

    def __rtruediv__(self, other):
        """Counted."""
        return other / self._count()

    def __eq__(self, other):
        """Counted."""
        return self._count() == other

    __hash__ = int.__hash__


def test_a_profile_is_believed_and_interpolated():
    """Before anything ran the profile speaks, for every bucket when it names none."""
    solo = SoloTimes([a_profile()])
    assert solo.base_ns("d", "m", "b", 2, 0) == pytest.approx(20 * MS)
    assert solo.any_ns("m", 2) == pytest.approx(20 * MS)


def test_a_profile_of_other_shapes_stands_in():
    """By rows as it has them, and in proportion to bytes where they are known."""
    solo = SoloTimes([a_profile("|x FP32 (100,)", in_bytes=400)])
    assert solo.base_ns("d", "m", "|x FP32 (100,)", 1, 400) == pytest.approx(10 * MS)
    assert solo.base_ns("d", "m", "|x FP32 (300,)", 2, 2400) == pytest.approx(60 * MS)
    assert solo.base_ns("d", "m", "|x FP32 (300,)", 2, 0) == pytest.approx(20 * MS)
    assert solo.base_ns("e", "m", "|x FP32 (100,)", 1, 400) == 0.0
    assert solo.base_ns("d", "n", "|x FP32 (100,)", 1, 400) == 0.0


def test_a_version_or_parameters_are_no_other_shapes():
    """A request that names them is in another bucket, and is expected to take as long."""
    profiles = [a_profile("|x (100,)", 400), a_profile("|x (200,)", 800, ms=90)]
    solo = SoloTimes(profiles)
    assert solo.base_ns("d", "m", "2|x (200,)", 1, 400) == pytest.approx(90 * MS)
    assert solo.base_ns("d", "m", "|x (100,)|{}", 1, 402) == pytest.approx(10 * MS)


def test_the_profile_nearest_in_bytes_stands_in():
    """Of two, the one whose rows are more alike; one whose bytes are unknown comes last."""
    profiles = [a_profile("z", 0, ms=5), a_profile("a", 100), a_profile("b", 1000, ms=70)]
    solo = SoloTimes(profiles)
    assert solo.base_ns("d", "m", "c", 1, 900) == pytest.approx(63 * MS)
    assert solo.base_ns("d", "m", "c", 1, 110) == pytest.approx(11 * MS)


def test_a_stand_in_is_held_like_a_guess_and_follows_what_was_learnt():
    """It may be wrong by any factor, and the next shape starts from what the profiled one took."""
    solo = SoloTimes([a_profile("a", 100)])
    for _ in range(200):
        other, own = (
            solo.belief(a_run(bucket="b", payload_bytes=100)),
            solo.belief(a_run(bucket="a")),
        )
        assimilate(log(1000 * MS) - other.mean, 0.01, [(other, 1.0)])
        assimilate(log(20 * MS) - own.mean, 0.01, [(own, 1.0)])
    assert solo.base_ns("d", "m", "b", 1, 100) == pytest.approx(1000 * MS, rel=0.1)
    assert solo.base_ns("d", "m", "b", 4, 400) == pytest.approx(4000 * MS, rel=0.1)
    assert solo.base_ns("d", "m", "1|a", 1, 100) == pytest.approx(20 * MS, rel=0.1)


def test_what_ran_speaks_where_it_is_nearer_than_a_profile():
    """Twice the bytes of what ran, a hundred times those of what was profiled."""
    solo = SoloTimes([a_profile("a", 10)])
    solo.first(a_run(bucket="b", payload_bytes=500), 7.0 * MS)
    assert solo.base_ns("d", "m", "c", 1, 1000) == pytest.approx(14 * MS)
    assert solo.base_ns("d", "m", "c", 1, 12) == pytest.approx(12 * MS)


def test_new_sizes_are_learnt_for_ever_at_the_same_cost():
    """Clients may try every shape: what is in use stays, and little is looked at for a new one."""
    solo = SoloTimes()
    for index in range(6_000):
        model = f"m{index % 20}"
        solo.first(a_run(model, bucket=f"b{index}", rows=1 + index % 50), 5.0 * MS)
    assert solo.belief(a_run(model, bucket="b5999", rows=50)).mean == pytest.approx(log(5 * MS))
    assert len(solo.state()["sizes"]) == 4_096
    for index in range(1_500):
        solo.first(a_run("k", bucket=f"b{index}", rows=3), 9.0 * MS)
        solo.belief(a_run("k", bucket="b0", rows=3))
    kept = [line[2] for line in solo.state()["sizes"] if line[1] == "k"]
    assert (len(kept), "b0" in kept, "b1499" in kept, "b700" in kept) == (512, True, True, False)
    Counted.work = 0
    assert solo.base_ns("d", "k", "new", Counted(4), 10) == pytest.approx(12 * MS)
    assert 0 < Counted.work < 100


def test_unknown_is_zero_until_the_first_execution():
    """Then it is that."""
    solo = SoloTimes()
    assert (solo.base_ns("d", "m", "", 1, 0), solo.any_ns("m", 1)) == (0.0, 0.0)
    assert solo.belief(a_run()) is None
    solo.first(a_run(), 7.0 * MS)
    assert solo.base_ns("d", "m", "", 1, 0) == pytest.approx(7 * MS)


def test_unseen_rows_are_in_proportion_and_unseen_shapes_by_their_bytes():
    """The nearest of the bucket first, then of the model."""
    solo = SoloTimes()
    solo.first(a_run(rows=2, bucket="short", payload_bytes=100), 10.0 * MS)
    assert solo.base_ns("d", "m", "short", 4, 200) == pytest.approx(20 * MS)
    assert solo.base_ns("d", "m", "long", 2, 300) == pytest.approx(30 * MS)
    assert solo.base_ns("e", "m", "short", 2, 100) == pytest.approx(10 * MS)


def test_a_profile_that_is_wrong_is_mended_within_reach():
    """Observations pull it, but by no more than a factor of eight."""
    solo = SoloTimes([a_profile()])
    for _ in range(2000):
        belief = solo.belief(a_run())
        assimilate(3.0, 0.01, [(belief, 1.0)])
    assert solo.base_ns("d", "m", "", 1, 0) == pytest.approx(80 * MS)


def test_the_floor_is_the_fastest():
    """Per model and rows, on any device."""
    solo = SoloTimes()
    assert solo.floor_ns("m", 1) == 0
    for execution_ns in (9, 7, 8):
        solo.see(a_run(), execution_ns)
    assert solo.floor_ns("m", 1) == 7


def test_state_comes_back():
    """Sizes, bytes and floors; what is broken is left out."""
    solo = SoloTimes()
    solo.first(a_run(rows=2, bucket="short", payload_bytes=100), 10.0 * MS)
    solo.see(a_run(), 5)
    fresh = SoloTimes()
    fresh.restore(solo.state())
    assert fresh.state() == solo.state()
    assert fresh.base_ns("d", "m", "long", 2, 300) == pytest.approx(30 * MS)
    fresh.restore({"sizes": [["d", "m", "b", 0, 1.0, 1.0, 1], "x"], "floors": [["m", 1, "y"]]})
    assert fresh.state() == solo.state()


def test_absurd_sizes_are_left_out_or_cut():
    """No batch has so many rows, and none takes longer than a day."""
    solo = SoloTimes()
    lines = [["d", "m", "b", 10**400, 10.0, 0.1, 0], ["d", "m", "b", 1, 1e308, 0.1, 1e308]]
    solo.restore({"sizes": lines, "floors": [["m", 2**31, 5.0], ["m", 1, 1e308]]})
    assert solo.base_ns("d", "m", "b", 1, 0) == pytest.approx(86_400e9)
    assert (solo.floor_ns("m", 1), solo.floor_ns("m", 2**31)) == (86_400 * 10**9, 0)
    assert [line[3] for line in solo.state()["sizes"]] == [1]
