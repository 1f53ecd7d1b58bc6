"""Pictures in a terminal: inline where the terminal can show them, else as a file whose path is printed.

Inline pictures follow the protocols of kitty (also Ghostty) and of iTerm2 (also WezTerm). Nothing is asked of the
terminal: its environment variables say which it is, and output that goes to a file or a pipe has no pictures in it.
"""

from __future__ import annotations

import base64
import os
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from turncredit.cli.console import control

__all__ = ["Pictures", "inline"]

_ROWS = 24
"""Lines of the terminal that a picture takes."""
_CHUNK = 4096
"""Most characters of one piece of kitty's protocol."""


class Pictures:
    """Shows the pictures of one episode."""

    def __init__(self) -> None:
        """Make no folder before there is a picture."""
        self._folder: Path | None = None
        self._count = 0

    def show(self, png: bytes) -> str:
        """Show a picture inline and return "", or write it to a file and return its path."""
        if sys.stdout.isatty() and (sequence := inline(png, os.environ)):
            control(sequence)
            return ""
        if self._folder is None:
            self._folder = Path(tempfile.mkdtemp(prefix="turncredit-screens-"))
        self._count += 1
        path = self._folder / f"{self._count:03}.png"
        path.write_bytes(png)
        return str(path)


def inline(png: bytes, environment: Mapping[str, str]) -> str:
    """Return what makes a terminal show a picture, "" if it shows none.

    Args:
        png: the picture.
        environment: variables of the process.
    """
    data, terminal = base64.b64encode(png).decode("ascii"), environment.get("TERM_PROGRAM", "")
    if "TMUX" in environment or environment.get("TERM", "").startswith("screen"):
        return ""  # it would swallow the picture
    if terminal in ("iTerm.app", "WezTerm"):
        return f"\x1b]1337;File=inline=1;size={len(png)};height={_ROWS};preserveAspectRatio=1:{data}\a"
    if "KITTY_WINDOW_ID" in environment or terminal == "ghostty" or environment.get("TERM") == "xterm-kitty":
        pieces = [data[start : start + _CHUNK] for start in range(0, len(data), _CHUNK)]
        heads = [f"a=T,f=100,r={_ROWS},m={int(len(pieces) > 1)}"]
        heads += [f"m={int(number < len(pieces))}" for number in range(2, len(pieces) + 1)]
        return "".join(f"\x1b_G{head};{piece}\x1b\\" for head, piece in zip(heads, pieces, strict=True))
    return ""
