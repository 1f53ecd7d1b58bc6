"""Points on a model's own scale: to pixels and back, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from turncredit.envs.errors import UnknownOption
from turncredit.envs.marks import draw_marks
from turncredit.envs.points import OffScreen, PointScale, point_scale, scale_words, snaps

SIDE = st.integers(2, 5000)
SCALES = st.sampled_from(["pixels", "image", "0..999", "0..1000"]) | st.tuples(SIDE, SIDE).map(list)


@given(
    points=SCALES,
    size=st.tuples(SIDE, SIDE),
    image=st.tuples(SIDE, SIDE),
    shares=st.tuples(st.floats(0, 1), st.floats(0, 1)),
)
def test_a_pixel_is_written_as_the_nearest_point_of_the_scale(
    points: str | list[int], size: tuple[int, int], image: tuple[int, int], shares: tuple[float, float]
) -> None:
    scale = point_scale(points, image)
    assert scale is not None
    pixel = [round(share * (side - 1)) for share, side in zip(shares, size, strict=True)]
    written = scale.write(*pixel, size)
    back = scale.pixel(*written, size)
    for before, after, side, largest in zip(pixel, back, size, scale.limits(size), strict=True):
        assert 0 <= after < side
        assert abs(after - before) <= (side - 1) / largest / 2 + 1
        if largest >= side - 1:
            assert after == before


def test_corners_and_the_table_by_hand() -> None:
    thousand = PointScale((1000, 1000))
    assert [thousand.pixel(x, x, (1080, 2400)) for x in (0, 500, 1000)] == [(0, 0), (540, 1200), (1079, 2399)]
    assert point_scale("image", (540, 1200)) == PointScale((539, 1199))
    assert PointScale((539, 1199)).pixel(539, 1199, (1080, 2400)) == (1079, 2399)
    assert point_scale({"scale": "0..999", "snap": True}, (1, 1)) == PointScale((999, 999))
    assert snaps({"scale": "0..999", "snap": True})
    assert not snaps("0..999")


@pytest.mark.parametrize("point", [(-1, 0), (0, -1), (1001, 0), (0, 1001)])
def test_a_point_beside_the_screen_is_refused(point: tuple[int, int]) -> None:
    with pytest.raises(OffScreen, match="x goes from 0 to 1000 and y from 0 to 1000"):
        PointScale((1000, 1000)).pixel(*point, (1080, 2400))


@pytest.mark.parametrize(
    ("points", "sentence"),
    [
        ("0..500", "points must be one of 'pixels', 'image', '0..999', '0..1000', a pair"),
        (5, "points must be one of"),
        ([1, 2, 3], "points must be one of"),
        ([0, 100], "points must be an integer from 2"),
        ({"snap": 1}, "snap must be"),
        ({"snip": True}, "did you mean 'snap'"),
        ({"scale": None}, "the scale of points"),
    ],
)
def test_another_scale_is_refused(points: object, sentence: str) -> None:
    with pytest.raises(UnknownOption, match=sentence):
        _ = point_scale(points, (540, 1200)), snaps(points)  # type: ignore[arg-type]


@given(points=SCALES)
def test_a_prompt_names_the_limits(points: str | list[int]) -> None:
    scale = point_scale(points, (540, 1200))
    assert scale is not None
    words = scale_words(points, (540, 1200))
    assert "pixels of the screen" in words if scale.largest is None else str(scale.largest[0]) in words


def test_marks_are_drawn_on_a_copy_and_inside_of_their_frames() -> None:
    image = np.full((100, 80, 3), 255, np.uint8)
    marked = draw_marks(image, [(7, (0.25, 0.2, 0.75, 0.8)), (12, (2.0, 2.0, 3.0, 3.0))])
    assert (image == 255).all()
    changed = (marked != image).any(axis=2)
    rows, columns = np.nonzero(changed)
    assert (rows.min(), rows.max(), columns.min(), columns.max()) == (20, 79, 20, 59)
    assert not changed[40:70, 30:50].any()
    two = draw_marks(image, [(8, (0.25, 0.2, 0.75, 0.8))])
    assert (two[20:29, 20:27] != marked[20:29, 20:27]).any()
