"""Every back end passes one suite: outputs reach the right caller, and errors are told."""

import numpy as np
import pytest
from tests import models
from tests.pool_driver import (
    PYTHON_MODELS,
    BatchFailedError,
    Driver,
    Fifo,
    LoadFailedError,
    a_group,
    data_of,
    fp32,
    open_loop_library,
    python_spec,
    row,
    run,
    running_pool,
)

from headway.core import Datatype, Tensor, concat_bytes
from headway.executors import ModelSpec, TensorSpec

pytestmark = pytest.mark.usefixtures("no_leaks")

BACKENDS = ("onnx", "python")
ALL = pytest.mark.parametrize("backend", BACKENDS)


@pytest.fixture(scope="module", autouse=True)
def _loop_library() -> None:
    open_loop_library()


def spec_of(backend, kind, tmp_path, **options) -> ModelSpec:
    """The same model for either back end; ``kind`` is a function of `models`."""
    if backend == "python":
        classes = {
            "identity": "Echo",
            "difference": "Difference",
            "two_outputs": "TwoOutputs",
            "doubled_rows": "DoubledRows",
        }
        return python_spec(classes[kind], **options)
    path = tmp_path / f"{kind}-{'-'.join(str(option) for option in options.values())}.onnx"
    if kind == "identity":
        columns = options.get("columns", 4)
        shape = (-1, columns) if options.get("has_batch", True) else (columns,)
        text = models.identity(path, Datatype(options.get("datatype", "FP32")), shape)
    else:
        text = getattr(models, kind)(path)
    return ModelSpec(name=kind, backend="onnx", path=text)


