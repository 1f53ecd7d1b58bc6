"""Forests in a corridor for the tests of forks: groups that grow by a rule, and episodes that are made up."""

from __future__ import annotations

import functools
from typing import Any

from toys.corridor import Corridor
from toys.tokens import Bytes
from toys.wanderer import Wanderer

from turncredit.agents.agent import Agent
from turncredit.agents.rollouts.rollout import rollout
from turncredit.agents.rollouts.rollout_stream import GroupNumbers
from turncredit.agents.trajectory import Group, Trajectory, Turn
from turncredit.curriculum.forests import Forest
from turncredit.curriculum.fork_places import FORK_RULES, ForkRule, get_fork_rule
from turncredit.training.config.seeds import Seeds
from turncredit.training.sampling.grown_groups import GrowingGroups
from turncredit.training.tasks.group_draws import DrawnGroup

AGENT = Agent(max_turns=7)
TASKS = ["open-3-1", "fetch-3-1", "open-3-1"]
RULES = list(FORK_RULES.names())


def sampler() -> Wanderer:
    return Wanderer(plans=0.6, tokenizer=Bytes())


def grow(rule: ForkRule, *, size: int = 6, roots: int = 2, seed: int = 5, **options: Any) -> list[Group]:
    return grown(Forest(rule, size, roots), TASKS, seed, Corridor, AGENT, **options)


def grown(
    forest: Forest, tasks: list[str], seed: int, make: Any, agent: Agent, player: Any = None, **options: Any
) -> list[Group]:
    """Groups that grow by a forest's rule, as in a run."""
    growing = GrowingGroups([forest.rule_of_groups()], Seeds(0), 1, max_rounds=99)
    numbers, specs = GroupNumbers(forest.size, seed), []
    for task in tasks:
        spec = numbers.next(task)
        drawn = DrawnGroup(spec.number, task, spec.size, seed, spec.first)
        specs.append(drawn.spec(growing.grow(drawn)))
    return rollout(agent, player or sampler(), specs, make=make, **options)


@functools.cache
def forest(name: str = "uniform") -> list[Group]:
    return grow(get_fork_rule(name))


def members(groups: list[Group]) -> list[Trajectory]:
    return [trajectory for group in groups for trajectory in group.trajectories]


def turn(state: str, logprobs: tuple[float, ...] = (-1.0,)) -> Turn:
    return Turn((1,), (2,) * len(logprobs), logprobs, 0, state, "go", "go", state, 0.0, True)


def episode(name: str, states: str, won: bool = False, fork_of: str | None = None, at: int | None = None) -> Trajectory:
    turns = tuple(turn(state) for state in states)
    return Trajectory(
        f"t#{name}@7",
        "t",
        None,
        7,
        turns,
        "terminated",
        won,
        float(won),
        "",
        "",
        None,
        0.0,
        fork_of=fork_of,
        fork_turn=at,
    )
