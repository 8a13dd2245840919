"""The MPS daemon: started for one device, told its limits, asked for its clients, stopped."""

from pathlib import Path

import pytest
from tests.fake_mig.build import World
from tests.fake_mig.fixtures import mig_library, needs_library, world

from headway.devices import MpsControl
from headway.errors import HeadwayError

__all__ = ["mig_library", "world"]  # fixtures, which pytest finds by name

pytestmark = needs_library

LIMIT = "set_default_active_thread_percentage 60"


@pytest.fixture
def control(world: World, tmp_path: Path) -> MpsControl:
    """One that does not run yet."""
    return MpsControl(tmp_path / "pipe", tmp_path / "log")


def test_daemon_runs_from_start_to_stop(control: MpsControl, tmp_path: Path) -> None:
    """For the one device that it was started for, with what it was told."""
    assert not control.is_running()
    control.start("1", [LIMIT])
    assert control.is_running()
    assert (tmp_path / "pipe" / "told").read_text() == f"1: {LIMIT}\n"
    control.stop()
    assert not control.is_running()


def test_servers_and_their_clients_are_told(control: MpsControl, tmp_path: Path) -> None:
    """A server for each user, and whoever is connected to any of them."""
    control.start("0", [])
    assert (control.servers(), control.clients()) == ((), ())
    (tmp_path / "pipe" / "servers").write_text("999998 11 12\n999999 13\n")
    assert control.servers() == (999998, 999999)
    assert control.clients() == (11, 12, 13)
    control.stop()


def test_daemon_that_refuses_a_command_is_stopped_again(control: MpsControl) -> None:
    """Half of the limits are not what was asked for."""
    with pytest.raises(HeadwayError, match="MPS refused `set_default_active_thread_percentage 0`"):
        control.start("0", [LIMIT, "set_default_active_thread_percentage 0"])
    assert not control.is_running()


def test_second_daemon_in_one_folder_is_refused(control: MpsControl, tmp_path: Path) -> None:
    """With its own words, and where its logs are."""
    control.start("0", [])
    with pytest.raises(HeadwayError, match="already running") as caught:
        control.start("0", [])
    assert str(tmp_path / "log") in str(caught.value.hint)
    control.stop()


def test_daemon_that_is_not_there_cannot_be_told_anything(control: MpsControl) -> None:
    """Neither a command nor to stop."""
    with pytest.raises(HeadwayError, match="Cannot find MPS control daemon"):
        control.tell("get_server_list")
    with pytest.raises(HeadwayError, match="Cannot find MPS control daemon"):
        control.stop()


def test_machine_without_the_program_says_where_it_comes_from(
    control: MpsControl, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """It is a part of the driver."""
    (tmp_path / "pipe").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path))
    assert not control.is_running()
    with pytest.raises(HeadwayError) as caught:
        control.tell("quit")
    assert caught.value.hint == "it comes with the NVIDIA driver"
