"""Loads, reloads and unloads as callers see them: who is answered what, and what the index says."""

import asyncio
from collections.abc import Callable

import pytest
from msgspec.structs import replace
from tests.engine_rig import CPU, ECHO, NORMAL, Rig, a_plan, floats, values_of

from headway.core import Datatype, DeviceName, DeviceParams, ModelName
from headway.errors import (
    ExecutorError,
    LoadError,
    ModelNotFoundError,
    RejectedError,
    UnavailableError,
)
from headway.executors import Signature, TensorSpec
from headway.testing import ECHO_SIGNATURE, run_virtual
from headway.units import NS_PER_MS, NS_PER_S

MS = NS_PER_MS
GPU = DeviceName("gpu")
TWO_DEVICES = (
    DeviceParams(name=CPU, slot_lanes=(0,)),
    DeviceParams(name=GPU, slot_lanes=(0,)),
)


def play(scenario, **setup):
    """Run a scenario on an engine where nothing is loaded yet, then see that nothing was kept."""

    async def main():
        rig = Rig(**{"load_ns": 10 * MS, **setup})
        await scenario(rig)
        await rig.until_ms(rig.loop.time() * 1_000 + 60_000)
        rig.close()

    run_virtual(main())


def signature_of(*names: str, spec: Signature = ECHO_SIGNATURE, **fields) -> Signature:
    """A signature whose inputs have these names."""
    inputs = tuple(TensorSpec(name=n, datatype=Datatype.FP32, shape=(-1, -1)) for n in names)
    return replace(spec, inputs=inputs, **fields)


def by_version(**signatures: Signature | Exception) -> Callable:
    """Version `v1` has the first signature, and so on; an exception fails the load."""

    def signature(spec):
        found = signatures.get(f"v{spec.version}", ECHO_SIGNATURE)
        if isinstance(found, Exception):
            raise found
        return found

    return signature


def line(rig, name=ECHO):
    """A model's line of the index."""
    [state] = [s for s in rig.engine.index() if s.name == name]
    return (state.version, state.state, state.reason)


def test_configured_model_is_in_the_index_before_it_is_loaded():
    """A client sees that it exists and why it does not serve."""

    async def scenario(rig):
        assert line(rig) == ("", "UNAVAILABLE", "not loaded")
        assert not rig.engine.is_ready
        with pytest.raises(ModelNotFoundError) as refused:
            await rig.infer()
        assert refused.value.message == "model `echo` is not served"
        assert refused.value.hint == "served models: none"

    play(scenario)


def test_load_ends_when_the_model_serves():
    """Until then calls are told to come back; then the status says what it takes."""

    async def scenario(rig):
        load = rig.task(rig.engine.load(ECHO, {}))
        await asyncio.sleep(0)
        assert line(rig) == ("", "LOADING", "")
        with pytest.raises(UnavailableError, match="`echo` is still loading"):
            await rig.infer()
        await load
        assert rig.clock.now_ns() == 10 * MS
        assert line(rig) == ("1", "READY", "")
        assert rig.engine.is_ready
        status = rig.engine.status(ECHO)
        assert (status.version, status.is_ready, status.tier) == ("1", True, NORMAL)
        assert (status.inputs, status.outputs) == (ECHO_SIGNATURE.inputs, ECHO_SIGNATURE.outputs)
        assert (status.budget_ns, status.slots, status.batch_rows_max) == (NS_PER_S, 1, 4)

    play(scenario)


def test_failed_load_says_why():
    """The caller, the index and later requests all learn the reason."""

    async def scenario(rig):
        with pytest.raises(LoadError) as failed:
            await rig.engine.load(ECHO, {})
        assert failed.value.message == "model `echo` could not be loaded: no such file"
        assert line(rig) == ("", "UNAVAILABLE", "no such file")
        assert not rig.engine.is_ready
        with pytest.raises(ModelNotFoundError, match="`echo` is not served: no such file"):
            await rig.infer()
        with pytest.raises(ModelNotFoundError):
            await rig.engine.unload(ECHO)
        await rig.engine.load(ECHO, {"version": "2"})
        assert line(rig) == ("2", "READY", "")

    play(scenario, signature=by_version(v1=OSError("no such file")))


def test_model_that_is_not_configured_cannot_be_loaded():
    """The catalogue's refusal is the caller's, and leaves nothing behind."""

    async def scenario(rig):
        with pytest.raises(ModelNotFoundError, match="`nobody` is not configured"):
            await rig.engine.load(ModelName("nobody"), {})
        assert [state.name for state in rig.engine.index()] == [ECHO]

    play(scenario)


def test_load_on_two_devices_ends_when_both_are_warm():
    """Half a model does not serve; the failure of one half fails the load."""

    async def scenario(rig):
        await rig.engine.load(ECHO, {})
        assert [device for _, _, device in rig.executor.loads] == [CPU, GPU]
        replies = await asyncio.gather(*(rig.infer(value=v, rows=4) for v in (1.0, 2.0)))
        assert rig.clock.now_ns() == 20 * MS
        assert [values_of(r.outputs[0]) for r in replies] == [[1.0] * 4, [2.0] * 4]

    play(scenario, plans=[a_plan(devices=(CPU, GPU))], devices=TWO_DEVICES)


