"""The environment under test: a shared instance, replay on it, and the explored episodes."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from turncredit.envs.checks.episode_data import (
    FOREIGN,
    Crash,
    Effort,
    EnvSource,
    ProbeEpisode,
    ProbeStep,
    cut,
    read_step,
    same,
)
from turncredit.envs.checks.panel_data import Earned, Start
from turncredit.envs.checks.reward_bounds import RewardBounds
from turncredit.envs.checks.rule_clock import RuleClock
from turncredit.envs.errors import EnvError, NoExpert
from turncredit.envs.info import Environment

__all__ = ["Explorer", "PlayExpert"]

PlayExpert = Callable[[Callable[[], Environment], str, int], tuple[bool, list[str]]]
"""Plays a task as an agent that follows plan(): (make, task, seed) -> (won, actions)."""


class Explorer:
    """An environment under test: a shared instance, replay on it, and the explored episodes."""

    def __init__(
        self,
        source: EnvSource,
        seed: int,
        effort: Effort,
        actions: Sequence[object] = (),
        play_expert: PlayExpert | None = None,
        bounds: RewardBounds | None = None,
    ) -> None:
        """Make the shared instance; `actions` are tried where the environment does not list admissible ones."""
        self.source, self.seed, self.effort, self.play_expert = source, seed, effort, play_expert
        self.bounds = bounds or RewardBounds()
        self.env = source.build()
        self.given = list(actions)
        self.tries = list(actions)
        self.tasks: list[str | None] = [None]
        self.episodes: dict[str | None, list[ProbeEpisode]] = {}
        self.panel_tasks: list[str | None] = [None]
        self.further_tasks: list[str | None] = []
        """Tasks whose plans are played to their ends."""
        self.panel: list[Start] | None = None
        self.expert_episodes: dict[tuple[str | None, int], ProbeEpisode | None] = {}
        self.random_floor: Earned | None = None
        self.seconds: list[float] = []
        self.time = RuleClock(None, 1)
        self.cut_short = ""
        """What the rule that is judged has left out for want of time."""
        self._free: Environment | None = None
        self._fans: dict[tuple[str | None, tuple[Any, ...]], list[tuple[Any, ProbeStep]]] = {}

    @property
    def free(self) -> Environment:
        """An instance without the turn limit of the registration, for long replays."""
        if self._free is None:
            self._free = self.env if self.source.limit is None else self.source.limited(-1)
        return self._free

    @property
    def foreign(self) -> str | None:
        """An action that no environment knows; None if actions are not text."""
        return FOREIGN if FOREIGN in self.env.action_space else None

    def has(self, method: str) -> bool:
        """Return whether the environment has an optional method."""
        return bool(self.env.has_wrapper_attr(method))

    def task_ids(self, env: Environment | None = None, *args: object) -> Any:
        """Return the result of task_ids()."""
        return (env or self.env).get_wrapper_attr("task_ids")(*args)

    def close(self) -> None:
        """Close the instances."""
        for env in {id(env): env for env in (self.env, self._free) if env is not None}.values():
            env.close()

    def play(
        self,
        task: str | None,
        actions: Sequence[object],
        *,
        env: Environment | None = None,
        seed: int | None = None,
    ) -> ProbeEpisode:
        """Return the episode of these actions, up to its end.

        Raises:
            Crash: the environment raised an exception, or broke Gymnasium's contract.
        """
        queue = iter(actions)
        return self.walk(task, lambda moment, taken: next(queue, None), len(actions), env=env, seed=seed)

    def walk(
        self,
        task: str | None,
        choose: Callable[[ProbeStep, int], object],
        turns: int,
        *,
        env: Environment | None = None,
        seed: int | None = None,
    ) -> ProbeEpisode:
        """Return an episode with the actions of `choose(step, number of actions so far)`; None stops it.

        Raises:
            Crash: the environment raised an exception, or broke Gymnasium's contract.
            OutOfTime: the rule that is judged has no time left.
        """
        self.time.require()
        env = env or self.env
        seed = self.seed if seed is None else seed
        taken: list[object] = []
        raw = self._run(lambda: env.reset(seed=seed, options=_options(task)), "reset()", task, seed, taken)
        returned = [read_step(raw, task, seed, taken)]
        moments = [returned[0].copied()]
        while len(taken) < turns and not moments[-1].over:
            action = choose(moments[-1], len(taken))
            if action is None:
                break
            self.time.require()
            began = time.perf_counter()
            raw = self._run(functools.partial(env.step, action), f"step({cut(action)})", task, seed, [*taken, action])
            self.seconds.append(time.perf_counter() - began)
            taken.append(action)
            returned.append(read_step(raw, task, seed, taken))
            moments.append(returned[-1].copied())
        return ProbeEpisode(task, seed, tuple(taken), tuple(moments), _altered(returned, moments))

    def _run(
        self, call: Callable[[], object], call_name: str, task: str | None, seed: int, actions: Sequence[object]
    ) -> object:
        """Call the environment; an exception becomes a Crash."""
        try:
            return call()
        except Exception as error:
            raise Crash(f"{call_name} raised {type(error).__name__}: {error}", task, seed, actions) from error

    def plan(self, task: str | None, prefix: Sequence[object] = (), *, strict: bool = False) -> list[Any] | None:
        """Return the plan after some actions; the environment must have plan().

        Args:
            task: the task.
            prefix: the actions before.
            strict: raise a Crash for unexpected exceptions of plan().

        Returns:
            The actions, or None if plan() raises. An EnvError means that success cannot be reached, which is an
            error at the start of an episode; NoExpert means that nobody can plan for this task, which is none.

        Raises:
            Crash: `strict`, and plan() raised another exception, or failed at the start.
        """
        self.play(task, prefix, env=self.free)
        try:
            return list(self.free.get_wrapper_attr("plan")())
        except NoExpert:
            return None
        except Exception as error:
            if not strict or (prefix and isinstance(error, EnvError)):
                return None
            claim = "env.get_wrapper_attr('plan')()"
            raise Crash(f"plan() raised {type(error).__name__}: {error}", task, self.seed, prefix, claim) from error

    def candidates(self, moment: ProbeStep) -> list[Any]:
        """Return the admissible actions, or the suggested ones if the environment does not list any."""
        return self.tries if moment.admissible is None else moment.admissible

    def listed(self, moment: ProbeStep) -> list[object]:
        """Return the admissible actions, or those that the caller named; nothing that only the expert knows."""
        return self.given if moment.admissible is None else moment.admissible

    def chooser(
        self, rng: np.random.Generator, *, foreign: float = 0.0, few: int = 0
    ) -> Callable[[ProbeStep, int], Any]:
        """Return a function that chooses random actions.

        Args:
            rng: the random generator.
            foreign: probability of an action that the environment does not know.
            few: prefer the first `few` actions that were chosen, which leads back to earlier states.
        """
        alphabet: list[object] = []

        def choose(moment: ProbeStep, taken: int) -> object:
            if self.foreign is not None and rng.random() < foreign:
                return self.foreign
            actions = self.candidates(moment)
            if few and (familiar := [action for action in actions if action in alphabet]) and len(alphabet) >= few:
                actions = familiar
            if not actions:
                self.env.action_space.seed(int(rng.integers(2**31)))
                return self.env.action_space.sample()
            action = actions[int(rng.integers(len(actions)))]
            if action not in alphabet:
                alphabet.append(action)
            return action

        return choose

    def fan(self, task: str | None, prefix: tuple[object, ...], moment: ProbeStep) -> list[tuple[Any, ProbeStep]]:
        """Return every candidate action after `prefix` and the step that follows; cached."""
        key = (task, prefix)
        if key not in self._fans:
            actions = self.candidates(moment)
            ends = [(action, self.play(task, [*prefix, action], env=self.free).last) for action in actions]
            self._fans[key] = ends
        return self._fans[key]

    def explore(self) -> None:
        """Play every task: the plan, random walks with occasional unknown actions, and an idle episode."""
        if self.has("plan") and not self.tries:
            for task in self.tasks:
                self.tries += [action for action in self.plan(task) or [] if action not in self.tries]
        for number, task in enumerate(self.tasks):
            episodes: list[ProbeEpisode] = []
            if self.has("plan"):
                episodes.append(self.play(task, self.plan(task) or []))
            for walk in range(self.effort.walks):
                rng = np.random.default_rng([self.seed, number, walk])
                few = 4 if walk % 2 else 0
                episodes.append(self.walk(task, self.chooser(rng, foreign=0.1, few=few), self.effort.turns))
            episodes.append(self._idle(task))
            self.episodes[task] = episodes

    def _idle(self, task: str | None) -> ProbeEpisode:
        """Play an episode in which little happens, up to the turn limit if there is one."""
        turns = 2 * self.effort.turns if self.source.limit is None else min(self.source.limit, 500) + 1
        rng = np.random.default_rng(self.seed)
        choose = self.chooser(rng) if self.foreign is None else self.chooser(rng, foreign=1.0)
        return self.walk(task, choose, turns)


def _options(task: str | None) -> dict[str, object] | None:
    """Return the options of reset() for a task."""
    return None if task is None else {"task": task}


def _altered(returned: Sequence[ProbeStep], copies: Sequence[ProbeStep]) -> str | None:
    """Return which observation or info changed after it was returned, or None."""
    for original, copied in zip(returned, copies, strict=True):
        if not same(original.observation, copied.observation):
            return f"the observation of turn {original.turn}"
        if not same(original.info, copied.info):
            return f"the info of turn {original.turn}"
    return None
