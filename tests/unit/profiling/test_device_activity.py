"""Spans out of Nsight Systems' SQLite and out of traces of torch's profiler.

The files are written here, to the documented tables and keys; none was recorded.
"""

import gzip
import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from headway.errors import ConfigError, HeadwayError
from headway.profiling import (
    AllocatorPoint,
    CopySpan,
    DeviceSpan,
    Direction,
    read_activity,
)


def nsight(path: Path, *statements: str) -> Path:
    """A database."""
    with closing(sqlite3.connect(path)) as database:
        for statement in statements:
            database.execute(statement)
        database.commit()
    return path


KERNELS = "CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INT, end INT, deviceId INT)"
COPIES = "CREATE TABLE CUPTI_ACTIVITY_KIND_MEMCPY (start INT, end INT, bytes INT, copyKind INT)"


def test_nsight_systems_spans_are_read_in_order(tmp_path) -> None:
    """Kernels and copies by their beginnings, copies by their direction."""
    path = nsight(
        tmp_path / "run.sqlite",
        KERNELS,
        COPIES,
        "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (200, 250, 0), (100, 150, 0)",
        "INSERT INTO CUPTI_ACTIVITY_KIND_MEMCPY VALUES (10, 20, 4096, 1), (300, 310, 4, 2),"
        " (400, 410, 8, 8)",
    )
    activity = read_activity(path)
    assert activity.kernels == (DeviceSpan(100, 150), DeviceSpan(200, 250))
    assert activity.copies == (
        CopySpan(10, 20, Direction.HOST_TO_DEVICE, 4096),
        CopySpan(300, 310, Direction.DEVICE_TO_HOST, 4),
        CopySpan(400, 410, Direction.OTHER, 8),
    )
    assert activity.file == "run.sqlite"


def test_nsight_systems_without_a_table_had_nothing_to_put_into_it(tmp_path) -> None:
    """A run without copies has no table of copies; one of another program has neither."""
    path = nsight(tmp_path / "run.sqlite", KERNELS)
    activity = read_activity(path)
    assert (activity.kernels, activity.copies) == ((), ())


def test_broken_database_is_told(tmp_path) -> None:
    """The head of a database, and nothing behind it; and words for numbers."""
    path = tmp_path / "run.sqlite"
    path.write_bytes(b"SQLite format 3\0" + b"\xff" * 200)
    with pytest.raises(HeadwayError, match="no export of Nsight Systems"):
        read_activity(path)
    words = nsight(
        tmp_path / "words.sqlite",
        KERNELS,
        "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES ('soon', 'later', 0)",
    )
    with pytest.raises(HeadwayError, match="no export"):
        read_activity(words)


TRACE = {
    "traceEvents": [
        {
            "ph": "X",
            "cat": "kernel",
            "name": "gemm",
            "ts": 12.5,
            "dur": 3.25,
            "args": {"device": 0},
        },
        {"ph": "X", "cat": "kernel", "name": "relu", "ts": "11", "dur": "1"},
        {
            "ph": "X",
            "cat": "gpu_memcpy",
            "name": "Memcpy DtoH (Device -> Pageable)",
            "ts": 20,
            "dur": 2,
            "args": {"bytes": 4},
        },
        {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "ts": 1, "dur": 9},
        {
            "ph": "i",
            "name": "[memory]",
            "ts": 5,
            "args": {
                "Device Type": 1,
                "Device Id": 0,
                "Total Allocated": 100,
                "Total Reserved": 2048,
                "Bytes": 100,
            },
        },
        {"ph": "i", "name": "[memory]", "ts": 6, "args": {"Device Type": 0, "Device Id": -1}},
        "a word",
    ]
}


@pytest.mark.parametrize("is_packed", [False, True])
def test_trace_of_torch_is_read(tmp_path, is_packed) -> None:
    """Kernels, copies and the allocator's view; what runs on the host is left out."""
    path = tmp_path / ("trace.json.gz" if is_packed else "trace.json")
    data = json.dumps(TRACE).encode()
    path.write_bytes(gzip.compress(data) if is_packed else data)
    activity = read_activity(path)
    assert activity.kernels == (DeviceSpan(11_000, 12_000), DeviceSpan(12_500, 15_750))
    assert activity.copies == (CopySpan(20_000, 22_000, Direction.DEVICE_TO_HOST, 4),)
    assert activity.memory == (AllocatorPoint(5_000, 100, 2048),)


def test_list_of_events_is_a_trace_too(tmp_path) -> None:
    """The format allows the list alone."""
    path = tmp_path / "trace.json"
    path.write_text(json.dumps(TRACE["traceEvents"]))
    assert len(read_activity(path).kernels) == 2


def test_other_files_are_left_to_others(tmp_path) -> None:
    """Text, JSON that is no trace, and a file that is not there."""
    path = tmp_path / "stats.csv"
    path.write_text("Time (%),Name\n")
    assert read_activity(path) is None
    path.write_text('{"format": "something else"}')
    assert read_activity(path) is None
    path.write_text('{"traceEvents": [')
    with pytest.raises(HeadwayError, match="no Chrome trace"):
        read_activity(path)
    with pytest.raises(ConfigError, match="cannot read"):
        read_activity(tmp_path / "none")


@pytest.mark.parametrize(
    "event",
    [
        {"cat": "gpu_memcpy", "name": "Memcpy HtoD", "ts": 1, "dur": 2, "args": {"bytes": "many"}},
        {"cat": "kernel", "ts": "inf", "dur": 2},
        {"name": "[memory]", "ts": 1, "args": {"Device Type": 1, "Total Allocated": None}},
    ],
    ids=lambda event: event.get("cat", "memory"),
)
def test_broken_event_is_told(tmp_path, event) -> None:
    """As any other fault of the file, and not as one of ours."""
    path = tmp_path / "trace.json"
    path.write_text(json.dumps([event]))
    with pytest.raises(HeadwayError, match=r"trace\.json` has an event that is broken"):
        read_activity(path)


def test_trace_without_a_device_is_not_a_healthy_one(tmp_path) -> None:
    """Such as of cores alone; it says what to have traced."""
    path = tmp_path / "trace.json"
    path.write_text('{"traceEvents": [{"cat": "cpu_op", "name": "aten::mm", "ts": 1, "dur": 2}]}')
    with pytest.raises(HeadwayError, match="no kernel, no copy") as refused:
        read_activity(path)
    assert "profile_memory=True" in str(refused.value.hint)


def test_packed_trace_that_is_damaged_is_told(tmp_path) -> None:
    """The head is right, and what follows is not."""
    path = tmp_path / "trace.json.gz"
    packed = gzip.compress(json.dumps(TRACE).encode())
    path.write_bytes(packed[:12] + b"\xff" * (len(packed) - 12))
    with pytest.raises(HeadwayError, match="no Chrome trace"):
        read_activity(path)
