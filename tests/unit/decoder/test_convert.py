"""Published models become folders that the engine runs."""

import numpy as np
import pytest
from tests.decoder_rig import (
    a_model,
    reference_logits,
    tiny_folder,
    write_gguf,
    write_hub_folder,
)

from headway.decoder import DecoderLimits, DecoderModel, convert, read_card
from headway.decoder.gguf import GgufCheckpoint
from headway.decoder.tiny import TinyCheckpoint
from headway.errors import LoadError


def blocks_of(values):
    return values.reshape(-1, 32)


def q8_0(values):
    blocks = blocks_of(values)
    scales = (np.abs(blocks).max(1, keepdims=True) / 127).astype(np.float16)
    numbers = np.round(blocks / np.maximum(scales.astype(np.float32), 1e-9)).astype(np.int8)
    raw = np.concatenate([scales.view(np.uint8), numbers.view(np.uint8)], 1)
    return 8, raw.tobytes()


def q4(values, *, has_least):
    blocks = blocks_of(values)
    if has_least:
        least = blocks.min(1, keepdims=True).astype(np.float16)
        scales = ((blocks.max(1, keepdims=True) - least) / 15).astype(np.float16)
        numbers = np.round((blocks - least) / scales.astype(np.float32))
        head = [scales.view(np.uint8), least.view(np.uint8)]
    else:
        scales = (np.abs(blocks).max(1, keepdims=True) / 7).astype(np.float16)
        numbers = np.round(blocks / scales.astype(np.float32)) + 8
        head = [scales.view(np.uint8)]
    numbers = numbers.clip(0, 15).astype(np.uint8)
    halves = numbers[:, :16] | (numbers[:, 16:] << 4)
    return 3 if has_least else 2, np.concatenate([*head, halves], 1).tobytes()


def f16(values):
    return 1, values.astype(np.float16).tobytes()


def test_graph_computes_what_the_model_is():
    """Logits after every prefix are those of a plain computation in float64."""
    model = a_model()
    ids = model.tokenizer.encode("the quick brown fox and the rest of it")
    expected = reference_logits(TinyCheckpoint(), ids)
    whole = model.session.prefill(0, ids, 0).copy()
    assert np.allclose(expected[-1], whole, atol=1e-4)
    for index, token in enumerate(ids):
        logits = model.session.step_rows(1, [token], [index])
        assert np.allclose(expected[index], logits[0], atol=1e-4)


@pytest.mark.parametrize("kind", ["gguf", "folder"])
def test_both_forms_of_a_model_are_the_same_model(kind, tmp_path):
    """From a GGUF file or a hub's folder come the weights, tokens and sizes that went into it."""
    source = tmp_path / "source"
    (write_gguf if kind == "gguf" else write_hub_folder)(TinyCheckpoint(), source)
    card = convert(str(source), tmp_path / "made")
    ours = read_card(tiny_folder())
    assert card.shape.layers == ours.shape.layers
    assert card.vocabulary.tokens == ours.vocabulary.tokens
    assert card.vocabulary.merges == ours.vocabulary.merges
    same = DecoderModel(tmp_path / "made", DecoderLimits(context=64, kv_bytes=1 << 20))
    ids = same.tokenizer.encode("the same and the same")
    expected = a_model().session.prefill(0, ids, 0)
    assert np.allclose(expected, same.session.prefill(0, ids, 0), atol=1e-4)


@pytest.mark.parametrize(
    ("pack", "error_max"),
    [
        (f16, 2e-3),
        (q8_0, 2e-2),
        (lambda values: q4(values, has_least=True), 0.25),
        (lambda values: q4(values, has_least=False), 0.35),
    ],
    ids=["f16", "q8_0", "q4_1", "q4_0"],
)
def test_packed_weights_are_unpacked(pack, error_max, tmp_path):
    """Each way of packing gives the numbers back as far as it kept them."""
    write_gguf(TinyCheckpoint(), tmp_path / "m.gguf", pack=pack)
    read = GgufCheckpoint(tmp_path / "m.gguf")
    for part in ("self_attn.q_proj", "mlp.down_proj"):
        name = f"model.layers.1.{part}.weight"
        assert np.abs(read.tensor(name) - TinyCheckpoint().tensor(name)).max() <= error_max


@pytest.mark.parametrize(
    ("metadata", "message"),
    [
        ({"general__architecture": "mamba"}, "family `mamba`"),
        ({"tokenizer__ggml__model": "llama"}, "kind `llama`"),
        ({"tokenizer__ggml__pre": "qwen2"}, "cut by `qwen2`"),
        ({"llama__rope__scaling__type": "yarn"}, "scales positions"),
        ({"llama__block_count": None}, "block_count"),
        ({"llama__attention__head_count_kv": 3}, "do not share"),
    ],
)
def test_model_that_cannot_be_run_is_refused_by_what_it_is(metadata, message, tmp_path):
    """The error names what is not known, before anything is written."""
    write_gguf(TinyCheckpoint(), tmp_path / "m.gguf", **metadata)
    with pytest.raises(LoadError, match=message):
        convert(str(tmp_path / "m.gguf"), tmp_path / "made")
    assert not (tmp_path / "made").exists()


def test_file_that_is_cut_off_is_refused(tmp_path):
    """Half a file is no model."""
    write_gguf(TinyCheckpoint(), tmp_path / "m.gguf")
    whole = (tmp_path / "m.gguf").read_bytes()
    for size in (10, 200, 3_000):
        (tmp_path / "cut.gguf").write_bytes(whole[:size])
        with pytest.raises(LoadError):
            convert(str(tmp_path / "cut.gguf"), tmp_path / "made")


def test_source_that_is_not_there_is_named(tmp_path):
    """The hint says what a source may be."""
    with pytest.raises(LoadError, match=r"no model `nowhere`.*GGUF"):
        convert("nowhere", tmp_path / "made")


def test_folder_of_somebody_else_is_left_alone(tmp_path):
    """Only a model is replaced by a model."""
    (tmp_path / "letters.txt").write_text("keep me")
    with pytest.raises(LoadError, match="there already"):
        convert("tiny", tmp_path)
    assert (tmp_path / "letters.txt").read_text() == "keep me"
    made = tmp_path / "made"
    assert convert("tiny", made) == convert("tiny", made)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["letters.txt", "made"]


def test_folder_without_a_model_says_how_to_make_one(tmp_path):
    """What is missing and what makes it."""
    with pytest.raises(LoadError, match=r"generator.json.*headway generate convert"):
        read_card(tmp_path)
    (tmp_path / "generator.json").write_text('{"name": 3}')
    with pytest.raises(LoadError, match="not understood"):
        read_card(tmp_path)
