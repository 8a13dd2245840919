"""`headway plan emit`, `validate`, `apply --dry-run`: what is printed, written and refused."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from tests.sharing_plans import a_device, a_mixed_plan, a_plan, a_seat, plan_text

from headway.cli import EXIT_FAILED, EXIT_OK, EXIT_USAGE, main
from headway.rollout import FORMATS


@pytest.fixture
def plan(tmp_path: Path) -> Path:
    """A plan of two nodes, as a file."""
    path = tmp_path / "plan.json"
    path.write_text(plan_text(a_mixed_plan()))
    return path


def test_emit_writes_a_folder_a_format_which_validates(
    plan: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Scripts can be run; what a format cannot say is said on stderr."""
    out = tmp_path / "out"
    assert main(["plan", "emit", str(plan), "--to", str(out)]) == EXIT_OK
    captured = capsys.readouterr()
    assert {path.name for path in out.iterdir()} == set(FORMATS)
    assert os.access(out / "nvidia-smi" / "node1-mig.sh", os.X_OK)
    assert not os.access(out / "kserve" / "kserve.yaml", os.X_OK)
    assert "mig-parted: this format has no placements" in captured.err
    assert "kserve/kserve.yaml" in captured.out
    assert main(["plan", "validate", str(out)]) == EXIT_OK
    lines = capsys.readouterr().out.splitlines()[1:]
    assert lines
    assert all(line.endswith("valid") for line in lines)


