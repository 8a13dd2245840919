"""What would become of a device if a batch were started on it now: whom it would make late.

One step of the kernel asks for many buckets, and while the same runs what was forecast only comes
nearer; so it is forecast once for many steps. Knows forecasts and deadlines. Refuses to choose.
"""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from headway.core import (
    BatchId,
    BatchView,
    DeviceName,
    DeviceView,
    Forecast,
    Predictor,
    Run,
    SlotClass,
    SlotIndex,
    SlotOption,
)

__all__ = ["Prospect", "Prospects"]

_FRESH_RATIO: Final = 0.7
"""Part of the time to the next end for which forecasts hold; what ran on beyond its forecast
matters only close to the end."""
_EASY_TIMES: Final = 2.0
"""Nothing that starts on a lane of its own makes others, or is itself, so many times as long."""


class Prospect(NamedTuple):
    """A start on one lane."""

    option: SlotOption
    own_ns: float
    """Until it would end."""
    delays_ns: float
    """What it costs those on its lane that are its equals or more important, together."""
    stretch_ratio: float
    """What is left of those that run on the device, with it over without it; their mean."""
    is_harmless: bool
    """Nobody whom it must not harm would be late because of it."""


class _Left(NamedTuple):
    """What was forecast of a device, and for how long that holds."""

    batch_ids: tuple[BatchId, ...]
    forecasts: Mapping[BatchId, Forecast]
    made_at_ns: int
    until_ns: float


class _Would(NamedTuple):
    """What was forecast for a start."""

    at_ns: int
    run: Run
    own: Forecast
    others: Mapping[BatchId, Forecast]


class Prospects:
    """Forecasts of what runs, and of what would run beside it.

    Args:
        predictor: is asked.
        caution_ratio: where between mean and bound a forecast is read where others may be harmed.
    """

    def __init__(self, predictor: Predictor, caution_ratio: float) -> None:
        self._predictor = predictor
        self._caution_ratio = caution_ratio
        self._left: dict[DeviceName, _Left] = {}
        self._would: dict[tuple[DeviceName, SlotIndex], _Would] = {}
        """What was forecast last for a start in a slot: if it starts, that is what is so then."""

    def left_ns(self, device: DeviceView, batch: BatchView, now_ns: int) -> float:
        """Until a running batch ends, as things stand."""
        left = self._of_device(device, now_ns)
        forecast = left.forecasts.get(batch.batch_id)
        return 0.0 if forecast is None else _at(forecast.mean_ns, left, now_ns)

    def free_ns(self, device: DeviceView, mates: Sequence[BatchView], now_ns: int) -> float:
        """Until the last of some batches ends."""
        return max([self.left_ns(device, batch, now_ns) for batch in mates], default=0.0)

    def is_easy(
        self,
        device: DeviceView,
        slot_class: SlotClass,
        own_left_ns: float,
        own_ns: float,
        now_ns: int,
    ) -> bool:
        """Whether a start on an idle lane needs no forecast: everyone has time to spare.

        Where lanes divide the device, what starts on a lane of its own makes nobody so many times
        as long, and takes itself no longer than that.

        Args:
            device: has the lane.
            slot_class: of what would start.
            own_left_ns: until its deadline.
            own_ns: what it takes alone.
            now_ns: when.
        """
        if device.shares_all or _EASY_TIMES * own_ns > own_left_ns:
            return False
        for batch in device.running():
            if slot_class is SlotClass.LOW or batch.slot_class is SlotClass.HIGH:
                left_ns = self.left_ns(device, batch, now_ns)
                if left_ns <= batch.deadline_at_ns - now_ns < _EASY_TIMES * left_ns:
                    return False
        return True

    def of(
        self,
        run: Run,
        option: SlotOption,
        device: DeviceView,
        mates: Sequence[BatchView],
        now_ns: int,
    ) -> Prospect:
        """What would become of the device.

        Args:
            run: would be started.
            option: where.
            device: of the option.
            mates: batches on the lane that are not less important.
            now_ns: when.
        """
        before = self._of_device(device, now_ns)
        own, *others = self._predictor.beside(run, device.name, now_ns)
        after = {forecast.batch_id: forecast for forecast in others}
        self._would[device.name, run.slot] = _Would(now_ns, run, own, after)
        spared = (SlotClass.HIGH,) if run.slot_class is SlotClass.HIGH else tuple(SlotClass)
        is_harmless = True
        stretches = []
        for batch in device.running():
            was, would = before.forecasts.get(batch.batch_id), after.get(batch.batch_id)
            if was is None or would is None:
                continue
            was_ns = _at(was.mean_ns, before, now_ns)
            if was_ns > 0.0:
                stretches.append(would.mean_ns / was_ns)
            if batch.slot_class not in spared:
                continue
            left_ns = batch.deadline_at_ns - now_ns
            was_ns = _at(self._cautious_ns(was), before, now_ns)
            if was_ns <= left_ns < self._cautious_ns(would):
                is_harmless = False
        delays_ns = 0.0
        for batch in mates:
            was, would = before.forecasts.get(batch.batch_id), after.get(batch.batch_id)
            if was is not None and would is not None:
                delays_ns += max(0.0, would.mean_ns - _at(was.mean_ns, before, now_ns))
        stretch_ratio = sum(stretches) / len(stretches) if stretches else 1.0
        return Prospect(option, float(own.mean_ns), delays_ns, stretch_ratio, is_harmless)

    def _cautious_ns(self, forecast: Forecast) -> float:
        return forecast.mean_ns + self._caution_ratio * (forecast.bound_ns - forecast.mean_ns)

    def _of_device(self, device: DeviceView, now_ns: int) -> _Left:
        """Of what runs, asked once while the same runs and no end has come much nearer."""
        running = device.running()
        ids = tuple([batch.batch_id for batch in running])
        known = self._left.get(device.name)
        if known is not None and known.batch_ids == ids and now_ns <= known.until_ns:
            return known
        forecasts = self._as_foreseen(device.name, running, now_ns)
        if forecasts is None:
            said = self._predictor.beside(None, device.name, now_ns) if ids else ()
            forecasts = {forecast.batch_id: forecast for forecast in said}
        nearest_ns = min([forecast.mean_ns for forecast in forecasts.values()], default=0)
        left = _Left(ids, forecasts, now_ns, now_ns + _FRESH_RATIO * nearest_ns)
        self._left[device.name] = left
        return left

    def _as_foreseen(
        self, name: DeviceName, running: Sequence[BatchView], now_ns: int
    ) -> Mapping[BatchId, Forecast] | None:
        """What was forecast this instant for the start that has been made since; None of others."""
        for batch in running:
            would = self._would.get((name, batch.slot))
            if would is None or would.at_ns != now_ns or batch.started_at_ns != now_ns:
                continue
            is_same = (batch.model, batch.rows) == (would.run.model, would.run.rows)
            if is_same and len(would.others) == len(running) - 1:
                return {**would.others, batch.batch_id: would.own}
        return None


def _at(forecast_ns: float, left: _Left, now_ns: int) -> float:
    """What is left now of what was forecast then."""
    return max(0.0, forecast_ns - (now_ns - left.made_at_ns))
