"""Requests of several lengths, through a whole server: padded to a bucket, or laid end to end."""

import json
from pathlib import Path

import pytest
from tests.e2e.puppet import puppet
from tests.e2e.server import MODELS, a_config, running, serving, wait_until

from headway.demo import DemoAssets, find_model, graph_path, missing_packages
from headway.demo.sentences import encode_sentences

CACHE = Path("~/.cache/headway").expanduser()
MINILM = graph_path(CACHE, find_model("minilm"))
LINGER = {"linger": "20s"}
"""Long enough that a batch starts only once it is full: then its members did share it."""
SENTENCES = (
    "A cat.",
    "The old bridge waits for the morning news in the rain.",
    "Our neighbour repairs a red bicycle before the shops open, and this train passes the harbour.",
)


def tensor(name, datatype, rows):
    data = [value for row in rows for value in row]
    shape = [len(rows), len(rows[0])]
    return {"name": name, "datatype": datatype, "shape": shape, "data": data}


def ask(server, model, *tensors):
    """One request; its outputs by name, as (shape, data), and its reply's parameters."""
    body = json.dumps({"inputs": list(tensors)}).encode()
    answer = server.call("POST", f"/v2/models/{model}/infer", body)
    assert answer.status == 200, answer.body
    outputs = {one["name"]: (one["shape"], one["data"]) for one in answer.json["outputs"]}
    return outputs, answer.json["parameters"]


def masked(**buckets):
    section = {"sizes": [4, 8], "inputs": {"x": 1, "mask": 1}, "outputs": {"twice": 1}} | buckets
    return {
        "name": "masked",
        "path": f"{MODELS}/shaped.py:Masked",
        "batch": {"rows_max": 3, "buckets": [section], **LINGER},
    }


def test_lengths_share_a_batch_and_get_their_own_answer_back(tmp_path, clients):
    """Three lengths run as one batch; each answer is that of its own elements, at its own length.

    What was added is counted.
    """
    rows = [[1.0, 5.0], [7.0, 8.0, 9.0], [2.0, 2.0, 2.0, 6.0]]
    with serving(tmp_path, a_config(masked())) as server:
        asked = [
            clients.submit(
                ask,
                server,
                "masked",
                tensor("x", "FP32", [row]),
                tensor("mask", "INT64", [[1] * len(row)]),
            )
            for row in rows
        ]
        for row, one in zip(rows, asked, strict=True):
            outputs, parameters = one.result()
            assert outputs["twice"] == ([1, len(row)], [2 * value for value in row])
            assert outputs["mean"] == ([1, 1], [sum(row) / len(row)])
            assert parameters["batch_rows"] == 3
        item_bytes = 4 + 8
        assert server.metric("headway_batch_input_bytes_total", model="masked") == 12 * item_bytes
        assert server.metric("headway_batch_padding_bytes_total", model="masked") == 3 * item_bytes


def test_batch_cut_by_shape_is_counted(tmp_path, folder, clients):
    """Without buckets, requests of two widths run apart, and the metric says why."""
    model = puppet(folder, options={"columns": -1}, batch={"rows_max": 8})
    with serving(tmp_path, a_config(model)) as server:
        held = clients.submit(server.infer, "puppet", [[1.0, 1.0]])
        folder.wait_begun(1)
        asked = [
            clients.submit(server.infer, "puppet", [[float(tag), 0.0] + [0.0] * tag])
            for tag in (2, 3)
        ]
        wait_until(lambda: server.metric("headway_queue_depth") == 2, "both wait")
        folder.open()
        for one in (held, *asked):
            assert one.result().status == 200
        assert server.metric("headway_batches_cut_total", model="puppet", reason="shape") == 1
        assert server.metric("headway_batches_cut_total", model="puppet") == 1


