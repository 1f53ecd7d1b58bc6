"""Players that earn nothing where rewards mean what they say: they read no task, or repeat all of what they read.

A cheap player is a list of variants; the best one counts, since an agent in training finds it as well. Texts go into
every form of free text that the environment names (`info["free_actions"]`), or stand alone where it names none.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import gymnasium
import numpy as np

from turncredit.envs.checks.earnings import Choose, expert_episode, panel
from turncredit.envs.checks.episode_data import ProbeStep
from turncredit.envs.checks.explorer import Explorer
from turncredit.envs.checks.panel_data import Start
from turncredit.envs.checks.state_key_rules import task_sentences
from turncredit.envs.free_text import candidates
from turncredit.envs.info import FREE

__all__ = [
    "CheapPlayer",
    "echo",
    "empty",
    "ending",
    "forms_of",
    "guess",
    "idle",
    "in_forms",
    "junk",
    "random",
    "shotgun",
    "speaking_forms",
    "text_of",
    "wander",
]

QUIET: Final = ("look", "wait", "noop", "no-op", "pass", "skip", "inventory", "do nothing", "none")
"""Actions that do nothing, where they are admissible."""
ENDS: Final = ("submit", "done", "finish", "stop", "end", "answer", "complete", "exit", "quit")
"""Actions that end an episode, where they are admissible."""
SPEAKS: Final = ("answer", "say", "submit", "guess", "reply", "tell", "finish")
"""Words of the forms in which an answer is given."""
FORMS: Final = 4
PIECE: Final = 6
"""Candidates in one message of the player that answers with all of them over several turns."""
CONSTANTS: Final = 8
READING: Final = 4
"""Turns in which the player with every candidate looks around before it answers."""
LONGEST: Final = 2000
JUNK: Final = (
    *("*", ".*", "[]", "{}", "()", "None", "null", "x", "?", "!" * 20, "a" * 500, "bla " * 200, "\n" * 50),
    *("I have thought about this step by step. " * 20, "correct", "The answer is correct.", "reward: 1", "success"),
)
"""Texts that answer nothing; the long ones ask whether length pays."""
GUESSES: Final = ("yes", "no", "true", "false", "A", "B", "C", "D", "0", "1", "2")
"""Answers that are right by chance where few are possible."""


@dataclass(frozen=True, slots=True)
class CheapPlayer:
    """A variant of a cheap player: its name, how it plays a start, and its turns (None: those of an idle episode)."""

    label: str
    play: Callable[[Start, int], Choose]
    turns: int | None = None


def text_of(moment: ProbeStep) -> str:
    """Return the text of an observation; other observations have their text in the key "text", or none."""
    observation = moment.observation
    if isinstance(observation, dict):
        observation = observation.get("text", "")
    return observation if isinstance(observation, str) else ""


def forms_of(moment: ProbeStep) -> list[str]:
    """Return forms of an answer: those with free text that the environment names, or the text alone."""
    named = [form for form in moment.info.get(FREE) or [] if isinstance(form, str) and form != "..."]
    return named[:FORMS] or ["..."]


def speaking_forms(moment: ProbeStep) -> list[str]:
    """Return forms with free text, those in which an answer is given first."""
    forms = [form for form in moment.info.get(FREE) or ["..."] if isinstance(form, str) and "..." in form]
    return sorted(forms, key=lambda form: not any(word in form.lower() for word in SPEAKS))[:FORMS]


def ending(moment: ProbeStep) -> str | None:
    """Return a form without free text that ends an episode, such as "<close></close>"; None if there is none."""
    forms = [form for form in moment.info.get(FREE) or [] if isinstance(form, str) and "..." not in form]
    words = {form: set(re.findall("[a-z]+", form.lower())) for form in forms}
    return next((form for form in forms if words[form] and words[form] <= {*ENDS, "close"}), None)


def in_forms(text: str, moment: ProbeStep) -> list[str]:
    """Return a text in every form."""
    return list(dict.fromkeys(form.replace("...", text, 1).replace("...", "") for form in forms_of(moment)))


def idle(explorer: Explorer) -> Iterator[CheapPlayer]:
    """Yield players that take one action without meaning until the end."""
    space = explorer.env.action_space
    if isinstance(space, gymnasium.spaces.Discrete):
        for number in range(int(space.start), int(space.start) + min(CONSTANTS, int(space.n))):
            yield CheapPlayer(f"always {number}", _always(number))
        return
    if explorer.foreign is None:
        return
    listed = {action for task in explorer.episodes for action in _first_actions(explorer, task)}
    for action in ("", *(word for word in QUIET if word in listed)):
        if action in space:
            yield CheapPlayer(f"always {action!r}", _always(action))


def empty(explorer: Explorer) -> Iterator[CheapPlayer]:
    """Yield players that answer at once, with nothing."""
    if explorer.foreign is None:
        return
    texts = {action: None for first in _first(explorer) for text in ("", " ") for action in in_forms(text, first)}
    texts |= {action.strip(): None for action in texts}
    texts |= {word: None for first in _first(explorer) for word in ENDS if word in explorer.listed(first)}
    for action in texts:
        if action in explorer.env.action_space:
            yield CheapPlayer(f"{action!r} at once", _always(action), 1)


def echo(explorer: Explorer) -> Iterator[CheapPlayer]:
    """Yield players that say the first observation, its task sentence, or its last line."""
    readers: dict[str, Callable[[str], str]] = {
        "the first observation": lambda text: text,
        "the task sentence": lambda text: (task_sentences(text) or [""])[0],
        "the last line": lambda text: (text.strip().splitlines() or [""])[-1],
    }
    for label, reader in readers.items():
        for form in _forms(explorer):
            yield CheapPlayer(f"{label} as {form!r}", _saying(explorer, reader, form), 2)


def shotgun(explorer: Explorer) -> Iterator[CheapPlayer]:
    """Yield players that look around and then answer with every name and number that they read, at once or in turns."""
    listed = any(first.admissible and not first.info.get(FREE) for first in _first(explorer))
    if not _forms(explorer):
        return
    named = [form for form in speaking_forms(_first(explorer)[0]) if any(word in form for word in SPEAKS)]
    for form in named:  # elsewhere, a text in every turn may be a move of a game
        for turns in (0,) if listed else (0, READING):
            label = f"all names and numbers of {turns} turns as {form!r}, {PIECE} a turn"
            yield CheapPlayer(label, _in_pieces(explorer, form, turns))
    for turns in (0,) if listed else (0, READING):  # where all actions are listed, looking around is playing
        for separator in (" ", ", ", "\n"):
            for form in _forms(explorer):
                label = f"all that was read in {turns} turns as {form!r}, separated by {separator!r}"
                yield CheapPlayer(label, _answering(explorer, form, separator, turns), turns + 1)


def junk(explorer: Explorer) -> Iterator[CheapPlayer]:
    """Yield players that say texts without meaning, short and long."""
    return _constant(explorer, JUNK)


def guess(explorer: Explorer) -> Iterator[CheapPlayer]:
    """Yield players that give the same answer to every task: the expert's commonest one, or a short one."""
    answers = Counter(answer for answer in _expert_answers(explorer) if answer in explorer.env.action_space)
    for answer, count in answers.most_common(1):
        if count > 1:
            yield CheapPlayer(f"the expert's commonest answer, {answer[:40]!r}", _always(answer), 2)
    yield from _constant(explorer, GUESSES)


