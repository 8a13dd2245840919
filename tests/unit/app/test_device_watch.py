"""Devices looked at in a thread: what is told is of now, and nothing that fails ends a server."""

import os
import threading

from headway.app.device_watch import DeviceWatch
from headway.devices import DeviceProcess, DeviceReading, HostReader
from headway.units import NS_PER_S


class Gpus:
    """A reader of devices that says when it was asked and closed."""

    def __init__(self, *processes, raises=False):
        self.processes = processes
        self.raises = raises
        self.asked = threading.Semaphore(0)
        self.closed = threading.Event()
        self.begun_in = None

    def open(self):
        self.begun_in = threading.current_thread()
        return self

    def read(self):
        self.asked.release()
        if self.raises:
            raise OSError("the driver is gone")
        return [DeviceReading(name="cuda:0", processes=self.processes)]

    def close(self):
        self.closed.set()


class Watched:
    """A watch over this process, which stands for a worker."""

    def __init__(self, gpus, workers=None):
        self.now_ns = 0
        self.workers = {os.getpid(): "cpu:0"} if workers is None else workers
        self.gpus = gpus
        self.watch = DeviceWatch(
            HostReader({"cpu:0": [0]}),
            lambda: self.workers,
            lambda: self.now_ns,
            1_000_000,
            open_gpus=gpus.open,
        )

    def run_for(self, looks):
        """Let it look so many times, and end it."""
        self.watch.start()
        for _ in range(looks):
            assert self.gpus.asked.acquire(timeout=30)
        self.watch.stop()
        assert self.gpus.closed.wait(30)


def test_watch_looks_again_and_again_in_a_thread_of_its_own():
    """The driver is opened, asked and closed there; once stopped it asks no more."""
    gpus = Gpus(DeviceProcess(os.getpid(), 64), DeviceProcess(1, 32))
    watched = Watched(gpus)
    watched.run_for(looks=3)
    assert gpus.begun_in is not threading.main_thread()
    look = watched.watch.look()
    assert [reading.name for reading in look.readings] == ["cpu:0", "cuda:0"]
    assert look.worker_bytes["cpu:0"] > 1 << 20
    assert look.worker_device_bytes == {("cpu:0", "cuda:0"): 64}


def test_processes_of_one_worker_are_added_up():
    """An isolated worker that is being replaced has two for a while; who says nothing adds none."""
    gpus = Gpus(DeviceProcess(5, 64), DeviceProcess(6, 32), DeviceProcess(7, None))
    watched = Watched(gpus, workers={5: "cpu:0/a", 6: "cpu:0/a", 7: "cpu:0/b"})
    watched.run_for(looks=2)
    assert watched.watch.look().worker_device_bytes == {("cpu:0/a", "cuda:0"): 96}


def test_old_look_is_not_told_as_now():
    """Where a driver hangs, what it said last is unknown after a while."""
    watched = Watched(Gpus())
    watched.run_for(looks=2)
    watched.now_ns = 5 * NS_PER_S
    assert watched.watch.look().readings
    watched.now_ns += 1
    assert watched.watch.look().readings == ()


def test_device_that_cannot_be_read_is_told_once_and_tried_again(caplog):
    """There are no readings meanwhile; once it can be read they are there, and it is closed."""
    gpus = Gpus(raises=True)
    watched = Watched(gpus)
    watched.watch.start()
    for _ in range(3):
        assert gpus.asked.acquire(timeout=30)
    assert watched.watch.look().readings == ()
    gpus.raises = False
    for _ in range(2):
        assert gpus.asked.acquire(timeout=30)
    assert watched.watch.look().readings
    watched.watch.stop()
    assert gpus.closed.wait(30)
    assert caplog.messages == ["devices cannot be looked at"]


def test_driver_that_cannot_be_opened_leaves_the_cores(caplog):
    """They are read without it."""

    def broken():
        raise OSError("no such driver")

    gpus = Gpus()
    watched = Watched(gpus)
    watched.watch._open_gpus = broken
    watched.watch.start()
    watched.watch.stop()
    assert [reading.name for reading in watched.watch.look().readings] == ["cpu:0"]
    assert caplog.messages == ["devices cannot be looked at"]


def test_watch_that_never_began_can_be_stopped():
    """A server whose start fails ends what it has not begun."""
    Watched(Gpus()).watch.stop()
