"""What tenants and metrics cost a request: the gate alone, and both out of a server's throughput.

The gate is timed alone, a request let in and settled again and again, with every kind of limit and
a ledger; and as the server has it, before an engine that answers at once. Then the echo of
`http_echo.py` at 32 connections, three servers in turn and back: without tenants and with its
metrics switched off, as it is without tenants, and with them, every request with a key.

Usage: `python benchmarks/tenancy_cost.py [--quick] [--format table|json]`. Needs wrk.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

import harness
import http_echo
from harness import Row

from headway.app import serve
from headway.config import load_config
from headway.core import Datatype, ModelName, RequestId, TenantId, Tensor, TierName
from headway.frontends import GatedEngine
from headway.observe import Metrics
from headway.runtime import EngineLayer, InferCall, InferReply, ModelStatus, OnEnd, Secret
from headway.tenancy import (
    Ask,
    Ending,
    Gate,
    KeyParams,
    Outcome,
    Period,
    QuotaParams,
    TenantParams,
    hash_of,
    open_ledger,
)
from headway.units import NS_PER_S

NAME = "tenancy_cost"
COLUMNS = ("what", "setting", "us_per_request", "rps", "of_bare_percent", "others_cores")
KEY = "hwk_benchmark"
CONNECTIONS = 32
LOOPS = 2_000
SETTINGS = ("bare", "metrics", "metrics and tenants")
BARE = "--bare"

TENANCY = f"""\
tenancy:
  places: 4096
  ledger: sqlite:///usage.db
  tenants:
    others: {{reserve: 0.1}}
    us:
      keys: [{{hash: '{hash_of(KEY)}'}}]
      reserve: 0.5
      concurrency: 4096
      rates: {{requests: 1000000000, rows: 1000000000, tokens: 1000000000}}
      quota: {{device_time: 100000h}}
