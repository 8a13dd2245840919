"""A tensor of one MiB there and back, in each form that a client may send it, by one load tool.

headway and Triton give back what they get; `perf_analyzer` sends 262,144 floats as JSON, as bytes
behind JSON, raw over gRPC, and in shared memory over both, on one connection and on four. Servers
take turns, as in `grpc_echo.py`; medians are reported. MB/s counts the tensor both ways.

Run it with `python benchmarks/large_tensors.py`. `--quick` measures each form once, and briefly.
"""

from __future__ import annotations

import argparse
import json
import random
import struct
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import cast

import grpc_echo
import harness
import http_echo
import perf_analyzer
from peers import triton

__all__ = ["main"]

FLOATS = 262_144
MIB_BYTES = FLOATS * 4
NAMES = ("headway", "triton")
CONNECTIONS = (1, 4)
_JSON = ("--input-tensor-format", "json", "--output-tensor-format", "json")
_MEMORY = ("--shared-memory", "system")
FORMS: Mapping[str, tuple[str, Sequence[str]]] = {
    "json": ("http", _JSON),
    "binary": ("http", ()),
    "grpc raw": ("grpc", ()),
    "http memory": ("http", _MEMORY),
    "grpc memory": ("grpc", _MEMORY),
}
COLUMNS = (
    *("server", "form", "connections", "mb_per_s", "rps", "p50_ms", "p99_ms"),
    *("cpu_ms_per_request", "others_cores"),
)
NOTES = (
    f"perf_analyzer {perf_analyzer.VERSION} on the same machine, closed loop; medians of rounds.",
    "mb_per_s: 2 x 1.048576 MB for each answer.",
    "cpu_ms_per_request: of all the server's processes.",
    "others_cores: what other programs used meanwhile; repeat a run in which it is not near 0.",
)
_CONFIG = """\
server: {{host: 127.0.0.1, port: {port}, grpc: {{port: {grpc_port}}}, shared_memory: true}}
devices: [{{name: "cpu:0", slots_per_core: 1, pin: false}}]
models:
  - name: echo
    path: {model}:Echo
    options: {{columns: {columns}}}
    batch: {{rows_max: 4}}
"""


def input_file() -> Path:
    """The tensor, as the load tool reads it; what it makes up itself has NaNs in it."""
    path = harness.CACHE / "peers" / "files" / "large-tensor.json"
    if not path.exists():
        chance = random.Random("large tensors")
        values = [struct.unpack("<f", struct.pack("<f", chance.random()))[0] for _ in range(FLOATS)]
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps({"data": [{"x": values}]}))
    return path


class Server:
    """One of the two, with an echo that is as wide as the tensor."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.port, self.grpc_port = harness.free_port(), harness.free_port()
        home = harness.CACHE / "peers" / "files" / f"{name}-large"
        home.mkdir(parents=True, exist_ok=True)
        self.env: Mapping[str, str] = {}
        if name == "headway":
            self.command = self._headway(home)
        else:
            self.command, self.env = self._triton(home)

    def is_ready(self) -> bool:
        """It says so."""
        return harness.Http(self.port).get("/v2/models/echo/ready")[0] == 200

    def _headway(self, home: Path) -> Sequence[str]:
        config = home / "echo.yaml"
        model = harness.BENCHMARKS.parent / "examples" / "echo_model.py"
        config.write_text(
            _CONFIG.format(port=self.port, grpc_port=self.grpc_port, model=model, columns=FLOATS)
        )
        return [sys.executable, "-m", "headway", "serve", str(config)]

    def _triton(self, home: Path) -> tuple[Sequence[str], Mapping[str, str]]:
        environment = harness.CACHE / "peers" / triton.ENVIRONMENT
        python = harness.make_environment(environment, triton.PACKAGES, progress=sys.stderr)
        triton.write_echo(home, FLOATS)
        return triton.start(home, python, self.port, home / "models", self.grpc_port)


def measure(
    name: str, options: argparse.Namespace, analyzer: perf_analyzer.Analyzer
) -> list[harness.Row]:
    """One round of one server: a row for each form and number of connections.

    Raises:
        EnvironmentUnavailableError: it cannot be installed.
        LoadFailedError: it did not start, or a request failed.
    """
    server = Server(name)
    rows: list[harness.Row] = []
    with harness.ServerProcess(server.command, server.is_ready, env=server.env):
        tree = harness.own_tree()
        for form, (protocol, flags) in FORMS.items():
            target = perf_analyzer.Target(
                protocol=protocol,
                port=server.grpc_port if protocol == "grpc" else server.port,
                shapes=(f"x:{FLOATS}",),
                flags=(*flags, "--input-data", str(input_file())),
            )
            for connections in CONNECTIONS:
                with harness.Interval() as interval:
                    before_s = harness.cpu_s(tree)
                    seen = analyzer.closed_loop(target, connections, options.seconds)
                    spent_s = harness.cpu_s(tree) - before_s
                rows.append(
                    {
                        "server": name,
                        "form": form,
                        "connections": connections,
                        "mb_per_s": round(seen.rps * 2 * MIB_BYTES / 1e6, 1),
                        "rps": seen.rps,
                        "p50_ms": seen.p50_ms,
                        "p99_ms": seen.p99_ms,
                        "cpu_ms_per_request": round(
                            spent_s * 1e3 / (seen.rps * interval.wall_s), 2
                        ),
                        "others_cores": interval.others_cores,
                    }
                )
                http_echo.say(
                    f"{name}, {form} at {connections}: {rows[-1]['mb_per_s']} MB/s,"
                    f" p50 {seen.p50_ms} ms, {rows[-1]['cpu_ms_per_request']} ms of CPU each"
                )
    return rows


def run(
    options: argparse.Namespace, analyzer: perf_analyzer.Analyzer
) -> tuple[list[harness.Row], list[str]]:
    """All rounds; the medians, and a note for a server that is missing from them."""
    names: Sequence[str] = options.only or NAMES
    seen: dict[tuple[str, str, int], list[harness.Row]] = {}
    missing: dict[str, str] = {}
    for round_index in range(options.rounds):
        for name in names if round_index % 2 == 0 else reversed(names):
            if name in missing:
                continue
            try:
                rows = measure(name, options, analyzer)
            except grpc_echo.FAILURES as error:
                http_echo.say(f"{name} was not measured: {error}")
                missing[name] = f"{name} was not measured: {http_echo.why_missing(error)}"
                continue
            for row in rows:
                key = (name, cast("str", row["form"]), cast("int", row["connections"]))
                seen.setdefault(key, []).append(row)
    order = [(name, form, n) for form in FORMS for n in CONNECTIONS for name in names]
    return [harness.median_row(seen[key]) for key in order if key in seen], list(missing.values())


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = harness.quick_parser(__doc__, "unless told, one round of 0.9 s a load")
    parser.add_argument("--only", action="append", choices=NAMES, help="may be repeated")
    parser.add_argument("--seconds", type=float, help="a load's length")
    parser.add_argument("--rounds", type=int)
    options = parser.parse_args(argv)
    options.seconds = options.seconds or (0.9 if options.quick else 6.0)
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
    text = harness.results_document("large_tensors", rows, notes=[*NOTES, *missing])
    if not options.quick and not options.only:
        harness.write_results("large_tensors", text)
    print(text if options.format == "json" else "\n".join(harness.line_table(rows, COLUMNS)))
    return 0 if rows else 1


if __name__ == "__main__":
    sys.exit(main())
