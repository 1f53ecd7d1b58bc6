"""The two action formats of the search environment: Search-R1's tags, and brackets, which need fewer tokens.

    tags        <think>...</think> <search> red lamp </search>     <answer> Ada Marsh </answer>
    brackets    search[red lamp]                                    answer[Ada Marsh]

A format parses the model's output, writes actions, and formats results. Output without a complete pair of tags or
brackets is invalid.

Source: the generation loop of Search-R1 (Jin et al. 2025, arXiv:2503.09516).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from turncredit.envs.errors import UnknownOption
from turncredit.tools.retrieval import Passage

__all__ = [
    "FORMS",
    "INSTRUCTIONS",
    "ActionFormat",
    "BracketFormat",
    "SearchAction",
    "TagFormat",
    "asked",
    "instructions_of",
]

ANSWER: Final = "answer"
SEARCH: Final = "search"

INSTRUCTIONS: Final = {
    "tags": (
        "Answer the question below. Whenever you learn something new, first think about it between <think> and "
        "</think>. If you lack some knowledge, ask the search engine with <search> your query </search>; the best "
        "results come back between <information> and </information>. You may search as often as you like. Once you "
        "know enough, give the answer alone between <answer> and </answer>, without explaining it, for example "
        "<answer> Beijing </answer>. Question: {question}\n"
    ),
    "brackets": (
        "Answer the question. Write search[words] to look something up, and answer[words] once you know it. "
        "Question: {question}\n"
    ),
}
"""Default instructions of each format, which end with the question."""

_ANY_TAG: Final = re.compile(r"<(/?)(search|answer)>")


@dataclass(frozen=True, slots=True)
class SearchAction:
    """A search or an answer (`kind`), its words, and the model's output up to its end."""

    kind: str
    words: str
    output: str


def instructions_of(instructions: object, form: str) -> str:
    """Return the text before the question, which contains {question}.

    Args:
        instructions: True for the default, False for none, or the text.
        form: action format.

    Raises:
        UnknownOption: any other value.
    """
    if isinstance(instructions, bool):
        return INSTRUCTIONS[form] if instructions else "Question: {question}\n"
    if not isinstance(instructions, str) or "{question}" not in instructions:
        raise UnknownOption(
            f"instructions must be True, False or a text that contains {{question}}, got {instructions!r}"
        )
    return instructions


def asked(question: str) -> str:
    """Return a question stripped and with a question mark at its end.

    >>> asked(" who wrote it ")
    'who wrote it?'
    """
    question = question.strip()
    return question if question.endswith("?") else question + "?"


class ActionFormat(Protocol):
    """How actions and observations are written."""

    name: str
    free: tuple[str, str]

    def read(self, text: str) -> SearchAction | None:
        """Return the action in a text; None if there is none."""

    def write(self, kind: str, words: str) -> str:
        """Return the text of a search or answer."""

    def show(self, passages: Sequence[Passage], limit: int) -> str:
        """Return the observation with search results, cut to `limit` characters."""

    def tell(self, sentence: str) -> str:
        """Return the observation with a sentence instead of results."""

    def refuse(self) -> str:
        """Return the observation after an invalid action."""


class TagFormat:
    """Search-R1's format.

    The text after the first `</search>` is ignored, or after the first `</answer>` if there is no `</search>`. The
    first complete pair of tags in the rest is the action.
    """

    name = "tags"
    free = ("<search>...</search>", "<answer>...</answer>")

    def __init__(self, *, single: bool = False) -> None:
        """Set the options.

        Args:
            single: whether a text with more than one pair of tags is invalid, as in verl-agent.
        """
        self._single = single

    def read(self, text: str) -> SearchAction | None:
        """Return the action in the first complete pair of tags.

        >>> TagFormat().read("<think>?</think><search> red lamp </search> and so on").words
        'red lamp'
        >>> TagFormat().read("search red lamp") is None
        True
        """
        if self._single and len(_ANY_TAG.findall(text)) != 2:
            return None
        action = _cut(text)
        pairs = [pair for kind in (SEARCH, ANSWER) if (pair := _pair(action, kind))]
        if not pairs:
            return None
        start, end, kind = min(pairs)
        return SearchAction(kind, action[start:end].strip(), action)

    def write(self, kind: str, words: str) -> str:
        """Return the words between tags."""
        return f"<{kind}> {words} </{kind}>"

    def show(self, passages: Sequence[Passage], limit: int) -> str:
        """Return the results as Search-R1 writes them, cut to `limit` characters inside the tags.

        Search-R1 cuts tokens and may lose the closing tag, which is always present here.
        """
        lines = [
            f"Doc {number}(Title: {passage.title}) {passage.text}\n" for number, passage in enumerate(passages, start=1)
        ]
        return self.tell("".join(lines).strip()[:limit].rstrip())

    def tell(self, sentence: str) -> str:
        """Return a sentence between information tags."""
        return f"\n\n<information>{sentence}</information>\n\n"

    def refuse(self) -> str:
        """Return Search-R1's message."""
        return (
            "\nMy previous action is invalid. If I want to search, I should put the query between <search> and "
            "</search>. If I want to give the final answer, I should put the answer between <answer> and </answer>. "
            "Let me try again.\n"
        )


class BracketFormat:
    """The short format: the output ends with `search[...]` or `answer[...]`, optionally after a thought.

    Results are numbered lines. A title is omitted where the text begins with it.
    """

    name = "brackets"
    free = ("search[...]", "answer[...]")

    def read(self, text: str) -> SearchAction | None:
        """Return the action at the end of a text.

        >>> BracketFormat().read("search[red lamp]")
        SearchAction(kind='search', words='red lamp', output='search[red lamp]')
        """
        action = text.rstrip()
        start, kind = max((action.rfind(f"{kind}["), kind) for kind in (SEARCH, ANSWER))
        if start < 0 or not action.endswith("]"):
            return None
        return SearchAction(kind, action[start + len(kind) + 1 : -1].strip(), text)

    def write(self, kind: str, words: str) -> str:
        """Return the words in brackets; brackets in the words become spaces."""
        return f"{kind}[{' '.join(words.replace('[', ' ').replace(']', ' ').split())}]"

    def show(self, passages: Sequence[Passage], limit: int) -> str:
        """Return one line per passage, cut to `limit` characters."""
        lines = []
        for number, passage in enumerate(passages, start=1):
            title = passage.title.strip('"')
            head = "" if passage.text.startswith(title) else f"{title}: "
            lines.append(f"{number} {head}{passage.text}")
        return self.tell("\n".join(lines)[:limit].rstrip())

    def tell(self, sentence: str) -> str:
        """Return a sentence on its own line."""
        return f"\n{sentence}\n"

    def refuse(self) -> str:
        """Return a message with the two forms of actions."""
        return "\nNothing was done: write search[words] or answer[words].\n"


FORMS: Final[dict[str, type[TagFormat] | type[BracketFormat]]] = {"tags": TagFormat, "brackets": BracketFormat}


def _cut(text: str) -> str:
    """Return a text up to the first end of a search, or else of an answer."""
    for end in ("</search>", "</answer>"):
        head, separator, _ = text.partition(end)
        if separator:
            return head + end
    return text


def _pair(text: str, kind: str) -> tuple[int, int, str] | None:
    """Return the position of the words in the first complete pair of tags of a kind; None if there is none.

    Searching once for each tag suffices: if the first opening tag is never closed, no later one is.
    """
    start = text.find(f"<{kind}>")
    end = text.find(f"</{kind}>", start) if start >= 0 else -1
    return None if end < 0 else (start + len(kind) + 2, end, kind)
