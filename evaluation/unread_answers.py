"""Answers in which the parser found no action: how many there are, and one of them with its prompt.

A model whose answers cannot be read looks like one that cannot play. The reason is seldom the model: a prompt asks for
another form than the parser reads, an answer is cut at its limit of tokens, or a small model repeats the prompt.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from turnwise.agents.agent import Agent
from turnwise.agents.prompts.dialogue import Dialogue
from turnwise.agents.prompts.prompt import View
from turnwise.agents.trajectory import Trajectory, Turn
from turnwise.tools.visible_text import escaped

__all__ = ["UnreadAnswers"]

MANY = 0.5
"""Share of unparsable turns above which one of them is shown."""
_PROMPT, _ANSWER = (300, 300), 300
"""Characters of a prompt (its beginning and its end) and of an answer that are shown."""


@dataclass
class UnreadAnswers:
    """Counts the turns of trajectories without an action, and keeps the earliest one."""

    turns: int = 0
    unread: int = 0
    _example: tuple[int, Trajectory] | None = field(default=None, repr=False)

    def __call__(self, trajectory: Trajectory) -> None:
        """Count the turns of a trajectory."""
        indices = [index for index, turn in enumerate(trajectory.turns) if turn.action is None]
        self.turns += len(trajectory.turns)
        self.unread += len(indices)
        if indices and (self._example is None or indices[0] < self._example[0]):
            self._example = indices[0], trajectory

    def lines(self, agent: Agent) -> Iterator[str]:
        """Yield lines with a prompt, its answer and why it was not read, if more than half of the turns had no action.

        Args:
            agent: the agent that played, which writes the prompt again.
        """
        if self._example is None or self.unread <= MANY * self.turns:
            return
        index, trajectory = self._example
        turn = trajectory.turns[index]
        reason = agent.parse(turn.text).why or "it had no action"
        cut = f", which was cut at {agent.max_tokens} tokens" if turn.finish == "length" else ""
        yield f"{self.unread} of {self.turns} answers had no action, such as that of turn {index} of {trajectory.id}:"
        yield f"  prompt: {_quoted(_prompt(agent, trajectory, index), *_PROMPT)}"
        yield f"  answer{cut}: {_quoted(turn.text, _ANSWER)}"
        yield f"  reason: {reason}; the parser {agent.parser} reads {agent.expected}"


def _prompt(agent: Agent, trajectory: Trajectory, index: int) -> str:
    """Return the messages of the prompt of a turn as one text."""
    dialogue = Dialogue(agent)
    for turn in trajectory.turns[:index]:
        dialogue.add(_view(dialogue, turn), turn.text, turn.action)
    messages = dialogue.prompt(_view(dialogue, trajectory.turns[index])).messages
    return "\n\n".join(str(message["content"]) for message in messages)


def _view(dialogue: Dialogue, turn: Turn) -> View:
    return dialogue.view(turn.observation, turn.admissible, free=turn.free, results=turn.results)


def _quoted(text: str, head: int, tail: int = 0) -> str:
    r"""Return a text in quotes on one line that a terminal can show: its beginning, and its end if it is long.

    >>> _quoted("one\ntwo", 20), _quoted("abcdefgh", 3, 2)
    ("'one\\ntwo'", "'abc' ... 'gh'")
    """
    if len(text) <= head + tail:
        return repr(escaped(text))
    return f"{escaped(text[:head])!r} ... {escaped(text[-tail:])!r}" if tail else f"{escaped(text[:head])!r} ..."
