"""Predictors by name: what a configuration or a journal's header says, built.

Knows which class stands behind a name, and what each needs beside what all take.
"""

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Final, NamedTuple, Protocol

from headway.core import DeviceParams, ModelName, Predictor, Run, SlotClass
from headway.predict.fixed_model import FixedModel
from headway.predict.frame import Frame
from headway.predict.headway import HeadwayPredictor
from headway.predict.max10 import Max10Model
from headway.predict.pairwise import PairwiseModel
from headway.predict.profile import ModelProfile
from headway.predict.recipe import Recipe
from headway.predict.rls import RlsModel
from headway.predict.run_transfers import RunBytes, RunTransfers
from headway.predict.scene import ExecutionModel
from headway.predict.shell import Shell
from headway.predict.thrift import Thrifty
from headway.predict.transfer import TransferModel
from headway.predict.windowed_pcie import WindowedPcieModel

__all__ = ["PREDICTORS", "Built", "Trainable", "build", "build_predictor"]


class Trainable(Protocol):
    """What fits itself anew now and then, which takes too long to do between two kernel steps."""

    def due(self) -> int | None:
        """Observations up to which a fit should now be made; None while the last one will do."""

    def train(self, count: int) -> None:
        """Make that fit and lay it by; may run in a thread."""

    def install(self, count: int) -> None:
        """Answer by that fit from now on; it is made here if it is missing."""


class Built(NamedTuple):
    """A predictor, and what of it is fitted in the background."""

    predictor: Predictor
    trainable: Trainable | None
    """None where nothing is, or where it is fitted as it learns."""


class _Boosted(Shell):
    """A shell that hands on which fit its trees are to be."""

    def __init__(self, recipe: Recipe, devices: Sequence[DeviceParams]) -> None:
        from headway.predict.boosted import BoostedModel  # here, for nobody else needs its library

        fallback = RlsModel(_by_model(recipe))
        self.model = BoostedModel(fallback, trains_inline=recipe.trains_inline)
        super().__init__(
            self.model,
            devices,
            recipe.profiles,
            weights=_weights(recipe, devices),
            confidence=recipe.confidence,
        )

    def install(self, count: int) -> None:
        """Answer with the trees of the first `count` observations."""
        self.model.install(count)


_MODELS: Final[Mapping[str, Callable[[Recipe], ExecutionModel]]] = MappingProxyType(
    {
        "fixed": lambda recipe: FixedModel(),  # noqa: ARG005 - as its siblings
        "max10": lambda recipe: Max10Model(),  # noqa: ARG005 - as its siblings
        "pairwise": lambda recipe: _pairwise(recipe),
        "rls": lambda recipe: RlsModel(_by_model(recipe)),
    }
)

PREDICTORS: Final = ("headway", "windowed-pcie", *_MODELS, "boosted")
"""Every name, the default first."""


def build_predictor(recipe: Recipe, devices: Sequence[DeviceParams]) -> Predictor:
    """The named predictor.

    Raises:
        ValueError: there is none of this name.
        HeadwayError: it needs a package that is not installed.
    """
    return build(recipe, devices).predictor


def build(recipe: Recipe, devices: Sequence[DeviceParams]) -> Built:
    """The named predictor, and what of it is to be fitted in the background.

    Raises:
        ValueError: there is none of this name.
        HeadwayError: it needs a package that is not installed.
    """
    if recipe.kind not in PREDICTORS:
        raise ValueError(f"there is no predictor `{recipe.kind}`, only {', '.join(PREDICTORS)}")
    frame = _frame(recipe, devices)
    predictor = Thrifty(frame, recipe.looks_per_s)
    if recipe.state:
        predictor.restore(recipe.state)
    if isinstance(frame, _Boosted) and not recipe.trains_inline:
        return Built(predictor, frame.model)
    return Built(predictor, None)


def _frame(recipe: Recipe, devices: Sequence[DeviceParams]) -> Frame:
    if recipe.kind == "boosted":
        return _Boosted(recipe, devices)
    profiles, confidence, weights = recipe.profiles, recipe.confidence, _weights(recipe, devices)
    if recipe.kind == "headway":
        return HeadwayPredictor(
            devices, profiles, weights=weights, confidence=confidence, transfers=_transfers(recipe)
        )
    if recipe.kind == "windowed-pcie":
        windowed = WindowedPcieModel(
            _pairwise(recipe),
            bytes_per_second=float(recipe.link_bytes_per_s),
            profiles=_by_model(recipe),
        )
        return Shell(
            windowed,
            devices,
            profiles,
            weights=weights,
            confidence=confidence,
            transfers=windowed.transfers,
        )
    model = _MODELS[recipe.kind](recipe)
    return Shell(model, devices, profiles, weights=weights, confidence=confidence)


def _pairwise(recipe: Recipe) -> PairwiseModel:
    return PairwiseModel(_by_model(recipe), ridge_flop_per_byte=recipe.ridge_flop_per_byte)


def _by_model(recipe: Recipe) -> dict[ModelName, ModelProfile]:
    return {profile.model: profile for profile in recipe.profiles}


def _weights(recipe: Recipe, devices: Sequence[DeviceParams]) -> Mapping[SlotClass, float] | None:
    """Shares of a lane by class; predictors have one pair for all devices, the first one's."""
    if not devices or not recipe.has_classes:
        return None
    first = devices[0]
    return {SlotClass.HIGH: first.weight_high, SlotClass.LOW: first.weight_low}


def _transfers(recipe: Recipe) -> RunTransfers | None:
    """On the tree, with the bytes that a batch brings and those that its profile says come out."""
    if recipe.links is None:
        return None
    profiles = _by_model(recipe)

    def bytes_of(run: Run) -> RunBytes:
        profile = profiles.get(run.model)
        if profile is None:
            return RunBytes(run.payload_bytes, 0)
        in_bytes = run.payload_bytes or profile.transfer_in_bytes * run.rows
        return RunBytes(in_bytes, profile.transfer_out_bytes * run.rows)

    return RunTransfers(TransferModel(recipe.links), bytes_of)
