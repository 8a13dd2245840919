"""What is learnt is written while a server runs and at its end."""

import asyncio

from headway.devices import Fingerprint
from headway.profiling.keeper import Keeper
from headway.profiling.learnt import Circumstances, read_learnt
from headway.testing import a_device

HERE = Circumstances(machine=Fingerprint(cpu_model="a processor"), devices=(a_device(),))


def a_keeper(path, state, failures, *, every_s=3600.0, is_sound=lambda: True):
    """Of a predictor called `rls`."""
    return Keeper(
        path,
        "rls",
        HERE,
        lambda: dict(state),
        is_sound=is_sound,
        every_s=every_s,
        failed=failures.append,
    )


def test_state_is_written_at_the_end(tmp_path):
    """What stands in the file is what was known when the server ended, not when it began."""

    async def play():
        path, state, failures = tmp_path / "learnt.json", {"n": 1}, []
        keeper = a_keeper(path, state, failures)
        keeper.start()
        state["n"] = 2
        await keeper.stop()
        assert (read_learnt(path, "rls", HERE).state, failures) == ({"n": 2}, [])

    asyncio.run(play())


def test_state_is_written_meanwhile(tmp_path):
    """A server that is killed has lost an interval's learning, no more."""

    async def play():
        path, failures = tmp_path / "learnt.json", []
        keeper = a_keeper(path, {"n": 1}, failures, every_s=0.001)
        keeper.start()
        async with asyncio.timeout(20):
            while not path.exists():
                await asyncio.to_thread(path.exists)
        assert read_learnt(path, "rls", HERE).state == {"n": 1}
        await keeper.stop()
        assert failures == []

    asyncio.run(play())


def test_a_write_that_fails_is_reported(tmp_path):
    """A folder that is gone stops nothing."""

    async def play():
        failures = []
        keeper = a_keeper(tmp_path / "gone" / "learnt.json", {}, failures)
        keeper.start()
        await keeper.stop()
        assert len(failures) == 1

    asyncio.run(play())


def test_keeper_that_never_started_writes_nothing(tmp_path):
    """A server that could not start leaves the file of the last run alone."""

    async def play():
        await a_keeper(tmp_path / "learnt.json", {}, []).stop()
        assert list(tmp_path.iterdir()) == []

    asyncio.run(play())


def test_what_may_have_caused_a_crash_is_not_written(tmp_path):
    """Neither meanwhile nor at the end: the next run begins with what was sound."""

    async def play():
        path, state, asked = tmp_path / "learnt.json", {"n": 1}, asyncio.Event()

        def is_sound():
            asked.set()
            return state["n"] == 1

        first = a_keeper(path, state, [], is_sound=is_sound)
        first.start()
        await first.stop()
        state["n"] = 2
        asked.clear()
        keeper = a_keeper(path, state, [], every_s=0.001, is_sound=is_sound)
        keeper.start()
        async with asyncio.timeout(20):
            await asked.wait()
        await keeper.stop()
        assert read_learnt(path, "rls", HERE).state == {"n": 1}

    asyncio.run(play())
