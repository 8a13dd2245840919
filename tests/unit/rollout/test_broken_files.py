"""Files that a hand has spoilt: each check says what is wrong and where.

Every case takes a file that an emitter made, which is valid, and changes one thing of it.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
import yaml
from tests.sharing_plans import a_mixed_plan

from headway.rollout import FORMATS, EmitOptions, check_file, shipped_definitions

Path = str


class Case(NamedTuple):
    """One way to break a file."""

    format: str
    file: str
    break_it: Callable[[Any], None]
    """Changes the documents of a YAML file."""
    fault: str
    """What is said, place and words."""


class TextCase(NamedTuple):
    """The same of files that are no YAML."""

    format: str
    file: str
    old: str
    new: str
    fault: str


def at(path: Path, value: object = None, *, document: int = 0) -> Callable[[Any], None]:
    """Set what stands at a dotted path, or take it away."""

    def break_it(documents: list[Any]) -> None:
        node = documents[document]
        *steps, last = [
            int(step) if step.isdigit() else step.replace("~", "/") for step in path.split("/")
        ]
        for step in steps:
            node = node[step]
        if value is None:
            del node[last]
        else:
            node[last] = value

    return break_it


def of(kind: str, path: Path, value: object = None) -> Callable[[Any], None]:
    """The same of the first object of a kind."""

    def break_it(documents: list[Any]) -> None:
        index = next(i for i, one in enumerate(documents) if one["kind"] == kind)
        at(path, value, document=index)(documents)

    return break_it


def inside(key: str, break_it: Callable[[Any], None]) -> Callable[[Any], None]:
    """A change of the YAML in a ConfigMap."""

    def break_map(documents: list[Any]) -> None:
        data = documents[0]["data"]
        name = key or next(iter(data))
        inner = [yaml.safe_load(data[name])]
        break_it(inner)
        data[name] = yaml.safe_dump(inner[0])

    return break_map


def first_config(path: Path, value: object = None) -> Callable[[Any], None]:
    """A change of the first configuration of mig-parted that is the plan's."""

    def break_it(documents: list[Any]) -> None:
        configs = documents[0]["mig-configs"]
        name = next(one for one in configs if one.startswith("headway-"))
        at(path, value)([configs[name]])

    return break_it


