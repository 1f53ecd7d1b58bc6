"""Which paths the programs of a box write to, for tasks that name theirs: /app in place of /work, and /logs."""

from __future__ import annotations

import posixpath
import re
from dataclasses import dataclass
from typing import Final

from turncredit.tools.sandbox.bwrap import WORK
from turncredit.tools.sandbox.errors import BadPath

__all__ = ["DEFAULT", "Layout"]

_PATH: Final = re.compile(r"(/[\w.-]+)+", re.ASCII)
_TAKEN: Final = (
    *("/bin", "/boot", "/dev", "/etc", "/lib", "/lib32", "/lib64", "/proc", "/run", "/sbin", "/sys", "/usr", "/tmp"),
    "/var",
)


@dataclass(frozen=True, slots=True)
class Layout:
    """Paths of a box.

    Args:
        folder: the box's directory as its programs see it.
        scratch: further folders to write to, which `Box.restore` empties as it empties /tmp.

    Raises:
        BadPath: a path is not absolute, lies in a folder of the system, or in another one of these paths.
    """

    folder: str = WORK
    scratch: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        paths = (self.folder, *self.scratch)
        for number, path in enumerate(paths):
            if not _PATH.fullmatch(path) or posixpath.normpath(path) != path:
                raise BadPath(
                    f"a folder of a box must be an absolute path of plain letters such as '/app', got {path!r}"
                )
            if over := next((taken for taken in _TAKEN if f"{path}/".startswith(f"{taken}/")), None):
                raise BadPath(f"a box cannot write to {path!r}, since {over} is the system's")
            others = (other for other in (*paths[:number], *paths[number + 1 :]))
            if over := next((other for other in others if f"{path}/".startswith(f"{other}/")), None):
                raise BadPath(f"the folders of a box must lie apart, but {path!r} lies in {over!r}")


DEFAULT: Final = Layout()
