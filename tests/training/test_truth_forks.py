"""The truth of stored episodes: histories, the file of forks, what is played, and what comes out."""

from __future__ import annotations

import functools
import json
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from toys.corridor import Corridor
from toys.decision_processes import PROCESSES
from toys.tokens import Bytes
from toys.wanderer import Parrot, Wanderer

from turncredit.agents.agent import Agent
from turncredit.agents.errors import FolderInUse, StoreError
from turncredit.agents.rollouts.rollout import rollout
from turncredit.agents.trajectory import Group
from turncredit.credit.truth import reliability
from turncredit.engines.scripted import Random
from turncredit.envs.spaces import Text
from turncredit.training.errors import TrainingError
from turncredit.training.truth.fork_records import ForkFile, ForkRecord, truth_file
from turncredit.training.truth.forking import ForkPlayer
from turncredit.training.truth.histories import Histories, history_keys
from turncredit.training.truth.measuring import TruthOptions, TruthTable, has_chance, measure, plan_forks

AGENT = Agent(max_turns=7)
TASKS = ["open-3-1", "fetch-3-1", "open-4-2"]


class Slippery(Corridor):
    """A corridor in which one step in three does something else."""

    def step(self, action: str) -> Any:
        listed = self._info(valid=True)["admissible_actions"]
        return super().step(action if self.np_random.random() < 0.67 or not listed else listed[0])


@functools.cache
def groups(make: Any = Corridor) -> list[Group]:
    return rollout(AGENT, Random(tokenizer=Bytes()), TASKS, make=make, size=4, seed=5)


def player(make: Any = Corridor, **options: Any) -> ForkPlayer:
    return ForkPlayer(AGENT, Random(tokenizer=Bytes()), make, **options)


def table(path: Path, chosen: list[Group] | None = None, *, chance: bool = False, who: str = "random") -> TruthTable:
    return TruthTable.of(groups() if chosen is None else chosen, ForkFile.open(path, {"player": who}), chance=chance)


def turns_of(chosen: list[Group]) -> int:
    return sum(len(trajectory.turns) for group in chosen for trajectory in group.finished)


# -- histories --


def test_equal_histories_are_one() -> None:
    histories = Histories(groups())
    assert len(histories.value_of) == turns_of(groups())
    first = {histories.value_of[row] for row, trajectory in zip(starts(groups()), histories.trajectories, strict=True)}
    assert len(first) == len(TASKS)  # members of a group begin alike
    prompts = {
        (trajectory.task, number, turn.prompt, turn.state)
        for trajectory in histories.trajectories
        for number, turn in enumerate(trajectory.turns)
    }
    assert len(histories) == len(prompts)


def starts(chosen: list[Group]) -> list[int]:
    sizes = [len(trajectory.turns) for group in chosen for trajectory in group.finished]
    return [0, *np.cumsum(sizes)[:-1].tolist()]


def test_a_history_is_prompt_state_and_turn() -> None:
    trajectory = max(groups()[0].trajectories, key=lambda member: len(member.turns))
    keys = history_keys(trajectory)
    assert len(set(keys)) == len(keys)
    assert history_keys(replace(trajectory, id="another")) == keys
    assert history_keys(replace(trajectory, seed=9))[0] != keys[0]
    turns = list(trajectory.turns)
    turns[1] = replace(turns[1], state="elsewhere")
    changed = history_keys(replace(trajectory, turns=tuple(turns)))
    assert [one == other for one, other in zip(changed, keys, strict=True)] == [at != 1 for at in range(len(keys))]
    without = [replace(turn, prompt=(), response=()) for turn in trajectory.turns]
    texts = history_keys(replace(trajectory, turns=tuple(without)))
    without[0] = replace(without[0], text="other words")
    assert history_keys(replace(trajectory, turns=tuple(without)))[1] != texts[1]


# -- the file --


def record(number: int = 0, history: str = "a") -> ForkRecord:
    return ForkRecord(history, number, 3, {2: 1.0}, (0,), 17)


def test_the_return_of_a_record_has_discount_and_penalty() -> None:
    assert record().value(0.5, 0.1) == pytest.approx(-0.1 + 0.25)
    assert ForkRecord.from_json(json.loads(record().to_json())) == record()


