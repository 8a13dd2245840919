"""Put uPlot, which draws the plots of the web page, and its licence beside the page's own files.

The built files are those of the package on npm, unchanged; `npm pack` checks them against the
registry's own sum. Needs npm, and nothing else of a tool does: what is vendored is committed.

Usage: python tools/vendor_uplot.py [--check]
"""

import argparse
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import Final

VERSION: Final = "1.6.32"
FOLDER: Final = Path(__file__).resolve().parent.parent / "src/headway/frontends/dashboard"
FILES: Final = {
    "package/dist/uPlot.iife.min.js": "uPlot.iife.min.js",
    "package/dist/uPlot.min.css": "uPlot.min.css",
    "package/LICENSE": "uPlot.LICENSE.txt",
}


def packed() -> dict[str, bytes]:
    """The package's files by the names that they have here."""
    with tempfile.TemporaryDirectory() as folder:
        command = ["npm", "pack", f"uplot@{VERSION}", "--silent", "--pack-destination", folder]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        with tarfile.open(next(Path(folder).glob("*.tgz"))) as archive:
            found = {}
            for source, name in FILES.items():
                member = archive.extractfile(source)
                assert member is not None, source
                found[name] = member.read()
    return found


def main() -> int:
    """Write the files; with `--check` say whether they are the package's."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--check", action="store_true", help="only compare")
    arguments = parser.parse_args()
    others = 0
    for name, content in packed().items():
        path = FOLDER / name
        if not arguments.check:
            path.write_bytes(content)
        elif not path.exists() or path.read_bytes() != content:
            print(f"{path} is not that of uplot {VERSION}", file=sys.stderr)
            others += 1
    return 1 if others else 0


if __name__ == "__main__":
    sys.exit(main())
