"""From flags, environment and file to one configuration that knows where each value came from.

Order: flag, `HEADWAY_…` variable, file, default; the first that says something wins. Knows layers.
Refuses to decide what is valid: that is the schema's.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

from pydantic import ValidationError

from headway.config.checks import Keys, dotted
from headway.config.document import Document, parse_scalar, read_document
from headway.config.environment import environment, setting_variables
from headway.config.outline import config_outline
from headway.config.problems import config_error
from headway.config.schema import Backend, Config
from headway.config.tenancy import TenancyConfig
from headway.config.words import is_class_path
from headway.errors import ConfigError

__all__ = [
    "ConfigRow",
    "LoadedConfig",
    "Source",
    "SourceKind",
    "config_for_model_file",
    "config_rows",
    "load_config",
    "load_target",
    "with_model",
]

_SQLITE: Final = "sqlite:///"

Flags = Mapping[str, object]
"""Dotted path of a setting -> what a flag said; None for a flag that was not given. The flag is
taken to be called after the last word of the path."""


class SourceKind(StrEnum):
    """Who may say something, in order of precedence."""

    FLAG = "flag"
    ENVIRONMENT = "environment"
    FILE = "file"
    DEFAULT = "default"


@dataclass(frozen=True, slots=True)
class Source:
    """Where a value came from; `place` is `--port`, `HEADWAY_SERVER__PORT` or `serve.yaml:3`."""

    kind: SourceKind
    place: str = ""

    def __str__(self) -> str:
        """The place, or that it is the default."""
        return self.place or str(self.kind)


@dataclass(frozen=True, slots=True)
class LoadedConfig:
    """A configuration, and the origin of each of its values by dotted path."""

    config: Config
    sources: Mapping[str, Source]
    path: Path | None = None
    """The file, if there was one."""


@dataclass(frozen=True, slots=True)
class ConfigRow:
    """One value of a configuration, as `headway config show` prints it."""

    path: str
    value: object
    source: Source


def load_config(
    path: Path | None,
    *,
    flags: Flags | None = None,
    environ: Mapping[str, str] | None = None,
) -> LoadedConfig:
    """Read a configuration file, or none, and lay the environment and the flags over it.

    Args:
        path: the file.
        flags: dotted path -> value, or None where the flag was not given.
        environ: instead of the process's environment.

    Raises:
        ConfigError: with file and line, dotted path, value and how to mend it; further problems
            are its notes.
    """
    document = Document({}, {}) if path is None else read_document(path)
    layers = _Layers(document, str(path or ""), path.parent if path else Path())
    return layers.finished(flags, environ, path)


def config_for_model_file(
    target: str,
    *,
    flags: Flags | None = None,
    environ: Mapping[str, str] | None = None,
) -> LoadedConfig:
    """The configuration of a server for one model file or `file.py:Class`, on all cores.

    Raises:
        ConfigError: nothing can run the file, or the environment or a flag is wrong.
    """
    place = target.rpartition(":")[0] if is_class_path(target) else target
    is_file = place.endswith((".onnx", ".py"))
    stem = Path(place).stem if is_file else place.rpartition(".")[2]
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", stem).strip("-._") or "model"
    model = {"name": name, "path": target, "batch": {"rows_max": 8}}
    layers = _Layers(Document({"models": [model]}, {}), target, Path())
    return layers.finished(flags, environ, None)


def load_target(
    target: str,
    *,
    flags: Flags | None = None,
    environ: Mapping[str, str] | None = None,
) -> LoadedConfig:
    """Take what `headway serve` is given: a configuration file, or a model to serve as it is."""
    if Path(target).suffix in {".yaml", ".yml"}:
        return load_config(Path(target), flags=flags, environ=environ)
    if Path(target).suffix == ".onnx" or is_class_path(target):
        return config_for_model_file(target, flags=flags, environ=environ)
    message = f"`{target}` is neither a configuration nor a model"
    hint = "give a `.yaml` file, an `.onnx` file, or `file.py:Class`"
    raise ConfigError(message, value=target, hint=hint)


def with_model(config: Config, name: str, overrides: Mapping[str, object]) -> Config:
    """The configuration with some settings of one model replaced, or with one model more.

    Raises:
        ConfigError: the result would not be valid.
    """
    data = config.model_dump(mode="json")
    # What nobody set must not look set now: some settings ask for something by being there.
    models = data["models"] = config.model_dump(mode="json", exclude_unset=True).get("models", [])
    index = next((i for i, model in enumerate(models) if model["name"] == name), len(models))
    if index == len(models):
        models.append({"name": name})
    changed = {**models[index], **overrides, "name": name}
    if "path" in overrides and "backend" not in overrides:
        changed["backend"] = Backend.AUTO.value
    models[index] = changed
    _guess_backends(data)
    return _validated(data, lambda _: "")


def config_rows(loaded: LoadedConfig) -> list[ConfigRow]:
    """Every value on its own line, lists of plain values as one."""
    dump = loaded.config.model_dump(mode="json")
    return [
        ConfigRow(dotted(keys), value, loaded.sources[dotted(keys)])
        for keys, value in _leaves(dump, ())
    ]


class _Layers:
    """Raw settings that later layers are laid over, with the place that each came from."""

    def __init__(self, document: Document, name: str, folder: Path) -> None:
        self.data = document.data
        kind = SourceKind.FILE
        self.places: dict[Keys, Source] = {(): Source(kind, name)}
        for keys, line in document.lines.items():
            self.places[keys] = Source(kind, f"{name}:{line}")
        self._folder = folder

    def finished(
        self, flags: Flags | None, environ: Mapping[str, str] | None, path: Path | None
    ) -> LoadedConfig:
        """Lay environment and flags on top, resolve paths, validate, and say where from."""
        values = environment() if environ is None else environ
        for name, words in setting_variables(
            values, frozenset(config_outline().keys_at(()))
        ).items():
            source = Source(SourceKind.ENVIRONMENT, name)
            self._set(self._keys_of(words, source), parse_scalar(values[name]), source)
        for where, value in (flags or {}).items():
            if value is not None:
                keys: Keys = tuple(where.split("."))
                flag = "--" + str(keys[-1]).replace("_", "-")
                self._set(keys, value, Source(SourceKind.FLAG, flag))
        self._resolve_paths()
        self._resolve_ledger()
        _guess_backends(self.data)
        config = _validated(self.data, self._place_of)
        dump = config.model_dump(mode="json")
        sources = {dotted(keys): self._source_of(keys) for keys, _ in _leaves(dump, ())}
        return LoadedConfig(config, sources, path)

    def _keys_of(self, words: list[str], source: Source) -> Keys:
        """Find the setting that a variable means: any case, and _ for - and . too.

        Raises:
            ConfigError: there is no such setting.
        """
        keys: Keys = ()
        node: Any = self.data
        for word in words:
            key: str | int
            is_list = any(
                choice.get("type") == "array" for choice in config_outline().nodes_at(keys)
            )
            if keys == ("devices",) and node is None:
                node = self.data["devices"] = [{}]  # the default: one device, all of it default
            if is_list or isinstance(node, list):
                key = _index(word, node, keys, source)
                node = node[key]
            else:
                present = node if isinstance(node, dict) else {}
                choices = [*present, *config_outline().keys_at(keys)]
                key = next((c for c in choices if _folded(c) == _folded(word)), word.lower())
                node = present.get(key)
            keys = (*keys, key)
        return keys

    def _set(self, keys: Keys, value: object, source: Source) -> None:
        """Replace what stands at a place, and forget where its parts came from."""
        if keys in {("policy",), ("predictor",)} and isinstance(value, str):
            value = {"kind": value}
        node: Any = self.data
        for key in keys[:-1]:
            inner = node.get(key) if isinstance(node, dict) else node[key]
            if not isinstance(inner, dict | list):
                inner = node[key] = {}
            node = inner
        node[keys[-1]] = value
        for place in [place for place in self.places if place[: len(keys)] == keys]:
            del self.places[place]
        self.places[keys] = source

    def _resolve_paths(self) -> None:
        """Paths of the file start at its folder, all others where the command was run."""
        for keys, node in _path_spots(self.data):
            path = node.get(keys[-1]) if isinstance(node, dict) else node[int(keys[-1])]
            if isinstance(path, str) and path:
                is_of_file = self._written_at(keys).kind is SourceKind.FILE
                node[keys[-1]] = _anchored(path, self._folder if is_of_file else Path())

    def _resolve_ledger(self) -> None:
        """A database that is a file is one of the configuration's folder, too."""
        tenancy = self.data.get("tenancy")
        if not isinstance(tenancy, dict):
            return
        default = TenancyConfig.model_fields["ledger"].default
        url = tenancy.get("ledger", default)
        if not isinstance(url, str):
            return  # null keeps none, and what else it is the schema says
        name = url.removeprefix(_SQLITE)
        if name not in {"", ":memory:", url} and not name.startswith("/"):
            tenancy["ledger"] = _SQLITE + _anchored(name, self._folder)

    def _source_of(self, keys: Keys) -> Source:
        """The origin of a value of the finished configuration."""
        node: Any = self.data
        for key in keys:
            is_written = key in node if isinstance(node, dict) else isinstance(node, list)
            if not is_written:
                return Source(SourceKind.DEFAULT)
            node = node[key]
        return self._written_at(keys)

    def _written_at(self, keys: Keys) -> Source:
        """The nearest place around a setting that somebody wrote."""
        for length in range(len(keys), 0, -1):
            if keys[:length] in self.places:
                return self.places[keys[:length]]
        return self.places[()]

    def _place_of(self, keys: Keys) -> str:
        """Where to look for a problem: a variable or flag may have named a whole wrong section."""
        if keys not in self.places:
            for place, source in self.places.items():
                if place[: len(keys)] == keys and source.kind is not SourceKind.FILE:
                    return source.place
        return self._written_at(keys).place


