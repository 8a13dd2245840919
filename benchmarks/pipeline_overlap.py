"""How long the device idles between backbones: steps of a pipeline against all in one call.

One core stands for the accelerator, with one slot. `sequence`: one call prepares, runs the backbone
and finishes on that slot, so that the device idles while the processor works. `pipeline`: the same
functions run in a pool on the other core, and only backbones on the device, so that the steps of
several calls overlap. The same load is played at both in turn (A B A B), several calls at a time,
each client sending its next when it is answered; answers are checked.

An accelerator computes for nobody else, so nothing of ours may run on its core but its slot: the
server's own process and the clients are kept on the other core, with the pool. All run at niceness
0, for whoever else uses the machine would get three quarters of a core from a slot at 5.

Idle is the part of the time in which the device computed no backbone, of the time in which it had
its core. `sequence` adds up its thread's time within its graphs. Of `pipeline` backbones take the
execution stage of their batches less what the device's slot waited for its core: waiting is not
computing, and a machine that others use would else look busy. What it waited outside of that stage
is taken off, too, which is to the disadvantage of `pipeline`.

Usage: `python benchmarks/pipeline_overlap.py [--quick] [--format table|json]`. The demo's models
are fetched on first use. A full run puts the document into
`benchmarks/results/pipeline_overlap.json`.
"""

from __future__ import annotations

import io
import os
import random
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import harness
import numpy as np
import yaml
from harness import Row
from PIL import Image
from prometheus_client.parser import text_string_to_metric_families

from headway.config import cache_folder
from headway.demo import fetch_models
from headway.demo.moderation import draw_landscape
from headway.demo.ocr import draw_page, invent_line
from headway.demo.remote import RemoteModels

NAME = "pipeline_overlap"
COLUMNS = (
    "workload",
    "how",
    "in_flight",
    "rps",
    "p50_ms",
    "p99_ms",
    "idle_ratio",
    "idle_less_percent",
    "taken_ratio",
    "failures",
    "others_cores",
)
NOTES = (
    "The device is one core with one slot, and nothing else of ours runs there; pool, server and"
    " clients share the other core, at niceness 0.",
    "idle_ratio: part of the time in which the device computed no backbone, of that in which it had"
    " its core; medians of the rounds.",
    "idle_less_percent: how much less that is than in `sequence`.",
    "taken_ratio: part of the time in which the device's slot waited for its core, which an"
    " accelerator would not; only near 0 is throughput a fair comparison, for others find a free"
    " core beside `sequence` and none beside `pipeline`.",
    "Of a page nearly all is the backbones', so there is little to gain.",
    "others_cores: what other programs used meanwhile; repeat a run in which it is not near 0.",
)
MODELS = ("ocr-detect", "ocr-recognise", "opennsfw")
FUNCTIONS = harness.BENCHMARKS / "overlap_models.py"
IN_FLIGHT = 4
HOWS = ("sequence", "pipeline")
WARM_S = 1.0
CORES = frozenset(os.sched_getaffinity(0))


@dataclass(frozen=True, slots=True)
class Workload:
    """A model served both ways, and what is asked of it."""

    name: str
    backbones: tuple[str, ...]
    inputs: Sequence[Mapping[str, np.ndarray]]
    answer: str
    """The output that both ways must agree in."""

    def model(self, how: str) -> str:
        """The name that it is served under."""
        return f"{self.name}-{how}"


def workloads() -> list[Workload]:
    """Pages of three lines, and photographs that take less to prepare than the backbone takes.

    Else the pool would be what all wait for, and the device would idle whatever the order.
    """
    chance = random.Random("pipeline_overlap/inputs")
    pages = [{"page": draw_page([invent_line(chance) for _ in range(3)])} for _ in range(8)]
    photographs = [{"jpeg": photograph(chance)} for _ in range(4)]
    return [
        Workload("page", ("detect", "recognise"), pages, "lines"),
        Workload("picture", ("moderate",), photographs, "unsafe"),
    ]


def photograph(chance: random.Random) -> np.ndarray:
    """A megapixel of JPEG."""
    with io.BytesIO() as buffer:
        Image.fromarray(draw_landscape(chance, side=1024)).save(buffer, format="JPEG")
        return np.frombuffer(buffer.getvalue(), np.uint8)


def config_of(graphs: Mapping[str, Path], port: int) -> dict[str, object]:
    """One server that has every workload both ways."""
    device = {"slots_per_core": 1, "niceness": {"high": 0, "low": 19}}
    return {
        "server": {"host": "127.0.0.1", "port": port},
        "tiers": {"standard": {"budget": "30s"}},
        "devices": [
            {"name": name, "cores": [core], **device}
            for name, core in zip(("device", "pool"), two_cores(), strict=True)
        ],
        "models": [*backbones(graphs), *whole_calls(graphs), *pipelines(graphs)],
    }


