"""Curves: dots lie where the numbers say, and strange data draws nothing worse than nothing."""

from __future__ import annotations

import itertools
import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turncredit.report.figures import save_curves
from turncredit.report.plots import Curve, PlotFrame, segment, terminal_plot

FRAME = PlotFrame(0.0, 10.0, 0.0, 1.0, 21, 41)


def test_the_corners_of_the_frame_are_the_corners_of_the_plot() -> None:
    assert FRAME.dot(0, 0) == (0, 40)
    assert FRAME.dot(10, 1) == (20, 0)
    assert FRAME.dot(5, 0.5) == (10, 20)
    assert FRAME.dot(99, -99) == (20, 40)


@given(*[st.tuples(st.integers(0, 50), st.integers(0, 50)) for _ in range(2)])
def test_a_segment_is_connected_and_has_both_ends(start: tuple[int, int], end: tuple[int, int]) -> None:
    dots = segment(start, end)
    assert dots[0] == start
    assert dots[-1] == end
    assert all(max(abs(a[0] - b[0]), abs(a[1] - b[1])) <= 1 for a, b in itertools.pairwise(dots))


def rows_of(curve: Curve, height: int = 8, y_range: tuple[float, float] | None = (0, 1)) -> list[str]:
    return terminal_plot([curve], width=30, height=height, y_range=y_range).plain.splitlines()


def test_a_rising_curve_rises() -> None:
    rows = rows_of(Curve("success", tuple(range(10)), tuple(x / 9 for x in range(10))))
    places = [
        next((column for column, char in enumerate(row[9:]) if 0x2800 < ord(char) < 0x2900), None) for row in rows[:8]
    ]
    assert None not in places
    assert places == sorted(places, key=lambda place: -(place or 0))
    assert rows[0].strip().startswith("1 ┤")
    assert rows[7].strip().startswith("0 ┤")
    assert "success" in rows[-1]


def test_points_are_marked() -> None:
    assert sum(row.count("●") for row in rows_of(Curve("panel", (0, 5, 9), (0.1, 0.5, 0.9), points=True))[:8]) == 3


@given(st.lists(st.floats(allow_nan=True, allow_infinity=True), max_size=12))
def test_any_numbers_can_be_drawn(values: list[float]) -> None:
    rows = rows_of(Curve("x", tuple(range(len(values))), tuple(values)), y_range=None)
    if any(math.isfinite(value) for value in values):
        assert len(rows) >= 10
        assert {len(row.translate({ord("┤"): "│"}).partition("│")[2]) for row in rows[:8]} == {30}
    else:
        assert rows == ["(no points to draw yet)"]


def test_a_png_is_a_png(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    line = Curve("while training", (0, 1, 2), (0.2, 0.4, 0.5))
    panel = Curve("panel", (0, 2), (0.2, 0.5), (0.1, 0.4), (0.3, 0.6), points=True)
    path = tmp_path / "curve.png"
    save_curves([line, panel], path, title="t", x_label="iteration", y_label="success", y_range=(0, 1))
    assert path.read_bytes().startswith(b"\x89PNG\r\n\x1a\n")
    with pytest.raises(OSError, match="nowhere"):
        save_curves([line], tmp_path / "nowhere" / "curve.png", title="t", x_label="x", y_label="y", y_range=None)
