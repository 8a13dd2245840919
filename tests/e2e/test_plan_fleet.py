"""`headway plan fleet`: what a driver says of its GPUs, as the planner takes it."""

import json
from pathlib import Path

import pytest
import yaml
from tests.fake_mig.build import World, gpu_lines
from tests.fake_mig.fixtures import mig_library, needs_library, world

from headway.cli import EXIT_OK, main
from headway.config import load_sharing
from headway.plan import MigToday

__all__ = ["mig_library", "world"]  # fixtures, which pytest finds by name

pytestmark = needs_library

WORKLOAD = """\
tiers: {live: {budget: 1s}}
tenants: {shop: {}}
models:
  - name: m
    tenant: shop
    tier: live
    rate: 1
    times: [{product: A100-80GB, service: {1: 9ms}}]
    weights: 1GiB
"""


def fleet(capsys: pytest.CaptureFixture[str]) -> tuple[dict, list[str]]:
    """The node, and what is told of it."""
    assert main(["plan", "fleet", "--node", "gpu1", "--format", "json"]) == EXIT_OK
    found = json.loads(capsys.readouterr().out)
    return found["node"], found["notes"]


def test_fleet_is_what_the_planner_reads(
    world: World, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With today's instances, of which those with a process in them are busy."""
    world.write(
        *gpu_lines(0, "A100-80GB", mode="1"),
        *("gi 0 1 14 0 2 1", "gi 0 2 19 4 1 2", "proc 0 4711 1"),
        *gpu_lines(1, "A100-80GB"),
    )
    assert main(["plan", "fleet", "--node", "gpu1"]) == EXIT_OK
    captured = capsys.readouterr()
    path = tmp_path / "workload.yaml"
    path.write_text(WORKLOAD + captured.out)
    first, second = load_sharing(path).fleet.devices
    assert (first.name, first.product) == ("gpu1/gpu:0", "A100-80GB")
    assert first.instances == (
        MigToday(profile="2g.20gb", start=0, is_busy=True),
        MigToday(profile="1g.10gb", start=4, is_busy=False),
    )
    assert (second.is_mig_enabled, second.uuid[:4]) == (False, "GPU-")
    assert "nvidia-smi topo -m" in captured.err


@pytest.mark.parametrize(
    "product",
    ["A30-24GB", "A100-40GB", "A100-80GB", "H100-SXM5-80GB", "H100-PCIe-80GB", "H200-141GB"],
)
def test_products_are_told_apart_by_their_profiles(
    world: World, capsys: pytest.CaptureFixture[str], product: str
) -> None:
    """Some have all names in common and differ only in multiprocessors."""
    world.write(*gpu_lines(0, product))
    node, notes = fleet(capsys)
    assert [device["product"] for device in node["devices"]] == [product]
    assert notes == []


def test_where_the_driver_differs_from_the_table_it_is_told(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    """The plan goes by the table, and what it asks for must be there."""
    lines = list(gpu_lines(0, "A100-80GB"))
    lines = [line for line in lines if " 4g.40gb " not in line]
    lines = [line.replace(" 3g.40gb 0,4", " 3g.40gb 0") for line in lines]
    lines = [line.replace(" 2g.20gb ", " 2g.19gb ") for line in lines]
    world.write(*lines)
    node, notes = fleet(capsys)
    assert node["devices"][0]["product"] == "A100-80GB"
    assert notes == [
        "GPU 0: its driver offers `2g.19gb`, which `A100-80GB` has not in the table",
        "GPU 0: `3g.40gb` may begin at other places than in the table",
        "GPU 0: its driver does not offer `2g.20gb`: a plan with it cannot be applied",
        "GPU 0: its driver does not offer `4g.40gb`: a plan with it cannot be applied",
    ]


def test_gpus_without_mig_and_gpus_that_do_not_answer_are_told_of(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    """What the driver does not say a person has to."""
    world.write("gpu 0 NVIDIA-L4 23034 0 - 0 0")
    node, notes = fleet(capsys)
    assert node["devices"][0]["memory"] == "23034MiB"
    assert notes == ["GPU 0: it has no MIG; say how many `multiprocessors` it has"]
    world.add("fail nvmlDeviceGetHandleByIndex 15")
    node, notes = fleet(capsys)
    assert node["devices"] == []
    assert notes[0].startswith("GPU 0 does not answer and is left out: ")


def test_text_is_yaml_for_a_person_to_paste(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    """Under one key, with nothing else on stdout."""
    world.write(*gpu_lines(0, "H100-SXM5-80GB", mode="1"))
    assert main(["plan", "fleet", "--node", "gpu1"]) == EXIT_OK
    found = yaml.safe_load(capsys.readouterr().out)
    (node,) = found["fleet"]["nodes"]
    assert node["devices"][0]["mig"] == {}
