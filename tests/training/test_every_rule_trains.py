"""Every credit rule is trained for one iteration, with the columns that it needs from the environment."""

import itertools
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
import toys.corridor
from test_training_loop import lines, make_run, weights

import turncredit.training.play.rollouts as rollouts_module
from turncredit.agents.rollouts.rollout import rollout
from turncredit.agents.steps import COLUMNS, steps_of
from turncredit.credit import rules
from turncredit.envs import register
from turncredit.training import ConfigError, Run, train
from turncredit.training.assign.credit_by_part import credit_by_part
from turncredit.training.assign.hindsight import COLUMN as HINDSIGHT
from turncredit.training.parts import prepare

torch.set_num_threads(1)
ENV = "toys/Reporting-v0"
ROLES = ("main", "helper")


class Reporting(toys.corridor.Corridor):
    """The corridor, which reports whatever a credit rule may ask for; `without` leaves columns out."""

    serial = itertools.count()

    def __init__(self, without: tuple[str, ...] = (), only_at_reset: bool = False, **options: Any) -> None:
        super().__init__(**options)
        self.without, self.only_at_reset = set(without), only_at_reset

    def reset(self, **options: Any) -> tuple[str, dict[str, Any]]:
        text, info = super().reset(**options)
        self._turns, self._episode = 0, next(self.serial)
        return text, info | {"extras": self._extras(self._columns(0.0, True))}

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        text, reward, terminated, truncated, info = super().step(action)
        self._turns += 1
        columns = {} if self.only_at_reset else self._extras(self._columns(reward, info["valid"]))
        return text, reward, terminated, truncated, info | {"extras": columns}

    def _columns(self, reward: float, valid: bool) -> dict[str, Any]:
        return {
            "role": ROLES[self._turns % 2],
            "value": self._room / self._length,
            "metric": float(self._room),
            "multi": (reward, float(valid)),
            "tree": self._task,
            "parent": f"{self._episode}/{self._turns}",
            "forked": 0.0,
            "source": 0.0,
            "label": f"answer {self._episode % 2}",
        }

    def _extras(self, extras: dict[str, Any]) -> dict[str, Any]:
        return {name: value for name, value in extras.items() if name not in self.without}


register(ENV, f"{__name__}:Reporting")
OVERRIDES = (f'env.id="{ENV}"', "evaluation.episodes=0", "train.groups=3", "train.group_size=4", 'trajectory_format=""')


@pytest.fixture(scope="module")
def policy(tmp_path_factory):
    """A policy after a short warm start, so that every rule begins with the same one."""
    folder = tmp_path_factory.mktemp("policy")
    train(make_run(folder, *OVERRIDES, "train.iterations=0"))
    return folder / "checkpoints" / "000000"


def run_of(folder, policy, *overrides) -> Run:
    table = make_run(folder).model_dump(exclude_unset=True)
    table |= {"policy": {"model": str(policy), "context": 400}, "imitation": {}}
    return Run.parse(table, [*OVERRIDES, "train.iterations=1", *overrides])


@pytest.fixture(scope="module")
def play_once():
    """Rollouts that are played once for each name; every rule begins with the same policy, and so gets the same."""
    played = {}

    def replay(name, agent, sampler, tasks, *, on_finish, report, **options):
        key = (name, tuple(tasks))
        if key not in played:
            played[key] = rollout(agent, sampler, tasks, on_finish=on_finish, report=report, **options)
        else:
            for trajectory in itertools.chain(*(group.trajectories for group in played[key])):
                report.count(trajectory)
                on_finish(trajectory)
        return played[key]

    return replay


@pytest.mark.parametrize("name", rules())
def test_every_rule_is_trained_for_one_iteration(tmp_path, policy, play_once, monkeypatch, name):
    unused = ["parent"] if name == "himac" else []  # himac expects one parent per trajectory, arpo_hard one per turn
    monkeypatch.setattr(rollouts_module, "rollout", partial(play_once, str(unused)))
    train(run_of(tmp_path, policy, f"credit.method={name}", f"env.kwargs.without={unused}"))
    (event,) = [event for event in lines(tmp_path) if event["phase"] == "train"]
    assert event["episodes"] == 12
    assert event["updates"] + event["without_signal"] == 2
    assert np.isfinite(event["loss"])
    if event["updates"]:
        before, after = weights(tmp_path, 0), weights(tmp_path, 1)
        assert any(not torch.equal(before[key], after[key]) for key in before)