def _expert_answers(explorer: Explorer) -> Iterator[str]:
    """Yield the only action of the expert on each start that takes one, unless it was listed there."""
    for start in panel(explorer) if explorer.foreign is not None else []:
        episode = expert_episode(explorer, start)
        if (
            episode is not None
            and len(episode.actions) == 1
            and episode.actions[0] not in (start.first.admissible or [])
        ):
            yield str(episode.actions[0])


def _constant(explorer: Explorer, texts: Sequence[str]) -> Iterator[CheapPlayer]:
    for form in _forms(explorer):
        for text in texts:
            if (action := form.replace("...", text, 1)) in explorer.env.action_space:
                yield CheapPlayer(f"{action[:40]!r} ({len(action)} characters)", _always(action), 2)


def random(explorer: Explorer) -> Iterator[CheapPlayer]:
    """Yield the player of random admissible actions."""
    yield CheapPlayer(
        "random", lambda start, number: wander(explorer, np.random.default_rng([explorer.seed, 23, number]))
    )


def wander(explorer: Explorer, rng: np.random.Generator) -> Choose:
    """Return a choice of random actions: a listed one, else a word that was read in a form, else any."""

    def choose(moment: ProbeStep, taken: int) -> object:
        if listed := explorer.listed(moment):
            return listed[int(rng.integers(len(listed)))]
        if explorer.foreign is not None and (words := candidates([text_of(moment)])):
            forms = forms_of(moment)
            word, form = words[int(rng.integers(len(words)))], forms[int(rng.integers(len(forms)))]
            if (action := form.replace("...", word, 1)) in explorer.env.action_space:
                return action
        explorer.env.action_space.seed(int(rng.integers(2**31)))
        return explorer.env.action_space.sample()

    return choose


