"""The examples that lie in the package: the file of a run by its name, and `turncredit list examples`."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from difflib import get_close_matches
from pathlib import Path
from typing import Final, NamedTuple

from rich.table import Table
from rich.text import Text

from turncredit.cli.console import out, piped, say, warn

__all__ = ["FOLDER", "Example", "examples", "no_such_run", "print_examples", "run_file"]

FOLDER: Final = Path(__file__).resolve().parents[2] / "examples"
_RUN: Final = ".toml"
_KINDS: Final = (_RUN, ".py", ".sh", ".yaml")
_NEEDS: Final = "Needs: "


class Example(NamedTuple):
    """An example as its file describes it.

    Args:
        name: name of a run, without its ending; of another file, with it.
        about: what it does, a sentence without its full stop.
        needs: what it needs, extras of the package among it.
    """

    name: str
    about: str
    needs: str


def run_file(path: Path) -> Path:
    """Return the file of a run: the path itself, or the example of the package that it names.

    `demo`, `demo.toml` and `examples/demo.toml` name an example where they are no file; a line says which file is used.
    """
    if path.exists() or path.suffix not in ("", _RUN) or str(path.parent) not in (".", FOLDER.name):
        return path
    example = FOLDER / f"{path.stem}{_RUN}"
    if not example.is_file():
        return path
    if os.environ.get("RANK", "0") == "0":  # one of several processes says it
        warn(f"there is no {path} here; the example {example} is used")
    return example


def no_such_run(path: Path) -> str:
    """Return the message about a path that is neither a file, a folder nor an example."""
    near = get_close_matches(path.stem, [file.stem for file in FOLDER.glob(f"*{_RUN}")], 1)
    hint = f"; did you mean the example {near[0]!r}?" if near else ""
    choices = "a TOML file, a run folder, or an example of `turncredit list examples`"
    return f"{path} does not exist; expected {choices}{hint}"


def examples() -> list[Example]:
    """Return all examples, runs first."""
    files = [path for path in sorted(FOLDER.iterdir()) if path.suffix in _KINDS and path.stem != "__init__"]
    files.sort(key=lambda path: _KINDS.index(path.suffix))
    return [_example(path) for path in files]


def _example(path: Path) -> Example:
    header = _header(path.read_text(encoding="utf-8").splitlines())
    text = " ".join(line for line in header if not line.startswith(_NEEDS))
    about = re.split(r"\.\s", text)[0].strip().removesuffix(".")
    (needs, *_) = [line.removeprefix(_NEEDS).removesuffix(".") for line in header if line.startswith(_NEEDS)] or [""]
    return Example(path.stem if path.suffix == _RUN else path.name, about, needs)


def _header(lines: Iterable[str]) -> list[str]:
    """Return the lines of the paragraph with which a file begins, in a comment or a docstring."""
    header: list[str] = []
    for line in lines:
        if line.startswith("#!"):
            continue
        text = line.strip('#" ')
        if not line.startswith(("#", '"""')) or not text:
            break
        header.append(text)
    return header


def print_examples() -> None:
    """Print a table of the examples, and where they lie. Piped, an example is one plain line."""
    rows = examples()
    if piped():
        widths = [max(len(row[column]) for row in rows) for column in range(3)]
        for row in rows:
            say("  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip())
    else:
        out().print(_table(rows))
        say("turncredit train NAME trains a run; ablate, plan and demo --config take its name as well.")
    say(f"The files lie in {FOLDER}")


def _table(rows: Iterable[Example]) -> Table:
    table = Table(box=None, padding=(0, 2, 1, 0), header_style="bold", pad_edge=False)
    table.add_column("name", no_wrap=True)
    table.add_column("what it does", ratio=3)
    table.add_column("what it needs", ratio=2)
    for name, about, needs in rows:
        table.add_row(Text(name, "bold"), about, needs or "-")
    table.expand = True
    return table
