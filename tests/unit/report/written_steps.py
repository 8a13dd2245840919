"""Steps written down by hand, for tests of what reads Records."""

from msgspec.structs import replace

from headway.core import (
    BatchFinished,
    BatchId,
    Complete,
    LoadReplica,
    ModelLoadRequested,
    Record,
    ReplicaLoaded,
    ReplicaWarmed,
    RequestArrived,
    RequestId,
)
from headway.observe import Lives, PauseWatch
from headway.report import TypicalTimes, parts_of
from headway.testing import a_device, a_model, a_request
from headway.units import NS_PER_MS, parse_duration_ns

LOAD = LoadReplica(replica_id=1, model="m", version="1", device="cpu:0")


class Steps:
    """Steps written down by hand, in order."""

    def __init__(self, *, lanes=(0,), linger="0ms", shares_all=False):
        self.devices = [replace(a_device(lanes=lanes), shares_all=shares_all)]
        self.records = []
        self.at("0ms", ModelLoadRequested(model=a_model(batch_rows_max=8, linger=linger)), LOAD)
        self.at("0ms", ReplicaLoaded(replica_id=1))
        self.at("0ms", ReplicaWarmed(replica_id=1))

    def at(self, now, event, *commands):
        """Something happens."""
        now_ns = parse_duration_ns(now)
        self.records.append(
            Record(seq=len(self.records), now_ns=now_ns, event=event, commands=list(commands))
        )

    def arrives(self, number, now, *commands, first_seen=None, **what):
        """A request is decoded, its first bytes seen then or earlier."""
        request = a_request(number, at=first_seen or now, **what)
        self.at(now, RequestArrived(request=request), *commands)

    def ends(self, batch_id, now, *commands, execution="0ms", transfer="0ms", answers=(), **says):
        """A batch has run, and answers these requests; `says` is what their answers say."""
        event = BatchFinished(
            batch_id=BatchId(batch_id),
            transfer_in_ns=parse_duration_ns(transfer),
            execution_ns=parse_duration_ns(execution),
        )
        self.at(now, event, *[answer(number, batch_id, **says) for number in answers], *commands)

    def parts(self, number):
        """Of a request, in milliseconds; what took no time is left out."""
        taken = taken_apart(self.records, self.devices, number)
        assert min(taken.parts_ns.values()) >= 0
        return {cause: ns / NS_PER_MS for cause, ns in taken.parts_ns.items() if ns}


def answer(number, batch_id, **says):
    """A request has its answer."""
    said = {"batch_rows": 1, "queue_delay_ns": 0, "service_ns": 0} | says
    return Complete(request_id=RequestId(number), batch_id=BatchId(batch_id), **said)


def taken_apart(records, devices, number):
    """Both readings, as the reports do them."""
    lives, times, watch = Lives(devices), TypicalTimes(), PauseWatch()
    for record in records:
        watch.step(record)
        for batch in lives.step(record).batches:
            times.add(batch, lives)
    watch.finish()
    typical = times.typical(watch.pauses)
    lives = Lives(devices)
    for record in records:
        for life in lives.step(record).requests:
            if life.request_id == number:
                taken = parts_of(life, lives, typical)
                assert sum(taken.parts_ns.values()) == life.latency_ns
                return taken
    raise AssertionError(number)
