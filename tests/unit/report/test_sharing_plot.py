"""Pictures of plans and of curves: what is said is on them, whatever the numbers are."""

from pathlib import Path
from xml.etree import ElementTree

import pytest

from headway.report import (
    CurveAxis,
    DrawnDevice,
    DrawnSeat,
    DrawnSlice,
    plot_curves,
    plot_sharing,
)

pytest.importorskip("matplotlib", reason="matplotlib draws")

SEAT = DrawnSeat("embedder", "search", 0.5, 0.4)


def a_device(label: str = "n/gpu:0", *slices: DrawnSlice) -> DrawnDevice:
    """With one model on half of it, unless slices are given."""
    return DrawnDevice(label, "A100: mig", slices or (DrawnSlice("3g@4", 0.5, 0.5, (SEAT,)),))


def texts(path: Path) -> str:
    """All words of an SVG, and that it is one."""
    return " ".join(ElementTree.parse(path).getroot().itertext())


def draw(path: Path, *devices: DrawnDevice) -> Path:
    """One picture."""
    plot_sharing(devices, path, title="Who sits where", command="headway plan x.yaml")
    return path


def test_devices_slices_models_and_tenants_are_named(tmp_path: Path) -> None:
    """As words that can be searched."""
    said = texts(draw(tmp_path / "plan.svg", a_device()))
    for word in ("n/gpu:0", "A100: mig", "3g@4", "embedder", "search", "headway plan x.yaml"):
        assert word in said


def test_the_same_plan_is_the_same_picture(tmp_path: Path) -> None:
    """No date and no chance in the file, so that it can be kept beside the plan."""
    one = draw(tmp_path / "a.svg", a_device()).read_bytes()
    assert draw(tmp_path / "b.svg", a_device()).read_bytes() == one


def test_a_png_is_drawn_by_its_name(tmp_path: Path) -> None:
    """The ending decides."""
    assert draw(tmp_path / "plan.png", a_device()).read_bytes().startswith(b"\x89PNG")


def test_more_devices_than_can_be_read_are_counted(tmp_path: Path) -> None:
    """The rest is a number."""
    many = [DrawnDevice(f"n/gpu:{index}", "", ()) for index in range(70)]
    assert "and 6 more devices" in texts(draw(tmp_path / "plan.svg", *many))


@pytest.mark.parametrize("ratio", [0.0, 1e-9, 1.0, 3.0])
def test_any_share_can_be_drawn(tmp_path: Path, ratio: float) -> None:
    """Nothing and too much: no warning and no error."""
    seats = (DrawnSeat("a", "t", ratio, ratio), DrawnSeat("b", "u", 0.1, ratio))
    draw(tmp_path / "plan.png", a_device("d", DrawnSlice("", 0.0, 1.0, seats)))


def test_a_picture_needs_a_device(tmp_path: Path) -> None:
    """Nothing is no plan."""
    with pytest.raises(ValueError, match="needs a device"):
        draw(tmp_path / "x.svg")


def test_curves_are_drawn_with_their_marks(tmp_path: Path) -> None:
    """Names of lines, axes and marks; both endings."""
    for name in ("c.svg", "c.png"):
        plot_curves(
            {"a": [(1, 2), (2, 3)], "none": []},
            tmp_path / name,
            x=CurveAxis("devices", is_log=True),
            y=CurveAxis("requests", is_log=True),
            title="t",
            command="c",
            marks={"best": 2.0},
            level=2.5,
        )
    assert (tmp_path / "c.png").read_bytes().startswith(b"\x89PNG")
    ElementTree.parse(tmp_path / "c.svg")
    axis = CurveAxis("x")
    with pytest.raises(ValueError, match="needs a point"):
        plot_curves({"a": []}, tmp_path / "x.svg", x=axis, y=axis, title="", command="")
