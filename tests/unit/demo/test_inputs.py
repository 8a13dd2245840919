"""What goes into the models and what their answers mean, without the models."""

import json
import random
from pathlib import Path

import numpy as np
import pytest

from headway.demo import moderation, ocr, speech
from headway.demo.filetype import FileTypeConfig, encode_files, guess_types, invent_file
from headway.demo.sentences import encode_sentences, invent_sentence, similarity
from headway.demo.wordpiece import WordPiece

VOCABULARY = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "play", "##ing", "##s", "cafe", "!", "a", "猫"]
CONFIG = FileTypeConfig(
    head_bytes=4, tail_bytes=4, block_bytes=8, padding_token=256, labels=("rust", "python")
)


@pytest.fixture
def tokenizer() -> WordPiece:
    return WordPiece({piece: index for index, piece in enumerate(VOCABULARY)})


@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        ("playing plays", ["play", "##ing", "play", "##s"]),
        ("CAFÉ!a", ["cafe", "!", "a"]),
        ("a\tplay\n", ["a", "play"]),
        ("a猫a", ["a", "猫", "a"]),
        ("pl\u200bay\0", ["play"]),
        ("zebra", ["[UNK]"]),
        ("a" * 101, ["[UNK]"]),
        ("", []),
    ],
)
def test_words_are_cut_as_bert_does(tokenizer: WordPiece, text: str, pieces: list[str]) -> None:
    """Case and accents go, marks and ideographs stand alone, words are cut greedily."""
    expected = [VOCABULARY.index(piece) for piece in ("[CLS]", *pieces, "[SEP]")]
    assert tokenizer.encode(text, tokens_max=128) == expected


def test_long_text_is_cut_and_still_ends_properly(tokenizer: WordPiece) -> None:
    """However long the text, the marks at both ends stay."""
    assert tokenizer.encode("a " * 50, tokens_max=5) == [2, 9, 9, 9, 3]


def test_vocabulary_file_is_numbered_by_line(tmp_path: Path) -> None:
    """A piece's id is its line, counted from 0."""
    path = tmp_path / "vocab.txt"
    path.write_text("\n".join(VOCABULARY) + "\n", encoding="utf-8")
    assert WordPiece.read(path).encode("a", tokens_max=8) == [2, 9, 3]


@pytest.mark.parametrize(("words", "width"), [(1, 16), (14, 16), (15, 32), (60, 64), (500, 128)])
def test_sentences_are_padded_to_a_bucket(tokenizer: WordPiece, words: int, width: int) -> None:
    """Lengths come from a short list, so that requests can be batched."""
    arrays = encode_sentences(tokenizer, ["a " * words, "a"])
    assert arrays["input_ids"].shape == arrays["attention_mask"].shape == (2, width)
    assert arrays["attention_mask"].sum(axis=1).tolist() == [min(words + 2, 128), 3]


def test_similarity_is_the_cosine() -> None:
    """Vectors of length one are compared by their angle."""
    left, right = np.array([1, 0], np.float32), np.array([0.6, 0.8], np.float32)
    assert similarity(left, right) == pytest.approx(0.6)


@pytest.mark.parametrize(
    ("content", "features"),
    [
        (b" ab ", [97, 98, 32, 256, 256, 32, 97, 98]),
        (b"abcdefghij", [97, 98, 99, 100, 103, 104, 105, 106]),
        (b"", [256] * 8),
    ],
)
def test_files_are_sampled_at_both_ends(content: bytes, features: list[int]) -> None:
    """Outer white space goes, and padding stands between head and tail."""
    arrays = encode_files(CONFIG, [content])
    assert arrays["bytes"].tolist() == [features]
    assert arrays["bytes"].dtype == np.int32


def test_best_label_wins() -> None:
    """The answer is the label with the highest score."""
    (guess,) = guess_types(CONFIG, np.array([[0.25, 0.75]], np.float32))
    assert (guess.label, guess.score) == ("python", 0.75)


def test_file_type_config_is_read(tmp_path: Path) -> None:
    """The model's own file says how to sample and what the columns mean."""
    stored = {"beg_size": 4, "end_size": 4, "block_size": 8, "padding_token": 256}
    path = tmp_path / "config.json"
    path.write_text(json.dumps({**stored, "target_labels_space": ["rust", "python"]}))
    assert FileTypeConfig.read(path) == CONFIG


