"""A kernel under `headway` whose predictor starts from profiles, for dialogues about its rules.

Batches of a lane share it evenly, so what is expected can be worked out by hand.
"""

from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from headway.core import (
    DeviceParams,
    Dispatch,
    Expire,
    ExpireReason,
    RequestArrived,
    SlotClass,
)
from headway.policy import HeadwaySettings, headway
from headway.predict import ModelProfile, Recipe, SoloTime, build_predictor
from headway.testing import Dialogue, a_kernel, a_model, a_request

MS = 1_000_000
LOW = {"priority": 5, "slot_class": SlotClass.LOW}
MODELS: Mapping[str, Mapping[int, int]] = {
    "short": {1: 10},
    "middle": {1: 15},
    "long": {1: 30},
    "rows": {1: 20, 8: 160},
    "batch": {1: 20, 2: 22, 4: 26, 8: 60},
}
"""Milliseconds alone by rows; `rows` can be split."""


NICED = 0.015
"""Weight of a low batch whose slot is niced, beside a high one."""


class HeadwayTalk(Dialogue):
    """A dialogue in which requests may say that they would rather be late than not served."""

    def arrives_patient(self, request_id, *, at, late, **what):
        """A request that is of use for so many more milliseconds."""
        request = replace(a_request(request_id, at=at, **what), late_ns=late * MS)
        return self.handle(RequestArrived(request=request), at=at)

    def serve_unknown(self, model):
        """Load a model that nothing is known of."""
        self.serve(a_model(model))

    def finishes_late(self, batch_id, *, at_ms):
        """A batch has run, after the timers that were due before."""
        while self.kernel.armed_at_ns is not None and self.kernel.armed_at_ns < at_ms * MS:
            self.wakes(at=max(self.now_ns, self.kernel.armed_at_ns))
        return self.finishes(batch_id, at=at_ms * MS)

    def arrive_often(self, count, *, every_ms, from_ms=0, first_id=1000, **what):
        """High requests one after the other, each served at once, so that more are expected."""
        for index in range(count):
            start_ms = from_ms + index * every_ms
            said = self.arrives(first_id + index, at=start_ms * MS, **what)
            (batch_id,) = [command.batch_id for command in said if hasattr(command, "slot")]
            self.finishes(batch_id, at=start_ms * MS + self._alone_ns(what))

    def _alone_ns(self, what):
        return self.kernel.policy.predictor.solo_ns(what.get("model", "m"), what.get("rows", 1))


def a_headway_talk(
    lanes: Sequence[int] = (0, 0),
    *,
    shares_all: bool = False,
    low_weight: float = 1.0,
    **settings: object,
) -> HeadwayTalk:
    """A device with a slot a lane given, and the models above.

    Args:
        lanes: of the slots.
        shares_all: the slots share all of the device.
        low_weight: of a low batch beside a high one.
        settings: of the policy.
    """
    device = DeviceParams(
        name="cpu:0",
        slot_lanes=tuple(lanes),
        shares_all=shares_all,
        weight_high=1.0,
        weight_low=low_weight,
    )
    recipe = Recipe(kind="headway", profiles=tuple(_profile(*each) for each in MODELS.items()))
    policy = headway(build_predictor(recipe, [device]), HeadwaySettings(**settings))
    models = [
        replace(a_model(name, batch_rows_max=max(times_ms)), can_split=name == "rows")
        for name, times_ms in MODELS.items()
    ]
    talk = a_kernel(policy, devices=[device], models=models)
    return HeadwayTalk(talk.kernel)


def _profile(model, times_ms):
    solo = tuple(
        SoloTime(rows=rows, median_ns=time_ms * MS, p95_ns=time_ms * MS, runs=20)
        for rows, time_ms in times_ms.items()
    )
    return ModelProfile(model=model, device="cpu:0", bucket="", solo=solo)


def given_up(commands):
    """Those whom the policy ended because they would be late."""
    return [
        command.request_id
        for command in commands
        if isinstance(command, Expire) and command.reason is ExpireReason.PREDICTED_LATE
    ]


def started(commands):
    """The one batch that was started."""
    (batch,) = [command for command in commands if isinstance(command, Dispatch)]
    return batch


def expecting_high(talk, *, budget="30ms"):
    """Twenty high requests a second, of 10 ms each, have been coming for a second."""
    talk.arrive_often(20, every_ms=50, model="short", budget=budget)
    return talk
