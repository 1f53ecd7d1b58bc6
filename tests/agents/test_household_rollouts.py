"""The agent loop on the household games, with the expert, a searching demonstrator and a small model."""

from __future__ import annotations

import dataclasses
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from turncredit.agents.agent import Agent
from turncredit.agents.demonstrations.tokens import tokenize_trajectory
from turncredit.agents.files.trajectory_files import TrajectoryWriter, read_trajectories
from turncredit.agents.prompts.prompt import Conversation, Window
from turncredit.agents.prompts.templates import PLAIN, REACT, Template
from turncredit.agents.rollouts.rollout import RolloutReport, rollout
from turncredit.agents.trajectory import Trajectory, grouped
from turncredit.engines.expert import Expert
from turncredit.engines.scripted import DemonstratorSampler, Random
from turncredit.envs import make
from turncredit.envs.errors import EnvError
from turncredit.envs.household.engine import World
from turncredit.envs.household.env import HouseholdEnv
from turncredit.envs.household.expert import plan
from turncredit.envs.household.searching_demonstrator import SearchingDemonstrator
from turncredit.evaluation.comparison import compare
from turncredit.evaluation.evaluation import evaluate
from turncredit.evaluation.panels import Panel

HOUSE = partial(make, "turncredit/Household-v0", level="tiny")


@pytest.fixture(scope="module")
def tasks() -> list[str]:
    env = HOUSE()
    return list(env.get_wrapper_attr("task_ids")(12))


def test_the_expert_wins_and_random_does_not(tasks: list[str]) -> None:
    panel = Panel("turncredit/Household-v0", tuple(tasks), {"level": "tiny"})
    expert = evaluate(Agent(), Expert(), panel, HOUSE)
    random = evaluate(Agent(max_turns=10), Random(), panel, HOUSE)
    assert expert.summary().success.k == len(tasks)
    assert set(expert.summary().by_type) == {row.task_type for row in expert.rows}
    assert "beyond the noise" in compare(random, expert).verdict


def test_a_noisy_expert_still_wins_and_only_plays_what_is_admissible(tasks: list[str]) -> None:
    report = RolloutReport()
    groups = rollout(Agent(), Expert(0.3), tasks, make=HOUSE, size=2, report=report)
    assert all(found.won for group in groups for found in group.trajectories)
    assert (report.inadmissible, report.unparsable, report.errors) == (0, 0, 0)


def test_a_demonstrator_of_the_environment_plays(tasks: list[str]) -> None:
    groups = rollout(Agent(), DemonstratorSampler(SearchingDemonstrator), tasks, make=HOUSE)
    assert sum(found.won for group in groups for found in group.trajectories) >= len(tasks) - 2


def timeless(found: Trajectory) -> Trajectory:
    return dataclasses.replace(found, seconds=0.0)


@pytest.mark.parametrize(
    "agent",
    [
        Agent(Conversation(PLAIN), max_turns=4, max_tokens=6),
        Agent(Window(PLAIN, 1), max_turns=3, max_tokens=6, temperature=0.7),
        Agent(Conversation(Template(ask=REACT.ask, listing=REACT.listing)), "think-action", max_turns=2, max_tokens=6),
    ],
)
def test_a_model_plays_and_a_repeated_rollout_gives_the_same_bits(
    agent: Agent, tasks: list[str], tmp_path: Path
) -> None:
    torch = pytest.importorskip("torch")
    from turncredit.engines.transformers.sampler import TransformersSampler
    from turncredit.training.learner.policy import build_policy

    torch.set_num_threads(1)
    texts = [turn for task in tasks[:2] for turn in (HOUSE().reset(seed=0, options={"task": task})[0],)]
    model, tokenizer = build_policy(texts, vocab=300, hidden=16, layers=1, heads=2, context=1200, seed=0)

    def run(path: Path) -> list[Trajectory]:
        sampler = TransformersSampler(model, tokenizer, concurrency=8)
        with TrajectoryWriter(path) as writer:
            groups = rollout(
                agent, sampler, tasks[:3], make=HOUSE, size=2, seed=4, concurrency=3, on_finish=writer.write
            )
        sampler.close()
        return [timeless(found) for group in groups for found in group.trajectories]

    first, second = run(tmp_path / "a.jsonl"), run(tmp_path / "b.jsonl.gz")
    assert first == second
    stored = [found for group in grouped(read_trajectories(tmp_path / "a.jsonl")) for found in group.trajectories]
    assert sorted(map(timeless, stored), key=lambda t: t.id) == sorted(first, key=lambda t: t.id)
    for found in first:
        for before, after in zip(found.turns, found.turns[1:], strict=False):
            extends = after.prompt[: len(before.prompt + before.response)] == before.prompt + before.response
            assert extends == isinstance(agent.prompt, Conversation)
        for turn in found.turns:
            assert len(turn.logprobs) == len(turn.response) <= 6
            assert tokenizer.decode([i for i in turn.response if i != tokenizer.eos_token_id]) == turn.text


def test_demonstrations_get_the_ids_that_the_model_will_see(tasks: list[str]) -> None:
    pytest.importorskip("torch")
    from turncredit.training.learner.policy import build_policy

    agent = Agent()
    bare = rollout(agent, Expert(), tasks[:3], make=HOUSE)
    texts = [turn.observation for group in bare for turn in group.trajectories[0].turns]
    _, tokenizer = build_policy(texts, vocab=300, hidden=16, layers=1, heads=2, context=512, seed=0)
    played = rollout(agent, Expert(tokenizer=tokenizer), tasks[:3], make=HOUSE)
    for a, b in zip(bare, played, strict=True):
        assert tokenize_trajectory(a.trajectories[0], agent, tokenizer).turns == b.trajectories[0].turns


def dead_end(world: World) -> list[str] | None:
    """Return commands after which the household's expert finds no way; None if taking a toy or a roll leads to none."""
    for place in [command for command in world.admissible() if command.startswith("go to ")]:
        there = world.clone()
        commands = [place]
        there.step(place)
        for command in there.admissible():
            if command.startswith("open "):
                there.step(command)
                commands.append(command)
        for command in there.admissible():
            if command.startswith(("take teddybear", "take papertowelroll")):
                there.step(command)
                try:
                    plan(there)
                except EnvError:
                    return [*commands, command]
    return None


def test_the_expert_plays_on_in_a_dead_end_of_an_original_game(
    data_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TURNCREDIT_CACHE", str(tmp_path))
    stuck = 0

    class Stuck(HouseholdEnv):
        """Starts in a dead end where there is one."""

        def reset(self, **options: Any) -> tuple[str, dict[str, Any]]:
            nonlocal stuck
            observation, info = super().reset(**options)
            commands = dead_end(self._playing().clone()) or []
            for command in commands:
                observation, *_, info = self.step(command)
            stuck += bool(commands)
            return observation, info

    games = data_dir / "alfworld" / "games.jsonl.xz"
    tasks = [task for task in HouseholdEnv(games, split="valid_unseen").task_ids() if "TeddyBear" not in task][::15]
    sampler = Expert()
    groups = rollout(Agent(max_turns=6), sampler, tasks, make=lambda: Stuck(games, split="valid_unseen"))
    assert len({name for name, turn in sampler.guesses if turn == 0}) == stuck > 0
    assert all(group.trajectories[0].stop in ("terminated", "turns") for group in groups)
    assert all(turn.valid for group in groups for turn in group.trajectories[0].turns)
