"""One sentence for every mistake that a person can make; a traceback only for ours.

    Exception
    └── UserError       raised by the commands themselves
    (and the root errors of the other folders, OSError, a missing extra: see `sentence_of`)

The folders' error classes are looked up among the modules already loaded: an error of a module that nobody imported
cannot have been raised, and importing it here would cost start-up time.
"""

from __future__ import annotations

import difflib
import os
import sys
from collections.abc import Iterable

USER_ERROR = 2
INTERRUPTED = 130

_ROOTS = (
    ("turnwise.envs.errors", "EnvError"),
    ("turnwise.credit.errors", "CreditError"),
    ("turnwise.agents.errors", "AgentError"),
    ("turnwise.training.errors", "TrainingError"),
    ("turnwise.tools.sandbox.errors", "SandboxError"),
    ("turnwise.tools.retrieval.errors", "RetrievalError"),
    ("turnwise.tools.serving", "ServingError"),
)
_EXTRAS = {
    "torch": "train",
    "transformers": "train",
    "tokenizers": "train",
    "safetensors": "train",
    "zstandard": "train",
    "matplotlib": "train",
    "tensorboard": "log",
}


class UserError(Exception):
    """The command was asked for something that it cannot do; the message is the whole explanation."""


def debugging() -> bool:
    """True when the caller wants tracebacks (`TURNWISE_DEBUG=1`)."""
    return os.environ.get("TURNWISE_DEBUG", "") not in ("", "0")


def near(wanted: str, choices: Iterable[str]) -> str:
    """The end of an error sentence: the nearest name if there is one, and the choices while they fit a line."""
    known = sorted(choices)
    close = difflib.get_close_matches(wanted, known, n=1, cutoff=0.6)
    hint = f" Did you mean {close[0]!r}?" if close else ""
    if not known:
        return hint
    shown = ", ".join(known[:12]) + (f" and {len(known) - 12} more" if len(known) > 12 else "")
    return f"{hint} Choices: {shown}."


def choose(kind: str, wanted: str, choices: Iterable[str]) -> str:
    """`wanted`, if it is one of the choices.

    Raises:
        UserError: it is not; the sentence names the nearest choice.
    """
    known = list(choices)
    if wanted in known:
        return wanted
    raise UserError(f"There is no {kind} {wanted!r}.{near(wanted, known)}")


def _from_our_folders(error: BaseException) -> bool:
    for module, name in _ROOTS:
        root = getattr(sys.modules.get(module), name, None)
        if isinstance(root, type) and isinstance(error, root):
            return True
    return False


def _os_sentence(error: OSError) -> str:
    if error.strerror is None:
        return str(error) or type(error).__name__
    where = [os.fspath(name) if not isinstance(name, int) else str(name) for name in (error.filename,) if name]
    place = f"{where[0]!s}: " if where else ""
    return f"{place}{error.strerror}"


def sentence_of(error: BaseException) -> str | None:
    """The sentence that explains a user's mistake, or None when the error is a fault of the program.

    Args:
        error: what a command raised.
    """
    if isinstance(error, UserError) or _from_our_folders(error):
        return " ".join(str(error).split()) or type(error).__name__
    if isinstance(error, OSError):
        return _os_sentence(error)
    if isinstance(error, ImportError) and "turnwise[" in str(error):
        return str(error)
    if isinstance(error, ModuleNotFoundError) and (package := (error.name or "").split(".")[0]) in _EXTRAS:
        return f"This needs {package}, which is not installed: pip install turnwise[{_EXTRAS[package]}]"
    return None
