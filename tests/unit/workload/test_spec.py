"""Workload files: what is understood, and how a fault is told."""

from pathlib import Path

import pytest

from headway.errors import ConfigError
from headway.units import NS_PER_MS, NS_PER_S
from headway.workload import (
    FixedRows,
    Gamma,
    GapFamily,
    OnOff,
    Piecewise,
    Poisson,
    Recorded,
    Uniform,
    UniformRows,
    WeightedRows,
    workload_from_dict,
)

TRACES = Path(__file__).parent / "traces"
POISSON = {"kind": "poisson", "rate_rps": 10}


def a_file(**stream):
    """A workload of one stream."""
    return {
        "duration": "20s",
        "seed": 3,
        "streams": [{"model": "ocr", "tier": "batch", "arrivals": POISSON, **stream}],
    }


def arrivals_of(**arrivals):
    """The arrival process that these words describe."""
    return workload_from_dict(a_file(arrivals=arrivals), traces=TRACES).streams[0].arrivals


def test_everything_of_a_stream_is_read():
    """Durations are parsed, and what is left out has its default."""
    workload = workload_from_dict(
        a_file(budget="200ms", priority=0, tenant="acme", start="1s", stop="1.5s", rows=4)
    )
    (stream,) = workload.streams
    assert (workload.duration_ns, workload.seed) == (20 * NS_PER_S, 3)
    assert (stream.budget_ns, stream.priority, stream.tenant) == (200 * NS_PER_MS, 0, "acme")
    assert (stream.start_at_ns, stream.stop_at_ns) == (NS_PER_S, 1_500_000_000)
    assert stream.rows == FixedRows(4)
    assert workload_from_dict(a_file()).streams[0].rows == FixedRows(1)


def test_every_kind_of_arrivals_is_known():
    """Each kind builds the process of its name."""
    assert arrivals_of(kind="poisson", rate_rps=5) == Poisson(5.0)
    assert arrivals_of(kind="gamma", rate_rps=5, cv=4) == Gamma(5.0, 4.0)
    assert arrivals_of(kind="uniform", rate_rps=5) == Uniform(5.0)
    on_off = arrivals_of(kind="on_off", rate_on_rps=8, on="2s", off="5s")
    assert on_off == OnOff(8.0, 2 * NS_PER_S, 5 * NS_PER_S)
    steps = arrivals_of(kind="piecewise", phases=[{"duration": "1s", "rate_rps": 5}], cv=0)
    assert isinstance(steps, Piecewise)
    assert steps.phases[0].shape.family is GapFamily.CONSTANT
    recorded = arrivals_of(
        kind="recorded", trace="orion.json", format="orion", rate_rps=9, is_rotated=True
    )
    assert recorded == Recorded((500_000_000, 250_000_000, 250_000_000), 9.0, True)


def test_every_kind_of_rows_is_known():
    """Rows are a number or a distribution; YAML's and JSON's keys both work."""
    uniform = workload_from_dict(a_file(rows={"kind": "uniform", "min": 1, "max": 4}))
    weighted = workload_from_dict(a_file(rows={"kind": "weighted", "weights": {"16": 1, 1: 8}}))
    assert uniform.streams[0].rows == UniformRows(1, 4)
    assert weighted.streams[0].rows == WeightedRows(((1, 8.0), (16, 1.0)))


@pytest.mark.parametrize(
    ("stream", "path", "value"),
    [
        ({"rows": 0}, "streams[0].rows", 0),
        ({"budget": "5 parsecs"}, "streams[0].budget", "5 parsecs"),
        ({"budget": 5}, "streams[0].budget", 5),
        ({"arrivals": {"kind": "zipf"}}, "streams[0].arrivals.kind", "zipf"),
        (
            {"arrivals": {"kind": "poisson", "rate_rps": -1}},
            "streams[0].arrivals.rate_rps",
            -1,
        ),
        ({"rows": {"kind": "uniform", "min": 4, "max": 1}}, "streams[0]", None),
        ({"start": "5s", "stop": "5s"}, "streams[0]", None),
        (
            {"arrivals": {"kind": "piecewise", "phases": [{"duration": "1s", "rate_rps": 0}]}},
            "streams[0]",
            None,
        ),
    ],
)
def test_a_fault_is_told_with_path_and_value(stream, path, value):
    """What is wrong is refused where it stands, with what stands there."""
    with pytest.raises(ConfigError) as caught:
        workload_from_dict(a_file(**stream))
    assert (caught.value.path, caught.value.value) == (path, value)
    assert path in str(caught.value)


def test_an_unknown_word_is_refused():
    """A misspelt field is not ignored."""
    with pytest.raises(ConfigError, match="unknown field `budgett`"):
        workload_from_dict(a_file(budgett="5s"))


def test_a_workload_without_streams_is_refused():
    """Nothing to send is a fault of the file."""
    with pytest.raises(ConfigError, match="streams"):
        workload_from_dict({"duration": "5s", "streams": []})


def test_a_trace_needs_a_folder():
    """A recorded stream without a folder of traces says so."""
    recorded = {"kind": "recorded", "trace": "orion.json", "format": "orion"}
    with pytest.raises(ConfigError, match="no folder"):
        workload_from_dict(a_file(arrivals=recorded))