def test_a_file_is_read_again_and_goes_on_after_a_kill(tmp_path: Path) -> None:
    path = tmp_path / "forks.jsonl"
    file = ForkFile.open(path, {"player": "x"})
    for number in range(3):
        file.append(record(number))
    whole = path.read_bytes()
    path.write_bytes(whole[:-5])  # killed while it wrote the last one
    again = ForkFile.open(path, {"player": "x"})
    assert (len(again), again.next_number("a"), again.next_number("b")) == (2, 2, 0)
    again.append(record(2))
    assert path.read_bytes() == whole
    assert ForkFile.read(path).forks == again.forks
    with pytest.raises(StoreError, match=r"forks with player = 'x', and these would have 'y'"):
        ForkFile.open(path, {"player": "y"})
    path.write_bytes(whole.replace(b'"turns":3', b'"turns":1', 1))
    with pytest.raises(StoreError, match="not a fork"):
        ForkFile.read(path)
    path.write_bytes(b'{"version": 1}\n')
    with pytest.raises(StoreError, match="does not hold the forks"):
        ForkFile.read(path)
    with pytest.raises(StoreError, match="does not exist"):
        ForkFile.read(tmp_path / "none.jsonl")
    assert truth_file(tmp_path / "000003.jsonl.zst").name == "000003.truth.jsonl"


def test_two_commands_do_not_write_into_one_file(tmp_path: Path) -> None:
    path = tmp_path / "forks.jsonl"
    first, second = ForkFile.open(path, {}), ForkFile.open(path, {})
    with first.writing():
        first.append(record(0))
        with pytest.raises(FolderInUse, match="another process plays forks into"):
            second.append(record(1))
    second.append(record(1))  # and what the other has written since is there
    assert len(second) == len(ForkFile.read(path)) == 2
    with ForkFile.open(tmp_path / "none.jsonl", {}).writing():
        pass
    assert not (tmp_path / "none.jsonl").exists()


def test_forks_need_no_file(tmp_path: Path) -> None:
    kept = TruthTable.of(groups(), ForkFile.in_memory(), chance=False)
    measure(kept, player(), TruthOptions(forks=2))
    written = table(tmp_path / "forks.jsonl")
    measure(written, player(), TruthOptions(forks=2))
    assert kept.file.forks == written.file.forks


# -- playing --


def test_every_history_is_forked_once(tmp_path: Path) -> None:
    measured = table(tmp_path / "forks.jsonl")
    plan = plan_forks(measured, TruthOptions(forks=3))
    assert plan.missing == 3 * len(measured.histories)
    told: list[ForkRecord] = []
    measure(measured, player(), TruthOptions(forks=3), told.append)
    assert measured.counts().tolist() == [3] * len(measured.histories)
    assert len(told) == plan.missing
    assert sum(fork.turns for fork in told) == pytest.approx(plan.turns, rel=0.5)
    assert plan_forks(measured, TruthOptions(forks=3)).missing == 0
    truth = measured.estimate(0.9, 0.1)
    assert truth.known.all()
    assert np.isfinite(truth.halves).all()


def test_more_forks_refine_the_truth_with_those_that_are_there(tmp_path: Path) -> None:
    once, twice = table(tmp_path / "once.jsonl"), table(tmp_path / "twice.jsonl")
    measure(once, player(), TruthOptions(forks=6))
    measure(twice, player(), TruthOptions(forks=2))
    measure(table(tmp_path / "twice.jsonl"), player(), TruthOptions(forks=6))
    twice = table(tmp_path / "twice.jsonl")
    assert twice.file.forks == once.file.forks  # the same forks, played in any order


def test_ctrl_c_keeps_what_was_played(tmp_path: Path) -> None:
    measured, whole = table(tmp_path / "forks.jsonl"), table(tmp_path / "whole.jsonl")

    def stop(_: ForkRecord) -> None:
        if len(measured.file) == 20:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        measure(measured, player(), TruthOptions(forks=4), stop)
    again = table(tmp_path / "forks.jsonl")
    assert len(again.file) == 20
    measure(again, player(), TruthOptions(forks=4))
    measure(whole, player(), TruthOptions(forks=4))
    assert again.file.forks == whole.file.forks


