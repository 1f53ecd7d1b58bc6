"""The expert: when it follows its plan, when it makes a new one, and what it plays without one."""

from __future__ import annotations

from typing import Any

import pytest
from toys.corridor import Corridor

from turncredit.agents.agent import Agent
from turncredit.agents.errors import AgentError
from turncredit.agents.rollouts.rollout import rollout
from turncredit.engines.expert import Expert
from turncredit.envs.errors import EnvError, NoExpert

TASKS = Corridor().task_ids()


class FormCorridor(Corridor):
    """Lists every action but "unlock door", which has a free form; `plan()` cannot be asked again in between."""

    asked = 0
    free: tuple[str, ...] = ("unlock ...",)
    complete = False

    def plan(self) -> list[str]:
        type(self).asked += 1
        return ["look", *super().plan()]

    def _info(self, *, valid: bool) -> dict[str, object]:
        info = super()._info(valid=valid)
        listed = [action for action in self._admissible() if self.complete or action != "unlock door"]
        return info | {"admissible_actions": listed, "free_actions": list(self.free)}


def test_a_plan_with_actions_that_are_not_listed_is_followed_to_the_letter() -> None:
    FormCorridor.asked = 0
    groups = rollout(Agent(), Expert(), TASKS, make=FormCorridor)
    assert all(group.trajectories[0].won for group in groups)
    assert FormCorridor.asked == len(TASKS)


def test_an_action_that_a_complete_list_does_not_contain_is_not_played() -> None:
    class Complete(FormCorridor):
        free = ()

    (group,) = rollout(Agent(max_turns=12), Expert(), ["open-3-1"], make=Complete)
    assert {turn.action for turn in group.trajectories[0].turns} == {"look", "take key", "go east"}
    assert all(turn.valid for turn in group.trajectories[0].turns)


def test_an_action_that_the_environment_calls_invalid_makes_a_new_plan() -> None:
    class Slippery(FormCorridor):
        """The first action of every episode fails."""

        def step(self, action: str) -> Any:
            self.played = getattr(self, "played", -1) + 1
            return super().step("stumble" if self.played == 0 else action)

    Slippery.asked = 0
    (group,) = rollout(Agent(), Expert(), ["open-3-1"], make=Slippery)
    found = group.trajectories[0]
    assert (found.won, Slippery.asked) == (True, 2)
    assert [turn.valid for turn in found.turns] == [False] + [True] * (len(found.turns) - 1)


class Doubtful(Corridor):
    """Its expert knows a way in room 1 only."""

    asked = 0

    def plan(self) -> list[str]:
        type(self).asked += 1
        if self._room > 1:
            raise EnvError("there is no way")
        return super().plan()[:2]


def test_an_expert_without_a_plan_draws_an_action_and_says_which_were_drawn() -> None:
    Doubtful.asked = 0
    sampler = Expert()
    groups = rollout(Agent(max_turns=40), sampler, ["open-5-1", "fetch-5-1"], make=Doubtful, size=3)
    played = [one for group in groups for one in group.trajectories]
    assert {one.stop for one in played} <= {"terminated", "turns"}
    turns = [(one.id, number) for one in played for number in range(len(one.turns))]
    assert all(turn.valid for one in played for turn in one.turns)
    assert {(one.id, 0) for one in played}.isdisjoint(sampler.guesses)
    assert {(one.id, 2) for one in played} <= sampler.guesses < set(turns)
    assert Doubtful.asked < len(turns) / 2  # a dead end is not searched again at every turn
    again = rollout(Agent(max_turns=40), Expert(), ["open-5-1", "fetch-5-1"], make=Doubtful, size=3)
    first, second = ([[turn.action for turn in one.turns] for group in both for one in group.trajectories]
                     for both in (groups, again))  # fmt: skip
    assert first == second


def test_an_expert_without_a_plan_and_without_a_list_of_actions_ends_the_episode_with_the_reason() -> None:
    class Silent(Doubtful):
        def _info(self, *, valid: bool) -> dict[str, object]:
            return super()._info(valid=valid) | {"admissible_actions": None}

    (group,) = rollout(Agent(), Expert(), ["open-5-1"], make=Silent)
    assert group.trajectories[0].stop == "error"
    assert "there is no way" in str(group.trajectories[0].error)


def test_an_environment_without_an_expert_ends_the_rollout_before_anything_is_played() -> None:
    played = []

    class Unknown(Corridor):
        def plan(self) -> list[str]:
            raise NoExpert("nobody knows this corridor")

        def step(self, action: str):
            played.append(action)
            return super().step(action)

    with pytest.raises(AgentError, match="the expert cannot play here: nobody knows this corridor"):
        rollout(Agent(), Expert(), ["open-3-1"], make=Unknown)
    assert played == []


@pytest.mark.parametrize("noise", [0.0, 0.3])
def test_the_expert_wins_and_noise_costs_turns(noise: float) -> None:
    planned = 0

    class Counted(Corridor):
        def plan(self) -> list[str]:
            nonlocal planned
            planned += 1
            return super().plan()

    groups = rollout(Agent(max_turns=200), Expert(noise), TASKS, make=Counted, size=4)
    found = [trajectory for group in groups for trajectory in group.trajectories]
    assert all(trajectory.won for trajectory in found)
    turns = sum(len(trajectory.turns) for trajectory in found)
    if noise == 0:
        assert planned == len(found)  # one plan an episode is enough when nothing disturbs it
        assert len({len(trajectory.turns) for trajectory in groups[0].trajectories}) == 1
    else:
        assert planned < turns
        assert len({tuple(turn.action for turn in trajectory.turns) for trajectory in groups[-1].trajectories}) > 1


def test_the_expert_says_what_it_needs() -> None:
    class Planless(Corridor):
        plan = None  # type: ignore[assignment]

    with pytest.raises(AgentError, match=r"needs an environment with plan\(\)"):
        rollout(Agent(), Expert(), ["open-3-1"], make=Planless)
    with pytest.raises(AgentError, match="got 2"):
        Expert(2)
