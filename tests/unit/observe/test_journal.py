"""The journal: what is written is what is read, and broken files say where they are broken."""

import pytest
from tests.engine_rig import CPU, Rig

from headway.core import (
    DeviceName,
    DeviceParams,
    DrainStarted,
    Kernel,
    KernelParams,
    Record,
    RequestCancelled,
    RequestId,
    SetTimer,
)
from headway.errors import ConfigError
from headway.observe import Divergence, JournalHeader, JournalObserver, read_journal, replay
from headway.policy import fifo
from headway.testing import MeanPredictor, run_virtual

pytestmark = pytest.mark.usefixtures("no_leaks")

PARAMS = KernelParams(devices=(DeviceParams(name=CPU, slot_lanes=(0,)),))
HEADER = JournalHeader(
    headway="1.2.3",
    started_at="2024-01-01T00:00:00+00:00",
    params=PARAMS,
    policy={"kind": "fifo", "class_slots": False},
)


@pytest.fixture
def path(tmp_path):
    """A small live run's journal."""
    path = tmp_path / "run.journal"
    journal = JournalObserver(path, HEADER)

    async def scenario():
        rig = Rig(observers=[journal])
        await rig.load_all()
        await rig.infer(rows=2)
        rig.executor.lose(DeviceName("cpu"))
        await rig.until_ms(1_000)
        rig.close()
        return rig.records

    records = run_virtual(scenario())
    journal.close()
    assert records == list(read_journal(path)[1])
    return path


def test_header_and_steps_come_back_as_they_were(path):
    """Every kind of value survives the file, and the steps are numbered from 0."""
    header, records = read_journal(path)
    assert header == HEADER
    assert [record.seq for record in records] == list(range(path.read_bytes().count(b"\n") - 1))


def test_journal_replays_to_the_end(path):
    """The kernel of the header's parameters says the same again."""
    header, records = read_journal(path)
    count, divergence = replay(Kernel(header.params, fifo(MeanPredictor())), records)
    assert (count, divergence) == (path.read_bytes().count(b"\n") - 1, None)


def test_last_line_cut_short_is_left_out(path):
    """A server that was killed leaves half a line; all before it is good."""
    whole = list(read_journal(path)[1])
    path.write_bytes(path.read_bytes()[:-10])
    assert list(read_journal(path)[1]) == whole[:-1]


def test_last_line_that_lacks_only_its_end_is_read(path):
    """It was written whole."""
    whole = list(read_journal(path)[1])
    path.write_bytes(path.read_bytes()[:-1])
    assert list(read_journal(path)[1]) == whole


def test_broken_line_is_named(path):
    """In the middle of a file nothing may be missing; the steps before it are read."""
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([*lines[:3], b'{"seq": tru\n', *lines[4:]]))
    _, records = read_journal(path)
    assert [next(records).seq, next(records).seq] == [0, 1]
    with pytest.raises(ConfigError, match=r"line 4 of `.*run.journal` is broken"):
        next(records)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (b"", "is not a journal"),
        (b"\x00\xff\n", "is not a journal"),
        (b'{"some": "json"}\n', "is not a journal"),
        (None, "cannot read `.*`: No such file"),
    ],
    ids=["empty", "bytes", "other", "missing"],
)
def test_file_that_is_no_journal_is_refused(tmp_path, text, words):
    """With a hint where journals come from."""
    path = tmp_path / "x"
    if text is not None:
        path.write_bytes(text)
    with pytest.raises(ConfigError, match=words) as refused:
        read_journal(path)
    assert "headway sim --journal" in (refused.value.hint or "")


def test_journal_of_another_version_is_refused(path):
    """A format that this headway does not read is not guessed at."""
    path.write_bytes(path.read_bytes().replace(b'"version":1,', b'"version":2,', 1))
    with pytest.raises(ConfigError, match="is version `2` of `headway-journal`") as refused:
        read_journal(path)
    assert refused.value.hint == "this headway reads version 1 of headway-journal"


def test_divergence_shows_both_sides():
    """The record, and what the replay said instead."""
    record = Record(seq=0, now_ns=5, event=DrainStarted(), commands=[SetTimer(at_ns=9)])
    count, divergence = replay(Kernel(PARAMS, fifo(MeanPredictor())), [record])
    assert (count, divergence) == (0, Divergence(record=record, replayed=[]))


def test_replay_that_raises_is_a_divergence_with_its_error():
    """How a journal ends whose server stopped on a bug: the bug shows again."""
    records = [
        Record(seq=0, now_ns=5, event=DrainStarted(), commands=[]),
        Record(seq=1, now_ns=4, event=RequestCancelled(request_id=RequestId(1)), commands=[]),
    ]
    count, divergence = replay(Kernel(PARAMS, fifo(MeanPredictor())), records)
    assert count == 1
    assert divergence is not None
    assert divergence.error == "AssertionError('time went back from 5 to 4')"


def test_size_limit_is_the_journals_too(tmp_path):
    """The journal ends with a whole line, and is read as far as it goes."""
    path = tmp_path / "run.journal"
    journal = JournalObserver(path, HEADER, bytes_max=1_000)
    for now_ns in range(100):
        journal(now_ns, DrainStarted(), [])
    journal.close()
    assert path.stat().st_size <= 1_000
    records = list(read_journal(path)[1])
    assert [record.now_ns for record in records] == list(range(len(records)))
    assert 0 < len(records) < 100
