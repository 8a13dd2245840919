"""The door to generators: terms, budgets, and what is settled with the gate."""

import asyncio

import pytest

from headway.core import ModelName, TenantId, TierName
from headway.decoder import Begun, Generate, Generation, Prompt, Said, Wishes
from headway.errors import (
    DeadlineExceededError,
    InvalidRequestError,
    ModelNotFoundError,
    NotAllowedError,
    RejectedError,
    RequestCancelledError,
    UnavailableError,
    WorkerLostError,
)
from headway.frontends.client_call import call_of
from headway.frontends.generating import Generating, ServedGenerator
from headway.frontends.openai_answers import GenerationAnswer
from headway.frontends.openai_generation import GenerationForm
from headway.frontends.openai_rest import _pieces
from headway.generate import TierTerms
from headway.tenancy import Ending, Gate, KeyParams, TenantParams, hash_of
from headway.units import NS_PER_MS, NS_PER_S

TERMS = {
    TierName("gold"): TierTerms(name="gold", priority=1, ttft_ns=100 * NS_PER_MS),
    TierName("bulk"): TierTerms(name="bulk", priority=5, tpot_ns=10 * NS_PER_MS),
}
BUDGETS = {TierName("gold"): NS_PER_S, TierName("bulk"): 60 * NS_PER_S}
KEY = {b"headway-key": b"k"}


class Book:
    def __init__(self):
        self.lines = []

    def note(self, tenant, ask, outcome, unix_ns):
        self.lines.append((tenant, ask, outcome))


class FakeGenerator:
    """Lets in what it is asked, and says what a test has it say."""

    def __init__(self, refusal=None, is_ready=True):
        self.opened = []
        self.let_go = []
        self._refusal = refusal
        self._is_ready = is_ready
        self.ready = None

    def open(self, order, budget_ns, limit, listener):
        if not self._is_ready:
            raise UnavailableError("not ready")
        generation = Generation(order, listener, self.let_go.append)
        self.opened.append((order, budget_ns, limit, generation))
        if self._refusal is None:
            generation.begin(Begun(request_id=1, prompt_tokens=4))
        else:
            generation.fail(self._refusal)
        return generation


class Rig:
    def __init__(self, generator=None, **tenant):
        self.now_ns = 0
        self.book = Book()
        self.answered_times = []
        params = TenantParams(
            tenant=TenantId("acme"), keys=(KeyParams(key_hash=hash_of("k")),), **tenant
        )
        self.gate = Gate([params], started_at_unix_ns=0, models={ModelName("llm")}, book=self.book)
        self.generator = generator or FakeGenerator()
        served = ServedGenerator(
            generator=self.generator,
            tier=TierName("bulk"),
            terms=TERMS,
            budgets_ns=BUDGETS,
            answer_tokens_max=100,
        )
        self.door = Generating({ModelName("llm"): served}, lambda: self.now_ns, self.gate, self)

    def answered(self, times):
        self.answered_times.append(times)

    async def begin(self, headers=(), model="llm", **parameters):
        call = call_of(ModelName(model), "", (), (), 0, parameters, {**KEY, **dict(headers)})

        def order(served, tenant, terms, age_ns):
            return Generate(
                request_id=1,
                prompts=[Prompt(text="x")],
                choices=2,
                tokens_max=None,
                answer_tokens_max=served.answer_tokens_max,
                wishes=Wishes(),
                tag=tenant,
                terms=terms,
                age_ns=age_ns,
            )

        return await self.door.begin(call, 2, 10, order)

    def say(self, generation, text, choice=0, finish=None, at_ns=None):
        if at_ns is not None:
            self.now_ns = at_ns
        generation.add(Said(request_id=1, choice=choice, text=text, finish=finish, device_ns=100))

    @property
    def outcomes(self):
        return [outcome for _, _, outcome in self.book.lines]


def run(play):
    asyncio.run(play)


