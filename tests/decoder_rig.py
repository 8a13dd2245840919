"""A tiny model made on the spot, a plain reference of what it computes, and an engine to play.

Knows `headway.decoder`. Time is a count: each look at the clock is a millisecond later.
"""

import struct
from functools import cache
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from headway.decoder import (
    DecoderEngine,
    DecoderLimits,
    DecoderModel,
    SamplingParams,
    SequenceAsk,
    convert,
)
from headway.decoder.tiny import TinyCheckpoint
from headway.generate import EngineLimits, StepLaw, StepSettings, TierTerms

MS = 1_000_000
PLAIN = TierTerms(name="plain", priority=2)
GOLD = TierTerms(name="gold", priority=0)
LAW = StepLaw(base_ns=1.0 * MS, prefill_ns=1_000.0, context_ns=0.0, free_tokens=0)
GREEDY = SamplingParams(temperature=0.0)
_kept = TemporaryDirectory()


@cache
def tiny_folder() -> Path:
    """The tiny model, converted once in a process."""
    folder = Path(_kept.name) / "tiny"
    convert("tiny", folder)
    return folder


def a_model(*, blocks=64, context=128, sequences_max=8, **limits):
    """Loaded with memory for so many blocks of 16 tokens."""
    kv_bytes = blocks * 16 * TinyCheckpoint().shape.kv_token_bytes
    given = {"kv_bytes": kv_bytes, "context": context, "sequences_max": sequences_max}
    return DecoderModel(tiny_folder(), DecoderLimits(**given | limits))


class Play:
    """An engine, what it is asked and what it says."""

    def __init__(self, model=None, *, scheduler=None, **settings):
        self.model = model or a_model()
        ticks = count(0, MS)
        self.now_ns = lambda: next(ticks)
        self.engine = DecoderEngine(
            self.model,
            self.now_ns,
            LAW,
            StepSettings(**{"learns": False} | settings),
            scheduler,
        )
        self.tokens = {}
        self.texts = {}
        self.finish = {}
        self.drawn = {}
        self.preempted = []
        self._next = 0

    def ask(self, prompt="hello", *, tokens=12, sampling=GREEDY, terms=PLAIN, tag="t", **more):
        """A sequence arrives; returns its number."""
        number, self._next = self._next, self._next + 1
        ids = self.model.tokenizer.encode(prompt) if isinstance(prompt, str) else prompt
        fields = {"seed": f"seed/{number}", "ignores_end": True} | more
        asked = SequenceAsk(
            sequence_id=number,
            prompt=tuple(ids),
            tokens_max=tokens,
            sampling=sampling,
            terms=terms,
            tag=tag,
            arrived_at_ns=self.now_ns(),
            **fields,
        )
        self.tokens[number], self.texts[number], self.drawn[number] = [], "", []
        self.answer = self.engine.submit(asked)
        self.engine.check()
        return number

    def step(self, steps=1):
        """So many steps; the report of the last."""
        report = None
        for _ in range(steps):
            report = self.engine.step()
            self.engine.check()
            if report is None:
                return None
            self.preempted += report.plan.preempted
            for token in report.tokens:
                number = token.sequence_id
                self.tokens[number].append(token.drawn.token)
                self.drawn[number].append(token.drawn)
                self.texts[number] += token.text
                if token.finish is not None:
                    self.finish[number] = token.finish
        return report

    def cancel(self, number):
        """Its client leaves."""
        self.engine.cancel(number)
        self.engine.check()

    def run(self, steps_max=5_000):
        """To the end."""
        for _ in range(steps_max):
            if self.step() is None:
                assert self.engine.count == 0, "sequences are left and nothing is done"
                return self
        raise AssertionError("it does not end")


def alone(prompt, **asked):
    """The tokens of one sequence that has the engine for itself."""
    play = Play()
    number = play.ask(prompt, **asked)
    return play.run().tokens[number]


def limits_of(model) -> EngineLimits:
    """As a scheduler of the caller's own takes them."""
    return model.engine_limits(LAW)


