"""The file of `headway plan`: what is read of it, and what is refused, with its line."""

import subprocess
import sys
from pathlib import Path

import pytest

from headway.config import load_sharing
from headway.core import SlotClass
from headway.errors import ConfigError
from headway.plan import IsolationNeed, Proximity
from headway.units import NS_PER_MS

TEXT = """
tiers:
  live: {priority: 0, budget: 100ms}
  bulk: {priority: 5, budget: 30s, slot_class: low, attainment: 0.9}
tenants: {shop: {}, clinic: {isolation: strong}}
models:
  - name: a
    tenant: shop
    tier: live
    rate: 20
    times: [{product: A100-80GB, service: {1: 5ms, 4: 12ms}}]
    weights: 1GiB
  - name: b
    tenant: clinic
    tier: bulk
    rate: 0
    times: [{product: A100-80GB, slice: 1g.10gb, service: {1: 15ms}}]
    weights: 2GiB
chains:
  - {name: c, tier: live, rate: 3, steps: [a, b]}
fleet:
  nodes:
    - name: n
      devices: [{product: A100-80GB, count: 2, nvlink: d}]
"""


def read(folder: Path, text: str = TEXT):
    """What a file of this text asks."""
    path = folder / "plan.yaml"
    path.write_text(text)
    return load_sharing(path)


def test_a_file_becomes_a_question(tmp_path: Path) -> None:
    """Rates of chains are added, budgets divided by the steps' times, devices counted."""
    demand, fleet = read(tmp_path)
    a, b = demand.models
    assert (a.rate_rps, b.rate_rps) == (23.0, 3.0)
    assert a.budget_ns == 25 * NS_PER_MS  # 5 of 20 ms: its part of the chain, its own has more
    assert b.budget_ns == 75 * NS_PER_MS
    assert (b.priority, b.slot_class) == (0, SlotClass.LOW)
    assert b.times[0].compute_ratio == pytest.approx(14 / 108)
    assert demand.isolation["clinic"] is IsolationNeed.STRONG
    assert [device.name for device in fleet.devices] == ["n/gpu:0", "n/gpu:1"]
    assert fleet.devices[1].nvlink_domain == "d"
    assert fleet.devices[0].sm_count == 108


@pytest.mark.parametrize(
    ("old", "new", "said", "hint"),
    [
        ("tenant: shop", "tenant: shp", "there is no tenant `shp`", "shop"),
        ("tier: live\n    rate", "tier: lve\n    rate", "there is no tier `lve`", "live"),
        ("steps: [a, b]", "steps: [a, x]", "there is no model `x`", "a"),
        ("name: b", "name: a", "`a` stands twice", "own"),
        ("slice: 1g.10gb", "slice: 1g.11gb", "no MIG profile `1g.11gb`", "1g.10gb"),
        ("slice: 1g.10gb", "slice: 1g.10gb, part: 0.5", "`part` beside `slice`", "leave"),
        ("weights: 2GiB", "weight: 2GiB", "`weight` is not a setting", "weights"),
        ("weights: 2GiB", "weights: 2GiB\n    rows: 3", "more than batch_rows_max", "raise"),
        ("count: 2", "count: 0", "must", "alike"),
        ("A100-80GB, count", "A100-81GB, count", "`memory` is known", "A100-80GB"),
        ("service: {1: 15ms}", "profile: p.json, service: {1: 15ms}", "either", "service"),
    ],
)
def test_a_mistake_has_its_place_and_a_hint(
    tmp_path: Path, old: str, new: str, said: str, hint: str
) -> None:
    """File, line, what is wrong, and what to write instead."""
    assert TEXT.count(old) == 1
    with pytest.raises(ConfigError) as caught:
        read(tmp_path, TEXT.replace(old, new))
    every = [caught.value.message, *getattr(caught.value, "__notes__", ())]
    assert any(said in words for words in every)
    assert "plan.yaml:" in caught.value.message
    assert hint in f"{caught.value.hint} {every}"


def test_instances_of_today_must_be_possible(tmp_path: Path) -> None:
    """Two at one place were misread."""
    today = "[{profile: 3g.40gb, start: 0}, {profile: 1g.10gb, start: 3}]"
    text = TEXT.replace("count: 2, nvlink: d", f"mig: {{instances: {today}}}")
    with pytest.raises(ConfigError, match="both cover cell 3"):
        read(tmp_path, text)


def test_a_topology_says_what_devices_do_not(tmp_path: Path) -> None:
    """Links and sockets of the printed matrix; what a device says of itself counts before it."""
    matrix = (
        "\tGPU0\tGPU1\tCPU Affinity\tNUMA Affinity\nGPU0\tX\tNV4\t0-3\t1\nGPU1\tNV4\tX\t0-3\t1\n"
    )
    (tmp_path / "topo.txt").write_text(matrix)
    text = TEXT.replace("name: n\n", "name: n\n      topology: topo.txt\n")
    fleet = read(tmp_path, text.replace(", nvlink: d", "")).fleet
    assert [(d.nvlink_domain, d.numa_node) for d in fleet.devices] == [("n/nvlink:0", 1)] * 2
    assert fleet.topologies["n"].pairs == {(0, 1): Proximity.NVLINK}
    assert read(tmp_path, text).fleet.devices[0].nvlink_domain == "d"
    with pytest.raises(ConfigError, match="cannot read"):
        read(tmp_path, text.replace("topo.txt", "nowhere.txt"))


def test_whoever_reads_a_configuration_does_without_the_planner() -> None:
    """A server begins without it; it is there for whoever asks."""
    words = (
        "import sys, headway.config as config\n"
        "assert 'headway.plan' not in sys.modules\n"
        "assert config.load_sharing\n"
        "assert 'headway.plan' in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", words], check=True)
