"""Token-by-token models: which sequences run in the next forward pass, with how many tokens.

The second of two levels. The kernel (`core`) admits and orders requests; inside a generating engine
each of them is a sequence that is in a hundred forward passes with others, and holds memory for its
keys and values meanwhile. What is decided here, before every pass:

    events in                      decisions                         plan out
    SequenceArrived      door      told at once what physics allows
    SequenceCancelled    lines     class, tag credits, slack         StepPlan
    StepFinished    ->   budget    tokens from the tightest target ->  preempted: victims, and how
    CopyFinished         watermark, peak   who may begin               loads: who comes back
                         victims, swap     who makes room, how         work: tokens of each

A host is whatever owns a model: it asks `plan(now_ns)`, carries the plan out, and reports. There
are three kinds: `sim` in virtual time, an engine of ours, and an adapter to somebody else's. All
three drive the same objects, whose time and memory are arguments and counts; a plan depends on
nothing but the events before it, so any run can be told again.

Words: a *tag* is whoever is accounted for; a *resident* sequence holds memory and may be in a step;
one that *pauses* is resident and not in this step; a *preempted* one has lost its memory, by
*recomputation* or *swap*.

Files, from the rules to the whole: `names`, `events`, `sequence` (the words); `blocks` (memory),
`credits`, `aging` (who has had how much), `lengths`, `peak`, `watermark` (who may begin), `fits`,
`step_times`, `budget` (how much a step does), `victims`, `swap`, `preemption` (who makes room),
`decoding`, `lines`, `draft`, `roster`, `scheduler` (a plan), `capacity` (how much there can be at
all), `offload` (layers on the host), `stock` and `vtc` (what is done elsewhere, to be compared
with).

Knows counts, ids and instants. May import `core`, `errors`, `units`. Must never import a clock, an
engine's classes or a device.
"""

from headway.generate.aging import Aging, AgingSettings
from headway.generate.blocks import BlockPool, KvAccount
from headway.generate.capacity import Capacity, EngineLoad, RequestMix
from headway.generate.credits import CreditSettings, TagCredits
from headway.generate.door import ttft_prompt_tokens_max
from headway.generate.events import (
    Accepted,
    Answer,
    CopyFinished,
    Event,
    Load,
    Preempted,
    PreemptWay,
    Refused,
    RefuseReason,
    SequenceArrived,
    SequenceCancelled,
    SequenceLost,
    StepCut,
    StepFinished,
    StepPlan,
    Work,
)
from headway.generate.lengths import OutputLengths
from headway.generate.names import (
    SEQUENCE_TRANSITIONS,
    Phase,
    PhaseStep,
    SequenceId,
    SequenceParams,
    TierTerms,
)
from headway.generate.offload import LayerOffload, StreamedSteps
from headway.generate.peak import PeakForecast
from headway.generate.ports import StepScheduler
from headway.generate.roster import Roster
from headway.generate.scheduler import HeadwayScheduler
from headway.generate.sequence import Sequence
from headway.generate.settings import EngineLimits, StepSettings
from headway.generate.step_times import StepLaw, StepTimes
from headway.generate.stock import FcfsOrder, PriorityOrder, StockScheduler, StockSettings
from headway.generate.swap import (
    CopyLaw,
    SwapRule,
    SwapSettings,
    crossover_tokens,
    kv_bytes_per_token,
    tokens_to_outgrow,
)
from headway.generate.victims import Candidate, VictimSettings, choose_victims
from headway.generate.vtc import VtcOrder
from headway.generate.watermark import MarkAction, Watermark, WatermarkFigures, WatermarkSettings

__all__ = [
    "SEQUENCE_TRANSITIONS",
    "Accepted",
    "Aging",
    "AgingSettings",
    "Answer",
    "BlockPool",
    "Candidate",
    "Capacity",
    "CopyFinished",
    "CopyLaw",
    "CreditSettings",
    "EngineLimits",
    "EngineLoad",
    "Event",
    "FcfsOrder",
    "HeadwayScheduler",
    "KvAccount",
    "LayerOffload",
    "Load",
    "MarkAction",
    "OutputLengths",
    "PeakForecast",
    "Phase",
    "PhaseStep",
    "PreemptWay",
    "Preempted",
    "PriorityOrder",
    "RefuseReason",
    "Refused",
    "RequestMix",
    "Roster",
    "Sequence",
    "SequenceArrived",
    "SequenceCancelled",
    "SequenceId",
    "SequenceLost",
    "SequenceParams",
    "StepCut",
    "StepFinished",
    "StepLaw",
    "StepPlan",
    "StepScheduler",
    "StepSettings",
    "StepTimes",
    "StockScheduler",
    "StockSettings",
    "StreamedSteps",
    "SwapRule",
    "SwapSettings",
    "TagCredits",
    "TierTerms",
    "VictimSettings",
    "VtcOrder",
    "Watermark",
    "WatermarkFigures",
    "WatermarkSettings",
    "Work",
    "choose_victims",
    "crossover_tokens",
    "kv_bytes_per_token",
    "tokens_to_outgrow",
    "ttft_prompt_tokens_max",
]
