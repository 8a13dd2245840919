"""Right-answer checks: is what comes back what the input deserves?

Knows inputs whose answers are beyond doubt. Never how the answer travels: `infer` may call a
session in this process or a server over HTTP, one row a request.
"""

import random
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass

import numpy as np

from headway.demo import moderation, ocr, speech
from headway.demo.arrays import Floats, Infer
from headway.demo.assets import DemoAssets
from headway.demo.filetype import encode_files, guess_types
from headway.demo.pipeline import PIPELINE, PIPELINE_MODELS
from headway.demo.sentences import encode_sentences, similarity

__all__ = ["CheckResult", "check_models", "check_page", "check_pipelines"]

UNSAFE_SCORE_MAX = 0.1
SPEECH_MEAN_MIN = 0.8
SILENCE_MAX = 0.1
SIMILARITY_GAP_MIN = 0.3

_PYTHON = b'''import json
from pathlib import Path


class Inventory:
    """Counts things on shelves."""

    def __init__(self, path: Path) -> None:
        self._counts: dict[str, int] = json.loads(path.read_text())

    def take(self, name: str, count: int = 1) -> bool:
        if self._counts.get(name, 0) < count:
            return False
        self._counts[name] -= count
        return True
'''
_RUST = b"""use std::collections::HashMap;

pub struct Inventory {
    counts: HashMap<String, u64>,
}

impl Inventory {
    pub fn take(&mut self, name: &str, count: u64) -> Result<(), String> {
        match self.counts.get_mut(name) {
            Some(left) if *left >= count => {
                *left -= count;
                Ok(())
            }
            _ => Err(format!("not enough {name}")),
        }
    }
}
"""
_HTML = b"""<!DOCTYPE html>
<html lang="en">
<head><meta charset="utf-8"><title>Inventory</title></head>
<body>
<table><tr><th>Thing</th><th>Count</th></tr><tr><td>Lamp</td><td>4</td></tr></table>
<p>Ask <a href="/staff">the staff</a> for more.</p>
</body>
</html>
"""
_FILES = {"python": _PYTHON, "rust": _RUST, "html": _HTML}

_PAGE = ("HEADWAY", "Invoice-2048", "Total:135.20")

_SENTENCE = "A man is eating food."
_ALIKE = "Someone is having a meal."
_UNRELATED = "The stock market fell sharply on Monday."


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckResult:
    """Whether one answer was right."""

    name: str
    models: tuple[str, ...]
    passed: bool
    seen: str
    expected: str


Check = Callable[[Infer, DemoAssets], CheckResult]


def check_models(
    infer: Infer, assets: DemoAssets, *, models: Collection[str] | None = None
) -> Iterator[CheckResult]:
    """Runs the checks one after another; an error of `infer` is the caller's to handle.

    Args:
        infer: Reaches the models.
        assets: Read from the cache in which the models lie.
        models: Leaves out the checks that need any other; all are run by default.
    """
    checks: tuple[tuple[Check, tuple[str, ...]], ...] = (
        (check_file_types, ("magika",)),
        (check_reading, ("ocr-detect", "ocr-recognise")),
        (check_sentences, ("minilm",)),
        (check_speech, ("silero-vad",)),
        (check_moderation, ("opennsfw",)),
    )
    for check, needed in checks:
        if models is None or all(name in models for name in needed):
            yield check(infer, assets)


def check_pipelines(infer: Infer, *, models: Collection[str]) -> Iterator[CheckResult]:
    """Runs the checks of pipelines whose models are served; for a server, which alone has them."""
    if all(name in models for name in PIPELINE_MODELS):
        yield check_page(infer)


def check_file_types(infer: Infer, assets: DemoAssets) -> CheckResult:
    """Three source files are recognised as their languages."""
    seen = []
    for content in _FILES.values():
        outputs = infer("magika", encode_files(assets.file_types, [content]))
        seen += guess_types(assets.file_types, outputs["target_label"])
    return CheckResult(
        name="file types are recognised",
        models=("magika",),
        passed=[guess.label for guess in seen] == list(_FILES),
        seen=", ".join(f"{guess.label} {guess.score:.2f}" for guess in seen),
        expected=", ".join(_FILES),
    )


def check_reading(infer: Infer, assets: DemoAssets) -> CheckResult:
    """Text that was drawn is found, cut out and read back, character by character."""
    lines = ocr.read_page(infer, assets.characters, ocr.draw_page(_PAGE))
    return CheckResult(
        name="drawn text is read back",
        models=("ocr-detect", "ocr-recognise"),
        passed=lines == list(_PAGE),
        seen=" | ".join(lines),
        expected=" | ".join(_PAGE),
    )


def check_page(infer: Infer) -> CheckResult:
    """The same in one call: a picture goes in, and its lines come out."""
    lines = [line.decode() for line in infer(PIPELINE, {"page": ocr.draw_page(_PAGE)})["lines"]]
    return CheckResult(
        name="a page is read in one call",
        models=(PIPELINE, *PIPELINE_MODELS),
        passed=lines == list(_PAGE),
        seen=" | ".join(lines),
        expected=" | ".join(_PAGE),
    )


def check_sentences(infer: Infer, assets: DemoAssets) -> CheckResult:
    """Two ways to say a thing are closer to each other than to another subject."""
    vectors: list[Floats] = [
        infer("minilm", encode_sentences(assets.tokenizer, [text]))["embedding"][0]
        for text in (_SENTENCE, _ALIKE, _UNRELATED)
    ]
    alike, unrelated = (similarity(vectors[0], other) for other in vectors[1:])
    return CheckResult(
        name="similar sentences are close",
        models=("minilm",),
        passed=alike - unrelated > SIMILARITY_GAP_MIN,
        seen=f"alike {alike:.2f}, unrelated {unrelated:.2f}",
        expected=f"a difference above {SIMILARITY_GAP_MIN}",
    )


def check_speech(infer: Infer, _assets: DemoAssets) -> CheckResult:
    """A synthesised voice is taken for speech; silence and noise are not."""
    chance = random.Random("headway/demo/speech")
    voice = speech.synthesise_speech(chance, syllables=6)
    quiet = speech.silence(speech.SAMPLE_RATE_HZ // 2)
    hiss = speech.noise(chance, speech.SAMPLE_RATE_HZ // 2)
    spoken, *others = (speech.speech_probabilities(infer, s) for s in (voice, quiet, hiss))
    loudest = float(np.concatenate(others).max())
    return CheckResult(
        name="speech is told from silence and noise",
        models=("silero-vad",),
        passed=float(spoken.mean()) > SPEECH_MEAN_MIN and loudest < SILENCE_MAX,
        seen=f"speech {spoken.mean():.2f} on average, otherwise at most {loudest:.2f}",
        expected=f"above {SPEECH_MEAN_MIN}, at most {SILENCE_MAX}",
    )


def check_moderation(infer: Infer, _assets: DemoAssets) -> CheckResult:
    """A drawn landscape is harmless."""
    picture = moderation.draw_landscape(random.Random("headway/demo/moderation"))
    outputs = infer("opennsfw", moderation.encode_picture(picture))
    (score,) = moderation.unsafe_scores(outputs["outputs"])
    return CheckResult(
        name="a harmless picture passes",
        models=("opennsfw",),
        passed=score < UNSAFE_SCORE_MAX,
        seen=f"unsafe {score:.4f}",
        expected=f"below {UNSAFE_SCORE_MAX}",
    )
