"""What is measured before a load, on executions made by hand."""

from headway.bench.before import SoloWatch, _Alone, _solo_class
from headway.core import BatchFinished, RequestArrived
from headway.testing import a_dispatch, a_request
from headway.units import NS_PER_MS


def test_watch_pairs_each_execution_with_its_request():
    """Execution is as the worker timed it; overhead is what the service took beside its stages."""
    watch = SoloWatch()
    request = a_request(5, model="m", rows=3)
    watch(10, RequestArrived(request=request), [])
    watch(20, RequestArrived(request=a_request(6)), [a_dispatch(1, 5, model="m", rows=3)])
    watch(
        90,
        BatchFinished(batch_id=1, transfer_in_ns=3, execution_ns=60, transfer_out_ns=2),
        [a_dispatch(2, 6)],
    )
    assert watch.executions == [_Alone(request, 60, 5)]


def test_class_is_summed_up_by_its_median():
    """One slow execution moves the 95th percentile, never the median; nor does one long way."""
    request = a_request(1, model="m", rows=3)
    times_ms = [10, 11, 12, 13, 90]
    alone = [
        _Alone(request, ms * NS_PER_MS, way * NS_PER_MS)
        for ms, way in zip(times_ms, (1, 2, 2, 2, 9), strict=True)
    ]
    solo = _solo_class("m x3", alone)
    assert (solo.name, solo.model, solo.rows, solo.runs) == ("m x3", "m", 3, 5)
    assert solo.median_ns == 12 * NS_PER_MS
    assert solo.p95_ns == 90 * NS_PER_MS
    assert solo.overhead_ns == 2 * NS_PER_MS
    assert solo.bucket == request.bucket
