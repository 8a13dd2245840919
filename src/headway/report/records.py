"""Samples from elsewhere: a journal's Records, and files of samples.

Knows the kernel's vocabulary. With it a simulation, a server's journal and a live client are
reported by the same code.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

from headway.core import (
    UNKNOWN,
    Command,
    Complete,
    Expire,
    Record,
    Request,
    RequestArrived,
    RequestId,
)
from headway.errors import ConfigError
from headway.observe import Outcome as RequestEnd
from headway.observe import how_ended
from headway.workload import Outcome, Sample

__all__ = ["records_to_samples", "samples_from_jsonl", "samples_to_jsonl"]


def records_to_samples(records: Iterable[Record]) -> Iterator[Sample]:
    """Turn kernel steps into one sample a request, in the order in which requests ended.

    What has not ended when the records do is `unanswered`, done at the last record. The kernel sees
    a request only when it arrives, so it is taken as sent when it was due.
    """
    live: dict[RequestId, Request] = {}
    now_ns = 0
    for record in records:
        now_ns = record.now_ns
        if isinstance(record.event, RequestArrived):
            live[record.event.request.request_id] = record.event.request
        for command in record.commands:
            if isinstance(command, RequestEnd):
                request = live.pop(command.request_id, None)
                if request is not None:
                    yield _sample(request, now_ns, Outcome(how_ended(command)[0]), command)
    for request in live.values():
        yield _sample(request, now_ns, Outcome.UNANSWERED, None)


def samples_to_jsonl(samples: Iterable[Sample], path: Path) -> int:
    """Write one JSON object a line; returns how many."""
    encoder = msgspec.json.Encoder()
    count = 0
    with path.open("wb") as file:
        for sample in samples:
            file.write(encoder.encode(sample) + b"\n")
            count += 1
    return count


def samples_from_jsonl(path: Path) -> list[Sample]:
    """Read what `samples_to_jsonl` wrote.

    Raises:
        ConfigError: the file cannot be read, or a line of it is no sample.
    """
    decoder = msgspec.json.Decoder(Sample)
    samples: list[Sample] = []
    try:
        with path.open("rb") as file:
            for line in file:
                samples.append(decoder.decode(line))  # noqa: PERF401 (its length names a bad line)
    except OSError as error:
        message = f"cannot read the samples `{path}`: {error.strerror}"
        raise ConfigError(message, path=str(path)) from error
    except msgspec.DecodeError as error:
        where = f"{path}:{len(samples) + 1}"
        raise ConfigError(f"`{where}` is no sample: {error}", path=where) from error
    return samples


def _sample(request: Request, now_ns: int, outcome: Outcome, command: Command | None) -> Sample:
    reply = command if isinstance(command, Complete) else None
    foreseen = command.foreseen if isinstance(command, Complete | Expire) else UNKNOWN
    is_known = foreseen.bound_ns > 0
    return Sample(
        model=request.model,
        tier=request.tier,
        tenant=request.tenant,
        rows=request.rows,
        intended_at_ns=request.arrived_at_ns,
        sent_at_ns=request.arrived_at_ns,
        done_at_ns=now_ns,
        outcome=outcome,
        budget_ns=request.budget_ns,
        queue_delay_ns=reply.queue_delay_ns if reply else None,
        service_ns=reply.service_ns if reply else None,
        batch_rows=reply.batch_rows if reply else None,
        expected_ns=foreseen.mean_ns if is_known else None,
        bound_ns=foreseen.bound_ns if is_known else None,
    )
