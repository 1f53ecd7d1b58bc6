"""A search for reward without the expert: a seeded evolution of action sequences, within a budget of steps.

Each round takes an earlier sequence, keeps its beginning, and goes on with admissible actions, texts of the
observations in forms of free text, fragments of plans of other tasks, meaningless texts, or parts of itself again.
Sequences that end in different states are kept, so that the search goes on from all of them. Where the environment can
be saved, the kept beginning is resumed from a snapshot and costs no steps. A reset counts as a step.

Source: the archive of states that are returned to is Go-Explore's (Ecoffet et al. 2021, arXiv:1901.10995); states are
told apart by their keys, not by images.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from turncredit.envs.branch import load, save
from turncredit.envs.checks.cheap_players import GUESSES, JUNK, forms_of, text_of, wander
from turncredit.envs.checks.episode_data import Crash, ProbeEpisode, ProbeStep, read_step
from turncredit.envs.checks.explorer import Explorer
from turncredit.envs.checks.panel_data import Start, wins
from turncredit.envs.free_text import candidates
from turncredit.envs.info import SCORE

__all__ = ["AttackResult", "attack"]

_ARCHIVE: Final = 32
_SAVED: Final = 32
_TAIL: Final = 8
_TEXTS: Final = 200
_LONGEST: Final = 60


@dataclass(frozen=True, slots=True)
class AttackResult:
    """What an attack reached on one start: its best episode, the steps and episodes, and whether the time ended it."""

    start: Start
    best: ProbeEpisode
    steps: int
    episodes: int
    cut_short: bool = False


def attack(
    explorer: Explorer,
    start: Start,
    budget: int,
    fragments: Sequence[Sequence[object]] = (),
    enough: float | None = None,
    seconds: float = math.inf,
) -> AttackResult:
    """Return the best that a search finds from a start.

    Args:
        explorer: the environment.
        start: the start.
        budget: most steps.
        fragments: actions of experts on other tasks.
        enough: return above which the search stops.
        seconds: most seconds; an episode that has begun is cut off.
    """
    return _Attack(explorer, start, budget, fragments, enough, time.monotonic() + seconds).run()


class _Attack:
    """The state of one search."""

    def __init__(
        self,
        explorer: Explorer,
        start: Start,
        budget: int,
        fragments: Sequence[Sequence[object]],
        enough: float | None,
        end: float,
    ) -> None:
        self.explorer, self.start, self.budget, self.fragments, self.enough = explorer, start, budget, fragments, enough
        self.end = end
        self.rng = np.random.default_rng([explorer.seed, 31, start.seed])
        self.steps, self.episodes = 0, 0
        origin = ProbeEpisode(start.task, start.seed, (), (start.first,))
        self.best = origin
        self.archive: dict[object, ProbeEpisode] = {None: origin}
        self.saved: dict[tuple[str, ...], bytes] = {}
        self.can_save = explorer.has("snapshot") and explorer.has("restore")

    def run(self) -> AttackResult:
        """Play until the budget or the time is spent."""
        while self.steps < self.budget and self._in_time and not self._has_enough:
            spent = self.steps
            parent = self._parent()
            prefix = self._prefix(parent)
            try:
                self._keep(self._play(prefix, self._tail(parent)))
            except Crash:  # the rules of the contract show it
                self.steps += 1
            self.steps += self.steps == spent  # a round that took no step costs one, so that the search ends
        cut_short = self.steps < self.budget and not self._has_enough
        return AttackResult(self.start, self.best, self.steps, self.episodes, cut_short)

    @property
    def _in_time(self) -> bool:
        return time.monotonic() < self.end

    @property
    def _has_enough(self) -> bool:
        return self.enough is not None and self.best.earned > self.enough

    def _parent(self) -> ProbeEpisode:
        """Return an episode to begin with: the best one, or any of the archive."""
        members = list(self.archive.values())
        return self.best if self.rng.random() < 0.3 else members[int(self.rng.integers(len(members)))]

    def _prefix(self, parent: ProbeEpisode) -> ProbeEpisode:
        """Return the beginning of an episode that is kept: mostly all of it."""
        length = len(parent.actions) - parent.last.over
        if length and self.rng.random() < 0.4:
            length = int(self.rng.integers(length))
        length = min(length, _LONGEST)
        return ProbeEpisode(parent.task, parent.seed, parent.actions[:length], parent.moments[: length + 1])

    def _tail(self, parent: ProbeEpisode) -> Callable[[ProbeStep, list[ProbeStep], int], object]:
        """Return how an episode goes on."""
        length = 1 + int(self.rng.integers(_TAIL))
        kind, queue = self.rng.random(), list[object]()
        if kind < 0.15 and parent.actions:  # a part of itself again
            begin = int(self.rng.integers(len(parent.actions)))
            queue = list(parent.actions[begin:] * 3)
        elif kind < 0.3 and self.fragments:
            queue = list(self.fragments[int(self.rng.integers(len(self.fragments)))])
        repeated = self.rng.random() < 0.2

        def choose(moment: ProbeStep, moments: list[ProbeStep], taken: int) -> object:
            if queue:
                return queue.pop(0)
            if taken >= length:
                return None
            action = self._action(moment, moments)
            if repeated:
                queue.extend([action] * 5)
            return action

        return choose

    def _action(self, moment: ProbeStep, moments: list[ProbeStep]) -> object:
        """Return one action: mostly an admissible one, else a text in a form."""
        listed = self.explorer.listed(moment)
        if self.explorer.foreign is None or (listed and self.rng.random() < 0.7):
            return wander(self.explorer, self.rng)(moment, 0)
        texts = candidates([text_of(seen) for seen in moments[-3:]])[-_TEXTS:]
        pool = [*GUESSES, *JUNK] if not texts or self.rng.random() < 0.2 else texts
        words = [pool[int(self.rng.integers(len(pool)))] for _ in range(1 + int(self.rng.integers(3)))]
        forms = ["...", *forms_of(moment)]
        action = forms[int(self.rng.integers(len(forms)))].replace("...", " ".join(words), 1)
        return action if action in self.explorer.env.action_space else ""

    def _play(self, prefix: ProbeEpisode, choose: Callable[[ProbeStep, list[ProbeStep], int], object]) -> ProbeEpisode:
        """Return the prefix, gone on with."""
        self.episodes += 1
        actions, moments = list(prefix.actions), list(prefix.moments)
        if moments[-1].over:
            return prefix
        self._return_to(prefix)
        while not moments[-1].over and len(actions) < 2 * _LONGEST and self._in_time:
            action = choose(moments[-1], moments, len(actions) - len(prefix.actions))
            if action is None:
                break
            actions.append(action)
            self.steps += 1
            moments.append(self._step(actions))
        return ProbeEpisode(prefix.task, prefix.seed, tuple(actions), tuple(moments))

    def _step(self, actions: list[object]) -> ProbeStep:
        task, seed = self.start.task, self.start.seed
        try:
            raw = self.explorer.env.step(actions[-1])
        except Exception as error:
            raise Crash(f"step() raised {type(error).__name__}: {error}", task, seed, actions) from error
        return read_step(raw, task, seed, actions).copied()

    def _return_to(self, prefix: ProbeEpisode) -> None:
        """Bring the environment to the end of a beginning, by a snapshot or by replay."""
        key = tuple(map(repr, prefix.actions))
        if key in self.saved and self._restored(self.saved[key]):
            return
        self.explorer.play(prefix.task, prefix.actions, seed=prefix.seed)
        self.steps += 1 + len(prefix.actions)  # a reset counts as a step
        if self.can_save and len(self.saved) < _SAVED:
            try:
                self.saved[key] = save(self.explorer.env)
            except Exception:  # the rule "snapshot" shows it
                self.can_save = False

    def _restored(self, data: bytes) -> bool:
        """Return whether a snapshot could be loaded."""
        try:
            load(self.explorer.env, data)
        except Exception:  # the rule "snapshot" shows it
            self.can_save, self.saved = False, {}
            return False
        return True

    def _keep(self, episode: ProbeEpisode) -> None:
        """Remember an episode that earns more, or that ends in another state."""
        if _rank(episode) > _rank(self.best):
            self.best = episode
        if episode.last.over:
            return
        key = episode.last.key if episode.last.key is not None else repr(episode.last.observation)
        if key in self.archive and _rank(self.archive[key]) >= _rank(episode):
            return
        self.archive[key] = episode
        if len(self.archive) > _ARCHIVE:
            worst = min(self.archive, key=lambda name: (_rank(self.archive[name])[:2], self.rng.random()))
            del self.archive[worst]


def _rank(episode: ProbeEpisode) -> tuple[float, float, int]:
    """Return the order of episodes: return, score, fewer turns."""
    score = episode.last.info.get(SCORE, 0.0)
    return episode.earned, float(score) + wins(episode), -len(episode.actions)
