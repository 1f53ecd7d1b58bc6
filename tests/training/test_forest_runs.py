"""Runs that train on forests, and what cannot be forked."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from test_training_loop import lines, make_run, weights
from toys.corridor import Corridor
from toys.forests import RULES

from turncredit.agents.files.trajectory_files import read_trajectories
from turncredit.agents.rollouts.env_pool import EnvPool
from turncredit.agents.trajectory import Group, grouped
from turncredit.credit import Advantages, BadOption
from turncredit.training import ConfigError, Run, load_agent, train
from turncredit.training.assign.credit_assignment import CreditAssignment
from turncredit.training.audit import audit
from turncredit.training.parts import prepare
from turncredit.training.sampling.expert_replay import ExpertReplay


@pytest.fixture(scope="module")
def policy(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A policy after a warm start, so that some episodes are won."""
    folder = tmp_path_factory.mktemp("policy")
    train(
        make_run(folder, "train.iterations=0", "evaluation.episodes=0", "imitation.episodes=30", "imitation.epochs=12")
    )
    return folder / "checkpoints" / "000000"


def run_of(folder: Any, policy: Any, *overrides: str) -> Run:
    table = make_run(folder).model_dump(exclude_unset=True)
    table |= {"policy": {"model": str(policy), "context": 400}, "imitation": {}}
    return Run.parse(
        table,
        ["evaluation.episodes=0", "train.iterations=2", "train.group_size=6", "checkpoints.every=1", *overrides],
    )


METHODS = ["tree_grpo", "tempo", "arpo_hard", "bpo"]


@pytest.mark.parametrize(("where", "method"), list(zip(RULES, METHODS, strict=True)))
def test_a_run_trains_on_forests(tmp_path: Any, policy: Any, where: str, method: str) -> None:
    options = ['credit.options.key="parent"'] if method in ("tempo", "arpo_hard", "bpo") else []
    train(run_of(tmp_path, policy, f"credit.method={method}", f"train.forks={{where='{where}',roots=2}}", *options))
    events = [event for event in lines(tmp_path) if event["phase"] == "train"]
    for number, event in enumerate(events, start=1):
        stored = list(read_trajectories(tmp_path / "trajectories" / f"{number:06d}.jsonl"))
        assert event["episodes"] == len(stored) == 12
        assert event["errors"] == 0
        assert event["forks"] == sum(episode.fork_of is not None for episode in stored)
        assert event["sampled_turns"] == sum(len(episode.sampled) for episode in stored)
        assert np.isfinite(event["loss"])
    checks = {check.name: check for check in audit(tmp_path).checks}
    assert not [check.problems for check in checks.values() if check.count]
    assert checks["forks"].checked == checks["metrics"].checked == 2
    assert any(event["forks"] for event in events)
    assert any(not np.array_equal(weights(tmp_path, 0)[key], weights(tmp_path, 2)[key]) for key in weights(tmp_path, 0))


def test_a_run_forks_where_the_expert_could_still_win(tmp_path: Any, policy: Any) -> None:
    train(run_of(tmp_path, policy, "credit.method=bpo", "train.forks={where={name='failed',by='expert'},roots=2}"))
    stored = [
        episode for number in (1, 2) for episode in read_trajectories(tmp_path / "trajectories" / f"{number:06d}.jsonl")
    ]
    forks = [episode for episode in stored if episode.fork_of is not None]
    by_id, pool = {episode.id: episode for episode in stored}, EnvPool(Corridor)
    with load_agent(tmp_path) as player:
        expert = ExpertReplay(player.agent, player.sampler, pool)
        for fork in forks:
            parent, at = by_id[str(fork.fork_of)], fork.fork_turn or 0
            assert not parent.won
            assert expert(parent, at)
    pool.close()
    assert forks
    assert not [check.problems for check in audit(tmp_path).checks if check.count]


