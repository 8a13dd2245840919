"""Real requests for load: other files, sounds, pictures and sentences every time.

Knows how to make one request for each model. Never sends it, never times it.
"""

import random
from collections.abc import Callable

import numpy as np

from headway.demo import moderation, ocr, speech
from headway.demo.arrays import Arrays, Pixels
from headway.demo.assets import DemoAssets
from headway.demo.filetype import encode_files, invent_file
from headway.demo.sentences import encode_sentences, invent_sentence

__all__ = ["SampleMaker", "pooled", "row_shapes_of", "sample_makers"]

SampleMaker = Callable[[random.Random], Arrays]
"""One request, of one row, from a source of chance."""

_LINES_A_PAGE_MAX = 4


def sample_makers(assets: DemoAssets) -> dict[str, SampleMaker]:
    """A maker for every model of the catalogue, by name."""
    return {
        "magika": lambda chance: encode_files(assets.file_types, [invent_file(chance)]),
        "silero-vad": _sound,
        "ocr-detect": _page,
        "ocr-recognise": _line,
        "opennsfw": lambda chance: moderation.encode_picture(moderation.draw_landscape(chance)),
        "minilm": lambda chance: encode_sentences(assets.tokenizer, [invent_sentence(chance)]),
    }


def row_shapes_of(assets: DemoAssets, model: str) -> dict[str, tuple[int, ...]]:
    """Shape of one row of each input, as the demo sends it: the same request on every call."""
    sample = sample_makers(assets)[model](random.Random("headway/profile"))
    return {name: array.shape[1:] for name, array in sample.items()}


def pooled(maker: SampleMaker, chance: random.Random, *, count: int) -> SampleMaker:
    """Makes `count` requests now and picks from them later, when making one costs too much.

    Drawing a picture takes milliseconds, which a load generator that shares the server's cores
    would take away from it.
    """
    pool = [maker(chance) for _ in range(count)]
    return lambda later: later.choice(pool)


def _sound(chance: random.Random) -> Arrays:
    """A window of speech or of noise, with no memory of what came before."""
    width = speech.CHUNK_SAMPLES + speech.CONTEXT_SAMPLES
    if chance.random() < 0.5:
        return speech.encode_chunk(speech.noise(chance, width))
    sound = speech.synthesise_speech(chance, syllables=1)
    start = chance.randrange(len(sound) - width)
    return speech.encode_chunk(sound[start : start + width])


def _page(chance: random.Random) -> Arrays:
    lines = [ocr.invent_line(chance) for _ in range(chance.randint(1, _LINES_A_PAGE_MAX))]
    return ocr.encode_page(ocr.draw_page(lines))


def _line(chance: random.Random) -> Arrays:
    """One line, cut out where the detector would: all that is not paper, and a margin."""
    page = ocr.draw_page([ocr.invent_line(chance)], height=64)
    return ocr.encode_line(_trim(page))


def _trim(page: Pixels) -> Pixels:
    """(height, width, 3) uint8, without the white around the ink but for a few pixels."""
    margin = 6
    dark = page.min(axis=2) < 128
    rows, columns = np.flatnonzero(dark.any(axis=1)), np.flatnonzero(dark.any(axis=0))
    top, left = max(0, rows[0] - margin), max(0, columns[0] - margin)
    return page[top : rows[-1] + margin, left : columns[-1] + margin]
