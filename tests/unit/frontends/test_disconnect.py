"""The watch over clients that leave: whom it cancels, when, and what it costs others."""

import asyncio

import pytest
from tests.asgi_client import Exchange

from headway.errors import RequestCancelledError
from headway.frontends import DisconnectWatch

TICK_S = 0.001


async def wait_watched(receive):
    """A request that would last for ever."""
    with DisconnectWatch(tick_s=TICK_S).over(receive):
        await asyncio.Event().wait()


def test_a_client_that_leaves_ends_its_request():
    """The task of a request is cancelled when its client hangs up, and knows why."""

    async def run():
        exchange = Exchange([])
        exchange.hung_up.set()
        with pytest.raises(RequestCancelledError):
            await wait_watched(exchange.receive)
        assert not asyncio.current_task().cancelling()

    asyncio.run(run())


def test_a_fast_request_is_never_watched():
    """What ends within a tick makes no task and never asks for a disconnect."""

    async def run():
        watch = DisconnectWatch(tick_s=60.0)
        exchanges = [Exchange([]) for _ in range(3)]
        for exchange in exchanges:
            with watch.over(exchange.receive):
                pass
        assert len(asyncio.all_tasks()) == 1
        assert [exchange.receive_count for exchange in exchanges] == [0, 0, 0]

    asyncio.run(run())


def test_a_slow_request_keeps_no_watcher():
    """When a watched request ends by itself, its watcher ends with it."""

    async def run():
        exchange = Exchange([])
        asked = asyncio.Event()

        async def receive():
            asked.set()
            return await exchange.receive()

        with DisconnectWatch(tick_s=TICK_S).over(receive):
            await asked.wait()
        (watcher,) = asyncio.all_tasks() - {asyncio.current_task()}
        await asyncio.wait([watcher])
        assert watcher.cancelled()

    asyncio.run(run())


def test_what_is_left_of_a_body_is_no_disconnect():
    """A server that still hands out body is heard out."""

    async def run():
        exchange = Exchange([b"", b""])
        exchange.hung_up.set()
        with pytest.raises(RequestCancelledError):
            await wait_watched(exchange.receive)
        assert exchange.receive_count == 3

    asyncio.run(run())


def test_a_cancellation_from_elsewhere_stays_one():
    """A task that is cancelled by its owner ends cancelled, client or no client."""

    async def request(exchange, entered):
        with DisconnectWatch(tick_s=TICK_S).over(exchange.receive):
            entered.set()
            await asyncio.Event().wait()

    async def run():
        exchange, entered = Exchange([]), asyncio.Event()
        async with asyncio.TaskGroup() as group:
            task = group.create_task(request(exchange, entered))
            await entered.wait()
            task.cancel()
        assert task.cancelled()

    asyncio.run(run())


def test_an_error_of_the_request_passes():
    """The watch changes nothing about other errors."""

    async def run():
        watch = DisconnectWatch(tick_s=TICK_S)
        with pytest.raises(KeyError), watch.over(Exchange([]).receive):
            raise KeyError

    asyncio.run(run())


def test_an_idle_watch_has_no_timer():
    """With nothing under way nothing ticks."""

    async def run():
        watch = DisconnectWatch(tick_s=TICK_S)
        asked = asyncio.Event()

        async def receive():
            asked.set()
            await asyncio.Event().wait()

        with watch.over(receive):
            await asked.wait()
        assert watch._timer is None

    asyncio.run(run())
