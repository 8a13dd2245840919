"""Quick bounds on waiting: formulas, where a simulation would take too long to be asked everything.

Knows rates and times of service. Refuses to know what is served.

Of k servers with Poisson arrivals and exponential times, Erlang (1917) gives the probability of
waiting C(k, a), a = rate x time, and the wait of those who do wait is exponential:

    P(W > t) = C(k, a) exp(-t (k - a) / S)

For other arrivals and times both the mean and the decay are scaled by half the sum of the squared
coefficients of variation, the approximation of Lee and Longton (1959) for M/G/k, and of Allen and
Cunneen (Probability, Statistics and Queueing Theory, 1978) for G/G/k. It is exact for M/M/k, and in
its mean for M/G/1, where it is Pollaczek's and Khinchine's formula; elsewhere it is an
approximation, and a plan says which of its figures rest on it.

Several streams on one server are added up by their effective bandwidths (Kelly, 1996). The work of
stream i grows so that, for a decay d,

    E exp(d x work in t) ~ exp(L_i(d) t),   L_i(d) = rate_i ((E exp(d S_i))^c - 1) / c

with c the squared coefficient of variation of its gaps, which are taken as gamma distributed: exact
for independent arrivals, c = 1. If the L_i of all that is served before somebody add up to d at
most, his wait exceeds t with a probability of no more than about exp(-d t): for independent
arrivals that is Lundberg's inequality, and holds without the about. L_i(d) / d is called the
pressure of a stream: it is its load, counted the heavier the longer its batches are beside the time
that there is to wait in. Whoever overtakes while one waits costs as much again: the decay left is d
less the L of these.
"""

from collections.abc import Sequence
from math import exp, expm1, inf, log, log1p
from typing import Final, NamedTuple

__all__ = ["Wait", "Work", "erlang_c", "fastest_decay", "wait_of"]

_EXPONENT_MAX: Final = 600.0
_DECAY_MAX: Final = 1e15
_HALVINGS: Final = 60
_STEPS: Final = 64


class Wait(NamedTuple):
    """How long requests wait for a server."""

    probability: float
    """Of having to wait at all."""
    mean_s: float
    """Over all requests, those that do not wait included; infinite where the queue grows."""
    decay_s: float
    """Of those who wait, the share of them still waiting falls by e in this time."""

    def exceeds_ratio(self, time_s: float) -> float:
        """Part of the requests that wait longer."""
        if time_s < 0 or self.decay_s == float("inf"):
            return 1.0
        return self.probability * exp(-time_s / self.decay_s)

    def quantile_s(self, ratio: float) -> float:
        """What this part of the requests waits at most."""
        if 1.0 - ratio >= self.probability:
            return 0.0
        return self.decay_s * log(self.probability / (1.0 - ratio))


def erlang_c(servers: int, offered: float) -> float:
    """Probability that a request finds all servers busy; ``offered`` is rate times mean time."""
    if offered >= servers:
        return 1.0
    blocked = 1.0  # Erlang's B, from no servers up: stable where the factorials are not
    for count in range(1, servers + 1):
        blocked = offered * blocked / (count + offered * blocked)
    return blocked / (1.0 - offered / servers * (1.0 - blocked))


def wait_of(
    *,
    rate_rps: float,
    service_s: float,
    servers: int = 1,
    arrivals_cv: float = 1.0,
    service_cv: float = 0.0,
) -> Wait:
    """The wait for one of several equal servers; see the module."""
    offered = rate_rps * service_s
    if offered <= 0.0:
        return Wait(0.0, 0.0, 0.0)
    if offered >= servers:
        return Wait(1.0, float("inf"), float("inf"))
    probability = erlang_c(servers, offered)
    spread = (arrivals_cv**2 + service_cv**2) / 2
    decay_s = spread * service_s / (servers - offered)
    return Wait(probability, probability * decay_s, decay_s)


class Work(NamedTuple):
    """What a stream of batches brings to a server."""

    batches_of_rps: float
    """Batches a second for each request a second."""
    batch_s: float
    arrivals_cv: float = 1.0
    service_cv: float = 0.0

    def pressure(self, decay_per_s: float) -> float:
        """Effective load of one request a second, for whoever's wait is to fall off so fast.

        See the module; infinite where times scatter too much for that.
        """
        growth = self._log_growth(decay_per_s)
        variance = self.arrivals_cv**2
        if growth * max(variance, 1.0) > _EXPONENT_MAX:
            return inf
        scaled = expm1(variance * growth) / variance if variance > 0 else growth
        return self.batches_of_rps * scaled / decay_per_s

    def _log_growth(self, decay_per_s: float) -> float:
        """Logarithm of the mean of exp(decay x time), for gamma distributed times."""
        work, variance = decay_per_s * self.batch_s, self.service_cv**2
        if variance == 0:
            return work
        if work * variance >= 1.0:
            return inf
        return -log1p(-work * variance) / variance


def fastest_decay(
    ahead: Sequence[tuple[Work, float]], equal: Sequence[tuple[Work, float]]
) -> float:
    """How fast the wait falls off, at least, behind streams at such rates; 0 where it does not.

    Args:
        ahead: whoever overtakes, with its requests a second.
        equal: whoever queues in order of arrival, oneself among them.
    """
    every = [*ahead, *equal]

    def spare(decay_per_s: float, works: Sequence[tuple[Work, float]]) -> float:
        return 1.0 - sum(rate * work.pressure(decay_per_s) for work, rate in works if rate > 0)

    longest_s = max((work.batch_s for work, rate in every if rate > 0), default=0.0)
    if longest_s <= 0.0:
        return inf
    high = 1.0 / longest_s
    low = high * 1e-6
    if spare(low, every) < 0:
        return 0.0
    while spare(high, every) >= 0 and high < _DECAY_MAX:
        high *= 2
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if spare(middle, every) >= 0 else (low, middle)
    if not any(rate > 0 for _, rate in ahead):
        return low
    steps = (low * part / _STEPS for part in range(1, _STEPS + 1))
    return max(decay * spare(decay, ahead) for decay in steps)
