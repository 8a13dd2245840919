"""What was measured, as pages: every table and figure in them is read from `benchmarks/results`.

Nothing is typed in by hand: a figure that the documentation quotes is computed here from the rows
of a results file, and `python tools/gen_docs.py --check` fails when a file and a page disagree.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "benchmarks" / "results"
BEGIN, END = "<!-- measured: begin -->", "<!-- measured: end -->"
ROWS_MAX = 40
"""A longer table is cut; the file has all of it."""

Document = Mapping[str, Any]
Row = Mapping[str, Any]


def documents() -> dict[str, Document]:
    """Every results file by its name."""
    return {
        path.stem: json.loads(path.read_text("utf-8")) for path in sorted(RESULTS.glob("*.json"))
    }


def sections() -> Iterator[str]:
    """A section a results file: where it comes from, its notes, its rows."""
    for name, document in documents().items():
        yield f"## {name}"
        emulated = " Emulated." if document.get("emulated") else ""
        when, where = document["date"][:10], machine_of(document)
        yield f"`{document['command']}`, {when}, on {where}.{emulated}"
        notes = document.get("notes") or []
        if notes:
            yield "\n".join(f"- {note}" for note in notes)
        yield table_of(document["rows"])
        if len(document["rows"]) > ROWS_MAX:
            yield f"The first {ROWS_MAX} of {len(document['rows'])} rows."


def machine_of(document: Document) -> str:
    """The machine in a few words."""
    machine = document["machine"]
    if isinstance(machine, str):
        return machine
    return "{cores} cores, {cpu}, {system}, Python {python}".format(**machine)


def table_of(rows: Sequence[Row]) -> str:
    """Rows as a table; columns in the order in which they first appear."""
    columns = list(dict.fromkeys(key for row in rows for key in row))
    lines = [columns, ["---"] * len(columns)]
    lines += [[cell_of(row.get(column)) for column in columns] for row in rows[:ROWS_MAX]]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def cell_of(value: object) -> str:
    """A value without what would end its cell."""
    if value is None:
        return ""
    text = f"{value:,.4g}" if isinstance(value, float) and abs(value) < 1e4 else str(value)
    return text.replace("|", "\\|").replace("\n", " ")


def readme(text: str) -> str:
    """The README with its measured part written anew."""
    return filled(text, highlights())


def filled(text: str, measured: str) -> str:
    """A page with what lies between the marks replaced."""
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{measured}\n{END}{after}"


def highlights() -> str:
    """The figures that the README quotes, each with the command that gives it."""
    found = documents()
    parts = {
        "demo": demo,
        "policies_moving": policies_moving,
        "prediction": prediction,
        "http_echo": http_echo,
        "grpc_echo": grpc_echo,
        "large_tensors": large_tensors,
        "kernel": kernel,
        "simulator": simulator,
        "memory": memory,
        "overload": overload,
        "soak": soak,
        "doctor": doctor,
    }
    known = [name for name in parts if name in found]
    rows = [row for name in known for row in parts[name](found)]
    head = ["| what | measured | command |", "| --- | --- | --- |"]
    where = " and ".join(dict.fromkeys(machine_of(found[name]) for name in known))
    words = f"On {where}. All rows: [measurements](docs/reference/measurements.md)."
    return "\n".join([*head, *rows, "", words])


def demo(found: Mapping[str, Document]) -> Iterator[str]:
    """What the demo's policies make of the same requests."""
    document = found["demo"]
    ratio = {(r["tier"], r["policy"]): 100 * r["violation_ratio"] for r in document["rows"]}
    tiers = dict.fromkeys(tier for tier, _ in ratio)
    policies = ("fifo", "priority", "headway")
    parts = [
        f"{tier} {' / '.join(f'{ratio[tier, policy]:.1f}' for policy in policies)}"
        for tier in tiers
    ]
    what = (
        f"real models at {document['load_ratio']:.1f} times capacity,"
        " % of requests not in time: `fifo` / `priority` / `headway`"
    )
    yield line(what, ", ".join(parts), document["command"])


def policies_moving(found: Mapping[str, Document]) -> Iterator[str]:
    """What `headway` changes over all mixes that move, against each other policy."""
    document = found["policies_moving"]
    for niced, words in ((False, "slots that cannot preempt"), (True, "low slots niced")):
        parts = [
            f"`{row['against']}` {100 * row['high_violations_relative']:+.0f}"
            f" and {100 * row['low_goodput_work_relative']:+.0f}"
            for row in document["rows"]
            if row.get("kind") == "difference"
            and (row["mix"], row["niced"], row["policy"]) == ("moving (all)", niced, "headway")
        ]
        what = (
            f"real models, load and shares moving, {words}: `headway` less others,"
            " % of high violations and of low work in time"
        )
        if parts:
            yield line(what, ", ".join(parts), document["command"])


def prediction(found: Mapping[str, Document]) -> Iterator[str]:
    """How wrong a time alone is among neighbours, and how wrong the prediction."""
    document = found["prediction"]
    error = {
        (r["utilisation"], r["predictor"]): 100 * r["mape"]
        for r in document["rows"]
        if r["config"] == "pinned"
    }
    parts = [
        f"at {100 * load:.0f} % {error[load, 'fixed']:.0f} to {error[load, 'headway']:.0f} %"
        for load in sorted({load for load, _ in error})
    ]
    what = "execution time of real models among neighbours, mean error: time alone to `headway`"
    yield line(what, ", ".join(parts), document["command"])


