"""Write the pages that only repeat what the code says: configuration, CLI, HTTP, errors, states.

Usage: `python tools/gen_docs.py [--check]`. With `--check` nothing is written; it exits 1 and names
the pages that differ. Pages are the same on every machine: no time, no path, no terminal width.
"""

import argparse
import inspect
import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import Enum
from pathlib import Path
from typing import Any, NamedTuple

import dashboard_table
import doctor_table
import finding_pages
import generation_table
import measurements
import metric_pages
import monitoring_pages
import policy_table
import prediction_table
import soak_table
from headway import __version__, errors
from headway.cli import VERBS, parser_of
from headway.config import DURATION_FORMAT, SIZE_FORMAT, config_schema, sharing_schema
from headway.core import (
    REPLICA_TRANSITIONS,
    TRANSITIONS,
)
from headway.frontends import openapi_document
from headway.generate import SEQUENCE_TRANSITIONS

ROOT = Path(__file__).parent.parent
NOTICE = "<!-- Written by tools/gen_docs.py. Do not edit: change the code and run it again. -->"

Node = Mapping[str, Any]


def main() -> int:
    """Write or compare every page."""
    parser = argparse.ArgumentParser(description="Write the generated pages.")
    parser.add_argument("--check", action="store_true", help="compare only")
    is_check = parser.parse_args().check
    stale = [path for path, text in pages().items() if not is_same(ROOT / path, text)]
    for path in stale:
        print(f"{path} {'differs from the code' if is_check else 'written'}")
        if not is_check:
            (ROOT / path).parent.mkdir(parents=True, exist_ok=True)
            (ROOT / path).write_text(pages()[path], encoding="utf-8")
    if is_check and stale:
        print("to mend: python tools/gen_docs.py", file=sys.stderr)
    return 1 if is_check and stale else 0


def pages() -> dict[str, str]:
    """Every generated page by its path from the root."""
    makers: Mapping[str, Callable[[], str]] = {
        "docs/reference/config.md": config_page,
        "docs/reference/config.schema.json": schema_page,
        "docs/reference/plan.schema.json": plan_schema_page,
        "docs/reference/cli.md": cli_page,
        "docs/reference/errors.md": errors_page,
        "docs/reference/findings.md": findings_page,
        "docs/reference/openapi.json": openapi_page,
        "docs/reference/metrics.md": metrics_page,
        "docs/reference/alerts.md": alerts_page,
        "docs/reference/measurements.md": measurements_page,
        "docs/concepts/policies.md": policies_page,
        "docs/concepts/prediction.md": prediction_page,
        "docs/guides/doctor.md": doctor_page,
        "docs/guides/dashboard.md": dashboard_page,
        "docs/concepts/generation.md": generation_page,
        "docs/guides/soak.md": soak_page,
        "docs/internals/states.md": states_page,
        "README.md": readme_page,
        **monitoring_pages.files(),
    }
    return {path: make() for path, make in makers.items()}


def is_same(path: Path, text: str) -> bool:
    """Whether a file already says exactly this."""
    return path.exists() and path.read_text(encoding="utf-8") == text


def page(title: str, *blocks: str) -> str:
    """A page with one title and the notice."""
    return "\n\n".join([f"# {title}", NOTICE, *blocks]) + "\n"


