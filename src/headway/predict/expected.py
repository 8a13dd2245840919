"""Tomorrow's arrivals, guessed from today's: how much work each class brings, and in what pieces.

Two memories: a short one for how many arrive (so that a doubled rate is believed after a few dozen
arrivals), a longer one for what an arrival is worth and which device it goes to.

Knows when requests were admitted and what they are worth. Refuses to know a clock: a rate fades
with the instants that it is asked at.
"""

from typing import Final, NamedTuple

from headway.core import DeviceName, ModelName, SlotClass

__all__ = ["ArrivalRates", "Inflow"]

_RATE_MEMORY: Final = 40.0
"""Arrivals over which the rate is measured."""
_MIX_MEMORY: Final = 200.0
"""Arrivals over which their worth is."""
_COUNT_MIN: Final = 2.5
"""Arrivals before which there is no rate."""
_LITTLE: Final = 1e-9
_LEVELS_MAX: Final = 64
"""Distinct (device, priority, class) that are told apart; further ones share the last."""
_MODELS_MAX: Final = 1024
_TOTALS_MAX: Final = 64
"""Sums that are kept between two arrivals: clients choose priorities, and may only ask."""

Level = tuple[DeviceName, int, SlotClass]


class Inflow(NamedTuple):
    """Work that is expected to arrive."""

    work_rate: float
    """Solo nanoseconds of work per elapsed nanosecond: 1 keeps one lane busy."""
    piece_ns: float
    """Mean solo work of an arrival; 0 where none is expected."""


NOTHING: Final = Inflow(0.0, 0.0)


class ArrivalRates:
    """Work per time of each priority and class, by device.

    Invariants: rates are finite and >= 0; an arrival at an instant before the last counts as at it.
    """

    def __init__(self) -> None:
        self._count = 0.0
        self._span_ns = 0.0
        self._last_at_ns: int | None = None
        self._arrivals = 0.0
        """Decayed by `_MIX_MEMORY`."""
        self._parts: dict[Level, list[float]] = {}
        """Decayed count and work of each level."""
        self._shares: dict[ModelName, dict[DeviceName, float]] = {}
        self._totals: dict[tuple[object, ...], tuple[float, float]] = {}
        """Sums over levels that were asked for since the last arrival."""

    def arrive(
        self, model: ModelName, priority: int, slot_class: SlotClass, work_ns: float, now_ns: int
    ) -> None:
        """A request was admitted, worth this much solo work."""
        if self._last_at_ns is not None:
            keep = 1.0 - 1.0 / _RATE_MEMORY
            self._span_ns = self._span_ns * keep + max(0, now_ns - self._last_at_ns)
            self._count = self._count * keep + 1.0
        self._last_at_ns = max(now_ns, self._last_at_ns or now_ns)
        self._totals.clear()
        keep = 1.0 - 1.0 / _MIX_MEMORY
        self._arrivals = self._arrivals * keep + 1.0
        for part in self._parts.values():
            part[0] *= keep
            part[1] *= keep
        for device, share in self._shares.get(model, {}).items():
            part = self._part((device, priority, slot_class))
            part[0] += share
            part[1] += share * work_ns

    def went(self, model: ModelName, device: DeviceName) -> None:
        """A batch of the model was started there."""
        shares = self._shares.get(model)
        if shares is None:
            if len(self._shares) >= _MODELS_MAX:
                return
            shares = self._shares[model] = {device: 1.0}
        step = 1.0 / _RATE_MEMORY
        for name in shares:
            shares[name] *= 1.0 - step
        shares[device] = shares.get(device, 0.0) + step

    def device_of(self, model: ModelName) -> DeviceName | None:
        """Where most batches of a model were started of late; None before the first."""
        shares = self._shares.get(model)
        return max(shares, key=shares.__getitem__) if shares else None

    def inflow(
        self,
        device: DeviceName,
        now_ns: int,
        *,
        classes: tuple[SlotClass, ...] | None = None,
        above: int | None = None,
    ) -> Inflow:
        """What will arrive for a device.

        Args:
            device: where it is expected to go.
            now_ns: an instant not before the last arrival.
            classes: only of these; of all without it.
            above: only what is more important than this priority.
        """
        if self._count < _COUNT_MIN or self._last_at_ns is None:
            return NOTHING
        key = (device, classes, above)
        total = self._totals.get(key)
        if total is None:
            if len(self._totals) >= _TOTALS_MAX:
                self._totals.clear()
            total = self._totals[key] = self._total(device, classes, above)
        count, work_ns = total
        span_ns = self._span_ns + max(0, now_ns - self._last_at_ns)
        if count <= _LITTLE or work_ns <= 0.0 or span_ns <= 0.0:
            return NOTHING
        rate = self._count / span_ns
        return Inflow(rate * work_ns / self._arrivals, work_ns / count)

    def _total(
        self, device: DeviceName, classes: tuple[SlotClass, ...] | None, above: int | None
    ) -> tuple[float, float]:
        """Decayed count and work of what is meant."""
        count = work_ns = 0.0
        for (name, priority, slot_class), part in self._parts.items():
            is_meant = name == device and (classes is None or slot_class in classes)
            if is_meant and (above is None or priority < above):
                count += part[0]
                work_ns += part[1]
        return count, work_ns

    def _part(self, level: Level) -> list[float]:
        part = self._parts.get(level)
        if part is None:
            if len(self._parts) >= _LEVELS_MAX:
                return next(reversed(self._parts.values()))
            part = self._parts[level] = [0.0, 0.0]
        return part