# --- reloads --------------------------------------------------------------------------------------


def test_reload_serves_the_old_version_until_the_new_one_is_warm():
    """No request is refused, and each reply names the version that computed it."""

    async def scenario(rig):
        await rig.engine.load(ECHO, {})
        reload = rig.task(rig.engine.load(ECHO, {"version": "2"}))
        await asyncio.sleep(0)
        assert line(rig) == ("1", "READY", "")
        assert (await rig.infer()).version == "1"
        await reload
        assert (await rig.infer()).version == "2"
        assert line(rig) == ("2", "READY", "")
        await rig.until_ms(100)
        assert rig.executor.unloads == [1]
        with pytest.raises(ModelNotFoundError) as refused:
            await rig.infer(version="1")
        assert refused.value.message == "model `echo` has no version `1`"
        assert refused.value.hint == "served versions: 2"

    play(scenario)


def test_request_that_waits_through_a_reload_is_answered_by_the_new_version():
    """It is bound anew: the new version may list its inputs in another order."""

    async def scenario(rig):
        await rig.engine.load(ECHO, {})
        reload = rig.task(rig.engine.load(ECHO, {"version": "2"}))
        await asyncio.sleep(0)
        running = rig.infer(inputs=[floats("A", [[0.0]]), floats("B", [[0.0]])])
        await rig.until_ms(11)
        waiting = rig.infer(inputs=[floats("A", [[1.0]]), floats("B", [[2.0]])])
        await reload
        assert (await running).version == "1"
        reply = await waiting
        assert reply.version == "2"
        assert [t.name for t in rig.executor.jobs[-1].members[0]] == ["B", "A"]
        assert values_of(reply.outputs[0]) == [2.0]

    play(
        scenario,
        signature=by_version(v1=signature_of("A", "B"), v2=signature_of("B", "A")),
        service_ns=15 * MS,
    )


def test_request_that_the_new_version_does_not_take_fails_alone():
    """It is told what happened; the engine lives."""

    async def scenario(rig):
        await rig.engine.load(ECHO, {})
        reload = rig.task(rig.engine.load(ECHO, {"version": "2"}))
        await asyncio.sleep(0)
        running = rig.infer()
        await rig.until_ms(11)
        waiting = rig.infer()
        await reload
        await running
        with pytest.raises(ExecutorError, match="reloaded and no longer takes what the request"):
            await waiting
        reply = await rig.infer(inputs=[floats("NEW", [[3.0]])])
        assert values_of(reply.outputs[0]) == [3.0]

    play(scenario, signature=by_version(v2=signature_of("NEW")), service_ns=15 * MS)


def test_request_that_the_new_version_does_not_take_spares_newcomers():
    """Who asked the old version and who asked the new one never share a batch."""

    async def scenario(rig):
        await rig.engine.load(ECHO, {})
        reload = rig.task(rig.engine.load(ECHO, {"version": "2"}))
        await asyncio.sleep(0)
        running = rig.infer()
        await rig.until_ms(11)
        waiting = rig.infer()
        await reload
        newcomer = rig.infer(inputs=[floats("NEW", [[3.0]])])
        await running
        with pytest.raises(ExecutorError, match="reloaded and no longer takes what the request"):
            await waiting
        assert values_of((await newcomer).outputs[0]) == [3.0]

    play(scenario, signature=by_version(v2=signature_of("NEW")), service_ns=15 * MS)


def test_failed_reload_leaves_the_old_version_serving():
    """Only who asked for the reload hears of it."""

    async def scenario(rig):
        await rig.engine.load(ECHO, {})
        with pytest.raises(LoadError, match="worse"):
            await rig.engine.load(ECHO, {"version": "2"})
        assert line(rig) == ("1", "READY", "")
        assert (await rig.infer()).version == "1"

    play(scenario, signature=by_version(v2=ValueError("worse")))


def test_load_is_superseded_by_a_newer_one():
    """The first caller is told at once, the second gets its model."""

    async def scenario(rig):
        first = rig.task(rig.engine.load(ECHO, {}))
        await rig.until_ms(5)
        second = rig.task(rig.engine.load(ECHO, {"version": "2"}))
        with pytest.raises(LoadError, match="superseded by a newer load"):
            await first
        await second
        assert rig.clock.now_ns() == 15 * MS
        assert line(rig) == ("2", "READY", "")
        assert rig.executor.unloads == [1]

    play(scenario)


def test_caller_that_gave_up_does_not_stop_its_load():
    """The load goes on without it."""

    async def scenario(rig):
        load = rig.task(rig.engine.load(ECHO, {}))
        await asyncio.sleep(0)
        load.cancel()
        await rig.until_ms(20)
        assert line(rig) == ("1", "READY", "")

    play(scenario)


# --- unloads --------------------------------------------------------------------------------------


