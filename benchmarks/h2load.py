"""A closed loop of one gRPC call with nghttp2's `h2load`, which asks a server nothing else.

Knows HTTP/2 and a call's bytes. It looks at HTTP's status only, so whoever uses it sees first and
last that the answers are right.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path

import harness
from perf_analyzer import Analysis

__all__ = ["closed_loop"]

WARM_S = 1


def closed_loop(
    port: int, method: str, message: bytes, connections: int, seconds: float
) -> Analysis:
    """So many connections, each of which sends its next call when it is answered.

    Raises:
        LoadFailedError: h2load is not installed, failed, or met wrong answers.
    """
    program = shutil.which("h2load")
    if program is None:
        raise harness.LoadFailedError("h2load is missing. hint: apt-get install nghttp2-client")
    whole_s = max(1, round(seconds))
    with tempfile.TemporaryDirectory() as folder:
        body, log = Path(folder) / "body", Path(folder) / "log"
        body.write_bytes(b"\0" + len(message).to_bytes(4) + message)
        command = [
            *(program, "-t1", f"-c{connections}", "-m1", f"-D{whole_s}"),
            *(f"--warm-up-time={WARM_S}", f"--data={body}", f"--log-file={log}"),
            *("-H", "content-type: application/grpc", "-H", "te: trailers"),
            f"http://127.0.0.1:{port}{method}",
        ]
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=whole_s + 60
        )
        if done.returncode or "requests:" not in done.stdout:
            raise harness.LoadFailedError(
                f"h2load failed: {done.stdout[-300:]}{done.stderr[-300:]}"
            )
        lines = [line.split("\t") for line in log.read_text().splitlines()]
    bad = [status for _, status, _ in lines if status != "200"]
    if bad or not lines:
        raise harness.LoadFailedError(f"h2load had {len(lines)} answers, {len(bad)} of them bad")
    took_us = sorted(int(took) for _, _, took in lines)  # the log leaves the warm-up out
    return Analysis(
        load=connections,
        rps=round(len(took_us) / whole_s, 1),
        p50_ms=round(took_us[len(took_us) // 2] / 1e3, 3),
        p99_ms=round(took_us[len(took_us) * 99 // 100] / 1e3, 3),
    )