def test_a_run_without_an_expert_to_ask_is_refused(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    run = make_run(tmp_path, "train.forks={where={name='failed',by='expert'},roots=2}")
    prepare(run)
    monkeypatch.setattr(Corridor, "plan", property())
    with pytest.raises(ConfigError, match=r'by = "expert" asks the expert of the environment, and .*Corridor'):
        prepare(run)


class NaiveTree:
    """The tree of a group, from nothing but where its episodes were forked."""

    def __init__(self, group: Group) -> None:
        self.episodes = {member.id: member for member in group.finished}
        self.score = {name: sum(turn.reward for turn in episode.turns) for name, episode in self.episodes.items()}
        self.centred = {name: score - np.mean(list(self.score.values())) for name, score in self.score.items()}

    def owner(self, name: str, number: int) -> str:
        """The episode that sampled a turn; for number -1 the one that the tree began with."""
        episode = self.episodes[name]
        return (
            name
            if episode.fork_of is None or number >= (episode.fork_turn or 0)
            else self.owner(episode.fork_of, number)
        )

    def sharers(self, name: str, number: int) -> list[str]:
        """The episodes with a turn in common."""
        owner = self.owner(name, number)
        long = [other for other, episode in self.episodes.items() if number < len(episode.turns)]
        return [other for other in long if self.owner(other, number) == owner]

    def mean(self, name: str, number: int) -> float:
        return float(np.mean([self.centred[other] for other in self.sharers(name, number)]))

    def value(self, name: str, number: int) -> float:
        """The mean of the values below the end of a turn, from branch to branch; at a leaf the outcome."""
        if len(self.sharers(name, number)) == 1:
            return self.score[name]
        below = {self.owner(other, number + 1): other for other in self.sharers(name, number)}
        return float(np.mean([self.value(other, number + 1) for other in below.values()]))

    def advantage(self, method: str, name: str, number: int) -> float:
        if method == "tempo":
            return self.centred[name] + self.mean(name, number) - self.mean(name, number - 1)
        if method == "spo_segment":
            return self.value(name, number) - self.value(name, number - 1)
        return self.centred[name] if method == "arpo_soft" else self.mean(name, number)


@pytest.mark.parametrize(
    ("method", "options", "shared"),
    [
        ("tempo", "key='parent',scale='none'", "first"),
        ("spo_segment", "mode='tree',drop_zero=false", "each"),
        ("arpo_soft", "scale='none'", "each"),
        ("arpo_hard", "scale='none'", "first"),
    ],
)
def test_rules_of_trees_get_the_trees_of_a_run(
    tmp_path: Any, policy: Any, monkeypatch: pytest.MonkeyPatch, method: str, options: str, shared: str
) -> None:
    """The advantages that a run trains on are those of the tree that its stored episodes say."""
    given: list[Advantages] = []
    assign = CreditAssignment.advantages

    def advantages(self: CreditAssignment, *arguments: Any) -> Advantages:
        given.append(assign(self, *arguments))
        return given[-1]

    monkeypatch.setattr(CreditAssignment, "advantages", advantages)
    credit = f"credit={{method='{method}',options={{invalid_penalty=0.0,{options}}}}}"
    train(run_of(tmp_path, policy, credit, f"train.forks={{where='uniform',roots=2,shared='{shared}'}}"))
    branching = varied = 0
    for number, steps_of_run in enumerate(given, start=1):
        groups = grouped(read_trajectories(tmp_path / "trajectories" / f"{number:06d}.jsonl"))
        rows = dict(
            zip(
                zip(steps_of_run.trajectory, steps_of_run.turn.tolist(), strict=True),
                steps_of_run.values.tolist(),
                strict=True,
            )
        )
        for group in groups:
            tree = NaiveTree(group)
            for name, episode in tree.episodes.items():
                for turn_number in range(len(episode.turns)):
                    expected = tree.advantage(method, name, turn_number)
                    assert rows.pop((name, turn_number)) == pytest.approx(expected, abs=1e-9), (name, turn_number)
                    branching += len(tree.sharers(name, turn_number)) > 1
                varied += (
                    len({round(tree.advantage(method, name, index), 9) for index in range(len(episode.turns))}) > 1
                )
        assert not rows
    assert len(given) == 2
    assert branching
    assert bool(varied) is (method != "arpo_soft")  # some episodes get credit that depends on the turn


@pytest.mark.parametrize("options", ["{}", '{at="entropy",share=0.3,between="first"}'])
def test_a_run_with_values_by_forks(tmp_path: Any, policy: Any, options: str) -> None:
    values = ("train.forks.values=2", f"credit.options={options}")
    train(run_of(tmp_path, policy, "credit.method=vine", "train.group_size=2", *values))
    events = [event for event in lines(tmp_path) if event["phase"] == "train"]
    for event in events:
        assert event["value_forks"] >= 4
        assert event["value_tokens"] > event["value_turns"] > 0
        assert "forks" not in event
        assert np.isfinite(event["loss"])


def test_a_resumed_run_chooses_the_same_forks(tmp_path: Any, policy: Any) -> None:
    overrides = ("credit.method=bpo", "train.forks={where='entropy',roots=2}")
    train(run_of(tmp_path / "whole", policy, *overrides))

    def stop(event: dict[str, Any]) -> None:
        """In the second iteration, after the roots and some forks."""
        trained.append(event["phase"] == "train")
        if any(trained) and event.get("what") == "rollout" and event.get("done", 0) >= 9:
            raise InterruptedError

    trained: list[bool] = []
    with pytest.raises(InterruptedError):
        train(run_of(tmp_path / "halves", policy, *overrides), on_event=stop)
    assert train(run_of(tmp_path / "halves", policy, *overrides), resume=True).finished
    for number in (1, 2):
        one, other = (
            sorted(read_trajectories(tmp_path / name / "trajectories" / f"{number:06d}.jsonl"), key=lambda one: one.id)
            for name in ("whole", "halves")
        )
        assert [(member.id, member.turns) for member in one] == [(member.id, member.turns) for member in other]
    one, other = weights(tmp_path / "whole", 2), weights(tmp_path / "halves", 2)
    assert all(np.array_equal(one[key], other[key]) for key in one)


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["train.forks=entropie"], "entropie.*did you mean.*entropy"),
        (["train.forks={where={name='entropy', letters=3}}"], "no option 'letters'"),
        (["train.forks={where='uniform', roots=3}"], "roots = 3 of train.group_size = 3"),
        (["train.forks=uniform", "train.group_size=1"], "group_size = 1 episodes leave no fork"),
        (["train.forks.roots=2"], "train.forks.roots has no effect: train.forks.where is empty"),
        (["credit.method=bpo"], "'bpo' needs 'parent'"),
        (["credit.method=tempo", "credit.options.key=parent"], "'tempo' needs 'parent'"),
        (["credit.method=spo_segment", "train.forks={where='uniform'}"], "'spo_segment' needs 'value'"),
        (["credit.method=vine"], "'vine' needs 'value'"),
    ],
)
def test_what_cannot_be_forked_is_said_in_advance(tmp_path: Any, overrides: list[str], message: str) -> None:
    with pytest.raises((ConfigError, BadOption), match=message):
        prepare(make_run(tmp_path, *overrides))
