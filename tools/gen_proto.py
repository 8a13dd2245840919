"""Compile the `.proto` files of the frontends into the descriptors that the server loads.

    python tools/gen_proto.py [--check]

The descriptors are committed, so that neither a build nor a server needs a compiler. `--check`
changes nothing and fails where a file does not say what its source says.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

FOLDER = Path(__file__).resolve().parents[1] / "src" / "headway" / "frontends" / "proto"


def compiled(source: Path) -> bytes:
    """The descriptor set of one file.

    Raises:
        SystemExit: it does not compile; the compiler has said why.
    """
    from grpc_tools import protoc

    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "out.binpb"
        arguments = ["protoc", f"-I{source.parent}", f"--descriptor_set_out={out}", source.name]
        if protoc.main(arguments):
            raise SystemExit(f"{source} does not compile")
        return out.read_bytes()


def main(argv: list[str]) -> int:
    """Write or check every descriptor; the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--check", action="store_true", help="change nothing, fail on differences")
    arguments = parser.parse_args(argv)
    stale = []
    for source in sorted(FOLDER.glob("*.proto")):
        target = source.with_suffix(".binpb")
        descriptor = compiled(source)
        if target.exists() and target.read_bytes() == descriptor:
            continue
        if arguments.check:
            stale.append(target.name)
        else:
            target.write_bytes(descriptor)
            print(f"wrote {target}")
    if stale:
        print(f"stale: {', '.join(stale)}; run: python tools/gen_proto.py", file=sys.stderr)
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