def http_echo(found: Mapping[str, Document]) -> Iterator[str]:
    """One line for a lone client, one for thirty-two, one for the peers in the same run."""
    rows = {(r["server"], r["connections"]): r for r in found["http_echo"]["rows"] if r.get("rps")}
    command = found["http_echo"]["command"]
    one, many = rows["headway", 1], rows["headway", 32]
    yield line(
        "echo of 16 floats through a worker process, 1 connection",
        f"p50 {one['p50_ms']:.2f} ms",
        command,
    )
    yield line(
        "the same, 32 connections",
        f"{many['rps']:,.0f} req/s, p99 {many['p99_ms']:.1f} ms",
        command,
    )
    peers = sorted(
        (
            (r["rps"], server)
            for (server, count), r in rows.items()
            if count == many["connections"] and server != "headway"
        ),
        reverse=True,
    )
    if peers:
        yield line(
            "other servers in the same run, 32 connections, req/s",
            ", ".join(f"{server} {rps:,.0f}" for rps, server in peers),
            command,
        )


def grpc_echo(found: Mapping[str, Document]) -> Iterator[str]:
    """Every server at 32 connections, by each load generator."""
    document = found["grpc_echo"]
    for tool in dict.fromkeys(row["tool"] for row in document["rows"]):
        rates = {
            row["server"]: row["rps"]
            for row in document["rows"]
            if (row["tool"], row["connections"]) == (tool, 32)
        }
        yield line(
            f"the same over gRPC, 32 connections, req/s by `{tool}`",
            ", ".join(f"{server} {rps:,.0f}" for server, rps in rates.items()),
            document["command"],
        )


def large_tensors(found: Mapping[str, Document]) -> Iterator[str]:
    """What goes through in each form, on four connections, beside Triton."""
    document = found["large_tensors"]
    rates = {
        (row["form"], row["server"]): row["mb_per_s"]
        for row in document["rows"]
        if row["connections"] == 4
    }
    forms = [form for form, server in rates if server == "headway" and (form, "triton") in rates]
    yield line(
        "a tensor of 1 MiB there and back, 4 connections, MB/s: headway / triton",
        ", ".join(
            f"{form} {rates[form, 'headway']:,.0f} / {rates[form, 'triton']:,.0f}" for form in forms
        ),
        document["command"],
    )


def kernel(found: Mapping[str, Document]) -> Iterator[str]:
    """The scheduler's cost of an event with a full queue."""
    rows = [r for r in found["kernel"]["rows"] if r["event"] == "all" and r["waiting"] == 1000]
    worst = max(rows, key=lambda row: row["p99_us"])
    of = ", ".join(f"`{worst[name]}`" for name in ("policy", "predictor") if name in worst)
    yield line(
        f"one scheduling event, 1,000 waiting, 8 running ({of})",
        f"median {worst['median_us']:.1f} us, p99 {worst['p99_us']:.0f} us",
        found["kernel"]["command"],
    )


def simulator(found: Mapping[str, Document]) -> Iterator[str]:
    """How fast virtual time passes, and that memory stays."""
    rows = found["simulator"]["rows"]
    speed = next(r for r in rows if r["kind"] == "speed" and r["policy"] == "fifo")
    last = [r for r in rows if r["kind"] == "memory"][-1]
    yield line(
        "simulated requests, `fifo`, one core",
        f"{speed['requests_per_s']:,.0f} /s",
        found["simulator"]["command"],
    )
    yield line(
        f"memory over {last['requests']:,} simulated requests",
        f"{last['rss_mib']:.0f} MiB, grew by {last['growth_mib']:.1f}",
        found["simulator"]["command"],
    )


def memory(found: Mapping[str, Document]) -> Iterator[str]:
    """What a server holds."""
    rows = found["memory"]["rows"]
    first, last = rows[0], rows[-1]
    yield line(
        "server and echo worker, resident, model aside",
        f"{first['total_mib']:.0f} MiB, after {last['requests']:,} requests"
        f" {last['total_mib']:.0f}; ready in {first['ready_s']:.1f} s",
        found["memory"]["command"],
    )


def overload(found: Mapping[str, Document]) -> Iterator[str]:
    """Ten times the capacity."""
    rows = [r for r in found["overload"]["rows"] if str(r["part"]).startswith("second")]
    sent, lost = sum(r["sent"] for r in rows), sum(r["lost"] for r in rows)
    yield line(
        f"ten times the capacity for {len(rows)} s",
        f"{sent:,} sent, {lost} unanswered,"
        f" {rows[0]['rss_mib']:.0f} to {rows[-1]['rss_mib']:.0f} MiB",
        found["overload"]["command"],
    )


def soak(found: Mapping[str, Document]) -> Iterator[str]:
    """Half an hour of everything at once."""
    total = found["soak"]["rows"][-1]
    answered = "every one answered once" if total["one_answer_each"] else "not all answered once"
    yield line(
        f"{total['minutes']:g} minutes at 1.1 times the capacity, {total['kills']} workers killed,"
        f" {total['reloads']} reloads, a full disk, a clock that steps",
        f"{total['sent']:,} sent, {answered};"
        f" memory {total['server_mib_per_hour']:+.1f} MiB an hour",
        found["soak"]["command"],
    )


def doctor(found: Mapping[str, Document]) -> Iterator[str]:
    """Illnesses found, and healthy servers that were called ill."""
    rows = found["doctor"]["rows"]
    ill = [row for row in rows if row["part"] == "ill"]
    healthy = [row for row in rows if row["part"] == "healthy"]
    yield line(
        f"`headway doctor`: {len(ill)} illnesses that were really caused, in"
        f" {sum(row['runs'] for row in ill)} servers, and {sum(row['runs'] for row in healthy)}"
        " healthy ones",
        f"found in {sum(row['found'] for row in ill)};"
        f" {sum(row['false_alarms'] for row in healthy)} false alarms",
        found["doctor"]["command"],
    )


def line(what: str, measured: str, command: str) -> str:
    """One row of the README's table."""
    return f"| {what} | {measured} | `{command}` |"
