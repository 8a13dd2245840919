"""`headway doctor`: recorded evidence in, findings out, and the exit code that fits them."""

import json
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
from tests.recorded_run import record_run
from tests.unit.doctor.charts import MIB, a_process, of_devices
from tests.unit.doctor.test_nvidia_smi import GPU_HEAD, write

from headway.cli import EXIT_FAILED, EXIT_MISSED, EXIT_OK, EXIT_USAGE, main
from headway.cli.doctor_watch import _panels
from headway.doctor import CHECKS


@pytest.fixture
def journal(tmp_path, capsys):
    """A simulated run at more than its slots can do, with a loss."""
    path = record_run(tmp_path / "run.journal")
    capsys.readouterr()
    return path


def told(capsys) -> dict:
    return json.loads(capsys.readouterr().out)


def test_journal_is_diagnosed_as_data(journal, capsys) -> None:
    """Every check is somewhere: found, healthy, or not told with a reason."""
    assert main(["doctor", "--journal", str(journal), "--format", "json"]) == EXIT_OK
    diagnosis = told(capsys)
    found = {finding["code"] for finding in diagnosis["findings"]}
    assert found | set(diagnosis["healthy"]) | set(diagnosis["unknown"]) == {
        check.code for check in CHECKS
    }
    (loss,) = [f for f in diagnosis["findings"] if f["code"] == "crash_loop"]
    assert (loss["severity"], loss["subject"]) == ("warning", "ocr")
    assert {"name": "losses", "value": 1, "unit": ""} in loss["evidence"]
    assert diagnosis["unknown"]["memory_leak"] == "no processes"


def test_journal_is_diagnosed_in_words(journal, capsys) -> None:
    """The finding, what it rests on, and what to do; then what was fine and what was not told."""
    assert main(["doctor", "--journal", str(journal)]) == EXIT_OK
    captured = capsys.readouterr()
    assert "WARNING crash_loop: a worker died - ocr (100 % sure)" in captured.out
    assert "  losses: 1" in captured.out
    assert "  to do: the server's log" in captured.out
    assert "docs/reference/findings.md" in captured.err


def test_serious_finding_has_an_exit_code_of_its_own(tmp_path, capsys) -> None:
    """A device whose memory grows, by a CSV alone."""
    lines = [
        f"2026/11/30 12:00:{i:02}.000, 0, 90 %, {1000 + 20 * i} MiB, 81920 MiB, 4, 4, 16, 16, 0x0"
        for i in range(50)
    ]
    path = write(tmp_path / "smi.csv", GPU_HEAD, *lines)
    assert main(["doctor", "--smi", str(path), "--format", "json"]) == EXIT_MISSED
    assert [finding["code"] for finding in told(capsys)["findings"]] == ["device_memory_leak"]


def test_process_is_watched(tmp_path, capsys) -> None:
    """This very process, for a moment, and as a picture."""
    pytest.importorskip("matplotlib", reason="draws plots")
    words = ["--pid", str(os.getpid()), "--format", "json"]
    assert main(["doctor", *words, "--seconds", "0.01"]) == EXIT_OK
    assert "are needed" in told(capsys)["unknown"]["memory_leak"]
    plot = tmp_path / "watch.png"
    watched = [*words, "--minutes", "0.0005", "--every", "5ms", "--plot", str(plot)]
    assert main(["doctor", "watch", *watched]) == EXIT_OK
    captured = capsys.readouterr()
    assert "MiB in" in captured.err
    assert plot.read_bytes().startswith(b"\x89PNG")


def test_bad_wishes_are_refused(tmp_path, capsys) -> None:
    """Nothing to look at, nobody there, no such file, no such device."""
    assert main(["doctor"]) == EXIT_USAGE
    assert "--journal" in capsys.readouterr().err
    assert main(["doctor", "watch"]) == EXIT_USAGE
    assert main(["doctor", "--journal", str(tmp_path / "none")]) == EXIT_USAGE
    assert main(["doctor", "--trace", str(tmp_path / "none")]) == EXIT_USAGE
    assert main(["doctor", "--device", "cuda:99"]) == EXIT_FAILED
    assert "no accelerator `cuda:99`" in capsys.readouterr().err
    assert main(["doctor", "--url", "http://127.0.0.1:1", "--seconds", "0.1"]) == EXIT_FAILED
    assert "does not answer" in capsys.readouterr().err
    key = ["--key-file", str(tmp_path / "none")]
    assert main(["doctor", "--url", "http://127.0.0.1:1", *key]) == EXIT_USAGE


@contextmanager
def failing_after(answers: int) -> Iterator[str]:
    """A server whose metrics can be had so many times."""

    class Answer(BaseHTTPRequestHandler):
        left = answers

        def do_GET(self) -> None:
            body = b"headway_queue_depth 1\n"
            self.send_response(200 if Answer.left > 0 else 500)
            Answer.left -= 1
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Answer) as listening:
        thread = threading.Thread(target=listening.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"http://127.0.0.1:{listening.server_port}"
        finally:
            listening.shutdown()
            thread.join()


@pytest.mark.parametrize(
    "words", [["--seconds", "600"], ["watch", "--minutes", "10", "--every", "5ms"]]
)
def test_server_that_is_lost_meanwhile_is_judged_and_no_success(words, capsys) -> None:
    """What was read is judged, that it is not all is said, and a script sees it, too."""
    words = ["doctor", *words]
    with failing_after(2) as url:
        assert main([*words, "--url", url, "--format", "json"]) == EXIT_FAILED
    captured = capsys.readouterr()
    assert "answered 500" in captured.err
    assert "what was read until then is judged" in captured.err
    assert "memory_leak" in json.loads(captured.out)["unknown"]


def test_picture_has_a_panel_for_what_was_told() -> None:
    """Memory, cores, slots, the queue; the largest processes; nothing of what nobody told."""
    processes = tuple(a_process(pid, memory_bytes=pid * MIB, cpu_ns=0) for pid in range(1, 12))
    chart = of_devices(
        200,
        lambda i: {"memory_used_bytes": i * MIB, "utilization_ratio": 0.5},
        processes=processes,
        slots_busy_ratio=1.0,
        queue_depth=3.0,
    )
    panels = {panel.title: panel for panel in _panels(chart.readings)}
    assert list(panels) == [
        "Memory of processes",
        "Memory of devices",
        "Cores used",
        "Slots and devices busy",
        "Waiting requests",
    ]
    assert len(panels["Memory of processes"].lines) == 8
    assert "worker `python` (pid 1)" not in panels["Memory of processes"].lines
    assert panels["Memory of devices"].lines["cuda:0"][-1][1] == 199
    busy = panels["Slots and devices busy"].lines
    assert {label: points[0][1] for label, points in busy.items()} == {"cuda:0": 50, "slots": 100}
    assert len(busy["slots"]) <= 80
    assert _panels(of_devices(3, lambda _: {}).readings) == []
