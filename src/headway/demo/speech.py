"""Sound for silero-vad: in as 32 ms chunks with a memory, out as the probability of speech.

Knows the model's chunking at 16 kHz, and how to make a sound that has what the model listens
for: a voice's pitch pulses, filtered by the resonances of a mouth that changes from vowel to vowel.
"""

import random
from collections.abc import Iterator

import numpy as np

from headway.demo.arrays import Arrays, Floats, Infer

__all__ = [
    "CHUNK_SAMPLES",
    "CONTEXT_SAMPLES",
    "MODEL_NAME",
    "SAMPLE_RATE_HZ",
    "encode_chunk",
    "noise",
    "silence",
    "speech_probabilities",
    "synthesise_speech",
]

MODEL_NAME = "silero-vad"
SAMPLE_RATE_HZ = 16_000
CHUNK_SAMPLES = 512
CONTEXT_SAMPLES = 64
"""The model also sees the end of the chunk before."""

_VOWELS_HZ = (
    (730, 1090, 2440),
    (530, 1840, 2480),
    (270, 2290, 3010),
    (570, 840, 2410),
    (300, 870, 2240),
)
_BANDWIDTHS_HZ = (80, 100, 140)


def speech_probabilities(infer: Infer, sound: Floats) -> Floats:
    """Runs a sound, (sample,) float32, through the model chunk by chunk: (chunk,) float32."""
    memory = np.zeros((1, 2, 128), np.float32)
    probabilities = []
    for window in _windows(sound):
        outputs = infer(MODEL_NAME, encode_chunk(window, memory))
        memory = np.asarray(outputs["memory_next"], np.float32)
        probabilities.append(float(outputs["output"][0, 0]))
    return np.array(probabilities, np.float32)


def encode_chunk(window: Floats, memory: Floats | None = None) -> Arrays:
    """One request: input (1, 576) and memory (1, 2, 128), both float32; no memory at the start."""
    if memory is None:
        memory = np.zeros((1, 2, 128), np.float32)
    return {"input": window[None, :], "memory": memory}


def _windows(sound: Floats) -> Iterator[Floats]:
    """Every whole chunk with the context before it: (576,) float32."""
    padded = np.concatenate([np.zeros(CONTEXT_SAMPLES, np.float32), sound])
    width = CONTEXT_SAMPLES + CHUNK_SAMPLES
    for start in range(0, len(padded) - width + 1, CHUNK_SAMPLES):
        yield padded[start : start + width]


def silence(samples: int) -> Floats:
    """(samples,) float32 zeros."""
    return np.zeros(samples, np.float32)


def noise(chance: random.Random, samples: int, *, level: float = 0.05) -> Floats:
    """White noise: (samples,) float32 with standard deviation `level`."""
    generator = np.random.default_rng(chance.getrandbits(64))
    return generator.normal(0.0, level, samples).astype(np.float32)


def synthesise_speech(chance: random.Random, *, syllables: int = 12) -> Floats:
    """A babble of vowels with pauses and hisses between: (sample,) float32 in -0.5..0.5."""
    pieces: list[Floats] = []
    pitch_hz = chance.uniform(95, 180)
    for _ in range(syllables):
        pieces.append(0.04 * noise(chance, chance.randint(400, 900), level=1.0))
        pieces.append(_vowel(chance, pitch_hz * chance.uniform(0.85, 1.2)))
    sound = np.concatenate(pieces)
    return _scaled(sound, peak=0.5)


def _vowel(chance: random.Random, pitch_hz: float) -> Floats:
    """120 to 250 ms of a voice that glides from one vowel into another: (sample,) float32."""
    samples = int(SAMPLE_RATE_HZ * chance.uniform(0.12, 0.25))
    pulses = _voice(chance, samples, pitch_hz)
    first, second = (_resonate(pulses, formants) for formants in chance.sample(_VOWELS_HZ, 2))
    glide = np.linspace(0.0, 1.0, samples, dtype=np.float32)
    envelope: Floats = np.sqrt(np.sin(np.pi * glide).clip(0.0))
    voiced: Floats = (first * (1 - glide) + second * glide) * envelope
    return voiced


def _voice(chance: random.Random, samples: int, pitch_hz: float) -> Floats:
    """One pulse per cycle of the vocal cords, the pitch falling by a tenth: (samples,) float32."""
    falling = np.linspace(1.05, 0.95, samples) * pitch_hz / SAMPLE_RATE_HZ
    cycles = np.floor(np.cumsum(falling) + chance.random())
    pulses = np.diff(cycles, prepend=cycles[0])
    decay = np.exp(-np.arange(64) / 12.0)
    return np.convolve(pulses, decay)[:samples].astype(np.float32)


def _resonate(source: Floats, formants_hz: tuple[int, ...]) -> Floats:
    """Passes a sound through one resonator after another; loudest sample 1: (sample,) float32."""
    time_s = np.arange(400) / SAMPLE_RATE_HZ
    for formant_hz, bandwidth_hz in zip(formants_hz, _BANDWIDTHS_HZ, strict=True):
        ringing = np.exp(-np.pi * bandwidth_hz * time_s) * np.sin(2 * np.pi * formant_hz * time_s)
        source = np.convolve(source, ringing)[: len(source)]
    return _scaled(source, peak=1.0)


def _scaled(sound: Floats, *, peak: float) -> Floats:
    scaled: Floats = (sound * (peak / np.abs(sound).max())).astype(np.float32)
    return scaled
