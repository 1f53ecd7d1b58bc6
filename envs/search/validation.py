"""Validates arguments of the search environment."""

from __future__ import annotations

import os

from turnwise.envs.errors import UnknownOption
from turnwise.envs.search.generator import SearchLevel
from turnwise.envs.search.protocol import INSTRUCTIONS
from turnwise.envs.search.search_engine import RetrieverOptions
from turnwise.envs.search.task_sources import FileSearchTasks, GeneratedSearchTasks, SearchTaskSource

__all__ = ["instructions_of", "options_of", "source_of"]


def instructions_of(given: object, form: str) -> str:
    """Return the text before the question, which contains {question}.

    Args:
        given: True for the default, False for none, or the text.
        form: action format.

    Raises:
        UnknownOption: any other value.
    """
    if isinstance(given, bool):
        return INSTRUCTIONS[form] if given else "Question: {question}\n"
    if not isinstance(given, str) or "{question}" not in given:
        raise UnknownOption(f"instructions must be True, False or a text that contains {{question}}, got {given!r}")
    return given


def options_of(retriever: object, model: object, keep: object, timeout: float | None) -> RetrieverOptions:
    """Return the retriever's options from the environment's arguments.

    Raises:
        UnknownOption: they do not fit the retriever.
    """
    encoder = None if model is None else _path("model", model, "folder")
    folder = None if keep is None else _path("keep", keep, "folder")
    return RetrieverOptions.of(retriever, encoder, folder, timeout)


def source_of(
    questions: object,
    corpus: object,
    split: str | None,
    retriever: object,
    strict: bool,
    level: object,
    options: RetrieverOptions,
) -> SearchTaskSource:
    """Return the source of tasks from the environment's arguments.

    Raises:
        EnvError: the arguments do not fit together, or a file is missing or invalid.
    """
    if split is not None and not isinstance(split, str):
        raise UnknownOption(f"split must be a str such as 'train', got {split!r}")
    if questions is None:
        if corpus is not None:
            raise UnknownOption("corpus needs questions as well: the path of a file of questions about its passages")
        return GeneratedSearchTasks(split, SearchLevel.of(level), retriever, options)
    paths = [None if one is None else _path(what, one) for what, one in (("questions", questions), ("corpus", corpus))]
    return FileSearchTasks(str(paths[0]), paths[1], split, retriever, strict, options)


def _path(what: str, given: object, kind: str = "file") -> str:
    if not isinstance(given, str | os.PathLike) or not given or isinstance(os.fspath(given), bytes):
        raise UnknownOption(f"{what} must be the path of a {kind} or None, got {given!r}")
    return os.path.abspath(os.path.expanduser(os.fspath(given)))