def _validated(data: dict[str, Any], place_of: Callable[[Keys], str]) -> Config:
    try:
        return Config.model_validate(data)
    except ValidationError as error:
        raise config_error(error, data, place_of) from None


def _path_spots(data: Mapping[str, Any]) -> Iterator[tuple[Keys, Any]]:
    """Where a path may stand, with the mapping or list around it."""
    models, predictor = data.get("models"), data.get("predictor")
    around: list[tuple[Keys, Any]] = [(("journal", "path"), data.get("journal"))]
    tls = _section(data.get("server"), "tls")
    around += [(("server", "tls", name), tls) for name in ("certificate", "key", "client_ca")]
    if isinstance(models, list):
        around += [(("models", i, "path"), model) for i, model in enumerate(models)]
        around += _function_spots(models)
    generators = data.get("generators")
    if isinstance(generators, list):
        around += [(("generators", i, "path"), each) for i, each in enumerate(generators)]
    if isinstance(predictor, dict):
        around.append((("predictor", "state"), predictor))
        profiles = predictor.get("profiles")
        if isinstance(profiles, list):
            yield from ((("predictor", "profiles", i), profiles) for i in range(len(profiles)))
    yield from ((keys, node) for keys, node in around if isinstance(node, dict))


def _section(data: Any, name: str) -> Any:
    return data.get(name) if isinstance(data, dict) else None


