"""Requests to a language model in bursts, drawn: for where no recording of such is at hand.

The families are those that BurstGPT's authors found in ten million requests to a hosted service
(Wang et al., KDD 2025, arXiv 2401.17644): gaps are gamma distributed and far burstier than chance,
how bursty drifts from one stretch of time to the next, and lengths of prompts and answers fall off
by a power law. Their recording is not ours to ship, so the constants here are our own, and
figures that come from it are to be labelled *generated*.

- A stretch of `window_ns` has a rate that is drawn from a gamma distribution around `rate_rps`.
- Within it gaps have the coefficient of variation `cv`.
- A length has density x^-(exponent + 1) between its bounds: the continuous form of Zipf's law.

The same seed draws the same requests on every machine.
"""

from collections.abc import Iterator
from itertools import islice
from random import Random

from msgspec import Struct

from headway.units import NS_PER_S
from headway.workload.arrivals import Phase, Piecewise
from headway.workload.shapes import GapShape
from headway.workload.traces import Trace

__all__ = ["BurstLoad", "PowerLaw", "burst_trace"]

_WINDOWS = 512
"""Drawn once, then repeated."""


class PowerLaw(Struct, frozen=True, kw_only=True):
    """Lengths in tokens, many short ones and a few long.

    Raises:
        ValueError: bounds that hold nothing, or an exponent that is not above 0.
    """

    exponent: float
    tokens_min: int
    tokens_max: int

    def __post_init__(self) -> None:
        if not self.exponent > 0.0:
            raise ValueError(f"the exponent must be above 0, not {self.exponent}")
        if not 1 <= self.tokens_min <= self.tokens_max:
            raise ValueError(f"1 <= `{self.tokens_min}` <= `{self.tokens_max}` does not hold")

    def draw(self, chance: Random) -> int:
        """One length."""
        least = self.tokens_min**-self.exponent
        most = self.tokens_max**-self.exponent
        tokens: float = (least - chance.random() * (least - most)) ** (-1.0 / self.exponent)
        return min(self.tokens_max, max(self.tokens_min, round(tokens)))


class BurstLoad(Struct, frozen=True, kw_only=True):
    """How many, how bursty, how long.

    Raises:
        ValueError: a rate or a window of nothing, or what scatters by less than nothing.
    """

    rate_rps: float
    """In the long run."""
    cv: float = 3.0
    """Of gaps within a window: standard deviation over mean."""
    window_ns: int = 20 * NS_PER_S
    window_cv: float = 0.6
    """Of the rates of windows."""
    prompt: PowerLaw = PowerLaw(exponent=0.7, tokens_min=64, tokens_max=8_192)
    output: PowerLaw = PowerLaw(exponent=0.7, tokens_min=16, tokens_max=1_024)

    def __post_init__(self) -> None:
        if self.rate_rps <= 0.0 or self.window_ns <= 0:
            raise ValueError("a load needs a rate, and windows that last")
        if self.window_cv < 0.0:
            raise ValueError(f"rates cannot scatter by `{self.window_cv}`")
        GapShape.of_cv(self.cv)


def burst_trace(load: BurstLoad, seed: int, count: int) -> Trace:
    """So many requests, as if they had been recorded; the first arrives at 0.

    Raises:
        ValueError: none are asked for.
    """
    if count < 1:
        raise ValueError("a trace needs a request at least")
    chance = Random(f"bursts/{seed}")
    lengths = Random(f"bursts/{seed}/lengths")  # the same at every rate
    arrivals = Piecewise(tuple(_windows(load, chance)))
    at_ns = list(islice(arrivals.instants(chance), count))
    return Trace(
        name="generated bursts",
        at_ns=tuple([each - at_ns[0] for each in at_ns]),
        input_tokens=tuple([load.prompt.draw(lengths) for _ in range(count)]),
        output_tokens=tuple([load.output.draw(lengths) for _ in range(count)]),
    )


def _windows(load: BurstLoad, chance: Random) -> Iterator[Phase]:
    """Of the rates that are drawn the mean is made exact, so that a load is what it says."""
    shape = GapShape.of_cv(load.window_cv)
    draw = shape.sampler(chance)
    ratios = [draw() for _ in range(_WINDOWS)]
    scale = load.rate_rps * len(ratios) / sum(ratios)
    gaps = GapShape.of_cv(load.cv)
    for ratio in ratios:
        # Rates that are as good as none are none: a gap must not outlast a run.
        rate_rps = ratio * scale
        yield Phase(load.window_ns, rate_rps if rate_rps > 1e-6 else 0.0, gaps)