@pytest.mark.parametrize("processes", [1, 2])
def test_processes_play_the_same_forks(tmp_path: Path, processes: int) -> None:
    one, several = table(tmp_path / "one.jsonl"), table(tmp_path / "several.jsonl")
    measure(one, player(), TruthOptions(forks=2))
    measure(several, player(processes=processes, concurrency=5), TruthOptions(forks=2))
    assert several.file.forks == one.file.forks


def test_the_truth_is_that_of_the_policy(tmp_path: Path) -> None:
    """In one corridor of known length, against the mean of many episodes from its start."""
    few = groups()[:1]
    measured = table(tmp_path / "forks.jsonl", few)
    measure(measured, player(), TruthOptions(forks=200))
    plain = rollout(AGENT, Random(tokenizer=Bytes()), TASKS[:1], make=Corridor, size=400, seed=77)
    returns = [sum(turn.reward * 0.9**at for at, turn in enumerate(member.turns)) for member in plain[0].trajectories]
    truth = measured.estimate(0.9, 0.0)
    error = np.std(returns) / 200**0.5
    assert truth.value[0] == pytest.approx(np.mean(returns), abs=4 * error + 1e-9)
    for row, trajectory in zip(starts(few), few[0].finished, strict=True):
        end = row + len(trajectory.turns)
        discounted = sum(turn.reward * 0.9**at for at, turn in enumerate(trajectory.turns))
        total = sum(advantage * 0.9**at for at, advantage in enumerate(truth.advantage[row:end]))
        assert truth.value[row] + total == pytest.approx(discounted)


def test_a_reliability_is_reached_with_forks_where_returns_vary(tmp_path: Path) -> None:
    measured = table(tmp_path / "forks.jsonl")
    options = TruthOptions(forks=64, reliability=0.7, gamma=0.9)
    measure(measured, player(), options)
    reached = reliability(measured.estimate(0.9, 0.0))
    assert reached is not None
    assert reached >= 0.7 or int(measured.counts().sum()) >= 64 * len(measured.histories) - 4
    counts = measured.counts()
    spreads = [np.std(measured.file.values(history.key, 0.9, 0.0)) for history in measured.histories.all]
    quiet = [number for number, spread in zip(counts.tolist(), spreads, strict=True) if spread == 0.0]
    assert max(quiet, default=4) < counts.max()


def test_histories_that_are_settled_get_no_more_forks_if_asked_for(tmp_path: Path) -> None:
    agent = Agent(max_turns=4)
    parrot = Parrot(["look", "take key", "go east", "look"], Bytes())
    chosen = rollout(agent, parrot, ["open-4-2"], make=Corridor, size=2)
    sure = TruthTable.of(chosen, ForkFile.open(tmp_path / "sure.jsonl", {}), chance=False)
    measure(sure, ForkPlayer(agent, parrot, Corridor), TruthOptions(forks=9, early=True))
    assert set(sure.counts().tolist()) == {4}
    measured = table(tmp_path / "forks.jsonl")
    options = TruthOptions(forks=9, early=True, gamma=0.9)
    measure(measured, player(), options)
    spreads = [np.std(measured.file.values(history.key, 0.9, 0.0)) for history in measured.histories.all]
    counts = measured.counts()
    assert all(count == 9 for count, spread in zip(counts, spreads, strict=True) if spread > 0)
    assert set(counts.tolist()) <= {4, 9}


