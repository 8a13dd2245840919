"""Waiting formulas against what is known exactly."""

from math import exp, factorial, inf

import pytest

from headway.plan import Work, erlang_c, fastest_decay, wait_of


@pytest.mark.parametrize(("servers", "offered"), [(1, 0.5), (2, 1.2), (5, 4.0), (20, 15.0)])
def test_erlang_c_is_its_textbook_sum(servers: int, offered: float) -> None:
    """The recurrence gives what the sum of factorials gives."""
    top = offered**servers / factorial(servers) * servers / (servers - offered)
    below = sum(offered**n / factorial(n) for n in range(servers))
    assert erlang_c(servers, offered) == pytest.approx(top / (below + top))


def test_one_server_with_fixed_times_waits_half_as_long() -> None:
    """Pollaczek and Khinchine: M/D/1 waits rho S / 2 (1 - rho) in the mean, M/M/1 twice that."""
    fixed = wait_of(rate_rps=5.0, service_s=0.1)
    random = wait_of(rate_rps=5.0, service_s=0.1, service_cv=1.0)
    assert fixed.mean_s == pytest.approx(0.5 * 0.1 / (2 * 0.5))
    assert random.mean_s == pytest.approx(2 * fixed.mean_s)


def test_a_wait_of_exponential_times_is_exact() -> None:
    """M/M/1: P(W > t) = rho exp(-(1 - rho) t / S)."""
    wait = wait_of(rate_rps=8.0, service_s=0.1, service_cv=1.0)
    assert wait.exceeds_ratio(0.3) == pytest.approx(0.8 * exp(-0.2 * 0.3 / 0.1))
    assert wait.exceeds_ratio(wait.quantile_s(0.99)) == pytest.approx(0.01)


def test_a_queue_that_grows_waits_for_ever() -> None:
    """At full load and above there is no time in which anything is sure to begin."""
    wait = wait_of(rate_rps=20.0, service_s=0.1)
    assert (wait.probability, wait.mean_s) == (1.0, inf)
    assert wait.exceeds_ratio(1e9) == 1.0


def test_nobody_waits_where_nothing_comes() -> None:
    """No load, no wait; and less than nothing is no time to wait in."""
    assert wait_of(rate_rps=0.0, service_s=0.1).quantile_s(0.99) == 0.0
    assert wait_of(rate_rps=5.0, service_s=0.1).exceeds_ratio(-1.0) == 1.0


def test_a_stream_presses_as_hard_as_its_load_where_there_is_time() -> None:
    """With short batches beside the time to wait in, pressure is load; with long ones more."""
    work = Work(batches_of_rps=0.5, batch_s=0.1)
    assert 8.0 * work.pressure(1e-6) == pytest.approx(0.4)
    assert work.pressure(1.0) < work.pressure(10.0)
    assert work.pressure(10.0) == pytest.approx(0.5 * (exp(1.0) - 1) / 10.0)


def test_even_arrivals_press_less_and_bursts_more() -> None:
    """Gaps of one length bring no more than their load, but for the times of the batches."""
    even, poisson, bursts = (Work(1.0, 0.1, arrivals_cv=cv) for cv in (0.0, 1.0, 2.0))
    assert even.pressure(5.0) == pytest.approx(0.1)
    assert even.pressure(5.0) < poisson.pressure(5.0) < bursts.pressure(5.0)


def test_times_that_scatter_too_much_cannot_fall_off_so_fast() -> None:
    """Exponential times have no moment beyond their own rate."""
    work = Work(1.0, 0.1, service_cv=1.0)
    assert work.pressure(9.0) == pytest.approx(0.1 / (1 - 0.9))
    assert work.pressure(10.0) == inf


@pytest.mark.parametrize("load", [0.3, 0.6, 0.9])
def test_the_decay_of_exponential_times_is_exact(load: float) -> None:
    """M/M/1: the wait falls off as exp(-(1 - load) t / S)."""
    work = Work(1.0, 0.1, service_cv=1.0)
    assert fastest_decay([], [(work, load / 0.1)]) == pytest.approx((1 - load) / 0.1)


def test_whoever_overtakes_costs_as_much_again() -> None:
    """Behind the same work the wait falls off more slowly where others may go first."""
    one, other = (Work(1.0, 0.02), 10.0), (Work(1.0, 0.05), 4.0)
    level = fastest_decay([], [one, other])
    overtaken = fastest_decay([other], [one])
    assert 0 < overtaken < level


def test_a_wait_falls_off_only_below_full_load() -> None:
    """Nothing to wait for, and too much."""
    assert fastest_decay([], []) == inf
    assert fastest_decay([], [(Work(1.0, 0.1), 11.0)]) == 0.0