"""


class Instant(EngineLayer):
    """An engine that answers before it returns, always the same."""

    def __init__(self, reply: InferReply) -> None:
        self._reply = reply
        self._now_ns = 0

    def now_ns(self) -> int:
        """A request every 100 us."""
        self._now_ns += 50_000
        return self._now_ns

    def status(self, model: ModelName, version: str = "") -> ModelStatus:
        """A model that takes rows."""
        return ModelStatus(
            name=model,
            version="1",
            is_ready=True,
            platform="",
            inputs=(),
            outputs=(),
            can_batch=True,
            batch_rows_max=64,
            linger_ns=0,
            queue_requests_max=1,
            tier=TierName("standard"),
            budget_ns=NS_PER_S,
            slots=1,
        )

    def submit(self, call: InferCall, on_end: OnEnd) -> RequestId:
        """Answer."""
        on_end(self._reply)
        return RequestId(1)


def a_gate(folder: Path) -> Gate:
    """Every kind of limit, none of them reached, and a ledger."""
    ledger = open_ledger(f"sqlite:///{folder}/usage.db")
    ledger.start()
    us = TenantParams(
        tenant=TenantId("us"),
        keys=(KeyParams(key_hash=hash_of(KEY)),),
        requests_per_s=1e9,
        rows_per_s=1e9,
        tokens_per_s=1e9,
        concurrency_max=4096,
        reserve_ratio=0.5,
        quota=QuotaParams(device_ns=10**6 * NS_PER_S, period=Period.DAY),
    )
    others = TenantParams(tenant=TenantId("others"), reserve_ratio=0.1)
    return Gate([us, others], places_max=4096, started_at_unix_ns=time.time_ns(), book=ledger)


def us_of(once: Callable[[int], object], rounds: int) -> float:
    """Microseconds of one call: the median over rounds of many."""
    found = []
    for _ in range(rounds):
        began_ns = time.perf_counter_ns()
        for index in range(LOOPS):
            once(index)
        found.append((time.perf_counter_ns() - began_ns) / LOOPS / 1e3)
    return median(found)


def alone(rounds: int) -> list[Row]:
    """The gate without a server."""
    tensor = Tensor("x", Datatype.FP32, (1, 16), bytes(64))
    call = InferCall(
        model=ModelName("echo"), inputs=[tensor], arrived_at_ns=0, credential=Secret(KEY)
    )
    reply = InferReply(
        model=ModelName("echo"),
        version="1",
        outputs=[tensor],
        queue_delay_ns=1,
        service_ns=1000,
        batch_rows=1,
        tier=TierName("standard"),
        budget_ns=NS_PER_S,
        budget_source="tier",
        device_ns=1000,
    )
    ask = Ask(ModelName("echo"), 1, 64)
    done = Outcome(Ending.COMPLETED, rows=1, device_ns=1000, bytes_out=64)
    with tempfile.TemporaryDirectory() as folder:
        gate = a_gate(Path(folder))

        def enter_and_leave(index: int) -> None:
            gate.leave(gate.enter(KEY, ask, index * 1000), done, index * 1000)

        bare = Instant(reply)
        gated = GatedEngine(Instant(reply), gate, {})

        gate_us = us_of(enter_and_leave, rounds)
        plain_us = us_of(lambda _: bare.submit(call, _told), rounds)
        gated_us = us_of(lambda _: gated.submit(call, _told), rounds)
    return [
        {"what": "gate alone", "setting": "all limits", "us_per_request": round(gate_us, 2)},
        {
            "what": "gate before an engine",
            "setting": "all limits",
            "us_per_request": round(gated_us - plain_us, 2),
        },
    ]


def _told(end: object) -> None:
    """Whoever asked."""


def live(seconds: float, rounds: int) -> list[Row]:
    """The three servers, in turn and back; medians."""
    seen: dict[str, list[tuple[float, float]]] = {setting: [] for setting in SETTINGS}
    for index in range(rounds):
        for setting in SETTINGS if index % 2 == 0 else reversed(SETTINGS):
            seen[setting].append(throughput(setting, seconds))
            print(
                f"round {index + 1}: {setting}: {seen[setting][-1][0]:.0f} req/s", file=sys.stderr
            )
    rates = {setting: median([rps for rps, _ in found]) for setting, found in seen.items()}
    return [
        {
            "what": "echo over HTTP, 32 connections",
            "setting": setting,
            "rps": round(rates[setting], 1),
            # Paired within a round: what the machine does meanwhile touches both alike.
            "of_bare_percent": round(
                100 * median([a[0] / b[0] for a, b in zip(found, seen["bare"], strict=True)]), 1
            ),
            "others_cores": round(median([others for _, others in found]), 2),
        }
        for setting, found in seen.items()
    ]


def throughput(setting: str, seconds: float) -> tuple[float, float]:
    """Requests a second of one server, and what other programs used meanwhile."""
    port = harness.free_port()
    headers = {"content-type": "application/json", "authorization": f"Bearer {KEY}"}
    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder) / "echo.yaml"
        tenancy = TENANCY if "tenants" in setting else ""
        config.write_text(http_echo.headway_config(port) + tenancy)
        command = [sys.executable, __file__, "--serve", str(config)]
        if setting == "bare":
            command.append(BARE)

        def is_ready() -> bool:
            return harness.Http(port).get("/v2/health/ready")[0] == 200

        def load(length_s: float) -> harness.WrkResult:
            return harness.run_wrk(
                harness.Load(
                    url=f"http://127.0.0.1:{port}{http_echo.OIP_PATH}",
                    body=http_echo.OIP_BODY,
                    connections=CONNECTIONS,
                    seconds=length_s,
                    headers=headers,
                )
            )

        with harness.ServerProcess(command, is_ready):
            load(1.0)
            with harness.Interval() as interval:
                result = load(seconds)
    if result.failures:
        raise harness.LoadFailedError(f"{setting}: {result.failures} answers were wrong")
    return result.rps, interval.others_cores


def serve_for_this(path: Path, *, is_bare: bool) -> int:
    """A server of this program's own, for one of the three has what nobody may switch off."""
    if is_bare:
        Metrics.__call__ = _observe_nothing  # type: ignore[method-assign]
    return serve(load_config(path))


def _observe_nothing(metrics: Metrics, now_ns: int, event: object, commands: object) -> None:
    """No kernel step is counted."""


def main() -> int:
    """Measure, and put the figures where they are asked for."""
    parser = harness.quick_parser(__doc__, "3 rounds of 2 s instead of 7 of 6")
    parser.add_argument("--serve", metavar="FILE", type=Path, help="be one of the servers")
    parser.add_argument(BARE, action="store_true", help="the one without metrics")
    arguments = parser.parse_args()
    if arguments.serve is not None:
        return serve_for_this(arguments.serve, is_bare=arguments.bare)
    harness.adopt_orphans()
    try:
        rows = alone(5 if arguments.quick else 25)
        rows += live(2.0, 3) if arguments.quick else live(6.0, 7)
    except harness.LoadFailedError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    notes = [
        "The gate: key, places with reserves, concurrency, three rates, a quota, and a ledger.",
        f"The echo: wrk -t1 -c{CONNECTIONS} on the same machine; `bare` has neither metrics nor "
        "tenants. of_bare_percent is the median of the rounds' ratios.",
    ]
    harness.publish(NAME, rows, COLUMNS, arguments, notes=notes)
    return 0


if __name__ == "__main__":
    sys.exit(main())
