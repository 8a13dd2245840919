"""Victims that go to the host and come back, in the real engine: the same tokens by every way."""

from vllm_rig import Call, prompt

SMALL = {"max_num_seqs": 16, "num_gpu_blocks_override": 41, "max_model_len": 512}
TRANSFER = {
    "kv_connector": "SwapConnector",
    "kv_connector_module_path": "headway.generate.vllm_swap",
    "kv_role": "kv_producer",
}


def memory_is_short():
    """Long jobs fill a memory of 40 blocks; important requests come one by one."""
    long = [Call(f"long{i}", prompt(i, 64), 150, priority=5) for i in range(12)]
    gold = [Call(f"gold{i}", prompt(100 + i, 96), 8, at_step=30 + 20 * i) for i in range(5)]
    return long + gold


def played(engines, calls, **headway):
    """The engine after all calls, with what went through the model in all."""
    engine = engines(**SMALL, kv_transfer_config=TRANSFER, headway={"learns": False, **headway})
    engine.computed = 0
    stock = engine.scheduler.schedule

    def counted(*args):
        output = stock(*args)
        engine.computed += output.total_num_scheduled_tokens
        return output

    engine.scheduler.schedule = counted
    engine.play(calls)
    return engine


def test_swapped_victims_end_with_the_same_tokens_without_a_prefix_cache(engines, answers):
    """All of them comes back from the host, which keeps nothing in the end."""
    calls = memory_is_short()
    truth = answers(calls)
    engine = engines(
        **SMALL,
        kv_transfer_config=TRANSFER,
        enable_prefix_caching=False,
        headway={"ways": ["swap"]},
    )
    connector = engine.scheduler.connector
    saved = []
    save = connector.save
    connector.save = lambda *args: (saved.append(args), save(*args))
    engine.play(calls)
    engine.advance()
    assert engine.tokens == truth
    assert len(saved) == sum(engine.preempts.values()) > 0
    assert not connector._kept
    assert engine.scheduler.policy_of_steps.preemption.rule.host_tokens == 0


def test_each_way_computes_what_it_should_and_says_the_same(engines, answers):
    """Swapping computes every token once; recomputing more; by cost as the law says."""
    calls = memory_is_short()
    truth = answers(calls)
    once = sum(len(call.prompt) + call.tokens - 1 for call in calls)
    dear = {"step_law": {"prefill_ns": 1e9, "free_tokens": 0}}
    computed = {}
    for name, headway in {
        "swap": {"ways": ["swap"]},
        "recompute": {"ways": ["recompute"]},
        "by cost": dear,
    }.items():
        engine = played(engines, calls, **headway)
        assert engine.tokens == truth, name
        assert engine.preempts
        computed[name] = engine.computed
    assert computed["swap"] == computed["by cost"] == once
    assert computed["recompute"] > once


def test_swapped_request_that_is_cancelled_leaves_nothing_on_the_host(engines):
    """Its copy is dropped, and what it had on the books with it."""
    engine = engines(**SMALL, kv_transfer_config=TRANSFER, headway={"ways": ["swap"]})
    for i in range(12):
        engine.add(Call(f"long{i}", prompt(i, 64), 150, priority=5))
    while not engine.scheduler.connector._kept:
        engine.advance()
        assert engine.step < 200
    engine.engine.abort_request([f"long{i}" for i in range(12)])
    engine.play([Call("new", prompt(50, 64), 4, at_step=engine.step)])
    engine.advance()
    assert not engine.scheduler.connector._kept
    assert engine.scheduler.policy_of_steps.preemption.rule.host_tokens == 0
    assert engine.scheduler.memory.used_count == 0
