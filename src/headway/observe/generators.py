"""Metrics of generators: what clients see of an answer, and what steps and memory come to.

A request of a generator is one call, however many answers it has. Its first token, its pace and its
latency are of the whole, as its client sees it. Steps are told by the worker, one by one.

Knows names and numbers. Refuses to know who generates.
"""

from collections.abc import Collection, Iterator
from typing import Final, Protocol

from msgspec import Struct
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from headway.observe.histogram import SECONDS, Durations, histogram_family

__all__ = ["AnswerFigures", "GeneratorMetrics", "GeneratorNow", "StepFigures"]

_OUTCOMES: Final = ("completed", "invalid", "refused", "expired", "failed", "cancelled")
_OTHERS: Final = "other"
_TPOT_SECONDS: Final = (
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.35, 0.5, 1.0, 2.5,
)  # fmt: skip


class StepFigures(Protocol):
    """What one step did, and how things stand after it."""

    @property
    def step_ns(self) -> int:
        """How long the model ran; 0 where only the state is told."""

    @property
    def prefill_tokens(self) -> int:
        """Of prompts."""

    @property
    def decode_tokens(self) -> int:
        """One for each answer that went on."""

    @property
    def swapped(self) -> int:
        """Sequences that made room by being copied out."""

    @property
    def dropped(self) -> int:
        """Those that will be computed again."""

    @property
    def running(self) -> int:
        """Sequences that hold memory now."""

    @property
    def waiting(self) -> int:
        """Those that hold none."""

    @property
    def kv_used_ratio(self) -> float:
        """Of the memory for keys and values."""


class AnswerFigures(Struct, frozen=True, kw_only=True):
    """What one request came to."""

    outcome: str
    prompt_tokens: int
    answer_tokens: int
    ttft_ns: int | None
    tpot_ns: float | None
    latency_ns: int
    is_violation: bool


class GeneratorNow:
    """All that is counted of one generator, its answers apart."""

    __slots__ = (
        "decode_tokens",
        "dropped",
        "kv_used_ratio",
        "losses",
        "prefill_tokens",
        "running",
        "step",
        "swapped",
        "waiting",
    )

    def __init__(self) -> None:
        self.step = Durations()
        self.prefill_tokens = 0
        self.decode_tokens = 0
        self.swapped = 0
        self.dropped = 0
        self.losses = 0
        self.running = 0
        self.waiting = 0
        self.kv_used_ratio = 0.0


class _Answers:
    """All that is counted for one generator in one tier."""

    __slots__ = ("latency", "outcomes", "tpot", "ttft", "violations")

    def __init__(self) -> None:
        self.outcomes = dict.fromkeys(_OUTCOMES, 0)
        self.violations = 0
        self.ttft = Durations()
        self.tpot = Durations(_TPOT_SECONDS)
        self.latency = Durations()


