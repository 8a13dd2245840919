"""A watch as a picture."""

import pytest

from headway.report import WatchPanel, plot_watch

matplotlib = pytest.importorskip("matplotlib", reason="draws plots")


def _panel(seconds: int, lines: int = 2) -> WatchPanel:
    return WatchPanel(
        "Memory",
        "MiB",
        {f"process {n}": [(float(s), 100.0 + n) for s in range(seconds)] for n in range(lines)},
    )


@pytest.mark.parametrize("seconds", [1, 10, 1_000])
def test_panels_become_a_png(tmp_path, seconds) -> None:
    """A single reading, short and long watches, more lines than colours, more notes than fit."""
    path = tmp_path / "plots" / "watch.png"
    plot_watch(
        [_panel(seconds), _panel(seconds, lines=9)],
        path,
        title="What was seen",
        notes=[f"warning: {'long ' * 40}{n}" for n in range(9)],
        command="headway doctor watch",
    )
    assert path.read_bytes().startswith(b"\x89PNG")


def test_picture_of_nothing_is_refused(tmp_path) -> None:
    """Without a panel there is nothing to draw."""
    with pytest.raises(ValueError, match="nothing to draw"):
        plot_watch([], tmp_path / "a.png", title="", notes=[], command="")
