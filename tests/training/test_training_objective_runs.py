"""Objectives in runs: what a run's file says of them, and what a loop does with references, corrections and targets."""

import json

import numpy as np
import pytest
import torch
from test_training_loop import assert_same_weights, lines, make_run, weights
from toys.training_helpers import play

from turncredit.agents.steps import steps_of
from turncredit.training import ConfigError, Run, train
from turncredit.training.batch.batch import pack, turn_divergence
from turncredit.training.objectives import Objective, kl, objectives
from turncredit.training.parts import prepare

torch.set_num_threads(1)
SHORT = ("train.iterations=2", "checkpoints.every=1", "checkpoints.keep=3", "evaluation.episodes=0")
STEERED = (
    *SHORT,
    "objective.name=gspo_token",
    'objective.sequence="turn"',
    "objective.options={clip_low=0.1, clip_high=0.1}",
    'objective.old_logprobs="recomputed"',
    'objective.correction={name = "icepop", high = 3.0}',
    "objective.llds=0.1",
    "objective.kl=0.01",
    'objective.kl.where="reward"',
    "objective.kl.estimator=k1",
    "objective.kl.target=0.001",
    "objective.kl.horizon=10",
    "objective.entropy.target=9.0",
    "objective.entropy.step=0.002",
)


def _trained(folder):
    return [event for event in lines(folder) if event["phase"] == "train"]


def test_everything_at_once_is_done_and_resumes_to_the_same_weights(tmp_path):
    train(make_run(tmp_path / "whole", *STEERED))
    train(make_run(tmp_path / "parts", *STEERED, "train.iterations=1"))
    train(make_run(tmp_path / "parts", *STEERED), resume=True)
    assert_same_weights(weights(tmp_path / "whole", 2), weights(tmp_path / "parts", 2))
    events = _trained(tmp_path / "whole")
    assert [sorted({"kl", "llds", "correction", "mismatch", "entropy"} - event.keys()) for event in events] == [[], []]
    assert all(event["correction"] == pytest.approx(1.0, abs=1e-3) for event in events)  # one engine, one policy
    assert all(event["mismatch"] < 1e-4 for event in events)
    state = json.loads((tmp_path / "whole/checkpoints/000002/state.json").read_text())
    moved = state["coefficients"]
    assert moved["entropy"] == pytest.approx(0.004)
    assert moved["kl"] != 0.01
    assert (tmp_path / "whole/reference").is_dir()


def test_the_divergence_in_the_reward_changes_what_is_learned(tmp_path):
    """At the second iteration, that is; at the first the policy is the reference."""
    plain = make_run(tmp_path / "plain", *SHORT)
    held = make_run(
        tmp_path / "held", *SHORT, "objective.kl=50.0", 'objective.kl.where="reward"', "objective.kl.estimator=k1"
    )
    for run in (plain, held):
        train(run)
    assert_same_weights(weights(tmp_path / "plain", 0), weights(tmp_path / "held", 0))
    with pytest.raises(AssertionError):
        assert_same_weights(weights(tmp_path / "plain", 2), weights(tmp_path / "held", 2))


@pytest.mark.parametrize(
    "name", ["gspo", "hapo", "kl_cov", "dcpo", "asymre", "decoupled", "a_lol", "disco", "ter", "ampo"]
)
def test_a_run_takes_an_objective_by_name(tmp_path, name):
    more = ['objective.old_logprobs="recomputed"'] if name == "decoupled" else []
    run = make_run(tmp_path / "run", *SHORT, "train.iterations=1", f"objective.name={name}", *more)
    train(run)
    (event,) = _trained(tmp_path / "run")
    assert event["updates"] >= 1
    assert np.isfinite(event["loss"])
    stored = Run.load(tmp_path / "run/run.toml")
    assert stored.objective.name == name
    assert "clip_low" not in stored.objective.model_fields_set


def _objective(*overrides):
    prepared = prepare(make_run("nowhere", *overrides))
    return prepared.objective, prepared.coefficients


