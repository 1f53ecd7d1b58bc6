"""A demonstrator that sees only what an agent sees: the question and the retrieved passages.

It parses the question from the outside in, looks up the innermost name, reads in its passage which entity the first
relation leads to, looks that one up, and so on, until it can answer. All its actions follow from the observations, so a
policy can learn them by imitation. It knows the wordings of generated worlds only; for any other question it searches
for the question once and answers with the title of the first result.

It supports both action formats, and can continue an episode in which others chose the first actions.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from turncredit.envs.errors import EnvError
from turncredit.envs.search.generator.relations import LATER, RELATIONS, SORTS, Relation
from turncredit.envs.search.protocol import FORMS

__all__ = ["QuestionStep", "ReaderDemonstrator", "parse_question", "queries"]

_QUESTION: Final = re.compile(r"Question: (.*\S)", re.DOTALL)
_TAGGED: Final = re.compile(r'^(?:<information>)?Doc \d+\(Title: "?(.*?)"?\) (.*?)(?:</information>)?$')
_INSIDE: Final = ("of", "the", "and")  # lower-case words in names
_LINE: Final = re.compile(r"^\d+ (.*)$")


@dataclass(frozen=True, slots=True)
class QuestionStep:
    """A relation that a question asks for, and the role of the entity in it."""

    relation: Relation
    role: str


def queries(step: QuestionStep, name: str) -> tuple[str, ...]:
    """Return queries for a fact about an entity, most promising first."""
    name = name.removeprefix("the ")
    words = step.relation.words.replace("{role}", step.role).strip()
    return (f"{name} {words}", name, *(f"{name} {name} {word}" for word in words.split()))


def parse_question(question: str) -> tuple[str, list[QuestionStep]] | None:
    """Return the innermost name in a question and the steps from it to the answer; None for other questions.

    >>> name, steps = parse_question("Where was the author of The Red Lamp born?")
    >>> name, [step.relation.name for step in steps]
    ('The Red Lamp', ['author', 'born'])
    """
    for inside, last in _match_templates(_asks(), question):
        steps = _steps(inside, last.relation.subject)
        if steps is not None:
            return steps[0], [*steps[1], last]
    return None


def _steps(phrase: str, kind: str) -> tuple[str, list[QuestionStep]] | None:
    """Return the name in a noun phrase for an entity of a kind, and the steps from it to that entity."""
    for inside, step in _match_templates(_phrases(), phrase):
        if step.relation.object == kind and (inner := _steps(inside, step.relation.subject)):
            return inner[0], [*inner[1], step]
    named = phrase.removeprefix("the ")
    return (named, []) if all(word[:1].isupper() or word in _INSIDE for word in named.split()) else None


class ReaderDemonstrator:
    """Looks up one entity after the other, then answers."""

    def __init__(self) -> None:
        """Start without a question."""
        self._begin("")

    def start(self, observation: str) -> None:
        """Begin an episode.

        Raises:
            EnvError: the observation does not contain "Question: ".
        """
        match = _QUESTION.search(observation)
        if match is None:
            raise EnvError(f"the first observation has no 'Question: ', got {observation[:80]!r}")
        self._begin(match[1])

    def act(self, observation: str, admissible: Sequence[str]) -> str:
        """Return the next action."""
        self._format = FORMS["brackets" if any(action.startswith("search[") for action in admissible) else "tags"]()
        self._read(observation)
        if self._parsed is None:
            return self._guess()
        name, steps = self._parsed
        for step in steps:
            reached = self._fact(name, step)
            if reached is None:
                return self._look_up(name, step)
            name = reached
        return self._format.write("answer", name.removeprefix("the "))

    def _begin(self, question: str) -> None:
        self._question = question
        self._parsed = parse_question(question)
        self._lines: dict[tuple[str, str], None] = {}
        self._tried: list[str] = []

    def _read(self, observation: str) -> None:
        """Remember the passages in an observation. If a line omits the title, the text begins with it."""
        for line in observation.splitlines():
            if match := _TAGGED.match(line):
                self._lines[match[1], match[2]] = None
            elif match := _LINE.match(line):
                title, colon, text = match[1].partition(": ")
                self._lines[(title, text) if colon else ("", match[1])] = None

    def _fact(self, name: str, step: QuestionStep) -> str | None:
        """Return what the passage about an entity says, if it was retrieved."""
        plain = name.removeprefix("the ")
        for title, text in self._lines:
            if title == plain or (not title and text.startswith(plain)):
                for sentence in text.split(". "):
                    for pattern in _says(step.relation, plain):
                        if match := pattern.fullmatch(sentence.removesuffix(".")):
                            return match["o"]
        return None

    def _look_up(self, name: str, step: QuestionStep) -> str:
        for query in queries(step, name):
            if query not in self._tried:
                self._tried.append(query)
                return self._format.write("search", query)
        return self._guess()

    def _guess(self) -> str:
        if not self._tried:
            self._tried.append(self._question)
            return self._format.write("search", self._question)
        title, text = next(iter(self._lines), ("", "unknown"))
        return self._format.write("answer", title or text.split(".")[0])


def _role(relation: Relation, words: dict[str, str | None]) -> str:
    role = words.get("role")
    verb = words.get("verb")
    if role or relation.subject not in SORTS:
        return role or ""
    return next((r for _, v, r in SORTS[relation.subject] if v == verb), SORTS[relation.subject][0][2])


def _pattern(relation: Relation, template: str, s: str, o: str = "") -> re.Pattern[str]:
    """Return a template as a regular expression that accepts all words of the entity's kind."""
    sorts = SORTS.get(relation.subject, ())
    words = {
        "kind": "|".join(sorted({sort[0] for sort in sorts})),
        "verb": "|".join(sorted({sort[1] for sort in sorts})),
        "role": "|".join(sorted({sort[2] for sort in sorts})),
    }
    text = ""
    for piece in re.split(r"(\{\w+\})", template):
        name = piece[1:-1]
        if name in ("s", "o"):
            text += s if name == "s" else o
        elif piece.startswith("{"):
            text += f"(?P<{name}>{words[name]})"
        else:
            text += re.escape(piece)
    # A sentence begins with a capital letter even if its template does not.
    return re.compile(text if text.startswith("(") else f"(?i:{text[0]}){text[1:]}")


