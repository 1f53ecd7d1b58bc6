"""The two surfaces of the search environment: Search-R1's tags, and short brackets that cost small models little.

    tags        <think>...</think> <search> red lamp </search>     <answer> Ada Marsh </answer>
    brackets    search[red lamp]                                    answer[Ada Marsh]

A surface reads what the model said, writes an action in its form, and shows what was found. Nothing is guessed: text
without a whole pair of tags (or brackets) is no action.

Left out on purpose: the model's prompt format (templates of the agent loop), and tokens: lengths are in characters.

Source: Search-R1 (Jin et al. 2025, arXiv:2503.09516), its generation loop.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from turnwise.tools.retrieval import Passage

__all__ = ["FORMS", "INSTRUCTIONS", "ActionFormat", "BracketFormat", "SearchAction", "TagFormat", "asked"]

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
"""What stands before the question at the start, by surface; a text of one's own may take its place."""

_ANY_TAG: Final = re.compile(r"<(/?)(search|answer)>")


@dataclass(frozen=True, slots=True)
class SearchAction:
    """What the model wants: to search a query, or to give an answer; and what it said up to there."""

    kind: str
    words: str
    said: str


def asked(question: str) -> str:
    """Return a question as it is asked: white space around it removed, a question mark at its end.

    >>> asked(" who wrote it ")
    'who wrote it?'
    """
    question = question.strip()
    return question if question.endswith("?") else question + "?"


class ActionFormat(Protocol):
    """How actions read, and how the environment answers."""

    name: str
    free: tuple[str, str]

    def read(self, text: str) -> SearchAction | None:
        """Return what the model wants, None where that cannot be read."""

    def write(self, kind: str, words: str) -> str:
        """Return the action that searches, or answers with, these words."""

    def show(self, passages: Sequence[Passage], limit: int) -> str:
        """Return the observation that shows what was found."""

    def tell(self, sentence: str) -> str:
        """Return the observation that says a sentence in the place of results."""

    def refuse(self) -> str:
        """Return the observation after what could not be read."""


class TagFormat:
    """Search-R1's surface.

    What follows the first `</search>`, or where there is none the first `</answer>`, is cut off; the first whole pair
    of tags in the rest counts.
    """

    name = "tags"
    free = ("<search>...</search>", "<answer>...</answer>")

    def __init__(self, *, single: bool = False) -> None:
        """Make it.

        Args:
            single: a text with both kinds of tags, or with two pairs, is no action, as in verl-agent.
        """
        self._single = single

    def read(self, text: str) -> SearchAction | None:
        """Return the move of the first whole pair of tags.

        >>> Tags().read("<think>?</think><search> red lamp </search> and so on").words
        'red lamp'
        >>> Tags().read("search red lamp") is None
        True
        """
        if self._single and len(_ANY_TAG.findall(text)) != 2:
            return None
        said = _cut(text)
        pairs = [pair for kind in (SEARCH, ANSWER) if (pair := _pair(said, kind))]
        if not pairs:
            return None
        start, end, kind = min(pairs)
        return SearchAction(kind, said[start:end].strip(), said)

    def write(self, kind: str, words: str) -> str:
        """Return the words between tags."""
        return f"<{kind}> {words} </{kind}>"

    def show(self, passages: Sequence[Passage], limit: int) -> str:
        """Return the results as Search-R1 writes them, cut to a number of characters inside the tags.

        Search-R1 cuts tokens, its closing tag among them; here the tag always stands.
        """
        lines = [f"Doc {place}(Title: {one.title}) {one.text}\n" for place, one in enumerate(passages, start=1)]
        return self.tell("".join(lines).strip()[:limit].rstrip())

    def tell(self, sentence: str) -> str:
        """Return a sentence between the tags of information."""
        return f"\n\n<information>{sentence}</information>\n\n"

    def refuse(self) -> str:
        """Return Search-R1's own words."""
        return (
            "\nMy previous action is invalid. If I want to search, I should put the query between <search> and "
            "</search>. If I want to give the final answer, I should put the answer between <answer> and </answer>. "
            "Let me try again.\n"
        )


class BracketFormat:
    """The short surface: the last thing said is `search[...]` or `answer[...]`; what was thought may stand before it.

    Results are numbered lines; a title is left out where the text begins with it.
    """

    name = "brackets"
    free = ("search[...]", "answer[...]")

    def read(self, text: str) -> SearchAction | None:
        """Return the move at the end of a text.

        >>> Brackets().read("search[red lamp]")
        Move(kind='search', words='red lamp', said='search[red lamp]')
        """
        said = text.rstrip()
        start, kind = max((said.rfind(f"{kind}["), kind) for kind in (SEARCH, ANSWER))
        if start < 0 or not said.endswith("]"):
            return None
        return SearchAction(kind, said[start + len(kind) + 1 : -1].strip(), text)

    def write(self, kind: str, words: str) -> str:
        """Return the words in brackets; brackets in the words become spaces."""
        return f"{kind}[{' '.join(words.replace('[', ' ').replace(']', ' ').split())}]"

    def show(self, passages: Sequence[Passage], limit: int) -> str:
        """Return one line a passage, cut to a number of characters."""
        lines = []
        for place, one in enumerate(passages, start=1):
            title = one.title.strip('"')
            head = "" if one.text.startswith(title) else f"{title}: "
            lines.append(f"{place} {head}{one.text}")
        return self.tell("\n".join(lines)[:limit].rstrip())

    def tell(self, sentence: str) -> str:
        """Return the sentence on lines of its own."""
        return f"\n{sentence}\n"

    def refuse(self) -> str:
        """Say which two forms there are."""
        return "\nNothing was done: write search[words] or answer[words].\n"


FORMS: Final[dict[str, type[TagFormat] | type[BracketFormat]]] = {"tags": TagFormat, "brackets": BracketFormat}


def _cut(text: str) -> str:
    """Return a text up to the first end of a search, else up to the first end of an answer."""
    for end in ("</search>", "</answer>"):
        head, found, _ = text.partition(end)
        if found:
            return head + end
    return text


def _pair(text: str, kind: str) -> tuple[int, int, str] | None:
    """Return where the first whole pair of tags of a kind holds its words; None where there is none.

    One look for each tag: where the first opening has no end behind it, no later one has.
    """
    start = text.find(f"<{kind}>")
    end = text.find(f"</{kind}>", start) if start >= 0 else -1
    return None if end < 0 else (start + len(kind) + 2, end, kind)
