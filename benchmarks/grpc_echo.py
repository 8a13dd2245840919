"""A gRPC echo of 16 floats through headway, Triton, PyTriton and MLServer, by two load generators.

Each server starts alone, is asked whether its echo is right, warmed, loaded at each number of
connections by `h2load` and by `perf_analyzer` (a channel for each of them), and stopped; then the
next; then all again in the other order, and medians are reported. `perf_analyzer` is what users of
Triton measure with, and takes more of the machine's time than h2load; MLServer lacks a call that
it begins with. Of the peers these are all that speak the Open Inference Protocol over gRPC;
TorchServe's and Ray Serve's own protocols are none that one client could compare.

Run it with `python benchmarks/grpc_echo.py`. Environments are made on first use under
`~/.cache/headway`. `--quick` asks fewer servers, unless `--only` names them, once and briefly.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import cast

import grpc
import h2load
import harness
import http_echo
import numpy as np
import perf_analyzer
from peers import VALUES, Launch

from headway.frontends import grpc_messages

__all__ = ["Server", "main"]

PEERS = ("triton", "pytriton", "mlserver")
NAMES = ("headway", *PEERS)
QUICK_NAMES = ("headway", "triton")
CONNECTIONS = (1, 8, 32)
COLUMNS = (
    *("server", "version", "tool", "connections", "rps", "p50_ms", "p99_ms"),
    *("cpu_us_per_request", "rss_mib", "ready_s", "others_cores"),
)
TOOLS = ("h2load", "perf_analyzer")
CANNOT = {("mlserver", "perf_analyzer")}
NOTES = (
    f"h2load -t1 and perf_analyzer {perf_analyzer.VERSION} on the same machine, closed loop, a"
    " connection for each client; medians of the rounds.",
    "perf_analyzer cannot load MLServer, which has no ModelConfig.",
    "cpu_us_per_request: of all the server's processes; what else runs matters less to it.",
    "others_cores: what other programs used meanwhile; repeat a run in which it is not near 0.",
    "One model process each, access logs off; tensors raw.",
)
FAILURES = http_echo.FAILURES
INFERENCE = grpc_messages("inference.GRPCInferenceService")
METHOD = f"/{INFERENCE.service}/ModelInfer"
SENT = np.array([VALUES], np.float32)


def the_message() -> bytes:
    """The request that is sent."""
    request = INFERENCE["ModelInferRequest"](model_name="echo")
    request.inputs.add(name="x", datatype="FP32", shape=SENT.shape)
    request.raw_input_contents.append(SENT.tobytes())
    return bytes(request.SerializeToString())


MESSAGE = the_message()


class Server:
    """A server that is installed: how to start it, and where its interfaces are."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.port = harness.free_port()
        if name == "headway":
            self.grpc_port = harness.free_port()
            self.launch = launch_headway(self.port, self.grpc_port)
        else:
            self.launch = http_echo.prepare(name, self.port)
            self.grpc_port = self.launch.grpc_port

    def is_ready(self) -> bool:
        """It can be called, and gives back what it gets."""
        status, _ = harness.Http(self.port).get(self.launch.ready)
        return status == 200 and self.echoes()

    def echoes(self) -> bool:
        """Whether its answer holds the floats it was sent."""
        with grpc.insecure_channel(f"127.0.0.1:{self.grpc_port}") as channel:
            ask = channel.unary_unary(METHOD)
            try:
                answer = ask(MESSAGE, timeout=5)
            except grpc.RpcError:
                return False
        found = INFERENCE["ModelInferResponse"].FromString(answer)
        return list(found.raw_output_contents) == [SENT.tobytes()]


def launch_headway(port: int, grpc_port: int) -> Launch:
    """As over HTTP, with a second interface."""
    home = harness.CACHE / "peers" / "files" / "headway-grpc"
    home.mkdir(parents=True, exist_ok=True)
    launch = http_echo.launch_headway(home, port)
    config = Path(launch.command[-1])
    text = config.read_text().replace("port: ", f"grpc: {{port: {grpc_port}}}, port: ", 1)
    config.write_text(text)
    return launch


