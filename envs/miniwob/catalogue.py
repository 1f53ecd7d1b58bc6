"""The installed tasks of MiniWoB++: the HTML pages in the `miniwob` wheel.

Only the pages are used. The package's Python code, which drives Selenium, is not imported.
"""

from __future__ import annotations

import importlib.util
from functools import cache
from pathlib import Path

from turncredit.envs.errors import EnvError, UnknownOption
from turncredit.installation import needs
from turncredit.registry import suggest

__all__ = ["html_folder", "task_name", "task_names"]


@cache
def html_folder() -> Path | None:
    """Return the folder of MiniWoB's pages; None if the wheel is not installed."""
    try:
        spec = importlib.util.find_spec("miniwob")
    except (ImportError, ValueError):
        return None
    places = [Path(location) / "html" for location in (spec.submodule_search_locations or ())] if spec else []
    return next((location for location in places if (location / "miniwob").is_dir()), None)


@cache
def task_names() -> tuple[str, ...]:
    """Return the sorted names of all tasks; empty if the wheel is not installed."""
    folder = html_folder()
    return tuple(sorted(page.stem for page in (folder / "miniwob").glob("*.html"))) if folder else ()


def task_name(name: object) -> str:
    """Return the name of a task after validating it.

    Raises:
        EnvError: the wheel is not installed.
        UnknownOption: no such task.
    """
    names = task_names()
    if not names:
        raise EnvError(needs("MiniWoB++ is not installed", "miniwob"))
    if name not in names:
        raise UnknownOption(f"unknown MiniWoB++ task {name!r}{suggest(str(name), names)}")
    return str(name)
