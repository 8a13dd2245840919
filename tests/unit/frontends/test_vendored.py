"""What the web page has of others: where it is from, and under which licence."""

from pathlib import Path

import headway.frontends
import vendor_uplot

FOLDER = Path(headway.frontends.__file__).parent / "dashboard"


def test_plots_are_drawn_by_the_version_that_is_named() -> None:
    """The built file says which it is, and lies beside its licence."""
    script = (FOLDER / "uPlot.iife.min.js").read_text("utf-8")
    assert f"uPlot (v{vendor_uplot.VERSION})" in script[:200]
    licence = (FOLDER / "uPlot.LICENSE.txt").read_text("utf-8")
    assert "Permission is hereby granted, free of charge" in licence


def test_every_vendored_file_is_one_of_the_package() -> None:
    """All that is minified is fetched by the tool, and can be compared with the package."""
    minified = {path.name for path in FOLDER.iterdir() if ".min." in path.name}
    assert minified <= set(vendor_uplot.FILES.values())
    assert all((FOLDER / name).stat().st_size for name in vendor_uplot.FILES.values())
