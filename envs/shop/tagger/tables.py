"""The tables of NLTK's tagger: where they are, and how they are read without running what is in them.

NLTK itself is not needed. Its data comes as a pickle ("averaged_perceptron_tagger") or as three JSON files
("averaged_perceptron_tagger_eng"), each as a folder or a zip. A pickle can name any function to be called; here it can
name one, `set`.
"""

from __future__ import annotations

import io
import json
import os
import pickle
import sys
import zipfile
from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

from turnwise.envs.errors import EnvError
from turnwise.envs.shop.tagger.perceptron import PerceptronTagger, Tables

__all__ = ["BadTables", "find_tables", "open_tables"]

_PICKLED: Final = "averaged_perceptron_tagger"
_JSON: Final = "averaged_perceptron_tagger_eng"
_PARTS: Final = ("weights", "tagdict", "classes")
_LARGEST: Final = 1 << 26  # bytes; the published tables are a tenth of it

_File = Path | tuple[zipfile.ZipFile, zipfile.ZipInfo]


class BadTables(EnvError):
    """A file that should hold the tables of NLTK's tagger does not."""


def find_tables() -> Path | None:
    """Return where NLTK's tables are on this machine ($NLTK_DATA, then the folders that NLTK uses), or None."""
    return next(filter(None, map(_inside, _folders())), None)


def _inside(folder: Path) -> Path | None:
    """Return where the tables are in a folder of NLTK's data, or None."""
    names = (_PICKLED, f"{_PICKLED}.zip", _JSON, f"{_JSON}.zip")
    return next((place for name in names if (place := folder / "taggers" / name).exists()), None)


def _folders() -> Iterator[Path]:
    yield from (Path(folder) for folder in os.environ.get("NLTK_DATA", "").split(os.pathsep) if folder)
    yield Path("~/nltk_data").expanduser()
    yield from (Path(sys.prefix, *tail, "nltk_data") for tail in ((), ("share",), ("lib",)))
    yield from (Path("/", *tail, "nltk_data") for tail in (("usr", "share"), ("usr", "local", "share"), ("usr", "lib")))


def open_tables(path: str | Path) -> PerceptronTagger:
    """Return the tagger with the tables in a file or folder.

    Args:
        path: the pickle, a folder with the pickle or the JSON files, the zip of such a folder, or a folder of NLTK's
            data.

    Raises:
        BadTables: nothing is there, or something else.
    """
    place = Path(path)
    place = _inside(place) or place
    return _opened(place, place.stat().st_mtime_ns if place.exists() else 0)


@lru_cache(maxsize=2)
def _opened(path: Path, changed: int) -> PerceptronTagger:
    """Return the tagger; read once for all, until the file or folder changes."""
    try:
        return PerceptronTagger(_checked(_read(path)))
    except BadTables:
        raise
    except Exception as wrong:  # a torn pickle can raise anything
        raise BadTables(
            f"{path} should hold the tables of NLTK's perceptron tagger; reading it failed: {wrong}"
        ) from wrong


def _read(path: Path) -> Any:
    """Return the three tables, unchecked."""
    if not path.exists():
        raise BadTables(f"no tables of NLTK's perceptron tagger at {path}: there is no such file or folder")
    if path.is_dir():
        return _of({file.name: file for file in path.iterdir() if file.is_file()}, path)
    if not zipfile.is_zipfile(path):
        return _unpickled(path)
    with zipfile.ZipFile(path) as packed:
        return _of({entry.filename.rpartition("/")[2]: (packed, entry) for entry in packed.infolist()}, path)


def _of(files: Mapping[str, _File], path: Path) -> Any:
    """Return the three tables out of the files of a folder or zip, by name."""
    pickled, parts = f"{_PICKLED}.pickle", [f"{_JSON}.{part}.json" for part in _PARTS]
    if pickled in files:
        return _unpickled(files[pickled])
    if not set(parts) <= set(files):
        raise BadTables(f"{path} should hold {pickled}, or {parts[0]}, .tagdict.json and .classes.json")
    return tuple(json.loads(_bytes(files[name])) for name in parts)


def _unpickled(file: _File) -> Any:
    return _Reader(io.BytesIO(_bytes(file))).load()


def _bytes(file: _File) -> bytes:
    """Return what is in a file, when it is not too large for tables."""
    size = file.stat().st_size if isinstance(file, Path) else file[1].file_size
    if size > _LARGEST:
        raise BadTables(f"tables of NLTK's perceptron tagger take at most {_LARGEST:,} bytes; got {size:,}")
    return file.read_bytes() if isinstance(file, Path) else file[0].read(file[1])


class _Reader(pickle.Unpickler):
    """Reads plain values: lists, dictionaries, numbers, texts, and sets."""

    def find_class(self, module: str, name: str) -> Any:
        """Return `set`, and nothing else."""
        if (module, name) in (("builtins", "set"), ("__builtin__", "set")):
            return set
        raise BadTables(f"the pickle names {module}.{name}; tables are made of plain values and `set` alone")


def _checked(read: Any) -> Tables:
    """Return the tables, when they are such."""
    weights, known, tags = read
    sound = (
        isinstance(weights, dict)
        and isinstance(known, dict)
        and all(isinstance(table, dict) for table in weights.values())
        and all(isinstance(tag, str) for tag in (*known.values(), *tags))
        and all(isinstance(weight, int | float) for table in weights.values() for weight in table.values())
    )
    if not sound or not tags:
        raise BadTables("tables of NLTK's perceptron tagger are weights by feature and tag, tags by word, and tags")
    return Tables(weights, known, frozenset(tags))
