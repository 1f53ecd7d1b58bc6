"""Errors of the command line: one sentence for a mistake of the user, a traceback for a bug.

    Exception
    └── UserError       raised by the commands themselves
    (and the root errors of the other folders, OSError, a missing extra: see `sentence_of`)

The error classes of the other folders are looked up among the modules already loaded: importing them here would slow
down every start, and an error of a module that was not imported cannot have been raised.
"""

from __future__ import annotations

import os
import sys

from turncredit.installation import MissingPackage, needs

USER_ERROR = 2
INTERRUPTED = 130

_ROOTS = (
    ("turncredit.envs.errors", "EnvError"),
    ("turncredit.credit.errors", "CreditError"),
    ("turncredit.curriculum.errors", "CurriculumError"),
    ("turncredit.agents.errors", "AgentError"),
    ("turncredit.training.errors", "TrainingError"),
    ("turncredit.report.errors", "ReportError"),
    ("turncredit.tools.sandbox.errors", "SandboxError"),
    ("turncredit.tools.retrieval.errors", "RetrievalError"),
    ("turncredit.processes.serving", "ServingError"),
    ("turncredit.processes.tracing", "TracingError"),
    ("turncredit.registry", "UnknownName"),
    ("turncredit.registry", "CannotLoad"),
)
_EXTRAS = {
    "torch": "train",
    "transformers": "train",
    "tokenizers": "train",
    "safetensors": "train",
    "zstandard": "train",
    "matplotlib": "train",
    "tensorboard": "log",
    "trackio": "log",
    "wandb": "log",
    "opentelemetry": "otel",
    "peft": "lora",
    "gguf": "gguf",
    "accelerate": "gguf",
    "httpx": "openai",
    "polars": "parquet",
}


class UserError(Exception):
    """A command was asked for something that it cannot do; the message is the whole explanation."""


def debugging() -> bool:
    """Return whether the user wants tracebacks (`TURNCREDIT_DEBUG=1`)."""
    return os.environ.get("TURNCREDIT_DEBUG", "") not in ("", "0")


def _from_our_folders(error: BaseException) -> bool:
    for module, name in _ROOTS:
        root = getattr(sys.modules.get(module), name, None)
        if isinstance(root, type) and isinstance(error, root):
            return True
    return False


def _os_sentence(error: OSError) -> str:
    if error.strerror is None:
        return str(error) or type(error).__name__
    name = error.filename
    if not name:
        return error.strerror
    path = os.fspath(name) if isinstance(name, os.PathLike) else name
    if isinstance(error, FileNotFoundError):
        return f"{path} does not exist"
    if isinstance(error, IsADirectoryError):
        return f"expected a file, but {path} is a folder"
    return f"{path}: {error.strerror}"


def sentence_of(error: BaseException) -> str | None:
    """Return the sentence that explains a mistake of the user, or None if the error is a bug.

    Args:
        error: what a command raised.
    """
    if isinstance(error, UserError) or _from_our_folders(error):
        return " ".join(str(error).split()) or type(error).__name__
    if isinstance(error, OSError):
        return _os_sentence(error)
    if isinstance(error, MissingPackage):
        return str(error)
    if isinstance(error, ModuleNotFoundError) and (package := (error.name or "").split(".")[0]) in _EXTRAS:
        return needs(f"this command needs {package}, which is not installed", _EXTRAS[package])
    return None
