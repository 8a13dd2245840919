"""What every test shares: the Hypothesis profiles and the watch for leaks.

Knows pytest and this process. Refuses to know headway: builders and fakes live in
`headway.testing`, where users find them too.
"""

import gc
import multiprocessing.resource_tracker
import os
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import HealthCheck, settings

# The same examples on every machine; `--hypothesis-profile=explore` looks for new ones. How long
# it takes to draw them says something about the machine, not about headway.
settings.register_profile(
    "ci",
    derandomize=True,
    deadline=None,
    database=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile("explore", deadline=None, max_examples=1_000, print_blob=True)
settings.load_profile("ci")

TESTS = Path(__file__).parent
WATCHED_FOLDERS = {"e2e", "parity"}
SETTLE_S = 10.0
"""How long what is already ending may take to be gone."""


class Holdings(NamedTuple):
    """What a process holds and must give back: what tells one from another -> how it is called."""

    children: Mapping[str, str]
    files: Mapping[str, str]
    threads: Mapping[str, str]

    def beyond(self, before: "Holdings") -> list[str]:
        """Say what is held now and was not before, one line for each kind."""
        lines = []
        for kind, then, now in zip(self._fields, before, self, strict=True):
            if new := [now[key] for key in now if key not in then]:
                lines.append(f"{kind}: {', '.join(new)}")
        return lines


@pytest.fixture
def no_leaks() -> Iterator[None]:
    """Fail a test that leaves a child process, an open file or a thread behind.

    Ask for it with `@pytest.mark.usefixtures("no_leaks")`; in `e2e` and `parity` it is always on.
    """
    # Shared memory starts this helper process once and keeps it; it is nobody's leak.
    multiprocessing.resource_tracker.ensure_running()
    before = _holdings()
    yield
    give_up_at_s = time.monotonic() + SETTLE_S
    while leaked := _holdings().beyond(before):
        if time.monotonic() > give_up_at_s:
            pytest.fail("the test left behind " + "; ".join(leaked))
        gc.collect()
        time.sleep(0.02)


@pytest.fixture(autouse=True)
def _watch_for_leaks(request: pytest.FixtureRequest) -> None:
    folder = request.path.relative_to(TESTS).parts[0] if request.path.is_relative_to(TESTS) else ""
    if folder in WATCHED_FOLDERS:
        request.getfixturevalue("no_leaks")


def _holdings() -> Holdings:
    return Holdings(_children(), _open_files(), _threads())


def _children() -> Mapping[str, str]:
    """By process id; empty where there is no /proc."""
    ids: set[str] = set()
    for listing in Path("/proc/self/task").glob("*/children"):
        try:
            ids.update(listing.read_text().split())
        except OSError:  # the thread ended while we looked
            continue
    return {pid: f"{pid} {_program(pid)}" for pid in sorted(ids)}


def _program(pid: str) -> str:
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        words = []
    return b" ".join(words[:4]).decode(errors="replace").strip() or "(ended, nobody waited for it)"


def _open_files() -> Mapping[str, str]:
    """By descriptor and target; devices such as /dev/null, opened once for good, are left out."""
    found: dict[str, str] = {}
    try:
        descriptors = os.listdir("/proc/self/fd")  # noqa: PTH208 (a Path would cost a stat each)
    except OSError:
        return found
    for descriptor in descriptors:
        try:
            target = os.readlink(f"/proc/self/fd/{descriptor}")  # noqa: PTH115 (as above)
        except OSError:  # the descriptor of the listing itself
            continue
        if not target.startswith("/dev/"):
            text = f"{descriptor} -> {target}"
            found[text] = text
    return found


def _threads() -> Mapping[str, str]:
    return {str(thread.ident): thread.name for thread in threading.enumerate()}
