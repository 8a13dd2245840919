"""A step scheduler under test, played step by step: builders state only what matters.

Knows `headway.generate`. Each step takes a fixed time, and the account of memory is checked after
every event.
"""

from headway.generate import (
    CopyFinished,
    CopyLaw,
    EngineLimits,
    HeadwayScheduler,
    SequenceArrived,
    SequenceCancelled,
    SequenceParams,
    StepFinished,
    StepLaw,
    StepSettings,
    TierTerms,
)

MS = 1_000_000
S = 1_000 * MS
GOLD = TierTerms(name="gold", priority=0, ttft_ns=400 * MS, tpot_ns=50 * MS)
SILVER = TierTerms(name="silver", priority=1, ttft_ns=1 * S, tpot_ns=100 * MS)
BRONZE = TierTerms(name="bronze", priority=2, ttft_ns=10 * S, tpot_ns=200 * MS, is_gated=True)
PLAIN = TierTerms(name="plain", priority=2)


def an_engine(**limits):
    """Memory for 1,000 blocks of 16, and nothing rides for nothing."""
    law = StepLaw(base_ns=10.0 * MS, prefill_ns=10_000.0, context_ns=0.0, free_tokens=0)
    return EngineLimits(**{"blocks": 1_000, "law": law, "copies": CopyLaw()} | limits)


class Rig:
    """A scheduler, its clock, and what its sequences will turn out to be long."""

    def __init__(self, scheduler=None, *, step_ns=10 * MS, **settings):
        self.scheduler = scheduler or HeadwayScheduler(
            an_engine(), StepSettings(**{"learns": False} | settings)
        )
        self.now_ns = 0
        self.plans = []
        self.first_step = {}
        self.tokens = {}
        self.preempts = {}
        self._step_ns = step_ns
        self._output = {}
        self._next = 1

    def arrive(self, terms=PLAIN, *, prompt=16, output=32, tag="t", cap=None, keys=()):
        """A sequence arrives; returns its number."""
        number, self._next = self._next, self._next + 1
        self._output[number] = output
        self.tokens[number] = 0
        params = SequenceParams(
            sequence_id=number,
            model="llm",
            tag=tag,
            terms=terms,
            arrived_at_ns=self.now_ns,
            prompt_tokens=prompt,
            output_tokens_max=cap or output,
            prefix_keys=keys,
        )
        (self.answer,) = self.scheduler.handle(SequenceArrived(sequence=params), self.now_ns)
        self.scheduler.roster.check()
        return number

    def cancel(self, number):
        """Its client leaves."""
        self.scheduler.handle(SequenceCancelled(sequence_id=number), self.now_ns)
        self.scheduler.roster.check()

    def step(self, count=1):
        """So many steps; copies into the device are done by the step after. The last plan."""
        plan = None
        for _ in range(count):
            plan = self.scheduler.plan(self.now_ns)
            self.scheduler.roster.check()
            if plan is None:
                self.now_ns += self._step_ns
                continue
            self.plans.append(plan)
            for preempted in plan.preempted:
                count_before = self.preempts.get(preempted.sequence_id, 0)
                self.preempts[preempted.sequence_id] = count_before + 1
            self.now_ns += self._step_ns
            if plan.work:
                self._finish(plan)
            for load in plan.loads:
                self.scheduler.handle(
                    CopyFinished(
                        sequence_id=load.sequence_id, tokens=load.tokens, copy_ns=MS, is_load=True
                    ),
                    self.now_ns,
                )
            self.scheduler.roster.check()
        return plan

    def run(self, steps_max=5_000):
        """Until all have ended."""
        for _ in range(steps_max):
            if not self.scheduler.roster.sequences:
                return
            self.step()
        left = [(each.sequence_id, each.phase) for each in self.scheduler.roster.sequences.values()]
        raise AssertionError(f"nothing has moved {left} for long")

    def in_step(self, plan=None):
        """Numbers of those in a step, the last if not said."""
        return {work.sequence_id for work in (plan or self.plans[-1]).work}

    def _finish(self, plan):
        ended = []
        for work in plan.work:
            if not work.yields or work.sequence_id not in self.scheduler.roster.sequences:
                continue
            self.tokens[work.sequence_id] += 1
            self.first_step.setdefault(work.sequence_id, plan.step_index)
            if self.tokens[work.sequence_id] >= self._output[work.sequence_id]:
                ended.append(work.sequence_id)
        event = StepFinished(step_ns=self._step_ns, ended=tuple(ended))
        self.scheduler.handle(event, self.now_ns)
