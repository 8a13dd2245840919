"""What metrics cost: of a server's throughput, a kernel step, and at each scrape.

Throughput: two servers of the echo of `http_echo.py` live side by side, one without metrics, and
wrk asks them in turn and back, a window each, so that what the machine does meanwhile touches both
alike; then two others, and so on. The same once more with a scrape every second.

Steps: the events of some thousand requests are handed to the metrics alone, requests one by one and
in batches. Scrapes: the text of metrics with so many series, idle and with requests that wait for
each model; and over HTTP, of a server that has as many, at rest and under load.

Usage: `python benchmarks/metrics_cost.py [--quick] [--format table|json]`. Needs wrk.
"""

from __future__ import annotations

import contextlib
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from statistics import median
from typing import NamedTuple

import harness
import http_echo
from harness import Row

from headway.app import serve
from headway.app.device_watch import DeviceWatch
from headway.config import load_config
from headway.core import ModelName, SlotClass, TierName
from headway.observe import Metrics
from headway.policy import priority
from headway.predict import Recipe, build_predictor
from headway.runtime import TierParams
from headway.testing import Dialogue, a_device, a_kernel, a_model
from headway.units import NS_PER_S

NAME = "metrics_cost"
COLUMNS = (
    *("what", "setting", "series", "rps", "of_bare_percent", "us_per_request"),
    *("ms_p50", "ms_max", "kib", "others_cores"),
)
BARE = "--bare"
CONNECTIONS = 32
SERIES = (1_000, 10_000)
SERIES_LIVE = 1_000
SCRAPE_S = 1.0
TIERS = {
    TierName("normal"): TierParams(priority=1, budget_ns=NS_PER_S, slot_class=SlotClass.HIGH),
    TierName("bulk"): TierParams(priority=5, budget_ns=60 * NS_PER_S, slot_class=SlotClass.LOW),
}


class Effort(NamedTuple):
    """How long to measure."""

    pairs: int
    """Of servers."""
    rounds: int
    window_s: float
    requests: int
    scrapes: int


QUICK = Effort(pairs=1, rounds=2, window_s=1.0, requests=500, scrapes=10)
WHOLE = Effort(pairs=8, rounds=2, window_s=1.5, requests=4_000, scrapes=100)


# -- throughput --------------------------------------------------------------------------------


def throughput(effort: Effort) -> list[Row]:
    """The two servers, in turn and back; medians, and of the rounds' ratios."""
    seen: dict[str, list[float]] = {"bare": [], "metrics": [], "metrics, scraped each second": []}
    with harness.Interval() as interval:
        for number in range(effort.pairs):
            pair(effort, seen)
            say(f"pair {number + 1}: " + ", ".join(f"{k} {v[-1]:.0f}" for k, v in seen.items()))
    rates = {setting: median(found) for setting, found in seen.items()}
    return [
        {
            "what": f"echo over HTTP, {CONNECTIONS} connections",
            "setting": setting,
            "rps": round(rates[setting], 1),
            # Paired within a round: the first windows of both, and the last.
            "of_bare_percent": round(
                100 * median([a / b for a, b in zip(found, seen["bare"], strict=True)]), 1
            ),
            "us_per_request": round(1e6 / rates[setting] - 1e6 / rates["bare"], 2),
            "others_cores": interval.others_cores,
        }
        for setting, found in seen.items()
    ]


def pair(effort: Effort, seen: dict[str, list[float]]) -> None:
    """Two servers of their own: where a process lies in memory makes it a few per cent faster."""
    with (
        a_server(is_bare=False) as with_metrics,
        a_server(is_bare=True, spares=harness.own_tree()) as bare,
    ):
        ports = dict(zip(seen, (bare, with_metrics, with_metrics), strict=True))
        for port in (bare, with_metrics):
            load(port, 1.0)
        for _ in range(effort.rounds):
            for setting in (*seen, *reversed(seen)):
                with scraping(ports[setting], is_on="scraped" in setting):
                    seen[setting].append(load(ports[setting], effort.window_s))


@contextlib.contextmanager
def a_server(*, is_bare: bool, spares: list[int] | None = None, models: int = 1) -> Iterator[int]:
    """One of this program's own servers; gives its port.

    Args:
        is_bare: without metrics.
        spares: processes that are not this server's.
        models: how many there are to have series of.
    """
    port = harness.free_port()
    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder) / "echo.yaml"
        config.write_text(with_models(http_echo.headway_config(port), models))
        command = [sys.executable, __file__, "--serve", str(config), *([BARE] if is_bare else [])]

        def is_ready() -> bool:
            return harness.Http(port).get("/v2/health/ready")[0] == 200

        with harness.ServerProcess(command, is_ready, spares=frozenset(spares or ())):
            yield port


