"""What the soak judges by: it sees a wrong answer, one too many, books that differ, a leak."""

import asyncio
import json
from collections import Counter
from random import Random

import pytest
from soak import _differences, broken
from soaking.asks import FICKLE, HIGH, LOW, draw, http_request, is_right
from soaking.figures import percentile, slope
from soaking.wire import HttpPool, _Connection


def an_answer(ask, data=None, *, number=None):
    """A completed JSON answer, its own unless said otherwise."""
    wanted = {"tripled": 3 * ask.array() + 1, "turned": ask.array()[:, ::-1]}
    data = wanted.get(ask.model, ask.array()).ravel().tolist() if data is None else data
    output = {"name": "y", "shape": [ask.rows, ask.columns], "datatype": "FP32", "data": data}
    return json.dumps({"id": str(number or ask.number), "outputs": [output]}).encode()


@pytest.mark.parametrize("seed", range(6))
def test_only_its_own_answer_is_right(seed):
    """Another's answer, a torn one and a stale id are seen."""
    ask = draw(Random(seed), 1)._replace(form="json")
    other = ask._replace(number=2)
    assert http_request(ask) != http_request(other)
    assert is_right(ask, {}, an_answer(ask))
    assert not is_right(ask, {}, an_answer(other, number=1))
    assert not is_right(ask, {}, an_answer(ask, number=2))
    torn = json.loads(an_answer(ask))["outputs"][0]["data"]
    torn[-1] += 1
    assert not is_right(ask, {}, an_answer(ask, torn))


class Written(asyncio.Transport):
    """What a client writes to."""

    def write(self, data):
        pass


@pytest.mark.parametrize("too_many", [b"", b"x", b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n"])
def test_bytes_behind_an_answer_are_counted(too_many):
    """An answer may come in pieces; whatever comes behind it is one too many."""

    async def run():
        pool = HttpPool(0)
        connection = _Connection(pool)
        connection.connection_made(Written())
        async with asyncio.TaskGroup() as group:
            asking = group.create_task(connection.ask(b"?"))
            await asyncio.sleep(0)
            for piece in (b"HTTP/1.1 200 OK\r\nContent-", b"Length: 2\r\n\r\no", b"k" + too_many):
                connection.data_received(piece)
        assert asking.result().body == b"ok"
        assert pool.extra == bool(too_many)
        connection.data_received(b"late")
        assert pool.extra == bool(too_many) + 1

    asyncio.run(run())


def test_lost_connection_is_told():
    """A request whose connection ends has no answer."""

    async def run():
        connection = _Connection(HttpPool(0))
        connection.connection_made(Written())
        asking = asyncio.get_running_loop().create_task(connection.ask(b"?"))
        await asyncio.sleep(0)
        connection.connection_lost(None)
        with pytest.raises(ConnectionResetError):
            await asking

    asyncio.run(run())


def test_books_that_do_not_agree_are_named():
    """By tier and outcome, either way; those who left are nobody's."""
    asked = Counter({(HIGH, "completed"): 5, (LOW, "rejected"): 2, (FICKLE, "completed"): 1})
    assert _differences(asked, Counter(asked) - Counter({(FICKLE, "completed"): 1})) == []
    more = asked + Counter({(HIGH, "completed"): 1, (LOW, "cancelled"): 1})
    assert _differences(asked, more) == [
        "high completed: clients 5, server 6",
        "low cancelled: clients 0, server 1",
    ]


def test_slope_is_that_of_most_readings():
    """A leak shows, a step in the warm part or a single spike does not."""
    flat = [(float(at), 100.0 + (at % 3)) for at in range(100)]
    assert abs(slope(flat)) < 0.02
    assert slope([(float(at), 100.0 + 2 * at) for at in range(100)]) == pytest.approx(2)
    spiked = [(at, value + (1000 if at == 50 or at < 10 else 0)) for at, value in flat]
    assert abs(slope(spiked)) < 0.02
    assert percentile([3.0, 1.0, 2.0], 0.99) == 3.0


def test_broken_promises_are_named():
    """What is false is broken; how fast the last part was is asked of a long run only."""
    total = {"one_answer_each": True, "sums_agree": False, "high_p99_last_to_first": 1.5, "sent": 0}
    assert broken(total, 1.0) == ["sums_agree"]
    assert broken(total, 30.0) == ["sums_agree", "high_p99_last_to_first"]
