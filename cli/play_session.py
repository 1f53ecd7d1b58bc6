"""One episode played by hand: the turns so far, undo, and what typed text means.

Undo resets the environment to the same task and seed and sends the remaining actions again, which needs nothing more
than the contract that all environments keep: the same task and seed give the same episode.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, cast

from turncredit.cli.errors import UserError
from turncredit.registry import suggest

if TYPE_CHECKING:
    import gymnasium

    from turncredit.agents.content import ImagePart
    from turncredit.agents.trajectory import Turn


class PlaySession:
    """An episode of one task, with its turns recorded."""

    def __init__(self, env: gymnasium.Env[Any, Any], task: str | None = None, seed: int = 0) -> None:
        """Start the episode.

        Args:
            env: an environment that keeps the contract.
            task: id of the task instance; None lets the environment choose one.
            seed: seed of the reset; together with the task it determines the episode.
        """
        self.env, self.task, self.seed = env, task, seed
        self.restart()

    def restart(self) -> None:
        """Go back to the beginning of the same episode."""
        from turncredit.agents.demonstrations.recording import EpisodeRecorder

        options = None if self.task is None else {"task": self.task}
        observation, info = self.env.reset(seed=self.seed, options=options)
        self.task = str(info.get("task", self.task))
        self.recorder = EpisodeRecorder(observation, info, seed=self.seed)
        self.start = self.observation

    def act(self, action: str) -> Turn:
        """Take an action and return the recorded turn; `observation` is then the environment's response.

        Raises:
            UserError: the episode has ended.
        """
        if self.ended:
            raise UserError("the episode is over; :undo takes the last action back, :restart begins again")
        self.recorder.add(action, *self.env.step(action))
        return self.turns[-1]

    def undo(self, turns: int = 1) -> int:
        """Take the last actions back, and return how many there were."""
        actions = [str(turn.action) for turn in self.turns[: max(len(self.turns) - turns, 0)]]
        undone = len(self.turns) - len(actions)
        self.restart()
        for action in actions:
            self.act(action)
        return undone

    @property
    def turns(self) -> list[Turn]:
        """The turns so far."""
        return self.recorder.turns

    @property
    def observation(self) -> str:
        """What the environment said last."""
        return self.recorder.last.observation

    @property
    def image(self) -> ImagePart | None:
        """The image of the last observation; None if it has none."""
        images = self.recorder.last.images
        return images[-1] if images else None

    @property
    def ended(self) -> str | None:
        """None while the episode runs, else "terminated" or "truncated"."""
        last = self.recorder.last
        return "terminated" if last.terminated else "truncated" if last.truncated else None

    @property
    def admissible(self) -> list[str]:
        """The actions that are possible now; empty if the environment does not list them or the episode is over."""
        return [] if self.ended else sorted(self.recorder.last.admissible or ())

    @property
    def free(self) -> list[str]:
        """Forms of possible actions with a text of one's own, such as "search[...]"."""
        return [] if self.ended else list(self.recorder.last.free)

    @property
    def won(self) -> bool:
        """Whether the episode has ended in success."""
        return self.recorder.trajectory().won

    @property
    def reward(self) -> float:
        """Sum of the rewards so far."""
        return sum(turn.reward for turn in self.turns)

    def plan(self) -> list[str]:
        """Return the expert's actions from here to success.

        Raises:
            UserError: the environment has no expert.
            EnvError: the expert has no plan from here.
        """
        try:
            plan = cast("Callable[[], list[str]]", self.env.get_wrapper_attr("plan"))
        except AttributeError as error:
            raise UserError("this environment has no expert, so there are no hints") from error
        return [] if self.ended else list(plan())


def parse_count(text: str) -> int | None:
    """Return a text of one to nine ASCII digits as a number, None for any other text."""
    return int(text) if re.fullmatch(r"[0-9]{1,9}", text) else None


def complete(typed: str, admissible: list[str]) -> list[str]:
    """Return the admissible actions that a typed text can mean; a single one if it is unambiguous.

    A text means, in this order: the action with that number (from 1); the action itself; actions that begin with it;
    actions whose words begin with the typed words in the same order (`g cab 1` means `go to cabinet 1`).

    Args:
        typed: what the person typed.
        admissible: the actions in the order in which they are numbered.
    """
    typed = " ".join(typed.split())
    number = parse_count(typed)
    if number is not None and 1 <= number <= len(admissible):
        return [admissible[number - 1]]
    if typed in admissible or not typed:
        return [typed] if typed else []
    lower = typed.lower()
    begins = [action for action in admissible if action.lower().startswith(lower)]
    return begins or [action for action in admissible if _words_begin(lower.split(), action.lower().split())]


def _words_begin(typed: list[str], words: list[str]) -> bool:
    remaining = iter(words)
    return all(any(word == part if part.isdigit() else word.startswith(part) for word in remaining) for part in typed)


def meaning(typed: str, admissible: list[str], free: Sequence[str] = ()) -> str:
    """Return the action that a typed text means.

    Args:
        typed: what the person typed.
        admissible: the actions in the order in which they are numbered.
        free: forms of actions with a text of one's own, such as "search[...]"; text of that form is sent as it is.

    Raises:
        UserError: the text is ambiguous, or matches no admissible action.
    """
    from turncredit.envs.info import fits  # loads the environments, which --help must not

    if not admissible or fits(typed, free):
        return typed
    matches = complete(typed, admissible)
    if len(matches) == 1:
        return matches[0]
    if matches:
        raise UserError(f"{typed!r} can mean: {', '.join(matches[:8])}{' ...' if len(matches) > 8 else ''}")
    also = f"; or in your own words: {', '.join(form.splitlines()[0] for form in free)}" if free else ""
    raise UserError(
        f"{typed!r} is not possible here{suggest(typed, admissible)}{also} (!{typed} sends it anyway and costs a turn)"
    )