def test_connected_ink_becomes_one_box_each() -> None:
    """Areas that touch are one line, areas apart are two, from top to bottom."""
    ink = np.zeros((40, 60), np.float32)
    ink[5:11, 10:30] = 0.9
    ink[11:14, 20:22] = 0.9
    ink[25:31, 5:55] = 0.9
    ink[35, 40] = 0.9
    boxes = ocr.find_boxes(ink)
    assert boxes == [ocr.Box(5, 0, 35, 19), ocr.Box(1, 21, 59, 35)]


def test_a_forked_area_is_one_box() -> None:
    """Two prongs that meet further down belong together."""
    ink = np.zeros((30, 40), np.float32)
    ink[4:10, 4:16] = ink[4:10, 18:36] = ink[10:20, 4:36] = 1.0
    assert len(ocr.find_boxes(ink)) == 1


def test_no_ink_gives_no_box() -> None:
    """An empty page has no lines."""
    assert ocr.find_boxes(np.zeros((32, 32), np.float32)) == []


@pytest.mark.parametrize(("width", "bucket"), [(100, 160), (161, 320), (400, 640), (5_000, 640)])
def test_lines_are_padded_to_a_bucket(width: int, bucket: int) -> None:
    """A line is scaled to 48 pixels and padded to one of three widths."""
    line = ocr.encode_line(np.full((48, width, 3), 255, np.uint8))["x"]
    assert line.shape == (1, 3, 48, bucket)
    assert line[0, 0, 0, 0] == 1.0


def test_repeats_and_blanks_are_folded() -> None:
    """A character that spans columns is one; a blank between makes it two."""
    columns = np.array([[0, 1, 1, 0, 1, 2, 2, 0]])
    assert ocr.decode_lines(["", "o", "k"], columns) == ["ook"]


def test_drawn_page_has_ink() -> None:
    """A page is white with black text, in the shape that was asked for."""
    page = ocr.draw_page(["HEADWAY"], width=320, height=64)
    assert page.shape == (64, 320, 3)
    assert (page.min(), page.max()) == (0, 255)
    assert ocr.encode_page(page)["x"].shape == (1, 3, 64, 320)


def test_picture_is_cropped_and_centred_around_its_means() -> None:
    """A grey picture comes out as its grey minus the mean of each colour, blue first."""
    values = moderation.encode_picture(np.full((300, 400, 3), 128, np.uint8))["input:0"]
    assert values.shape == (1, 224, 224, 3)
    assert values[0, 0, 0].tolist() == [24.0, 11.0, 5.0]


def test_unsafe_is_the_second_column() -> None:
    """The score is the probability of being unsafe."""
    assert moderation.unsafe_scores(np.array([[0.75, 0.25]], np.float32)) == [0.25]


def test_sound_passes_through_with_context_and_memory() -> None:
    """Each chunk carries the end of the one before, and what the model remembered."""
    seen = []

    def infer(name: str, inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        seen.append((name, inputs["input"][0, :65].tolist(), float(inputs["memory"][0, 0, 0])))
        return {"output": np.array([[0.5]]), "memory_next": inputs["memory"] + 1}

    sound = np.arange(1100, dtype=np.float32)
    assert speech.speech_probabilities(infer, sound).tolist() == [0.5, 0.5]
    assert seen == [
        ("silero-vad", [*[0.0] * 64, 0.0], 0.0),
        ("silero-vad", [float(n) for n in range(448, 513)], 1.0),
    ]


def test_synthesised_speech_is_a_finite_sound() -> None:
    """The babble is float32, half as loud as can be, and free of nonsense."""
    sound = speech.synthesise_speech(random.Random(1), syllables=3)
    assert sound.dtype == np.float32
    assert np.abs(sound).max() == pytest.approx(0.5)


@pytest.mark.parametrize("invent", [invent_file, invent_sentence, ocr.invent_line])
def test_inventions_differ_and_repeat(invent) -> None:
    """The same seed gives the same input, the next draw another."""
    chance = random.Random(7)
    first, second = invent(chance), invent(chance)
    assert first == invent(random.Random(7))
    assert first != second
