"""A world for each test, made once and given back: what tests of several files ask for."""

import _ctypes
import ctypes
import importlib.util
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.fake_mig.build import COMPILER, LIBRARY, World, build

needs_library = pytest.mark.skipif(
    COMPILER is None or importlib.util.find_spec("pynvml") is None,
    reason="needs a C compiler and nvidia-ml-py",
)


@pytest.fixture(scope="session")
def mig_library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with the stand-in library and the tools."""
    return build(tmp_path_factory.mktemp("mig"))


@pytest.fixture
def world(mig_library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    """A machine of its own, in which this process lives, too; daemons that are left are ended."""
    made = World(mig_library, tmp_path / "world")
    for key in ("FAKE_MIG", "PATH"):
        monkeypatch.setenv(key, made.environment()[key])
    with loaded(mig_library / LIBRARY):
        yield made
    for socket in tmp_path.rglob("pipe/control"):
        done = made.run(
            "sh",
            "-c",
            "echo quit | nvidia-cuda-mps-control",
            CUDA_MPS_PIPE_DIRECTORY=str(socket.parent),
        )
        assert done.returncode == 0, done.stderr


@contextmanager
def loaded(library: Path) -> Iterator[None]:
    """For the binding asks for the library by its name, and gets what is loaded under it."""
    import pynvml

    ours = ctypes.CDLL(str(library))
    try:
        yield
    finally:
        found, pynvml.nvmlLib = pynvml.nvmlLib, None
        pynvml._nvmlGetFunctionPointer_cache.clear()
        for one in (ours, found):
            if one is not None:
                _ctypes.dlclose(one._handle)