def two_cores() -> list[int]:
    """The device's, and that of all else."""
    cores = sorted(CORES)[:2]
    if len(cores) < 2:
        raise harness.LoadFailedError("this takes two cores: one device, and one pool beside it")
    return cores


def backbones(graphs: Mapping[str, Path]) -> list[dict[str, object]]:
    """What runs on the device."""
    names = {"detect": "ocr-detect", "recognise": "ocr-recognise", "moderate": "opennsfw"}
    return [
        {"name": name, "path": str(graphs[graph]), "batch": {"rows_max": 1}}
        for name, graph in names.items()
    ]


def whole_calls(graphs: Mapping[str, Path]) -> list[dict[str, object]]:
    """Everything in one call, on the device."""
    detect, recognise, moderate = (str(graphs[name]) for name in MODELS)
    return [
        {
            "name": "page-sequence",
            "path": f"{FUNCTIONS}:WholePage",
            "options": {"detect": detect, "recognise": recognise},
        },
        {
            "name": "picture-sequence",
            "path": f"{FUNCTIONS}:WholePicture",
            "options": {"moderate": moderate},
        },
    ]


def pipelines(graphs: Mapping[str, Path]) -> list[dict[str, object]]:
    """The same in steps: backbones on the device, functions in the pool."""
    ocr, graph = "headway.demo.ocr_steps", str(graphs["ocr-recognise"])
    page_steps: list[dict[str, object]] = [
        {"name": "encode", "function": f"{ocr}:encode", "inputs": {"page": "input.page"}},
        {"name": "detect", "model": "detect", "inputs": {"x": "encode.x"}},
        {
            "name": "crop",
            "function": f"{ocr}:crop",
            "inputs": {"page": "input.page", "ink": "detect.sigmoid_0.tmp_0"},
        },
        {"name": "read", "model": "recognise", "each": "crop.line", "inputs": {"x": "crop.line"}},
        {
            "name": "text",
            "function": f"{ocr}:Text",
            "options": {"graph": graph},
            "inputs": {"columns": "read.character"},
        },
    ]
    picture_steps: list[dict[str, object]] = [
        {"name": "prepare", "function": f"{FUNCTIONS}:prepare", "inputs": {"jpeg": "input.jpeg"}},
        {"name": "moderate", "model": "moderate", "inputs": {"input:0": "prepare.x"}},
        {
            "name": "score",
            "function": f"{FUNCTIONS}:score",
            "inputs": {"probabilities": "moderate.outputs"},
        },
    ]
    return [
        {
            "name": "page-pipeline",
            "inputs": [{"name": "page", "datatype": "UINT8", "shape": [-1, -1, 3]}],
            "outputs": [{"name": "lines", "datatype": "BYTES", "shape": [-1]}],
            "pipeline": {"pool": "pool", "outputs": {"lines": "text.lines"}, "steps": page_steps},
        },
        {
            "name": "picture-pipeline",
            "inputs": [{"name": "jpeg", "datatype": "UINT8", "shape": [-1]}],
            "outputs": [{"name": "unsafe", "datatype": "FP32", "shape": [1]}],
            "pipeline": {
                "pool": "pool",
                "outputs": {"unsafe": "score.unsafe"},
                "steps": picture_steps,
            },
        },
    ]


# -- load ------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Seen:
    """What the clients of one round saw."""

    times_s: list[float] = field(default_factory=list)
    busy_ns: int = 0
    failures: int = 0


def play(url: str, workload: Workload, how: str, seconds: float, right: Sequence[object]) -> Seen:
    """A closed loop of a few clients for so long."""
    seen, lock = Seen(), threading.Lock()
    ends_at_s = time.monotonic() + seconds

    def ask(first: int) -> None:
        with RemoteModels(url) as remote:
            index = first
            while (began_at_s := time.monotonic()) < ends_at_s:
                which = index % len(workload.inputs)
                outputs = remote.infer(workload.model(how), dict(workload.inputs[which]))
                took_s = time.monotonic() - began_at_s
                is_wrong = not np.array_equal(outputs[workload.answer], right[which])
                with lock:
                    seen.times_s.append(took_s)
                    seen.failures += is_wrong
                    seen.busy_ns += int(outputs.get("busy_ns", np.zeros(1))[0])
                index += 1

    clients = [threading.Thread(target=ask, args=(first,)) for first in range(IN_FLIGHT)]
    for client in clients:
        client.start()
    for client in clients:
        client.join()
    return seen