def test_emit_without_a_folder_only_says_what_there_is(
    plan: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of the formats that are asked for."""
    words = ["plan", "emit", str(plan), "--as", "mps,keda", "--format", "json"]
    assert main(words) == EXIT_OK
    captured = capsys.readouterr()
    found = json.loads(captured.out)
    assert set(found) == {"mps", "keda"}
    assert "node1-mps-start.sh" in found["mps"]["files"]
    assert found["keda"]["files"] == []


def test_files_are_written_also_where_nothing_can_check_them(plan: Path, tmp_path: Path) -> None:
    """With a warning, for an installation without the extra."""
    words = ["plan", "emit", str(plan), "--to", str(tmp_path / "out"), "--as", "ansible"]
    program = (
        "import sys; sys.modules['jsonschema'] = None\n"
        f"from headway.cli import main\nsys.exit(main({words!r}))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == EXIT_OK, done.stderr
    assert "warning: not all files were checked: `jsonschema` is not installed" in done.stderr
    assert (tmp_path / "out" / "ansible" / "playbook.yaml").exists()


def test_options_reach_the_files(plan: Path, tmp_path: Path) -> None:
    """Names, images, addresses: what a plan does not say."""
    out = tmp_path / "out"
    flags = ["--namespace", "ml", "--image", "registry.example/headway:1", "--models-uri", "s3://b"]
    assert main(["plan", "emit", str(plan), "--to", str(out), "--as", "kserve", *flags]) == EXIT_OK
    text = (out / "kserve" / "kserve.yaml").read_text()
    for word in ("namespace: ml", "image: registry.example/headway:1", "storageUri: s3://b/speech"):
        assert word in text


def test_part_of_a_server_is_a_configuration_once_its_models_are_told(
    plan: Path, tmp_path: Path
) -> None:
    """In the words that `headway serve` itself reads."""
    out = tmp_path / "out"
    assert main(["plan", "emit", str(plan), "--to", str(out), "--as", "serve"]) == EXIT_OK
    path = out / "serve" / "speech.yaml"
    whole = yaml.safe_load(path.read_text())
    whole["models"][0]["path"] = "speech.onnx"
    path.write_text(yaml.safe_dump({**whole, "tiers": {"live": {"budget": "100ms"}}}))
    assert main(["config", "check", str(path)]) == EXIT_OK


def test_files_of_an_earlier_plan_are_not_left_among_these(
    plan: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Someone would run them."""
    out = tmp_path / "out"
    words = ["plan", "emit", str(plan), "--to", str(out), "--as", "nvidia-smi"]
    assert main(words) == EXIT_OK
    plan.write_text(plan_text(a_plan(*a_mixed_plan().devices[:3])))
    assert main(words) == EXIT_FAILED
    assert "holds other files: node2-mig.sh" in capsys.readouterr().err


def test_unknown_format_is_bad_usage(plan: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The hint lists those that there are."""
    assert main(["plan", "emit", str(plan), "--as", "helm"]) == EXIT_USAGE
    error = capsys.readouterr().err
    assert "there is no format `helm`" in error
    assert "`kserve`" in error


def test_plan_with_names_that_no_shell_should_see_is_not_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every file is checked before any is written."""
    path = tmp_path / "plan.json"
    path.write_text(plan_text(a_plan(a_device(a_seat(), node="n; reboot"))))
    out = tmp_path / "out"
    words = ["plan", "emit", str(path), "--to", str(out), "--as", "kueue,kserve"]
    assert main(words) == EXIT_FAILED
    assert "a file of this plan would not be valid: kueue/label-nodes.sh" in capsys.readouterr().err
    assert not out.exists()


def test_validate_says_what_is_wrong_and_where(
    plan: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit 2, as for any wrong configuration; JSON says the same."""
    out = tmp_path / "out"
    assert main(["plan", "emit", str(plan), "--to", str(out), "--as", "mig-parted"]) == EXIT_OK
    path = out / "mig-parted" / "mig-parted.yaml"
    path.write_text(path.read_text().replace("3g.40gb: 1", "3g.40gb: 4"))
    capsys.readouterr()
    assert main(["plan", "validate", str(path)]) == EXIT_USAGE
    assert "compute slices on one GPU" in capsys.readouterr().out
    assert main(["plan", "validate", str(path), "--format", "json"]) == EXIT_USAGE
    (found,) = json.loads(capsys.readouterr().out).values()
    assert found["faults"][0]["place"].startswith("mig-configs.headway-")


def test_validate_refuses_what_it_cannot_look_at(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A file that is not there, one that is no text, a folder with nothing in it."""
    binary = tmp_path / "a.yaml"
    binary.write_bytes(b"\xff\xfe\x00")
    empty = tmp_path / "empty"
    empty.mkdir()
    for path, words in (
        (tmp_path / "none.yaml", "No such file"),
        (binary, "it is not text"),
        (empty, "holds no files to check"),
    ):
        assert main(["plan", "validate", str(path)]) == EXIT_FAILED
        assert words in capsys.readouterr().err


def test_definitions_of_ones_own_cluster_may_be_given(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With its rules in CEL; kinds that are not among them are faults."""
    crds = tmp_path / "crds"
    crds.mkdir()
    (crds / "widget.yaml").write_text(WIDGET)
    thing = tmp_path / "thing.yaml"
    words = ["plan", "validate", str(thing), "--crds", str(crds)]
    head = "apiVersion: example.org/v1\nkind: Widget\nmetadata: {name: a}\n"
    thing.write_text(f"{head}spec: {{low: 1, high: 2}}\n")
    assert main(words) == EXIT_OK
    capsys.readouterr()
    for spec, message in (
        ("{low: 3, high: 2}", "low is not above high"),
        ("{low: 3}", "low is not above high"),
        ("{low: x, high: 2}", "is not of type 'integer'"),
        ("{low: 1, hihg: 2}", "'hihg' was unexpected"),
    ):
        thing.write_text(f"{head}spec: {spec}\n")
        assert main(words) == EXIT_USAGE
        assert message in capsys.readouterr().out
    assert main(["plan", "validate", str(thing)]) == EXIT_USAGE
    assert "no definition of `Widget`" in capsys.readouterr().out
    assert main([*words[:3], "--crds", str(tmp_path / "none")]) == EXIT_FAILED


WIDGET = """\
kind: CustomResourceDefinition
spec:
  group: example.org
  scope: Cluster
  names: {kind: Widget}
  versions:
    - name: v1
      served: true
      schema:
        openAPIV3Schema:
          type: object
          properties:
            spec:
              type: object
              x-kubernetes-validations:
                - {rule: self.low <= self.high, message: low is not above high}
                - {rule: self == oldSelf, message: never changes}
              properties:
                low: {type: integer}
                high: {type: integer, default: 2}
"""


def test_dry_run_prints_each_command_with_its_check(
    plan: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of all nodes, in order, from what the plan takes each GPU to be."""
    assert main(["plan", "apply", str(plan), "--dry-run"]) == EXIT_OK
    captured = capsys.readouterr()
    lines = captured.out.splitlines()
    assert lines[0] == "# node1: 5 steps, as root"
    place = lines.index("nvidia-smi mig -i 0 -cgi 3g.40gb:0 -C")
    assert lines[place - 1] == "# 2. GPU 0: 3g.40gb at 0, over 4 cells"
    check = "nvidia-smi mig -i 0 -lgi  # must show: 3g.40gb with placement 0:4"
    assert lines[place + 1] == check
    assert "# node2: 2 steps, as root" in lines
    assert "# speech (GPU 0, 3g.40gb at 0): CUDA_VISIBLE_DEVICES=MIG-UUID" in lines
    order = "CUDA_DEVICE_ORDER=PCI_BUS_ID"
    assert f"# chat (GPU 1; GPU 2): CUDA_VISIBLE_DEVICES=1,2 {order}" in lines
    assert "steps from what the plan takes each GPU to be today" in captured.err


def test_node_that_the_plan_has_not_is_bad_usage(
    plan: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Which of several is meant has to be said, unless this machine is called like one."""
    assert main(["plan", "apply", str(plan), "--dry-run", "--node", "node9"]) == EXIT_USAGE
    assert "there is no `node9`" in capsys.readouterr().err
    assert main(["plan", "diff", str(plan)]) == EXIT_USAGE
    error = capsys.readouterr().err
    assert "none is called like this machine" in error
    assert "--node NAME, of `node1`, `node2`" in error
