"""Mixes of real models under deadlines: headway's server against Triton, over HTTP, on two cores.

Every class is timed alone first, and each mix with the cores never idle; that gives deadlines and
load. Then the servers play in turn on the same arrivals, each started anew, every other seed in the
other order, all asked by one open-loop client in a process of its own. A request counts as met if
the client had its answer within its budget; a refusal, an error or a late answer is a violation.

Triton is set up in several ways (`peers/triton_mix.py`): with priority levels and queue timeouts
throughout, two instances a model unless the name says otherwise.

Usage: `python benchmarks/versus_triton.py [--mixes stationary,moving-1] [--servers headway,triton]
[--seeds 5] [--duration 12] [--quick] [--format table|json] [--keep FOLDER]`. The first run makes
Triton's environment under `~/.cache/headway/peers`. `--quick` plays one mix for 6 s, once, on two
servers. A full run becomes `benchmarks/results/versus_triton.json`.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import harness
import msgspec
from oip_client import ClassWords, PlayOrder
from peers import triton_mix

from headway.bench.contest import CONTEST_NEWS, ContestOrder, Measured
from headway.bench.mixes import Mix, find_mix
from headway.bench.orders import profiles_of
from headway.bench.phases import phases_of, plan_mix
from headway.bench.process import have_carried_out
from headway.bench.served import config_of_mix, tier_of_class
from headway.bench.setups import SETUPS
from headway.config import cache_folder
from headway.core import DeviceName
from headway.demo import find_model, graph_path
from headway.devices import fingerprint, usable_cores
from headway.profiling import ProfileFile, write_profiles
from headway.report import estimate, estimate_paired, percentile, samples_from_jsonl
from headway.units import NS_PER_MS, NS_PER_S
from headway.workload import Outcome, Sample

__all__ = ["main"]

NAME = "versus_triton"
HEADWAY = "headway"
SERVERS = (HEADWAY, *triton_mix.SETTINGS)
QUICK_SERVERS = (HEADWAY, "triton")
MIXES = ("stationary", "moving-1")
OTHERS_CORES_MAX = 0.15
STARTS_MAX = 3
SERVER_PRECEDENCE = -10
"""Of a server's session; the client asks for -20."""
RUN_OVERHEAD_S = 8
"""A start, a warm-up and an end."""
MEASURES = ("high_violations", "low_violations", "high_goodput_rps", "low_goodput_rps")
TIMES = ("high_p50_ms", "high_p99_ms", "low_p50_ms", "low_p99_ms")
COLUMNS = (
    *("mix", "server", "seed", *MEASURES, *TIMES),
    *("refused", "late", "failed", "send_delay_p99_ms", "others_cores"),
)
NOTES = (
    "Verdicts are the client's: met is what was answered within the budget, from when it was due.",
    "Rows with a seed are runs; those with seed `all` are means, with 95 % intervals.",
    "headway_high_ratio, headway_low_goodput_ratio: headway's mean over that of the row's server.",
    "Servers run the same ONNX files on onnxruntime with one thread; a batch is one request.",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """What was measured before the first run."""

    measured: Measured
    cores: int

    @property
    def solo_ns(self) -> Mapping[str, int]:
        """Execution alone, by class."""
        return {kind.name: kind.median_ns for kind in self.measured.classes}


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One server on one mix with one seed."""

    mix: Mix
    server: str
    seed: int
    duration_ns: int


class Client:
    """The client's process; a context manager."""

    def __init__(self, cache: Path, mixes: Sequence[str]) -> None:
        script = Path(__file__).with_name("oip_client.py")
        self._process = subprocess.Popen(
            [sys.executable, str(script), str(cache), *mixes],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )

    @property
    def pid(self) -> int:
        """Of the process."""
        return self._process.pid

    def __enter__(self) -> Self:
        self._wait_for("ready")
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()

    def play(self, order: PlayOrder) -> None:
        """Have an order carried out.

        Raises:
            LoadFailedError: the client ended; why, it has said on stderr.
        """
        pipe = self._process.stdin
        assert pipe is not None
        pipe.write(msgspec.json.encode(order) + b"\n")
        pipe.flush()
        self._wait_for("done")

    def _wait_for(self, word: str) -> None:
        pipe = self._process.stdout
        assert pipe is not None
        if pipe.readline().decode().strip() != word:
            raise harness.LoadFailedError("the client ended; its last words are above")


# -- servers -------------------------------------------------------------------------------------


def launch(run: Run, known: Known, port: int, home: Path) -> tuple[list[str], Mapping[str, str]]:
    """The command that starts the server of a run, and what its environment needs."""
    if run.server == HEADWAY:
        return launch_headway(run.mix, known, port, home), {}
    environment = harness.CACHE / "peers" / triton_mix.ENVIRONMENT
    python = harness.make_environment(environment, triton_mix.packages(), progress=sys.stderr)
    files = harness.CACHE / "peers" / "files" / triton_mix.ENVIRONMENT
    files.mkdir(parents=True, exist_ok=True)
    setting = triton_mix.SETTINGS[run.server]
    return triton_mix.start(files, python, port, served_models(run.mix), setting)


def launch_headway(mix: Mix, known: Known, port: int, home: Path) -> list[str]:
    """The configuration of `headway bench policies`, and the times that were measured."""
    settings: dict[str, object] = {"kind": "headway"}
    config = config_of_mix(mix, settings, SETUPS["pinned"], cache_folder(), usable_cores())
    (device,) = config.devices
    served = {one.model for one in mix.classes}
    profiles = profiles_of(
        [kind for kind in known.measured.classes if kind.model in served], DeviceName(device.name)
    )
    write_profiles(
        home / "profiles.json", ProfileFile(fingerprint=fingerprint(), profiles=tuple(profiles))
    )
    document = config.model_dump(mode="json", exclude_unset=True)
    document["server"] = {"host": "127.0.0.1", "port": port}
    document["predictor"] = {"kind": "headway", "profiles": [str(home / "profiles.json")]}
    path = home / "headway.yaml"
    path.write_text(json.dumps(document))  # JSON is YAML, too
    return [sys.executable, "-m", "headway", "serve", str(path)]


def served_models(mix: Mix) -> list[triton_mix.ServedModel]:
    """The models of a mix, by the names under which they are asked for."""
    return [
        triton_mix.ServedModel(
            name=one.model,
            path=graph_path(cache_folder(), model := find_model(one.traffic.catalogue_name)),
            rows_max=one.rows,
            is_low=one in mix.low,
            inputs=[(t.name, str(t.datatype), t.shape[1:]) for t in model.inputs],
            outputs=[(t.name, str(t.datatype), t.shape[1:]) for t in model.outputs],
        )
        for one in mix.classes
    ]


def class_words(run: Run, known: Known) -> list[ClassWords]:
    """What the requests of each class say: a tier to headway, a level and a timeout to Triton."""
    words = []
    for one in run.mix.classes:
        solo_ns = known.solo_ns[one.name]
        budget_ns = one.budget_ns(solo_ns)
        parameters, warm_parameters = {}, {}
        if run.server != HEADWAY:
            setting = triton_mix.SETTINGS[run.server]
            parameters = triton_mix.parameters(
                setting, priority=one.priority, budget_ns=budget_ns, solo_ns=solo_ns
            )
            warm_parameters = {"priority": parameters["priority"]}
        words.append(
            ClassWords(
                tier=tier_of_class(one, run.mix),
                budget_ns=budget_ns,
                parameters=parameters,
                warm_parameters=warm_parameters,
            )
        )
    return words


def prefer(pids: Sequence[int]) -> None:
    """Put the sessions of these processes before what others run, and after the client's.

    The client stands for other machines, so it must not wait for a core that a server keeps busy.
    """
    for pid in pids:
        with contextlib.suppress(OSError):
            Path(f"/proc/{pid}/autogroup").write_text(str(SERVER_PRECEDENCE))


# -- runs ----------------------------------------------------------------------------------------


def measure(mixes: Sequence[Mix], *, is_quick: bool) -> Known:
    """Each class alone, and each mix with full slots, as `headway bench policies` does it."""
    setup = SETUPS["pinned"]
    found: list[Measured] = []
    order = ContestOrder(
        setup=setup,
        cache=str(cache_folder()),
        mixes=tuple(mixes),
        solo_rounds=4 if is_quick else 12,
        capacity_ns=(1 if is_quick else 3) * NS_PER_S,
        tries_max=1,
        others_cores_max=OTHERS_CORES_MAX,
        runs=(),
    )
    have_carried_out(
        "headway.bench.matches",
        order,
        CONTEST_NEWS,
        lambda news: found.append(news) if isinstance(news, Measured) else None,
        what="timing the models",
    )
    (measured,) = found
    return Known(measured=measured, cores=setup.cores_count)


def plan_of(run: Run, known: Known) -> list[tuple[int, int]]:
    """The same for every server."""
    phases = phases_of(run.mix, known.solo_ns, duration_ns=run.duration_ns, seed=run.seed)
    capacity_ratio = known.measured.capacity_ratios[run.mix.name]
    arrivals = plan_mix(
        run.mix, known.solo_ns, phases, capacity_cores=known.cores * capacity_ratio, seed=run.seed
    )
    return [(arrival.at_ns, arrival.class_index) for arrival in arrivals]


def play(run: Run, known: Known, client: Client, *, keep: Path | None, tries: int) -> harness.Row:
    """Start the server, play, stop it; again, if there are tries, while others are busy."""
    rows = [play_once(run, known, client, keep)]
    while float(rows[-1]["others_cores"] or 0.0) > OTHERS_CORES_MAX and len(rows) < tries:
        rows.append(play_once(run, known, client, keep))
    return min(rows, key=lambda row: float(row["others_cores"] or 0.0))


def play_once(run: Run, known: Known, client: Client, keep: Path | None) -> harness.Row:
    """One try."""
    port = harness.free_port()
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        command, env = launch(run, known, port, home)

        def is_ready() -> bool:
            return harness.Http(port).get("/v2/health/ready")[0] == 200

        name = f"{run.mix.name}-{run.server}-{run.seed}.jsonl"
        samples_path = (keep or home) / name
        order = PlayOrder(
            url=f"http://127.0.0.1:{port}",
            mix=run.mix.name,
            classes=class_words(run, known),
            plan=plan_of(run, known),
            samples=str(samples_path),
        )
        spares = frozenset({client.pid})
        server = harness.ServerProcess(command, is_ready, env=env, cwd=home, spares=spares)
        with triton_mix.swept(), started(server):
            prefer([pid for pid in harness.own_tree() if pid != client.pid])
            with harness.Interval() as interval:
                try:
                    client.play(order)
                except harness.LoadFailedError:
                    sys.stderr.write(server.log_tail())
                    raise
        samples = samples_from_jsonl(samples_path)
    return row_of(run, samples, ready_s=server.ready_s, others_cores=interval.others_cores)


@contextlib.contextmanager
def started(server: harness.ServerProcess) -> Iterator[None]:
    """Enter the server, more than once if it ends at start: Triton's back end at times does."""
    for tries_left in reversed(range(STARTS_MAX)):
        try:
            server.__enter__()
            break
        except harness.LoadFailedError:
            if not tries_left:
                raise
            say("it ended at start; again")
    try:
        yield
    finally:
        server.__exit__(None, None, None)


def row_of(
    run: Run, samples: Sequence[Sample], *, ready_s: float, others_cores: float
) -> harness.Row:
    """What the client saw of one run."""
    high_count = len(run.mix.high)
    high = [s for s in samples if s.stream is not None and s.stream < high_count]
    low = [s for s in samples if s.stream is not None and s.stream >= high_count]
    ends = Counter(sample.outcome for sample in samples)
    answered = ends[Outcome.COMPLETED]
    met = sum(not sample.is_violation for sample in samples)
    refused = ends[Outcome.REJECTED] + ends[Outcome.EXPIRED]
    sent_ns = sorted(sample.send_delay_ns for sample in samples)
    return {
        "server": run.server,
        "mix": run.mix.name,
        "seed": run.seed,
        "duration_s": run.duration_ns / NS_PER_S,
        **side_of("high", high, run.duration_ns),
        **side_of("low", low, run.duration_ns),
        "refused": refused,
        "late": answered - met,
        "failed": len(samples) - answered - refused,
        "send_delay_p99_ms": ms(percentile(sent_ns, 0.99)),
        "ready_s": ready_s,
        "others_cores": others_cores,
    }


def side_of(name: str, samples: Sequence[Sample], duration_ns: int) -> harness.Row:
    """The figures of one half of a mix."""
    times_ns = sorted(s.latency_ns for s in samples if s.outcome is Outcome.COMPLETED)
    violations = sum(sample.is_violation for sample in samples)
    met = len(samples) - violations
    return {
        f"{name}_requests": len(samples),
        f"{name}_violations": round(violations / max(1, len(samples)), 5),
        f"{name}_goodput_rps": round(met * NS_PER_S / duration_ns, 3),
        f"{name}_p50_ms": ms(percentile(times_ns, 0.5)),
        f"{name}_p99_ms": ms(percentile(times_ns, 0.99)),
    }


def ms(duration_ns: int | None) -> float | None:
    """Milliseconds, to microseconds."""
    return None if duration_ns is None else round(duration_ns / NS_PER_MS, 3)


# -- means ---------------------------------------------------------------------------------------


def summaries(rows: Sequence[harness.Row]) -> Iterator[harness.Row]:
    """A row for each mix and server: means over seeds, and how headway compares."""
    for mix in dict.fromkeys(row["mix"] for row in rows):
        own = [row for row in rows if row["mix"] == mix]
        for server in dict.fromkeys(row["server"] for row in own):
            yield summary(server, own)


def summary(server: object, rows: Sequence[harness.Row]) -> harness.Row:
    """Means of one server, with intervals."""
    runs = {row["seed"]: row for row in rows if row["server"] == server}
    first = next(iter(runs.values()))
    found: harness.Row = {
        "server": first["server"],
        "mix": first["mix"],
        "seed": "all",
        "seeds": len(runs),
        "duration_s": first["duration_s"],
    }
    for name in MEASURES:
        mean = estimate([float(run[name] or 0.0) for run in runs.values()])
        found |= {
            name: round(mean.mean, 5),
            f"{name}_from": None if mean.low is None else round(mean.low, 5),
            f"{name}_to": None if mean.high is None else round(mean.high, 5),
        }
    for name in (*TIMES, "refused", "late", "failed", "send_delay_p99_ms"):
        known = [float(run[name]) for run in runs.values() if run[name] is not None]
        found[name] = round(sum(known) / len(known), 3) if known else None
    found["others_cores"] = max(float(run["others_cores"] or 0.0) for run in runs.values())
    return found | comparison(runs, rows)


def comparison(runs: Mapping[object, harness.Row], rows: Sequence[harness.Row]) -> harness.Row:
    """Headway's means over this server's, seed by seed; None where there is nothing to compare."""
    ours = {row["seed"]: row for row in rows if row["server"] == HEADWAY}
    seeds = [seed for seed in runs if seed in ours]
    found: harness.Row = {}
    for name, measure_name in (
        ("headway_high_ratio", "high_violations"),
        ("headway_low_goodput_ratio", "low_goodput_rps"),
    ):
        own = [float(ours[seed][measure_name] or 0.0) for seed in seeds]
        theirs = [float(runs[seed][measure_name] or 0.0) for seed in seeds]
        relative = estimate_paired(own, theirs).relative if seeds else None
        found |= {
            name: None if relative is None else round(1 + relative.mean, 4),
            f"{name}_from": rounded_ratio(None if relative is None else relative.low),
            f"{name}_to": rounded_ratio(None if relative is None else relative.high),
        }
    return found


def rounded_ratio(relative: float | None) -> float | None:
    """A relative difference as a ratio."""
    return None if relative is None else round(1 + relative, 4)


# -- the whole -----------------------------------------------------------------------------------


def runs_of(arguments: argparse.Namespace) -> list[Run]:
    """All runs, in the order in which they are played."""
    is_quick = arguments.quick
    mixes = (arguments.mixes or ("stationary" if is_quick else ",".join(MIXES))).split(",")
    servers = (arguments.servers or ",".join(QUICK_SERVERS if is_quick else SERVERS)).split(",")
    unknown = [server for server in servers if server not in SERVERS]
    if unknown:
        raise SystemExit(f"there is no server `{unknown[0]}`; valid: {', '.join(SERVERS)}")
    duration_s = arguments.duration or (6.0 if is_quick else 12.0)
    seeds = range(1, 1 + (arguments.seeds or (1 if is_quick else 5)))
    return [
        Run(mix=find_mix(mix), server=server, seed=seed, duration_ns=round(duration_s * NS_PER_S))
        for mix in mixes
        for seed in seeds
        for server in (servers if seed % 2 else servers[::-1])
    ]


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def play_all(runs: Sequence[Run], arguments: argparse.Namespace) -> list[harness.Row]:
    """Measure, then play one run after another."""
    mixes = list({run.mix.name: run.mix for run in runs}.values())
    expected_s = sum(run.duration_ns / NS_PER_S + RUN_OVERHEAD_S for run in runs)
    say(f"{len(runs)} runs, about {expected_s / 60 + 0.5:.1f} minutes")
    keep = None if arguments.keep is None else Path(arguments.keep)
    if keep is not None:
        keep.mkdir(parents=True, exist_ok=True)
    known = measure(mixes, is_quick=arguments.quick)
    rows = []
    with Client(cache_folder(), [mix.name for mix in mixes]) as client:
        for run in runs:
            row = play(run, known, client, keep=keep, tries=1 if arguments.quick else 2)
            say(
                f"{run.mix.name} {run.server} seed {run.seed}: "
                f"high {row['high_violations']:.2%}, low {row['low_violations']:.2%}"
            )
            rows.append(row)
    return rows


def main() -> int:
    """Play, sum up, and put the figures where they are asked for."""
    harness.adopt_orphans()
    parser = harness.quick_parser(__doc__, "one mix, one seed, 6 s, two servers")
    parser.add_argument("--mixes", help=f"with commas between ({','.join(MIXES)})")
    parser.add_argument("--servers", help=f"with commas between ({','.join(SERVERS)})")
    parser.add_argument("--seeds", type=int, help="how many, from 1 on (5)")
    parser.add_argument("--duration", type=float, help="seconds of arrivals in a run (12)")
    parser.add_argument("--keep", metavar="FOLDER", help="keep the samples of each run there")
    arguments = parser.parse_args()
    rows = play_all(runs_of(arguments), arguments)
    harness.publish(NAME, [*rows, *summaries(rows)], COLUMNS, arguments, notes=NOTES)
    return 0


if __name__ == "__main__":
    sys.exit(main())
