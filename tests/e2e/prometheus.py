"""A real Prometheus in a process of its own, and what a test may ask of it.

Knows its files, its command line and its HTTP interface.
"""

import contextlib
import json
import shutil
import subprocess
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.e2e.server import free_port, wait_until

__all__ = ["Prometheus", "watching"]

EVERY = "250ms"
"""How often it scrapes and evaluates."""


class Prometheus:
    """Made by `watching`."""

    def __init__(self, port: int) -> None:
        self._url = f"http://127.0.0.1:{port}"

    def is_ready(self) -> bool:
        """Whether it answers."""
        try:
            with urllib.request.urlopen(f"{self._url}/-/ready", timeout=5) as response:
                return bool(response.status == 200)
        except OSError:
            return False

    def query(self, expression: str) -> list[dict[str, Any]]:
        """What an expression yields now; a query that it cannot read fails the test."""
        try:
            return list(
                self._get(f"query?{urllib.parse.urlencode({'query': expression})}")["result"]
            )
        except urllib.error.HTTPError as error:
            with error:
                pytest.fail(f"{expression}\n{error.read().decode()}")

    def firing(self, name: str, **labels: str) -> list[Mapping[str, Any]]:
        """Alerts of one name, with these labels, that fire now."""
        wanted = {"alertname": name, **labels}.items()
        return [
            alert
            for alert in self._get("alerts")["alerts"]
            if wanted <= alert["labels"].items() and alert["state"] == "firing"
        ]

    def labels_of(self, metric: str) -> set[str] | None:
        """Labels that its series have now; None where there are no series."""
        found = [set(series["metric"]) for series in self.query(metric)]
        return set.union(*found) if found else None

    def _get(self, path: str) -> dict[str, Any]:
        with urllib.request.urlopen(f"{self._url}/api/v1/{path}", timeout=10) as response:
            return dict(json.loads(response.read())["data"])


@contextlib.contextmanager
def watching(home: Path, target: str, rules: str) -> Iterator[Prometheus]:
    """A Prometheus that scrapes one server often, with these rules; gone afterwards.

    Args:
        home: for its files.
        target: `host:port` of the server.
        rules: the text of a file of rules.
    """
    program = shutil.which("prometheus")
    if program is None:
        pytest.skip("there is no prometheus (Debian: apt install prometheus)")
    (home / "headway.rules.yaml").write_text(rules)
    job = {"job_name": "headway", "static_configs": [{"targets": [target]}]}
    config = {
        "global": {"scrape_interval": EVERY, "scrape_timeout": EVERY, "evaluation_interval": EVERY},
        "rule_files": ["headway.rules.yaml"],
        "scrape_configs": [job],
    }
    (home / "prometheus.yml").write_text(json.dumps(config))
    port = free_port()
    with (home / "prometheus.log").open("wb") as log:
        process = subprocess.Popen(
            [
                program,
                f"--config.file={home / 'prometheus.yml'}",
                f"--storage.tsdb.path={home / 'tsdb'}",
                f"--web.listen-address=127.0.0.1:{port}",
            ],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )
    prometheus = Prometheus(port)
    try:
        wait_until(prometheus.is_ready, "Prometheus is ready")
        yield prometheus
    finally:
        process.terminate()
        process.wait(20)
