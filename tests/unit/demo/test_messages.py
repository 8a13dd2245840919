"""Messages between the demo, its load generator and its server."""

import io
import json

import msgspec
import numpy as np

from headway.demo.machine import CpuReading, others_cores
from headway.demo.orders import (
    NEWS,
    ORDERS,
    Finished,
    MeasureCapacity,
    Playing,
    PlayWorkload,
    Started,
)
from headway.demo.play import _follow
from headway.demo.remote import _read_reply


def test_reply_is_read_tensor_by_tensor() -> None:
    """Binary outputs follow each other behind the JSON, each with its own type and shape."""
    first = np.arange(6, dtype=np.float32).reshape(2, 3)
    second = np.array([[7]], np.int64)
    outputs = [
        {
            "name": name,
            "datatype": datatype,
            "shape": list(array.shape),
            "parameters": {"binary_data_size": array.nbytes},
        }
        for name, datatype, array in (("a", "FP32", first), ("b", "INT64", second))
    ]
    head = json.dumps({"outputs": outputs, "parameters": {"queue_us": 5}}).encode()
    reply = _read_reply(head + first.tobytes() + second.tobytes(), len(head))
    np.testing.assert_array_equal(reply.outputs["a"], first)
    np.testing.assert_array_equal(reply.outputs["b"], second)
    assert reply.parameters == {"queue_us": 5}


def test_orders_survive_the_way() -> None:
    """Either order arrives as it was sent."""
    where = {"url": "http://x", "cache": "c", "workload": {"duration": "1s"}}
    for order in (
        PlayWorkload(**where, budgets_ns={"speech": 5}, samples="s"),
        MeasureCapacity(**where, duration_ns=3, in_flight=2),
    ):
        assert ORDERS.decode(msgspec.json.encode(order)) == order


def test_news_is_passed_on_until_the_end() -> None:
    """What happens on the way is told; the last word is the result, and may be missing."""
    news = [Started(3), Playing(elapsed_ns=1, done=2, tiers={"speech": (2, 1)})]
    last = Finished(done=3, elapsed_ns=9)
    lines = [msgspec.json.encode(message) + b"\n" for message in (*news, last)]
    told: list[object] = []
    assert _follow(io.BytesIO(b"".join(lines)), told.append) == last
    assert told == news
    assert _follow(io.BytesIO(lines[0]), None) is None
    assert NEWS.decode(lines[-1]) == last


def test_others_are_what_is_not_ours() -> None:
    """Busy time less our own, over the time between; unknown where the system does not say."""
    before = CpuReading(at_s=0.0, busy_s=100.0, own_s=1.0)
    after = CpuReading(at_s=10.0, busy_s=118.0, own_s=14.0)
    assert others_cores(before, after) == 0.5
    assert others_cores(before._replace(busy_s=None), after) is None
