"""The images of trajectories on disk: a folder beside the trajectory files, which holds each image once.

The name of a file is the hash of its pixels, so an image that many turns saw is stored once, and nothing that is read
back can differ from what was seen. Images are written before the trajectory that refers to them. Each is written under
another name and then renamed: a process that is killed leaves no half an image.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from turncredit.agents.content import ImagePart
from turncredit.agents.files.fresh_file import fresh_file
from turncredit.agents.root_errors import StoreError
from turncredit.agents.trajectory import Trajectory

__all__ = ["HeldImages", "ImageSource", "ImageStore", "images_of"]

_OF_A_RUN = ("trajectories", "groups", "experience")
"""Folders of a run whose files share the images of the run."""

_DIGITS = frozenset("0123456789abcdef")


class ImageSource(Protocol):
    """Where the images of trajectories come from."""

    def image(self, key: object) -> ImagePart:
        """Return the image of a key."""


@dataclass(frozen=True, slots=True)
class HeldImages:
    """Images in memory by key, as PNG."""

    files: Mapping[str, bytes]

    def image(self, key: object) -> ImagePart:
        """Return the image of a key.

        Raises:
            StoreError: the key is none, or there is no such image.
        """
        name = _checked(key)
        if name not in self.files:
            raise StoreError(f"the image {name} is missing")
        return ImagePart.stored(name, self.files[name])


@dataclass(frozen=True, slots=True)
class ImageStore:
    """The images in a folder.

    Attributes:
        folder: it is made for the first image.
    """

    folder: Path

    @classmethod
    def of(cls, file: Path) -> ImageStore:
        """Return the images that the trajectories of a file refer to: the folder "images" beside it, or of its run."""
        folder = file.parent
        return cls((folder.parent if folder.name in _OF_A_RUN else folder) / "images")

    def add(self, images: Iterable[ImagePart]) -> None:
        """Store the images that are not there yet.

        Raises:
            OSError: one cannot be written.
            StoreError: a link is in its place.
        """
        for image in images:
            path = self._path(image.key)
            for entry in (self.folder, path.parent, path):
                if entry.is_symlink():
                    raise StoreError(f"{entry} is a link, and no image is written through it: remove it")
            try:
                os.utime(path)  # it is in use again, which `remove` heeds
            except FileNotFoundError:
                path.parent.mkdir(parents=True, exist_ok=True)
                part = path.with_name(f".{path.name}.{os.getpid()}.part")
                with fresh_file(part) as file:
                    file.write(image.png)
                os.replace(part, path)

    def image(self, key: object) -> ImagePart:
        """Return a stored image, which is read when its pixels are asked for.

        Raises:
            StoreError: the key is none.
        """
        name = _checked(key)
        return ImagePart.stored(name, self._path(name))

    def holds(self, key: str) -> bool:
        """Return whether the file of an image is there; a link to another file is none."""
        path = self._path(key)
        return path.is_file() and not any(part.is_symlink() for part in (self.folder, path.parent, path))

    def remove(self, keys: Iterable[str], *, before: float) -> int:
        """Remove images that were not added since a time, and return how many.

        Args:
            keys: of the images.
            before: seconds since the epoch; those that were added, or added again, later are in use and stay.
        """
        removed = 0
        for path in map(self._path, keys):
            try:
                if path.stat().st_mtime <= before:
                    path.unlink()
                    removed += 1
            except FileNotFoundError:
                continue
        return removed

    def _path(self, key: str) -> Path:
        return self.folder / key[:2] / f"{key}.png"


def _checked(key: object) -> str:
    """Return the key of an image, which becomes the name of a file.

    Raises:
        StoreError: it is none.
    """
    if not isinstance(key, str) or len(key) != 32 or not _DIGITS.issuperset(key):
        raise StoreError(f"the key of an image must be 32 hexadecimal digits, got {key!r:.80}")
    return key


def images_of(trajectory: Trajectory) -> Iterator[ImagePart]:
    """Yield the images that the turns of a trajectory saw, each once."""
    seen: set[str] = set()
    for turn in trajectory.turns:
        for image in (*turn.images, *turn.shown):
            if image.key not in seen:
                seen.add(image.key)
                yield image
