"""Every format: what it writes is valid, and says what the plan says."""

from collections.abc import Mapping
from typing import Any

import pytest
import yaml
from tests.sharing_plans import (
    a_cut_device,
    a_device,
    a_mixed_plan,
    a_plan,
    a_seat,
    an_instance,
    an_mps_seat,
)

from headway.core import SlotClass, TenantId
from headway.errors import HeadwayError
from headway.plan import SharingMode, SharingPlan
from headway.rollout import (
    FORMATS,
    EmitOptions,
    EmittedFile,
    check_file,
    dns_name,
    shipped_definitions,
)

PLANS: Mapping[str, SharingPlan] = {
    "nothing": a_plan(a_device()),
    "whole": a_plan(a_device(a_seat())),
    "mig": a_plan(a_cut_device(an_instance("3g.40gb@0", a_seat()), an_instance("1g.10gb@4"))),
    "mps": a_plan(
        a_device(an_mps_seat("a", 60, 9), an_mps_seat("b", 60, 9), inside=SharingMode.MPS)
    ),
    "mig of A30": a_plan(
        a_cut_device(
            an_instance("2g.12gb@0", a_seat(), product="A30-24GB"),
            an_instance("1g.6gb+me@2", a_seat("video"), product="A30-24GB"),
            product="A30-24GB",
        )
    ),
    "mixed": a_mixed_plan(),
}


def emitted(format_name: str, plan: SharingPlan, **options: str) -> dict[str, EmittedFile]:
    emission = FORMATS[format_name].emit(plan, EmitOptions(**options))
    return {file.name: file for file in emission.files}


def objects(format_name: str, file: str, plan: SharingPlan) -> list[Any]:
    return list(yaml.load_all(emitted(format_name, plan)[file].text, Loader=yaml.CSafeLoader))


def of_kind(found: list[Any], kind: str) -> dict[str, Any]:
    return {one["metadata"]["name"]: one for one in found if one["kind"] == kind}


@pytest.mark.parametrize("plan", PLANS)
@pytest.mark.parametrize("name", FORMATS)
def test_every_file_of_every_format_is_valid(name: str, plan: str) -> None:
    """Whatever the plan: checked by published schemas where there are any, else by ours."""
    for file in emitted(name, PLANS[plan]).values():
        assert check_file(file.name, file.text, shipped_definitions()).faults == ()


@pytest.mark.parametrize("name", FORMATS)
def test_format_is_the_same_each_time(name: str) -> None:
    """So that a difference between two files is a difference between two plans."""
    assert emitted(name, a_mixed_plan()) == emitted(name, a_mixed_plan())


def test_mig_parted_counts_instances_and_leaves_free_devices_alone() -> None:
    """A node whose devices are cut alike has one configuration; a free device has no entry."""
    (document,) = objects("mig-parted", "mig-parted.yaml", a_mixed_plan())
    first, second = document["mig-configs"].values()
    assert first == [
        {
            "devices": [0],
            "mig-enabled": True,
            "mig-devices": {"3g.40gb": 1, "2g.20gb": 1, "1g.10gb": 1},
        },
        {"devices": [1, 2], "mig-enabled": False},
    ]
    assert second == [{"devices": [0, 1, 2], "mig-enabled": False}]


def test_another_cut_has_another_name() -> None:
    """A label says which cut a node has, also after the next plan."""
    before = a_plan(a_cut_device(an_instance("3g.40gb@0", a_seat())))
    after = a_plan(a_cut_device(an_instance("2g.20gb@0", a_seat())))
    names = [
        set(objects("mig-parted", "mig-parted.yaml", plan)[0]["mig-configs"])
        for plan in (before, after)
    ]
    assert names[0].isdisjoint(names[1])


def test_operator_gets_a_config_map_a_pointer_and_labels() -> None:
    """The pointer and the labels name what is there, and every node is waited for."""
    files = emitted("gpu-operator", a_mixed_plan(), name="fleet")
    (config_map,) = yaml.safe_load_all(files["mig-configmap.yaml"].text)
    configs = yaml.safe_load(config_map["data"]["config.yaml"])["mig-configs"]
    labels = files["label-nodes.sh"].text
    assert config_map["metadata"]["name"] == "fleet-mig-parted-config"
    assert '"name": "fleet-mig-parted-config"' in labels
    for node in ("node1", "node2"):
        (line,) = (one for one in labels.splitlines() if one.startswith(f"cut {node} "))
        assert line.split()[2] in configs
    assert "all-disabled" in configs


