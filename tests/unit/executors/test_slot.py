"""A slot's thread and the worker's control side, run inside the test's own process."""

import os
import socket
import threading

import pytest
from tests.pool_driver import PYTHON_MODELS, WAIT_S

from headway.core import Datatype
from headway.errors import ExecutorError
from headway.executors import ModelSpec, Signature, TensorSpec, worker
from headway.executors.arena import Arena
from headway.executors.lane import Lane, pin
from headway.executors.slot import SlotThread
from headway.executors.wire import (
    CONTROL_REPLIES,
    ENCODER,
    SLOT_REPLIES,
    BatchError,
    GiveUp,
    Hello,
    Load,
    Loaded,
    LoadError,
    RunBatch,
    SlotSetup,
    Stop,
    TensorRef,
    Unload,
    Unloaded,
    Warmed,
)


@pytest.fixture(autouse=True)
def _no_real_exit(monkeypatch):
    """A slot that finds a bug in itself ends its thread here, not the test run."""
    monkeypatch.setattr(os, "_exit", lambda code: None)


def a_pair():
    """Two ends that do not wait for ever."""
    own, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    own.settimeout(WAIT_S)
    return own, other


class FakeModel:
    """Does what it is told; remembers the thread that it ran on."""

    signature = Signature(
        platform="fake",
        inputs=(),
        outputs=(TensorSpec(name="y", datatype=Datatype.UINT8, shape=(-1,)),),
        can_batch=True,
    )

    def __init__(self, raises: BaseException | None = None) -> None:
        self.raises = raises
        self.threads: list[str] = []

    def infer(self, inputs, outputs, parameters):
        self.threads.append(threading.current_thread().name)
        if self.raises is not None:
            raise self.raises
        return {"y": inputs["x"]}

    def close(self) -> None:
        pass


class Slot:
    """A slot's thread with both ends of its wire."""

    def __init__(self, models, **setup) -> None:
        self.socket, theirs = a_pair()
        self.arena = Arena.create("slot", 1 << 20)
        fields = {"cores": (), "niceness_high": 0, "niceness_low": 0, **setup}
        self.thread = SlotThread(
            0,
            SlotSetup(socket_fd=theirs.detach(), arena_fd=os.dup(self.arena.fd), **fields),
            models,
            1 << 20,
        )

    def ask(self, batch_id: int = 1, *, is_low: bool = False, x: TensorRef | None = None):
        ref = x or TensorRef("x", Datatype.UINT8, (2,), 64, 2)
        batch = RunBatch(batch_id, 1, is_low, True, (2,), self.arena.size_bytes, (ref,), (), {})
        self.socket.send(ENCODER.encode(batch))
        return SLOT_REPLIES.decode(self.socket.recv(100_000))

    def close(self) -> None:
        self.socket.close()
        self.arena.close()


@pytest.fixture
def a_slot():
    made: list[Slot] = []

    def make(models, **setup) -> Slot:
        made.append(Slot(models, **setup))
        made[-1].thread.start()
        return made[-1]

    yield make
    for slot in made:
        slot.close()


def test_slot_runs_a_batch(a_slot):
    """The outputs lie behind the inputs, and each stage has a time."""
    slot = a_slot({1: FakeModel()})
    slot.arena.map[64:66] = b"\7\x08"
    done = slot.ask()
    assert done.outputs == (TensorRef("y", Datatype.UINT8, (2,), 128, 2),)
    assert slot.arena.map[128:130] == b"\7\x08"
    assert min(done.transfer_in_ns, done.execution_ns, done.transfer_out_ns) > 0


@pytest.mark.parametrize(
    ("raised", "code", "message"),
    [
        (ValueError("no good"), "executor_failed", "ValueError: no good"),
        (ExecutorError("no good"), "executor_failed", "no good"),
        (MemoryError(), "out_of_memory", "MemoryError"),
        (SystemExit(3), "executor_failed", "SystemExit: 3"),
    ],
)
def test_what_a_model_raises_is_an_answer(a_slot, raised, code, message):
    """Whatever is raised fails the batch, and the slot lives on."""
    slot = a_slot({1: FakeModel(raised)})
    for batch_id in (1, 2):
        assert slot.ask(batch_id) == BatchError(batch_id, slot.arena.size_bytes, code, message)


def test_slot_refuses_what_it_cannot_run(a_slot):
    """A cancelled batch, an unknown replica, wrong rows and a wrong size are told apart."""
    slot = a_slot({1: FakeModel()})
    slot.arena.cancel(5)
    assert slot.ask(5).code == "cancelled"
    wrong_rows = TensorRef("x", Datatype.UINT8, (3,), 64, 3)
    assert "batch of 2 rows" in slot.ask(6, x=wrong_rows).message
    wrong_size = TensorRef("x", Datatype.UINT8, (2,), 64, 3)
    assert "has 3 bytes" in slot.ask(7, x=wrong_size).message
    assert a_slot({}).ask(1).code == "worker_lost"


def test_low_batches_share_the_thread_where_it_may_become_less_nice(a_slot, monkeypatch):
    """With the privilege one thread serves both classes and goes back and forth."""
    seen: list[int] = []
    monkeypatch.setattr("headway.executors.lane._can_renice", lambda low, high: True)
    monkeypatch.setattr(os, "setpriority", lambda which, who, niceness: seen.append(niceness))
    model = FakeModel()
    slot = a_slot({1: model}, niceness_high=1, niceness_low=19)
    for batch_id, is_low in ((1, True), (2, True), (3, False)):
        slot.ask(batch_id, is_low=is_low)
    assert model.threads == ["slot-0"] * 3
    assert seen == [1, 19, 1, 19, 1]