def test_request_beyond_the_largest_size(tmp_path):
    """Refused with 400 and the size up to which it is served; or run as it is, if so configured."""
    long = [tensor("x", "FP32", [[1.0] * 9]), tensor("mask", "INT64", [[1] * 9])]
    loose = masked(larger="unpadded") | {"name": "loose"}
    loose["batch"] |= {"linger": 0}
    with serving(tmp_path, a_config(masked(), loose)) as server:
        body = json.dumps({"inputs": long}).encode()
        refused = server.call("POST", "/v2/models/masked/infer", body)
        assert (refused.status, refused.code) == (400, "invalid_request")
        assert "axis 1 of input `x` has size `9`" in refused.json["error"]
        outputs, _ = ask(server, "loose", *long)
        assert outputs["twice"] == ([1, 9], [2.0] * 9)


def test_ragged_requests_share_a_batch_without_padding(tmp_path, clients):
    """Rows of three lengths, one request with two of them, run as one batch; nothing is added."""
    model = {
        "name": "sums",
        "path": f"{MODELS}/shaped.py:Sums",
        "batch": {"rows_max": 4, "ragged": {"inputs": ["x"], "lengths": "sizes"}, **LINGER},
    }
    requests = [[[1.0, 2.0]], [[3.0], [4.0]], [[5.0, 6.0, 7.0]]]
    with serving(tmp_path, a_config(model)) as server:
        declared = server.get("/v2/models/sums").json["inputs"]
        assert declared == [{"name": "x", "datatype": "FP32", "shape": [-1, -1]}]
        asked = [
            clients.submit(ask, server, "sums", tensor("x", "FP32", rows)) for rows in requests
        ]
        for rows, one in zip(requests, asked, strict=True):
            outputs, parameters = one.result()
            assert outputs["y"] == ([len(rows), 1], [sum(row) for row in rows])
            assert parameters["batch_rows"] == 4
        assert server.metric("headway_batch_padding_bytes_total", model="sums") == 0


def test_batches_asked_of_a_model_that_cannot_stop_the_start(tmp_path, folder):
    """A linger that would never have an effect is an error at the start, with what to do."""
    model = puppet(folder, options={"can_batch": False}, batch={"linger": "2ms"})
    with running(tmp_path, ["serve", written(tmp_path, a_config(model))]) as server:
        assert server.exit_code() == 1
        assert "model `puppet` has no batch axis" in server.log()
        assert "leave them out" in server.log()


def written(folder, config):
    """A configuration's file."""
    path = folder / "serve.yaml"
    path.write_text(json.dumps(config))
    return str(path)


@pytest.fixture(scope="module")
def minilm():
    """The demo's MiniLM in this process; of the module, as the library keeps files open."""
    if missing_packages(CACHE, ["minilm"]):
        pytest.skip("the demo's MiniLM is not in the cache; `headway demo` fetches it")
    onnxruntime = pytest.importorskip("onnxruntime", reason="onnxruntime runs the model")
    return onnxruntime.InferenceSession(str(MINILM), providers=["CPUExecutionProvider"])


@pytest.mark.timeout(120)
def test_minilm_gives_the_same_vectors_padded(tmp_path, clients, minilm):
    """Sentences of three lengths, padded into one batch, are what each is alone and unpadded."""
    inputs = [own_length(sentence) for sentence in SENTENCES]
    assert len({arrays["input_ids"].shape for arrays in inputs}) == len(SENTENCES)
    section = {"sizes": [32], "inputs": {"input_ids": 1, "attention_mask": 1}}
    model = {
        "name": "minilm",
        "path": str(MINILM),
        "batch": {"rows_max": len(SENTENCES), "buckets": [section], **LINGER},
    }
    with serving(tmp_path, a_config(model)) as server:
        asked = [
            clients.submit(
                ask,
                server,
                "minilm",
                *[tensor(name, "INT64", array.tolist()) for name, array in arrays.items()],
            )
            for arrays in inputs
        ]
        for arrays, one in zip(inputs, asked, strict=True):
            outputs, parameters = one.result()
            (wanted,) = minilm.run(None, arrays)
            assert parameters["batch_rows"] == len(SENTENCES)
            assert outputs["embedding"][1] == pytest.approx(wanted[0].tolist(), abs=1e-5)


def own_length(sentence):
    """Token ids and mask of one sentence, without the padding that the demo's client adds."""
    arrays = encode_sentences(DemoAssets(CACHE).tokenizer, [sentence])
    size = int(arrays["attention_mask"].sum())
    return {name: array[:, :size] for name, array in arrays.items()}
