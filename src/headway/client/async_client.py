"""The client for asyncio: each call is awaited, and cancelled with its task.

Knows httpx and a clock. What is sent and what it means is decided in the pure core; this file
carries it out, as `sync_client` does, method for method.
"""

import asyncio
import ssl
import time
from collections.abc import Mapping, Sequence
from random import Random
from types import TracebackType
from typing import Any, Protocol, Self, TypeVar

import httpx

from headway.client import questions
from headway.client.answers import Answer, Estimate, ModelMetadata, ModelState, Reply
from headway.client.connection import (
    CONNECTIONS_MAX,
    AnswerParts,
    lost,
    patience_of,
    request_arguments,
    session_arguments,
)
from headway.client.failures import Lost
from headway.client.patience import Retries, Send, converse
from headway.client.questions import Ask, Inputs, ParameterValue
from headway.client.terms import Duration, Terms, duration_ns
from headway.units import NS_PER_S

__all__ = ["AsyncClient", "AsyncClock"]

T = TypeVar("T")


class AsyncClock(Protocol):
    """What a client may know of time; a test brings its own."""

    def now_ns(self) -> int:
        """Nanoseconds since any fixed instant."""

    async def sleep(self, duration_ns: int) -> None:
        """Wait, and let others go on."""


class _WallClock:
    """The machine's own."""

    def now_ns(self) -> int:
        return time.monotonic_ns()

    async def sleep(self, duration_ns: int) -> None:
        await asyncio.sleep(duration_ns / NS_PER_S)


