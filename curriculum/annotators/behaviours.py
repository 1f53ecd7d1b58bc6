"""Annotators of what an episode did, from its texts: patterns, kinds, facts, wordings, budgets, several rewards."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Literal

from turncredit.agents.trajectory import Extra, Group, Trajectory, Turn
from turncredit.credit.errors import BadOption
from turncredit.credit.option_checks import check_choice, check_number
from turncredit.curriculum.annotation import Notes, Place
from turncredit.curriculum.annotators.judges import Per

Of = Literal["answers", "actions", "observations"]
REFUSAL = r"\b(do not|don't|cannot|can't) (know|answer|tell)\b|\bnot sure\b|\bunknown\b"
"""An answer that admits not to know."""


def matches(
    groups: Sequence[Group], *, pattern: str = r"\S", column: str = "used", of: Of = "actions", least: int = 1
) -> Notes:
    """Return for each episode whether a pattern occurs in enough of its turns: 1 or 0.

    Args:
        groups: the episodes.
        pattern: a regular expression, such as the name of a tool; by default, anything that was done.
        column: column of the flags, such as "used" for a tool or "parallel" for a mark of thoughts.
        of: what is searched: the answers with their thoughts, the actions, or what the agent saw.
        least: turns in which it occurs.
    """
    regex, text_of = _compiled(pattern), _text_of(of)
    check_number("least", least, 1, whole=True)

    def flag(member: Trajectory) -> int:
        return int(sum(regex.search(text_of(turn)) is not None for turn in member.turns) >= least)

    return _of_episodes(groups, column, flag, 0)


def kinds(
    groups: Sequence[Group],
    *,
    patterns: Mapping[str, str] | None = None,
    column: str = "format",
    per: Per = "episode",
    of: Of = "answers",
    otherwise: str = "plain",
) -> Notes:
    """Return which of several patterns occurs in each episode, or in each turn: the name of the first one that does.

    Args:
        groups: the episodes.
        patterns: a regular expression for each name; None: one, "thought", for answers of more than their action.
        column: column of the names: "format", or "role" with per = "turn".
        per: what has a kind.
        of: what is searched.
        otherwise: name where none occurs.
    """
    check_choice("per", per, Per)
    text_of = _text_of(of)
    expressions = {
        name: _compiled(text) for name, text in ({"thought": r"\S\s+\S"} if patterns is None else patterns).items()
    }

    def kind(texts: Sequence[str]) -> str:
        return next((name for name, regex in expressions.items() if any(map(regex.search, texts))), otherwise)

    if per == "episode":
        return _of_episodes(groups, column, lambda member: kind([text_of(turn) for turn in member.turns]), otherwise)
    values: dict[Place, Extra] = {
        (member.id, number): kind([text_of(turn)])
        for member in _members(groups)
        for number, turn in enumerate(member.turns)
    }
    return Notes({column: values}, {column: otherwise})


def wordings(groups: Sequence[Group], *, mark: str = "~") -> Notes:
    """Return what `con_rag` compares: the last action as the answer, the task as the wording, and its question.

    Args:
        groups: the episodes.
        mark: what separates the question and the wording in the id of a task: "q7~1" and "q7~2" word "q7".
    """
    if not mark:
        raise BadOption("mark must be a text, such as '~'")
    columns = {
        "answer": _of_episodes(groups, "answer", _last_action, ""),
        "wording": _of_episodes(groups, "wording", lambda member: member.task, ""),
        "question": _of_episodes(groups, "question", lambda member: member.task.partition(mark)[0], ""),
    }
    return Notes({name: notes.columns[name] for name, notes in columns.items()}, dict.fromkeys(columns, ""))


def facts(groups: Sequence[Group], *, share: float = 0.7, refusal: str = REFUSAL) -> Notes:
    """Return how many sentences the last answer of each episode has, how many its observations support, and a refusal.

    A sentence is supported if enough of its words occur in a line that the agent saw before. It needs no model, and
    knows nothing of meaning.

    Args:
        groups: the episodes.
        share: share of the words of a sentence, of four letters and more, that must occur in one line.
        refusal: a regular expression for answers that admit not to know.
    """
    check_number("share", share, 0.0, 1.0, open_low=True)
    refuses = _compiled(refusal)

    def counts(member: Trajectory) -> tuple[int, int, int]:
        if not member.turns:
            return 0, 0, 0
        answer = member.turns[-1].text
        lines = [_words(line) for turn in member.turns for line in turn.observation.splitlines()]
        sentences = [words for part in re.split(r"[.!?\n]+", answer) if (words := _words(part))]
        supported = sum(any(len(words & line) >= share * len(words) for line in lines) for words in sentences)
        return len(sentences), supported, int(refuses.search(answer) is not None)

    names = ("facts", "supported", "refused")
    columns: dict[str, dict[Place, Extra]] = {name: {} for name in names}
    for member in _members(groups):
        for name, count in zip(names, counts(member), strict=True):
            columns[name] |= {(member.id, number): count for number in range(len(member.turns))}
    return Notes(columns, dict.fromkeys(names, 0))


def budgets(groups: Sequence[Group], *, factor: float = 1.0, otherwise: float = 4000.0) -> Notes:
    """Return how many tokens each episode may have: a factor times the mean of the won episodes of its group.

    Args:
        groups: the episodes.
        factor: factor of the mean.
        otherwise: budget of a group that nobody won.
    """
    check_number("factor", factor, 0.0, open_low=True)
    check_number("otherwise", otherwise, 0.0, open_low=True)
    allowed: dict[str, float] = {}
    for group in groups:
        lengths = [member.response_tokens for member in group.finished if member.won]
        budget = factor * sum(lengths) / len(lengths) if lengths else otherwise
        allowed |= {member.id: max(1.0, budget) for member in group.finished}
    return _of_episodes(groups, "length_budget", lambda member: allowed[member.id], otherwise)


def several(groups: Sequence[Group], *, of: Sequence[str] = ("reward", "valid")) -> Notes:
    """Return several rewards of each turn, for rules that read `multi`.

    Args:
        groups: the episodes.
        of: a number each: "reward", "valid" (1 or 0), or a column that the environment reports, such as "harm"; with
            "-" before its name, 1 less the number: "-harm" is 1 while nothing was harmed.
    """
    if isinstance(of, str) or not of or not all(isinstance(name, str) and name.removeprefix("-") for name in of):
        raise BadOption(f"of must be a list of names, such as ['reward', 'valid'], got {of!r}")

    def number(turn: Turn, name: str) -> float:
        plain = name.removeprefix("-")
        value: Extra | None = {"reward": turn.reward, "valid": float(turn.valid)}.get(plain, turn.extras.get(plain))
        if not isinstance(value, int | float):
            raise BadOption(f"several: no number {plain!r}; there are {', '.join(['reward', 'valid', *turn.extras])}")
        return 1.0 - value if name.startswith("-") else float(value)

    values: dict[Place, Extra] = {
        (member.id, index): tuple(number(turn, name) for name in of)
        for member in _members(groups)
        for index, turn in enumerate(member.turns)
    }
    return Notes({"multi": values}, {"multi": (0.0,) * len(of)})


def _members(groups: Sequence[Group]) -> Iterator[Trajectory]:
    return (member for group in groups for member in group.finished)


def _of_episodes(
    groups: Sequence[Group], column: str, value_of: Callable[[Trajectory], Extra], missing: Extra
) -> Notes:
    """Return notes with one value for all turns of an episode."""
    values: dict[Place, Extra] = {}
    for member in _members(groups):
        value = value_of(member)
        values |= {(member.id, number): value for number in range(len(member.turns))}
    return Notes({column: values}, {column: missing})


def _last_action(member: Trajectory) -> str:
    return next((turn.action for turn in reversed(member.turns) if turn.action is not None), "")


def _words(text: str) -> set[str]:
    return {word for word in re.findall(r"\w+", text.lower()) if len(word) > 3}


def _text_of(of: str) -> Callable[[Turn], str]:
    check_choice("of", of, Of)
    return {
        "answers": lambda turn: turn.text,
        "actions": lambda turn: turn.action or "",
        "observations": lambda turn: turn.observation,
    }[of]


def _compiled(pattern: str) -> re.Pattern[str]:
    """Return a pattern.

    Raises:
        BadOption: it is no regular expression.
    """
    try:
        return re.compile(pattern)
    except (re.error, TypeError) as error:
        raise BadOption(f"pattern must be a regular expression, got {pattern!r}: {error}") from error