def test_completed_request_is_paid_for_by_its_tokens_and_time():
    """Prompt and answers, in the book of the tenant whose key it was."""

    async def play():
        rig = Rig()
        generation = await rig.begin()
        for finish in (None, "stop"):
            rig.say(generation, "hé", 0, finish)
            rig.say(generation, "x", 1, finish)
        assert [len(batch) async for batch in generation.said()] == [4]
        ((tenant, ask, outcome),) = rig.book.lines
        assert (tenant, ask.model, ask.rows) == ("acme", "llm", 2)
        assert outcome.ending is Ending.COMPLETED
        assert (outcome.tokens, outcome.device_ns, outcome.bytes_out) == (8, 400, 8)
        assert not outcome.is_violation
        assert rig.gate.in_flight() == {"acme": 0}
        (times,) = rig.answered_times
        assert (times.prompt_tokens, times.answer_tokens, times.tpot_ns) == (4, 4, 0.0)

    run(play())


def test_request_that_nobody_reads_any_more_is_cancelled_and_paid_for_as_far_as_it_came():
    """Whoever stops reading lets go of it."""

    async def play():
        rig = Rig()
        generation = await rig.begin()
        rig.say(generation, "a")
        said = generation.said()
        assert len(await anext(said)) == 1
        await said.aclose()
        assert rig.generator.let_go == [generation]
        assert [each.ending for each in rig.outcomes] == [Ending.CANCELLED]
        assert [(each.tokens, each.device_ns) for each in rig.outcomes] == [(5, 100)]
        generation.close()
        assert len(rig.outcomes) == 1
        with pytest.raises(RequestCancelledError):
            await generation.wait_begun()

    run(play())


def test_loss_of_the_worker_ends_the_stream_with_an_error():
    """After what was said; the tenant does not pay."""

    async def play():
        rig = Rig()
        generation = await rig.begin()
        rig.say(generation, "a")
        generation.fail(WorkerLostError("gone"))
        said = generation.said()
        assert len(await anext(said)) == 1
        with pytest.raises(WorkerLostError):
            await anext(said)
        assert [each.ending for each in rig.outcomes] == [Ending.FAILED]

    run(play())


@pytest.mark.parametrize(
    ("error", "endings"),
    [
        (RejectedError("full", reason="generator_full", retry_after_ns=1), [Ending.REFUSED]),
        (InvalidRequestError("too long"), []),
    ],
)
def test_refused_request_is_given_back(error, endings):
    """What made no sense is not even in the book."""

    async def play():
        rig = Rig(FakeGenerator(refusal=error), requests_per_s=1.0)
        for _ in range(3):
            with pytest.raises(type(error)):
                await rig.begin()
        assert [each.ending for each in rig.outcomes] == endings * 3
        assert rig.gate.in_flight() == {"acme": 0}

    run(play())


def test_limit_of_the_tenant_stands_before_the_generator():
    """What it refuses, the generator never sees."""

    async def play():
        rig = Rig(concurrency_max=1)
        await rig.begin()
        with pytest.raises(RejectedError, match="under way"):
            await rig.begin()
        assert len(rig.generator.opened) == 1

    run(play())


def test_tokens_of_an_answer_are_owed_afterwards():
    """A rate of tokens holds the next request back."""

    async def play():
        rig = Rig(tokens_per_s=2.0)
        generation = await rig.begin()
        rig.say(generation, "a", 0, "stop")
        rig.say(generation, "b", 1, "stop")
        with pytest.raises(RejectedError) as caught:
            await rig.begin()
        assert caught.value.limit == "tokens"

    run(play())


def test_tier_gives_terms_and_budget():
    """The request's, else its tenant's, else the generator's; it may ask for less time."""

    async def play():
        rig = Rig()
        await rig.begin()
        await rig.begin({b"headway-tier": b"gold"})
        await rig.begin({b"headway-tier": b"gold", b"headway-budget-ms": b"20"})
        await rig.begin({b"headway-tier": b"gold", b"headway-budget-ms": b"20000"})
        found = [(o.terms.name, b, limit) for o, b, limit, _ in rig.generator.opened]
        assert found == [
            ("bulk", 60 * NS_PER_S, "tiers.bulk.budget"),
            ("gold", NS_PER_S, "tiers.gold.budget"),
            ("gold", 20 * NS_PER_MS, "headway-budget-ms"),
            ("gold", NS_PER_S, "tiers.gold.budget"),
        ]
        own = Rig(tier=TierName("gold"), tiers=frozenset({TierName("gold")}))
        await own.begin()
        assert own.generator.opened[0][0].terms.name == "gold"
        with pytest.raises(NotAllowedError):
            await own.begin({b"headway-tier": b"bulk"})
        with pytest.raises(InvalidRequestError, match="no tier `iron`"):
            await rig.begin({b"headway-tier": b"iron"})

    run(play())