NEEDING = {name: [one for one in rule.needs if one not in (*COLUMNS, HINDSIGHT)] for name, rule in rules().items()}


@pytest.mark.parametrize("name", [name for name, needs in NEEDING.items() if needs])
def test_a_rule_whose_column_is_missing_is_refused_before_any_work(tmp_path, policy, name):
    column = NEEDING[name][0]
    run = run_of(tmp_path, policy, f"credit.method={name}", f"env.kwargs.without=['{column}']")
    with pytest.raises(ConfigError, match=rf"credit.method '{name}' needs .*'{column}'.* does not provide"):
        prepare(run)


def test_extras_of_a_reset_are_the_defaults_of_every_turn(tmp_path, policy):
    train(run_of(tmp_path, policy, "credit.method=tree_grpo", "env.kwargs.only_at_reset=true"))
    (event,) = [event for event in lines(tmp_path) if event["phase"] == "train"]
    assert event["episodes"] == 12


def test_columns_that_only_some_turns_have_are_refused_by_name():
    from dataclasses import replace

    from toys.training_helpers import trajectory, turn

    from turncredit.agents.errors import StepsError
    from turncredit.agents.trajectory import Group

    first, others = turn([1], [2]), [turn([1], [2]) for _ in range(3)]
    with_role = trajectory([replace(first, extras={"role": "main"}), others[0]])
    without = replace(trajectory(others[1:]), id="other")
    with pytest.raises(StepsError, match="3 of 4 turns lack the extra column 'role'"):
        steps_of([Group(with_role.task, (with_role, without))])
    with pytest.raises(StepsError, match="must not contain 'reward'"):
        steps_of([Group(with_role.task, (trajectory([replace(first, extras={"reward": 1.0})]),))])


class Ending(Reporting):
    """The corridor, which ends by itself at its first action where the key lies in an odd room."""

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        text, reward, terminated, truncated, info = super().step(action)
        self._over = terminated or int(self._task[-1]) % 2 == 1
        return text, reward, self._over, truncated, info


register("toys/Ending-v0", f"{__name__}:Ending")


def test_an_episode_that_a_limit_ended_bootstraps_in_a_run(tmp_path, policy, monkeypatch):
    """gamma = 1/2, lam = 0: A = r + V' / 2 - V, and V' after the last turn is its own V where the episode was cut."""
    seen = []

    def recorded(rule, steps, parts, **options):
        seen.append((steps, credit_by_part(rule, steps, parts, **options)))
        return seen[-1][1]

    monkeypatch.setattr("turncredit.training.assign.credit_assignment.credit_by_part", recorded)
    options = "credit.options={bootstrap='last', gamma=0.5, lam=0.0, invalid_penalty=0.0}"
    train(run_of(tmp_path, policy, "credit.method=gae", options, 'env.id="toys/Ending-v0"', "agent.max_turns=4"))
    ((steps, result),) = seen
    names, value = steps.ids("trajectory"), steps.column("value")
    acted = {name for name, action in zip(names, steps.ids("action"), strict=True) if action is not None}
    odd = {name for name, task in zip(names, steps.ids("task"), strict=True) if int(task[-1]) % 2}
    won = {name for name, reward in zip(names, steps.reward, strict=True) if reward}
    whole = (acted & odd) | won
    assert whole
    assert set(names) - whole
    for row, (name, turn) in enumerate(zip(names.tolist(), steps.turn.tolist(), strict=True)):
        cut = name not in whole
        following = (names == name) & (steps.turn == turn + 1)
        after = float(value[following][0]) if following.any() else cut * value[row]
        assert result.values[row] == pytest.approx(steps.reward[row] + 0.5 * after - value[row])
        assert bool(steps.column("unfinished")[row]) == cut
