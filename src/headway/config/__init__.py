"""The configuration: one validated model, where its values came from, and what is built from it.

Knows YAML, pydantic and the environment, of which it is the only reader. Must never be imported by
a lower layer: those take plain values.

The file of `headway plan` is read by what is imported when it is first asked for: a server does
without the planner. So is what generators are built from: most commands do without arrays.
"""

from typing import TYPE_CHECKING

from headway.config.batching import BatchConfig, Oversize
from headway.config.build import (
    Tier,
    emulated_machine,
    kernel_params,
    model_params,
    model_spec,
    service_tiers,
    tensor_specs,
    tier_of,
    tiers,
    usable_cores,
    worker_groups,
)
from headway.config.checks import warnings_of
from headway.config.document import build_from_file
from headway.config.environment import cache_folder, wants_colour
from headway.config.functions import StepFunction, function_name, functions_of
from headway.config.generators import GeneratorConfig, GeneratorTierConfig
from headway.config.load import (
    ConfigRow,
    LoadedConfig,
    Source,
    SourceKind,
    config_for_model_file,
    config_rows,
    load_config,
    load_target,
    with_model,
)
from headway.config.outline import config_schema
from headway.config.pipelines import (
    INPUT,
    PipelineConfig,
    Reference,
    StepConfig,
    reference_of,
)
from headway.config.policies import (
    Batch3PolicyConfig,
    ClockworkPolicyConfig,
    EdfPolicyConfig,
    FifoPolicyConfig,
    HeadwayPolicyConfig,
    LaneEdfPolicyConfig,
    NexusPolicyConfig,
    PciePolicyConfig,
    PolicyConfig,
    PriorityPolicyConfig,
    StaticCapPolicyConfig,
    StraitPolicyConfig,
)
from headway.config.quantities import DURATION_FORMAT, SIZE_FORMAT
from headway.config.schema import (
    Backend,
    Config,
    CpuDeviceConfig,
    DeviceConfig,
    EmulatedDeviceConfig,
    Isolation,
    JournalConfig,
    Late,
    LimitsConfig,
    LogConfig,
    LogFormat,
    LogLevel,
    ModelConfig,
    NicenessConfig,
    PredictorConfig,
    QueueConfig,
    TensorConfig,
    TierConfig,
    WarmupConfig,
    WindowedPciePredictorConfig,
)
from headway.config.server import AdminConfig, ServerConfig, TlsConfig
from headway.config.tenancy import KeyConfig, QuotaConfig, RatesConfig, TenancyConfig, TenantConfig
from headway.config.tenants import admin_keys, policy_of, tenant_params

if TYPE_CHECKING:
    from headway.config.generator_build import GeneratorPlan, generator_plans
    from headway.config.sharing_build import SharingQuestion, load_sharing, sharing_schema

__all__ = [
    "DURATION_FORMAT",
    "INPUT",
    "SIZE_FORMAT",
    "AdminConfig",
    "Backend",
    "Batch3PolicyConfig",
    "BatchConfig",
    "ClockworkPolicyConfig",
    "Config",
    "ConfigRow",
    "CpuDeviceConfig",
    "DeviceConfig",
    "EdfPolicyConfig",
    "EmulatedDeviceConfig",
    "FifoPolicyConfig",
    "GeneratorConfig",
    "GeneratorPlan",
    "GeneratorTierConfig",
    "HeadwayPolicyConfig",
    "Isolation",
    "JournalConfig",
    "KeyConfig",
    "LaneEdfPolicyConfig",
    "Late",
    "LimitsConfig",
    "LoadedConfig",
    "LogConfig",
    "LogFormat",
    "LogLevel",
    "ModelConfig",
    "NexusPolicyConfig",
    "NicenessConfig",
    "Oversize",
    "PciePolicyConfig",
    "PipelineConfig",
    "PolicyConfig",
    "PredictorConfig",
    "PriorityPolicyConfig",
    "QueueConfig",
    "QuotaConfig",
    "RatesConfig",
    "Reference",
    "ServerConfig",
    "SharingQuestion",
    "Source",
    "SourceKind",
    "StaticCapPolicyConfig",
    "StepConfig",
    "StepFunction",
    "StraitPolicyConfig",
    "TenancyConfig",
    "TenantConfig",
    "TensorConfig",
    "Tier",
    "TierConfig",
    "TlsConfig",
    "WarmupConfig",
    "WindowedPciePredictorConfig",
    "admin_keys",
    "build_from_file",
    "cache_folder",
    "config_for_model_file",
    "config_rows",
    "config_schema",
    "emulated_machine",
    "function_name",
    "functions_of",
    "generator_plans",
    "kernel_params",
    "load_config",
    "load_sharing",
    "load_target",
    "model_params",
    "model_spec",
    "policy_of",
    "reference_of",
    "service_tiers",
    "sharing_schema",
    "tenant_params",
    "tensor_specs",
    "tier_of",
    "tiers",
    "usable_cores",
    "wants_colour",
    "warnings_of",
    "with_model",
    "worker_groups",
]


def __getattr__(name: str) -> object:
    if name in {"SharingQuestion", "load_sharing", "sharing_schema"}:
        from headway.config import sharing_build

        return getattr(sharing_build, name)
    if name in {"GeneratorPlan", "generator_plans"}:
        from headway.config import generator_build

        return getattr(generator_build, name)
    raise AttributeError(f"module `{__name__}` has no attribute `{name}`")
