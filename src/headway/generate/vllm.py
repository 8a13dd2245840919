"""vLLM's scheduler with headway's decisions: `--scheduler-cls headway.generate.vllm.Scheduler`.

vLLM's own `schedule()` still does the work: blocks, prefix cache, LoRA, images, grammars, and what
the workers are told. It is only shown, for one step at a time, what the plan has in it:

    what vLLM looks at        shown for the step
    `running`                 those in the plan that run already; the others pause, holding memory
    `waiting`                 those that the plan begins, in its order
    tokens of a request       no more than the plan gives it (`_reserve_prefill_lookahead`)
    whom to preempt           done before, for a concrete request (`EngineMemory.release`)

What vLLM could not do after all, for a limit of its own, is told to the plan's maker (`StepCut`,
`SequenceLost`), so both always have the same books. vLLM's block pool stays the only account of
memory (`vllm_memory`).

This file touches vLLM's scheduler, and `vllm_swap` its connectors; none other touches vLLM. It is a
driver, like those of the other worlds: it reads the clock, and it may not be imported where vLLM is
not installed. vLLM calls the interface private; so the versions it was tested with are named here,
and others are refused.
"""

import logging
import time
from collections import deque
from typing import Any, Final, Self

from headway.core import ModelName
from headway.errors import ConfigError
from headway.generate.events import (
    CopyFinished,
    PreemptWay,
    Refused,
    SequenceArrived,
    SequenceCancelled,
    SequenceLost,
    StepCut,
    StepFinished,
    StepPlan,
    Work,
)
from headway.generate.names import SequenceId, SequenceParams
from headway.generate.scheduler import HeadwayScheduler
from headway.generate.settings import EngineLimits
from headway.generate.vllm_memory import EngineMemory, PrefixHit
from headway.generate.vllm_queue import Waiting
from headway.generate.vllm_terms import PluginSettings

__all__ = ["AsyncScheduler", "Scheduler"]

TESTED_VERSIONS: Final = ("0.32.",)
SWAP_MODULE: Final = "headway.generate.vllm_swap"


def _demand_tested_version() -> None:
    """Refuse a vLLM that nobody has tried this with, before anything of it can be missing.

    Raises:
        ConfigError: it is another version, or none.
    """
    try:
        from vllm.version import __version__ as version
    except ImportError as error:
        raise ConfigError(
            "`headway.generate.vllm` works inside vLLM, which is not installed here",
            hint="pip install 'headway[vllm]', and see docs/guides/vllm.md for CPUs",
        ) from error
    if not version.startswith(TESTED_VERSIONS):
        raise ConfigError(
            f"vLLM `{version}` is not a version that this scheduler was tested with",
            value=version,
            hint="install vLLM " + " or ".join(f"{each}x" for each in TESTED_VERSIONS),
        )


_demand_tested_version()

from vllm.v1.core.sched.async_scheduler import (  # noqa: E402
    AsyncScheduler as VllmAsyncScheduler,
)
from vllm.v1.core.sched.interface import PauseState  # noqa: E402
from vllm.v1.core.sched.output import SchedulerOutput  # noqa: E402
from vllm.v1.core.sched.scheduler import Scheduler as VllmScheduler  # noqa: E402
from vllm.v1.request import Request, RequestStatus  # noqa: E402

_log = logging.getLogger("vllm.headway")  # below vLLM's own logger, which has the handler

_CLOCKS_APART_S_MAX: Final = 60.0
"""Between the arrival that a front end noted and now; more is a clock that is wrong."""


