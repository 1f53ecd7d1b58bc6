"""Temporary files beside a file that is about to get its name: new ones, whatever lies there under their names.

What lies there may come from a stranger, as a link to any file of the user.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import IO

__all__ = ["fresh_file"]


def fresh_file(path: Path) -> IO[bytes]:
    """Open a file to write it from its beginning; a link, a pipe or a device under its name is removed first.

    Args:
        path: the file.

    Raises:
        OSError: it cannot be written, or became a link meanwhile.
    """
    try:
        if not stat.S_ISREG(path.lstat().st_mode):
            path.unlink()
    except FileNotFoundError:
        pass
    return open(path, "wb", opener=_without_links)


def _without_links(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW, 0o666)
