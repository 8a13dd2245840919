"""`headway`: start what prediction says will be in time, and harms nobody more important by it.

Six rules (docs/internals/adr/0017-headway-by-deadline.md and 0018 say which do most, and why):

1. High before low; inside a class the earliest deadline first, and priority says who is given up
   where not all can be in time (`Urgency`, `hopeless_among`): the least important, among those the
   longest, as Moore and Hodgson do.
2. A batch starts only if it is predicted to end in time, and so is every batch that it would harm:
   those of its own class or above that run on the device (`Prospects`). What would be late both now
   and later is given up at once, at the door where that can be seen there (`OutlookDoor`).
3. A batch joins others on a lane only if that is worth it: if it must start now to be in time, or
   ends so much sooner that it gains more than they lose. Two batches that share a core end no
   sooner than one after the other, so sharing only takes slack away. Where slots share all of a
   device, as an accelerator's do, batches may run side by side, but who would go into a larger
   batch by waiting for the device does (`Foresighted`). What does nothing is never kept from work.
4. Low work of several rows runs in segments where high work is expected meanwhile, so that whoever
   is urgent, low work with a tighter deadline included, waits for one of them (`Sizes`). Where the
   device all but preempts low work (niced slots) it may lie beneath high work.
5. On a device that slots share, low work starts among others only if few high requests are expected
   to be late for it: those that arrive meanwhile, at what each would take then (`Reserve`); and
   its batches are not much longer than their heads alone, for all that time others have less. On
   lanes there is a reserve too, off by default: lanes are held free of low work when more high work
   would be made late than the start is worth; how much is, an outer loop corrects by the high
   deadlines that are missed (`Guard`).
6. Where high work alone takes about all there is, nobody waits for more than a part of its own
   budget (`Promotion`): then it starts if that makes no high work late, or if low work has had less
   than a part of the devices' time; else it is told at once that it will not be served.

Tenants of a class share its time by weight (`Accounts`); who is ahead of its share is refused when
its turn would come too late.

It stands on Clockwork (Gujarati et al., OSDI 2020) for acting on predictions, Nexus (Shen et al.,
SOSP 2019) for dropping early, and Moore and Hodgson for whom to drop; they take a batch's time as
fixed or its neighbours as none, which is what differs here.
"""

from collections.abc import Mapping

from msgspec import Struct

from headway.core import Feedback, Policy, Predictor, Request, TenantId
from headway.policy.accounts import Accounts
from headway.policy.batching import Linger
from headway.policy.foresighted import Foresighted
from headway.policy.guard import Guard
from headway.policy.hopeless import Hopeless
from headway.policy.outlook import Outlook
from headway.policy.outlook_door import OutlookDoor
from headway.policy.prospects import Prospects
from headway.policy.reserve import Reserve
from headway.policy.sizes import Sizes
from headway.policy.urgency import Promotion, Urgency
from headway.policy.waiting_list import WaitingList
from headway.units import NS_PER_MS

__all__ = ["HeadwaySettings", "headway"]


class HeadwaySettings(Struct, frozen=True, kw_only=True):
    """What can be tuned."""

    caution_ratio: float = 0.0
    """Where a forecast is read for those who may be harmed: at its mean (0), its bound (1)."""
    reserve_ratio: float = 0.0
    """High requests that may be made late by the start of one low request are held against it so
    many times; 0 starts low work wherever a lane is free."""
    harm_ratio: float = 0.2
    """High requests that the start of a low one may be expected to make late where all slots share
    the whole device, as an accelerator's do; 0 for no limit."""
    high_missed_ratio: float = 0.01
    """Target of the outer loop: part of high requests that may miss their deadline."""
    segment_ns: int = 12 * NS_PER_MS
    """Length of a segment that is aimed at; 0 never splits."""
    discount_ratio: float = 0.7
    """Part of the expected high load that is taken off the capacity for low work."""
    starvation_ratio: float = 0.5
    """Of its budget that low work may wait; 0 for no bound."""
    starvation_share_ratio: float = 0.05
    """Of the devices' time that low work is given at least, whatever that costs high work."""
    refuses: bool = True
    """Refuse at the door what is predicted to be late; else it is given up when that is sure."""
    drops: bool = True
    """Give up who cannot be in time so that others can; False only gives up what is hopeless."""
    quantum_ns: int = 250 * NS_PER_MS
    """Device time of a round of tenants."""
    shares: Mapping[TenantId, float] = {}
    """Weights of tenants; those not named have 1."""
    floors: Mapping[TenantId, float] = {}
    """Part of a class's device time that a tenant has at least."""


def headway(predictor: Predictor, settings: HeadwaySettings | None = None) -> Policy:
    """The policy that decides by prediction."""
    settings = settings or HeadwaySettings()
    accounts = Accounts(predictor, settings.shares, settings.floors, settings.quantum_ns)
    waiting = WaitingList(predictor, accounts)
    guard = Guard(settings.high_missed_ratio)
    hopeless = Hopeless()
    prospects = Prospects(predictor, settings.caution_ratio)
    outlook = Outlook(waiting, prospects, settings.discount_ratio)
    promotion = Promotion(
        accounts,
        outlook,
        settings.starvation_ratio,
        share_ratio=settings.starvation_share_ratio,
    )
    reserve = Reserve(
        outlook,
        predictor,
        guard,
        lane_ratio=settings.reserve_ratio,
        harm_ratio=settings.harm_ratio,
    )
    placement = Foresighted(
        outlook,
        prospects,
        Sizes(predictor, waiting, settings.segment_ns),
        hopeless,
        promotion,
        reserve,
        drops=settings.drops,
    )
    return Policy(
        name="headway",
        ordering=Urgency(accounts),
        admission=OutlookDoor(outlook, promotion, refuses=settings.refuses and settings.drops),
        batching=Linger(predictor),
        placement=placement,
        predictor=predictor,
        aging=promotion,
        feedback=Together((accounts, waiting, guard, hopeless, promotion)),
    )


class Together:
    """Several who are told of the fate of requests, in order."""

    def __init__(self, parts: tuple[Feedback, ...]) -> None:
        self._parts = parts

    def admitted(self, request: Request, now_ns: int) -> None:
        """Tell all."""
        for part in self._parts:
            part.admitted(request, now_ns)

    def started(self, request: Request, rows: int, now_ns: int) -> None:
        """Tell all."""
        for part in self._parts:
            part.started(request, rows, now_ns)

    def ran(self, request: Request, device_ns: int, now_ns: int) -> None:
        """Tell all."""
        for part in self._parts:
            part.ran(request, device_ns, now_ns)

    def ended(self, request: Request, is_met: bool, now_ns: int) -> None:
        """Tell all."""
        for part in self._parts:
            part.ended(request, is_met, now_ns)
