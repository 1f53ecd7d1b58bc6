"""The tasks of MiniWoB++, as far as they are on this machine: the pages of the `miniwob` wheel.

The wheel is only looked at: its own Python drives Selenium, and none of it is imported. What counts as a task is a page
in its folder.
"""

from __future__ import annotations

import importlib.util
from functools import cache
from pathlib import Path

from turnwise.envs.errors import EnvError, UnknownOption
from turnwise.registry import suggest

__all__ = ["html_folder", "task_name", "task_names"]


@cache
def html_folder() -> Path | None:
    """Return the folder of MiniWoB's pages; None where the wheel is not installed."""
    try:
        spec = importlib.util.find_spec("miniwob")
    except (ImportError, ValueError):
        return None
    places = [Path(place) / "html" for place in (spec.submodule_search_locations or ())] if spec else []
    return next((place for place in places if (place / "miniwob").is_dir()), None)


@cache
def task_names() -> tuple[str, ...]:
    """Return the names of all tasks, sorted; none where the wheel is not installed."""
    folder = html_folder()
    return tuple(sorted(page.stem for page in (folder / "miniwob").glob("*.html"))) if folder else ()


def task_name(name: object) -> str:
    """Return the name of a task.

    Raises:
        EnvError: the wheel is not installed.
        UnknownOption: it has no such task.
    """
    known = task_names()
    if not known:
        raise EnvError("the tasks of MiniWoB++ are not installed: pip install turnwise[miniwob]")
    if name not in known:
        raise UnknownOption(f"unknown MiniWoB++ task {name!r}{suggest(str(name), known)}")
    return str(name)
