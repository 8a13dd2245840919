"""The built-in engine for token-by-token models: continuous batching on plain ONNX Runtime.

What a step scheduler of `headway.generate` decides is carried out here, on real weights:

    convert    a published model (GGUF, safetensors) becomes a graph, weights and a card
    model      loaded: tokenizer, rows of keys and values, a session; measured
    engine     sequences in, a step at a time, tokens out
    generator  the engine in a process of its own, as a server sees it

Files, lowest first: `words`, `shape`, `tokenizer`, `weights` (what a model is); `gguf`,
`folder_checkpoint`, `tiny` (where it comes from); `graph`, `card`, `convert` (the folder that the
engine runs); `rows`, `session`, `sampling`, `stops`, `model`, `engine` (running it); `wire`,
`answering`, `worker`, `generator` (a process of its own).

Knows files, arrays, ONNX Runtime and worker processes. May import `executors` (how a process is
started), `generate`, `core`, `errors`, `units`. Must never import a frontend, a tenant's account
or the kernel.
"""

from typing import TYPE_CHECKING

from headway.decoder.card import Card, read_card
from headway.decoder.convert import SMOLLM2, TINY, convert, open_checkpoint, smollm2_path
from headway.decoder.generator import (
    Generation,
    GenerationListener,
    Generator,
    GeneratorParams,
)
from headway.decoder.model_limits import DecoderLimits
from headway.decoder.sampling import Drawn, SamplingParams, bias_of
from headway.decoder.stops import StopWatch
from headway.decoder.tokenizer import Detokenizer, Tokenizer, Vocabulary
from headway.decoder.wire import Begun, Generate, Prompt, Said, Start, TokenLogprob, Wishes
from headway.decoder.words import ChatForm, Message, Piece

if TYPE_CHECKING:
    from headway.decoder.engine import (
        DecoderEngine,
        FinishReason,
        SequenceAsk,
        StepReport,
        TokenOut,
    )
    from headway.decoder.model import DecoderModel

__all__ = [
    "SMOLLM2",
    "TINY",
    "Begun",
    "Card",
    "ChatForm",
    "DecoderEngine",
    "DecoderLimits",
    "DecoderModel",
    "Detokenizer",
    "Drawn",
    "FinishReason",
    "Generate",
    "Generation",
    "GenerationListener",
    "Generator",
    "GeneratorParams",
    "Message",
    "Piece",
    "Prompt",
    "Said",
    "SamplingParams",
    "SequenceAsk",
    "Start",
    "StepReport",
    "StopWatch",
    "TokenLogprob",
    "TokenOut",
    "Tokenizer",
    "Vocabulary",
    "Wishes",
    "bias_of",
    "convert",
    "open_checkpoint",
    "read_card",
    "smollm2_path",
]

_ENGINE = frozenset({"DecoderEngine", "FinishReason", "SequenceAsk", "StepReport", "TokenOut"})
_MODEL = frozenset({"DecoderModel"})


def __getattr__(name: str) -> object:
    """What needs ONNX Runtime is imported when it is first asked for."""
    if name not in _ENGINE | _MODEL:
        raise AttributeError(f"module `{__name__}` has no attribute `{name}`")
    from headway.decoder import engine, model

    return getattr(engine if name in _ENGINE else model, name)
