"""What batches are worth, worked out by hand."""

import pytest
from tests.planned import GIB, MS, a_device, a_model

from headway.plan import Refusal, batching_curve, seat_terms, whole_cut

CUT = whole_cut(a_device())


def test_larger_batches_serve_more_until_there_is_no_time_left_to_wait() -> None:
    """Throughput grows with every size; the rate that keeps the objective falls off at last."""
    model = a_model(
        rate_rps=60.0,
        budget_ns=60 * MS,
        service={1: 10 * MS, 4: 16 * MS, 16: 50 * MS},
        batch_rows_max=16,
    )
    points = {point.rows: point for point in batching_curve(model, CUT, {})}
    assert list(points) == [1, 2, 4, 8, 16]
    assert points[1].rows_per_s == pytest.approx(100.0)
    assert points[4].gain == pytest.approx(2.5)
    rates = [point.rows_per_s for point in points.values()]
    assert rates == sorted(rates)
    assert points[16].rate_max_rps == 0.0
    most = max(point.rate_max_rps for point in points.values())
    near = [point.rows for point in points.values() if point.rate_max_rps >= 0.9 * most]
    assert [point.rows for point in points.values() if point.is_best] == near[:1]


def test_the_best_size_is_the_one_that_seats_are_reckoned_with() -> None:
    """One rule for the curve and for the plan."""
    model = a_model(budget_ns=300 * MS, service={1: 10 * MS, 8: 30 * MS}, batch_rows_max=8)
    terms = seat_terms(model, CUT, {})
    assert not isinstance(terms, Refusal)
    (best,) = [point for point in batching_curve(model, CUT, {}) if point.is_best]
    assert best.rows == terms.batch_rows
    assert best.rate_max_rps == pytest.approx(terms.load_max_alone / terms.load_of_rps)


def test_rows_that_do_not_fit_are_marked() -> None:
    """Memory of weights and rows, against the slice's."""
    model = a_model(weights_bytes=70 * GIB, row_bytes=2 * GIB, batch_rows_max=8)
    fits = {point.rows: point.fits for point in batching_curve(model, CUT, {})}
    assert fits == {1: True, 2: True, 4: True, 8: False}


def test_requests_of_several_rows_are_batched_whole() -> None:
    """No size holds a part of a request."""
    model = a_model(request_rows=3, batch_rows_max=8, service={1: 10 * MS})
    assert [point.rows for point in batching_curve(model, CUT, {})] == [3, 6]


def test_nothing_is_said_where_nothing_is_known() -> None:
    """No measurement on the product and no speeds."""
    assert batching_curve(a_model(product="T4"), CUT, {}) == []