def _always(action: object) -> Callable[[Start, int], Choose]:
    return lambda start, number: lambda moment, taken: action


def _saying(explorer: Explorer, reader: Callable[[str], str], form: str) -> Callable[[Start, int], Choose]:
    def play(start: Start, number: int) -> Choose:
        answer = form.replace("...", reader(text_of(start.first))[:LONGEST], 1)
        return lambda moment, taken: answer if answer in explorer.env.action_space else ""

    return play


def _answering(explorer: Explorer, form: str, separator: str, turns: int) -> Callable[[Start, int], Choose]:
    def play(start: Start, number: int) -> Choose:
        texts: list[str] = []
        look = wander(explorer, np.random.default_rng([explorer.seed, 29, number]))

        def choose(moment: ProbeStep, taken: int) -> object:
            texts.append(text_of(moment))
            if taken < turns:
                return look(moment, taken)
            answer = form.replace("...", separator.join(candidates(texts))[:LONGEST], 1)
            return answer if answer in explorer.env.action_space else ""

        return choose

    return play


def _in_pieces(explorer: Explorer, form: str, turns: int) -> Callable[[Start, int], Choose]:
    """Return a player that looks around, answers with some of what it read in every turn, and then ends the episode."""

    def play(start: Start, number: int) -> Choose:
        texts: list[str] = []
        spoken: set[str] = set()
        look = wander(explorer, np.random.default_rng([explorer.seed, 29, number]))

        def choose(moment: ProbeStep, taken: int) -> object:
            texts.append(text_of(moment) if taken <= turns else "")  # the answers' own echo is not read
            if taken < turns:
                return look(moment, taken)
            names = (word for word in candidates(texts) if not word.islower() and word not in spoken)
            piece = list(names)[:PIECE]
            spoken.update(piece)
            action = form.replace("...", " ".join(piece)[:LONGEST], 1) if piece else ending(moment)
            return action if action is not None and action in explorer.env.action_space else None

        return choose

    return play


def _first(explorer: Explorer) -> list[ProbeStep]:
    return [episodes[0].moments[0] for episodes in explorer.episodes.values() if episodes]


def _first_actions(explorer: Explorer, task: str | None) -> list[object]:
    return [action for episode in explorer.episodes[task][:1] for action in episode.moments[0].admissible or []]


def _forms(explorer: Explorer) -> list[str]:
    """Return the forms of free text; none where every action is listed, or where actions are no text."""
    first = _first(explorer)
    if explorer.foreign is None or not first:
        return []
    return forms_of(first[0])
