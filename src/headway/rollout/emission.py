"""What an emitter makes of a plan: files, and what their format cannot say.

Plain values. A format that cannot hold a part of a plan says so in a note; it never leaves it out
in silence.
"""

import hashlib
import re
from typing import Final, NamedTuple

from msgspec import Struct

__all__ = ["Emission", "EmitOptions", "EmittedFile", "dns_name", "header"]

_NAME_MAX: Final = 50
"""Of 63 that Kubernetes takes, for others append to it."""
_DIGEST: Final = 6


class EmitOptions(Struct, frozen=True, kw_only=True):
    """What files need and a plan does not say."""

    name: str = "headway"
    """Of what exists once: configurations, queues, runtimes."""
    namespace: str = "headway"
    """Of servers and of what is beside them."""
    operator_namespace: str = "gpu-operator"
    image: str = "headway:latest"
    """That servers are started from; its entry point is `headway`."""
    models_uri: str = "pvc://models"
    """Below it a folder a server, with its configuration `serve.yaml` and what that names."""
    prometheus_url: str = "http://prometheus.monitoring:9090"
    state_folder: str = "/run/headway"
    """On each node, for the sockets and logs of MPS."""


class EmittedFile(NamedTuple):
    """One file, not yet written."""

    name: str
    text: str
    is_executable: bool = False


class Emission(NamedTuple):
    """All that a format has to say of a plan."""

    files: tuple[EmittedFile, ...]
    notes: tuple[str, ...] = ()
    """What the format cannot say, or takes for granted."""


def dns_name(text: str) -> str:
    """A name that Kubernetes takes; different texts keep different names."""
    name = re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")
    if name == text and len(name) <= _NAME_MAX and name[:1].isalpha():
        return name
    digest = hashlib.sha256(text.encode()).hexdigest()[:_DIGEST]
    stem = name[: _NAME_MAX - _DIGEST - 1].strip("-")
    return f"x-{stem}-{digest}" if not stem[:1].isalpha() else f"{stem}-{digest}"


def header(subject: str, notes: tuple[str, ...] = ()) -> list[str]:
    """Comments at the top of a file: where it is from, and what it does not say."""
    return [f"Written by `headway plan emit`: {subject}.", *(f"note: {note}" for note in notes)]
