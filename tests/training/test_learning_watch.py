"""Warnings about runs that do not learn."""

import json

import numpy as np
import pytest
import toys.corridor
from test_training_loop import lines, make_run

from turnwise.envs import register
from turnwise.training import train
from turnwise.training.learning_watch import LearningWatch, has_fallen


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
    train(make_run(tmp_path / "run", "train.iterations=1", "agent.temperature=0.3", "evaluation.episodes=0"))
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


def played(rng, chances, tasks=8, group=8):
    """Return the success of iterations on tasks of different difficulty, of which each has other ones."""
    middle = np.log(chances / (1 - chances))[:, None] + 1.5 * rng.standard_normal((len(chances), tasks))
    return rng.binomial(group, 1 / (1 + np.exp(-middle))).sum(axis=1) / (tasks * group)


def falls(success):
    return [step for _, step, text in watched(*((0.2, one) for one in success)) if "success fell" in text]


def test_success_that_falls_is_warned_about_by_the_means_of_ten_iterations():
    up, down = [0.6, 0.5] * 10, [0.1, 0.2] * 5
    ((phase, step, text),) = watched(*((0.2, success) for success in (*up, *down)))
    assert (phase, step) == ("warning", 28)  # when eight of the last ten are low
    assert text.startswith("success fell from 55.0% to 23.0% (means of 10 iterations)")


@pytest.mark.parametrize("level", [0.03, 0.1, 0.35, 0.8])
def test_other_tasks_are_no_fall(level):
    rng = np.random.default_rng(7)
    alarms = sum(bool(falls(played(rng, np.full(200, level)))) for _ in range(100))
    assert alarms <= 3


def test_a_policy_that_has_collapsed_is_noticed_soon():
    rng, chances = np.random.default_rng(7), np.repeat([0.5, 0.1], [60, 40])
    first = [falls(played(rng, chances)) for _ in range(50)]
    assert all(one and 60 < one[0] <= 80 for one in first)


def test_a_policy_that_learns_is_never_said_to_fall():
    rng = np.random.default_rng(7)
    assert not any(falls(played(rng, np.linspace(0.1, 0.7, 100))) for _ in range(50))


@pytest.mark.parametrize(("best", "recent"), [(0.5, 0.5), (0.0, 0.0), (0.1, 1.0)])
def test_what_is_not_lower_has_not_fallen(best, recent):
    assert not has_fallen([best] * 10, [recent] * 10)


class Indifferent(toys.corridor.Corridor):
    """The corridor without any reward."""

    def step(self, action):
        text, _, terminated, truncated, info = super().step(action)
        return text, 0.0, terminated, truncated, info


def test_a_run_that_learns_nothing_says_so(tmp_path):
    register("toys/Indifferent-v0", f"{__name__}:Indifferent")
    overrides = ('env.id="toys/Indifferent-v0"', "train.iterations=2", "evaluation.episodes=0", "credit.method=grpo")
    options = ("credit.options.invalid_penalty=0.0", "imitation.won_only=false")
    train(make_run(tmp_path, *overrides, *options))
    events = lines(tmp_path)
    assert [event["iteration"] for event in events if event["phase"] == "warning"] == [1]
    assert [event["no_variance_groups"] for event in events if event["phase"] == "train"] == [1.0, 1.0]


def test_a_resumed_run_warns_as_one_that_never_stopped():
    success = [0.6, 0.5] * 10 + [0.1, 0.2] * 5
    values = [{"no_variance_groups": 0.0, "signal": 1.0, "success": one, "reward": one} for one in success]
    for cut in (5, 15, 25):
        report = Recorded()
        watch = LearningWatch(report)
        for step, one in enumerate(values, start=1):
            if step == cut:
                state = json.loads(json.dumps(watch.state()))
                watch = LearningWatch(report)
                watch.load_state(state)
            watch.after(step, one)
        assert [step for _, step, _ in report.events] == [28]


def test_the_state_of_an_earlier_version_is_read():
    watch = LearningWatch(Recorded())
    watch.load_state({"best": 0.5, "active": ["flat"]})
    assert watch.state()["active"] == ["flat"]