def test_nvidia_smi_pins_places_and_takes_away_only_what_the_plan_names() -> None:
    """First what goes, then the mode, then the largest instance."""
    files = emitted("nvidia-smi", a_mixed_plan())
    commands = [line for line in files["node1-mig.sh"].text.splitlines() if line[:1].isalpha()]
    assert commands[-5:] == [
        "remove 0 3g.40gb 4",
        "mode 0 Enabled",
        "create 0 3g.40gb 0 4",
        "create 0 2g.20gb 4 2",
        "create 0 1g.10gb 6 1",
    ]
    assert files["node2-mig.sh"].text.splitlines()[-2:] == ["remove 0 7g.80gb 0", "mode 0 Disabled"]
    assert files["node1-mig.sh"].is_executable


def test_mps_script_gives_each_device_a_daemon_and_each_client_its_limits() -> None:
    """The daemon's defaults are the largest of any client's, which the others then lower."""
    files = emitted("mps", a_mixed_plan(), state_folder="/run/mps")
    start = files["node1-mps-start.sh"].text
    assert (
        "daemon /run/mps/gpu1 1 'set_default_active_thread_percentage 100' "
        "'set_default_device_pinned_mem_limit 0 30720M'"
    ) in start
    assert 'daemon /run/mps/gpu0-at-4 "$(mig_uuid 0 4)" ' in start
    assert files["node1-gpu1-embed-0.env"].text.splitlines()[1:] == [
        "CUDA_MPS_PIPE_DIRECTORY=/run/mps/gpu1/pipe",
        "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=50",
        "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT=0=30720M",
        "CUDA_MPS_CLIENT_PRIORITY=1",
    ]
    assert "node2-mps-start.sh" not in files


def test_mps_of_version_3_keeps_limits_by_namespaces() -> None:
    """A namespace a client; instances, whose UUIDs are not known yet, are left to the script."""
    import tomllib

    found = tomllib.loads(emitted("mps", a_mixed_plan())["node1-mps.toml"].text)
    assert found["schema_version"] == "1.0"
    assert set(found["servers"]) == {"gpu1"}
    assert found["servers"]["gpu1"]["allowed_devices"] == "1"
    assert found["servers"]["gpu1"]["namespaces"]["embed-0"] == {
        "pinned_memory_limit": "30720M",
        "active_thread_percentage": "50",
        "client_priority": "1",
    }


def test_ansible_destroys_before_it_switches_the_mode_and_creates_after() -> None:
    """MIG mode does not end while there are instances, and none is made before it begins."""
    plays = objects("ansible", "playbook.yaml", a_mixed_plan())[0]
    assert [play["hosts"] for play in plays] == ["node1", "node2"]
    names = [task["name"] for task in plays[0]["tasks"]]
    order = [
        "GPU 0: destroy GPU instance 3g.40gb at 4",
        "GPU 0: MIG mode becomes Enabled",
        "GPU 0: 3g.40gb at 0",
        "GPU 0: every instance is where it should be",
        "gpu1: it answers",
    ]
    assert [name for name in names if name in order] == order


def test_device_plugin_says_what_it_cannot() -> None:
    """One way of sharing a node, the same part for all: what a plan wants beyond is told."""
    emission = FORMATS["device-plugin"].emit(a_mixed_plan(), EmitOptions())
    (config_map,) = yaml.load_all(emission.files[0].text, Loader=yaml.CSafeLoader)
    first, second = (yaml.safe_load(text) for text in config_map["data"].values())
    assert first["sharing"]["mps"]["resources"] == [{"name": "nvidia.com/gpu", "replicas": 2}]
    assert second["sharing"]["timeSlicing"]["resources"] == [
        {"name": "nvidia.com/gpu", "replicas": 2}
    ]
    notes = "\n".join(emission.notes)
    assert "node1: wants MPS inside MIG instances" in notes
    assert "node1: tenants are to have different parts" in notes
    assert "`node1/gpu:2` should not be shared" in notes


