"""`headway.client` against a real server in its own process, and the guide's code as written."""

import asyncio
import re
import threading
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from tests.e2e.puppet import HOLD, puppet, row
from tests.e2e.server import a_config, free_port, running, serving, wait_ready, wait_until

from headway.client import AsyncClient, Client, Retries
from headway.core import Datatype
from headway.errors import (
    DeadlineExceededError,
    InvalidRequestError,
    ModelNotFoundError,
    RejectedError,
    UnavailableError,
)

ROOT = Path(__file__).parents[2]
ECHO = f"{ROOT}/tests/python_models.py:Echo"
GUIDES = ROOT / "docs/guides"


def url_of(server) -> str:
    return f"http://127.0.0.1:{server.port}"


def a_row(tag: float, order: float = 0.0):
    """The puppet's input."""
    return {"x": np.array(row(tag, order), np.float32)}


def samples() -> dict[Datatype, np.ndarray]:
    """Three rows of four of each datatype, with the bits that are easily lost."""
    arrays = {Datatype.BYTES: np.array([[b"", b"\xff\x00", "é".encode(), b"x" * 300]] * 3, object)}
    dtypes = "bool u1 u2 u4 u8 i1 i2 i4 i8 f2 f4 f8".split()
    numbers = [datatype for datatype in Datatype if datatype not in ("BYTES", "BF16")]
    for datatype, dtype in zip(numbers, dtypes, strict=True):
        array = np.arange(12).reshape(3, 4).astype(dtype)
        if array.dtype.kind in "iu":
            array[0] = [np.iinfo(dtype).min, np.iinfo(dtype).max, 0, 1]
        arrays[datatype] = array
    arrays[Datatype.BF16] = np.arange(12).reshape(3, 4).astype(ml_dtypes.bfloat16)
    return arrays


def test_every_datatype_comes_back_from_both_clients(tmp_path):
    """Fourteen models that give back what they get, asked by either client, bit for bit."""
    arrays = samples()
    models = [
        {"name": one.lower(), "path": ECHO, "options": {"datatype": str(one)}} for one in Datatype
    ]

    async def all_at_once(url):
        async with AsyncClient(url, budget="20s") as client, asyncio.TaskGroup() as group:
            tasks = {
                datatype: group.create_task(client.infer(datatype.lower(), {"x": array}))
                for datatype, array in arrays.items()
            }
        return {datatype: task.result() for datatype, task in tasks.items()}

    with serving(tmp_path, a_config(*models, slots=2)) as server:
        with Client(url_of(server), budget="20s") as client:
            replies = {one: client.infer(one.lower(), {"x": arrays[one]}) for one in Datatype}
        others = asyncio.run(all_at_once(url_of(server)))
    assert set(arrays) == set(Datatype)
    for datatype, array in arrays.items():
        for reply in (replies[datatype], others[datatype]):
            y = reply["y"]
            assert (y.dtype, y.shape) == (array.dtype, array.shape)
            assert y.tolist() == array.tolist()
            assert reply.batch_rows == 3
            assert reply.limit == "headway-budget-ms"
            assert reply.budget_ns is not None
            assert 19_000_000_000 < reply.budget_ns <= 20_000_000_000


def test_server_is_described_loaded_and_unloaded(tmp_path, folder):
    """All calls besides `infer`, and the errors of names and shapes that are wrong."""
    with serving(tmp_path, a_config(puppet(folder))) as server, Client(url_of(server)) as client:
        assert client.is_live()
        assert client.is_ready()
        assert client.is_model_ready("puppet")
        (x,) = client.metadata("puppet").inputs
        assert (x.name, x.datatype, x.shape) == ("x", "FP32", (-1, 4))
        client.infer("puppet", a_row(1), version="1", outputs=["y"], parameters={"scale": 2})
        reply = client.infer("puppet", a_row(2), parameters={"scale": 2})
        assert reply["y"].tolist() == [[4.0, 0.0, 2.0, -4.0]]
        assert (reply.model, reply.version, reply.tries) == ("puppet", "1", 1)
        assert client.statistics("puppet")[0]["inference_count"] == 2
        estimate = client.estimate("puppet", a_row(3), budget="5s")
        assert estimate.is_admitted
        assert estimate.limit == "headway-budget-ms"
        with pytest.raises(InvalidRequestError, match=r"\[-1, 4\]"):
            client.infer("puppet", {"x": np.zeros((1, 5), np.float32)})
        with pytest.raises(ModelNotFoundError):
            client.infer("nobody", a_row(1))
        client.unload("puppet")
        assert not client.is_model_ready("puppet")
        client.load("puppet")
        assert [(one.name, one.state) for one in client.models()] == [("puppet", "READY")]
    assert not Client("http://127.0.0.1:1").is_live()


