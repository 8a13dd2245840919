"""Queries that panels share, over the servers, models and tiers that are chosen on the page.

Knows Grafana's variables: `$job` and the like are choices, `$__rate_interval` is a window that
suits the width of the picture. Lines are called by the labels that are left.
"""

from typing import Final

from headway.monitoring.dashboard import Query

__all__ = [
    "CHOSEN", "DEVICE", "MODEL", "OVER", "SERVER", "TENANT", "TIER", "averages", "gauges",
    "legend_of", "quantiles", "rate", "rates", "shares",
]  # fmt: skip

CHOSEN: Final = 'job=~"$job",instance=~"$instance"'
SERVER: Final = f"{{{CHOSEN}}}"
DEVICE: Final = f'{{{CHOSEN},device=~"$device"}}'
TENANT: Final = f'{{{CHOSEN},tenant=~"$tenant"}}'
MODEL: Final = f'{{{CHOSEN},model=~"$model"}}'
TIER: Final = f'{{{CHOSEN},model=~"$model",tier=~"$tier"}}'
OVER: Final = "$__rate_interval"


def legend_of(by: str) -> str:
    """`model, tier` as the name of a line."""
    return " ".join(f"{{{{{label.strip()}}}}}" for label in by.split(","))


def rate(counter: str, by: str, chosen: str = TIER, over: str = OVER) -> str:
    """How fast a counter grows, added up over all labels but these."""
    return f"sum by ({by}) (rate({counter}{chosen}[{over}]))"


def rates(counter: str, by: str, chosen: str = TIER, *, prefix: str = "") -> Query:
    """A line for each of these labels' values: how fast a counter grows."""
    return Query(rate(counter, by, chosen), prefix + legend_of(by))


def gauges(gauge: str, by: str, chosen: str = TIER, *, how: str = "sum", prefix: str = "") -> Query:
    """A line for each of these labels' values: what a gauge says, added up or the largest."""
    return Query(f"{how} by ({by}) ({gauge}{chosen})", prefix + legend_of(by))


def shares(part: str, whole: str, by: str, chosen: str = TIER) -> Query:
    """A line for each of these labels' values: one counter's growth over another's."""
    return Query(f"{rate(part, by, chosen)} / {rate(whole, by, chosen)}", legend_of(by))


def averages(histogram: str, by: str, chosen: str = TIER) -> Query:
    """A line for each of these labels' values: the mean of what a histogram counted lately."""
    return shares(f"{histogram}_sum", f"{histogram}_count", by, chosen)


def quantiles(
    histogram: str, by: str, chosen: str = TIER, ratios: tuple[float, ...] = (0.5, 0.99)
) -> list[Query]:
    """Lines for each of these labels' values: quantiles of what a histogram counted lately."""
    buckets = rate(f"{histogram}_bucket", f"{by}, le", chosen)
    return [
        Query(f"histogram_quantile({ratio}, {buckets})", f"p{100 * ratio:g} {legend_of(by)}")
        for ratio in ratios
    ]
