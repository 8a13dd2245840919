"""Predictors by name: what a configuration or a journal's header says, built.

Knows which class stands behind a name, and what each needs beside what all take.
"""

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Final

from headway.core import DeviceParams, ModelName, Predictor
from headway.predict.fixed_model import FixedModel
from headway.predict.frame import Frame
from headway.predict.headway import HeadwayPredictor
from headway.predict.max10 import Max10Model
from headway.predict.pairwise import PairwiseModel
from headway.predict.profile import ModelProfile
from headway.predict.recipe import Recipe
from headway.predict.rls import RlsModel
from headway.predict.scene import ExecutionModel
from headway.predict.shell import Shell
from headway.predict.thrift import Thrifty
from headway.predict.windowed_pcie import WindowedPcieModel

__all__ = ["PREDICTORS", "build_predictor"]


def _by_model(recipe: Recipe) -> dict[ModelName, ModelProfile]:
    return {profile.model: profile for profile in recipe.profiles}


def _boosted(recipe: Recipe) -> ExecutionModel:
    from headway.predict.boosted import BoostedModel  # here, for nobody else needs its library

    return BoostedModel(RlsModel(_by_model(recipe)), trains_inline=recipe.trains_inline)


_MODELS: Final[Mapping[str, Callable[[Recipe], ExecutionModel]]] = MappingProxyType(
    {
        "fixed": lambda recipe: FixedModel(),  # noqa: ARG005 - as its siblings
        "max10": lambda recipe: Max10Model(),  # noqa: ARG005 - as its siblings
        "pairwise": lambda recipe: PairwiseModel(_by_model(recipe)),
        "rls": lambda recipe: RlsModel(_by_model(recipe)),
        "boosted": _boosted,
    }
)

PREDICTORS: Final = ("headway", "windowed-pcie", *_MODELS)
"""Every name, the default first."""


def build_predictor(recipe: Recipe, devices: Sequence[DeviceParams]) -> Predictor:
    """The named predictor.

    Raises:
        ValueError: there is none of this name.
        HeadwayError: it needs a package that is not installed.
    """
    if recipe.kind not in PREDICTORS:
        raise ValueError(f"there is no predictor `{recipe.kind}`, only {', '.join(PREDICTORS)}")
    predictor = Thrifty(_frame(recipe, devices), recipe.looks_per_s)
    if recipe.state:
        predictor.restore(recipe.state)
    return predictor


def _frame(recipe: Recipe, devices: Sequence[DeviceParams]) -> Frame:
    profiles, confidence = recipe.profiles, recipe.confidence
    if recipe.kind == "headway":
        return HeadwayPredictor(devices, profiles, confidence=confidence)
    if recipe.kind == "windowed-pcie":
        windowed = WindowedPcieModel(
            PairwiseModel(_by_model(recipe)),
            bytes_per_second=float(recipe.link_bytes_per_s),
            profiles=_by_model(recipe),
        )
        return Shell(
            windowed, devices, profiles, confidence=confidence, transfers=windowed.transfers
        )
    return Shell(_MODELS[recipe.kind](recipe), devices, profiles, confidence=confidence)