def with_models(config: str, count: int) -> str:
    """The configuration of one echo model, with further ones like it."""
    head, entry = config.split("models:\n")
    others = (entry.replace("name: echo", f"name: echo{number}") for number in range(1, count))
    return f"{head}models:\n{entry}{''.join(others)}"


def load(port: int, seconds: float) -> float:
    """Requests a second.

    Raises:
        LoadFailedError: some were answered wrongly.
    """
    result = harness.run_wrk(
        harness.Load(
            url=f"http://127.0.0.1:{port}{http_echo.OIP_PATH}",
            body=http_echo.OIP_BODY,
            connections=CONNECTIONS,
            seconds=seconds,
        )
    )
    if result.failures:
        raise harness.LoadFailedError(f"{result.failures} answers were wrong")
    return result.rps


@contextlib.contextmanager
def scraping(port: int, *, is_on: bool) -> Iterator[None]:
    """Ask for the metrics every so often meanwhile."""
    over = threading.Event()

    def scrape() -> None:
        http = harness.Http(port)
        while not over.is_set():
            http.get("/metrics")
            over.wait(SCRAPE_S)
        http.close()

    thread = threading.Thread(target=scrape)
    if is_on:
        thread.start()
    try:
        yield
    finally:
        over.set()
        if is_on:
            thread.join()


# -- steps -------------------------------------------------------------------------------------


def steps(effort: Effort) -> list[Row]:
    """What the metrics take of a request, from its arrival to its end, alone."""
    return [
        {
            "what": "kernel steps handed to metrics",
            "setting": f"batches of {rows}",
            "us_per_request": round(step_us(rows, effort.requests), 2),
        }
        for rows in (1, 8)
    ]


def step_us(rows: int, requests: int) -> float:
    """The best of some rounds: noise only ever adds."""
    talk = a_kernel(models=[a_model(batch_rows_max=rows)])
    for first in range(0, requests, rows):
        for request_id in range(first, first + rows):
            talk.arrives(request_id, at=talk.now_ns + 1_000)
        talk.drain()
    found = []
    for _ in range(5):
        metrics = Metrics(talk.kernel, lambda: 0, TIERS)
        metrics.know(ModelName("m"))
        began_ns = time.perf_counter_ns()
        for record in talk.records:
            metrics(record.now_ns, record.event, record.commands)
        found.append(time.perf_counter_ns() - began_ns)
    return min(found) / requests / 1e3


# -- scrapes -----------------------------------------------------------------------------------


def scrapes(effort: Effort) -> list[Row]:
    """The text of so many series, in both formats, at rest and with requests that wait."""
    rows: list[Row] = []
    for series in SERIES:
        for is_busy in (False, True):
            talk, metrics = of_size(series, is_busy=is_busy)
            rows += [
                scrape_row(f"{form}, {'requests wait' if is_busy else 'idle'}", text, effort)
                for form, text in (
                    ("Prometheus' text", partial(whole, metrics)),
                    ("OpenMetrics", partial(whole, metrics, is_openmetrics=True)),
                )
            ]
            assert talk.kernel.room.count == (len(talk.kernel.queues) if is_busy else 0)
    return rows