def test_low_batches_have_a_thread_of_their_own_otherwise(a_slot, monkeypatch):
    """Without the privilege a second thread is low for good, made once, when first needed."""
    seen: list[tuple[str, int]] = []
    monkeypatch.setattr("headway.executors.lane._can_renice", lambda low, high: False)
    monkeypatch.setattr(
        os,
        "setpriority",
        lambda which, who, niceness: seen.append((threading.current_thread().name, niceness)),
    )
    model = FakeModel()
    slot = a_slot({1: model}, niceness_high=1, niceness_low=19)
    for batch_id, is_low in ((1, False), (2, True), (3, False), (4, True)):
        slot.ask(batch_id, is_low=is_low)
    assert model.threads == ["slot-0", "slot-0-low", "slot-0", "slot-0-low"]
    assert seen == [("slot-0", 1), ("slot-0-low", 19)]


def test_refused_niceness_and_cores_are_said_not_raised(monkeypatch, capsys):
    """A thread that may not be moved runs where it is."""

    def refuse(*_: object) -> None:
        raise PermissionError("no")

    setup = SlotSetup(socket_fd=0, arena_fd=0, cores=(), niceness_high=-5, niceness_low=-5)
    lane = Lane("slot-0", setup)
    monkeypatch.setattr(os, "setpriority", refuse)
    monkeypatch.setattr(os, "sched_setaffinity", refuse)
    lane.renice(-5)
    lane.renice(-5)
    pin((0,), "slot-0")
    pin((), "slot-0")
    assert capsys.readouterr().err.splitlines() == [
        "slot-0: not allowed to run at niceness -5",
        "slot-0: cannot be pinned to cores [0]: no",
    ]


# -- the control side --------------------------------------------------------------------------


class Control:
    """A worker's control side on a thread, with the pool's end of its socket."""

    def __init__(self, monkeypatch) -> None:
        self.exit_codes: list[int] = []
        self.exited = threading.Event()
        monkeypatch.setattr(worker, "end_now", self._exit)
        self.socket, theirs = a_pair()
        self.worker = worker._Worker(theirs)
        self.thread = threading.Thread(target=self.worker.serve)
        self.thread.start()

    def _exit(self, code: int) -> None:
        self.exit_codes.append(code)
        self.exited.set()

    def send(self, *orders) -> None:
        for order in orders:
            self.socket.send(ENCODER.encode(order))

    def hear(self):
        return CONTROL_REPLIES.decode(self.socket.recv(100_000))

    def close(self) -> None:
        self.send(Stop())
        assert self.exited.wait(WAIT_S)
        assert self.exit_codes == [0]
        self.socket.close()
        self.thread.join(WAIT_S)
        self.worker.control.close()


@pytest.fixture
def control(monkeypatch):
    made = Control(monkeypatch)
    yield made
    made.close()


def a_load(replica_id: int, name: str, **fields) -> Load:
    path = f"{PYTHON_MODELS}:{name}"
    return Load(
        replica_id=replica_id, spec=ModelSpec(name="m", backend="python", path=path, **fields)
    )


def test_worker_loads_warms_and_unloads(control):
    """Each step is told in order."""
    control.send(a_load(1, "Rows"))
    loaded, warmed = control.hear(), control.hear()
    assert isinstance(loaded, Loaded)
    assert (loaded.replica_id, loaded.signature.platform) == (1, "python")
    assert warmed == Warmed(replica_id=1)
    control.send(Unload(replica_id=1), Unload(replica_id=2))
    assert [control.hear(), control.hear()] == [Unloaded(replica_id=1), Unloaded(replica_id=2)]
    assert control.worker.models == {}


def test_worker_tells_why_a_load_failed(control):
    """Before and after the model is in memory, a failure keeps nothing."""
    control.send(a_load(1, "Missing"), a_load(2, "FailsToLoad"), a_load(3, "DoubledRows"))
    first, second = control.hear(), control.hear()
    assert "no class or function `Missing`" in first.message
    assert second == LoadError(replica_id=2, message="OSError: the weights are gone")
    assert isinstance(control.hear(), Loaded)
    assert "`y` has shape [2, 4]" in control.hear().message
    assert control.worker.models == {}


def test_worker_gives_up_a_hung_load(control, tmp_path):
    """Another loader takes over; when the hung load ends after all, nobody hears of it."""
    begun, go_on = tmp_path / "begun", tmp_path / "go_on"
    os.mkfifo(begun)
    os.mkfifo(go_on)
    options = {"begun": str(begun), "go_on": str(go_on)}
    control.send(a_load(1, "HangsInLoad", options=options))
    begun.read_bytes()
    hung = next(t for t in threading.enumerate() if t.name == "loader")
    control.send(GiveUp(), a_load(2, "Rows"))
    assert control.hear().replica_id == 2
    assert control.hear() == Warmed(replica_id=2)
    go_on.write_bytes(b".")
    hung.join(WAIT_S)
    assert list(control.worker.models) == [2]


def test_worker_ends_when_its_parent_is_gone(monkeypatch):
    """The end of the control socket ends `serve`, which ends the process."""
    control = Control(monkeypatch)
    control.send(Hello(slots=(), arena_bytes_max=1 << 20))
    control.socket.shutdown(socket.SHUT_WR)
    control.thread.join(WAIT_S)
    assert not control.thread.is_alive()
    control.worker._loader.orders.put(Stop())
    assert control.exited.wait(WAIT_S)
    control.socket.close()
    control.worker.control.close()
