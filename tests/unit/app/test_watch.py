"""Files that are read again when they change."""

import asyncio
import logging

import pytest

from headway.app.watch import FileWatch, Watched
from headway.errors import ConfigError


def a_watch(*paths):
    """A watch, and how often what it watches was read and used."""
    done = []

    def read():
        done.append("read")
        return lambda: done.append("used")

    return FileWatch([Watched(paths, read)]), done


def look(watch, times=1):
    """Have it look, in a loop."""

    async def run():
        for _ in range(times):
            await watch.look()

    asyncio.run(run())


def test_file_is_read_again_when_it_changes_and_only_then(tmp_path):
    """One look, one change, one reading."""
    path = tmp_path / "key.pem"
    path.write_text("a")
    watch, done = a_watch(path)
    look(watch)
    assert done == []
    path.write_text("bb")
    look(watch, 2)
    assert done == ["read", "used"]


def test_file_that_is_replaced_through_a_link_is_read_again(tmp_path):
    """As Kubernetes replaces secrets: the link's name stays, what it leads to is another."""
    for name in ("old", "new"):
        (tmp_path / name).write_text("same")
    link = tmp_path / "key.pem"
    link.symlink_to(tmp_path / "old")
    watch, done = a_watch(link)
    link.unlink()
    link.symlink_to(tmp_path / "new")
    look(watch)
    assert done == ["read", "used"]


def test_file_that_goes_and_comes_is_read_again(tmp_path):
    """Between the two there is nothing to read; what was read before is used."""
    path = tmp_path / "key.pem"
    path.write_text("a")
    watch, done = a_watch(path)
    path.unlink()
    look(watch)
    path.write_text("a")
    look(watch)
    assert done == ["read", "used"] * 2


@pytest.mark.parametrize("error", [ConfigError("no key", path="server.tls.key"), TypeError("bug")])
def test_what_cannot_be_used_is_complained_of_once_and_ends_nothing(tmp_path, caplog, error):
    """What was read before stays; the others are read, and so is this when it changes again."""
    broken, sound = tmp_path / "broken", tmp_path / "sound"
    for path in (broken, sound):
        path.write_text("a")
    used = []

    def refuse():
        raise error

    watched = [Watched([broken], refuse), Watched([sound], lambda: lambda: used.append(1))]
    watch = FileWatch(watched)
    for path in (broken, sound):
        path.write_text("bb")
    with caplog.at_level(logging.ERROR):
        look(watch, 2)
    assert len(caplog.records) == 1
    assert "is not used" in caplog.text
    assert used == [1]
