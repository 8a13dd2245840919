"""vLLM in this process, with a tiny model that is made on the spot: what every test here plays.

Knows vLLM. Counts steps of the engine, never time.
"""

import json
from collections import Counter
from pathlib import Path
from typing import NamedTuple

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast
from vllm.distributed import cleanup_dist_env_and_memory
from vllm.distributed.kv_transfer import ensure_kv_transfer_shutdown

from vllm import EngineArgs, LLMEngine, SamplingParams

HEADWAY = "headway.generate.vllm.Scheduler"
WORDS = 512


def tiny_llama(folder: Path) -> Path:
    """Write a Llama of a few thousand parameters, with a word for each byte."""
    torch.manual_seed(7)
    config = LlamaConfig(
        vocab_size=WORDS,
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        head_dim=32,
        max_position_embeddings=4096,
        bos_token_id=1,
        eos_token_id=2,
        pad_token_id=0,
        tie_word_embeddings=False,
        initializer_range=0.4,  # so wide that what is said depends on all that was said
    )
    LlamaForCausalLM(config).to(torch.float32).save_pretrained(folder)
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    words = {word: index for index, word in enumerate(["<pad>", "<s>", "</s>", *alphabet])}
    tokenizer = Tokenizer(models.BPE(vocab=words, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, bos_token="<s>", eos_token="</s>", pad_token="<pad>"
    )
    fast.chat_template = "{% for m in messages %}{{ m['content'] }}\n{% endfor %}"
    fast.save_pretrained(folder)
    (folder / "generation_config.json").write_text(json.dumps({"eos_token_id": 2}))
    return folder


class Call(NamedTuple):
    """One request of a test."""

    name: str
    prompt: list[int]
    tokens: int
    priority: int = 0
    args: dict[str, object] | None = None
    at_step: int = 0


class Engine:
    """vLLM's engine, stepped by the test."""

    def __init__(self, model: Path, scheduler: str | None = HEADWAY, **args) -> None:
        headway = {"is_checked": True, **args.pop("headway", {})}
        if scheduler == HEADWAY:
            args["additional_config"] = {"headway": headway}
        defaults = {
            "dtype": "float32",
            "max_model_len": 1024,
            "max_num_seqs": 8,
            "max_num_batched_tokens": 256,
            "num_gpu_blocks_override": 300,
            "kv_cache_memory_bytes": 64 << 20,
            "gpu_memory_utilization": 0.1,
            "block_size": 32,
            "enforce_eager": True,
            "seed": 0,
            "disable_log_stats": True,
        }
        self.engine = LLMEngine.from_engine_args(
            EngineArgs(model=str(model), scheduler_cls=scheduler, **{**defaults, **args})
        )
        self.scheduler = self.engine.engine_core.engine_core.scheduler
        self.step = 0
        self.first_step: dict[str, int] = {}
        self.last_step: dict[str, int] = {}
        self.tokens: dict[str, list[int]] = {}
        self.reasons: dict[str, str] = {}
        self.preempts: Counter[str] = Counter()
        stock = self.scheduler._preempt_request

        def counted(request, *rest, **more):
            self.preempts[request.request_id.rsplit("-", 1)[0]] += 1
            return stock(request, *rest, **more)

        self.scheduler._preempt_request = counted

    def add(self, call: Call) -> None:
        params = SamplingParams(
            temperature=0.0, max_tokens=call.tokens, ignore_eos=True, extra_args=call.args
        )
        self.engine.add_request(
            call.name, {"prompt_token_ids": call.prompt}, params, priority=call.priority
        )

    def advance(self) -> None:
        """One step."""
        for output in self.engine.step():
            name, said = output.request_id, output.outputs[0]
            if said.token_ids and name not in self.first_step:
                self.first_step[name] = self.step
            if output.finished:
                self.last_step[name] = self.step
                self.tokens[name] = list(said.token_ids)
                self.reasons[name] = said.finish_reason
        self.step += 1

    def play(self, calls: list[Call], steps_max: int = 5_000) -> None:
        """All of it, to the end."""
        left = sorted(calls, key=lambda call: call.at_step)
        while left or self.engine.has_unfinished_requests():
            while left and left[0].at_step <= self.step:
                self.add(left.pop(0))
            self.advance()
            assert self.step < steps_max, f"not done after {steps_max} steps"

    def ttft_steps(self, calls: list[Call], prefix: str = "") -> list[int]:
        """Steps from a request's arrival to its first token, that step included."""
        return [
            self.first_step[call.name] - call.at_step + 1
            for call in calls
            if call.name.startswith(prefix)
        ]

    def close(self) -> None:
        self.engine.engine_core.shutdown()
        del self.engine, self.scheduler
        ensure_kv_transfer_shutdown()
        cleanup_dist_env_and_memory()


def prompt(seed: int, tokens: int) -> list[int]:
    """A prompt that no other seed has a prefix of."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(3, WORDS, (tokens,), generator=generator).tolist()
