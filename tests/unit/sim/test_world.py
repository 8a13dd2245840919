"""The simulator's driver: what the kernel says is what happens, in virtual time."""

from headway.core import (
    BatchFinished,
    BatchId,
    Complete,
    Dispatch,
    Expire,
    Fail,
    Kernel,
    KernelParams,
    ModelLoadRequested,
    ModelUnloadRequested,
    Reject,
    RequestArrived,
    RequestCancelled,
)
from headway.policy import fifo
from headway.sim import Fault, HostPause, SoloTimes, World, record_into
from headway.testing import MeanPredictor, a_device, a_model, a_request

MS = 1_000_000


class Told:
    """A world, and the commands of one kind that its kernel gave, with their instants."""

    def __init__(self, *models, service_ns=10 * MS, load_ns=0, lanes=(0,)):
        self.records = []
        solo = service_ns if callable(service_ns) else lambda dispatch: service_ns
        self.world = World(
            Kernel(KernelParams(devices=(a_device(lanes=lanes),)), fifo(MeanPredictor())),
            SoloTimes(solo),
            observe=record_into(self.records),
            load_ns=load_ns,
        )
        self.world.load(models)

    def of(self, kind):
        """Instants in ms, and the commands of this kind."""
        return [
            (record.now_ns / MS, command)
            for record in self.records
            for command in record.commands
            if isinstance(command, kind)
        ]

    def ends(self):
        """Request, instant in ms, kind of end."""
        return [
            (command.request_id, at_ms, type(command).__name__)
            for at_ms, command in self.of((Complete, Expire, Fail))
        ]


def test_requests_run_one_after_another():
    """Service times are spent in virtual time, one slot at a time."""
    told = Told(a_model())
    told.world.run([a_request(1), a_request(2, at="1ms")])
    assert told.ends() == [(1, 10.0, "Complete"), (2, 20.0, "Complete")]
    assert told.world.event_count == len(told.records)


def test_deadline_ends_a_request_by_timer():
    """A wake-up that was asked for comes at its instant."""
    told = Told(a_model())
    told.world.run([a_request(1, budget="4ms"), a_request(2, budget="7ms")])
    assert told.ends() == [(1, 4.0, "Expire"), (2, 7.0, "Expire")]


def test_load_takes_its_time():
    """Nothing runs before the replica is warm."""
    told = Told(a_model(), load_ns=50 * MS)
    told.world.run([a_request(1)])
    assert told.ends() == [(1, 60.0, "Complete")]


def test_worker_loss_fails_what_runs_and_brings_the_replica_back():
    """A fault fails the running batch; the waiting one runs after the pause and the load."""
    told = Told(a_model(), load_ns=30 * MS)
    fault = Fault(35 * MS, "cpu:0")
    told.world.run([a_request(1), a_request(2)], faults=[fault])
    assert told.ends() == [(1, 35.0, "Fail"), (2, 175.0, "Complete")]


def test_loss_while_loading_starts_the_load_anew():
    """A load that was under way when the worker died does not end by itself."""
    told = Told(a_model(), load_ns=200 * MS)
    told.world.run([a_request(1)], faults=[Fault(50 * MS, "cpu:0")])
    assert told.ends() == [(1, 360.0, "Complete")]


def test_pause_of_the_host_holds_everything_up_but_what_runs():
    """Ends, arrivals and timers are handled at its end, in order; stages are what they were."""
    told = Told(a_model())
    requests = [
        a_request(1),
        a_request(2, at="6ms"),
        a_request(3, at="8ms", budget="3ms"),
        a_request(4, at="70ms"),
    ]
    told.world.run(requests, faults=[HostPause(5 * MS, 50 * MS)])
    assert told.ends() == [
        (1, 55.0, "Complete"),
        (2, 65.0, "Complete"),
        (4, 80.0, "Complete"),
    ]
    ((refused_at_ms, refusal),) = told.of(Reject)
    assert (refused_at_ms, refusal.request_id) == (55.0, 3)
    ends = [r.event for r in told.records if isinstance(r.event, BatchFinished)]
    assert [event.execution_ns for event in ends] == [10 * MS] * 3
    arrivals = [r for r in told.records if isinstance(r.event, RequestArrived)]
    assert [r.now_ns // MS for r in arrivals] == [0, 55, 55, 70]


def test_hung_batch_costs_its_worker_and_nobody_else():
    """A batch past its limit is ended with its worker; what waits is served after the restart."""
    told = Told(
        a_model(hung_after="100ms"),
        service_ns=lambda dispatch: 10**12 if dispatch.batch_id == BatchId(1) else 10 * MS,
    )
    told.world.run([a_request(1, budget="10s"), a_request(2, budget="10s")])
    assert told.ends() == [(1, 100.0, "Fail"), (2, 210.0, "Complete")]


def test_reload_and_unload_play_out():
    """Commands about replicas are carried out too."""
    told = Told(a_model())
    told.world.schedule(5 * MS, ModelLoadRequested(model=a_model(version="2")))
    told.world.schedule(30 * MS, ModelUnloadRequested(model="m"))
    told.world.run([a_request(1), a_request(2), a_request(3, at="40ms")])
    assert [c.replica_id for _, c in told.of(Dispatch)] == [1, 2]
    assert told.world.kernel.fleet.replicas == {}
    assert told.world.kernel.queues == {}


def test_scheduled_event_reaches_the_kernel():
    """A client may leave at an instant."""
    told = Told(a_model())
    told.world.schedule(3 * MS, RequestCancelled(request_id=2))
    told.world.run([a_request(1), a_request(2)])
    assert [end[0] for end in told.ends()] == [1]


def test_run_until_an_instant_goes_on_where_it_stopped():
    """What lies beyond the instant is kept for the next run."""
    told = Told(a_model())
    told.world.run([a_request(1), a_request(2)], until_ns=15 * MS)
    assert (told.world.now_ns, told.ends()) == (10 * MS, [(1, 10.0, "Complete")])
    told.world.run([])
    assert told.ends()[1:] == [(2, 20.0, "Complete")]


def test_run_without_an_observer_keeps_no_records():
    """Nobody looks, nothing is kept, and the same happens."""
    kernel = Kernel(KernelParams(devices=(a_device(),)), fifo(MeanPredictor()))
    world = World(kernel, SoloTimes(lambda dispatch: 10 * MS))
    world.load([a_model()])
    world.run([a_request(1)])
    assert (kernel.ledger.ended_count, len(kernel.ledger.live)) == (1, 0)
