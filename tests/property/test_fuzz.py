"""Nearly right inputs at every decoder: each is answered, or refused as its client's mistake."""

import asyncio
import gc
import tracemalloc
from random import Random

import pytest
from fuzzing import ACCEPTED, DOORS, attack, seeds_of, serving

SEED = 7
INPUTS = 400
KEPT_BYTES_MAX = 64 << 10


def run(work):
    """In a loop of its own, with the target served."""

    async def served():
        async with serving() as target:
            return await work(target)

    return asyncio.run(served())


@pytest.mark.parametrize("door", DOORS, ids=lambda door: door.name)
def test_what_inputs_are_made_from_is_valid(door):
    """A corpus of refusals would try nothing but the first check of a decoder."""

    async def enter_all(target):
        found = []
        for item in seeds_of(door):
            target.restore()
            found.append(await door.enter(target, item))
        return found

    assert set(run(enter_all)) <= {ACCEPTED}


@pytest.mark.parametrize("door", DOORS, ids=lambda door: door.name)
def test_any_input_has_an_answer_or_an_error_of_the_protocol(door):
    """No crash, no bug told of, no answer too many or too few; some are refused, some are not."""
    count = max(20, INPUTS * door.weight // 200)
    tally = run(lambda target: attack(target, door, seed=SEED, count=count))
    assert [f"--first {one.number}: {one.what}" for one in tally.findings] == []
    assert tally.inputs == count
    assert len(tally.verdicts) > 1 or door.name == "wide"


def test_inputs_are_made_again_by_their_number():
    """A finding of a long run is looked at with its door, its seed and its number."""
    for door in DOORS:
        assert door.make(_chance(door, 11)) == door.make(_chance(door, 11))


def test_inputs_leave_nothing_behind():
    """What was put to the server once, and filled its caches, adds nothing the second time."""
    doors = [door for door in DOORS if door.name in {"json", "binary", "http", "grpc_infer"}]

    async def put_all(target):
        for door in doors:
            await attack(target, door, seed=SEED, count=200)
        gc.collect()
        return tracemalloc.get_traced_memory()[0]

    async def put_thrice(target):
        await put_all(target)
        tracemalloc.start()
        try:
            before = await put_all(target)
            return await put_all(target) - before
        finally:
            tracemalloc.stop()

    assert run(put_thrice) < KEPT_BYTES_MAX


def test_a_server_that_breaks_is_found_out():
    """The judge is no stamp: a decoder that raises what it should not is a finding."""

    async def broken(target):
        (door,) = [door for door in DOORS if door.name == "json"]
        target.front.inner.submit = None
        target.front.infer = _raise
        return await attack(target, door, seed=SEED, count=50)

    tally = run(broken)
    assert tally.findings
    assert "KeyError" in tally.findings[0].what


async def _raise(call):
    raise KeyError(call)


def _chance(door, number):
    return Random(f"{SEED}/{door.name}/{number}")
