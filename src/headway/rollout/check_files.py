"""A file of any format that a plan is written in: what it is, and what is wrong with it.

Knows which check is for which file. Every one works offline.
"""

import tomllib
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from headway.errors import HeadwayError
from headway.rollout.check_crds import Definitions
from headway.rollout.check_kubernetes import object_faults
from headway.rollout.check_scripts import environment_faults, script_faults
from headway.rollout.check_shapes import Fault, shape_faults
from headway.rollout.check_values import device_plugin_faults, mig_parted_faults
from headway.rollout.emit_mig_parted import OPERATOR_FUNCTIONS
from headway.rollout.emit_mps import MPS_FUNCTIONS
from headway.rollout.emit_nvidia_smi import MIG_FUNCTIONS
from headway.rollout.yaml_text import from_yaml

__all__ = ["Checked", "check_file"]

_KNOWN: Final = (
    "it is no configuration of mig-parted, of the device plugin or of a server, no Kubernetes "
    "object and no playbook"
)


class Checked(NamedTuple):
    """What was found in a file."""

    subjects: tuple[str, ...]
    """What is in it, one word or two each."""
    faults: tuple[Fault, ...]


def check_file(name: str, text: str, definitions: Definitions) -> Checked:
    """Check a file by what it is called and what is in it.

    Raises:
        HeadwayError: a library that is needed for it is not installed.
    """
    match name.rpartition(".")[2]:
        case "sh":
            known = (MIG_FUNCTIONS, MPS_FUNCTIONS, OPERATOR_FUNCTIONS)
            faults = script_faults(text, functions=known)
            return Checked(("script",), tuple(faults))
        case "env":
            return Checked(("MPS client",), tuple(environment_faults(text)))
        case "toml":
            return _check_toml(text)
        case "yaml" | "yml" | "json":
            return _check_yaml(text, definitions)
        case suffix:
            return Checked((), (Fault("", f"files that end in `.{suffix}` are not known"),))


def _check_toml(text: str) -> Checked:
    try:
        value = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        return Checked(("MPS",), (Fault("", f"this is not TOML: {error}"),))
    return Checked(("MPS",), tuple(shape_faults("mps", value)))


def _check_yaml(text: str, definitions: Definitions) -> Checked:
    try:
        documents = from_yaml(text)
    except HeadwayError as error:
        return Checked((), (Fault("", error.message),))
    subjects: list[str] = []
    faults: list[Fault] = [] if documents else [Fault("", "it is empty")]
    for index, document in enumerate(documents):
        subject, found = _check_document(document, definitions)
        subjects.append(subject)
        where = subject if len(documents) > 1 else ""
        faults += [fault._replace(place=f"{where} {fault.place}".strip()) for fault in found]
        faults += _repeated(document, documents[:index])
    return Checked(tuple(subjects), tuple(faults))


def _check_document(document: Any, definitions: Definitions) -> tuple[str, list[Fault]]:
    if isinstance(document, list):
        return "playbook", shape_faults("ansible-playbook", document)
    if not isinstance(document, Mapping):
        return "document", [Fault("", _KNOWN)]
    if "apiVersion" in document and "kind" in document:
        return _identity(document), object_faults(document, definitions)
    if "mig-configs" in document:
        return "mig-parted", mig_parted_faults(document)
    if "models" in document:
        return "server", shape_faults("serve-part", document)
    if "sharing" in document or "flags" in document:
        return "device plugin", device_plugin_faults(document)
    return "document", [Fault("", _KNOWN)]


def _identity(document: Mapping[str, Any]) -> str:
    metadata = document.get("metadata")
    name = metadata.get("name", "") if isinstance(metadata, Mapping) else ""
    return f"{document['kind']} {name}".strip()


def _repeated(document: Any, before: Sequence[Any]) -> list[Fault]:
    """An object that stands there twice: the second would undo the first."""
    own = _key(document)
    if own is None or own not in map(_key, before):
        return []
    return [Fault(_identity(document), "stands there twice")]


def _key(document: Any) -> str | None:
    """What tells Kubernetes' objects apart; as text, for any part of it may be anything."""
    if not isinstance(document, Mapping) or "kind" not in document:
        return None
    metadata = document.get("metadata")
    if not isinstance(metadata, Mapping):
        return None
    parts = (document.get("apiVersion"), document["kind"])
    return repr((*parts, metadata.get("namespace"), metadata.get("name")))
