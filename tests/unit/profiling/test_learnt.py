"""What a predictor learnt is kept, and dropped where it does not hold."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.devices import Fingerprint
from headway.profiling.learnt import Circumstances, Recalled, read_learnt, write_learnt
from headway.testing import a_device

HERE = Circumstances(
    machine=Fingerprint(cpu_model="a processor", cores_count=2),
    devices=(a_device(lanes=[0, 1]),),
    threads={"ocr": 1},
    spins={"ocr": False},
)
STATE = {"seen": [["ocr", 1, 5]], "ratio": 1.5}


@pytest.fixture
def file(tmp_path):
    """A file that `headway` learnt into, here."""
    path = tmp_path / "learnt.json"
    write_learnt(path, "headway", HERE, STATE)
    return path


def test_state_comes_back_as_it_was(file):
    """Under the same circumstances nothing is lost, and no other file is left behind."""
    assert read_learnt(file, "headway", HERE) == Recalled(state=STATE)
    assert list(file.parent.iterdir()) == [file]


def test_no_file_is_no_problem(tmp_path):
    """The first run finds none and says nothing of it."""
    assert read_learnt(tmp_path / "none.json", "headway", HERE) == Recalled()


def test_a_model_more_or_less_changes_nothing(file):
    """What was learnt of the others still holds."""
    threads = {"ocr": 1, "speech": 4}
    now = msgspec.structs.replace(HERE, threads=threads)
    assert read_learnt(file, "headway", now).state == STATE


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"machine": Fingerprint(cpu_model="another")}, "another machine"),
        ({"devices": (a_device(lanes=[0, 0, 1, 1]),)}, "other devices or slots"),
        ({"threads": {"ocr": 2}}, "`ocr` ran with another number of threads"),
        ({"spins": {"ocr": True}}, "`ocr` ran with another `allow_spinning`"),
        ({"has_classes": False}, "another `policy.class_slots`"),
    ],
)
def test_other_circumstances_discard_it(file, changes, reason):
    """Another machine, other slots, other threads: the state is dropped, with the reason."""
    recalled = read_learnt(file, "headway", msgspec.structs.replace(HERE, **changes))
    assert recalled.state == {}
    assert reason in recalled.why_not


def test_another_predictor_discards_it(file):
    """One predictor cannot read another's state."""
    assert "learnt by `headway`" in read_learnt(file, "rls", HERE).why_not


def test_another_version_discards_it(file):
    """A file of a later version is left alone, and said to be one."""
    file.write_bytes(file.read_bytes().replace(b'"version":1', b'"version":2'))
    assert "version 2 of headway-learnt" in read_learnt(file, "headway", HERE).why_not


def test_unreadable_file_is_said_to_be(tmp_path):
    """A folder in its place is no reason not to serve."""
    assert "cannot be read" in read_learnt(tmp_path, "headway", HERE).why_not


@given(st.binary(max_size=300))
def test_any_bytes_give_a_reason(tmp_path_factory, content):
    """Whatever the file holds, there is a state or a reason, never an exception."""
    path = tmp_path_factory.mktemp("learnt") / "learnt.json"
    path.write_bytes(content)
    assert read_learnt(path, "headway", HERE).why_not is not None