def of_size(series: int, *, is_busy: bool) -> tuple[Dialogue, Metrics]:
    """Metrics of as many models as have at least so many series."""
    models = 1
    while True:
        names = [f"m{number}" for number in range(models)]
        device = a_device()
        predictor = build_predictor(Recipe(kind="headway"), (device,))
        talk = a_kernel(priority(predictor), devices=[device], models=list(names))
        metrics = Metrics(talk.kernel, lambda talk=talk: talk.now_ns, TIERS)
        for record in talk.records:
            metrics(record.now_ns, record.event, record.commands)
        found = series_in(whole(metrics))
        if found >= series:
            break
        models = max(models + 1, models * series // found)
    if is_busy:
        seen = len(talk.records)
        for request_id in (1, 2):
            talk.arrives(request_id, model=names[0])
            if request_id == 1:
                talk.finishes(1, at=1_000_000)
        for request_id, name in enumerate(names, start=3):
            talk.arrives(request_id, model=name)
        for record in talk.records[seen:]:
            metrics(record.now_ns, record.event, record.commands)
    return talk, metrics


def scrape_row(setting: str, text: Callable[[], bytes], effort: Effort) -> Row:
    """Made again and again."""
    times_ms, found = [], b""
    for _ in range(effort.scrapes):
        began_ns = time.perf_counter_ns()
        found = text()
        times_ms.append((time.perf_counter_ns() - began_ns) / 1e6)
    return {
        "what": "scrape, made in the process",
        "setting": setting,
        "series": series_in(found),
        "ms_p50": round(median(times_ms), 2),
        "ms_max": round(max(times_ms), 2),
        "kib": round(len(found) / 1024, 1),
    }


def live_scrapes(effort: Effort) -> list[Row]:
    """Over HTTP, of a server with many models, at rest and while one of them is under load."""
    models = 1
    while series_of_models(models) < SERIES_LIVE:
        models += 1
    with a_server(is_bare=False, models=models) as port, harness.Interval() as interval:
        http = harness.Http(port)
        load(port, 1.0)
        rows = [scrape_row("at rest", lambda: http.get("/metrics")[1], effort)]
        with ThreadPoolExecutor(1) as thread:
            loaded = thread.submit(load, port, max(2.0, effort.scrapes / 20))
            rows.append(scrape_row("under load", lambda: http.get("/metrics")[1], effort))
            loaded.result()
        http.close()
    for row in rows:
        row["what"] = "scrape over HTTP"
        row["others_cores"] = interval.others_cores
    return rows


def series_of_models(count: int) -> int:
    """Series of a server with so many models and one tier, those of devices left out."""
    talk = a_kernel(models=[f"m{number}" for number in range(count)])
    metrics = Metrics(talk.kernel, lambda: 0, {TierName("normal"): TIERS[TierName("normal")]})
    for record in talk.records:
        metrics(record.now_ns, record.event, record.commands)
    return series_in(whole(metrics))


def whole(metrics: Metrics, *, is_openmetrics: bool = False) -> bytes:
    """The exposition, put together."""
    return b"".join(metrics.text(is_openmetrics=is_openmetrics))


def series_in(text: bytes) -> int:
    """Lines that are samples."""
    return sum(1 for line in text.splitlines() if not line.startswith(b"#"))


# -- the run -----------------------------------------------------------------------------------


def serve_for_this(path: Path, *, is_bare: bool) -> int:
    """A server of this program's own, for one of the two has what nobody may switch off."""
    if is_bare:
        Metrics.__call__ = _observe_nothing  # type: ignore[method-assign]
        DeviceWatch.start = _look_at_nothing  # type: ignore[method-assign]
    return serve(load_config(path))


def _observe_nothing(metrics: Metrics, now_ns: int, event: object, commands: object) -> None:
    """No kernel step is counted."""


def _look_at_nothing(watch: DeviceWatch) -> None:
    """No thread looks at devices."""


def say(text: str) -> None:
    """How far it is."""
    print(text, file=sys.stderr, flush=True)


def main() -> int:
    """Measure, and put the figures where they are asked for."""
    parser = harness.quick_parser(
        __doc__, "one pair of servers and windows of 1 s instead of eight and 1.5"
    )
    parser.add_argument("--serve", metavar="FILE", type=Path, help="be one of the servers")
    parser.add_argument(BARE, action="store_true", help="the one without metrics")
    arguments = parser.parse_args()
    if arguments.serve is not None:
        return serve_for_this(arguments.serve, is_bare=arguments.bare)
    harness.adopt_orphans()
    effort = QUICK if arguments.quick else WHOLE
    try:
        rows = [*throughput(effort), *live_scrapes(effort)]
    except harness.LoadFailedError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    rows += [*steps(effort), *scrapes(effort)]
    notes = [
        f"wrk -t1 -c{CONNECTIONS} on the same machine, windows of {effort.window_s:g} s, "
        f"{effort.pairs} pairs of servers, {effort.rounds} rounds there and back for each; "
        "of_bare_percent is the median of the windows' ratios, us_per_request the difference of "
        "the medians.",
        "`bare` counts no kernel step and looks at no device. An echo is the request that metrics "
        "weigh most on: its model takes no time.",
        "Scrapes in the process have two tiers, over HTTP one.",
    ]
    harness.publish(NAME, rows, COLUMNS, arguments, notes=notes)
    return 0


if __name__ == "__main__":
    sys.exit(main())
