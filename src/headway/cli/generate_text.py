"""`headway generate text`: let a model write, here and now, with the engine that also serves it."""

import argparse
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headway.cli.arguments import UsageError, VerbParser, add_format, add_seed, positive
from headway.cli.output import print_json, say

if TYPE_CHECKING:
    from headway.decoder import DecoderEngine, DecoderModel, SequenceAsk

__all__ = ["EXAMPLE", "add_arguments", "run"]

EXAMPLE = "headway generate text tiny --prompt hello --tokens 8"


def add_arguments(parser: VerbParser) -> None:
    """Say what may be given."""
    parser.add_argument(
        "model", metavar="FOLDER", help="of a converted model, or `tiny` for one of random weights"
    )
    parser.add_argument("--prompt", required=True, metavar="TEXT")
    parser.add_argument("--plain", action="store_true", help="the prompt is no message, but text")
    parser.add_argument(
        "--tokens", type=positive(int), default=64, metavar="N", help="at most (64)"
    )
    parser.add_argument(
        "--temperature", type=float, default=0.0, metavar="X", help="of chance; 0 for none (0)"
    )
    parser.add_argument(
        "--count", type=positive(int), default=1, metavar="N", help="of answers (1)"
    )
    parser.add_argument("--stop", action="append", default=[], metavar="TEXT", help="to stop at")
    add_seed(parser)
    parser.add_argument(
        "--threads", type=positive(int), default=1, metavar="N", help="inside an operator (1)"
    )
    add_format(parser)


def run(args: argparse.Namespace) -> int:
    """Write."""
    from headway.decoder import TINY, DecoderEngine, DecoderLimits, DecoderModel, convert

    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(args.model)
        if args.model == TINY and not folder.is_dir():
            folder = Path(temporary) / TINY
            convert(TINY, folder)
        model = DecoderModel(folder, DecoderLimits(threads=args.threads))
        engine = DecoderEngine(model, time.monotonic_ns, model.measure(time.monotonic_ns))
        for ask in _asks(args, engine):
            engine.submit(ask)
        answers = _write(engine, shows=args.format == "table" and args.count == 1)
    if args.format == "json":
        print_json({"seed": args.seed, **answers})
        return 0
    if args.count == 1:
        print()
    else:
        for answer in answers["answers"]:
            print(f"--- {answer['finish']}, {answer['tokens']} tokens\n{answer['text']}")
    say(f"{answers['tokens']} tokens in {answers['steps']} steps, seed {args.seed}")
    return 0


def _asks(args: argparse.Namespace, engine: "DecoderEngine") -> "list[SequenceAsk]":
    from headway.core import TenantId, TierName
    from headway.decoder import SamplingParams, SequenceAsk
    from headway.generate import SequenceId, TierTerms

    prompt = tuple(_prompt(args, engine.model))
    tokens_max = engine.tokens_max_of(len(prompt), args.tokens)
    return [
        SequenceAsk(
            sequence_id=SequenceId(number),
            prompt=prompt,
            tokens_max=tokens_max,
            sampling=SamplingParams(temperature=args.temperature),
            seed=f"{args.seed}/{number}",
            stops=tuple(args.stop),
            tag=TenantId("you"),
            terms=TierTerms(name=TierName("default")),
            arrived_at_ns=time.monotonic_ns(),
        )
        for number in range(args.count)
    ]


def _prompt(args: argparse.Namespace, model: "DecoderModel") -> list[int]:
    from headway.decoder import Message, Piece

    if not args.prompt:
        raise UsageError("the prompt is empty")
    chat = model.card.chat
    if chat is None or args.plain:
        return model.tokenizer.encode_pieces([Piece(args.prompt, False)])
    return model.tokenizer.encode_pieces(chat.pieces([Message("user", args.prompt)]))


def _write(engine: "DecoderEngine", *, shows: bool) -> dict[str, Any]:
    """Run until all have ended; tokens are shown as they come."""
    texts: dict[int, str] = {}
    counts: dict[int, int] = {}
    finishes: dict[int, str] = {}
    steps = 0
    while engine.count:
        report = engine.step()
        if report is None:
            break
        steps += 1
        for token in report.tokens:
            number = token.sequence_id
            texts[number] = texts.get(number, "") + token.text
            counts[number] = counts.get(number, 0) + 1
            if token.finish is not None:
                finishes[number] = token.finish
            if shows:
                print(token.text, end="", flush=True)
    answers = [
        {"text": texts[number], "tokens": counts[number], "finish": finishes[number]}
        for number in sorted(texts)
    ]
    return {"answers": answers, "tokens": sum(counts.values()), "steps": steps}