DEPLOYMENT = "spec/template/spec"
SERVER = f"{DEPLOYMENT}/containers/0"
DEVICES = "spec/devices"
CASES = [
    # mig-parted
    Case("mig-parted", "mig-parted.yaml", at("version", "v2"), "version: 'v1' was expected"),
    Case("mig-parted", "mig-parted.yaml", at("mig-config", {}), "'mig-config' was unexpected"),
    Case("mig-parted", "mig-parted.yaml", first_config("0/mig-enabled"), "'mig-enabled' is a req"),
    Case("mig-parted", "mig-parted.yaml", first_config("0/devices", []), "devices"),
    Case("mig-parted", "mig-parted.yaml", first_config("1/devices", [0]), "device 0 has an entry"),
    Case(
        "mig-parted",
        "mig-parted.yaml",
        first_config("0/mig-devices/3g.40gb", 3),
        "12 compute slices on one GPU",
    ),
    Case(
        "mig-parted",
        "mig-parted.yaml",
        first_config("0/mig-devices/3g-40gb", 1),
        "'3g-40gb' does not match",
    ),
    Case(
        "mig-parted",
        "mig-parted.yaml",
        first_config("1/mig-devices", {"1g.10gb": 1}),
        "is expected to be empty",
    ),
    Case(
        "mig-parted",
        "mig-parted.yaml",
        first_config("0/mig-devices", {"1g.10gb+me": 1, "1g.5gb+me": 1}),
        "2 instances with media extensions, which only one can have",
    ),
    # GPU operator
    Case("gpu-operator", "mig-configmap.yaml", at("data", ["config.yaml"]), "data"),
    Case("gpu-operator", "mig-configmap.yaml", at("metadata/nmae", "x"), "nmae"),
    Case(
        "gpu-operator",
        "mig-configmap.yaml",
        inside("config.yaml", first_config("0/mig-enabled", "yes, please")),
        "data[config.yaml].mig-configs",
    ),
    # device plugin
    Case(
        "device-plugin",
        "device-plugin.yaml",
        inside("", at("sharing/timeSlicing", {"resources": [{"name": "a", "replicas": 2}]})),
        "too many properties",
    ),
    Case(
        "device-plugin",
        "device-plugin.yaml",
        inside("", at("sharing/mps/resources/0/name", "nvidia.com/mig-1g.10gb")),
        "'nvidia.com/gpu' was expected",
    ),
    Case(
        "device-plugin",
        "device-plugin.yaml",
        inside("", at("sharing/mps/resources/0/replicas", 1)),
        "1 is less than the minimum of 2",
    ),
    Case(
        "device-plugin",
        "device-plugin.yaml",
        inside("headway-1", at("sharing/timeSlicing/resources/0/name", "nvidia.com/mig-1g.5gb")),
        "only with `migStrategy: mixed`",
    ),
    Case(
        "device-plugin",
        "device-plugin.yaml",
        inside("", at("flags/migStrategy", "many")),
        "'many' is not one of",
    ),
    Case(
        "device-plugin",
        "device-plugin.yaml",
        inside(
            "",
            at(
                "sharing/mps/resources", [{"name": "nvidia.com/gpu", "replicas": n} for n in (2, 3)]
            ),
        ),
        "`nvidia.com/gpu` stands there twice",
    ),
    # DRA
    Case("dra", "dra.yaml", of("ResourceClaim", f"{DEVICES}/requests/0/name"), "name"),
    Case(
        "dra",
        "dra.yaml",
        of("ResourceClaim", f"{DEVICES}/requests/0", {"name": "d", "deviceClassName": "x"}),
        "deviceClassName",
    ),
    Case(
        "dra",
        "dra.yaml",
        of("ResourceClaim", f"{DEVICES}/config/0/requests", ["gpu"]),
        "there is no request `gpu`",
    ),
    Case(
        "dra",
        "dra.yaml",
        of(
            "ResourceClaim",
            f"{DEVICES}/config/0/opaque/parameters/sharing/mpsConfig/defaultActiveThreadPercentage",
            120,
        ),
        "120 is greater than the maximum",
    ),
    Case(
        "dra",
        "dra.yaml",
        of("ResourceClaim", f"{DEVICES}/config/0/opaque/parameters/sharing/strategy", "Mps"),
        "'Mps' is not one of",
    ),
    # KServe
    Case("kserve", "kserve.yaml", of("InferenceService", "spec/predictor/modle", {}), "modle"),
    Case(
        "kserve",
        "kserve.yaml",
        of("InferenceService", "spec/predictor/model/modelFormat/name"),
        "'name' is a required",
    ),
    Case(
        "kserve",
        "kserve.yaml",
        of("InferenceService", "spec/predictor/minReplicas", "2"),
        "spec.predictor.minReplicas: '2' is not of type 'integer'",
    ),
    Case(
        "kserve",
        "kserve.yaml",
        of("ClusterServingRuntime", "spec/containers/0/name"),
        "'name' is a required",
    ),
    Case(
        "kserve",
        "kserve.yaml",
        of("ClusterServingRuntime", "metadata/namespace", "headway"),
        "is in no namespace",
    ),
    Case(
        "kserve",
        "kserve.yaml",
        of("InferenceService", "apiVersion", "serving.kserve.io/v1alpha2"),
        "known of this kind: serving.kserve.io/v1beta1",
    ),
    # HAMi
    Case(
        "hami",
        "hami.yaml",
        of("Deployment", f"{SERVER}/resources/limits/nvidia.com~gpucores", 130),
        "130 is greater than the maximum",
    ),
    Case(
        "hami",
        "hami.yaml",
        of("Deployment", f"{SERVER}/resources/limits/nvidia.com~gpumemory", 1),
        "'nvidia.com/gpumemory' is not one of",
    ),
    Case("hami", "hami.yaml", of("Deployment", f"{DEPLOYMENT}/schedulerName"), "schedulerName"),
    Case("hami", "hami.yaml", of("Deployment", "spec/replicas", "one"), "spec.replicas"),
    Case(
        "hami",
        "hami.yaml",
        of("Deployment", "spec/template/metadata/annotations/nvidia.com~vgpu-mode", "time-slice"),
        "'time-slice' is not one of",
    ),
    # KAI
    Case("kai", "kai.yaml", of("Queue", "spec/resources/gpu/quota", "all"), "quota"),
    Case("kai", "kai.yaml", of("Queue", "spec/resourcse", {}), "resourcse"),
    Case(
        "kai",
        "kai.yaml",
        of("Deployment", "spec/template/metadata/labels/kai.scheduler~queue"),
        "'kai.scheduler/queue' is a required",
    ),
    Case(
        "kai",
        "kai.yaml",
        of("Deployment", "spec/template/metadata/annotations", {"gpu-fraction": "1.5"}),
        "'1.5' does not match",
    ),
    # Kueue
    Case(
        "kueue",
        "kueue.yaml",
        of("ClusterQueue", "spec/preemption/withinClusterQueue", "Lower"),
        "'Lower' is not one of",
    ),
    Case(
        "kueue",
        "kueue.yaml",
        of("ClusterQueue", "spec/resourceGroups/0/flavors/0/resources/0"),
        "flavors must have the same number of resources",
    ),
    Case(
        "kueue",
        "kueue.yaml",
        of(
            "ClusterQueue",
            "spec/preemption",  # to reclaim is `Never` where nothing else is said
            {"borrowWithinCohort": {"policy": "LowerPriority"}},
        ),
        "reclaimWithinCohort=Never and borrowWithinCohort.Policy!=Never",
    ),
    Case("kueue", "kueue.yaml", of("ResourceFlavor", "spec/nodeLabels", {}), "at least one nodeL"),
    Case(
        "kueue",
        "kueue.yaml",
        of(
            "Topology", "spec/levels", [{"nodeLabel": "kubernetes.io/hostname"}, {"nodeLabel": "a"}]
        ),
        "hostname label can only be used at the",
    ),
    Case(
        "kueue",
        "kueue.yaml",
        of("LocalQueue", "apiVersion", "kueue.x-k8s.io/v1alpha1"),
        "known of this kind: kueue.x-k8s.io/v1beta2",
    ),
    # a server's own
    Case(
        "serve", "speech.yaml", at("models/0/batch/rows_max", 0), "0 is less than the minimum of 1"
    ),
    Case("serve", "speech.yaml", at("models/0/name"), "'name' is a required property"),
    Case("serve", "speech.yaml", at("models", []), "models: [] should be non-empty"),
    # Ansible
    Case("ansible", "playbook.yaml", at("0/hosts"), "'hosts' is a required"),
    Case("ansible", "playbook.yaml", at("0/tasks/0/name"), "'name' is a required"),
    Case("ansible", "playbook.yaml", at("0/tasks/0/ansible.builtin.shell", {}), "shell"),
    Case(
        "ansible", "playbook.yaml", at("0/tasks/0/ansible.builtin.command/argv", []), "command.argv"
    ),
]
TEXT_CASES = [
    # nvidia-smi
    TextCase("nvidia-smi", "node1-mig.sh", "create 0 2g.20gb 4 2", "create 0 2g.20gb 2 2", "cells"),
    TextCase("nvidia-smi", "node1-mig.sh", "mode 0 Enabled", "mode 0 On", "`mode 0 On` is no"),
    TextCase("nvidia-smi", "node1-mig.sh", "create 0 3g.40gb", "create 0 3g", "is no command"),
    TextCase("nvidia-smi", "node1-mig.sh", "set -euo pipefail", "# set -e", "it goes on after"),
    TextCase("nvidia-smi", "node1-mig.sh", "#!/usr/bin/env bash", "#", "it has no `#!` line"),
    # MPS
    TextCase("mps", "node1-mps-start.sh", "percentage 100", "percentage 0", "is no command"),
    TextCase("mps", "node1-mps-start.sh", "limit 0 30720M", "limit 0 30720", "is no command"),
    TextCase("mps", "node1-gpu1-embed-0.env", "=50", "=150", "`150` is no value of `CUDA_MPS_ACT"),
    TextCase("mps", "node1-gpu1-embed-0.env", "0=30720M", "30720M", "`30720M` is no value"),
    TextCase("mps", "node1-gpu1-embed-0.env", "CUDA_MPS_PIPE", "CUDA_PIPE", "no setting of an MPS"),
    TextCase("mps", "node1-mps.toml", 'client_priority = "1"', "client_priority = 2", "priority"),
    TextCase("mps", "node1-mps.toml", "schema_version", "version", "'schema_version' is a req"),
    TextCase("mps", "node1-mps.toml", '"30720M"', '"30 GB"', "'30 GB' does not match"),
    TextCase("mps", "node1-mps.toml", "[servers.gpu1]", "[servers.gpu1", "this is not TOML"),
    # KEDA and labels
    TextCase("keda", "keda.yaml", "type: prometheus", "typ: prometheus", "typ"),
    TextCase("keda", "keda.yaml", "threshold: '", "threshold: 'x", "threshold"),
    TextCase("keda", "keda.yaml", "minReplicaCount: 1", "minReplicaCount: 9", "minReplicaCount"),
    TextCase("keda", "keda.yaml", "serverAddress: http://", "serverAddress: ", "serverAddress"),
    TextCase(
        "kueue", "label-nodes.sh", "kubectl label node node1", "kubectl label node", "is no c"
    ),
    TextCase("gpu-operator", "label-nodes.sh", "=success", "=", "is no command"),
    TextCase("gpu-operator", "mig-configmap.yaml", "kind: ConfigMap", "kind: [", "not YAML"),
    TextCase(
        "gpu-operator", "mig-configmap.yaml", "mig-enabled: true", "mig-enabled: [", "data[config.y"
    ),
    TextCase(
        "gpu-operator", "mig-configmap.yaml", "apiVersion: v1", "apiVersion: V1", "no version"
    ),
    TextCase(
        "gpu-operator", "mig-configmap.yaml", "kind: ConfigMap", "kind: ConfigMab", "has no `C"
    ),
    TextCase("gpu-operator", "mig-configmap.yaml", "kind: ConfigMap", "kind: 7", "`7` is no kind"),
]


