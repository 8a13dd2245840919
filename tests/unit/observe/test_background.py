"""The writer in the background: order, limits, full disks, and never in anyone's way."""

import io
import threading
from pathlib import Path

import pytest

from headway.observe import BackgroundWriter

pytestmark = pytest.mark.usefixtures("no_leaks")


def encode(item):
    return str(item).encode()


class Stuck(io.RawIOBase):
    """A disk that takes nothing until it is let go."""

    def __init__(self):
        super().__init__()
        self.is_writing = threading.Event()
        self.let_go = threading.Event()
        self.text = b""

    def write(self, data):
        self.is_writing.set()
        assert self.let_go.wait(30)
        self.text += bytes(data[:3])
        return min(3, len(data))


class FakePath:
    """A path whose file is given."""

    name = "fake"

    def __init__(self, file):
        self.file = file

    def open(self, mode, buffering):
        return self.file

    def __str__(self):
        return "fake"


def test_items_are_written_in_order(tmp_path):
    """Closing writes what waits."""
    writer = BackgroundWriter(tmp_path / "out", encode)
    for number in range(1_000):
        writer.put(number)
    writer.close()
    assert writer.ended is None
    assert (tmp_path / "out").read_text() == "".join(f"{n}\n" for n in range(1_000))


def test_items_put_by_another_thread_while_it_writes_are_all_there(tmp_path):
    """Taking the waiting ones loses none that comes meanwhile."""
    writer = BackgroundWriter(tmp_path / "out", encode)

    def flush():
        for _ in range(2_000):
            writer._flush()

    # The writer's own thread wakes five times a second; here it is as busy as can be.
    writer._stop.set()
    writer._thread.join()
    thread = threading.Thread(target=flush)
    thread.start()
    for number in range(20_000):
        writer.put(number)
    thread.join()
    writer._flush()
    writer.close()
    lines = (tmp_path / "out").read_text().splitlines()
    assert lines == [str(n) for n in range(20_000)]


def test_file_ends_at_its_largest_size_with_a_whole_line(tmp_path, caplog):
    """What fits is there, the rest is dropped, and the log says so once."""
    writer = BackgroundWriter(tmp_path / "out", encode, bytes_max=25)
    for number in range(10):
        writer.put(f"line {number}")
    writer._flush()
    writer.put("more")
    writer.close()
    assert (tmp_path / "out").read_text() == "line 0\nline 1\nline 2\n"
    assert writer.ended == "it has reached its largest size"
    [message] = caplog.messages
    assert message.endswith(
        "out` ends here: it has reached its largest size; the server goes on without it"
    )


def test_file_that_is_exactly_full_ends_with_the_next_line(tmp_path):
    """The limit is the largest size, not one less, and what is dropped is never silent."""
    writer = BackgroundWriter(tmp_path / "out", encode, bytes_max=4)
    writer.put("abc")
    writer._flush()
    assert writer.ended is None
    writer.put("d")
    writer.close()
    assert (tmp_path / "out").read_text() == "abc\n"
    assert writer.ended == "it has reached its largest size"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full here")
def test_full_disk_ends_the_file_and_nothing_else(caplog):
    """The error is noted once; putting and closing go on as if nothing had happened."""
    writer = BackgroundWriter(Path("/dev/full"), encode)
    writer.put("x")
    writer._flush()
    writer.put("y")
    writer.close()
    assert writer.ended is not None
    assert "No space left" in writer.ended
    assert len(caplog.messages) == 1


def test_item_that_cannot_be_encoded_ends_the_file(tmp_path):
    """A bug in an encoder is a note in the log, not a dead thread."""

    def broken(item):
        raise TypeError("no such line")

    writer = BackgroundWriter(tmp_path / "out", broken)
    writer.put("x")
    writer.close()
    assert writer.ended == "no such line"


def test_slow_disk_neither_blocks_nor_fills_the_memory():
    """While the disk hangs, putting returns at once, and what may wait is bounded."""
    disk = Stuck()
    writer = BackgroundWriter(FakePath(disk), encode, waiting_max=10)
    writer.put("first")
    assert disk.is_writing.wait(30)
    for number in range(100):
        writer.put(number)
    assert len(writer._waiting) == 10
    assert writer.ended == "the disk is slower than 10 waiting lines allow"
    disk.let_go.set()
    writer.close()
    assert disk.text == b"first\n" + b"".join(b"%d\n" % n for n in range(10))