@lru_cache(maxsize=1)
def _asks() -> tuple[tuple[Relation, re.Pattern[str]], ...]:
    return tuple((relation, _pattern(relation, text, "(?P<s>.+)")) for relation in RELATIONS for text in relation.asks)


@lru_cache(maxsize=1)
def _phrases() -> tuple[tuple[Relation, re.Pattern[str]], ...]:
    return tuple(
        (relation, _pattern(relation, text, "(?P<s>.+)")) for relation in RELATIONS for text in relation.phrases
    )


@lru_cache(maxsize=1024)
def _says(relation: Relation, name: str) -> tuple[re.Pattern[str], ...]:
    """Return patterns of the sentences that state a fact about an entity."""
    sorts = SORTS.get(relation.subject, (("", "", ""),))
    others = {
        form.format(kind=sort[0], last=name.rpartition(" ")[2]) for form in LATER[relation.subject] for sort in sorts
    }
    called = "|".join(re.escape(mention) for mention in (f"the {name}", name, *sorted(others)))
    return tuple(_pattern(relation, text, f"(?i:{called})", "(?P<o>[^.]+?)") for text in relation.says)


def _match_templates(kinds: Iterable[tuple[Relation, re.Pattern[str]]], text: str) -> list[tuple[str, QuestionStep]]:
    """Return all ways to match the outermost template of a text: the inner text, and the step."""
    ways = []
    for relation, pattern in kinds:
        if match := pattern.fullmatch(text):
            ways.append((match["s"], QuestionStep(relation, _role(relation, match.groupdict()))))
    return ways
