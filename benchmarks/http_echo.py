"""An HTTP echo of 16 floats through headway's worker process, and through every peer's.

Each server starts alone, is asked whether its echo is right, warmed, loaded by `wrk -t1` at each
number of connections, and stopped; then the next; then all again in the other order, and medians
are reported. A peer that cannot be installed or started is named in the notes, and the run goes on.

Run it with `python benchmarks/http_echo.py`. The peers' environments take some 3 GB under
`~/.cache/headway/peers` and are made on first use; `--prepare` makes them and measures nothing.
`--quick` asks fewer servers, unless `--only` names them.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.metadata
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import cast

import harness
from peers import OIP_BODY, OIP_PATH, VALUES, Launch, Peer, oip_values

__all__ = ["headway_config", "main"]

PEERS = ("triton", "pytriton", "torchserve", "litserve", "mlserver", "bentoml", "ray")
NAMES = ("headway", *PEERS)
QUICK_NAMES = ("headway", "triton", "litserve", "mlserver")
CONNECTIONS = (1, 8, 32)
COLUMNS = (
    "server",
    "version",
    "connections",
    "rps",
    "p50_ms",
    "p99_ms",
    "rss_mib",
    "failures",
    "ready_s",
    "others_cores",
)
NOTES = (
    "wrk -t1 on the same machine, closed loop; medians of the rounds.",
    "rss_mib adds up the server's process tree, shared pages in each process that maps them.",
    "others_cores: what other programs used meanwhile; repeat a run in which it is not near 0.",
    "One model process each, access logs off; OIP JSON where the server speaks it by default.",
)
FAILURES = (
    harness.EnvironmentUnavailableError,
    harness.LoadFailedError,
    subprocess.SubprocessError,
    OSError,
)
"""What one server may fail with while the others are still measured."""


# -- headway itself ------------------------------------------------------------------------------


def headway_config(port: int) -> str:
    """The YAML that `headway serve` reads: an echo model in one worker process.

    One slot a core, for a second one only makes smaller batches of a model that takes no time; and
    not pinned, for there is no neighbour whose share of a core would have to be known.
    """
    model = harness.BENCHMARKS.parent / "examples" / "echo_model.py"
    return f"""\
server: {{host: 127.0.0.1, port: {port}}}
devices: [{{name: "cpu:0", slots_per_core: 1, pin: false}}]
models:
  - name: echo
    path: {model}:Echo
    batch: {{rows_max: 64}}
"""


def launch_headway(home: Path, port: int) -> Launch:
    config = home / "echo.yaml"
    config.write_text(headway_config(port))
    return Launch(
        command=[sys.executable, "-m", "headway", "serve", str(config)],
        path=OIP_PATH,
        body=OIP_BODY,
        values=oip_values,
        ready="/v2/models/echo/ready",
        protocol="OIP",
    )


def headway_version() -> str:
    try:
        return importlib.metadata.version("headway")
    except importlib.metadata.PackageNotFoundError:
        return "unreleased"


# -- any server ----------------------------------------------------------------------------------


def prepare(name: str, port: int) -> Launch:
    """Make what `name` needs, on first use.

    Raises:
        EnvironmentUnavailableError: This machine cannot have it.
    """
    home = harness.CACHE / "peers" / "files" / name
    home.mkdir(parents=True, exist_ok=True)
    if name == "headway":
        return launch_headway(home, port)
    peer = load_peer(name)
    environment = harness.CACHE / "peers" / peer.ENVIRONMENT
    python = harness.make_environment(environment, peer.PACKAGES, progress=sys.stderr)
    return peer.launch(home, python, port)


def load_peer(name: str) -> Peer:
    return cast("Peer", importlib.import_module(f"peers.{name}"))


def version_of(name: str) -> str:
    return headway_version() if name == "headway" else load_peer(name).VERSION


def measure(name: str, options: argparse.Namespace) -> list[harness.Row]:
    """One round of one server: a row for each number of connections.

    Raises:
        EnvironmentUnavailableError: It cannot be installed.
        LoadFailedError: It did not start, or does not echo.
    """
    port = harness.free_port()
    launch = prepare(name, port)
    url = f"http://127.0.0.1:{port}{launch.path}"

    def load(connections: int, seconds: float) -> harness.WrkResult:
        return harness.run_wrk(
            harness.Load(url=url, body=launch.body, connections=connections, seconds=seconds)
        )

    def is_ready() -> bool:
        return harness.Http(port).get(launch.ready)[0] == 200 and echoes(launch, port)

    rows: list[harness.Row] = []
    command, env, cwd = launch.command, launch.env, launch.cwd
    with harness.ServerProcess(command, is_ready, env=env, cwd=cwd) as server:
        load(8, options.warm)
        for connections in CONNECTIONS:
            with harness.Interval() as interval:
                seen = load(connections, options.seconds)
            rows.append(
                {
                    "server": name,
                    "version": version_of(name),
                    "protocol": launch.protocol,
                    "connections": connections,
                    "rps": seen.rps,
                    "p50_ms": seen.p50_ms,
                    "p99_ms": seen.p99_ms,
                    "rss_mib": harness.rss_mib(harness.own_tree()),
                    "failures": seen.failures,
                    "ready_s": server.ready_s,
                    "others_cores": interval.others_cores,
                }
            )
        if not echoes(launch, port):
            raise harness.LoadFailedError("its echo was wrong after the load")
    return rows


def echoes(launch: Launch, port: int) -> bool:
    """Whether the server's answer holds the floats it was sent."""
    status, answer = harness.Http(port).post(launch.path, launch.body)
    return status == 200 and launch.values(answer) == VALUES


