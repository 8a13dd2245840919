"""The profile file: what was measured of models and of a machine, and on which machine.

One JSON object: `format`, `version`, `fingerprint`, `profiles`, `probed`, `calibration`. Knows the
file's form and whose it is. Refuses other hardware, other versions, and numbers that mean nothing,
each with what to do about it.
"""

import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from headway.core import BucketKey, DeviceName, ModelName
from headway.devices import (
    Calibration,
    Fingerprint,
    hardware_differences,
    software_differences,
)
from headway.errors import HeadwayError
from headway.predict import ModelProfile
from headway.profiling.measure import Measured
from headway.profiling.probes import Probe

__all__ = [
    "FORMAT",
    "VERSION",
    "Probed",
    "ProfileFile",
    "ReadProfiles",
    "merged",
    "read_profiles",
    "write_profiles",
]

FORMAT: Final = "headway-profile"
VERSION: Final = 1
_BYTES_MAX: Final = 64 << 20
"""A file larger than this is not one of ours: a profile takes a kilobyte."""


class Probed(Struct, frozen=True, kw_only=True):
    """What the probes of one profile saw; its pressures follow from them."""

    model: ModelName
    device: DeviceName
    bucket: BucketKey
    rows: int
    """Of the batches that ran."""
    probes: tuple[Probe, ...]


class ProfileFile(Struct, frozen=True, kw_only=True):
    """All of a file.

    Invariants: one profile for each model, device and bucket.
    """

    format: Literal["headway-profile"] = FORMAT
    version: Literal[1] = VERSION
    fingerprint: Fingerprint
    profiles: tuple[ModelProfile, ...] = ()
    probed: tuple[Probed, ...] = ()
    calibration: Calibration | None = None

    @classmethod
    def of(
        cls,
        here: Fingerprint,
        measured: Iterable[Measured] = (),
        calibration: Calibration | None = None,
    ) -> "ProfileFile":
        """What was measured just now, on this machine."""
        found = tuple(measured)
        return cls(
            fingerprint=here,
            profiles=tuple(one.profile for one in found),
            probed=tuple(_probed(one) for one in found if one.probes),
            calibration=calibration,
        )


class ReadProfiles(NamedTuple):
    """A file that may be used here."""

    file: ProfileFile
    doubts: tuple[str, ...]
    """What is different from then and may have moved times a little; or, where force was used, what
    should have kept the file from being used."""


def read_profiles(path: Path, here: Fingerprint, *, is_forced: bool = False) -> ReadProfiles:
    """Read a file that was made on this hardware.

    Args:
        path: the file.
        here: this machine's fingerprint.
        is_forced: take another machine's figures all the same.

    Raises:
        HeadwayError: it cannot be read, is no profile file or one of another version, holds
            numbers that mean nothing, or was made on other hardware.
    """
    file = _decoded(path)
    _check(path, file)
    differences = hardware_differences(file.fingerprint, here)
    if differences and not is_forced:
        raise HeadwayError(
            f"`{path}` was measured on other hardware: {'; '.join(differences)}",
            hint="measure again here with `headway profile` or `headway calibrate`; "
            "--force takes it all the same",
        )
    return ReadProfiles(file, (*differences, *software_differences(file.fingerprint, here)))


def write_profiles(path: Path, file: ProfileFile) -> None:
    """Write a file as a whole or not at all.

    Raises:
        HeadwayError: it cannot be written.
    """
    text = msgspec.json.format(msgspec.json.encode(file), indent=1)
    part = path.with_name(f"{path.name}.part")
    try:
        part.write_bytes(text + b"\n")
        part.replace(path)
    except OSError as error:
        raise HeadwayError(
            f"cannot write `{path}`: {error.strerror}", hint="choose another place with --output"
        ) from error


def merged(old: ProfileFile, new: ProfileFile) -> ProfileFile:
    """The old file with what the new one knows better, on the new one's fingerprint."""
    profiles = {_key(p): p for p in (*old.profiles, *new.profiles)}
    fresh = {_key(p) for p in new.profiles}
    # A profile that was measured anew without probes must not keep the old ones.
    probed = {_key(p): p for p in old.probed if _key(p) not in fresh}
    probed |= {_key(p): p for p in new.probed}
    return replace(
        new,
        profiles=tuple(profiles.values()),
        probed=tuple(probed.values()),
        calibration=new.calibration or old.calibration,
    )


def _key(of: ModelProfile | Probed) -> tuple[ModelName, DeviceName, BucketKey]:
    return of.model, of.device, of.bucket


def _probed(measured: Measured) -> Probed:
    profile = measured.profile
    return Probed(
        model=profile.model,
        device=profile.device,
        bucket=profile.bucket,
        rows=measured.probe_rows,
        probes=measured.probes,
    )


def _decoded(path: Path) -> ProfileFile:
    try:
        with path.open("rb") as stream:
            text = stream.read(_BYTES_MAX + 1)
    except OSError as error:
        raise HeadwayError(
            f"cannot read `{path}`: {error.strerror}", hint="`headway profile --output` makes one"
        ) from error
    if len(text) > _BYTES_MAX:
        raise HeadwayError(f"`{path}` is too large for a profile file", hint="is it the right one?")
    _check_head(path, text)
    try:
        return msgspec.json.decode(text, type=ProfileFile)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise _broken(path, str(error)) from error


class _Head(Struct):
    format: Any = None
    version: Any = None


def _check_head(path: Path, text: bytes) -> None:
    """Say what a foreign file is before complaining of what it lacks."""
    try:
        head = msgspec.json.decode(text, type=_Head)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise HeadwayError(
            f"`{path}` is not a profile file: {error}",
            hint="`headway profile --output` makes one",
        ) from error
    if head.format != FORMAT:
        raise HeadwayError(
            f"`{path}` is not a profile file: its format is `{head.format}`",
            hint="`headway profile --output` makes one",
        )
    if type(head.version) is not int or head.version != VERSION:
        raise HeadwayError(
            f"`{path}` has version `{head.version}`, and this headway reads version {VERSION}",
            hint="measure again, or use the headway that made it",
        )


def _check(path: Path, file: ProfileFile) -> None:
    seen = set()
    for profile in file.profiles:
        where = f"profile of `{profile.model}`"
        if _key(profile) in seen:
            raise _broken(path, f"the {where} is there twice")
        seen.add(_key(profile))
        rows = [solo.rows for solo in profile.solo]
        if rows != sorted(set(rows)) or any(count < 1 for count in rows):
            raise _broken(path, f"the {where} has batch sizes `{rows}`, which do not ascend from 1")
        if any(s.median_ns < 1 or s.p95_ns < s.median_ns or s.runs < 1 for s in profile.solo):
            raise _broken(path, f"the {where} has a time that is none, or a p95 below its median")
        pressures = profile.pressures
        if max(pressures.compute_demand, pressures.bandwidth_demand) > 1:
            raise _broken(path, f"the {where} takes more than all of a resource")
    for value in _numbers(msgspec.to_builtins((file.profiles, file.probed, file.calibration))):
        is_number = isinstance(value, int) or math.isfinite(value)
        if not is_number or value < 0:
            raise _broken(path, f"it holds the number `{value}`")


def _numbers(node: Any) -> Iterable[float]:
    if isinstance(node, dict):
        node = list(node.values())
    if isinstance(node, list | tuple):
        for inner in node:
            yield from _numbers(inner)
    elif isinstance(node, int | float):
        yield node


def _broken(path: Path, what: str) -> HeadwayError:
    return HeadwayError(
        f"`{path}` is a damaged profile file: {what}", hint="measure again and write it anew"
    )
