"""One episode played by hand: what was done, what was seen, and the way back.

Undo replays: the environment is reset to the same task and seed and the remaining actions are sent again. That works
with every environment that keeps the contract (same task and seed give the same episode) and needs nothing more of it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

from turnwise.cli.errors import UserError
from turnwise.registry import suggest

if TYPE_CHECKING:
    import gymnasium


@dataclass(frozen=True, slots=True)
class PlayTurn:
    """One turn that was played: the action, the answer, the reward, whether the action was possible, and which were."""

    action: str
    observation: str
    reward: float
    valid: bool
    possible: tuple[str, ...] = ()


@dataclass
class PlaySession:
    """An episode of `env` on one task; every method leaves it in a state that can be shown.

    Args:
        env: any environment of the contract.
        task: id of the task instance, or None to let the environment draw one.
        seed: seed of the reset; together with the task it fixes the episode.
    """

    env: gymnasium.Env[Any, Any]
    task: str | None = None
    seed: int = 0
    turns: list[PlayTurn] = field(default_factory=list)
    start: str = ""
    observation: str = ""
    info: dict[str, Any] = field(default_factory=dict)
    ended: str | None = None  # None | "terminated" | "truncated"

    def __post_init__(self) -> None:
        """Start the episode."""
        self.restart()

    def restart(self) -> None:
        """Go back to the beginning of the same episode."""
        options = None if self.task is None else {"task": self.task}
        observation, info = self.env.reset(seed=self.seed, options=options)
        self.info = dict(info)
        self.task = str(self.info.get("task", self.task))
        self.start = self.observation = _text(observation)
        self.turns = []
        self.ended = None

    def act(self, action: str) -> PlayTurn:
        """The answer to one action.

        Raises:
            UserError: the episode has ended.
        """
        if self.ended:
            raise UserError("The episode is over; :undo takes the last action back, :restart begins again.")
        possible = tuple(self.admissible)
        observation, reward, terminated, truncated, info = self.env.step(action)
        self.info = dict(info)
        self.observation = _text(observation)
        self.ended = "terminated" if terminated else "truncated" if truncated else None
        moment = PlayTurn(action, self.observation, float(reward), bool(self.info.get("valid", True)), possible)
        self.turns.append(moment)
        return moment

    def undo(self, turns: int = 1) -> int:
        """Take the last actions back; returns how many were really taken back."""
        kept = [moment.action for moment in self.turns[: max(len(self.turns) - turns, 0)]]
        undone = len(self.turns) - len(kept)
        self.restart()
        for action in kept:
            self.act(action)
        return undone

    @property
    def admissible(self) -> list[str]:
        """The actions that the environment says are possible now; empty when it cannot tell or the episode is over."""
        return [] if self.ended else sorted(self.info.get("admissible_actions") or ())

    @property
    def free(self) -> list[str]:
        """Forms of actions with a text of one's own that are possible now, such as "search[...]"."""
        return [] if self.ended else list(self.info.get("free_actions") or ())

    @property
    def won(self) -> bool:
        """True when the episode has ended in success."""
        return self.ended is not None and bool(self.info.get("won", False))

    @property
    def reward(self) -> float:
        """Sum of the rewards so far."""
        return sum(moment.reward for moment in self.turns)

    def plan(self) -> list[str]:
        """Actions from here to success.

        Raises:
            UserError: the environment has no expert.
            EnvError: the expert knows no way from here.
        """
        try:
            plan = cast("Callable[[], list[str]]", self.env.get_wrapper_attr("plan"))
        except AttributeError as error:
            raise UserError("This environment has no expert, so there are no hints.") from error
        return [] if self.ended else list(plan())


def _text(observation: Any) -> str:
    return str(observation["text"] if isinstance(observation, dict) else observation)


def whole(text: str) -> int | None:
    """The whole number that a text is, None if it is none: nine ASCII digits at most, nothing else."""
    return int(text) if re.fullmatch(r"[0-9]{1,9}", text) else None


def complete(typed: str, admissible: list[str]) -> list[str]:
    """The admissible actions that a typed text can mean: one when it is clear.

    In this order: the number of an action (from 1), the action itself, actions that begin with the text, actions in
    which the typed words begin words in the same order (`g cab 1` means `go to cabinet 1`).

    Args:
        typed: what the person wrote.
        admissible: the actions in the order in which they are numbered.
    """
    typed = " ".join(typed.split())
    number = whole(typed)
    if number is not None and 1 <= number <= len(admissible):
        return [admissible[number - 1]]
    if typed in admissible or not typed:
        return [typed] if typed else []
    lower = typed.lower()
    begins = [action for action in admissible if action.lower().startswith(lower)]
    return begins or [action for action in admissible if _words_begin(lower.split(), action.lower().split())]


def _words_begin(typed: list[str], words: list[str]) -> bool:
    rest = iter(words)
    return all(any(word == part if part.isdigit() else word.startswith(part) for word in rest) for part in typed)


def meaning(typed: str, admissible: list[str], free: Sequence[str] = ()) -> str:
    """The one action that a typed text means.

    Args:
        typed: what the person wrote.
        admissible: the actions in the order in which they are numbered.
        free: forms of actions with a text of one's own, such as "search[...]": what has one of them means itself.

    Raises:
        UserError: several are meant, or none of those that are admissible.
    """
    from turnwise.envs.info import fits  # here, so that `turnwise --help` need not load the environments

    if not admissible or fits(typed, free):
        return typed
    found = complete(typed, admissible)
    if len(found) == 1:
        return found[0]
    if found:
        raise UserError(f"{typed!r} can mean: {', '.join(found[:8])}{' ...' if len(found) > 8 else ''}")
    also = f"; or in your own words: {', '.join(form.splitlines()[0] for form in free)}" if free else ""
    raise UserError(
        f"{typed!r} is not possible here{suggest(typed, admissible)}{also} (!{typed} sends it anyway and costs a turn)"
    )