# -- the run -------------------------------------------------------------------------------------


def run(options: argparse.Namespace) -> tuple[list[harness.Row], list[str]]:
    """All rounds; the medians, and a note for each server that is missing from them."""
    names: list[str] = options.only or list(QUICK_NAMES if options.quick else NAMES)
    seen: dict[tuple[str, int], list[harness.Row]] = {}
    missing: dict[str, str] = {}
    for round_index in range(options.rounds):
        for name in names if round_index % 2 == 0 else reversed(names):
            if name in missing:
                continue
            try:
                rows = measure(name, options)
            except FAILURES as error:
                # The error's text holds this machine's paths, which are no part of a result.
                say(f"{name} was not measured: {error}")
                missing[name] = f"{name} was not measured: {why_missing(error)}"
                continue
            for row in rows:
                seen.setdefault((name, cast("int", row["connections"])), []).append(row)
                say(
                    f"round {round_index + 1}: {name} at {row['connections']}: "
                    f"{row['rps']} req/s, p50 {row['p50_ms']} ms, failures {row['failures']}"
                )
    order = [(name, connections) for name in names for connections in CONNECTIONS]
    rows = [harness.median_row(seen[key]) for key in order if key in seen]
    return rows, list(missing.values())


def why_missing(error: Exception) -> str:
    """In words that hold on any machine."""
    if isinstance(error, harness.EnvironmentUnavailableError):
        return "it could not be installed here"
    return "it did not start here, or did not echo"


def prepare_all(names: Sequence[str]) -> int:
    failures = 0
    for name in names:
        try:
            prepare(name, harness.free_port())
        except FAILURES as error:
            failures += 1
            say(f"{name}: {error}")
    return 1 if failures else 0


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", action="append", choices=NAMES, help="may be repeated")
    parser.add_argument("--seconds", type=float, help="a load's length")
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--quick", action="store_true", help="unless told, one round of 1 s a load")
    parser.add_argument("--prepare", action="store_true", help="only make the environments")
    parser.add_argument("--format", choices=("table", "json"), default="table")
    options = parser.parse_args(argv)
    options.warm = 1.0 if options.quick else 2.0
    options.seconds = options.seconds or (1.0 if options.quick else 8.0)
    options.rounds = options.rounds or (1 if options.quick else 3)
    return options


def main(argv: Sequence[str] | None = None) -> int:
    """The command; 1 if nothing could be measured."""
    options = parse(argv)
    if options.prepare:
        return prepare_all(options.only or NAMES)
    harness.adopt_orphans()
    rows, missing = run(options)
    text = harness.results_document("http_echo", rows, notes=[*NOTES, *missing])
    if not options.quick and not options.only:
        harness.write_results("http_echo", text)
    print(text if options.format == "json" else "\n".join(harness.line_table(rows, COLUMNS)))
    return 0 if rows else 1


if __name__ == "__main__":
    sys.exit(main())