def table(columns: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    """A table; what would end a cell is escaped."""
    lines = [columns, ("---",) * len(columns), *rows]
    return "\n".join("| " + " | ".join(_cell(cell) for cell in line) + " |" for line in lines)


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


# --- configuration --------------------------------------------------------------------------------

CONFIG_INTRODUCTION = """\
One YAML file, of which only the name and path of each model are required. A flag wins over the
environment, the environment over the file, the file over the default. `headway config show FILE`
prints every value and where it came from, `headway config check FILE` says what is wrong with one,
and [config.schema.json](config.schema.json) lets an editor complete and check it.

In the environment a setting is called `HEADWAY_` and its path, with two underscores between the
words: `HEADWAY_SERVER__PORT=9000`, `HEADWAY_TIERS__BULK__BUDGET=1m`,
`HEADWAY_MODELS__0__VERSION=2`. Case does not matter, and `_` also stands for `-` and `.` in a name.
A whole section can be given as YAML: `HEADWAY_POLICY='{kind: edf}'`, or `HEADWAY_POLICY=edf` for
its defaults. Two variables are no settings: `HEADWAY_CACHE`, the folder where downloads are kept,
and `NO_COLOR`, which turns colour off.

A duration is a number and `ns`, `us`, `ms`, `s`, `m` or `h`; a size is a number and `B`, `KiB`,
`MiB`, `GiB`, `TiB`, `kB`, `MB`, `GB` or `TB`. Zero needs no unit."""


class Section(NamedTuple):
    """One table of the page: where it stands in the file and what may stand there."""

    path: str
    node: Node


def schema_page() -> str:
    """The JSON Schema of the file."""
    return json.dumps(config_schema(), indent=2, ensure_ascii=False) + "\n"


def plan_schema_page() -> str:
    """The JSON Schema of the file of `headway plan`."""
    return json.dumps(sharing_schema(), indent=2, ensure_ascii=False) + "\n"


def openapi_page() -> str:
    """The description of the HTTP interface."""
    return json.dumps(openapi_document(__version__), indent=2, ensure_ascii=False) + "\n"


def config_page() -> str:
    """Every setting, with its type, default and meaning."""
    example = (ROOT / "examples/serve.yaml").read_text(encoding="utf-8")
    blocks = [CONFIG_INTRODUCTION]
    for section in sections("", config_schema()):
        rows = [
            (f"`{name}`", type_text(field), default_text(field, section.node, name), meaning(field))
            for name, field in section.node["properties"].items()
        ]
        if section.path:
            blocks += [f"## `{section.path}`", section.node["description"]]
        else:
            blocks.append("## The first level")
        blocks.append(table(("setting", "type", "default", "meaning"), rows))
    return page("Configuration", *blocks, "## An example", f"```yaml\n{example}```")


def sections(path: str, node: Node) -> Iterator[Section]:
    """A mapping of settings, then those inside it, each with its place in the file."""
    yield Section(path, node)
    for name, field in node["properties"].items():
        where = f"{path}.{name}" if path else name
        inner, suffix = entry_of(field)
        choices = choices_of(inner)
        for choice in choices:
            if "properties" in choice:
                kind = choice["properties"].get("kind", {}).get("const")
                kind = kind if not suffix or len(choices) > 1 else None
                label = f"{where}{suffix}" + (f" of kind {kind}" if kind else "")
                yield from sections(label, choice)


def entry_of(field: Node) -> tuple[Node, str]:
    """What a list or map holds, and how a page writes one of its entries."""
    if "items" in field:
        return field["items"], "[]"
    for holder in (*field.get("patternProperties", {}).values(), field.get("additionalProperties")):
        if isinstance(holder, Mapping):
            return holder, ".NAME"
    return field, ""


def choices_of(node: Node) -> list[Node]:
    """Follow references and unions down to what can be written."""
    if "$ref" in node:
        return choices_of(config_schema()["$defs"][node["$ref"].rpartition("/")[2]])
    options = [*node.get("anyOf", ()), *node.get("oneOf", ())]
    return [choice for option in options for choice in choices_of(option)] or [node]


def type_text(field: Node) -> str:
    """What may be written, in a word or two."""
    texts = [_type_of(choice) for choice in choices_of(field)]
    return " or ".join(dict.fromkeys(text for text in texts if text != "nothing"))


def _type_of(node: Node) -> str:
    if "enum" in node or "const" in node:
        return ", ".join(f"`{value}`" for value in node.get("enum", [node.get("const")]))
    if node.get("format") in {DURATION_FORMAT, SIZE_FORMAT}:
        return "duration" if node["format"] == DURATION_FORMAT else "size"
    if "properties" in node:
        return "mapping"
    match node.get("type"):
        case "array":
            return "list of " + type_text(node["items"])
        case "object":
            inner = type_text(entry_of(node)[0])
            return f"name to {inner}"
        case "integer":
            return "whole number" + _range_of(node)
        case other:
            names = {"string": "text", "boolean": "true or false", "null": "nothing"}
            word = str(other[0] if isinstance(other, list) else other)
            return names.get(word, word)


def _range_of(node: Node) -> str:
    low, high = node.get("minimum"), node.get("maximum")
    if low is not None and high is not None:
        return f", {low} to {high}"
    return f" from {low}" if low is not None else ""


def default_text(field: Node, section: Node, name: str) -> str:
    """The default as it would be written; a section's are in its own table."""
    if name in section.get("required", ()):
        return "required"
    default = field.get("default")
    if default is None:
        return "none" if "default" in field else "`{}`"
    if isinstance(default, dict | list) and default:
        return f"`{json.dumps(default)}`" if _is_plain(default) else "see below"
    return f"`{default if isinstance(default, str) else json.dumps(default)}`"


def _is_plain(default: object) -> bool:
    return isinstance(default, list) and not any(isinstance(value, dict) for value in default)


def meaning(field: Node) -> str:
    """The documentation of a setting; a section without one of its own has its class's."""
    return str(field.get("description") or choices_of(field)[0].get("description", ""))


# --- command line ---------------------------------------------------------------------------------

CLI_INTRODUCTION = """\
`headway VERB ...`. Data goes to stdout, words to stderr. Flags are long, their values follow after
a space. Exit codes: 0 done, 1 failed, 2 bad usage or configuration, 3 target not met. `NO_COLOR` is
obeyed. `headway VERB --help` prints what stands here."""


def cli_page() -> str:
    """Every verb with its arguments."""
    blocks = [CLI_INTRODUCTION]
    for verb, entry in VERBS.items():
        parser = parser_of(verb)
        rows = [argument_row(action) for action in parser._actions]  # noqa: SLF001 - no public way
        example = str(parser.epilog).partition("\n")[2].strip()
        blocks += [
            f"## `headway {verb}`",
            entry.summary,
            table(("argument", "meaning"), rows),
            f"```console\n$ {example}\n```",
        ]
    return page("Command line", *blocks)


def argument_row(action: argparse.Action) -> tuple[str, str]:
    """An argument as it is written, and its help."""
    value = str(action.metavar or "")
    if action.choices is not None:
        value = "|".join(map(str, action.choices))
    written = " ".join(filter(None, [*action.option_strings, value]))
    if action.nargs == "?":
        written = f"[{written}]"
    # As `--help` prints it: a per cent sign is written twice there.
    text = str(action.help) % vars(action)
    return f"`{written}`" + (" ..." if action.nargs == "+" else ""), text


# --- errors ---------------------------------------------------------------------------------------

ERRORS_INTRODUCTION = """\
Every error of headway says what happened, shows the value that it happened with, and where it can
says what to do (`hint`). Its `code` is stable: programs may rely on it, and on nothing else of the
text. An error is also one of its parents: whoever catches `RequestError` catches all below it."""


def errors_page() -> str:
    """The error tree."""
    rows = [
        (f"{'&nbsp;' * 4 * depth}`{kind.__name__}`", f"`{kind.code}`", str(kind.__doc__))
        for depth, kind in error_tree(errors.HeadwayError)
    ]
    return page("Errors", ERRORS_INTRODUCTION, table(("error", "code", "meaning"), rows))


def error_tree(
    kind: type[errors.HeadwayError], depth: int = 0
) -> Iterator[tuple[int, type[errors.HeadwayError]]]:
    """The classes of errors.py, parents first, in the order in which they stand there."""
    yield depth, kind
    own = [child for child in kind.__subclasses__() if child.__module__ == errors.__name__]
    for child in sorted(own, key=lambda child: inspect.getsourcelines(child)[1]):
        yield from error_tree(child, depth + 1)


def findings_page() -> str:
    """What the doctor may find."""
    return page("Findings", *finding_pages.blocks())


# --- states ---------------------------------------------------------------------------------------

STATES_INTRODUCTION = """\
States are data: one literal table each in `core`, from which these diagrams are drawn. A step that
a table does not list is a bug and raises `InvalidTransitionError` with how it came about."""


def metrics_page() -> str:
    """Every metric family that a server exports, but for the process's own; and how to ask."""
    families = list(metric_pages.families())
    columns = ("metric", "type", "labels", "meaning")
    ours, others = (
        table(columns, metric_pages.rows(f for f in families if metric_pages.is_alias(f) is alias))
        for alias in (False, True)
    )
    return page(
        "Metrics",
        metric_pages.INTRODUCTION,
        ours,
        "## Questions and queries",
        metric_pages.queries(),
        "## Native histograms",
        metric_pages.NATIVE,
        "## Names of other servers",
        metric_pages.OTHERS,
        others,
    )


def alerts_page() -> str:
    """Every alert, recording and dashboard."""
    return page("Alerts and dashboards", *monitoring_pages.blocks(table))


def measurements_page() -> str:
    """Every results file as a table."""
    words = "Each section is a file of `benchmarks/results/`, written by the command it names."
    return page("Measurements", words, *measurements.sections())


def readme_page() -> str:
    """The README, its measured part written anew."""
    return measurements.readme((ROOT / "README.md").read_text(encoding="utf-8"))


def policies_page() -> str:
    """The page on policies, its measured part written anew."""
    text = (ROOT / "docs/concepts/policies.md").read_text(encoding="utf-8")
    blocks = policy_table.blocks(measurements.documents())
    return measurements.filled(text, "\n\n".join(blocks))


def prediction_page() -> str:
    """The page on prediction, its measured part written anew."""
    text = (ROOT / "docs/concepts/prediction.md").read_text(encoding="utf-8")
    blocks = prediction_table.blocks(measurements.documents())
    return measurements.filled(text, "\n\n".join(blocks))


def dashboard_page() -> str:
    """The page on the web page, its measured part written anew."""
    text = (ROOT / "docs/guides/dashboard.md").read_text(encoding="utf-8")
    blocks = dashboard_table.blocks(measurements.documents())
    return measurements.filled(text, "\n\n".join(blocks))


def generation_page() -> str:
    """The page on token-by-token models, its measured part written anew."""
    text = (ROOT / "docs/concepts/generation.md").read_text(encoding="utf-8")
    blocks = generation_table.blocks(measurements.documents())
    return measurements.filled(text, "\n\n".join(blocks))


def soak_page() -> str:
    """The page on the soak, its measured part written anew."""
    text = (ROOT / "docs/guides/soak.md").read_text(encoding="utf-8")
    return measurements.filled(text, "\n\n".join(soak_table.blocks(measurements.documents())))


def doctor_page() -> str:
    """The page on the doctor, its measured part written anew."""
    text = (ROOT / "docs/guides/doctor.md").read_text(encoding="utf-8")
    return measurements.filled(text, "\n\n".join(doctor_table.blocks(measurements.documents())))


def states_page() -> str:
    """The state diagrams."""
    return page(
        "States",
        STATES_INTRODUCTION,
        "## A request",
        diagram(TRANSITIONS, start="arriving"),
        "## A replica",
        diagram(REPLICA_TRANSITIONS, start="loading"),
        "## A sequence of a generating model",
        diagram(SEQUENCE_TRANSITIONS, start="waiting"),
    )


def diagram(transitions: Mapping[tuple[Any, Any], Any], *, start: str) -> str:
    """A table of transitions as a Mermaid diagram; states that nothing leaves are ends."""
    lines = ["stateDiagram-v2", f"    [*] --> {start}"]
    for (state, step), result in transitions.items():
        lines.append(f"    {_name(state)} --> {_name(result)}: {_name(step)}")
    left = {state for state, _ in transitions}
    ends = [result for result in dict.fromkeys(transitions.values()) if result not in left]
    lines += [f"    {_name(end)} --> [*]" for end in ends]
    return "```mermaid\n" + "\n".join(lines) + "\n```"


def _name(member: Enum) -> str:
    return str(member.value)


if __name__ == "__main__":
    sys.exit(main())
