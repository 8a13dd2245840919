"""The script that has the GPU operator cut nodes, run by a shell with a stand-in of `kubectl`."""

import os
import subprocess
from pathlib import Path

from tests.sharing_plans import a_cut_device, a_plan, a_seat, an_instance

from headway.rollout import FORMATS, EmitOptions

# Labels are files; what `wait` sees first is noted, and then the operator has done its work.
KUBECTL = r"""#!/usr/bin/env bash
set -euo pipefail
verb=$1
shift
case $verb in
  get) cat mig.config ;;
  label)
    echo labelled >>calls
    for word in "$@"; do
      case $word in nvidia.com/*=*) echo "${word#*=}" >"$(basename "${word%%=*}")" ;; esac
    done
    ;;
  wait)
    echo "waited at $(cat mig.config.state)" >>calls
    echo success >mig.config.state
    ;;
esac
"""


def run(folder: Path) -> list[str]:
    """Run the script once; what was called."""
    (folder / "calls").write_text("")
    environment = {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"}
    done = subprocess.run(
        ["bash", str(folder / "label-nodes.sh")],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return (folder / "calls").read_text().splitlines()


def test_success_of_an_earlier_cut_is_not_taken_for_this_one(tmp_path: Path) -> None:
    """The old state goes with the new label; run again, what is done is not waited for anew."""
    plan = a_plan(a_cut_device(an_instance("3g.40gb@0", a_seat())))
    for file in FORMATS["gpu-operator"].emit(plan, EmitOptions()).files:
        (tmp_path / file.name).write_text(file.text)
    kubectl = tmp_path / "kubectl"
    kubectl.write_text(KUBECTL)
    kubectl.chmod(0o755)
    (tmp_path / "mig.config").write_text("of-yesterday\n")
    (tmp_path / "mig.config.state").write_text("success\n")
    assert run(tmp_path) == ["labelled", "waited at pending"]
    assert (tmp_path / "mig.config").read_text().startswith(EmitOptions().name)
    assert run(tmp_path) == ["waited at success"]
