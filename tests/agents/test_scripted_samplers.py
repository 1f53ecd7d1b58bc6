"""Samplers without a model, and the ids of what they played."""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import replace

import pytest
from toys.corridor import Corridor
from toys.tokens import CHATML, Bytes, ChatBytes

from turncredit.agents.agent import Agent
from turncredit.agents.demonstrations.tokens import tokenize_trajectory
from turncredit.agents.errors import AgentError, PromptError
from turncredit.agents.prompts.prompt import Conversation, View, Window
from turncredit.agents.prompts.templates import PLAIN, REACT
from turncredit.agents.rollouts.rollout import rollout
from turncredit.engines.expert import Expert
from turncredit.engines.scripted import PlayerSampler, Random, Scripted
from turncredit.envs.toolenv import ToolEnv

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

    with pytest.raises(AgentError, match="names neither"):
        rollout(Agent(), Random(), ["open-3-1"], make=Silent)
    assert rollout(Agent(), Expert(), ["open-3-1"], make=Silent)[0].trajectories[0].won


def test_random_writes_words_that_it_read_into_forms_of_free_text() -> None:
    def make() -> ToolEnv[str, None]:
        def find(name: str, town: str) -> None:
            """Find a person."""

        return ToolEnv(
            "Ask for Ada.", start=lambda task: None, tools=[find], check=lambda world, answer: answer == "Ada"
        )

    (group,) = rollout(Agent(max_turns=4), Random(), ["task"], make=make, size=40)
    turns = [turn for trajectory in group.trajectories for turn in trajectory.turns]
    assert {trajectory.stop for trajectory in group.trajectories} == {"terminated", "turns"}
    forms = {re.sub(">[^<>]+<", ">...<", str(turn.action)) for turn in turns}
    assert forms == {"<find><name>...</name><town>...</town></find>", "<answer>...</answer>"}
    for turn in turns:
        words = re.findall(">([^<>]+)<", str(turn.action))
        assert all(word in group.trajectories[0].turns[0].observation + turn.observation for word in words)


def test_one_step_without_a_list_of_actions_ends_one_random_episode() -> None:
    class Forgetful(Corridor):
        def _info(self, *, valid: bool) -> dict[str, object]:
            info = super()._info(valid=valid)
            if self._task == "open-5-1" and self._room == 2:
                del info["admissible_actions"]
            return info

    groups = rollout(Agent(), Random(), [*TASKS, "open-5-1"], make=Forgetful, size=3)
    failed = [found for group in groups for found in group.trajectories if found.stop == "error"]
    assert failed
    assert {found.task for found in failed} == {"open-5-1"}
    assert "names none any more" in str(failed[0].error)


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
    code = "import sys, turncredit.agents; sys.exit('torch' in sys.modules or 'transformers' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