def backbone_s(port: int, workload: Workload) -> float:
    """Time that the backbones of the pipelines have run so far."""
    http = harness.Http(port)
    text = http.get("/metrics")[1].decode()
    http.close()
    return sum(
        sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name == "headway_stage_seconds_sum"
        and sample.labels["stage"] == "execution"
        and sample.labels["model"] in workload.backbones
    )


def threads() -> Iterator[int]:
    """All threads of the server and its workers."""
    for pid in harness.own_tree():
        with suppress(OSError):
            yield from (int(entry.name) for entry in Path(f"/proc/{pid}/task").iterdir())


def clear_device() -> list[int]:
    """Leave the device's core to its slot, whose threads are returned; ours go with the rest."""
    device, other = two_cores()
    slots = []
    for thread in threads():
        with suppress(OSError):
            if os.sched_getaffinity(thread) == {device}:
                slots.append(thread)
            else:
                os.sched_setaffinity(thread, {other})
    os.sched_setaffinity(0, {other})  # threads that are started later inherit it
    return slots


def waited_s(slots: Sequence[int]) -> float:
    """How long threads that could have run had no core, so far."""
    texts = [Path(f"/proc/{thread}/schedstat").read_text() for thread in slots]
    return sum(int(text.split()[1]) for text in texts) / 1e9


def measure(
    port: int,
    workload: Workload,
    how: str,
    seconds: float,
    right: Sequence[object],
    slots: Sequence[int],
) -> Row:
    """One round."""
    url = f"http://127.0.0.1:{port}"
    play(url, workload, how, WARM_S, right)
    before_s, waited_before_s = backbone_s(port, workload), waited_s(slots)
    began_at_s = time.monotonic()
    with harness.Interval() as interval:
        seen = play(url, workload, how, seconds, right)
    wall_s = time.monotonic() - began_at_s
    taken_s = waited_s(slots) - waited_before_s
    stage_s = backbone_s(port, workload) - before_s
    busy_s = seen.busy_ns / 1e9 + max(0.0, stage_s - taken_s)
    cuts = statistics.quantiles(seen.times_s, n=100)
    return {
        "workload": workload.name,
        "how": how,
        "in_flight": IN_FLIGHT,
        "rps": round(len(seen.times_s) / wall_s, 2),
        "p50_ms": round(cuts[49] * 1e3, 1),
        "p99_ms": round(cuts[98] * 1e3, 1),
        "idle_ratio": round(1 - busy_s / (wall_s - taken_s), 4),
        "taken_ratio": round(taken_s / wall_s, 4),
        "failures": seen.failures,
        "others_cores": interval.others_cores,
    }


def compared(rows: list[Row]) -> list[Row]:
    """Medians of the rounds, and of each workload how much less the device idles."""
    merged = []
    for workload in dict.fromkeys(row["workload"] for row in rows):
        pair = {
            how: harness.median_row(
                [r for r in rows if (r["workload"], r["how"]) == (workload, how)]
            )
            for how in HOWS
        }
        idle = {how: float(str(row["idle_ratio"])) for how, row in pair.items()}
        less = 100 * (1 - idle["pipeline"] / idle["sequence"]) if idle["sequence"] else 0.0
        pair["pipeline"]["idle_less_percent"] = round(less, 1)
        merged += [pair[how] for how in HOWS]
    return merged


def run(graphs: Mapping[str, Path], rounds: int, seconds: float) -> list[Row]:
    """Every workload, both ways in turn."""
    port = harness.free_port()
    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder) / "overlap.yaml"
        config.write_text(yaml.safe_dump(config_of(graphs, port)))
        command = [sys.executable, "-m", "headway", "serve", str(config)]

        def is_ready() -> bool:
            return harness.Http(port).get("/v2/health/ready")[0] == 200

        rows: list[Row] = []
        with harness.ServerProcess(command, is_ready):
            slots = clear_device()
            for workload in workloads():
                with RemoteModels(f"http://127.0.0.1:{port}") as remote:
                    right: list[object] = [
                        remote.infer(workload.model("sequence"), dict(inputs))[workload.answer]
                        for inputs in workload.inputs
                    ]
                for _ in range(rounds):
                    rows += [measure(port, workload, how, seconds, right, slots) for how in HOWS]
    return compared(rows)


def main() -> int:
    """Measure, and put the figures where they are asked for."""
    options = harness.quick_parser(__doc__, "two rounds of 3 s instead of five of 15").parse_args()
    harness.adopt_orphans()
    graphs = fetch_models(cache_folder(), models=MODELS)
    try:
        rows = run(graphs, *((2, 3.0) if options.quick else (5, 15.0)))
    except harness.LoadFailedError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    harness.publish(NAME, rows, COLUMNS, options, notes=NOTES)
    return 0


if __name__ == "__main__":
    sys.exit(main())