class GeneratorMetrics:
    """Counts what it is told of generators.

    Args:
        tiers: every configured tier.
        tenants: every configured tenant; others are counted together.

    Invariants: labels are bounded: generators, tiers and tenants are configured.
    """

    def __init__(self, tiers: Collection[str], tenants: Collection[str] = ()) -> None:
        self._tiers = tuple(tiers)
        self._tenants = (*tenants, _OTHERS)
        self.now: dict[str, GeneratorNow] = {}
        self._answers: dict[tuple[str, str], _Answers] = {}
        self._tokens: dict[tuple[str, str, str], int] = {}

    def know(self, generator: str) -> None:
        """Have every series of a generator exist at 0."""
        self.now.setdefault(generator, GeneratorNow())
        for tier in self._tiers:
            self._answers.setdefault((generator, tier), _Answers())
        for tenant in self._tenants:
            for kind in ("prompt", "answer"):
                self._tokens.setdefault((generator, tenant, kind), 0)

    def know_tenants(self, tenants: Collection[str]) -> None:
        """Count these apart."""
        self._tenants = (*tenants, _OTHERS)

    def stepped(self, generator: str, step: StepFigures) -> None:
        """A step was run, or the state has changed without one."""
        now = self.now[generator]
        if step.step_ns:
            now.step.add(step.step_ns)
        now.prefill_tokens += step.prefill_tokens
        now.decode_tokens += step.decode_tokens
        now.swapped += step.swapped
        now.dropped += step.dropped
        now.running, now.waiting = step.running, step.waiting
        now.kv_used_ratio = step.kv_used_ratio

    def lost(self, generator: str) -> None:
        """Its worker has died, and all that it held with it."""
        now = self.now[generator]
        now.losses += 1
        now.running = now.waiting = 0
        now.kv_used_ratio = 0.0

    def ended(self, generator: str, tier: str, tenant: str, answer: AnswerFigures) -> None:
        """A request has ended; times are counted of completed ones, tokens of all."""
        answers = self._answers[generator, tier]
        answers.outcomes[answer.outcome] += 1
        answers.violations += answer.is_violation
        named = tenant if tenant in self._tenants else _OTHERS
        self._tokens[generator, named, "prompt"] += answer.prompt_tokens
        self._tokens[generator, named, "answer"] += answer.answer_tokens
        if answer.outcome != "completed":
            return
        answers.latency.add(answer.latency_ns)
        if answer.ttft_ns is not None:
            answers.ttft.add(answer.ttft_ns)
        if answer.tpot_ns is not None:
            answers.tpot.add(answer.tpot_ns)

    def merged(self, generator: str, what: str) -> Durations:
        """One histogram of all tiers: `ttft`, `tpot` or `latency`."""
        found: list[Durations] = [
            getattr(answers, what)
            for (name, _), answers in self._answers.items()
            if name == generator
        ]
        merged = Durations(_TPOT_SECONDS if what == "tpot" else SECONDS)
        for one in found:
            merged.counts = [a + b for a, b in zip(merged.counts, one.counts, strict=True)]
            merged.total += one.total
        return merged

    def tokens(self, generator: str, kind: str) -> int:
        """Of all tenants: `prompt` or `answer`."""
        return sum(
            count
            for (name, _, of), count in self._tokens.items()
            if name == generator and of == kind
        )

    def outcomes(self, generator: str, outcome: str) -> int:
        """Requests of all tiers that ended so."""
        return sum(
            answers.outcomes[outcome]
            for (name, _), answers in self._answers.items()
            if name == generator
        )

    def families(self) -> Iterator[Metric]:
        """Everything, as metric families."""
        yield from self._of_answers()
        yield from self._of_steps()

    def _of_answers(self) -> Iterator[Metric]:
        requests = CounterMetricFamily(
            "headway_generator_requests",
            "Requests of a generator by how they ended.",
            labels=("model", "tier", "outcome"),
        )
        violations = CounterMetricFamily(
            "headway_generator_violations",
            "Requests of a generator that missed a target or budget, refused ones included.",
            labels=("model", "tier"),
        )
        for labels, answers in self._answers.items():
            violations.add_metric(labels, answers.violations)
            for outcome, count in answers.outcomes.items():
                requests.add_metric((*labels, outcome), count)
        yield requests
        yield violations
        for name, text, what in (
            ("ttft", "Arrival to first token, completed requests.", "ttft"),
            ("tpot", "Mean time of a token after the first, completed requests.", "tpot"),
            ("latency", "Arrival to last token, completed requests.", "latency"),
        ):
            yield histogram_family(
                f"headway_generator_{name}_seconds",
                text,
                ("model", "tier"),
                {labels: getattr(answers, what) for labels, answers in self._answers.items()},
            )
        tokens = CounterMetricFamily(
            "headway_generator_tokens",
            "Tokens of prompts and answers, by whose they are.",
            labels=("model", "tenant", "kind"),
        )
        for token_labels, count in self._tokens.items():
            tokens.add_metric(token_labels, count)
        yield tokens

    def _of_steps(self) -> Iterator[Metric]:
        yield histogram_family(
            "headway_generator_step_seconds",
            "Time of a step.",
            ("model",),
            {(name,): now.step for name, now in self.now.items()},
        )
        computed = CounterMetricFamily(
            "headway_generator_step_tokens",
            "Tokens that went through the model; what is computed again counts again.",
            labels=("model", "phase"),
        )
        preempted = CounterMetricFamily(
            "headway_generator_preemptions",
            "Sequences that made room for more important ones, by what becomes of their memory.",
            labels=("model", "way"),
        )
        losses = CounterMetricFamily(
            "headway_generator_worker_losses",
            "Workers of a generator that died.",
            labels=("model",),
        )
        for name, now in self.now.items():
            computed.add_metric((name, "prefill"), now.prefill_tokens)
            computed.add_metric((name, "decode"), now.decode_tokens)
            preempted.add_metric((name, "swap"), now.swapped)
            preempted.add_metric((name, "recompute"), now.dropped)
            losses.add_metric((name,), now.losses)
        yield computed
        yield preempted
        yield losses
        for suffix, text in (
            ("running", "Sequences of a generator that hold memory now."),
            ("waiting", "Sequences of a generator that wait to begin or to go on."),
            ("kv_used_ratio", "Memory for keys and values in use, 0 to 1."),
        ):
            gauge = GaugeMetricFamily(f"headway_generator_{suffix}", text, labels=("model",))
            for name, now in self.now.items():
                gauge.add_metric((name,), getattr(now, suffix))
            yield gauge
