"""What stands after something went wrong between two boundaries: weights, metrics, evaluations, checkpoints."""

import math
import os
import signal
import time

import pytest
import torch
from test_training_loop import assert_same_weights, lines, make_run, weights
from toys.training_helpers import trajectory, turn

import turncredit.training.imitation.warmstart as warmstart
import turncredit.training.run_folder.checkpoint as checkpoint_module
from turncredit.agents.trajectory import Group
from turncredit.evaluation.results import EvaluationResult
from turncredit.training import ConfigError, Run, train
from turncredit.training.batch.batch import pack
from turncredit.training.config.renamed import short_name
from turncredit.training.errors import TrainingError
from turncredit.training.learner.learner import Learner
from turncredit.training.learner.policy import build_policy
from turncredit.training.run_folder.checkpoint import Checkpoints
from turncredit.training.run_folder.events import Reporter
from turncredit.training.run_folder.metrics import MetricsWriter

torch.set_num_threads(1)
SHORT = ("train.iterations=2", "checkpoints.every=0", "evaluation.episodes=0")


def test_a_second_ctrl_c_in_an_update_saves_no_half_updated_weights(tmp_path, monkeypatch):
    real, calls = Learner.update, []

    def update(*args):
        result = real(*args)
        calls.append(1)
        if len(calls) == 2:
            for _ in range(2):
                os.kill(os.getpid(), signal.SIGINT)
                time.sleep(0.05)
        return result

    monkeypatch.setattr(Learner, "update", update)
    outcome = train(make_run(tmp_path / "cut", *SHORT))
    assert len(calls) == 2
    assert (outcome.finished, outcome.step) == (False, 0)
    assert Checkpoints(tmp_path / "cut/checkpoints").steps() == [0]
    assert train(make_run(tmp_path / "cut", *SHORT), resume=True).finished
    train(make_run(tmp_path / "whole", *SHORT))
    assert_same_weights(weights(tmp_path / "cut", 2), weights(tmp_path / "whole", 2))


def test_episodes_that_end_before_their_first_turn_end_the_run_and_say_why(tmp_path, monkeypatch):
    monkeypatch.setattr(warmstart, "check_context", lambda *_: None)  # it looks at the first tasks only
    run = make_run(tmp_path / "run", *SHORT, "agent.max_tokens=390")
    with pytest.raises(TrainingError, match=r"ended before its first turn \(turn 0: a prompt of .* context of 400"):
        train(run)
    assert Checkpoints(tmp_path / "run/checkpoints").steps() == [0]


@pytest.mark.parametrize("where", ["metrics.jsonl", "000001.json", "after.json"])
def test_an_evaluation_that_could_not_be_written_is_done_again_and_told_once(tmp_path, monkeypatch, where):
    save, event = EvaluationResult.save, Reporter.event

    def stumble(name):
        if name == where:
            raise OSError(28, "No space left on device")

    def told(self, phase, iteration, **values):
        if phase == "evaluation" and iteration == 1:
            stumble("metrics.jsonl")
        event(self, phase, iteration, **values)

    sizes = ("train.iterations=1", "evaluation.episodes=2")
    with monkeypatch.context() as patch:
        patch.setattr(EvaluationResult, "save", lambda self, path: (stumble(path.name), save(self, path)))
        patch.setattr(Reporter, "event", told)
        with pytest.raises(OSError, match="No space"):
            train(make_run(tmp_path / "run", *sizes))
    assert train(make_run(tmp_path / "run", *sizes), resume=True).finished
    phases = [event["iteration"] for event in lines(tmp_path / "run") if event["phase"] == "evaluation"]
    assert phases == [0, 1]
    after, same = (EvaluationResult.load(tmp_path / "run" / name) for name in ("after.json", "evaluations/000001.json"))
    assert after == same


def test_the_size_of_cut_metrics_is_what_is_left(tmp_path):
    with MetricsWriter(tmp_path / "metrics.jsonl") as writer:
        writer.write({"a": 1})
        kept = writer.tell()
        writer.write({"b": 2})
    with MetricsWriter(tmp_path / "metrics.jsonl", size=kept) as writer:
        assert writer.tell() == kept == (tmp_path / "metrics.jsonl").stat().st_size


@pytest.mark.parametrize("keep", [1, 2])
def test_a_torn_checkpoint_of_a_later_iteration_never_crowds_a_good_one_out(tmp_path, keep):
    model, tokenizer = build_policy(["a b"], vocab=260, hidden=8, layers=1, heads=1, context=16, seed=0)
    points = Checkpoints(tmp_path, keep=3)
    for step in (1, 8, 9):
        points.save(step, model, tokenizer, None, {})
    for step in (8, 9):
        (points.path(step) / checkpoint_module.MANIFEST).unlink()
    assert points.load().step == 1
    points = Checkpoints(tmp_path, keep=keep)
    points.save(2, model, tokenizer, None, {})
    assert points.load().step == 2
    assert points.steps() == [1, 2][-keep:]


def test_a_first_token_without_a_prompt_has_no_old_log_probability():
    batch = pack([Group("t", (trajectory([turn([], [3, 4], logprobs=(-1.0, -2.0))]),))])
    assert batch.mask.tolist() == [[False, True]]
    assert batch.old.tolist() == [[0.0, -2.0]]


@pytest.mark.parametrize("value", ["inf", "nan", "-inf"])
@pytest.mark.parametrize("key", ["train.lr", "objective.entropy.coefficient", "env.deadline"])
def test_numbers_that_are_not_finite_are_no_values(key, value):
    with pytest.raises(ConfigError, match=rf"{short_name(key)} must be finite, got"):
        Run.parse({}, [f"{key}={value}"])
    assert math.isfinite(Run.parse({}, [f"{key}=1.0"]).train.lr)