def sample(datatype: Datatype, rows: int = 3) -> Tensor:
    """Four columns of bits that differ from row to row; strings of several lengths, one empty."""
    shape = (rows, 4)
    if datatype is Datatype.BYTES:
        words = ["", "a", "é" * 300, "two words"]
        data = concat_bytes(words[(i * 3 + i // 4) % 4].encode() for i in range(4 * rows))
    elif datatype is Datatype.BOOL:
        data = bytes(i % 3 == 0 for i in range(4 * rows))
    else:
        item_bytes = datatype.item_bytes
        assert item_bytes is not None
        # Small numbers in every byte: no float among them is a NaN.
        data = bytes(i % 61 + 1 for i in range(4 * rows * item_bytes))
    return Tensor("x", datatype, shape, data)


@ALL
def test_every_datatype_comes_back_unchanged(backend, tmp_path):
    """Fourteen datatypes, empty and long strings included, keep every bit."""

    async def scenario():
        seen, expected = {}, {}
        async with running_pool() as driver:
            for datatype in Datatype:
                spec = spec_of(backend, "identity", tmp_path, datatype=str(datatype))
                loaded = await driver.load(spec)
                x = sample(datatype)
                [[y]] = await driver.infer(loaded.replica_id, [x])
                seen[datatype] = (y.name, y.datatype, y.shape, y.data, loaded.signature.can_batch)
                expected[datatype] = ("y", datatype, (3, 4), x.data, True)
        assert seen == expected

    run(scenario())


@ALL
def test_rows_go_back_to_their_caller(backend, tmp_path):
    """Members of 1, 3 and 2 rows each get their own rows, whatever the rows' lengths in bytes."""

    async def scenario():
        async with running_pool() as driver:
            for datatype in (Datatype.FP32, Datatype.BYTES, Datatype.BOOL):
                spec = spec_of(backend, "identity", tmp_path, datatype=str(datatype))
                loaded = await driver.load(spec)
                members = [[sample(datatype, rows)] for rows in (1, 3, 2)]
                replies = await driver.infer(loaded.replica_id, *members)
                assert [y.shape for [y] in replies] == [(1, 4), (3, 4), (2, 4)]
                assert data_of(replies) == data_of(members)

    run(scenario())


@ALL
def test_zero_rows_of_strings_are_a_batch(backend, tmp_path):
    """No row at all goes in and comes out, alone and beside others."""

    async def scenario():
        async with running_pool() as driver:
            loaded = await driver.load(spec_of(backend, "identity", tmp_path, datatype="BYTES"))
            nothing, some = sample(Datatype.BYTES, 0), sample(Datatype.BYTES, 2)
            [[alone]] = await driver.infer(loaded.replica_id, [nothing])
            beside = await driver.infer(loaded.replica_id, [nothing], [some], [nothing])
            assert (alone.shape, alone.data) == ((0, 4), b"")
            assert data_of(beside) == [b"", some.data, b""]

    run(scenario())


@ALL
def test_inputs_are_matched_by_name(backend, tmp_path):
    """A member that names its inputs in another order gets the same answer."""

    async def scenario():
        async with running_pool() as driver:
            loaded = await driver.load(spec_of(backend, "difference", tmp_path))
            x, z = fp32("x", [[5, 5, 5, 5]]), fp32("z", [[1, 2, 3, 4]])
            replies = await driver.infer(loaded.replica_id, [x, z], [z, x])
            expected = fp32("y", [[4, 3, 2, 1]]).data
            assert data_of(replies) == [expected, expected]
            with pytest.raises(BatchFailedError, match="members of one batch have inputs"):
                await driver.infer(loaded.replica_id, [x, z], [x, fp32("w", [[0, 0, 0, 0]])])

    run(scenario())


@ALL
def test_model_without_batch_axis(backend, tmp_path):
    """A model with fixed shapes says that it cannot batch, and its shapes are left alone."""

    async def scenario():
        async with running_pool() as driver:
            loaded = await driver.load(spec_of(backend, "identity", tmp_path, has_batch=False))
            assert not loaded.signature.can_batch
            assert loaded.signature.inputs == (
                TensorSpec(name="x", datatype=Datatype.FP32, shape=(4,)),
            )
            x = Tensor("x", Datatype.FP32, (4,), bytes(range(16)))
            [[y]] = await driver.infer(loaded.replica_id, [x], can_batch=False)
            assert (y.shape, y.data) == ((4,), x.data)

    run(scenario())


@ALL
def test_only_wanted_outputs_are_returned(backend, tmp_path):
    """Named outputs come in the order of their names; none named means all; unknown ones fail."""

    async def scenario():
        async with running_pool() as driver:
            loaded = await driver.load(spec_of(backend, "two_outputs", tmp_path))
            for wanted in ((), ("y",), ("negative",), ("negative", "y")):
                [reply] = await driver.infer(loaded.replica_id, row(1), outputs=wanted)
                assert tuple(y.name for y in reply) == (wanted or ("y", "negative"))
            with pytest.raises(BatchFailedError, match="no output `w`") as caught:
                await driver.infer(loaded.replica_id, row(1), outputs=("w",))
            assert caught.value.code == "executor_failed"

    run(scenario())


@ALL
def test_wrong_number_of_rows_fails_the_load(backend, tmp_path):
    """Outputs that cannot be split among members are found by the warm-up."""

    async def scenario():
        async with running_pool() as driver:
            with pytest.raises(LoadFailedError, match=r"`y` has shape \[2, 4\] .* 1 rows"):
                await driver.load(spec_of(backend, "doubled_rows", tmp_path))
            good = await driver.load(spec_of(backend, "identity", tmp_path))
            assert data_of(await driver.infer(good.replica_id, row(1))) == data_of([row(1)])

    run(scenario())


@ALL
def test_wrong_input_shape_is_an_error_not_a_crash(backend, tmp_path):
    """What the back end refuses fails one batch; the next one runs."""

    async def scenario():
        async with running_pool() as driver:
            loaded = await driver.load(spec_of(backend, "identity", tmp_path, columns=4))
            with pytest.raises(BatchFailedError) as caught:
                await driver.infer(loaded.replica_id, [fp32("x", [[1, 2]])])
            assert caught.value.code == "executor_failed"
            short = Tensor("x", Datatype.FP32, (1, 4), b"only 12 bytes")
            with pytest.raises(BatchFailedError, match="`x` has 13 bytes"):
                await driver.infer(loaded.replica_id, [short])
            assert data_of(await driver.infer(loaded.replica_id, row(1))) == data_of([row(1)])

    run(scenario())


@ALL
def test_unloaded_replica_takes_no_batch(backend, tmp_path):
    """After an unload a batch is told that its replica is gone; another unload does no harm."""

    async def scenario():
        async with running_pool() as driver:
            loaded = await driver.load(spec_of(backend, "identity", tmp_path))
            await driver.unload(loaded.replica_id)
            with pytest.raises(BatchFailedError) as caught:
                await driver.infer(loaded.replica_id, row(1))
            assert caught.value.code == "worker_lost"
            await driver.unload(loaded.replica_id)

    run(scenario())


@ALL
def test_too_large_a_batch_is_refused_and_leaks_nothing(backend, tmp_path):
    """Inputs beyond the slot's memory fail with the size and the limit; others run on."""

    async def scenario():
        async with running_pool(a_group(arena_bytes_max=1 << 20)) as driver:
            loaded = await driver.load(spec_of(backend, "identity", tmp_path))
            for rows in (1 << 10, 1 << 17, 20_000, 1 << 17, 1):
                x = Tensor("x", Datatype.FP32, (rows, 4), bytes(16 * rows))
                if rows == 1 << 17:
                    with pytest.raises(BatchFailedError, match=r"2MiB .* limit of 1MiB") as caught:
                        await driver.infer(loaded.replica_id, [x])
                    assert caught.value.code == "out_of_memory"
                else:
                    assert data_of(await driver.infer(loaded.replica_id, [x])) == [x.data]

    run(scenario())


@ALL
def test_warm_up_runs_each_size_with_the_shapes_given(backend, tmp_path):
    """A shape that the warm-up is given must fit the model, or the load fails."""

    async def scenario():
        async with running_pool() as driver:
            spec = spec_of(backend, "identity", tmp_path)
            bad = ModelSpec(
                name="bad",
                backend=spec.backend,
                path=spec.path,
                warmup_rows=(1, 5),
                warmup_shapes={"x": (3,)},
            )
            with pytest.raises(LoadFailedError):
                await driver.load(bad)

    run(scenario())


@pytest.mark.parametrize(
    ("backend", "path", "message"),
    [
        ("onnx", "missing.onnx", "no model file `missing.onnx`"),
        ("onnx", PYTHON_MODELS, "INVALID_PROTOBUF|InvalidProtobuf"),
        ("python", "missing.py:Model", "no file `missing.py`"),
        ("python", "missing_module:Model", "no module `missing_module`"),
        ("python", f"{PYTHON_MODELS}:Missing", "no class or function `Missing`"),
        ("python", f"{PYTHON_MODELS}:FailsToLoad", "OSError: the weights are gone"),
        ("python", PYTHON_MODELS, "not of the form"),
        ("python", "json:JSONDecoder", "no method `infer`"),
        ("fortran", "x", "no back end `fortran`"),
    ],
)
def test_load_failure_says_why_and_leaves_the_worker_up(backend, path, message):
    """A model that cannot be loaded fails alone."""

    async def scenario():
        async with running_pool() as driver:
            good = await driver.load_python("Echo")
            pids = driver.pool.worker_pids()
            with pytest.raises(LoadFailedError, match=message):
                await driver.load(ModelSpec(name="bad", backend=backend, path=path))
            assert driver.pool.worker_pids() == pids
            assert data_of(await driver.infer(good.replica_id, row(1))) == data_of([row(1)])

    run(scenario())


@pytest.mark.parametrize(
    ("backend", "options", "message"),
    [
        ("onnx", {"intra_op_threads": 0}, "from 1 up, not `0`"),
        ("onnx", {"threads": 2}, "no option `threads`"),
        ("python", {"color": "red"}, "TypeError: .*color"),
    ],
)
def test_wrong_option_fails_the_load(backend, options, message, tmp_path):
    """An option that the back end or the model does not know is named."""

    async def scenario():
        spec = spec_of(backend, "identity", tmp_path)
        async with running_pool() as driver:
            with pytest.raises(LoadFailedError, match=message):
                await driver.load(
                    ModelSpec(name="m", backend=backend, path=spec.path, options=options)
                )

    run(scenario())


def test_unknown_device_fails_the_load():
    """A device that the pool was not given is named."""

    async def scenario():
        async with running_pool() as driver:
            with pytest.raises(LoadFailedError, match="no device `tpu`"):
                await driver.load(python_spec("Echo"), "tpu")

    run(scenario())


# -- ONNX only ---------------------------------------------------------------------------------


def test_onnx_graph_computes_each_row(tmp_path):
    """Rows of a batch are summed one by one, and several threads give the same."""

    async def scenario():
        path = models.row_sum(tmp_path / "sum.onnx")
        spec = ModelSpec(name="s", backend="onnx", path=path, options={"intra_op_threads": 2})
        async with running_pool() as driver:
            loaded = await driver.load(spec)
            members = [[fp32("x", [[1, 2, 3]])], [fp32("x", [[4, 5, 6], [7, 8, 9]])]]
            replies = await driver.infer(loaded.replica_id, *members)
            assert data_of(replies) == [fp32("y", [[6]]).data, fp32("y", [[15], [24]]).data]

    run(scenario())


def test_onnx_overrides_are_checked_against_the_graph(tmp_path):
    """A configured tensor must be in the graph with that datatype; its shape is believed."""

    async def scenario():
        path = models.identity(tmp_path / "m.onnx", Datatype.FP32)

        def spec(name: str, datatype: Datatype) -> ModelSpec:
            tensor = TensorSpec(name=name, datatype=datatype, shape=(1, 4))
            return ModelSpec(name="m", backend="onnx", path=path, inputs=(tensor,))

        async with running_pool() as driver:
            with pytest.raises(LoadFailedError, match="no input `w`"):
                await driver.load(spec("w", Datatype.FP32))
            with pytest.raises(LoadFailedError, match=r"tensor\(float\) in the graph, not INT8"):
                await driver.load(spec("x", Datatype.INT8))
            loaded = await driver.load(spec("x", Datatype.FP32))
            assert not loaded.signature.can_batch

    run(scenario())


def test_onnx_refuses_what_the_protocol_cannot_carry(tmp_path):
    """A sequence as output fails the load by name; bytes that are not text fail their batch."""

    async def scenario():
        sequence = models.sequence_output(tmp_path / "seq.onnx")
        text = models.identity(tmp_path / "text.onnx", Datatype.BYTES, (-1,))
        async with running_pool() as driver:
            with pytest.raises(LoadFailedError, match=r"`y` is a seq\("):
                await driver.load(ModelSpec(name="s", backend="onnx", path=sequence))
            loaded = await driver.load(ModelSpec(name="t", backend="onnx", path=text))
            x = Tensor("x", Datatype.BYTES, (1,), concat_bytes([b"\xff\xfe"]))
            with pytest.raises(BatchFailedError, match="not UTF-8"):
                await driver.infer(loaded.replica_id, [x])

    run(scenario())


# -- Python only -------------------------------------------------------------------------------


def test_parameters_reach_a_python_model():
    """Parameters of the batch arrive as they were sent."""

    async def scenario():
        async with running_pool() as driver:
            loaded = await driver.load_python("Scaled")
            reply = await driver.infer(loaded.replica_id, row(5), parameters={"factor": 2})
            assert data_of(reply) == [fp32("y", [[10, 2, 4, 6]]).data]
            with pytest.raises(BatchFailedError, match="more than the limit"):
                await driver.infer(
                    loaded.replica_id, row(5), parameters={"factor": 1, "text": "x" * 200_000}
                )

    run(scenario())


def test_bytes_are_objects_in_a_python_model():
    """Strings arrive as bytes, any bytes, and each member gets its own back."""

    async def scenario():
        async with running_pool() as driver:
            loaded = await driver.load_python("Strings")
            members = [
                [Tensor("x", Datatype.BYTES, (2,), concat_bytes([b"\xff\x00", b""]))],
                [Tensor("x", Datatype.BYTES, (1,), concat_bytes([b"abc"]))],
            ]
            replies = await driver.infer(loaded.replica_id, *members)
            assert data_of(replies) == [concat_bytes([b"\x00\xff", b""]), concat_bytes([b"cba"])]
            assert data_of(replies, 1) == [
                np.array([2, 0], "<i8").tobytes(),
                np.array([3], "<i8").tobytes(),
            ]

    run(scenario())


@pytest.mark.parametrize("name", ["Raises", "Quits"])
def test_exception_in_infer_fails_its_batch_only(name):
    """The client is told type and message; even `sys.exit` does not end the worker."""

    async def scenario():
        async with running_pool() as driver:
            loaded = await driver.load_python(name)
            expected = "ValueError: a row is negative" if name == "Raises" else "SystemExit: 3"
            with pytest.raises(BatchFailedError) as caught:
                await driver.infer(loaded.replica_id, row(-1))
            assert (caught.value.code, caught.value.message) == ("executor_failed", expected)
            assert data_of(await driver.infer(loaded.replica_id, row(1))) == data_of([row(1)])

    run(scenario())


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("list", "returned a `list`"),
        ("no_output", "did not return the output `y`"),
        ("unknown_output", "output `w` that is not declared"),
        ("float64", "output `y` is FP64, declared is FP32"),
        ("columns", r"has shape \[1, 2\], declared is \[-1, 4\]"),
        ("scalar", r"has shape \[\]"),
    ],
)
def test_wrong_result_of_infer_is_named(kind, message):
    """What a model returns is compared with what it declares."""

    async def scenario():
        async with running_pool() as driver:
            loaded = await driver.load_python("Returns")
            with pytest.raises(BatchFailedError, match=message) as caught:
                await driver.infer(loaded.replica_id, row(1), parameters={"kind": kind})
            assert caught.value.code == "executor_failed"

    run(scenario())


@pytest.mark.parametrize("kind", ["strided", "big_endian"])
def test_result_may_lie_in_memory_as_it_likes(kind):
    """Column-major and big-endian arrays arrive row-major and little-endian."""

    async def scenario():
        async with running_pool() as driver:
            loaded = await driver.load_python("Returns")
            x = fp32("x", [[1, 2, 3, 4], [5, 6, 7, 8]])
            replies = await driver.infer(loaded.replica_id, [x], parameters={"kind": kind})
            assert data_of(replies) == [x.data]

    run(scenario())


def test_outputs_grow_the_arena_up_to_its_limit():
    """Outputs larger than the inputs are given room by the worker, or refused with the limit."""

    async def scenario():
        async with running_pool(a_group(arena_bytes_max=1 << 20)) as driver:
            loaded = await driver.load_python("Grows")
            x = row(7)
            reply = await driver.infer(loaded.replica_id, x, parameters={"times": 30_000})
            assert data_of(reply) == [x[0].data * 30_000]
            with pytest.raises(BatchFailedError, match="limit of 1MiB") as caught:
                await driver.infer(loaded.replica_id, x, parameters={"times": 100_000})
            assert caught.value.code == "out_of_memory"
            assert data_of(await driver.infer(loaded.replica_id, x)) == [x[0].data]

    run(scenario())


def test_unload_is_told_to_the_model(tmp_path):
    """A model's own `unload` runs when it is unloaded."""

    async def scenario():
        gone = Fifo(tmp_path / "gone")
        async with running_pool() as driver:
            loaded = await driver.load_python("SaysGoodbye", gone=gone.path)
            await driver.unload(loaded.replica_id)
            await gone.heard()
        gone.close()

    run(scenario())


def test_views_end_with_the_report():
    """Whoever keeps a reply's buffer beyond the report gets an error, not another's rows."""

    async def scenario():
        async with running_pool() as driver:
            loaded = await driver.load_python("Echo")
            await driver.infer(loaded.replica_id, row(1))
            [[y]] = driver.last_reply
            with pytest.raises(ValueError, match="released"):
                bytes(y.data)

    run(scenario())


def test_waiting_batch_can_be_cancelled_and_a_running_one_finishes(tmp_path):
    """A batch behind another in its slot is skipped; the running one is reported as it ends."""

    async def scenario():
        begun, go_on = Fifo(tmp_path / "begun"), Fifo(tmp_path / "go_on")
        async with running_pool() as driver:
            loaded = await driver.load_python("WaitsToGoOn", begun=begun.path, go_on=go_on.path)
            running = driver.begin(loaded.replica_id, row(-1))
            await begun.heard()
            waiting = driver.begin(loaded.replica_id, row(-2))
            driver.pool.cancel(waiting)
            with pytest.raises(BatchFailedError) as caught:
                await driver.result(waiting)
            assert caught.value.code == "cancelled"
            driver.pool.cancel(running)
            go_on.tell()
            assert data_of(await driver.result(running)) == data_of([row(-1)])
            assert data_of(await driver.infer(loaded.replica_id, row(3))) == data_of([row(3)])
        begun.close()
        go_on.close()

    run(scenario())


class Chained(Driver):
    """Starts the next batch from within the report of the last, before it reads the reply."""

    def on_finished(self, batch_id, replies, stages) -> None:
        if not self.finished_count:
            self.second = self.begin(self._replica_of[batch_id], row(99))
        super().on_finished(batch_id, replies, stages)


def test_batch_started_in_a_report_does_not_overwrite_it(monkeypatch):
    """The slot is free again only when the listener has returned."""

    async def scenario():
        monkeypatch.setattr("tests.pool_driver.Driver", Chained)
        async with running_pool() as driver:
            loaded = await driver.load_python("Echo")
            assert data_of(await driver.infer(loaded.replica_id, row(1))) == data_of([row(1)])
            assert data_of(await driver.result(driver.second)) == data_of([row(99)])

    run(scenario())


def test_stages_are_timed():
    """Each stage of a batch has its time."""

    async def scenario():
        async with running_pool() as driver:
            loaded = await driver.load_python("Echo")
            await driver.infer(loaded.replica_id, row(1))
            stages = driver.stages
            assert stages is not None
            assert min(stages.transfer_in_ns, stages.execution_ns, stages.transfer_out_ns) > 0
            assert loaded.signature.memory_bytes >= 0

    run(scenario())
