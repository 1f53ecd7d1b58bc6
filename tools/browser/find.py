"""Where the browser is: the path given, $TURNWISE_CHROMIUM, or the first Chromium on the search path.

Left out on purpose: starting it (`process`), and Playwright's own download, which `process` falls back to.
"""

from __future__ import annotations

import os
import shutil
from typing import Final

from turnwise.tools.browser.errors import NoBrowser

__all__ = ["NAMES", "VARIABLE", "find_browser"]

VARIABLE: Final = "TURNWISE_CHROMIUM"
NAMES: Final = (
    *("chromium-headless-shell", "chromium", "chromium-browser"),
    *("google-chrome", "google-chrome-stable", "chrome-headless-shell"),
)
"""What is looked for on the search path; the shell without a window first, for it is several times faster."""


def find_browser(given: str | os.PathLike[str] | None = None) -> str | None:
    """Return the path of a Chromium; None where only Playwright's own may be left.

    Raises:
        NoBrowser: a path was given, here or in $TURNWISE_CHROMIUM, and no program is there. Another one is not taken
            then: whoever names a browser wants that one.
    """
    named = os.environ.get(VARIABLE)
    for where, path in (("the executable given", given), (f"${VARIABLE}", named)):
        if path:
            found = shutil.which(os.fspath(path))
            if found is None:
                raise NoBrowser(f"no browser at {os.fspath(path)!r} ({where}): a Chromium program is wanted there")
            return found
    return next((path for path in map(shutil.which, NAMES) if path), None)
