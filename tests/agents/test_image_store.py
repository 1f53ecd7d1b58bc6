"""Images on disk: the pixels come back, each is stored once, and what is damaged is said."""

from __future__ import annotations

import os
import pickle
from dataclasses import replace
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from PIL import Image

from turncredit.agents.content import ImagePart
from turncredit.agents.errors import ImageError, StoreError
from turncredit.agents.files.image_store import ImageStore, images_of
from turncredit.agents.files.trajectory_files import TrajectoryWriter, from_json, read_trajectories, to_json
from turncredit.agents.trajectory import Trajectory, Turn

pictures = arrays.arrays(np.uint8, st.tuples(st.integers(1, 9), st.integers(1, 9), st.just(3)))


def picture(number: int) -> ImagePart:
    return ImagePart(np.random.default_rng(number).integers(0, 256, (20, 10, 3), dtype=np.uint8))


def turn(images: tuple[ImagePart, ...], shown: tuple[ImagePart, ...]) -> Turn:
    return Turn((1, 2), (3,), (-0.5,), 0, "o", "t", "a", "s", 0.0, True, images=images, shown=shown)


def trajectory(*turns: Turn) -> Trajectory:
    return Trajectory("t#0@0", "t", None, 0, turns, "terminated", True, 1.0, "s", "o", None, 1.0)


@settings(deadline=None)
@given(pictures)
def test_pixels_come_back_from_every_form(pixels: np.ndarray) -> None:
    image = ImagePart(pixels)
    small = image.compressed()
    for other in (small, pickle.loads(pickle.dumps(image)), pickle.loads(pickle.dumps(small))):
        assert np.array_equal(other.image, pixels)
        assert other == image
        assert hash(other) == hash(image)
        assert other.size == image.size == (pixels.shape[1], pixels.shape[0])
    assert np.array_equal(np.asarray(Image.open(BytesIO(image.png))), pixels)  # any viewer reads it


@given(pictures, pictures)
def test_images_are_equal_exactly_if_their_pixels_are(one: np.ndarray, other: np.ndarray) -> None:
    same = one.shape == other.shape and bool((one == other).all())
    assert (ImagePart(one) == ImagePart(other)) == same


def test_trajectories_come_back_with_their_images(tmp_path: Path) -> None:
    one, two, three = map(picture, range(3))
    kept = trajectory(
        turn((one,), (one,)), turn((two,), (one, two)), turn((), (one, two)), turn((three,), (two, three))
    )
    path = tmp_path / "file.jsonl"
    with TrajectoryWriter(path) as writer:
        writer.write(kept)
        writer.write(kept)
    first, second = read_trajectories(path)
    assert first == second == kept
    assert [image.key for image in images_of(first)] == [one.key, two.key, three.key]
    assert all(
        np.array_equal(mine.image, his.image) for mine, his in zip(images_of(first), images_of(kept), strict=True)
    )
    assert len(list((tmp_path / "images").rglob("*.png"))) == 3


def test_only_what_cannot_be_derived_is_written_of_the_images_in_a_prompt() -> None:
    one, two = picture(1), picture(2)
    conversation = to_json(trajectory(turn((one,), (one,)), turn((two,), (one, two))))
    assert "shown" not in conversation
    assert conversation.count(one.key) == 1
    dropped = to_json(trajectory(turn((one,), (one,)), turn((two,), (two,))))
    assert dropped.count("shown") == 1
    assert "images" not in to_json(trajectory(turn((), ())))


def test_the_files_of_a_run_share_its_images(tmp_path: Path) -> None:
    files = [tmp_path / folder / "000001.jsonl" for folder in ("trajectories", "groups", "experience")]
    assert {ImageStore.of(file).folder for file in files} == {tmp_path / "images"}
    assert ImageStore.of(tmp_path / "mine.jsonl").folder == tmp_path / "images"


@pytest.mark.parametrize("harm", ["missing", "cut", "flipped", "another"])
def test_damage_is_said(tmp_path: Path, harm: str) -> None:
    store = ImageStore(tmp_path)
    store.add([picture(1), picture(2)])
    file, other = ((tmp_path / part.key[:2] / f"{part.key}.png") for part in map(picture, (1, 2)))
    data = file.read_bytes()
    if harm == "missing":
        file.unlink()
    elif harm == "another":
        file.write_bytes(other.read_bytes())
    else:
        file.write_bytes(data[:-20] if harm == "cut" else data[:60] + bytes([data[60] ^ 1]) + data[61:])
    with pytest.raises(ImageError, match=picture(1).key):
        _ = store.image(picture(1).key).image


@pytest.mark.parametrize("key", ["", "../../etc/passwd", "g" * 32, 7, None, "a" * 31])
def test_a_key_that_is_none_is_refused(key: object) -> None:
    with pytest.raises(StoreError, match="32 hexadecimal digits"):
        ImageStore(Path()).image(key)
    line = to_json(trajectory(turn((), ()))).replace('"text":"t"', f'"text":"t","images":["{key}"]')
    with pytest.raises(StoreError, match="turns\\[0\\]"):
        from_json(line)


def test_images_in_use_are_not_removed(tmp_path: Path) -> None:
    store, old, new = ImageStore(tmp_path), picture(1), picture(2)
    store.add([old, new])
    path = tmp_path / old.key[:2] / f"{old.key}.png"
    os.utime(path, (100, 100))
    assert store.remove([old.key, new.key, "0" * 32], before=200) == 1
    assert not path.exists()
    assert np.array_equal(store.image(new.key).image, new.image)
    store.add([old])
    os.utime(path, (100, 100))
    store.add([old])  # an episode that is being played sees it again
    assert store.remove([old.key], before=200) == 0


def test_a_turn_shows_its_images_as_parts() -> None:
    shown = turn((picture(1),), (picture(1),))
    assert shown.content[1:] == (picture(1),)
    assert replace(shown, images=()).content[1:] == ()