def test_dra_claims_are_shared_by_whoever_shares() -> None:
    """MPS clients of one slice name one claim, with the largest limits; others have a template."""
    found = objects("dra", "dra.yaml", a_mixed_plan())
    claims, templates = of_kind(found, "ResourceClaim"), of_kind(found, "ResourceClaimTemplate")
    deployments = of_kind(found, "Deployment")
    inside = dns_name("node1/gpu:0-at-4")
    assert {inside, dns_name("node1/gpu:1"), dns_name("node2/gpu:0")} == set(claims)
    devices = claims[inside]["spec"]["devices"]
    assert devices["config"][0]["opaque"]["parameters"] == {
        "apiVersion": "resource.nvidia.com/v1beta1",
        "kind": "MigDeviceConfig",
        "sharing": {
            "strategy": "MPS",
            "mpsConfig": {
                "defaultActiveThreadPercentage": 60,
                "defaultPinnedDeviceMemoryLimit": "9216Mi",
            },
        },
    }
    assert "2g.20gb" in devices["requests"][0]["exactly"]["selectors"][0]["cel"]["expression"]
    (chat,) = templates["chat"]["spec"]["spec"]["devices"]["requests"]
    assert chat["exactly"]["count"] == 2
    (selector,) = chat["exactly"]["selectors"]
    assert "memory.compareTo(quantity('4096Mi')) >= 0" in selector["cel"]["expression"]
    pod = deployments["search"]["spec"]["template"]["spec"]
    assert pod["resourceClaims"] == [{"name": "device", "resourceClaimName": inside}]


def test_server_is_told_its_models_and_how_large_their_batches_may_be() -> None:
    """The more important first; replicas with other limits are another server."""
    plan = a_plan(
        a_device(
            a_seat("tag", priority=1, batch_rows=4),
            a_seat("rank", batch_rows=16),
            inside=SharingMode.STREAMS,
        ),
        a_device(a_seat("chat", batch_rows=8), index=1),
        a_device(a_seat("chat", batch_rows=2, replica=1), index=2),
    )
    files = emitted("serve", plan)
    assert list(files) == ["rank-tag.yaml", "chat.yaml", "chat-2.yaml"]
    assert yaml.safe_load(files["rank-tag.yaml"].text) == {
        "models": [
            {"name": "rank", "batch": {"rows_max": 16}},
            {"name": "tag", "batch": {"rows_max": 4}},
        ]
    }


def test_kserve_has_a_service_for_each_kind_of_process() -> None:
    """Streams are one process of two models; replicas that are not alike are told of."""
    emission = FORMATS["kserve"].emit(a_mixed_plan(), EmitOptions(models_uri="s3://bucket/m/"))
    services = of_kind(
        list(yaml.load_all(emission.files[0].text, Loader=yaml.CSafeLoader)), "InferenceService"
    )
    assert "rank-tag" in services
    model = services["speech"]["spec"]["predictor"]["model"]
    assert model["resources"]["limits"] == {"nvidia.com/mig-3g.40gb": 1}
    assert model["storageUri"] == "s3://bucket/m/speech"
    chat = services["chat"]["spec"]["predictor"]["model"]
    assert chat["resources"]["limits"] == {"nvidia.com/gpu": 2}
    assert any("replicas of `ocr` are not alike and are 2 services" in n for n in emission.notes)
    assert any("no MPS inside MIG" in note for note in emission.notes)


def test_keda_scales_what_has_several_places_by_what_one_was_planned_for() -> None:
    """The threshold is the smallest replica's load; what has one place is not scaled."""
    plan = a_plan(
        a_device(a_seat(rate_rps=20.0)), a_device(a_seat(rate_rps=15.5, replica=1), index=1)
    )
    (scaled,) = objects("keda", "keda.yaml", plan)
    assert scaled["spec"]["scaleTargetRef"]["name"] == "speech-predictor"
    assert scaled["spec"]["maxReplicaCount"] == 2
    metadata = scaled["spec"]["triggers"][0]["metadata"]
    assert metadata["threshold"] == "15.5"
    assert metadata["query"] == 'sum(rate(headway_requests_total{model=~"speech"}[1m]))'
    assert emitted("keda", PLANS["whole"]) == {}