def measure(
    name: str, options: argparse.Namespace, analyzer: perf_analyzer.Analyzer
) -> list[harness.Row]:
    """One round of one server: a row for each number of connections.

    Raises:
        EnvironmentUnavailableError: it cannot be installed.
        LoadFailedError: it did not start, or does not echo.
    """
    server = Server(name)
    launch = server.launch

    def load(tool: str, connections: int, seconds: float) -> perf_analyzer.Analysis:
        if tool == "h2load":
            return h2load.closed_loop(server.grpc_port, METHOD, MESSAGE, connections, seconds)
        target = perf_analyzer.Target(protocol="grpc", port=server.grpc_port)
        return analyzer.closed_loop(target, connections, seconds)

    rows: list[harness.Row] = []
    with harness.ServerProcess(
        launch.command, server.is_ready, env=launch.env, cwd=launch.cwd
    ) as process:
        load("h2load", 8, options.warm)
        tree = harness.own_tree()
        loads = [(tool, n) for tool in TOOLS if (name, tool) not in CANNOT for n in CONNECTIONS]
        for tool, connections in loads:
            with harness.Interval() as interval:
                before_s = harness.cpu_s(tree)
                seen = load(tool, connections, options.seconds)
                spent_s = harness.cpu_s(tree) - before_s
            rows.append(
                {
                    "server": name,
                    "version": http_echo.version_of(name),
                    "tool": tool,
                    "connections": connections,
                    "rps": seen.rps,
                    "p50_ms": seen.p50_ms,
                    "p99_ms": seen.p99_ms,
                    "cpu_us_per_request": round(spent_s * 1e6 / (seen.rps * interval.wall_s), 1),
                    "rss_mib": harness.rss_mib(tree),
                    "ready_s": process.ready_s,
                    "others_cores": interval.others_cores,
                }
            )
        if not server.echoes():
            raise harness.LoadFailedError("its echo was wrong after the load")
    return rows


def run(
    options: argparse.Namespace, analyzer: perf_analyzer.Analyzer
) -> tuple[list[harness.Row], list[str]]:
    """All rounds; the medians, and a note for each server that is missing from them."""
    names: list[str] = options.only or list(QUICK_NAMES if options.quick else NAMES)
    seen: dict[tuple[str, str, int], list[harness.Row]] = {}
    missing: dict[str, str] = {}
    for round_index in range(options.rounds):
        for name in names if round_index % 2 == 0 else reversed(names):
            if name in missing:
                continue
            try:
                rows = measure(name, options, analyzer)
            except FAILURES as error:
                http_echo.say(f"{name} was not measured: {error}")
                missing[name] = f"{name} was not measured: {http_echo.why_missing(error)}"
                continue
            for row in rows:
                key = (name, cast("str", row["tool"]), cast("int", row["connections"]))
                seen.setdefault(key, []).append(row)
                http_echo.say(
                    f"round {round_index + 1}: {name} at {row['connections']} by {row['tool']}:"
                    f" {row['rps']} req/s, p50 {row['p50_ms']} ms,"
                    f" {row['cpu_us_per_request']} us of CPU each"
                )
    order = [(name, tool, n) for name in names for tool in TOOLS for n in CONNECTIONS]
    rows = [harness.median_row(seen[key]) for key in order if key in seen]
    return rows, list(missing.values())


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = harness.quick_parser(__doc__, "unless told, one round of 1 s a load")
    parser.add_argument("--only", action="append", choices=NAMES, help="may be repeated")
    parser.add_argument("--seconds", type=float, help="a load's length")
    parser.add_argument("--rounds", type=int)
    options = parser.parse_args(argv)
    options.warm = 1.0 if options.quick else 3.0
    options.seconds = options.seconds or (1.0 if options.quick else 9.0)
    options.rounds = options.rounds or (1 if options.quick else 3)
    return options


def main(argv: Sequence[str] | None = None) -> int:
    """The command; 1 if nothing could be measured."""
    options = parse(argv)
    try:
        analyzer = perf_analyzer.install(sys.stderr)
    except (harness.EnvironmentUnavailableError, subprocess.SubprocessError, OSError) as error:
        http_echo.say(f"there is no load generator: {error}")
        return 1
    harness.adopt_orphans()
    rows, missing = run(options, analyzer)
    text = harness.results_document("grpc_echo", rows, notes=[*NOTES, *missing])
    if not options.quick and not options.only:
        harness.write_results("grpc_echo", text)
    print(text if options.format == "json" else "\n".join(harness.line_table(rows, COLUMNS)))
    return 0 if rows else 1


if __name__ == "__main__":
    sys.exit(main())
