"""Command lines that are shown: that of this process, and the one that continues a run."""

from __future__ import annotations

import re
import shlex
import sys
from pathlib import Path


def command() -> str:
    """Return the command line of this process, without the folder of the program and without passwords in URLs."""
    return without_password(shlex.join(["turncredit", *sys.argv[1:]]))


def without_password(text: str) -> str:
    """Return a text without `user:password@` in its URLs.

    >>> without_password("openai:m@https://me:secret@host/v1")
    'openai:m@https://host/v1'
    """
    return re.sub(r"(?<=://)[^/@\s]+@", "", text)


def resume_command(folder: Path) -> str:
    """Return the command that continues the run in a folder."""
    from turncredit.training.config.file_options import needs_trust
    from turncredit.training.run_folder.paths import run_of

    run = run_of(folder)
    trust = ["--trust"] if run is not None and needs_trust(run) else []
    return shlex.join(["turncredit", "train", str(folder), "--resume", *trust])