def test_a_budget_lowers_the_forks_and_refuses_less_than_two(tmp_path: Path) -> None:
    measured = table(tmp_path / "forks.jsonl")
    whole = plan_forks(measured, TruthOptions(forks=16))
    half = plan_forks(measured, TruthOptions(forks=16, max_turns=whole.turns // 2))
    assert half.turns <= whole.turns // 2
    assert half.forks == 8
    with pytest.raises(TrainingError, match="two forks of"):
        plan_forks(measured, TruthOptions(forks=16, max_turns=10))


def test_chance_is_found_and_measured_with_repeated_actions(tmp_path: Path) -> None:
    assert not has_chance(groups(), player())
    slippery = groups(Slippery)
    assert has_chance(slippery, player(Slippery))
    measured = table(tmp_path / "forks.jsonl", slippery, chance=True)
    assert len(measured.histories) > len(Histories(slippery))
    measure(measured, player(Slippery, fresh=True), TruthOptions(forks=40))
    truth = measured.estimate(0.9, 0.0)
    assert truth.known.all()
    # The advantages of the actions that a random player chose in one state average to zero.
    means: dict[int, list[float]] = {}
    for history, advantage in zip(measured.histories.value_of, truth.advantage.tolist(), strict=True):
        means.setdefault(history, []).append(advantage)
    start = Counter(measured.histories.value_of).most_common(1)[0][0]
    assert abs(np.mean(means[start])) < 0.3


def test_episodes_that_cannot_be_forked_are_told(tmp_path: Path) -> None:
    class Forgetful(Corridor):
        metadata = {**Corridor.metadata, "no_forks": "it forgets"}  # noqa: RUF012

    with pytest.raises(TrainingError, match="it forgets"):
        has_chance(groups(), player(Forgetful))
    measured, who = table(tmp_path / "forks.jsonl"), player(Forgetful)
    with pytest.raises(TrainingError, match=r"no fork could be played: .*it forgets"):
        measure(measured, who, TruthOptions(forks=2))
    assert not (tmp_path / "forks.jsonl").exists()


def test_forks_of_forks_have_a_truth(tmp_path: Path) -> None:
    from turncredit.agents.rollouts.forks import Fork

    (parent, *_) = groups()[0].finished
    forked = rollout(AGENT, Wanderer(tokenizer=Bytes()), [Fork(parent, 1)], make=Corridor, size=3)
    measured = table(tmp_path / "forks.jsonl", [Group(parent.task, (parent, *forked[0].trajectories))])
    measure(measured, player(), TruthOptions(forks=2))
    assert measured.estimate(0.9, 0.0).known.all()


# -- closed forms, through environment, agent and forks --


class ProcessEnv(gymnasium.Env[str, str]):
    """A decision process as a text environment; what follows an action is drawn from the environment's generator."""

    def __init__(self, name: str) -> None:
        self.process = PROCESSES[name]()
        self.observation_space = self.action_space = Text(100)

    def task_ids(self, count: int | None = None) -> list[str]:
        return ["only"][:count]

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        super().reset(seed=seed)
        self.state: str | None = self.process.start
        return self._seen()

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        assert self.state is not None
        follows = self.process.transitions(self.state)[action]
        chances = [probability for probability, *_ in follows]
        _, reward, self.state = follows[int(self.np_random.choice(len(follows), p=chances))]
        observation, info = self._seen()
        return observation, reward, self.state is None, False, info

    def _seen(self) -> tuple[str, dict[str, Any]]:
        actions = [] if self.state is None else list(self.process.transitions(self.state))
        info = {"task": "only", "state": str(self.state), "admissible_actions": actions, "valid": True, "won": False}
        return f"state {self.state}", info | {"score": 0.0}


@pytest.mark.parametrize("name", PROCESSES)
def test_forks_in_an_environment_meet_the_closed_forms(name: str, tmp_path: Path) -> None:
    make_env = functools.partial(ProcessEnv, name)
    process, agent = PROCESSES[name](), Agent(max_turns=9)
    chosen = rollout(agent, Random(), ["only"], make=make_env, size=12)
    who = ForkPlayer(agent, Random(), make_env)
    who.fresh = has_chance(chosen, who)
    assert who.fresh == (name == "delayed")
    measured = TruthTable.of(chosen, ForkFile.in_memory(), chance=who.fresh)
    measure(measured, who, TruthOptions(forks=120))
    truth = measured.estimate(1.0, 0.0)
    turns = [turn for trajectory in measured.histories.trajectories for turn in trajectory.turns]
    exact = np.asarray([process.advantage(turn.state, str(turn.action)) for turn in turns])
    values = np.asarray([process.value(turn.state) for turn in turns])
    off = np.abs(truth.advantage - exact) / np.maximum(truth.error, 1e-9)
    assert np.abs(truth.value - values).max() < 0.2 * truth.span
    assert (off[np.abs(truth.advantage - exact) > 1e-9] < 4.5).all()
    assert np.sqrt(((truth.advantage - exact) ** 2).mean()) < 0.15 * truth.span
