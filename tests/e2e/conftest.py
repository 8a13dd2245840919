"""What the tests of the whole server share: a folder to steer a model by, threads for clients."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from tests.e2e.puppet import Folder


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    """A folder for one puppet."""
    return Folder(tmp_path / "puppet")


@pytest.fixture
def clients() -> Iterator[ThreadPoolExecutor]:
    """Threads that send requests. The server ends before them, so that none waits for ever."""
    with ThreadPoolExecutor(64) as threads:
        yield threads