def _function_spots(models: list[Any]) -> Iterator[tuple[Keys, Any]]:
    """Where pipelines may name functions."""
    for index, model in enumerate(models):
        steps = _section(_section(model, "pipeline"), "steps")
        if isinstance(steps, list):
            at: Keys = ("models", index, "pipeline", "steps")
            yield from (((*at, i, "function"), step) for i, step in enumerate(steps))


def _guess_backends(data: Mapping[str, Any]) -> None:
    """Write down the back end that device or path shows; leave what they do not show to checks."""
    models = data.get("models")
    is_emulated = _is_emulated(data.get("devices"))
    for model in models if isinstance(models, list) else ():
        if not isinstance(model, dict) or "pipeline" in model:
            continue
        if model.get("backend", Backend.AUTO.value) == Backend.AUTO.value:
            if is_emulated:
                model["backend"] = Backend.EMULATED.value
            elif not isinstance(model.get("path"), str):
                continue
            elif model["path"].endswith(".onnx"):
                model["backend"] = Backend.ONNX.value
            elif is_class_path(model["path"]):
                model["backend"] = Backend.PYTHON.value


def _is_emulated(devices: Any) -> bool:
    """Whether the devices of a file are emulated: all are what the first is."""
    first = devices[0] if isinstance(devices, list) and devices else None
    return isinstance(first, dict) and first.get("kind") == "emulated"


def _anchored(path: str, folder: Path) -> str:
    """An absolute path; a module stays as it is, and so does what no file could be called."""
    place, name = (path.rpartition(":")[0], ":" + path.rpartition(":")[2])
    if not is_class_path(path):
        place, name = path, ""
    elif not place.endswith(".py"):
        return path
    return str((folder / Path(place).expanduser()).absolute()) + name


def _index(word: str, entries: Any, keys: Keys, source: Source) -> int:
    """The entry of a list that a variable means.

    Raises:
        ConfigError: the list has no such entry.
    """
    count = len(entries) if isinstance(entries, list) else 0
    if word.isdigit() and int(word) < count:
        return int(word)
    raise ConfigError(
        f"{source}: `{word}` is not one of the {count} entries of {dotted(keys)}",
        path=dotted(keys),
        value=word,
        hint="count entries from 0; a new one must be written in the file",
    )


def _folded(word: object) -> str:
    return re.sub(r"[-.]", "_", str(word)).lower()


def _leaves(node: Any, keys: Keys) -> Iterator[tuple[Keys, Any]]:
    if isinstance(node, dict) and node:
        for key, value in node.items():
            yield from _leaves(value, (*keys, key))
    elif isinstance(node, list) and any(isinstance(value, dict) for value in node):
        for index, value in enumerate(node):
            yield from _leaves(value, (*keys, index))
    else:
        yield keys, node
