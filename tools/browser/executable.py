"""Find the Chromium executable: a given path, $TURNCREDIT_CHROMIUM, or the first one on the search path."""

from __future__ import annotations

import os
import shutil
from typing import Final

from turncredit.tools.browser.errors import NoBrowser

__all__ = ["NAMES", "VARIABLE", "find_browser"]

VARIABLE: Final = "TURNCREDIT_CHROMIUM"
NAMES: Final = (
    *("chromium-headless-shell", "chromium", "chromium-browser"),
    *("google-chrome", "google-chrome-stable", "chrome-headless-shell"),
)
"""Programs on the search path, in this order; the headless shell is first because it is several times faster."""


def find_browser(executable: str | os.PathLike[str] | None = None) -> str | None:
    """Return the path of a Chromium; None if only Playwright's own download may be available.

    Raises:
        NoBrowser: there is no program at the path given here or in $TURNCREDIT_CHROMIUM; others are not tried then.
    """
    for source, path in (("executable", executable), (f"${VARIABLE}", os.environ.get(VARIABLE))):
        if path:
            program = shutil.which(os.fspath(path))
            if program is None:
                raise NoBrowser(f"{source} must be the path of a Chromium program, got {os.fspath(path)!r}")
            return program
    return next((path for path in map(shutil.which, NAMES) if path), None)
