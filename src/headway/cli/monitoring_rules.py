"""`headway monitoring rules`: alerts and recordings for Prometheus, with one's own thresholds."""

import argparse
from collections.abc import Callable
from typing import TYPE_CHECKING

from headway.cli.arguments import UsageError, VerbParser, duration_ns, positive
from headway.units import NS_PER_MS, NS_PER_S

if TYPE_CHECKING:
    from headway.monitoring import AlertSettings, Setting

__all__ = ["EXAMPLE", "add_arguments", "flag_of", "run", "written"]

EXAMPLE = "headway monitoring rules --queue-age-ratio-max 0.8 --pending 2m"

_NS = "_ns"
_UNITS = (("h", 3600 * NS_PER_S), ("m", 60 * NS_PER_S), ("s", NS_PER_S), ("ms", NS_PER_MS))


def add_arguments(parser: VerbParser) -> None:
    """A flag for each of the settings: the reasons for their defaults are their help."""
    from headway.monitoring import Form, settings_of

    parser.add_argument(
        "--as",
        dest="form",
        choices=[str(form) for form in Form],
        default=str(Form.PROMETHEUS),
        help="a file for `rule_files`, or a PrometheusRule (prometheus)",
    )
    for setting in settings_of():
        parser.add_argument(
            flag_of(setting.name),
            dest=setting.name,
            type=_type_of(setting),
            metavar=_metavar_of(setting),
            help=f"{setting.why} ({written(setting)})".replace("%", "%%"),
        )


def run(args: argparse.Namespace) -> int:
    """Print the file."""
    from headway.monitoring import Form, rules_text

    print(rules_text(_settings(args), Form(args.form)), end="")
    return 0


def _settings(args: argparse.Namespace) -> "AlertSettings":
    from headway.monitoring import AlertSettings, settings_of

    names = [setting.name for setting in settings_of()]
    given = {name: getattr(args, name) for name in names if getattr(args, name) is not None}
    try:
        return AlertSettings(**given)
    except ValueError as error:
        raise UsageError(str(error), hint="see `headway monitoring rules --help`") from error


def flag_of(name: str) -> str:
    """`lag_ns_max` as `--lag-max`: the value says its unit itself."""
    words = [word for word in name.split("_") if word != "ns"]
    return "--" + "-".join(words)


def _type_of(setting: "Setting") -> Callable[[str], object]:
    if isinstance(setting.default, str):
        return str
    return duration_ns if _is_time(setting) else positive(float)


def _metavar_of(setting: "Setting") -> str:
    if isinstance(setting.default, str):
        return "TEXT"
    return "TIME" if _is_time(setting) else "X"


def written(setting: "Setting") -> str:
    """A default as it would be written on the command line; no text at all is `none`."""
    if isinstance(setting.default, str):
        return setting.default or "none"
    if not _is_time(setting):
        return f"{setting.default:.10g}"
    return next(
        f"{int(setting.default) // size_ns}{unit}"
        for unit, size_ns in _UNITS
        if setting.default % size_ns == 0
    )


def _is_time(setting: "Setting") -> bool:
    return setting.name.endswith(_NS) or f"{_NS}_" in setting.name
