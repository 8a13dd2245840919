"""`headway plan preemption`: room for key-value caches, and when to move one that must go."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Final

from headway.cli.arguments import UsageError, VerbParser, add_format, count, positive
from headway.cli.output import drawing, print_json, print_table
from headway.units import NS_PER_US, format_bytes, format_duration, parse_bytes, parse_duration_ns

if TYPE_CHECKING:
    from headway.plan import Crossover, PreemptionPoint, PrefillLaw, SwapLaw, TransformerShape

__all__ = ["EXAMPLE", "add_arguments", "run"]

EXAMPLE = (
    "headway plan preemption --layers 32 --kv-heads 8 --head-dim 128 "
    "--prefill 512=38ms,2048=160ms,8192=760ms --link 24GB"
)

_LENGTHS: Final = (128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768)


def add_arguments(parser: VerbParser) -> None:
    """Say what may be given."""
    parser.description = (
        f"{parser.description} Computing a cache of L tokens again takes a(L-p) + b(L²-p²), fitted "
        "to measured prompt passes; moving it takes c + s(L-p), by the link's measured rate."
    )
    parser.add_argument("--layers", type=positive(int), required=True, metavar="N")
    parser.add_argument(
        "--kv-heads",
        type=positive(int),
        required=True,
        metavar="N",
        help="heads with keys and values: with grouped queries fewer than heads",
    )
    parser.add_argument("--head-dim", type=positive(int), required=True, metavar="N")
    parser.add_argument(
        "--value-bytes",
        type=positive(float),
        default=2.0,
        metavar="X",
        help="of one number of the cache (2)",
    )
    parser.add_argument(
        "--prefill",
        type=_times,
        required=True,
        metavar="TOKENS=TIME,...",
        help="measured prompt passes, at two lengths at least",
    )
    parser.add_argument(
        "--link",
        type=_size,
        required=True,
        metavar="SIZE",
        help="what it carries in a second to the device, as measured, such as 24GB",
    )
    parser.add_argument(
        "--link-out", type=_size, metavar="SIZE", help="and from the device (as much)"
    )
    parser.add_argument(
        "--link-fixed",
        type=_duration,
        default=100 * NS_PER_US,
        metavar="TIME",
        help="of a move there and back, whatever its size (100us)",
    )
    parser.add_argument(
        "--prefix",
        type=count,
        default=0,
        metavar="TOKENS",
        help="of the length, what is kept for others anyway (0)",
    )
    parser.add_argument("--memory", type=_size, metavar="SIZE", help="that caches may take")
    parser.add_argument(
        "--block",
        type=positive(int),
        default=16,
        metavar="TOKENS",
        help="that are allocated together (16)",
    )
    parser.add_argument("--plot", metavar="FILE", help="draw both times (.svg or .png)")
    add_format(parser)


def run(args: argparse.Namespace) -> int:
    """Fit, compare and print."""
    from headway.plan import (
        TransformerShape,
        crossover,
        fitted_prefill,
        preemption_curve,
        swap_law,
    )

    shape = TransformerShape(
        layers=args.layers,
        kv_heads=args.kv_heads,
        head_dim=args.head_dim,
        value_bytes=args.value_bytes,
    )
    try:
        prefill = fitted_prefill(args.prefill)
    except ValueError as error:
        raise UsageError(str(error), hint="write --prefill 512=38ms,2048=160ms") from error
    swap = swap_law(
        shape,
        out_bytes_per_s=args.link_out or args.link,
        in_bytes_per_s=args.link,
        fixed_ns=args.link_fixed,
    )
    found = crossover(prefill, swap, args.prefix)
    points = preemption_curve(shape, prefill, swap, _LENGTHS, args.prefix)
    if args.format == "json":
        print_json(_plain(args, shape, prefill, swap, found, points))
    else:
        _print_words(args, shape, prefill, swap, found, points)
    if args.plot is not None:
        _draw(args, found, points)
    return 0


def _times(text: str) -> list[tuple[int, float]]:
    try:
        pairs = [part.partition("=") for part in text.split(",")]
        return [(int(tokens), float(parse_duration_ns(time))) for tokens, _, time in pairs]
    except ValueError as error:
        words = f"`{text}` is not TOKENS=TIME,..., such as 512=38ms,2048=160ms"
        raise argparse.ArgumentTypeError(words) from error


def _size(text: str) -> int:
    try:
        return parse_bytes(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def _duration(text: str) -> int:
    try:
        return parse_duration_ns(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def _print_words(
    args: argparse.Namespace,
    shape: "TransformerShape",
    prefill: "PrefillLaw",
    swap: "SwapLaw",
    found: "Crossover",
    points: "list[PreemptionPoint]",
) -> None:
    layer, token = round(shape.layer_token_bytes), round(shape.token_bytes)
    print(f"cache: {format_bytes(layer)} a token and layer, {format_bytes(token)} a token")
    if args.memory is not None:
        tokens = shape.tokens_in(args.memory, args.block)
        print(f"{format_bytes(args.memory)} hold {tokens} tokens in blocks of {args.block}")
    print(
        f"compute again: a = {format_duration(round(prefill.token_ns))} a token, "
        f"b = {prefill.pair_ns:.4g} ns a token squared"
    )
    print(
        f"move: c = {format_duration(round(swap.fixed_ns))}, "
        f"s = {format_duration(round(swap.token_ns))} a token, out and back\n"
    )
    print_table(
        ("tokens", "cache", "compute again", "move", "quicker"),
        [
            (
                point.tokens,
                format_bytes(point.cache_bytes),
                format_duration(round(point.recompute_ns)),
                format_duration(round(point.swap_ns)),
                "move" if point.swap_ns < point.recompute_ns else "compute",
            )
            for point in points
        ],
    )
    print(f"\n{_sentence(args, found)}")


def _sentence(args: argparse.Namespace, found: "Crossover") -> str:
    behind = f" behind a prefix of {args.prefix}" if args.prefix else ""
    if found.tokens is None:
        return f"computing again is always quicker{behind}"
    if found.tokens <= args.prefix + 1:
        return f"moving is always quicker{behind}"
    return f"moving is quicker from {found.tokens} tokens on{behind}, computing again below"


def _plain(
    args: argparse.Namespace,
    shape: "TransformerShape",
    prefill: "PrefillLaw",
    swap: "SwapLaw",
    found: "Crossover",
    points: "list[PreemptionPoint]",
) -> dict[str, object]:
    import msgspec

    memory = args.memory
    return {
        "layer_token_bytes": shape.layer_token_bytes,
        "token_bytes": shape.token_bytes,
        "memory_bytes": memory,
        "memory_tokens": None if memory is None else shape.tokens_in(memory, args.block),
        "recompute_token_ns": prefill.token_ns,
        "recompute_pair_ns": prefill.pair_ns,
        "swap_fixed_ns": swap.fixed_ns,
        "swap_token_ns": swap.token_ns,
        "prefix_tokens": args.prefix,
        "crossover_tokens": found.tokens,
        "rows": [msgspec.to_builtins(point) for point in points],
    }


def _draw(args: argparse.Namespace, found: "Crossover", points: "list[PreemptionPoint]") -> None:
    from headway.report import CurveAxis, plot_curves

    with drawing(args.plot):
        plot_curves(
            {
                "compute again": [(p.tokens, p.recompute_ns / 1e6) for p in points],
                "move out and back": [(p.tokens, p.swap_ns / 1e6) for p in points],
            },
            Path(args.plot),
            x=CurveAxis("tokens", is_log=True),
            y=CurveAxis("time (ms)", is_log=True),
            title="A cache that must go: compute it again, or move it",
            command="headway plan preemption",
            marks={} if found.tokens is None else {f"{found.tokens} tokens": float(found.tokens)},
        )
