"""Readers of recorded traces, on small files made by hand and, where present, on the real ones."""

import os
from pathlib import Path

import pytest

from headway.errors import ConfigError
from headway.units import NS_PER_S
from headway.workload import (
    GapFamily,
    Piecewise,
    Poisson,
    Recorded,
    TraceFormat,
    Uniform,
    load_arrivals,
    load_disb,
    load_faasrail,
    load_servegen,
    load_trace,
)

HERE = Path(__file__).parent / "traces"
REAL = Path(
    os.environ.get(  # noqa: TID251 (where real traces are is for the tester to say)
        "HEADWAY_TRACES", Path(__file__).parents[3] / "../shared/traces"
    )
)
needs_traces = pytest.mark.skipif(
    not REAL.is_dir(), reason="no folder of recorded traces: set HEADWAY_TRACES"
)


def test_azure_llm_sorts_and_starts_at_zero():
    """Lines out of order are sorted with their tokens, and time starts at the first."""
    trace = load_trace(HERE / "azure_llm.csv", TraceFormat.AZURE_LLM)
    assert trace.at_ns == (0, 250_000_100, 750_000_000)
    assert trace.input_tokens == (4808, 110, 3180)
    assert trace.output_tokens == (10, 27, 8)


def test_mooncake_reads_milliseconds():
    """Timestamps are milliseconds."""
    trace = load_trace(HERE / "mooncake.jsonl", TraceFormat.MOONCAKE)
    assert trace.at_ns == (0, 3 * NS_PER_S)
    assert trace.output_tokens == (5, 2)
    assert (trace.prefix_keys, trace.prefix_block_tokens) == (((0, 1), (0,)), 512)


def test_orion_sums_gaps():
    """An array of gaps becomes instants, one more than there are gaps."""
    trace = load_trace(HERE / "orion.json", TraceFormat.ORION)
    assert trace.at_ns == (0, NS_PER_S // 2, 3 * NS_PER_S // 4, NS_PER_S)


def test_azure_functions_arrive_before_they_run():
    """A call arrived its duration before it ended."""
    trace = load_trace(HERE / "azure_functions.csv", TraceFormat.AZURE_FUNCTIONS)
    assert trace.at_ns == (0, NS_PER_S // 2)
    assert trace.service_ns == (NS_PER_S // 4, 3 * NS_PER_S // 2)


def test_servegen_windows_become_phases():
    """Each window keeps its rate and its fitted shape."""
    arrivals = load_servegen(HERE / "servegen.csv")
    assert [phase.rate_rps for phase in arrivals.phases] == [0.0, 4.0, 2.0]
    assert [phase.shape.family for phase in arrivals.phases[1:]] == [
        GapFamily.GAMMA,
        GapFamily.WEIBULL,
    ]
    assert arrivals.phases[0].duration_ns == 600 * NS_PER_S


def test_servegen_windows_can_be_squeezed():
    """Two days can drift by in minutes, at the same rates."""
    arrivals = load_arrivals(
        HERE / "servegen.csv", TraceFormat.SERVEGEN, rate_rps=20.0, window_ns=NS_PER_S
    )
    assert isinstance(arrivals, Piecewise)
    assert [phase.duration_ns for phase in arrivals.phases] == [NS_PER_S] * 3
    assert arrivals.rate_rps == pytest.approx(20.0)


def test_servegen_is_no_list_of_arrivals():
    """A format of rates is refused where single arrivals are asked for."""
    with pytest.raises(ConfigError, match="records rates"):
        load_trace(HERE / "servegen.csv", TraceFormat.SERVEGEN)


def test_faasrail_leaves_out_functions_never_called():
    """Counts a minute become rates, and a function without calls is no load."""
    (load,) = load_faasrail(HERE / "faasrail.csv")
    assert load.name == "resize"
    assert load.service_mean_ns == 1_633_000_000
    assert [phase.rate_rps for phase in load.arrivals.phases] == [1.0, 2.0]


def test_disb_names_each_kind_of_load():
    """Periodic, Poisson and closed-loop clients are told apart, as are the real-time ones."""
    tasks = load_disb(HERE / "disb.json")
    assert [task.arrivals for task in tasks] == [Uniform(100.0), Poisson(20.0), None]
    assert [task.is_real_time for task in tasks] == [True, True, False]
    assert [task.rows for task in tasks] == [2, 1, 1]


@pytest.mark.parametrize(
    ("name", "text", "place"),
    [
        ("azure_llm", "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16,5\n", "bad:2"),
        ("azure_llm", "TIMESTAMP,ContextTokens,GeneratedTokens\nnever,5,6\n", "bad"),
        ("mooncake", '{"timestamp": "soon"}\n', "bad:1"),
        ("orion", "{}", "bad"),
        ("orion", "[0, 0]", "bad"),
        ("servegen", "0,1,1,Zipf,1,1\n", "bad:1"),
        ("servegen", "0,0,0,,0,0\n", "bad"),
    ],
)
def test_wrong_file_is_named(tmp_path, name, text, place):
    """A file that is not what it should be is refused with its name, and the line if any."""
    path = tmp_path / "bad"
    path.write_text(text)
    with pytest.raises(ConfigError) as caught:
        load_arrivals(path, TraceFormat(name))
    assert str(caught.value.path) == str(tmp_path / place)


def test_missing_file_says_what_to_do(tmp_path):
    """A trace that is not there is refused with a hint."""
    with pytest.raises(ConfigError) as caught:
        load_trace(tmp_path / "none.csv", TraceFormat.AZURE_LLM)
    assert caught.value.hint is not None


@needs_traces
@pytest.mark.parametrize(
    ("file", "name", "rate_rps"),
    [
        ("azure_llm_2023/AzureLLMInferenceTrace_code.csv", "azure_llm", 2.57),
        ("azure_llm_2023/AzureLLMInferenceTrace_conv.csv", "azure_llm", 5.53),
        ("mooncake/conversation_trace.jsonl", "mooncake", 3.4),
        ("orion/inter_arrival_times.json", "orion", 20.8),
        ("azure_functions/Azure2021_200.csv", "azure_functions", 0.165),
    ],
)
def test_real_trace_has_its_published_rate(file, name, rate_rps):
    """The published files are read whole: their rates come out."""
    arrivals = load_arrivals(REAL / file, TraceFormat(name))
    assert isinstance(arrivals, Recorded)
    assert arrivals.rate_rps == pytest.approx(rate_rps, rel=0.01)


@needs_traces
def test_real_servegen_and_disb_files_are_read():
    """Every published ServeGen client and DISB mix is understood."""
    for path in sorted((REAL / "servegen").glob("*/*.csv")):
        assert load_servegen(path).rate_rps > 0
    for path in sorted((REAL / "disb").glob("*.json")):
        assert load_disb(path)
    assert len(load_faasrail(REAL / "azure_functions/faasrail_azure2019_15rps_5min.csv")) == 244
