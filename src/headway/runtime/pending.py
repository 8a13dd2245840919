"""A call on its way through the engine: its tensors, and who is told how it ended.

Knows what a tier grants and turns a call into the kernel's `Request`. Decides nothing.
"""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Final

from msgspec import UNSET

from headway.core import Complete, Request, RequestId, TenantId, Tensor, TierName
from headway.errors import ExecutorError, HeadwayError, InvalidRequestError
from headway.executors import StageTimes
from headway.runtime.binding import BoundCall
from headway.runtime.engine import InferCall, InferReply, OnEnd
from headway.runtime.models import Generation, TierParams
from headway.runtime.segments import RowCutter, are_joinable, join_rows
from headway.runtime.shapes import own_copy
from headway.runtime.tokens import TOKENS, tokens_in

__all__ = ["Pending", "resolve", "tell", "wanted_by"]

_ANYONE: Final = TenantId("default")


class Pending:
    """A call that has not been answered.

    Invariants: what is kept of its segments is the caller's own, and no more than its answer.
    """

    __slots__ = (
        "_cutter",
        "_on_end",
        "_parts",
        "bound",
        "budget_ns",
        "call",
        "generation",
        "limit",
        "outputs",
        "stages",
        "tier",
        "tokens",
    )

    def __init__(
        self, call: InferCall, bound: BoundCall, generation: Generation, on_end: OnEnd
    ) -> None:
        self.call = call
        self.bound = bound
        self.generation = generation
        self._on_end = on_end
        self.outputs: list[Tensor] = []
        self.stages: StageTimes | None = None
        """Of the batch that ended last."""
        self.tokens = 0
        """That its model counted so far."""
        self._parts: list[list[Tensor]] = []
        self._cutter: RowCutter | None = None
        self.tier = generation.plan.tier
        self.budget_ns = 0
        self.limit = "tier"

    def request(self, request_id: RequestId, tiers: Mapping[TierName, TierParams]) -> Request:
        """The kernel's view of the call: the tier's grant, shortened by what the client asked.

        Raises:
            InvalidRequestError: there is no such tier.
        """
        call, bound = self.call, self.bound
        if call.tier is not None:
            self.tier = call.tier
        tier = tiers.get(self.tier)
        if tier is None:
            raise InvalidRequestError(
                f"there is no tier `{self.tier}`", hint=f"tiers: {', '.join(tiers)}"
            )
        self.budget_ns = tier.budget_ns
        if call.budget_ns is not None and call.budget_ns < tier.budget_ns:
            self.budget_ns = call.budget_ns
            self.limit = call.budget_source
        return Request(
            request_id=request_id,
            model=call.model,
            bucket=bound.bucket,
            version=call.version,
            rows=bound.rows,
            payload_bytes=bound.payload_bytes,
            padding_bytes=bound.padding_bytes,
            priority=tier.priority if call.priority is None else call.priority,
            tier=self.tier,
            tenant=call.tenant or _ANYONE,
            slot_class=tier.slot_class,
            arrived_at_ns=call.arrived_at_ns,
            budget_ns=self.budget_ns,
            late_ns=tier.late_ns if call.late_ns is None else call.late_ns,
            origin=UNSET if call.origin is None else call.origin,
        )

    def rows_from(self, first_row: int, rows: int) -> list[Tensor]:
        """The inputs of so many of its rows, in the order of the model that runs them."""
        if self._cutter is None:
            self._cutter = RowCutter(self.bound.inputs)
        return self._cutter.cut(first_row, rows)

    def rebound(self, bound: BoundCall, generation: Generation) -> None:
        """Another load of the model runs what is left of it."""
        self.bound = bound
        self.generation = generation
        self._cutter = None

    def start_over(self) -> None:
        """Forget what its segments gave: all rows of an answer are of one version."""
        self._parts.clear()
        self.tokens = 0

    def take(self, outputs: Sequence[Tensor]) -> None:
        """Keep copies of the outputs that the caller wants, without what padding brought.

        Raises:
            ExecutorError: padding cannot be cut off an output of this shape, or the output cannot
                be put behind what the segments before it gave.
        """
        if self.generation.counts_tokens:
            self.tokens += tokens_in(outputs)
        wanted, cuts = self.call.outputs, self.bound.cuts
        self.outputs = [own_copy(t, cuts) for t in outputs if not wanted or t.name in wanted]
        if self._parts and not are_joinable((self._parts[-1], self.outputs)):
            raise ExecutorError(
                "the model's outputs differ in shape or datatype between segments of one request",
                hint="set the model's batch.oversize to `refuse`",
            )

    def keep(self) -> None:
        """What was taken last is a part of the answer."""
        self._parts.append(self.outputs)
        self.outputs = []

    def complete(self, command: Complete, now_ns: int) -> None:
        """Answer with the outputs."""
        segments = len(self._parts) + 1
        if self._parts:
            self.outputs = join_rows((*self._parts, self.outputs))
        self._tell(
            InferReply(
                model=self.call.model,
                version=self.generation.plan.params.version,
                outputs=self._in_wanted_order(),
                queue_delay_ns=command.queue_delay_ns,
                service_ns=command.service_ns,
                batch_rows=command.batch_rows,
                tier=self.tier,
                budget_ns=self.budget_ns,
                budget_source=self.limit,
                request_id=command.request_id,
                foreseen=command.foreseen,
                late_ns=max(0, now_ns - self.call.arrived_at_ns - self.budget_ns),
                segments=segments,
                rows=self.bound.rows,
                device_ns=self._device_ns(command, segments),
                tokens=self.tokens,
                stages=self.stages,
            )
        )

    def _device_ns(self, command: Complete, segments: int) -> int:
        """Batches of several requests are shared by rows; segments run alone."""
        if segments > 1:
            return command.service_ns
        return command.service_ns * self.bound.rows // max(1, command.batch_rows)

    def fail(self, error: HeadwayError) -> None:
        """Answer with an error."""
        self._tell(error)

    def _tell(self, end: InferReply | HeadwayError) -> None:
        tell(self._on_end, end)

    def _in_wanted_order(self) -> list[Tensor]:
        wanted = self.call.outputs
        if len(wanted) < 2:  # one output, or all of them, is in order already
            return self.outputs
        by_name = {tensor.name: tensor for tensor in self.outputs}
        return [by_name[name] for name in wanted]


def tell(on_end: OnEnd, end: InferReply | HeadwayError) -> None:
    """Say how a request ended to someone who may have a bug."""
    try:
        on_end(end)
    except Exception as error:  # noqa: BLE001 - one caller's bug must not stop the scheduler
        asyncio.get_running_loop().call_exception_handler(
            {"message": "whoever was told how a request ended raised", "exception": error}
        )


def resolve(future: "asyncio.Future[InferReply]", end: InferReply | HeadwayError) -> None:
    """End a future, unless whoever awaited it has gone."""
    if future.done():
        return
    if isinstance(end, HeadwayError):
        future.set_exception(end)
    else:
        future.set_result(end)


def wanted_by(members: Sequence[Pending], *, counts_tokens: bool) -> tuple[str, ...]:
    """The union of the outputs that members want; empty, for all, when any member wants all."""
    wanted: dict[str, None] = {TOKENS: None} if counts_tokens else {}
    for member in members:
        if not member.call.outputs:
            return ()
        wanted.update(dict.fromkeys(member.call.outputs))
    return tuple(wanted)
