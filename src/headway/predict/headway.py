"""`headway`: integrate progress among neighbours, correct what is left, bound it.

A forecast rolls the device forward (`lanes`) over what runs, what waits and what is expected, which
gives the slowdown s of each batch; stretches each by how much of it its size feels, by its lane's
pace and its neighbours' pair effects (`speeds`); and multiplies by what predictions were still
wrong by of late (`residual`). Everything learnt starts from plain sharing of lanes, so the first
forecast is already that of processor sharing.

Knows models by what was learnt of them. Refuses to know requests, bounds and stages: `Shell` has
those.
"""

from collections.abc import Iterable, Mapping, Sequence

from headway.core import DeviceParams, SlotClass
from headway.predict.book import Device, Running, Stay
from headway.predict.frame import Frame, Transfers
from headway.predict.ground import CLASSES, Ground
from headway.predict.lanes import Load, Pot, Rolling, roll
from headway.predict.looks import Look, Moment, Passage
from headway.predict.outlook import Piece, roll_queue
from headway.predict.profile import ModelProfile
from headway.predict.residual import Residual
from headway.predict.services import Services

__all__ = ["HeadwayPredictor", "LaneExecutions"]

_WORK_RATE_MAX = 64.0
"""Lanes' worth of expected work beyond which more makes no difference."""
_PIECES_MAX = 16
"""Waiting batches that a request is followed behind one by one; the others are a fluid."""
_SMALL_NS = 1.0


class LaneExecutions:
    """Executions by processor sharing, corrected by all that was learnt.

    Invariants: a look never shrinks when a batch joins the device or a piece the backlog.
    """

    name = "headway"

    def __init__(self, ground: Ground) -> None:
        self._ground = ground
        self._residual = Residual()
        weights = ground.weights
        by_weight = sorted(CLASSES, key=lambda slot_class: -weights[slot_class])
        is_niced = weights[by_weight[0]] != weights[by_weight[-1]]
        self._groups = tuple([(each,) for each in by_weight]) if is_niced else (CLASSES,)
        """Classes that share a pot, the heaviest first."""

    def look(self, moment: Moment) -> list[Look]:
        """The device rolled forward."""
        device = moment.device
        batches = [*device.running.values()]
        if moment.candidate is not None:
            batches.insert(0, moment.candidate)
        loads = [_load(batch, device, moment.now_ns) for batch in batches]
        pots = () if moment.is_closed else self._pots(moment)
        ends = roll(loads, device.slots, pots, device.speeds.efficiency)
        beside_ns = _beside_ns(device, batches, ends)
        if moment.is_closed:
            return [_bare(*each) for each in zip(batches, loads, ends, beside_ns, strict=True)]
        return [self._look(*each) for each in zip(batches, loads, ends, beside_ns, strict=True)]

    def passage(self, moment: Moment, last: Piece) -> Passage:
        """The same, through the queue."""
        device, candidate = moment.device, moment.candidate
        assert candidate is not None
        loads = [_load(batch, device, moment.now_ns) for batch in device.running.values()]
        weights = self._ground.weights
        pieces = moment.backlog.pieces
        queue = [
            Load(0, weights[c], max(work_ns, _SMALL_NS)) for c, work_ns in pieces[:_PIECES_MAX]
        ]
        queue.append(Load(0, weights[last.slot_class], max(last.work_ns, _SMALL_NS)))
        pots = [self._ahead(moment), *self._arrivals(moment)]
        rolling = Rolling(device.slots, pots, device.speeds.efficiency)
        for load in loads:
            rolling.join(load.lane, load)
        through = roll_queue(rolling, queue)
        look = self._look(candidate, queue[-1], through.run_ns, 0.0)
        return Passage(through.start_ns, look.execution_ns)

    def learn(self, stay: Stay, execution_ns: int) -> None:
        """What the start's prediction was wrong by."""
        said = stay.running.said
        if said is not None:
            self._residual.learn(stay.running.size, said.slowdown, said.execution_ns, execution_ns)

    def state(self) -> dict[str, object]:
        """The residual; all else is the ground's."""
        return self._residual.state()

    def restore(self, state: dict[str, object]) -> None:
        """Take up what `state` gave."""
        self._residual.restore(state)

    def _look(self, batch: Running, load: Load, end_ns: float, beside_ns: float) -> Look:
        own_ns, slowdown = _bare(batch, load, end_ns, beside_ns)
        return Look(own_ns * self._residual.factor(batch.size, slowdown), slowdown)

    def _pots(self, moment: Moment) -> list[Pot]:
        """What waits and what is expected, by weight."""
        waiting = dict.fromkeys(CLASSES, 0.0)
        for slot_class, work_ns in moment.backlog.pieces:
            waiting[slot_class] += work_ns
        least = self._groups[-1][-1]
        waiting[least] += moment.backlog.beyond_ns
        return self._pots_of(moment, waiting)

    def _arrivals(self, moment: Moment) -> list[Pot]:
        return self._pots_of(moment, dict.fromkeys(CLASSES, 0.0))

    def _pots_of(self, moment: Moment, waiting: Mapping[SlotClass, float]) -> list[Pot]:
        ground = self._ground
        pots: list[Pot] = []
        for group in self._groups:
            inflow = ground.arrivals.inflow(moment.device.name, moment.now_ns, classes=group)
            work_ns = sum([waiting[slot_class] for slot_class in group])
            piece_ns = inflow.piece_ns or ground.piece_ns
            if piece_ns > 0.0:
                rate = min(inflow.work_rate, _WORK_RATE_MAX)
                pots.append(Pot(ground.weights[group[0]], work_ns, piece_ns, rate))
        return pots

    def _ahead(self, moment: Moment) -> Pot:
        """What goes before a request unfollowed: the rest of the queue, more important arrivals."""
        assert moment.candidate is not None
        ground = self._ground
        priority = moment.candidate.run.priority
        inflow = ground.arrivals.inflow(moment.device.name, moment.now_ns, above=priority)
        rest_ns = sum([piece.work_ns for piece in moment.backlog.pieces[_PIECES_MAX:]])
        rest_ns += moment.backlog.beyond_ns
        piece_ns = inflow.piece_ns or ground.piece_ns or _SMALL_NS
        weight = max(ground.weights.values())
        return Pot(weight, rest_ns, piece_ns, min(inflow.work_rate, _WORK_RATE_MAX))


