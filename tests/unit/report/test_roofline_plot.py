"""The picture of a model under its roof: it is drawn whatever the numbers are."""

from math import inf
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headway.profiling import Roof, bounds_of
from headway.report import MeasuredWork, plot_roofline

pytest.importorskip("matplotlib", reason="matplotlib draws")

ROOF = Roof(flop_per_s=100e9, bytes_per_s=20e9)
AMOUNTS = st.one_of(st.just(0.0), st.floats(1e-3, 1e15))
CEILINGS = st.floats(1e3, 1e16)


def draw(path: Path, bounds, measured: MeasuredWork | None = None, roof: Roof = ROOF) -> bytes:
    plot_roofline(
        {"one core": roof, "all": Roof(flop_per_s=2 * roof.flop_per_s, bytes_per_s=1e9)},
        "model",
        bounds,
        path,
        title="A model",
        command="headway profile explain model.onnx",
        measured=measured,
    )
    return path.read_bytes()


def test_what_was_measured_is_on_the_picture(tmp_path: Path) -> None:
    """A point, or a line over the model's range where traffic is not known."""
    bounds = bounds_of(1e9, 1e7, 1e9, ROOF)
    pictures = {
        draw(tmp_path / "a.png", bounds, measured)
        for measured in (None, MeasuredWork("m", 5e10, 3.0), MeasuredWork("m", 5e10, None))
    }
    assert len(pictures) == 3
    assert all(picture.startswith(b"\x89PNG") for picture in pictures)


def test_a_roof_is_needed(tmp_path: Path) -> None:
    """Without one there is nothing to compare with."""
    bounds = bounds_of(1, 1, 1, ROOF)
    with pytest.raises(ValueError, match="needs a roof"):
        plot_roofline({}, "m", bounds, tmp_path / "x.png", title="", command="")


@settings(max_examples=8, deadline=None)
@given(AMOUNTS, AMOUNTS, AMOUNTS, CEILINGS, CEILINGS, st.one_of(st.none(), AMOUNTS))
def test_any_numbers_can_be_drawn(
    tmp_path_factory, flop, fused, unfused, flops, bandwidth, speed
) -> None:
    """Nothing computed, nothing moved, ceilings far from the model: no warning and no error."""
    roof = Roof(flop_per_s=flops, bytes_per_s=bandwidth)
    bounds = bounds_of(flop, fused, unfused, roof)
    measured = None if speed is None else MeasuredWork("m", speed, flop / fused if fused else inf)
    picture = draw(tmp_path_factory.mktemp("any") / "x.png", bounds, measured, roof)
    assert picture.startswith(b"\x89PNG")