class _Blocks:
    """vLLM's block pool, as `EngineBlocks` asks of it."""

    def __init__(self, scheduler: "Scheduler") -> None:
        manager = scheduler.kv_cache_manager
        self._scheduler = scheduler
        self._manager = manager
        self._pool = manager.block_pool
        self._tables = manager.coordinator.single_type_managers[0].req_to_blocks
        self.total_count = self._pool.num_gpu_blocks - 1  # one stands for "no block"
        self.block_tokens = scheduler.block_size
        self.watermark_count = manager.watermark_blocks

    def free_count(self) -> int:
        return int(self._pool.free_block_queue.num_free_blocks)

    def prefix_hit(self, sequence_id: SequenceId) -> PrefixHit:
        request = self._scheduler.request_of[sequence_id]
        groups, _, _ = self._manager.get_computed_blocks(request)
        blocks = groups.blocks[0]
        return PrefixHit(len(blocks), sum([block.ref_cnt > 0 for block in blocks]))

    def held_count(self, sequence_id: SequenceId) -> int:
        return len(self._held(sequence_id))

    def reader_counts(self, sequence_id: SequenceId) -> list[int]:
        return [block.ref_cnt for block in self._held(sequence_id) if not block.is_null]

    def give_up(self, sequence_id: SequenceId) -> None:
        self._scheduler.preempt_now(sequence_id)

    def _held(self, sequence_id: SequenceId) -> list[Any]:
        request = self._scheduler.request_of.get(sequence_id)
        if request is None:
            return []
        return self._tables.get(request.request_id) or []


