"""A whole run from outside a loop, against a server in a thread."""

import asyncio
import threading

from aiohttp import web

from headway.loadgen import LoadLimits, run_load
from headway.units import NS_PER_MS
from headway.workload import Outcome, Poisson, Stream, UniformRows, Workload

METADATA = {"name": "m", "inputs": [{"name": "x", "datatype": "FP32", "shape": [-1, 4]}]}


async def _serve(ready, stop):
    async def metadata(request):
        return web.json_response(METADATA)

    async def infer(request):
        await request.read()
        return web.json_response({"outputs": []})

    app = web.Application()
    app.router.add_get("/v2/models/m", metadata)
    app.router.add_post("/v2/models/m/infer", infer)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    ready.set_result((runner.addresses[0], asyncio.get_running_loop()))
    await stop.wait()
    await runner.cleanup()


def test_a_run_fetches_prepares_and_plays():
    """With nothing but a workload and an address, every planned request has its sample."""
    import concurrent.futures

    ready, stop = concurrent.futures.Future(), asyncio.Event()
    thread = threading.Thread(target=lambda: asyncio.run(_serve(ready, stop)))
    thread.start()
    (host, port), loop = ready.result(timeout=10)
    stream = Stream(model="m", tier="t", arrivals=Poisson(500.0), rows=UniformRows(1, 2))
    workload = Workload(streams=(stream,), duration_ns=100 * NS_PER_MS, seed=1)
    started = []
    try:
        result = run_load(
            workload,
            f"http://{host}:{port}",
            limits=LoadLimits(requests_in_flight_max=100),
            on_start=lambda: started.append(True),
        )
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join()
    assert started == [True]
    assert len(result.samples) == workload.count() > 20
    assert {sample.outcome for sample in result.samples} == {Outcome.COMPLETED}
    assert [s.intended_at_ns for s in result.samples] == [a.at_ns for a in workload.arrivals()]
