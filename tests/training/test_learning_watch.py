"""Warnings about runs that do not learn."""

import json
from itertools import pairwise

import pytest
import toys.corridor
from test_training_loop import lines, make_run

from turnwise.envs import register
from turnwise.training import train
from turnwise.training.learning_watch import LearningWatch


class Recorded:
    """A reporter that keeps what it is told."""

    def __init__(self):
        self.events = []

    def event(self, phase, iteration, **values):
        self.events.append((phase, iteration, values["text"]))


def watched(*iterations):
    report = Recorded()
    watch = LearningWatch(report)
    for step, (flat, success) in enumerate(iterations, start=1):
        signal = 0.0 if flat == 1.0 else 0.5
        watch.after(step, {"no_variance_groups": flat, "signal": signal, "success": success, "reward": success})
    return report.events


def test_a_gap_that_no_rounding_explains_is_warned_about_where_one_module_computes_both():
    report = Recorded()
    watch = LearningWatch(report)
    for step, (gap, dtype) in enumerate(
        [(1e-5, "float32"), (0.07, "float32"), (0.07, "float32"), (0.05, "bfloat16"), (0.2, "bfloat16")], start=1
    ):
        watch.after_shared(step, {"gap": gap, "clip_fraction": 0.08}, dtype)
    watch.after_shared(9, {}, "float32")  # nothing was computed
    assert [(phase, step) for phase, step, _ in report.events] == [("warning", 2), ("warning", 5)]
    assert "differ by 0.07 nats on average before the first optimizer step (8% of the tokens" in report.events[0][2]


@pytest.mark.parametrize("moved", [0.0, 0.05])
def test_a_run_warns_if_its_sampler_is_not_its_learner(tmp_path, monkeypatch, moved):
    """The sampler's log-probabilities are those of another temperature, as no probe would see."""
    from turnwise.agents.samplers.transformers import sampler

    draw = sampler.sample_tokens

    def warmer(logits, temperature, *args, **kwargs):
        return draw(logits, [value + moved for value in temperature], *args, **kwargs)

    monkeypatch.setattr(sampler, "sample_tokens", warmer)
    train(make_run(tmp_path / "run", "train.steps=1", "agent.temperature=0.3", "evaluation.episodes=0"))
    events = lines(tmp_path / "run")
    said = [event["text"] for event in events if event["phase"] == "warning" and "same module" in event["text"]]
    gap = next(event["gap"] for event in events if event["phase"] == "train")
    assert len(said) == bool(moved)
    assert (gap > 0.01) == bool(moved)


def test_groups_without_variance_are_warned_about_once_until_they_are_over():
    events = watched((1.0, 0.0), (1.0, 0.0), (0.5, 0.1), (1.0, 1.0))
    assert [(phase, step) for phase, step, _ in events] == [("warning", 1), ("warning", 4)]
    assert "try easier tasks or larger groups" in events[0][2]
    assert "try harder tasks or larger groups" in events[1][2]


def test_success_that_falls_by_half_is_warned_about():
    ((phase, step, text),) = watched((0.2, 0.6), (0.2, 0.4), (0.2, 0.3), (0.2, 0.25))
    assert (phase, step) == ("warning", 3)
    assert text.startswith("success fell from 60.0% to 30.0%")


@pytest.mark.parametrize("fall", [(0.08, 0.0), (0.9, 0.5)])
def test_noise_is_not_warned_about(fall):
    assert watched(*((0.2, success) for success in fall)) == []
    assert all(later <= earlier for earlier, later in pairwise(fall))


class Indifferent(toys.corridor.Corridor):
    """The corridor without any reward."""

    def step(self, action):
        text, _, terminated, truncated, info = super().step(action)
        return text, 0.0, terminated, truncated, info


def test_a_run_that_learns_nothing_says_so(tmp_path):
    register("toys/Indifferent-v0", f"{__name__}:Indifferent")
    overrides = ('env.id="toys/Indifferent-v0"', "train.steps=2", "evaluation.episodes=0", "credit.method=grpo")
    options = ("credit.options.invalid_penalty=0.0", "imitation.won_only=false")
    train(make_run(tmp_path, *overrides, *options))
    events = lines(tmp_path)
    assert [event["iteration"] for event in events if event["phase"] == "warning"] == [1]
    assert [event["no_variance_groups"] for event in events if event["phase"] == "train"] == [1.0, 1.0]


def test_a_resumed_run_remembers_its_best_success():
    first, report = LearningWatch(Recorded()), Recorded()
    first.after(1, {"no_variance_groups": 1.0, "signal": 0.0, "success": 0.9, "reward": 0.9})
    resumed = LearningWatch(report)
    resumed.load_state(json.loads(json.dumps(first.state())))
    resumed.after(2, {"no_variance_groups": 1.0, "signal": 0.0, "success": 0.3, "reward": 0.3})
    (event,) = report.events  # of the flat groups it was told before
    assert "success fell from 90.0% to 30.0%" in event[2]