def reference_logits(checkpoint, ids):
    """What the model says after the tokens, computed plainly in float64: (token, vocabulary)."""
    shape = checkpoint.shape

    def weight(name):
        return checkpoint.tensor(f"{name}.weight").astype(np.float64)

    def norm(x, name):
        return x / np.sqrt((x * x).mean(-1, keepdims=True) + shape.norm_epsilon) * weight(name)

    def turn(x):  # (token, head, number)
        half = shape.head_size // 2
        speeds = shape.rope_base ** (-np.arange(0, shape.head_size, 2) / shape.head_size)
        angles = np.outer(np.arange(len(x)), speeds)[:, None]
        a, b = x[..., :half], x[..., half:]
        cos, sin = np.cos(angles), np.sin(angles)
        return np.concatenate([a * cos - b * sin, b * cos + a * sin], -1)

    x = weight("model.embed_tokens")[list(ids)]
    mask = np.triu(np.full((len(ids), len(ids)), -np.inf), 1)
    for layer in range(shape.layers):
        at = f"model.layers.{layer}"
        n = norm(x, f"{at}.input_layernorm")
        q = turn((n @ weight(f"{at}.self_attn.q_proj").T).reshape(len(ids), shape.heads, -1))
        k = turn((n @ weight(f"{at}.self_attn.k_proj").T).reshape(len(ids), shape.kv_heads, -1))
        v = (n @ weight(f"{at}.self_attn.v_proj").T).reshape(len(ids), shape.kv_heads, -1)
        each = shape.heads // shape.kv_heads
        k, v = np.repeat(k, each, 1), np.repeat(v, each, 1)
        scores = np.einsum("qhd,khd->hqk", q, k) / np.sqrt(shape.head_size) + mask
        scores = np.exp(scores - scores.max(-1, keepdims=True))
        scores /= scores.sum(-1, keepdims=True)
        attended = np.einsum("hqk,khd->qhd", scores, v).reshape(len(ids), -1)
        x = x + attended @ weight(f"{at}.self_attn.o_proj").T
        n = norm(x, f"{at}.post_attention_layernorm")
        gate = n @ weight(f"{at}.mlp.gate_proj").T
        inner = gate / (1 + np.exp(-gate)) * (n @ weight(f"{at}.mlp.up_proj").T)
        x = x + inner @ weight(f"{at}.mlp.down_proj").T
    return norm(x, "model.norm") @ weight("model.embed_tokens").T


# -- the tiny model as others publish models -------------------------------------------------------

_SHORT = {
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}


def tensor_names(checkpoint):
    """All of them, in the family's own names."""
    names = ["model.embed_tokens", "model.norm"]
    for layer in range(checkpoint.shape.layers):
        names += [f"model.layers.{layer}.{part}" for part in _SHORT]
    return [f"{name}.weight" for name in names]