def test_unload_finishes_what_the_model_holds():
    """Running and waiting requests are answered, new ones refused, then it is gone."""

    async def scenario(rig):
        await rig.engine.load(ECHO, {})
        held = [rig.infer(value=1.0), rig.infer(value=2.0)]
        await asyncio.sleep(0)
        unloads = [rig.task(rig.engine.unload(ECHO)) for _ in range(2)]
        await asyncio.sleep(0)
        assert line(rig) == ("1", "UNLOADING", "")
        with pytest.raises(ModelNotFoundError):
            await rig.infer()
        assert [values_of((await h).outputs[0]) for h in held] == [[1.0], [2.0]]
        await asyncio.gather(*unloads)
        assert line(rig) == ("", "UNAVAILABLE", "unloaded")
        assert rig.engine.is_ready, "what was unloaded on purpose is not missed"
        with pytest.raises(ModelNotFoundError, match="`echo` is not served"):
            await rig.engine.unload(ECHO)
        assert rig.engine.statistics() == []

    play(scenario)


def test_unloaded_model_can_be_loaded_again():
    """Nothing of its first life is in the way."""

    async def scenario(rig):
        for version in "123":
            await rig.engine.load(ECHO, {"version": version})
            assert (await rig.infer()).version == version
            await rig.engine.unload(ECHO)
        assert rig.engine._models._by_replica == {}

    play(scenario)


def test_unload_while_loading_ends_both():
    """The load is told why; the unload is not kept waiting for it."""

    async def scenario(rig):
        load = rig.task(rig.engine.load(ECHO, {}))
        await asyncio.sleep(0)
        await rig.engine.unload(ECHO)
        with pytest.raises(LoadError, match="unloaded while it was loading"):
            await load
        assert line(rig) == ("", "UNAVAILABLE", "unloaded")

    play(scenario)


def test_unload_that_a_load_overtakes_is_answered():
    """Whoever asked for the unload learns that the model stays."""

    async def scenario(rig):
        await rig.engine.load(ECHO, {})
        held = rig.infer()
        await asyncio.sleep(0)
        unload = rig.task(rig.engine.unload(ECHO))
        await asyncio.sleep(0)
        load = rig.task(rig.engine.load(ECHO, {"version": "2"}))
        with pytest.raises(UnavailableError, match="asked for again while it was being unloaded"):
            await unload
        await asyncio.gather(held, load)
        assert line(rig) == ("2", "READY", "")

    play(scenario)


def test_model_that_a_load_brought_back_is_missed_when_it_is_lost():
    """An unload that was overtaken is history: readiness asks for the model again."""

    async def scenario(rig):
        await rig.engine.load(ECHO, {})
        held = rig.infer()
        await asyncio.sleep(0)
        unload = rig.task(rig.engine.unload(ECHO))
        await asyncio.sleep(0)
        await rig.engine.load(ECHO, {"version": "2"})
        await asyncio.gather(held, unload, return_exceptions=True)
        assert rig.engine.is_ready
        rig.executor.lose(CPU)
        await asyncio.sleep(0.001)
        assert not rig.engine.is_ready

    play(scenario)


# --- losses ---------------------------------------------------------------------------------------


def test_lost_model_is_shown_as_coming_back():
    """It is not ready, but not gone either: requests wait for it."""

    async def scenario(rig):
        await rig.engine.load(ECHO, {})
        rig.executor.lose(CPU)
        await rig.until_ms(11)
        assert line(rig) == ("1", "LOADING", "its worker was lost and is being restarted")
        assert not rig.engine.status(ECHO).is_ready
        assert values_of((await rig.infer(value=2.0)).outputs[0]) == [2.0]
        assert line(rig) == ("1", "READY", "")

    play(scenario)


def test_model_that_never_comes_up_is_given_up():
    """After a few losses while loading, the caller gets the worker's last words."""

    async def scenario(rig):
        load = rig.task(rig.engine.load(ECHO, {}))
        for at_ms in (1, 105, 310):  # restarts come after 100 ms, then after 200
            await rig.until_ms(at_ms)
            rig.executor.lose(CPU, "segmentation fault")
        with pytest.raises(LoadError, match="segmentation fault"):
            await load
        assert line(rig) == ("", "UNAVAILABLE", "segmentation fault")
        assert rig.engine._models._by_replica == {}

    play(scenario)


@pytest.mark.parametrize("how", ["unload", "reload"])
def test_lost_replica_that_is_not_wanted_any_more_is_forgotten(how):
    """No worker reports its end, and still nothing of it is kept."""

    async def scenario(rig):
        await rig.engine.load(ECHO, {})
        rig.executor.lose(CPU)
        await rig.until_ms(11)
        if how == "unload":
            await rig.engine.unload(ECHO)
        else:
            await rig.engine.load(ECHO, {"version": "2"})
        known = set(rig.kernel.fleet.replicas)
        assert set(rig.engine._models._by_replica) == known
        assert len(known) == (how == "reload")

    play(scenario)


def test_queue_limit_follows_the_reload():
    """New settings hold once the new version serves."""

    async def scenario(rig):
        await rig.engine.load(ECHO, {})
        await rig.engine.load(ECHO, {"version": "2", "queue_requests_max": 0})
        with pytest.raises(RejectedError):
            await rig.infer()
        assert rig.engine.status(ECHO).queue_requests_max == 0

    play(scenario)
