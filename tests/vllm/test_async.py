"""The form for accelerators, where vLLM plans a step before the last one's tokens are known.

vLLM runs it on accelerators only. Here the scheduler object is vLLM's and ours, with two steps in
flight, and what the model says is made up.
"""

from collections import Counter, deque
from copy import copy

import pytest
from vllm.utils.hashing import get_hash_fn_by_name
from vllm.v1.core.kv_cache_utils import get_request_block_hasher, init_none_hash
from vllm.v1.core.sched.async_scheduler import AsyncScheduler as VllmAsyncScheduler
from vllm.v1.outputs import ModelRunnerOutput
from vllm.v1.request import Request, RequestStatus
from vllm_rig import prompt

from headway.generate.vllm import AsyncScheduler, Scheduler
from vllm import SamplingParams

STOP = 9


class InFlight:
    """A scheduler whose steps end one step late."""

    def __init__(self, engine, cls, **headway):
        stock = engine.scheduler
        config = copy(stock.vllm_config)
        config.scheduler_config = copy(stock.scheduler_config)
        config.additional_config = {"headway": {"is_checked": True, **headway}}
        config.scheduler_config.async_scheduling = True
        self.scheduler = cls(
            vllm_config=config,
            kv_cache_config=stock.kv_cache_config,
            structured_output_manager=stock.structured_output_manager,
            block_size=stock.block_size,
            hash_block_size=stock.hash_block_size,
        )
        hash_of = get_hash_fn_by_name("sha256")
        init_none_hash(hash_of)
        self._hasher = get_request_block_hasher(stock.block_size, hash_of)
        self._lengths = {}
        self._flying = deque()
        self.first_step, self.said, self.step = {}, Counter(), 0
        self.preempts = Counter()

    def add(self, name, prompt_tokens, tokens, *, tokens_max=None, priority=0, args=None):
        params = SamplingParams(
            max_tokens=tokens_max or tokens, stop_token_ids=[STOP], ignore_eos=True, extra_args=args
        )
        params.update_from_generation_config({}, 2)
        request = Request(
            name,
            prompt(sum(name.encode()), prompt_tokens),
            params,
            None,
            priority=priority,
            block_hasher=self._hasher,
        )
        self._lengths[name] = tokens
        self.scheduler.add_request(request)

    def advance(self):
        """Hand a step out, and take in the one before."""
        output = self.scheduler.schedule()
        says = [
            name
            for name in output.num_scheduled_tokens
            if not self.scheduler.requests[name].is_prefill_chunk
        ]
        self._flying.append((output, says))
        if len(self._flying) == 2:
            self._take_in(*self._flying.popleft())
        self.step += 1

    def _take_in(self, output, says):
        names = list(output.num_scheduled_tokens)
        tokens = []
        for name in names:
            request = self.scheduler.requests.get(name)
            made = request.num_output_tokens + 1 if request is not None else 0
            tokens.append([STOP if made == self._lengths[name] else 11] if name in says else [])
        result = ModelRunnerOutput(
            req_ids=names,
            req_id_to_index={name: index for index, name in enumerate(names)},
            sampled_token_ids=tokens,
        )
        for group in self.scheduler.update_from_output(output, result).values():
            for each in group.outputs:
                self.said[each.request_id] += len(each.new_token_ids)
                self.first_step.setdefault(each.request_id, self.step)

    def play(self, steps_max=3_000):
        while self.scheduler.has_requests() or any(
            out.num_scheduled_tokens for out, _ in self._flying
        ):
            self.advance()
            assert self.step < steps_max


@pytest.mark.parametrize("has_cap", [False, True])
def test_all_tokens_come_with_two_steps_in_flight(engines, has_cap):
    """Answers end by a stop or by their cap, and the books agree after every step."""
    flight = InFlight(engines(None), Scheduler)
    assert isinstance(flight.scheduler, AsyncScheduler)
    assert isinstance(flight.scheduler, VllmAsyncScheduler)
    lengths = {f"r{i}": 5 + 3 * i for i in range(20)}
    for name, tokens in lengths.items():
        flight.add(name, 40, tokens, tokens_max=None if has_cap else 300)
    flight.play()
    assert flight.said == lengths
    assert flight.scheduler.memory.used_count == 0
    assert not flight.scheduler.policy_of_steps.roster.sequences


def test_gold_takes_memory_with_two_steps_in_flight(engines):
    """Victims whose token is under way get it, begin again, and say no token twice."""
    small = {"max_num_seqs": 16, "num_gpu_blocks_override": 41, "max_model_len": 512}
    flight = InFlight(engines(None, **small), Scheduler)
    for i in range(12):
        flight.add(f"long{i}", 64, 150, priority=5)
    for i in range(5):
        for _ in range(25):
            flight.advance()
        flight.add(f"gold{i}", 96, 8)
        arrived = flight.step
        for _ in range(8):
            flight.advance()
        assert flight.first_step[f"gold{i}"] - arrived < 6
    flight.play()
    assert flight.said == {f"long{i}": 150 for i in range(12)} | {f"gold{i}": 8 for i in range(5)}
    assert flight.scheduler.memory.used_count == 0


def test_cancel_with_a_step_in_flight(engines):
    """The output of a request that has gone is thrown away, and nobody else's is."""
    flight = InFlight(engines(None), Scheduler)
    for i in range(6):
        flight.add(f"r{i}", 40, 50)
    for _ in range(10):
        flight.advance()
    flight.scheduler.finish_requests(["r0", "r3"], RequestStatus.FINISHED_ABORTED)
    flight.play()
    assert {name: flight.said[name] for name in ("r1", "r2", "r4", "r5")} == dict.fromkeys(
        ("r1", "r2", "r4", "r5"), 50
    )
    assert flight.scheduler.memory.used_count == 0