def write_gguf(checkpoint, path, *, pack=lambda values: (0, values.tobytes()), **metadata):
    """A GGUF file of a checkpoint, its queries and keys in the order that such files have.

    Args:
        checkpoint: what to write.
        path: where to.
        pack: a matrix to its kind and bytes; vectors are floats in any case.
        metadata: keys (with `__` for a dot) to change; None leaves one out.
    """
    shape, vocabulary = checkpoint.shape, checkpoint.vocabulary
    kinds = [3 if index in vocabulary.special else 1 for index in range(len(vocabulary.tokens))]
    head = {
        "general.architecture": "llama",
        "general.name": checkpoint.name,
        "llama.block_count": shape.layers,
        "llama.context_length": shape.context,
        "llama.embedding_length": shape.hidden,
        "llama.feed_forward_length": shape.inner,
        "llama.attention.head_count": shape.heads,
        "llama.attention.head_count_kv": shape.kv_heads,
        "llama.rope.dimension_count": shape.head_size,
        "llama.rope.freq_base": shape.rope_base,
        "llama.attention.layer_norm_rms_epsilon": shape.norm_epsilon,
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": vocabulary.cut,
        "tokenizer.ggml.tokens": list(vocabulary.tokens),
        "tokenizer.ggml.merges": [" ".join(pair) for pair in vocabulary.merges],
        "tokenizer.ggml.token_type": kinds,
        "tokenizer.ggml.eos_token_id": vocabulary.ends[0],
        "tokenizer.chat_template": "{% for m in messages %}<|im_start|>{% endfor %}",
    } | {key.replace("__", "."): value for key, value in metadata.items()}
    head = {key: value for key, value in head.items() if value is not None}
    body, entries = b"", []
    for name in tensor_names(checkpoint):
        values = checkpoint.tensor(name)
        heads = {"q_proj": shape.heads, "k_proj": shape.kv_heads}.get(name.split(".")[-2])
        if heads is not None:
            rows, columns = values.shape
            values = values.reshape(heads, 2, rows // heads // 2, columns).swapaxes(1, 2)
            values = np.ascontiguousarray(values).reshape(rows, columns)
        kind, raw = pack(values) if values.ndim == 2 else (0, values.tobytes())
        entries.append((_short(name), values.shape, kind, len(body)))
        body += raw + b"\0" * (-len(raw) % 32)
    out = b"GGUF" + struct.pack("<IQQ", 3, len(entries), len(head))
    for key, value in head.items():
        out += _gguf_text(key) + _gguf_value(value)
    for name, sizes, kind, offset in entries:
        out += _gguf_text(name) + struct.pack("<I", len(sizes))
        out += struct.pack(f"<{len(sizes)}Q", *reversed(sizes)) + struct.pack("<IQ", kind, offset)
    path.write_bytes(out + b"\0" * (-len(out) % 32) + body)


def write_hub_folder(checkpoint, folder, **config):
    """A folder as hubs have it; the tensors in BF16 that lose nothing do, all others as floats."""
    import json

    shape, vocabulary = checkpoint.shape, checkpoint.vocabulary
    folder.mkdir()
    about = {
        "model_type": "llama",
        "num_hidden_layers": shape.layers,
        "hidden_size": shape.hidden,
        "num_attention_heads": shape.heads,
        "num_key_value_heads": shape.kv_heads,
        "intermediate_size": shape.inner,
        "vocab_size": shape.vocabulary,
        "max_position_embeddings": shape.context,
        "rms_norm_eps": shape.norm_epsilon,
        "rope_theta": shape.rope_base,
        "tie_word_embeddings": True,
        "eos_token_id": list(vocabulary.ends),
    } | config
    (folder / "config.json").write_text(json.dumps(about))
    special = [
        {"id": index, "content": vocabulary.tokens[index], "special": True}
        for index in vocabulary.special
    ]
    tokenizer = {
        "added_tokens": special,
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False},
        "model": {
            "type": "BPE",
            "vocab": {token: index for index, token in enumerate(vocabulary.tokens)},
            "merges": [list(pair) for pair in vocabulary.merges],
        },
    }
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer))
    head, body = {}, b""
    for name in tensor_names(checkpoint):
        values = checkpoint.tensor(name)
        kind, raw = "F32", values.tobytes()
        if values.ndim == 1:
            kind, raw = "BF16", (values.view(np.uint32) >> 16).astype(np.uint16).tobytes()
        offsets = [len(body), len(body) + len(raw)]
        head[name] = {"dtype": kind, "shape": list(values.shape), "data_offsets": offsets}
        body += raw
    raw_head = json.dumps(head).encode()
    out = struct.pack("<Q", len(raw_head)) + raw_head + body
    (folder / "model.safetensors").write_bytes(out)


def _short(name):
    name = {"model.embed_tokens.weight": "token_embd.weight"}.get(name, name)
    name = name.replace("model.norm", "output_norm").replace("model.layers.", "blk.")
    for theirs, short in _SHORT.items():
        name = name.replace(theirs, short)
    return name


def _gguf_text(text):
    raw = text.encode()
    return struct.pack("<Q", len(raw)) + raw


def _gguf_value(value):
    if isinstance(value, str):
        return struct.pack("<I", 8) + _gguf_text(value)
    if isinstance(value, list):
        of = 8 if isinstance(value[0], str) else 5
        items = [_gguf_text(each) if of == 8 else struct.pack("<i", each) for each in value]
        return struct.pack("<IIQ", 9, of, len(value)) + b"".join(items)
    if isinstance(value, float):
        return struct.pack("<If", 6, value)
    return struct.pack("<II", 4, value)