def text_of(format_name: str, file: str) -> str:
    plan = a_mixed_plan()
    if format_name == "keda":  # scales only what has two places
        from tests.sharing_plans import a_device, a_plan, a_seat

        plan = a_plan(a_device(a_seat()), a_device(a_seat(replica=1), index=1))
    emission = FORMATS[format_name].emit(plan, EmitOptions())
    return next(one.text for one in emission.files if one.name == file)


def faults(file: str, text: str) -> str:
    found = check_file(file, text, shipped_definitions()).faults
    return "\n".join(f"{fault.place}: {fault.message}" for fault in found)


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.format}-{case.fault[:30]}")
def test_broken_values_are_caught(case: Case) -> None:
    """One thing changed in a valid file, and it is no longer valid, for that reason."""
    text = text_of(case.format, case.file)
    before, after = (list(yaml.load_all(text, Loader=yaml.CSafeLoader)) for _ in range(2))
    case.break_it(after)
    changed = [new for new, old in zip(after, before, strict=True) if new != old]
    found = faults(case.file, yaml.safe_dump_all(changed))
    assert found
    assert case.fault in found


@pytest.mark.parametrize("case", TEXT_CASES, ids=lambda case: f"{case.format}-{case.new[:30]}")
def test_broken_texts_are_caught(case: TextCase) -> None:
    """The same of scripts, environments, TOML, and of text that is no YAML any more."""
    text = text_of(case.format, case.file)
    assert case.old in text
    assert case.fault in faults(case.file, text.replace(case.old, case.new, 1))


def test_object_that_stands_twice_is_caught() -> None:
    """The second would undo the first."""
    text = text_of("kueue", "kueue.yaml")
    assert "stands there twice" in faults("kueue.yaml", f"{text}---\n{text}")


def test_file_of_no_known_format_is_a_fault() -> None:
    """Nothing is called valid that was not looked at."""
    assert "are not known" in faults("plan.ini", "a=1")
    assert "it is no configuration" in faults("other.yaml", "a: 1")
    assert "it is empty" in faults("other.yaml", "")
