"""Checks and load requests, with answers made up on the spot."""

import random
from pathlib import Path

import numpy as np
import pytest

from headway.demo import CATALOGUE, DemoAssets, check_models, find_model, pooled, sample_makers


@pytest.fixture
def assets(tmp_path: Path) -> DemoAssets:
    """A cache in which nothing lies."""
    return DemoAssets(tmp_path)


@pytest.mark.parametrize(("unsafe", "passed"), [(0.01, True), (0.9, False)])
def test_check_judges_the_answer(assets: DemoAssets, unsafe: float, passed: bool) -> None:
    """A check passes on the right answer, fails on a wrong one, and says what it saw."""
    answer = {"outputs": np.array([[1 - unsafe, unsafe]], np.float32)}
    (result,) = check_models(lambda *_: answer, assets, models=["opennsfw"])
    assert result.passed is passed
    assert f"{unsafe:.4f}" in result.seen


def test_deaf_model_fails_the_speech_check(assets: DemoAssets) -> None:
    """A model that calls everything speech, or nothing, is found out."""
    for constant in (0.0, 1.0):
        answer = {"output": np.array([[constant]]), "memory_next": np.zeros((1, 2, 128))}
        (result,) = check_models(lambda *_, a=answer: a, assets, models=["silero-vad"])
        assert not result.passed


def test_checks_need_all_their_models(assets: DemoAssets) -> None:
    """A check is left out while one of its models is not served."""
    assert list(check_models(lambda *_: {}, assets, models=["ocr-detect"])) == []


def test_every_model_has_a_sample_maker(assets: DemoAssets) -> None:
    """No model of the catalogue is without load."""
    assert set(sample_makers(assets)) == {model.name for model in CATALOGUE}


@pytest.mark.parametrize("name", ["silero-vad", "ocr-detect", "ocr-recognise", "opennsfw"])
def test_samples_fit_the_declared_inputs(assets: DemoAssets, name: str) -> None:
    """A request has the names, types and shapes that the catalogue declares."""
    types = {"FP32": np.float32, "INT32": np.int32, "INT64": np.int64}
    for seed in range(4):
        arrays = sample_makers(assets)[name](random.Random(seed))
        for tensor in find_model(name).inputs:
            array = arrays.pop(tensor.name)
            assert array.dtype == types[tensor.datatype]
            assert len(array) == 1
            fits = [
                want in (-1, size) for want, size in zip(tensor.shape, array.shape, strict=True)
            ]
            assert all(fits)
        assert arrays == {}


def test_pooled_requests_are_made_once() -> None:
    """A pool is filled at once and only picked from afterwards."""
    made = []

    def maker(chance: random.Random) -> dict[str, np.ndarray]:
        made.append({"x": np.array([chance.random()])})
        return made[-1]

    pick = pooled(maker, random.Random(1), count=3)
    picked = [pick(random.Random(seed)) for seed in range(20)]
    assert len(made) == 3
    assert all(any(one is other for other in made) for one in picked)
