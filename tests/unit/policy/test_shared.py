"""What several policies are made of: what is hopeless, who has neighbours, what would start."""

from functools import partial

from msgspec.structs import replace

from headway.core import BucketKey, SlotClass, SlotOption
from headway.policy import Hopeless, OneAtATime, candidate
from headway.testing import a_model, a_request

MS = 1_000_000
LOW = {"priority": 5, "slot_class": SlotClass.LOW}


class ADevice:
    """Lanes, and how many batches each slot in order runs."""

    def __init__(self, name, slot_lanes, busy, *, shares_all=False):
        self.name = name
        self.slot_lanes = slot_lanes
        self.shares_all = shares_all
        self.lane_running = dict.fromkeys(slot_lanes, 0)
        for slot in busy:
            self.lane_running[slot_lanes[slot]] += 1
        self._busy = busy

    def running(self):
        """As many as there are busy slots."""
        return self._busy


class AFleet:
    """Devices by name, and the options that their free slots are."""

    def __init__(self, *devices):
        self.devices = {device.name: device for device in devices}

    def device(self, name):
        """The one of that name."""
        return self.devices[name]

    def options(self):
        """Every free slot."""
        return [
            SlotOption(1, device.name, slot, lane, device.lane_running[lane])
            for device in self.devices.values()
            for slot, lane in enumerate(device.slot_lanes)
            if slot not in device.running()
        ]


class ABucket:
    """Requests in order of service, and how many rows of the first are left."""

    def __init__(self, *requests, head_rows_left=None):
        self.requests = requests
        self.count = len(requests)
        self.head_rows_left = requests[0].rows if head_rows_left is None else head_rows_left

    def front(self, count):
        """The first so many."""
        return self.requests[:count]


def place_of(option):
    """Device and slot."""
    return None if option is None else (option.device, option.slot)


def test_hopeless_is_what_ends_too_late():
    """Just in time is in time; of work of which nothing is known nobody can say."""
    hopeless = Hopeless()
    request = a_request(budget="10ms")
    assert not hopeless.gives_up(request, 4 * MS, 6 * MS)
    assert hopeless.gives_up(request, 4 * MS, 6 * MS + 1)
    assert not hopeless.gives_up(request, 0, 9 * MS)


def test_late_answers_that_are_wanted_are_not_hopeless():
    """Where a tier wants answers 5 ms late, they are hopeless only after that."""
    request = replace(a_request(budget="10ms"), late_ns=5 * MS)
    hopeless = Hopeless()
    assert not hopeless.gives_up(request, 4 * MS, 11 * MS)
    assert hopeless.gives_up(request, 4 * MS, 11 * MS + 1)


def test_probe_follows_sixteen_in_vain_of_one_model():
    """Another model's do not count, and a start begins the count anew."""
    hopeless = Hopeless()
    request = a_request(budget="1ms")
    for _ in range(15):
        hopeless.ended(request, False, 0)
    for _ in range(9):
        hopeless.ended(a_request(model="other"), False, 0)
    hopeless.ended(request, True, 0)
    assert hopeless.gives_up(request, 2 * MS, 0)
    hopeless.ended(request, False, 0)
    assert not hopeless.gives_up(request, 2 * MS, 0)
    hopeless.started(request, 1, 0)
    assert hopeless.gives_up(request, 2 * MS, 0)


def test_slot_without_neighbours_is_an_empty_lane_or_an_empty_device():
    """A lane where lanes divide it, the device where slots share it, a number where it is given."""
    cores = AFleet(ADevice("cpu", (0, 1, 0, 1), busy=(0,)))
    assert place_of(OneAtATime().pick(cores.options(), cores)) == ("cpu", 1)
    assert OneAtATime(1).pick(cores.options(), cores) is None
    card = partial(ADevice, slot_lanes=(0, 1), shares_all=True)
    cards = AFleet(card("a", busy=(0,)), card("b", busy=()))
    assert place_of(OneAtATime().pick(cards.options(), cards)) == ("b", 0)
    assert place_of(OneAtATime(2).pick(cards.options(), cards)) == ("a", 1)
    full = AFleet(card("a", busy=(0,)))
    assert OneAtATime().pick(full.options(), full) is None


def test_candidate_is_the_head_and_what_fits_behind_it():
    """It is high if any member is, and has the most important priority and all bytes."""
    bucket = ABucket(
        a_request(1, rows=2, payload=20, **LOW),
        a_request(2, rows=1, payload=10, priority=1),
        a_request(3, rows=4, payload=40, priority=0),
        a_request(4, rows=1, payload=10, priority=0),
    )
    option = SlotOption(1, "cpu:0", 3, 1, 0)
    run = candidate(bucket, a_model(batch_rows_max=4), option, 4)
    assert (run.rows, run.payload_bytes, run.priority) == (3, 30, 1)
    assert (run.slot_class, run.bucket) == (SlotClass.HIGH, BucketKey(""))
    assert (run.device, run.slot, run.lane) == ("cpu:0", 3, 1)
    alone = candidate(bucket, a_model(batch_rows_max=4), option, 2)
    assert (alone.rows, alone.slot_class, alone.priority) == (2, SlotClass.LOW, 5)


def test_candidate_of_a_model_that_can_split_is_a_segment():
    """Five rows of eight are left: two of them, with a quarter of the bytes."""
    bucket = ABucket(a_request(1, rows=8, payload=80), head_rows_left=5)
    option = SlotOption(1, "cpu:0", 0, 0, 0)
    segment = candidate(bucket, replace(a_model(batch_rows_max=2), can_split=True), option, 2)
    assert (segment.rows, segment.payload_bytes) == (2, 20)
    whole = candidate(bucket, a_model(batch_rows_max=8), option, 2)
    assert (whole.rows, whole.payload_bytes) == (8, 80)
