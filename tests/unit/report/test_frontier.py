"""The frontier's picture: what is drawn, and what is refused."""

import pytest

from headway.report import draw_frontier

pytest.importorskip("matplotlib", reason="matplotlib draws the plots")


def a_row(**fields):
    """As a results file has it."""
    given = {
        "mix": "m",
        "policy": "fifo",
        "load": None,
        "high_violations": 0.1,
        "high_violations_from": None,
        "high_violations_to": None,
        "low_goodput_rps": 4.0,
    }
    return given | fields


def size(path):
    """Width and height that a PNG says of itself."""
    header = path.read_bytes()[:24]
    assert header[:8] == b"\x89PNG\r\n\x1a\n"
    return int.from_bytes(header[16:20], "big"), int.from_bytes(header[20:24], "big")


def test_each_mix_has_a_panel(tmp_path):
    """Three in a row; a fourth begins the next."""
    for count in (1, 3, 4):
        rows = [
            a_row(mix=f"m{index}", policy=policy)
            for index in range(count)
            for policy in ("fifo", "headway")
        ]
        draw_frontier(rows, tmp_path / f"{count}.png", "a command")
    one, three, four = (size(tmp_path / f"{count}.png") for count in (1, 3, 4))
    assert one[0] < three[0] == four[0]
    assert one[1] == three[1] < four[1]


def test_loads_make_a_line_and_intervals_bars(tmp_path, monkeypatch):
    """In the order of the loads; no bar reaches below nothing."""
    from matplotlib.axes import Axes

    drawn = []
    monkeypatch.setattr(Axes, "errorbar", lambda _, xs, ys, **words: drawn.append((xs, ys, words)))
    rows = [
        a_row(load=load, high_violations=load / 10, low_goodput_work=load, **interval)
        for load, interval in (
            (1.2, {"high_violations_from": -0.05, "high_violations_to": 0.2}),
            (0.6, {}),
        )
    ]
    draw_frontier(rows, tmp_path / "plot.png", "a command", goodput="low_goodput_work")
    ((xs, ys, words),) = drawn
    assert xs == [0.6, 1.2]
    assert ys == pytest.approx([6.0, 12.0])
    assert words["linestyle"] == "-"
    below, above = words["yerr"]
    assert below == pytest.approx([0.0, 12.0])
    assert above == pytest.approx([0.0, 8.0])


def test_nothing_is_no_picture(tmp_path):
    """An empty frame would look like a result."""
    with pytest.raises(ValueError, match="nothing to draw"):
        draw_frontier([], tmp_path / "plot.png", "a command")
    assert not list(tmp_path.iterdir())
