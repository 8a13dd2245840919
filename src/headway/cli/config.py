"""`headway config`: show what is configured and why, check it, print its schema."""

import argparse
from pathlib import Path

from headway.cli.arguments import UsageError, VerbParser, add_format, add_server_flags, server_flags
from headway.cli.output import print_json, print_note, print_table, say
from headway.config import (
    LoadedConfig,
    config_rows,
    config_schema,
    functions_of,
    load_config,
    load_target,
    warnings_of,
    worker_groups,
)

__all__ = ["EXAMPLE", "add_arguments", "run"]

EXAMPLE = "headway config show examples/serve.yaml --port 9000"


def add_arguments(parser: VerbParser) -> None:
    """Say what may be given."""
    parser.add_argument(
        "action",
        choices=("show", "check", "schema"),
        help="show every value with its origin, check the file, or print the JSON Schema",
    )
    parser.add_argument(
        "file", nargs="?", metavar="FILE", help="configuration or model file; show works without"
    )
    add_server_flags(parser)
    add_format(parser)


def run(args: argparse.Namespace) -> int:
    """Do what was asked; a wrong configuration raises ConfigError, which ends in exit code 2."""
    if args.action == "schema":
        print_json(config_schema())
        return 0
    if args.action == "check" and args.file is None:
        raise UsageError("`check` needs a FILE", hint="headway config check examples/serve.yaml")
    flags = server_flags(args)
    loaded = load_target(args.file, flags=flags) if args.file else load_config(None, flags=flags)
    if args.action == "show":
        _show(loaded, args.format)
    else:
        _check(loaded, args.format)
    return 0


def _show(loaded: LoadedConfig, form: str) -> None:
    if form == "json":
        sources = {path: str(source) for path, source in loaded.sources.items()}
        print_json({"config": loaded.config.model_dump(mode="json"), "sources": sources})
        return
    rows = [(row.path, row.value, row.source) for row in config_rows(loaded)]
    print_table(("setting", "value", "from"), rows)


def _check(loaded: LoadedConfig, form: str) -> None:
    config = loaded.config
    worker_groups(config)  # refuses cores that this machine does not have
    warnings = [
        *warnings_of(config),
        *(
            f"model `{model.name}`: there is no file `{file}` here"
            for model in config.models
            if (file := _file_of(model.path)) is not None
            and model.backend != "emulated"
            and not file.exists()
        ),
        *(
            f"function `{function.params.name}`: there is no file `{file}` here"
            for function in functions_of(config)
            if (file := _file_of(function.spec.path)) is not None and not file.exists()
        ),
    ]
    if form == "json":
        print_json({"is_valid": True, "models": len(config.models), "warnings": warnings})
        return
    for warning in warnings:
        print_note("warning", warning)
    names = ", ".join(model.name for model in config.models) or "none"
    say(f"ok: models {names}; tiers {', '.join(config.tiers)}; policy {config.policy.kind}")


def _file_of(path: str | None) -> Path | None:
    """The file that a model's path names; None where it names a module, or there is none."""
    if path is None:
        return None
    place = path.rpartition(":")[0] or path
    return Path(place) if place.endswith((".py", ".onnx")) or "/" in place else None