def test_priority_is_never_before_the_tiers_own():
    """Lower is served first; one may step back."""

    async def play():
        rig = Rig()
        await rig.begin(priority=9)
        await rig.begin(priority=2)
        assert [o.terms.priority for o, *_ in rig.generator.opened] == [9, 5]

    run(play())


@pytest.mark.parametrize(
    ("tier", "first_ms", "last_ms", "is_violation"),
    [("gold", 99, 500, False), ("gold", 101, 500, True), ("bulk", 500, 515, False),
     ("bulk", 500, 525, True)],
)  # fmt: skip
def test_missed_target_is_a_violation(tier, first_ms, last_ms, is_violation):
    """The first token later than the tier says, or the others on average."""

    async def play():
        rig = Rig()
        generation = await rig.begin({b"headway-tier": tier.encode()})
        rig.say(generation, "a", 0, at_ns=first_ms * NS_PER_MS)
        rig.say(generation, "b", 1)
        rig.say(generation, "c", 0, "stop", at_ns=last_ms * NS_PER_MS)
        rig.say(generation, "d", 1)
        rig.say(generation, "e", 1, "stop")
        assert rig.outcomes[0].is_violation is is_violation

    run(play())


def test_model_that_is_not_there_or_not_ready():
    """Each by its own error, and nothing stays under way."""

    async def play():
        with pytest.raises(ModelNotFoundError, match="generating models: llm"):
            await Rig().begin(model="other")
        rig = Rig(FakeGenerator(is_ready=False))
        with pytest.raises(UnavailableError):
            await rig.begin()
        assert rig.gate.in_flight() == {"acme": 0}
        assert rig.door.names() == []
        assert rig.door.capabilities_of(ModelName("llm")) is None

    run(play())


@pytest.mark.parametrize("is_chat", [True, False])
def test_client_that_leaves_at_the_first_event_frees_its_sequence(is_chat):
    """Though nothing of the answer had been read then."""

    async def play():
        rig = Rig()
        generation = await rig.begin()
        form = GenerationForm("llm", is_chat, True, False, False, None)
        pieces = _pieces(generation, GenerationAnswer(form, "id", 0, 4, 2))
        rig.say(generation, "a")
        assert await anext(pieces)
        await pieces.aclose()
        assert generation.is_over
        assert rig.generator.let_go == [generation]

    run(play())


def test_clients_that_break_off_do_not_get_around_the_rate_of_tokens():
    """Whoever leaves before the end owes what was said until then; its next request waits."""

    async def play():
        rig = Rig(tokens_per_s=2.0)
        generation = await rig.begin()
        rig.say(generation, "a")
        generation.close()
        with pytest.raises(RejectedError, match="tokens"):
            await rig.begin()

    run(play())


@pytest.mark.parametrize(("is_own", "tokens"), [(True, 5), (False, 0)])
def test_answer_that_expires_is_paid_for_where_its_client_wanted_it_to(is_own, tokens):
    """By a budget of its own; not where the tier's was too short for the server."""

    async def play():
        rig = Rig()
        generation = await rig.begin({b"headway-budget-ms": b"50"} if is_own else {})
        ((_, _, limit, _),) = rig.generator.opened
        rig.say(generation, "a")
        generation.fail(DeadlineExceededError("late", limit=limit, stage="running"))
        assert [(each.ending, each.tokens) for each in rig.outcomes] == [(Ending.EXPIRED, tokens)]

    run(play())


def test_what_is_left_to_a_key_that_was_taken_away_is_nothing():
    """The answer that it was let in for goes on, and is not lost with the error."""
    rig = Rig(tokens_per_s=2.0)
    known, gone = (
        call_of(ModelName("llm"), "", (), (), 0, {}, {b"headway-key": key}) for key in (b"k", b"x")
    )
    assert [state.name for state in rig.door.limits(known)] == ["tokens"]
    assert rig.door.limits(gone) == []
