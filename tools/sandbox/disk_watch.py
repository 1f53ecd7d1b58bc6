"""Watch the disk usage of a box whose files are in a plain directory, and kill its program when it is over the limit.

What is counted: the files of the directory, and files without a name that the processes of the box have open or mapped.
Between two looks nothing limits what a program writes but the size of each file; where it can, the sandbox therefore
gives boxes their own file system.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import Final, Self

from turncredit.tools.sandbox import user_ids

_INTERVAL: Final = 0.02  # seconds between two looks, at least
_SHARE: Final = 4  # a look may take a quarter of the time


class DiskWatch:
    """A thread that calls `kill` once `over` returns True; use it as a context manager."""

    def __init__(self, over: Callable[[], bool], kill: Callable[[], None]) -> None:
        self._over, self._kill = over, kill
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._run, name="turncredit-disk-watch", daemon=True)

    def _run(self) -> None:
        pause = 0.0
        while not self._done.wait(pause):
            begin = time.monotonic()
            if self._over():
                self._kill()
                return
            pause = max(_INTERVAL, _SHARE * (time.monotonic() - begin))

    def __enter__(self) -> Self:
        """Start to watch."""
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop watching."""
        self._done.set()
        if threading.current_thread() is not self._thread:
            self._thread.join()


def unnamed_usage(folder: str, ancestor: int) -> int:
    """Return the bytes on disk of removed files of a directory that processes below `ancestor` have open or mapped."""
    sizes: dict[tuple[int, int], int] = {}
    for pid in user_ids.descendants([ancestor]):
        for listing in (f"/proc/{pid}/fd", f"/proc/{pid}/map_files"):
            with suppress(OSError), os.scandir(listing) as entries:
                for entry in entries:
                    with suppress(OSError):
                        name = os.readlink(entry.path)
                        if name.startswith(f"{folder}/") and name.endswith(" (deleted)"):
                            about = os.stat(entry.path)
                            sizes[about.st_dev, about.st_ino] = about.st_blocks * 512
    return sum(sizes.values())