class Scheduler(VllmScheduler):  # type: ignore[misc]  # vLLM is not there when types are checked
    """vLLM's scheduler, with headway's step scheduler to decide.

    Built by vLLM. Where vLLM schedules the next step before the last has ended, the object is an
    `AsyncScheduler`.

    Invariants: between two calls of `schedule()`, vLLM's `running` holds all that hold memory, and
    its `waiting` all that do not; the step scheduler knows each request that could run.
    """

    def __new__(cls, vllm_config: Any, *_args: object, **_rest: object) -> Self:
        """The class that fits how vLLM runs its steps."""
        if cls is Scheduler and vllm_config.scheduler_config.async_scheduling:
            return object.__new__(AsyncScheduler)
        return object.__new__(cls)

    def __init__(self, vllm_config: Any, *args: Any, **rest: Any) -> None:
        _demand_supported(vllm_config)
        super().__init__(vllm_config, *args, **rest)
        if len(self.kv_cache_config.kv_cache_groups) != 1:
            raise _unsupported(
                "a model with several kinds of KV cache", "--disable-hybrid-kv-cache-manager"
            )
        config = vllm_config.additional_config
        section = config.get("headway") if isinstance(config, dict) else None
        self.headway_settings = PluginSettings.read(section)
        self.waiting: Waiting[Request] = Waiting()
        self.kv_holding_waiting: Waiting[Request] = Waiting()
        self.request_of: dict[SequenceId, Request] = {}
        self._sequence_ids: dict[str, SequenceId] = {}
        self._sequence_count = 0
        self._unready: dict[str, Request] = {}
        """Requests whose grammar is being compiled."""
        self._ended: dict[SequenceId, bool] = {}
        """Since the last plan; whether the answer was complete."""
        self._lost: list[SequenceId] = []
        self._model = ModelName(str(vllm_config.model_config.model))
        self._grants: dict[str, int] = {}
        self._is_planning = self._is_preempting = False
        self._plan: StepPlan | None = None
        self._launched: deque[tuple[int, StepPlan | None]] = deque()
        """Of steps without their output: when they were handed out, and the plan where all of it
        was done."""
        self._last_output_at_ns = 0
        self._step_ns = 0
        blocks = _Blocks(self)
        self.memory = EngineMemory(blocks)
        group = self.kv_cache_config.kv_cache_groups[0]
        page_bytes = group.kv_cache_spec.page_size_bytes * len(group.layer_names)
        token_bytes = page_bytes / blocks.block_tokens
        self._victim_blocks: dict[SequenceId, list[int]] = {}
        """Of those that a plan preempts, where their keys and values lay."""
        self.policy_of_steps = HeadwayScheduler(
            EngineLimits(
                blocks=blocks.total_count,
                block_tokens=blocks.block_tokens,
                sequences_max=min(self.max_num_active_reqs, self.max_num_scheduled_tokens),
                step_tokens_max=self.max_num_scheduled_tokens,
                waiting_max=1 << 40,  # vLLM has its own limits, which it keeps before this
                law=self.headway_settings.step_law,
                copies=self.headway_settings.copy_law(token_bytes),
            ),
            self.headway_settings.step_settings(token_bytes if self.connector else None),
            self.memory,
        )

    # -- arrivals and ends -------------------------------------------------------------------------

    def add_request(self, request: Request) -> None:
        """A request comes; or more of one that is open, which this scheduler has not."""
        is_known = request.request_id in self.requests
        super().add_request(request)
        if is_known:
            return
        if request.resumable:
            self._turn_away(request, "input that is streamed into a request is not supported")
        elif request.status is RequestStatus.WAITING:
            self._arrive(request)
        else:
            self._unready[request.request_id] = request

    def _arrive(self, request: Request) -> None:
        now_ns = time.monotonic_ns()
        waited_s = min(max(0.0, time.time() - request.arrival_time), _CLOCKS_APART_S_MAX)
        args = request.sampling_params.extra_args if request.sampling_params else None
        origin = self.headway_settings.origin_of(args, request.priority)
        self._sequence_count += 1
        sequence_id = SequenceId(self._sequence_count)
        prompt_tokens = request.num_prompt_tokens
        params = SequenceParams(
            sequence_id=sequence_id,
            model=self._model,
            tag=origin.tenant,
            terms=origin.terms,
            arrived_at_ns=now_ns - int(waited_s * 1e9),
            prompt_tokens=prompt_tokens,
            output_tokens_max=max(1, min(request.max_tokens, self.max_model_len - prompt_tokens)),
            prefix_keys=(sequence_id,) if self.cache_config.enable_prefix_caching else (),
        )
        self.request_of[sequence_id] = request
        self._sequence_ids[request.request_id] = sequence_id
        for answer in self.policy_of_steps.handle(SequenceArrived(sequence=params), now_ns):
            if isinstance(answer, Refused):
                del self.request_of[sequence_id], self._sequence_ids[request.request_id]
                self._turn_away(request, answer.reason)

    def _turn_away(self, request: Request, reason: str) -> None:
        """End it with an error; vLLM does so when the step ends, for grammars that are wrong."""
        _log.warning("request %s was refused: %s", request.request_id, reason)
        self.grammar_compile_error_reqs.add(request.request_id)

    def _free_request(self, request: Request, delay_free_blocks: bool = False) -> Any:
        self._unready.pop(request.request_id, None)
        sequence_id = self._sequence_ids.pop(request.request_id, None)
        if sequence_id is not None:
            self._ended[sequence_id] = request.status not in (
                RequestStatus.FINISHED_ABORTED,
                RequestStatus.FINISHED_ERROR,
            )
        return super()._free_request(request, delay_free_blocks)

    def _preempt_request(self, request: Request, *args: Any, **rest: Any) -> None:
        super()._preempt_request(request, *args, **rest)
        if not self._is_preempting:
            sequence_id = self._sequence_ids.get(request.request_id)
            if sequence_id is not None:
                self._lost.append(sequence_id)

    def preempt_now(self, sequence_id: SequenceId) -> None:
        """Free what a victim of the plan holds; it waits again. Whoever has ended is not one."""
        request = self.request_of.get(sequence_id)
        if not self._is_planning or request is None or request.status is not RequestStatus.RUNNING:
            return
        if self.connector is not None:
            (block_ids,) = self.kv_cache_manager.get_block_ids(request.request_id)
            self._victim_blocks[sequence_id] = block_ids
        self.running.remove(request)
        self._is_preempting = True
        try:
            self._preempt_request(
                request, time.monotonic(), drop_stale_output=self.requires_kv_delivery
            )
        finally:
            self._is_preempting = False

    # -- steps -------------------------------------------------------------------------------------

    def schedule(self, throttle_prefills: bool = False) -> SchedulerOutput:
        """The next step: a plan, and vLLM to carry it out."""
        now_ns = time.monotonic_ns()
        self._tell(now_ns)
        if self._pause_state is PauseState.PAUSED_ALL:
            return super().schedule(throttle_prefills)
        plan = self._make_plan(now_ns)
        work = plan.work if plan is not None else ()
        running, begins, paused = self._split(work)
        chosen, held = Waiting(begins), self.waiting
        held.remove_requests(begins)
        self.running, self.waiting = running, chosen
        try:
            output = super().schedule(throttle_prefills)
        finally:
            self.running.extend(paused)
            self.waiting = held
            held.prepend_requests(chosen)
        self._grants.clear()
        self.memory.settle()
        if work:
            self._plan = plan
            is_cut = self._compare(work, output.num_scheduled_tokens, now_ns)
            launched_at_ns = time.monotonic_ns()
            self._launched.append((launched_at_ns, None if is_cut else plan))
        if self.headway_settings.is_checked:
            self.check()
        return output

    def _make_plan(self, now_ns: int) -> StepPlan | None:
        """A plan that has work in it, if there is any, and its victims where they belong."""
        while True:
            self._is_planning = True
            plan = self.policy_of_steps.plan(now_ns)
            self._is_planning = False
            if plan is None:
                return None
            self._swap_out(plan)
            for load in plan.loads:
                # The copy is made when the next plan begins it, before that step, and in no time
                # of its own; what it takes is in the law of copies.
                event = CopyFinished(
                    sequence_id=load.sequence_id, tokens=load.tokens, copy_ns=0, is_load=True
                )
                self.policy_of_steps.handle(event, now_ns)
            if plan.work or not plan.loads:
                return plan

    def _swap_out(self, plan: StepPlan) -> None:
        """Have the victims copied that the plan means to bring back."""
        for victim in plan.preempted:
            block_ids = self._victim_blocks.pop(victim.sequence_id, None)
            if victim.way is not PreemptWay.SWAP or block_ids is None:
                continue
            sequence = self.policy_of_steps.roster.sequences[victim.sequence_id]
            first = sequence.host_start // self.block_size
            end = sequence.host_start + sequence.host_tokens
            ids = block_ids[first : -(-end // self.block_size)]
            request_id = self.request_of[victim.sequence_id].request_id
            self.connector.save(request_id, first, ids, end)

    def _split(self, work: tuple[Work, ...]) -> tuple[list[Request], list[Request], list[Request]]:
        """Who runs on in this step, who begins, who pauses; and how many tokens each may have."""
        running: list[Request] = []
        begins: list[Request] = []
        grants, request_of = self._grants, self.request_of
        is_running = RequestStatus.RUNNING
        for each in work:
            request = request_of[each.sequence_id]
            if each.tokens > 1:
                grants[request.request_id] = each.tokens
            if request.status is is_running:
                running.append(request)
            else:
                begins.append(request)
        if len(running) == len(self.running):
            return self.running, begins, []
        chosen = set(running)
        return running, begins, [each for each in self.running if each not in chosen]

    def _reserve_prefill_lookahead(
        self, request: Request, num_computed_tokens: int, num_new_tokens: int
    ) -> int:
        """Where vLLM has the last word on a request's tokens, the plan has it."""
        if num_new_tokens == 1:
            return 1
        return min(num_new_tokens, self._grants.get(request.request_id, 1))

    def _compare(self, work: tuple[Work, ...], scheduled: dict[str, int], now_ns: int) -> bool:
        """Tell what vLLM did not do, or did elsewhere; returns whether there was any."""
        cut: list[Work] = []
        for each in work:
            request = self.request_of[each.sequence_id]
            tokens = scheduled.get(request.request_id, 0)
            # vLLM counts them as computed from the moment that it hands them out.
            start = request.num_computed_tokens - tokens
            if tokens != each.tokens or start != each.start:
                cut.append(Work(each.sequence_id, start, tokens, each.yields))
        if not cut:
            return False
        decoding = self.policy_of_steps.roster.decoding
        self.policy_of_steps.handle(StepCut(work=tuple(cut)), now_ns)
        for each in cut:
            is_held = self.request_of[each.sequence_id].status is RequestStatus.RUNNING
            # One that came back to decode, and found less of itself than it left, begins again.
            is_behind = each.tokens > 0 and each.sequence_id in decoding
            if (not is_held or is_behind) and each.sequence_id not in self._lost:
                self._lost.append(each.sequence_id)
        return True

    def update_from_output(
        self, scheduler_output: SchedulerOutput, model_runner_output: Any
    ) -> Any:
        """A step has ended."""
        if scheduler_output.num_scheduled_tokens and self._launched:
            now_ns = time.monotonic_ns()
            launched_at_ns, plan = self._launched.popleft()
            self._timed(plan, now_ns - max(launched_at_ns, self._last_output_at_ns))
            self._last_output_at_ns = now_ns
        return super().update_from_output(scheduler_output, model_runner_output)

    def _timed(self, plan: StepPlan | None, step_ns: int) -> None:
        self._step_ns = step_ns if plan is not None else 0

    def _tell(self, now_ns: int) -> None:
        """Tell the step scheduler all that has happened since its last plan."""
        policy, ended = self.policy_of_steps, self._ended
        if self._plan is not None:
            for sequence_id, is_complete in ended.items():
                if not is_complete:
                    policy.handle(SequenceCancelled(sequence_id=sequence_id), now_ns)
            policy.handle(StepFinished(step_ns=self._step_ns, ended=tuple(ended)), now_ns)
            self._plan, self._step_ns = None, 0
        for sequence_id in ended:
            # Those that were in no step when they ended, or of which a later one was planned.
            policy.handle(SequenceCancelled(sequence_id=sequence_id), now_ns)
            self.request_of.pop(sequence_id, None)
        ended.clear()
        for sequence_id in self._lost:
            policy.handle(SequenceLost(sequence_id=sequence_id), now_ns)
        self._lost.clear()
        for request in list(self._unready.values()):
            if self._handle_blocked_waiting_request(request):
                del self._unready[request.request_id]
                self.deferred_waiting.discard(request)
                self._arrive(request)

    def check(self) -> None:
        """Demand that both books agree. Only whoever waits for its last token may be in one alone.

        Raises:
            AssertionError: they do not.
            InvariantError: one of them does not add up.
        """
        self.policy_of_steps.roster.check()
        assert len(set(self.running)) == len(self.running)
        assert self.memory.free_count >= 0, "more is promised than there is"
        sequences = self.policy_of_steps.roster.sequences
        for request in self.running:
            sequence = sequences.get(self._sequence_ids[request.request_id])
            if sequence is None:
                assert request.num_output_placeholders, "it runs, and nobody plans for it"
            else:
                assert sequence.is_resident, f"`{request.request_id}` is {sequence.phase}"


class AsyncScheduler(Scheduler, VllmAsyncScheduler):  # type: ignore[misc]
    """The same where vLLM schedules a step before the last one's tokens are known.

    A step is then told as finished when the next is planned. Whoever had ended in it is in one more
    step, as with vLLM's own, and its time is learned when it is known.
    """

    def _timed(self, plan: StepPlan | None, step_ns: int) -> None:
        if plan is None or not self.headway_settings.learns:
            return
        self.policy_of_steps.times.finished(
            step_ns,
            prefill_tokens=plan.prefill_tokens,
            decode_count=plan.decode_count,
            context_tokens=plan.context_tokens,
            pair_tokens=plan.pair_tokens,
        )


def _demand_supported(vllm_config: Any) -> None:
    """Refuse what this scheduler would get wrong.

    Raises:
        ConfigError: vLLM was asked for something that it has no plan for.
    """
    parallel = vllm_config.parallel_config
    if vllm_config.speculative_config is not None:
        raise _unsupported("speculative decoding", "leave out --speculative-config")
    if parallel.pipeline_parallel_size > 1:
        raise _unsupported("pipeline parallelism", "use --tensor-parallel-size instead")
    if parallel.decode_context_parallel_size > 1:
        raise _unsupported("decode context parallelism", "leave it out")
    if vllm_config.model_config.runner_type == "pooling":
        raise _unsupported("a pooling model", "leave out --scheduler-cls: it generates nothing")
    if vllm_config.use_v2_model_runner:
        # It has a place for no more requests than `max_num_seqs`, those that pause included.
        raise _unsupported("vLLM's model runner V2", "set VLLM_USE_V2_MODEL_RUNNER=0")
    transfer = vllm_config.kv_transfer_config
    if transfer is not None and transfer.kv_connector_module_path != SWAP_MODULE:
        raise _unsupported("another's KV connector", f"name `{SWAP_MODULE}`, or none")
    if transfer is not None and transfer.kv_role != "kv_producer":
        # A consumer's blocks are kept back until the last step has ended; they are needed at once.
        raise _unsupported(f"a connector in the role `{transfer.kv_role}`", "say kv_producer")


def _unsupported(what: str, hint: str) -> ConfigError:
    return ConfigError(f"headway's scheduler for vLLM does not work with {what}", hint=hint)