def _bare(batch: Running, load: Load, end_ns: float, beside_ns: float) -> Look:
    """Without what predictions were still wrong by.

    That is learnt of forecasts in which what is expected counts, and would be wrong of others.
    """
    slowdown = max(end_ns / load.work_ns, 1.0)
    return Look(load.work_ns * (1.0 + batch.feel * (slowdown - 1.0)) + beside_ns, slowdown)


def _load(batch: Running, device: Device, now_ns: int) -> Load:
    """A batch's work at its lane's pace."""
    if batch.run.batch_id in device.running:
        left_ns = device.left_ns(batch, now_ns)
    else:
        left_ns = max(batch.base_ns, _SMALL_NS)
    return Load(batch.lane, batch.weight, left_ns * batch.pace)


def _beside_ns(
    device: Device, batches: Sequence[Running], ends: Sequence[float]
) -> Sequence[float]:
    """Σ_j ψ_ij · overlap_ij of each batch."""
    all_costs = device.speeds.costs
    totals = [0.0] * len(batches)
    if not all_costs:
        return totals
    models = [batch.run.model for batch in batches]
    for index, batch in enumerate(batches):
        costs = all_costs.get(batch.run.model)
        if costs is None:
            continue
        end_ns = ends[index]
        total = -costs.get(batch.run.model, 0.0) * end_ns  # it is no neighbour of its own
        for model, other_end_ns in zip(models, ends, strict=True):
            if model in costs:
                total += costs[model] * (min(other_end_ns, end_ns))
        totals[index] = max(0.0, total)
    return totals


class HeadwayPredictor(Frame):
    """The predictor of the `headway` policy, behind the port that all predictors share.

    Args:
        devices: what there is.
        profiles: what was measured beforehand.
        weights: share of a lane per class, where a slot's class counts for the device.
        confidence: of every bound.
        transfers: knows the links; without it transfers are what they usually were.
    """

    def __init__(
        self,
        devices: Sequence[DeviceParams] = (),
        profiles: Iterable[ModelProfile] = (),
        *,
        weights: Mapping[SlotClass, float] | None = None,
        confidence: float = 0.95,
        transfers: Transfers | None = None,
    ) -> None:
        profiles = tuple(profiles)
        ground = Ground(devices, profiles, weights)
        super().__init__(
            LaneExecutions(ground),
            ground,
            Services(profiles),
            confidence=confidence,
            transfers=transfers,
            is_corrected=True,
        )