def test_hami_limits_memory_of_all_and_cores_where_they_are_divided() -> None:
    """Cores of a process under MPS; all of them where it is alone; none in a MIG instance."""
    found = of_kind(objects("hami", "hami.yaml", a_mixed_plan()), "Deployment")

    def limits(name: str) -> dict[str, int]:
        (server,) = found[name]["spec"]["template"]["spec"]["containers"]
        return dict(server["resources"]["limits"])

    assert limits("embed") == {
        "nvidia.com/gpu": 1,
        "nvidia.com/gpumem": 30 * 1024,
        "nvidia.com/gpucores": 50,
    }
    assert limits("speech") == {"nvidia.com/gpu": 1, "nvidia.com/gpumem": 4 * 1024}


def test_kai_counts_slices_of_an_instance_as_devices() -> None:
    """As its scheduler does; a part of a device is asked for by memory, and never as a device."""
    found = objects("kai", "kai.yaml", a_mixed_plan())
    queues, deployments = of_kind(found, "Queue"), of_kind(found, "Deployment")
    assert queues["voice"]["spec"]["resources"]["gpu"]["quota"] == 3.0
    assert queues["voice"]["spec"]["parentQueue"] == "headway"
    template = deployments["embed"]["spec"]["template"]
    assert template["metadata"]["annotations"] == {"gpu-memory": str(30 * 1024)}
    assert "resources" not in template["spec"]["containers"][0]


def test_kueue_gives_each_tenant_what_the_plan_gave_it() -> None:
    """A flavour a product, every resource in each; what is served first has the higher value."""
    found = objects("kueue", "kueue.yaml", a_mixed_plan())
    queues, classes = of_kind(found, "ClusterQueue"), of_kind(found, "WorkloadPriorityClass")
    (group,) = queues["voice"]["spec"]["resourceGroups"]
    quotas = {one["name"]: one["nominalQuota"] for one in group["flavors"][0]["resources"]}
    assert quotas["nvidia.com/mig-3g.40gb"] == 1
    assert quotas["nvidia.com/gpu"] == 0
    assert classes["priority-0"]["value"] > classes["priority-8"]["value"]


def test_gang_over_nodes_is_refused() -> None:
    """A server is one process: the plan's fleet has to keep gangs within nodes."""
    plan = a_plan(
        a_device(a_seat("chat", gang_rank=0)),
        a_device(a_seat("chat", gang_rank=1), node="node2"),
    )
    with pytest.raises(HeadwayError, match="`chat` is on several nodes: node1, node2"):
        emitted("kserve", plan)


def test_words_of_a_plan_do_not_end_a_comment() -> None:
    """A reason with a line break stays a comment of the script."""
    from msgspec.structs import replace

    device = replace(PLANS["mig"].devices[0], reasons=("first\nrm -rf everything",))
    (file,) = emitted("nvidia-smi", a_plan(device)).values()
    assert "\nrm" not in file.text
    assert check_file(file.name, file.text, shipped_definitions()).faults == ()


def test_names_that_kubernetes_refuses_are_changed_and_stay_apart() -> None:
    """Lower case, letters first, not too long; and never two names into one."""
    names = ["speech", "Speech", "speech_", "9th", "x" * 80, "x" * 81, "ocr/2", "…"]
    made = [dns_name(name) for name in names]
    assert made[0] == "speech"
    assert len(set(made)) == len(names)
    for name in made:
        assert len(name) <= 60
        assert name[0].isalpha()
        assert set(name) <= set("abcdefghijklmnopqrstuvwxyz0123456789-")


def test_low_work_in_an_mps_file_is_below_normal() -> None:
    """Priority of a client is normal (0) or below (1); other modes say nothing of it."""
    seats = [
        an_mps_seat("a", 100, 9, tenant=TenantId("t")),
        an_mps_seat("b", 40, 9, slot_class=SlotClass.LOW, client_priority=1),
    ]
    files = emitted("mps", a_plan(a_device(*seats, inside=SharingMode.MPS)))
    assert "CUDA_MPS_CLIENT_PRIORITY=0" in files["node1-gpu0-a-0.env"].text
    assert "CUDA_MPS_CLIENT_PRIORITY=1" in files["node1-gpu0-b-0.env"].text