def test_the_keys_of_the_section_are_what_they_say():
    objective, control = _objective()
    assert objective == Objective()
    assert (objective.mode, objective.together) == ("token-mean", "token")
    assert control.first() == {"kl": 0.0, "entropy": 0.0}
    objective, _ = _objective("objective.options={clip_high=0.4, dual_clip=3.0}", "objective.aggregation=turn-mean")
    assert objective.options == {"clip_high": 0.4, "dual_clip": 3.0}
    assert objective.mode == "turn-mean"
    objective, _ = _objective("objective.name=gspo")
    assert (dict(objective.options), objective.mode, objective.together) == ({}, "seq-mean-token-mean", "sequence")
    objective, _ = _objective("objective.name=gspo", "objective.sequence=turn", "objective.options.clip_low=0.01")
    assert (objective.options, objective.together) == ({"clip_low": 0.01}, "turn")
    objective, control = _objective("objective.kl=0.1", "objective.kl.where=reward", "objective.kl.estimator=k1")
    assert (objective.kl, objective.needs_reference) == (0.0, False)
    assert control.kl_in_reward
    assert control.first() == {"kl": 0.1, "entropy": 0.0}
    objective, control = _objective("objective.kl=0.1", "objective.kl.target=0.05", "objective.kl.corrected=true")
    assert (objective.kl, objective.kl_corrected, objective.needs_reference) == (0.1, True, True)
    assert not control.kl_in_reward
    assert control.after({"kl": 0.1, "entropy": 0.0}, {"kl": 0.5}, 1000)["kl"] == pytest.approx(0.102)
    objective, _ = _objective(
        "objective.name=gmpo", "objective.aggregation=token-sum-norm", "objective.aggregation.norm=50.0"
    )
    assert objective.norm == 50.0


@pytest.mark.parametrize("name", objectives())
def test_every_objective_can_be_chosen(name):
    overrides = [f"objective.name={name}", 'objective.old_logprobs="recomputed"']
    assert _objective(*overrides)[0].name == name


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["objective.name=gpso"], "unknown objective 'gpso'; did you mean 'gspo'"),
        (["objective.name=gspo", "objective.options={clip_hig=0.1}"], "gspo has no option 'clip_hig'.*'clip_high'"),
        (["objective.options={clip_high=true}"], "'clip_high' must be a finite number, got True"),
        (["objective.name=reinforce", "objective.options.clip_high=0.1"], "reinforce has no option 'clip_high'"),
        (["objective.name=icepop"], 'is not an objective but a correction; set objective.correction = "icepop"'),
        (["objective.name=no_such_module:rule"], "cannot be loaded: ModuleNotFoundError"),
        (["objective.name=math:pi"], "must be an ObjectiveInfo"),
        (["objective.sequence=turn"], "objective.sequence has no effect"),
        (["objective.options.dual_clip=0.5"], "dual_clip .* above 1"),
        (["objective.correction=icepop"], 'set objective.old_logprobs to "recomputed"'),
        (["objective.name=rover"], "'rover' compares whole distributions.*set objective.old_logprobs to .recomputed"),
        (["objective.name=decoupled"], "'decoupled' compares.*set objective.old_logprobs to .recomputed"),
        (
            ["objective.correction=icpop", 'objective.old_logprobs="recomputed"'],
            "'icpop'; did you mean 'icepop'",
        ),
        (
            ['objective.correction={name="icepop", hi=1.0}', 'objective.old_logprobs="recomputed"'],
            "objective.correction has no option 'hi'",
        ),
        (
            ['objective.correction={name="icepop", low=9.0}', 'objective.old_logprobs="recomputed"'],
            "0 <= low <= high",
        ),
        (["objective.correction={low=0.1}"], "objective.correction must be a name or a table with a name"),
        (["objective.kl.target=0.1"], "objective.kl.target has no effect"),
        (["objective.kl=0.1", "objective.kl.horizon=9.0"], "objective.kl.horizon has no effect"),
        (
            [
                "objective.kl=0.1",
                "objective.kl.where=reward",
                "objective.kl.estimator=k1",
                "objective.kl.corrected=true",
            ],
            r"kl\.corrected has no effect",
        ),
        (
            ["objective.kl=0.1", "objective.kl.where=reward", "objective.kl.estimator=k4"],
            "unknown objective.kl.estimator 'k4'",
        ),
        (["objective.kl=0.1", "objective.kl.estimator=k4"], "unknown objective.kl.estimator 'k4'"),
        (["objective.entropy.target=0.1"], "objective.entropy.target has no effect"),
        (["objective.entropy.step=0.1"], "objective.entropy.step has no effect"),
        (["objective.aggregation.norm=9.0"], "objective.aggregation.norm has no effect"),
    ],
)
def test_what_cannot_be_is_said_before_anything_is_played(overrides, message):
    with pytest.raises(ConfigError, match=message):
        _objective(*overrides)


def test_the_divergence_of_a_turn_is_that_of_its_tokens():
    rng = np.random.default_rng(0)
    groups = play(rng, groups=2, size=2)
    batch = pack(groups)
    reference = np.where(batch.mask, batch.old + rng.normal(size=batch.mask.shape), 0.0)
    steps = steps_of(groups)
    steps = steps.take(rng.permutation(len(steps)))  # rows are joined by name
    got = turn_divergence(batch, reference, "k3", steps)
    for row, key in enumerate(zip(steps.ids("trajectory"), steps.turn.tolist(), strict=True)):
        on = batch.turn == batch.turns.index(key)
        wanted = kl(torch.from_numpy(batch.old[on]), torch.from_numpy(reference[on])).sum().item()
        assert got[row] == pytest.approx(wanted, rel=1e-12)
