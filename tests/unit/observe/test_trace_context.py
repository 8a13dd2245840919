"""W3C trace context: what is read of it, and who is sampled."""

from random import Random

import pytest

from headway.observe import Sampling, TraceContext
from headway.observe.trace_context import TraceParent, parse_traceparent

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
TRACE_ID, SPAN_ID = int(TRACE, 16), int(SPAN, 16)


@pytest.mark.parametrize(
    ("text", "is_sampled"),
    [
        (f"00-{TRACE}-{SPAN}-01", True),
        (f"00-{TRACE}-{SPAN}-00", False),
        (f"00-{TRACE}-{SPAN}-03", True),
        (f"00-{TRACE}-{SPAN}-fe", False),
        (f"cc-{TRACE}-{SPAN}-01", True),
        (f"cc-{TRACE}-{SPAN}-01-what-the-future-brings", True),
    ],
)
def test_valid_context_is_read(text, is_sampled):
    """Ids and the flag; unknown flags, and what a later version adds, are left alone."""
    assert parse_traceparent(text) == TraceParent(TRACE_ID, SPAN_ID, is_sampled)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "nonsense",
        f"00-{TRACE}-{SPAN}",
        f"00-{TRACE}-{SPAN}-1",
        f"00-{TRACE}-{SPAN}-01-more",
        f"cc-{TRACE}-{SPAN}-01.more",
        f"ff-{TRACE}-{SPAN}-01",
        f"0x-{TRACE}-{SPAN}-01",
        f"00-{TRACE.upper()}-{SPAN}-01",
        f"00-{'0' * 32}-{SPAN}-01",
        f"00-{TRACE}-{'0' * 16}-01",
        f"00-{TRACE[:-1]}-{SPAN}-01",
        f"00-{TRACE}-{SPAN}0-01",
        f"00-{TRACE}-{SPAN}-0g",
        f" 00-{TRACE}-{SPAN}-01",
        f"00-{TRACE}-{SPAN}-01\n",
        f"00-{TRACE}-{SPAN}-\u0660\u0661",
        f"cc-{TRACE}-{SPAN}-01-{'x' * 500}",
    ],
)
def test_invalid_context_is_as_good_as_absent(text):
    """The specification wants it ignored, whole."""
    assert parse_traceparent(text) is None
    context = Sampling(1.0, Random(1)).context_of(text)
    assert context is not None
    assert context.parent_id is None
    assert context.trace_id not in (0, TRACE_ID)


def test_caller_decides_for_its_own_traces():
    """Whoever is told of the caller's part is told of ours, and nobody else, whatever the ratio."""
    for ratio in (0.0, 1.0):
        sampling = Sampling(ratio, Random(1))
        assert sampling.context_of(f"00-{TRACE}-{SPAN}-01") == TraceContext(TRACE_ID, SPAN_ID)
        assert sampling.context_of(f"00-{TRACE}-{SPAN}-00") is None


@pytest.mark.parametrize(
    ("ratio", "least", "most"), [(0, 0, 0), (0.1, 800, 1200), (1, 10**4, 10**4)]
)
def test_ratio_of_new_traces_is_sampled(ratio, least, most):
    """About that part of the requests without a caller's trace, each with a trace of its own."""
    sampling = Sampling(ratio, Random(7))
    contexts = [sampling.context_of("") for _ in range(10_000)]
    sampled = [context for context in contexts if context is not None]
    assert least <= len(sampled) <= most
    assert len({context.trace_id for context in sampled}) == len(sampled)