def test_refused_client_comes_back_and_is_served(tmp_path, folder, clients):
    """In a full queue it is told when to come back, does, and gets its answer then."""
    model = puppet(folder, queue={"requests_max": 1}, batch={"rows_max": 1})
    often = Retries(count_max=10_000)
    with (
        serving(tmp_path, a_config(model)) as server,
        Client(url_of(server), retries=often) as client,
        Client(url_of(server), retries=0) as impatient,
    ):
        held = clients.submit(client.infer, "puppet", a_row(1, HOLD))
        folder.wait_begun(1)
        waiting = clients.submit(client.infer, "puppet", a_row(2))
        wait_until(lambda: server.metric("headway_queue_depth") == 1, "one waits")
        with pytest.raises(RejectedError) as caught:
            impatient.infer("puppet", a_row(3))
        assert caught.value.reason == "model_queue_full"
        assert caught.value.retry_after_ns > 0
        comes_back = clients.submit(client.infer, "puppet", a_row(4), budget="15s")

        def refusals():
            return server.metric("headway_requests_total", outcome="rejected")

        wait_until(lambda: refusals() >= 3, "it was refused twice and came back")
        folder.open()
        assert held.result()["y"][0, 0] == 1
        assert waiting.result()["y"][0, 0] == 2
        reply = comes_back.result()
    assert reply["y"][0, 0] == 4
    assert reply.tries >= 3
    assert sorted(folder.batches()) == [[1], [2], [4]]


def test_deadline_is_the_servers_own_error(tmp_path, folder, clients):
    """The server ends it in time, says where and by which limit, and the client repeats that."""
    with serving(tmp_path, a_config(puppet(folder))) as server, Client(url_of(server)) as client:
        held = clients.submit(client.infer, "puppet", a_row(1, HOLD))
        folder.wait_begun(1)
        with pytest.raises(DeadlineExceededError) as caught:
            client.infer("puppet", a_row(2), budget="100ms")
        assert (caught.value.limit, caught.value.stage) == ("headway-budget-ms", "waiting")
        assert server.metric("headway_queue_depth") == 0
        folder.open()
        held.result()
    assert folder.batches() == [[1]]


def test_cancelled_call_frees_its_place(tmp_path, folder):
    """A task that is cancelled takes its request back: it is counted, and never runs."""

    async def scenario(server):
        async with AsyncClient(url_of(server)) as client, asyncio.TaskGroup() as group:
            held = group.create_task(client.infer("puppet", a_row(1, HOLD)))
            await asyncio.to_thread(folder.wait_begun, 1)
            leaves = group.create_task(client.infer("puppet", a_row(2)))
            await until(lambda: server.metric("headway_queue_depth") == 1, "it waits")
            leaves.cancel()
            await until(lambda: server.metric("headway_queue_depth") == 0, "its place is free")
            folder.open()
            assert (await held)["y"][0, 0] == 1
            assert (await client.infer("puppet", a_row(3)))["y"][0, 0] == 3
        assert leaves.cancelled()
        return server.metric("headway_requests_total", outcome="cancelled")

    async def until(is_so, what):
        await asyncio.to_thread(wait_until, is_so, what)

    with serving(tmp_path, a_config(puppet(folder))) as server:
        assert asyncio.run(scenario(server)) == 1
    assert folder.batches() == [[1], [3]]


def test_client_outlives_a_restart_of_its_server(tmp_path, folder):
    """The server goes away and comes back on its port: the same call gets there, a little later."""
    port = free_port()
    config = a_config(puppet(folder))
    patient = Retries(count_max=200, pause_ns_max=100_000_000)
    url = f"http://127.0.0.1:{port}"
    with Client(url, retries=patient) as client:
        with serving(tmp_path, config, port=port) as server:
            wait_ready(server)
            assert client.infer("puppet", a_row(1)).tries == 1
        with Client(url, retries=1) as other, pytest.raises(UnavailableError):
            other.infer("puppet", a_row(2))
        replies = []
        caller = threading.Thread(
            target=lambda: replies.append(client.infer("puppet", a_row(3), budget="30s"))
        )
        caller.start()
        with serving(tmp_path, config, port=port) as server:
            wait_ready(server)
            caller.join()
    (reply,) = replies
    assert reply["y"][0, 0] == 3
    assert reply.tries > 1


def blocks_of(page: str) -> list[str]:
    """The Python of a page."""
    return re.findall(r"```python\n(.*?)```", (GUIDES / page).read_text(), re.DOTALL)


def test_code_of_the_guides_runs(tmp_path, capsys):
    """Every block as it stands, but for the port, against the server that the pages name."""
    blocks = blocks_of("client.md") + blocks_of("tracing.md")
    assert len(blocks) == 6
    with running(tmp_path, ["serve", f"{ROOT}/examples/serve.yaml", "--port", "0"]) as server:
        wait_ready(server)
        for block in blocks:
            code = block.replace("http://localhost:8000", url_of(server))
            exec(compile(code, "guide", "exec"), {"__name__": "guide"})
    said = capsys.readouterr().out
    assert "[[1. 1. 1." in said
    assert "come back" not in said
    assert "['echo', 'echo-bulk']" in said
