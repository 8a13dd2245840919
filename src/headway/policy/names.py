"""The names of all policies, and the predictor that each was made for.

The one list: the configuration, the command line and the wiring are compared with it. Refuses to
know what a policy is made of.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

__all__ = ["POLICY_PREDICTORS"]

POLICY_PREDICTORS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "fifo": "",
        "priority": "",
        "edf": "",
        "static-cap": "",
        "lane-edf": "",
        "batch3": "",
        "clockwork": "max10",
        "nexus": "fixed",
        "pcie": "",
        "strait": "windowed-pcie",
        "headway": "headway",
    }
)
"""Name -> the predictor it has unless another is asked for; empty where any will do."""
