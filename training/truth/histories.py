"""The places of stored episodes from which forks are played: equal histories are one.

A history is everything that agent and environment carry into a turn: the prompt, the state of the environment, and how
many turns are left. Members of a group share their first one, and more as long as they play alike.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from itertools import count

from turncredit.agents.rollouts.forks import Fork
from turncredit.agents.trajectory import Group, Trajectory

__all__ = ["Histories", "History", "history_keys"]


@dataclass(frozen=True, slots=True)
class History:
    """A place from which forks are played."""

    key: str
    """The same for equal histories, in every process and release."""
    trajectory: Trajectory
    """The first episode that was there."""
    turn: int
    repeat: bool = False
    """Whether its forks repeat the answer of the turn."""

    @property
    def left(self) -> int:
        """Number of turns that the episode itself played from here on."""
        return len(self.trajectory.turns) - self.turn

    def fork(self, *, fresh: bool) -> Fork:
        """Return the fork that begins here."""
        return Fork(self.trajectory, self.turn, self.repeat, fresh)


class Histories:
    """The histories of a set of groups, and which of them each turn has.

    Rows are turns in the order of `turncredit.agents.steps.steps_of`: groups, finished trajectories, turns.
    """

    def __init__(self, groups: Sequence[Group], *, repeats: bool = False) -> None:
        """Find them.

        Args:
            groups: as stored; failed episodes are left out.
            repeats: whether the value of an action comes from forks that repeat it, as environments with chance need.
        """
        self.repeats = repeats
        self.trajectories = [trajectory for group in groups for trajectory in group.finished]
        self.reward: list[float] = []
        self.valid: list[bool] = []
        self.value_of: list[int] = []
        """Index of the history of each row."""
        self.next_of: list[int] = []
        """Index of the history after the action of each row, or of the one that repeats it; -1 at an end."""
        self._index: dict[str, int] = {}
        self.all: list[History] = []
        for trajectory in self.trajectories:
            self._add(trajectory)

    def _add(self, trajectory: Trajectory) -> None:
        keys = history_keys(trajectory)
        here = [self._number(History(key, trajectory, turn)) for turn, key in enumerate(keys)]
        after = [*here[1:], -1]
        if self.repeats:
            after = [
                self._number(History(_answered(key, turn.text), trajectory, number, True))
                for number, key, turn in zip(count(), keys, trajectory.turns, strict=False)
            ]
        self.value_of += here
        self.next_of += after
        self.reward += [turn.reward for turn in trajectory.turns]
        self.valid += [turn.valid for turn in trajectory.turns]

    def _number(self, history: History) -> int:
        number = self._index.setdefault(history.key, len(self.all))
        if number == len(self.all):
            self.all.append(history)
        return number

    def __len__(self) -> int:
        """Return the number of histories."""
        return len(self.all)

    def __contains__(self, key: str) -> bool:
        """Return whether there is a history with this key."""
        return key in self._index

    def turns(self, forks: Iterable[int]) -> int:
        """Return about how many turns some forks will play: as many as their parents played from there on.

        Args:
            forks: the number of forks of each history.
        """
        return sum(number * history.left for number, history in zip(forks, self.all, strict=True))


def history_keys(trajectory: Trajectory) -> list[str]:
    """Return the key of the history before each turn of an episode.

    Prompts count by their token ids; without ids, by the texts of the episode so far.
    """
    keys, past = [], blake2b(digest_size=16)
    for number, turn in enumerate(trajectory.turns):
        past.update(_text(turn.observation))
        prompt = blake2b(array("q", turn.prompt).tobytes(), digest_size=16) if turn.prompt else past
        digest = blake2b(digest_size=12)
        for part in (trajectory.task, str(trajectory.seed), str(number), turn.state, prompt.hexdigest()):
            digest.update(_text(part))
        keys.append(digest.hexdigest())
        past.update(_text(turn.text))
    return keys


def _answered(key: str, answer: str) -> str:
    return key + blake2b(_text(answer), digest_size=6).hexdigest()


def _text(text: str) -> bytes:
    """Return a text with its length, which keeps "a", "bc" from "ab", "c"."""
    return f"{len(text)}:{text}".encode(errors="surrogatepass")
