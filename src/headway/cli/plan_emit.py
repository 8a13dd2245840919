"""`headway plan emit`: a plan as files that others read, each checked as it is written."""

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from headway.cli.arguments import UsageError, VerbParser, add_format
from headway.cli.output import print_json, print_note, print_table, say
from headway.errors import HeadwayError

if TYPE_CHECKING:
    from headway.rollout import Emission, EmitOptions, EmittedFile, Fault

__all__ = ["EXAMPLE", "add_arguments", "run"]

EXAMPLE = "headway plan emit examples/plan/onprem.plan.json --to out/onprem --as mps,kserve"

_EXECUTABLE = 0o755


def add_arguments(parser: VerbParser) -> None:
    """Say what may be given."""
    parser.add_argument(
        "plan", metavar="PLAN", help="a plan, as `headway plan --format json` prints it"
    )
    parser.add_argument(
        "--to", metavar="FOLDER", help="where files go, in a folder for each format"
    )
    parser.add_argument(
        "--as",
        dest="formats",
        metavar="FORMAT,...",
        help="which formats (all); without --to what there is is listed",
    )
    parser.add_argument("--name", metavar="NAME", help="of what exists once (headway)")
    parser.add_argument("--namespace", metavar="NAME", help="of servers (headway)")
    parser.add_argument(
        "--operator-namespace", metavar="NAME", help="of NVIDIA's operator (gpu-operator)"
    )
    parser.add_argument("--image", metavar="IMAGE", help="of servers (headway:latest)")
    parser.add_argument(
        "--models-uri",
        metavar="URI",
        help="of a folder with a folder a server, with `serve.yaml` in it (pvc://models)",
    )
    parser.add_argument(
        "--prometheus-url", metavar="URL", help="(http://prometheus.monitoring:9090)"
    )
    parser.add_argument(
        "--state-folder", metavar="FOLDER", help="of MPS on each node (/run/headway)"
    )
    add_format(parser)


def run(args: argparse.Namespace) -> int:
    """Write the files; without a folder, say what would be written."""
    from headway.rollout import FORMATS, read_plan

    names = _names(args.formats, FORMATS)
    plan = read_plan(Path(args.plan))
    emissions = {name: FORMATS[name].emit(plan, _options(args)) for name in names}
    faults = _faults(emissions)
    if faults:
        lines = [f"{name}: {fault.place}: {fault.message}" for name, fault in faults]
        error = HeadwayError(f"a file of this plan would not be valid: {lines[0]}")
        for line in lines[1:]:
            error.add_note(line)
        raise error
    if args.to is not None:
        for name, emission in emissions.items():
            _write(Path(args.to) / name, emission.files)
    _print(args, emissions, {name: FORMATS[name].summary for name in names})
    return 0


def _names(text: str | None, formats: Mapping[str, object]) -> list[str]:
    names = list(formats) if text is None else text.split(",")
    for name in names:
        if name not in formats:
            raise UsageError(
                f"there is no format `{name}`",
                hint=f"there are {', '.join(f'`{one}`' for one in formats)}",
            )
    return names


def _options(args: argparse.Namespace) -> "EmitOptions":
    from headway.rollout import EmitOptions

    keys = ("name", "namespace", "operator_namespace", "image", "models_uri", "prometheus_url")
    given = {key: getattr(args, key) for key in (*keys, "state_folder")}
    return EmitOptions(**{key: value for key, value in given.items() if value is not None})


def _faults(emissions: "Mapping[str, Emission]") -> "list[tuple[str, Fault]]":
    """What is wrong with any file; a warning where what checks them is not installed."""
    from headway.rollout import check_file, shipped_definitions

    found = []
    try:
        for name, emission in emissions.items():
            for file in emission.files:
                checked = check_file(file.name, file.text, shipped_definitions())
                found += [(f"{name}/{file.name}", fault) for fault in checked.faults]
    except HeadwayError as error:
        print_note("warning", f"not all files were checked: {error.message}; {error.hint}")
    return found


def _write(folder: Path, files: "Sequence[EmittedFile]") -> None:
    """Write them; files of another plan that lie there would be taken for these.

    Raises:
        HeadwayError: there are such files, or the folder cannot be written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        names = {file.name for file in files}
        others = sorted(path.name for path in folder.iterdir() if path.name not in names)
        if others:
            raise HeadwayError(
                f"`{folder}` holds other files: {', '.join(others)}",
                hint="remove what an earlier plan left there, or give another folder",
            )
        for file in files:
            path = folder / file.name
            path.write_text(file.text, encoding="utf-8")
            if file.is_executable:
                path.chmod(_EXECUTABLE)
    except OSError as error:
        raise HeadwayError(f"cannot write below `{folder}`: {error.strerror}") from error


def _print(
    args: argparse.Namespace, emissions: "Mapping[str, Emission]", summaries: Mapping[str, str]
) -> None:
    if args.format == "json":
        print_json(
            {
                name: {
                    "files": [file.name for file in emission.files],
                    "notes": list(emission.notes),
                }
                for name, emission in emissions.items()
            }
        )
        return
    rows = []
    for name, emission in emissions.items():
        files = [f"{name}/{file.name}" for file in emission.files] or ["nothing to say"]
        rows += [(file, summaries[name] if file == files[0] else "") for file in files]
    print_table(("file", "what it is"), rows)
    for name, emission in emissions.items():
        for note in emission.notes:
            say(f"{name}: {note}")
    if args.to is None:
        say("nothing was written: give `--to FOLDER`")
