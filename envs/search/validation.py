"""What the constructor of the search environment is given, checked: each with one sentence where it makes no sense."""

from __future__ import annotations

import os

from turnwise.envs.errors import UnknownOption
from turnwise.envs.search.generator import SearchLevel
from turnwise.envs.search.protocol import INSTRUCTIONS
from turnwise.envs.search.search_engine import RetrieverOptions
from turnwise.envs.search.task_sources import FileSearchTasks, GeneratedSearchTasks, SearchTaskSource

__all__ = ["instructions_of", "means_of", "source_of"]


def instructions_of(given: object, form: str) -> str:
    """Return the text before the question, with {question} in it.

    Args:
        given: True for our own, False for none, or the text itself.
        form: of the actions.

    Raises:
        UnknownOption: it is something else.
    """
    if isinstance(given, bool):
        return INSTRUCTIONS[form] if given else "Question: {question}\n"
    if not isinstance(given, str) or "{question}" not in given:
        raise UnknownOption(f"instructions is {given!r}; it is True, False, or a text with {{question}} in it")
    return given


def means_of(retriever: object, model: object, keep: object, timeout: float | None) -> RetrieverOptions:
    """Return what a retriever is made with; the arguments are the environment's.

    Raises:
        UnknownOption: they do not fit to each other.
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
    means: RetrieverOptions,
) -> SearchTaskSource:
    """Return where the questions come from; the arguments are the environment's.

    Raises:
        EnvError: they do not fit to each other, or a file is missing or broken.
    """
    if split is not None and not isinstance(split, str):
        raise UnknownOption(f"split is {split!r}; it is a str such as 'train'")
    if questions is None:
        if corpus is not None:
            raise UnknownOption("corpus is given and questions is not: passages of a file need questions about them")
        return GeneratedSearchTasks(split, SearchLevel.of(level), retriever, means)
    paths = [None if one is None else _path(what, one) for what, one in (("questions", questions), ("corpus", corpus))]
    return FileSearchTasks(str(paths[0]), paths[1], split, retriever, strict, means)


def _path(what: str, given: object, kind: str = "file") -> str:
    if not isinstance(given, str | os.PathLike) or not given or isinstance(os.fspath(given), bytes):
        raise UnknownOption(f"{what} is {given!r}; it is the path of a {kind}, or None")
    return os.path.abspath(os.path.expanduser(os.fspath(given)))
