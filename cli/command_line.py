"""The command line of this process, to be shown to readers of its results."""

from __future__ import annotations

import re
import shlex
import sys


def command() -> str:
    """Return the command line of this process, without the folder of the program and without passwords in URLs."""
    return without_password(shlex.join(["turnwise", *sys.argv[1:]]))


def without_password(text: str) -> str:
    """Return a text without `user:password@` in its URLs.

    >>> without_password("openai:m@https://me:secret@host/v1")
    'openai:m@https://host/v1'
    """
    return re.sub(r"(?<=://)[^/@\s]+@", "", text)
