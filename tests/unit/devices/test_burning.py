"""The process that burns a core, run inside the test's own: what it answers to its orders."""

import os
import signal

import pytest

from headway.devices import Burners, Load, LoadKind
from headway.devices.burner import _rate, _Reading
from headway.devices.burning import _Obedience, main
from headway.errors import HeadwayError


def answers(*orders: str) -> list[list[int]]:
    """Give orders one at a time, end the input, and read what was answered."""
    input_fd, order_fd = os.pipe()
    answer_fd, output_fd = os.pipe()
    obedience = _Obedience(input_fd, output_fd)
    for order in orders:
        os.write(order_fd, f"{order}\n".encode())
    os.close(order_fd)
    obedience.serve()
    os.close(output_fd)
    text = b""
    while data := os.read(answer_fd, 4096):
        text += data
    os.close(answer_fd)
    os.close(input_fd)
    return [[int(word) for word in line.split()] for line in text.splitlines()]


def test_every_order_has_one_answer() -> None:
    """Amount, instant and processor time; nothing is done before `go`."""
    found = answers("prepare copy 64 1.0", "rest", "rest")
    assert [len(line) for line in found] == [3, 3, 3]
    assert [line[0] for line in found] == [0, 0, 0]
    assert found[0][1] <= found[1][1] <= found[2][1]


def test_end_of_input_is_the_end() -> None:
    """Also while it works: a parent that dies takes it along."""
    assert len(answers("prepare copy 64 1.0", "go")) == 2


@pytest.mark.parametrize(
    ("load", "one_run"),
    [
        (Load(LoadKind.COMPUTE), 2 * 256**3),
        (Load(LoadKind.STREAM, 8 << 10), 3 * (8 << 10)),
        (Load(LoadKind.STREAM, (256 << 10) + 8), 3 * ((256 << 10) + 8)),
        (Load(LoadKind.COPY, 4096), 4096),
    ],
)
def test_work_is_counted_in_whole_runs(load: Load, one_run: int) -> None:
    """A chunk of work is some runs, each of a known amount."""
    input_fd, order_fd = os.pipe()
    obedience = _Obedience(input_fd, os.open(os.devnull, os.O_WRONLY))
    obedience._obey(["prepare", str(load.kind), str(load.size_bytes), "1.0"])
    obedience._obey(["go"])
    obedience._work()
    assert obedience._amount > 0
    assert obedience._amount % one_run == 0
    for fd in (input_fd, order_fd, obedience._output_fd):
        os.close(fd)


def test_rates_are_of_the_clock_and_of_the_core() -> None:
    """600 units in 2 s, of which it had the core for 0.5 s."""
    rate = _rate(_Reading(100, 0, 0), _Reading(700, 2_000_000_000, 500_000_000))
    assert rate == (300.0, 1200.0, 0.25)
    assert _rate(_Reading(1, 5, 5), _Reading(1, 5, 5)) == (0.0, 0.0, 0.0)


def test_burner_pins_itself_and_gives_way(monkeypatch: pytest.MonkeyPatch) -> None:
    """It runs on its core, in the idle class where asked to, and leaves interruptions alone."""
    called: list[tuple[object, ...]] = []
    monkeypatch.setattr(os, "sched_setaffinity", lambda *a: called.append(a))
    monkeypatch.setattr(os, "sched_setscheduler", lambda *a: called.append(a[:2]))
    monkeypatch.setattr(signal, "signal", lambda *a: called.append(a))
    monkeypatch.setattr(_Obedience, "serve", lambda self: called.append(("serve",)))
    monkeypatch.setattr("sys.stdin", type("In", (), {"fileno": lambda self: 0})())
    monkeypatch.setattr("sys.stdout", type("Out", (), {"fileno": lambda self: 1})())
    main(3, is_idle=True)
    assert called == [
        (signal.SIGINT, signal.SIG_IGN),
        (0, {3}),
        (0, os.SCHED_IDLE),
        ("serve",),
    ]


def test_nobody_to_burn_is_no_error() -> None:
    """A group of none does nothing at no rate."""
    with Burners(()) as burners:
        burners.prepare(Load(LoadKind.COMPUTE))
        burners.go()
        assert burners.rest() == []


@pytest.mark.usefixtures("no_leaks")
def test_burner_that_cannot_start_its_load_says_so() -> None:
    """A core that does not exist ends the process, and its end is an error."""
    with (
        pytest.raises(HeadwayError, match="on core `70000` ended with code `1`"),
        Burners((70_000,)) as burners,
    ):
        burners.prepare(Load(LoadKind.COMPUTE))