class AsyncClient:
    """One server, for one event loop.

    Use it as an async context manager, which closes its connections.

    Args:
        url: where the server listens, as in `http://localhost:8000`.
        key: who you are, where the server keeps tenants; never shown.
        tenant: whoever is accounted for; with a key the server knows it.
        tier: the service class; None takes the model's.
        budget: of each call that names none, as in `"200ms"`; None grants what the server does.
        retries: tries after the first, or all about them.
        timeout: of a call without a budget, all its tries together.
        grace: how long after the end of its budget an answer is still waited for. Raise it where
            the server's tiers serve late.
        connections_max: open at once.
        tls: certificates to trust, and one to show; None trusts what the system does.
        transport: what httpx sends through: for a proxy, or for a test.
        clock: what time it is.

    Raises:
        ConfigError: the URL is none.
        InvalidRequestError: a length of time, or a text that is to be a header, is none.
    """

    def __init__(  # noqa: PLR0913 (each is a thing of its own, and most callers say two)
        self,
        url: str,
        *,
        key: str | None = None,
        tenant: str | None = None,
        tier: str | None = None,
        budget: Duration | None = None,
        retries: int | Retries = 3,
        timeout: Duration = "60s",
        grace: Duration = "1s",
        connections_max: int = CONNECTIONS_MAX,
        tls: ssl.SSLContext | None = None,
        transport: httpx.AsyncBaseTransport | None = None,
        clock: AsyncClock | None = None,
    ) -> None:
        self._terms = Terms(key=key, tenant=tenant, tier=tier, budget=budget)
        self._terms.headers()
        self._terms.budget_ns(None)
        self._patience = patience_of(retries, timeout, grace)
        # Of the system's own entropy: clients that were refused together must not agree.
        self._chance = Random()
        self._clock: AsyncClock = _WallClock() if clock is None else clock
        arguments = session_arguments(url, tls=tls, connections_max=connections_max)
        self._session = httpx.AsyncClient(**arguments, transport=transport)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close its connections; it is of no more use."""
        await self._session.aclose()

    # --- models ---

    async def infer(  # noqa: PLR0913 (a call says what it means in words)
        self,
        model: str,
        inputs: Inputs,
        *,
        version: str = "",
        outputs: Sequence[str] = (),
        parameters: Mapping[str, ParameterValue] | None = None,
        budget: Duration | None = None,
        priority: int | None = None,
        tier: str | None = None,
        tenant: str | None = None,
        traceparent: str | None = None,
    ) -> Reply:
        """Run a model.

        If its task is cancelled the server is left at once, and frees what the request holds.

        Args:
            model: its name.
            inputs: arrays by name.
            version: empty for whichever is current.
            outputs: names wanted; empty for all.
            parameters: for the model, if it takes any.
            budget: how long you can wait, all tries together: `"200ms"`, or seconds. The server is
                told, and ends the request when it is over.
            priority: lower is served first, from 1.
            tier: instead of the client's, as is the tenant.
            tenant: whoever is accounted for.
            traceparent: W3C trace context of the caller.

        Raises:
            RejectedError: refused, and to come back was of no use or did not fit the budget.
            DeadlineExceededError: the budget is over.
            UnavailableError: nobody answers there, or it takes no work now.
            InvalidRequestError: the inputs do not fit the model, or cannot be sent at all.
            HeadwayError: whatever else the server says; see `headway.errors`.
        """
        headers = self._terms.headers(
            tier=tier, tenant=tenant, priority=priority, traceparent=traceparent
        )
        ask = questions.infer(
            model,
            inputs,
            version=version,
            outputs=outputs,
            parameters=parameters,
            headers=headers,
            budget_ns=self._terms.budget_ns(budget),
        )
        return await self._answer(ask)

    async def estimate(  # noqa: PLR0913 (as `infer`)
        self,
        model: str,
        inputs: Inputs,
        *,
        version: str = "",
        outputs: Sequence[str] = (),
        parameters: Mapping[str, ParameterValue] | None = None,
        budget: Duration | None = None,
        priority: int | None = None,
        tier: str | None = None,
        tenant: str | None = None,
    ) -> Estimate:
        """What would become of such a request now; nothing is run, and no input data is sent.

        Arguments and errors are those of `infer`; a refusal is no error here but an answer.
        """
        headers = self._terms.headers(tier=tier, tenant=tenant, priority=priority)
        ask = questions.estimate(
            model,
            inputs,
            version=version,
            outputs=outputs,
            parameters=parameters,
            headers=headers,
            budget_ns=self._terms.budget_ns(budget),
        )
        return await self._answer(ask)

    async def metadata(self, model: str, *, version: str = "") -> ModelMetadata:
        """What a model takes and gives."""
        ask = questions.metadata(model, self._terms.headers(), version=version)
        return await self._answer(ask)

    async def models(self, *, only_ready: bool = False) -> list[ModelState]:
        """Every model that the server knows, or those that serve."""
        return await self._answer(questions.models(self._terms.headers(), only_ready=only_ready))

    async def statistics(self, model: str = "", *, version: str = "") -> list[dict[str, Any]]:
        """Counters of one model or of all, as Triton names them."""
        ask = questions.statistics(model, self._terms.headers(), version=version)
        return await self._answer(ask)

    # --- the server ---

    async def is_live(self) -> bool:
        """Whether a server answers there."""
        return await self._answer(questions.is_live(self._terms.headers()))

    async def is_ready(self) -> bool:
        """Whether it serves all that it is to serve; False if nobody answers."""
        return await self._answer(questions.is_ready(self._terms.headers()))

    async def is_model_ready(self, model: str, *, version: str = "") -> bool:
        """Whether a model serves; False if nobody answers.

        Raises:
            ModelNotFoundError: the server knows no such model or version.
        """
        ask = questions.is_model_ready(model, self._terms.headers(), version=version)
        return await self._answer(ask)

    async def load(
        self,
        model: str,
        config: Mapping[str, object] | None = None,
        *,
        wait: Duration | None = None,
    ) -> None:
        """Load or reload a model; returns when it serves. Never tried twice.

        Args:
            model: its name.
            config: settings of it to change, where the server allows that.
            wait: for how long, instead of the client's timeout.
        """
        wait_ns = None if wait is None else duration_ns(wait, "wait")
        ask = questions.load(model, self._terms.headers(), config=config, timeout_ns=wait_ns)
        await self._answer(ask)

    async def unload(self, model: str, *, wait: Duration | None = None) -> None:
        """Have a model finish what it holds; returns when it is gone. Never tried twice."""
        wait_ns = None if wait is None else duration_ns(wait, "wait")
        await self._answer(questions.unload(model, self._terms.headers(), timeout_ns=wait_ns))

    # --- carrying it out ---

    async def _answer(self, ask: Ask[T]) -> T:
        """Do what the conversation says until it ends."""
        talk = converse(ask, self._patience, self._chance, self._clock.now_ns)
        end: Answer | Lost | None = None
        while True:
            try:
                step = talk.send(end)
            except StopIteration as done:
                result: T = done.value
                return result
            if isinstance(step, Send):
                end = await self._send(step)
            else:
                await self._clock.sleep(step.duration_ns)
                end = None

    async def _send(self, step: Send) -> Answer | Lost:
        """One try."""
        try:
            async with (
                asyncio.timeout(step.timeout_ns / NS_PER_S),
                self._session.stream(**request_arguments(step, self._clock.now_ns)) as response,
            ):
                parts = AnswerParts(response)
                async for piece in response.aiter_bytes():
                    parts.add(piece)
                return parts.whole()
        except (httpx.TransportError, TimeoutError) as error:
            return lost(error, step)
