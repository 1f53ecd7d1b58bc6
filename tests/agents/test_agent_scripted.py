"""Samplers without a model, and the ids of what they played."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from toys.corridor import Corridor
from toys.tokens import CHATML, Bytes, ChatBytes

from turnwise.agents.agent import Agent
from turnwise.agents.errors import AgentError, PromptError
from turnwise.agents.prompt import Conversation, View, Window
from turnwise.agents.rollout import rollout
from turnwise.agents.samplers.expert import Expert
from turnwise.agents.samplers.scripted import PlayerSampler, Random, Scripted
from turnwise.agents.templates import PLAIN, REACT
from turnwise.agents.tokens import tokenize_trajectory
from turnwise.envs.errors import EnvError
from turnwise.envs.household.engine import World

TASKS = Corridor().task_ids()


def test_a_script_is_played_for_every_task_or_for_each() -> None:
    script = {"open-3-1": ["take key", "go east", "unlock door", "go east"], "open-3-2": ["look"]}
    groups = rollout(Agent(max_turns=5), Scripted(script), list(script), make=Corridor)
    first, second = (group.trajectories[0] for group in groups)
    assert first.won
    assert ([turn.action for turn in second.turns], second.unparsable) == (["look", None, None, None, None], 4)
    with pytest.raises(AgentError, match="did you mean 'open-3-2'"):
        rollout(Agent(), Scripted({"open-3-2": []}), ["open-3-1"], make=Corridor)


def test_random_plays_admissible_actions_only_and_all_of_them() -> None:
    groups = rollout(Agent(), Random(1), TASKS, make=Corridor, size=4)
    turns = [turn for group in groups for found in group.trajectories for turn in found.turns]
    assert all(turn.valid for turn in turns)
    assert {turn.action for turn in turns} == {"look", "go east", "go west", "take key", "unlock door", "take coin"}
    assert groups != rollout(Agent(), Random(2), TASKS, make=Corridor, size=4)


def test_random_needs_a_list_of_actions() -> None:
    class Silent(Corridor):
        def _info(self, *, valid: bool) -> dict[str, object]:
            info = super()._info(valid=valid)
            del info["admissible_actions"]
            return info

    with pytest.raises(AgentError, match="does not list"):
        rollout(Agent(), Random(), ["open-3-1"], make=Silent)
    assert rollout(Agent(), Expert(), ["open-3-1"], make=Silent)[0].trajectories[0].won


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


def test_an_environment_that_breaks_while_planning_ends_the_episode() -> None:
    class Broken(Corridor):
        def plan(self) -> list[str]:
            raise ZeroDivisionError("oh")

    (group,) = rollout(Agent(), Expert(), ["open-5-1"], make=Broken)
    assert (group.trajectories[0].stop, group.trajectories[0].turns) == ("error", ())


def test_the_expert_plays_on_in_a_dead_end_of_an_original_game(data_dir: Path, tmp_path, monkeypatch) -> None:
    from turnwise.envs.household.env import HouseholdEnv
    from turnwise.envs.household.expert import NoPlan

    monkeypatch.setenv("TURNWISE_CACHE", str(tmp_path))
    doomed = 0

    class Stuck(HouseholdEnv):
        """Starts every episode with a thing in the hand that no receptacle takes, where there is one."""

        def reset(self, **options: Any) -> tuple[str, dict[str, Any]]:
            nonlocal doomed
            observation, info = super().reset(**options)
            world = self._playing()
            held = _unwanted(world)
            if held is not None:
                for command in held:
                    observation, *_, info = self.step(command)
                with pytest.raises(NoPlan):
                    self.plan()
                doomed += 1
            return observation, info

    games = data_dir / "alfworld" / "games.jsonl.xz"
    env = HouseholdEnv(games, split="valid_unseen")
    tasks = [task for task in env.task_ids() if "TeddyBear" not in task][::15]
    sampler = Expert()
    groups = rollout(Agent(max_turns=6), sampler, tasks, make=lambda: Stuck(games, split="valid_unseen"))
    assert doomed > 0
    assert len({name for name, turn in sampler.guesses if turn == 0}) == doomed
    assert all(group.trajectories[0].stop in ("terminated", "turns") for group in groups)
    assert all(turn.valid for group in groups for turn in group.trajectories[0].turns)


def _unwanted(world: World) -> list[str] | None:
    """Return the commands that take a teddy bear or a roll of paper towels, from which there may be no way back."""
    start = world.clone()
    for place in [command for command in start.admissible() if command.startswith("go to ")]:
        there = start.clone()
        commands = [place]
        there.step(place)
        for command in there.admissible():
            if command.startswith("open "):
                there.step(command)
                commands.append(command)
        for command in there.admissible():
            if command.startswith(("take teddybear", "take papertowelroll")):
                there.step(command)
                if doomed(there):
                    return [*commands, command]
    return None


def doomed(world: World) -> bool:
    """Whether the expert finds no way."""
    from turnwise.envs.household.expert import NoPlan, plan

    try:
        plan(world)
    except NoPlan:
        return True
    return False


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


def test_any_player_of_text_can_play_and_every_episode_has_its_own() -> None:
    class Walker:
        """Knows what it sees, and remembers."""

        def __init__(self) -> None:
            self.key = False

        def act(self, view: View) -> str:
            assert (view.turn == 0) == (not hasattr(self, "seen"))
            self.seen = view.observation
            if "key here" in view.observation and not self.key:
                self.key = True
                return "take key"
            if self.key and "locked" in view.start + view.observation and "unlock door" in (view.admissible or ()):
                return "unlock door"
            return "go east"

    sampler = PlayerSampler(Walker)
    groups = rollout(Agent(), sampler, ["open-3-1", "open-4-2", "open-5-3"], make=Corridor, size=2)
    assert all(found.won for group in groups for found in group.trajectories)
    assert not sampler._players  # nothing is kept of episodes that are over


AGENTS = [
    Agent(),
    Agent(Window(PLAIN, 2)),
    Agent(Window(PLAIN, 0), "think-action"),
    Agent(parser="think-action", chat=ChatBytes(CHATML)),
    Agent(Window(PLAIN, 1), chat=ChatBytes(CHATML)),
    Agent(Conversation(REACT), "think-action"),
    Agent(Window(REACT, 2), "think-action"),
]


@pytest.mark.parametrize("agent", AGENTS)
def test_ids_filled_in_later_are_those_of_a_rollout_with_the_tokenizer(agent: Agent) -> None:
    tokenizer = agent.chat or Bytes(bos=True)
    script = ["", "look", "take key", "fly", "go east", "unlock door", "\n\n", "go east"]

    def run(given: Bytes | None) -> list[object]:
        sampler = Scripted(script, parser=agent.parser, tokenizer=given)  # type: ignore[arg-type]
        groups = rollout(agent, sampler, ["open-3-1", "fetch-3-2"], make=Corridor)
        return [found for group in groups for found in group.trajectories]

    for played, bare in zip(run(tokenizer), run(None), strict=True):  # type: ignore[arg-type]
        assert not bare.turns[0].prompt  # type: ignore[attr-defined]
        assert tokenize_trajectory(bare, agent, tokenizer).turns == played.turns  # type: ignore[arg-type,attr-defined]


def test_bare_demonstrations_can_be_written_in_the_form_of_the_agent() -> None:
    found = rollout(Agent(), Expert(), ["open-3-1"], make=Corridor)[0].trajectories[0]
    agent = Agent(parser="think-action")
    made = tokenize_trajectory(found, agent, Bytes(), rewrite=True)
    assert made.turns[0].text == "<think></think><action>take key</action>"
    assert [agent.parse(turn.text).action for turn in made.turns] == [turn.action for turn in found.turns]


def test_the_reasoning_of_demonstrations_in_the_same_form_is_kept() -> None:
    agent, text = Agent(parser="think-action"), "<think>A key!</think> <action>take key</action>"
    found = rollout(agent, Expert(parser="think-action"), ["open-3-1"], make=Corridor)[0].trajectories[0]
    found = replace(found, turns=(replace(found.turns[0], text=text), *found.turns[1:]))
    made = tokenize_trajectory(found, agent, Bytes(), rewrite=True)
    assert [turn.text for turn in made.turns] == [turn.text for turn in found.turns]
    assert tokenize_trajectory(found, Agent(), Bytes(), rewrite=True).turns[0].text == "take key"


def test_a_template_that_lists_actions_needs_them_in_the_trajectory() -> None:
    found = rollout(Agent(), Expert(), ["open-3-1"], make=Corridor)[0].trajectories[0]
    assert {turn.admissible for turn in found.turns} == {None}
    with pytest.raises(PromptError, match="the trajectory 'open-3-1#0@0' does not contain them"):
        tokenize_trajectory(found, Agent(Conversation(REACT)), Bytes())
    listed = rollout(Agent(Conversation(REACT)), Expert(), ["open-3-1"], make=Corridor)[0].trajectories[0]
    assert listed.turns[0].admissible == ("go east", "look", "take key")
    assert tokenize_trajectory(listed, Agent(), Bytes()).turns[0].prompt  # more than is needed is no harm


def test_the_agents_are_imported_without_torch() -> None:
    code = "import sys, turnwise.agents; sys.exit('torch' in sys.modules or 'transformers' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
