"""Answers that had no effect: how many there are, and one of them with its prompt and what came back.

A model whose answers cannot be read, by the parser or by the environment, looks like one that cannot play. The reason
may be a prompt that asks for another form, an answer that was cut at its limit of tokens, or a small model that repeats
its prompt.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from turncredit.agents.agent import Agent
from turncredit.agents.prompts.dialogue import Dialogue
from turncredit.agents.prompts.prompt import View
from turncredit.agents.trajectory import Trajectory, Turn
from turncredit.tools.visible_text import escaped

__all__ = ["UnreadAnswers"]

MANY = 0.5
"""Share of turns above which one of them is shown."""
_PROMPT, _ANSWER = (300, 300), 300
"""Characters of a prompt (its beginning and its end) and of an answer or reply that are shown."""


@dataclass
class UnreadAnswers:
    """Counts the turns of trajectories whose answer had no action, or an invalid one, and keeps the earliest one."""

    turns: int = 0
    unread: int = 0
    """Answers without an action."""
    invalid: int = 0
    """Actions that were not possible."""
    _example: tuple[int, Trajectory] | None = field(default=None, repr=False)

    def __call__(self, trajectory: Trajectory) -> None:
        """Count the turns of a trajectory."""
        indices = [index for index, turn in enumerate(trajectory.turns) if not turn.valid]
        unread = sum(turn.action is None for turn in trajectory.turns)
        self.turns += len(trajectory.turns)
        self.unread += unread
        self.invalid += len(indices) - unread
        if indices and (self._example is None or indices[0] < self._example[0]):
            self._example = indices[0], trajectory

    def lines(self, agent: Agent) -> Iterator[str]:
        """Yield lines with a prompt, its answer and what came back, if more than half of the answers had no effect.

        Args:
            agent: the agent that played, which writes the prompt again.
        """
        if self._example is None or self.unread + self.invalid <= MANY * self.turns:
            return
        index, trajectory = self._example
        agent = agent.for_task(trajectory.task)
        turn = trajectory.turns[index]
        cut = f", cut at {agent.max_tokens} tokens" if turn.finish == "length" else ""
        counts = ((self.unread, "had no action"), (self.invalid, "had one that was not possible"))
        words = " and ".join(f"{count} {clause}" for count, clause in counts if count)
        yield f"of {self.turns} answers, {words}; for example turn {index} of {trajectory.id}:"
        yield f"  prompt: {_quoted(_prompt(agent, trajectory, index), *_PROMPT)}"
        yield f"  answer{cut}: {_quoted(turn.text, _ANSWER)}"
        after = [turn.observation for turn in trajectory.turns[index + 1 :]] or [trajectory.final_observation]
        yield f"  reply: {_quoted(after[0], _ANSWER)}"


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
    parts = [text] if len(text) <= head + tail else [text[:head], text[len(text) - tail :]]
    return " ... ".join(f"'{escaped(part, keep='')}'" if part else "" for part in parts)
