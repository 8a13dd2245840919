"""Prometheus' own judgement of our exposition and of the documented queries."""

import json
import shutil
import subprocess

import pytest
from tests.counted import listen

import metric_pages
from headway.testing import a_kernel

PROMTOOL = shutil.which("promtool")
pytestmark = pytest.mark.skipif(PROMTOOL is None, reason="promtool is not installed")


def promtool(*arguments, text=b""):
    """What it answers, and its exit code."""
    done = subprocess.run(
        [PROMTOOL, "check", *arguments], input=text, capture_output=True, timeout=60, check=False
    )
    return done.returncode, (done.stdout + done.stderr).decode()


def test_exposition_is_free_of_lint():
    """Names, units and help are as Prometheus wants them; those of others as others have them."""
    metrics = listen(a_kernel(), knows=["m"], has_tenants=True)
    assert promtool("metrics", text=b"".join(metrics.text())) == (0, "")
    others = listen(a_kernel(), knows=["m"], aliases=("triton", "vllm"))
    _, said = promtool("metrics", text=b"".join(others.text()))
    assert {line.split()[0].rstrip("0123456789")[:3] for line in said.splitlines()} == {
        "nv_",
        "vll",
    }


def test_documented_queries_are_promql(tmp_path):
    """Each is parsed as a rule."""
    rules = [
        {"record": f"asked:{number}", "expr": query}
        for number, query in enumerate(metric_pages.QUERIES.values())
    ]
    path = tmp_path / "rules.yml"
    path.write_text(json.dumps({"groups": [{"name": "asked", "rules": rules}]}))
    code, said = promtool("rules", str(path))
    assert code == 0, said
    assert f"{len(rules)} rules found" in said
