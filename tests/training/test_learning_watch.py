"""Warnings about runs that do not learn."""

import json
import tarfile
from pathlib import Path

import numpy as np
import pytest
import toys.corridor
from test_training_loop import lines, make_run

from turncredit.envs import register
from turncredit.training import train
from turncredit.training.config.run import Run
from turncredit.training.monitor.advice import RunAdvice
from turncredit.training.monitor.learning_watch import LearningWatch
from turncredit.training.monitor.success_falls import Fall, SuccessFalls, SuccessWindow


class Recorded:
    """A reporter that keeps what it is told."""

    def __init__(self):
        self.events = []

    def event(self, phase, iteration, **values):
        self.events.append((phase, iteration, values["text"]))


def watch_of(report, *words):
    """A watch over a run with these keys."""
    return LearningWatch(report, RunAdvice(Run.parse({"imitation": {"episodes": 600}}, list(words), source="a test")))


def watched(*iterations):
    report = Recorded()
    watch = watch_of(report)
    for step, (flat, success) in enumerate(iterations, start=1):
        signal = 0.0 if flat == 1.0 else 0.5
        watch.after(step, {"no_variance_groups": flat, "signal": signal, "success": success, "reward": success})
    return report.events


def test_a_run_whose_steps_are_all_skipped_is_warned_about():
    report = Recorded()
    watch = watch_of(report)
    values = {"no_variance_groups": 0.0, "signal": 0.5, "success": 0.5, "reward": 0.5}
    for step, (updates, skipped) in enumerate([(2, 0), (1, 1), (0, 2), (0, 2), (0, 0)], start=1):
        watch.after(step, {**values, "updates": updates, "skipped": skipped})
    assert [(phase, step) for phase, step, _ in report.events] == [("warning", 3)]
    assert "all 2 optimizer steps were skipped" in report.events[0][2]


def test_a_gap_that_no_rounding_explains_is_warned_about_where_one_module_computes_both():
    report = Recorded()
    watch = watch_of(report)
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
    from turncredit.engines.transformers import sampler

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
    events = watched((1.0, 0.0), (1.0, 0.0), (0.5, 0.4), (1.0, 1.0))
    assert [(phase, step) for phase, step, _ in events] == [("warning", 1), ("warning", 4)]
    assert 'try an easier level (env.kwargs.level, now "small": "tiny")' in events[0][2]
    assert "or larger groups (train.group_size, now 8)" in events[0][2]
    assert "try harder tasks; or larger groups (train.group_size, now 8)" in events[1][2]


def played(rng, chances, tasks=8, group=8, spread=1.5):
    """Return success and its standard error in iterations, each on other tasks, which differ in difficulty.

    Args:
        spread: standard deviation of the tasks' log odds; 0: all episodes are alike, and their number is binomial.
    """
    middle = np.log(chances / (1 - chances))[:, None] + spread * rng.standard_normal((len(chances), tasks))
    won = rng.binomial(group, 1 / (1 + np.exp(-middle))) / group
    return won.mean(axis=1), won.std(axis=1, ddof=1) / np.sqrt(tasks)


def first_fall(success, errors=None):
    """Return the iteration of the first warning; None if there is none."""
    falls = SuccessFalls()
    pairs = zip(success, np.zeros(len(success)) if errors is None else errors, strict=True)
    return next((step for step, pair in enumerate(pairs, start=1) if falls.after(*map(float, pair))), None)


def test_success_that_falls_is_warned_about_by_means_of_several_iterations():
    up, down = [0.6, 0.5] * 10, [0.1, 0.2] * 5
    ((phase, step, text),) = watched(*((0.2, success) for success in (*up, *down)))
    assert (phase, step) == ("warning", 23)
    assert text.startswith("success fell from 55.0% (mean of 8 iterations) to 13.3% (the last 3)")


def test_a_curriculum_that_goes_on_to_a_harder_level_is_no_fall():
    def values(part, success):
        return {
            "no_variance_groups": 0.2,
            "signal": 0.5,
            "reward": success,
            "success": success,
            f"success/{part}": success,
        }

    report = Recorded()
    watch = watch_of(report)
    wins = [("easy", 0.7), ("easy", 0.6)] * 6 + [("hard", 0.3), ("hard", 0.4)] * 6 + [("hard", 0.0)] * 4
    for step, (part, success) in enumerate(wins, start=1):
        watch.after(step, values(part, success))
    ((phase, step, text),) = report.events
    assert (phase, step) == ("warning", 27)
    assert text.startswith("success on hard fell from 35.0% (mean of 8 iterations) to 0.0% (the last 3)")


@pytest.mark.parametrize("spread", [0.0, 1.5, 3.0])
@pytest.mark.parametrize("tasks", [4, 16])
def test_fewer_than_one_run_in_a_hundred_is_warned_about_by_chance(tasks, spread):
    """32 or 128 episodes in groups of 8; no alarm in 300 runs bounds the rate below 1 % with 95 % confidence."""
    rng = np.random.default_rng(1)
    levels = np.repeat([0.03, 0.1, 0.35, 0.5, 0.8, 0.95], 50)
    assert not any(first_fall(*played(rng, np.full(60, level), tasks, spread=spread)) for level in levels)


@pytest.mark.parametrize(
    ("before", "after", "start", "tasks", "typical", "latest"),
    [(0.5, 0.1, 30, 8, 4, 10), (0.7, 0.05, 10, 16, 3, 8), (0.6, 0.05, 20, 4, 6, 15)],
)
def test_a_policy_that_has_collapsed_is_noticed_within_a_few_iterations(before, after, start, tasks, typical, latest):
    rng, chances = np.random.default_rng(7), np.repeat([before, after], [start, 40])
    steps = [first_fall(*played(rng, chances, tasks)) for _ in range(50)]
    assert None not in steps
    assert start < min(steps)
    assert np.median(steps) - start <= typical
    assert max(steps) - start <= latest


def test_a_slow_decline_is_noticed_by_the_longer_window():
    rng, chances = (
        np.random.default_rng(7),
        np.concatenate([np.full(30, 0.6), np.linspace(0.6, 0.15, 40), np.full(20, 0.15)]),
    )
    steps = [first_fall(*played(rng, chances, 16)) for _ in range(30)]
    assert None not in steps


def test_a_policy_that_learns_is_never_said_to_fall():
    rng = np.random.default_rng(7)
    assert not any(first_fall(*played(rng, np.linspace(0.1, 0.7, 100), 4)) for _ in range(50))


@pytest.mark.parametrize(("best", "recent"), [(0.5, 0.5), (0.0, 0.0), (0.1, 1.0)])
def test_what_is_not_lower_has_not_fallen(best, recent):
    assert not Fall(SuccessWindow.of([best] * 8, [0.0] * 8), SuccessWindow.of([recent] * 3, [0.0] * 3)).certain(0.0)


def test_of_the_recorded_runs_those_that_collapsed_are_warned_about_and_no_others():
    """With staleness 1, 2 and 4, seed 2 fell from 80 % to 10 % and less after iteration 7 (docs/recorded_runs)."""
    fallen = {}
    for archive in sorted((Path(__file__).parents[2] / "docs" / "recorded_runs").glob("*.tar.xz")):
        with tarfile.open(archive) as file:
            names = [name for name in file.getnames() if name.endswith("metrics.jsonl")]
            for name in names:
                report = Recorded()
                watch = watch_of(report)
                for line in file.extractfile(name).read().splitlines():
                    event = json.loads(line)
                    if event["phase"] == "train":
                        watch.after(event["iteration"], {**event, "success_error": 0.0})
                falls = [step for _, step, text in report.events if "fell from" in text]
                if falls:
                    fallen[name] = falls[0]
    collapsed = {f"staleness/staleness-{age}/seed-2/metrics.jsonl": 11 for age in (1, 2, 4)}
    collapsed["sampled/hgpo-sampling.tasks-vade/seed-2/metrics.jsonl"] = 21  # from 73 to 34 %
    collapsed["sampled/hgpo/seed-3/metrics.jsonl"] = 12  # from 73 to 25 %; 26 % of held-out tasks after iteration 12
    alone = "hgpo-sampling.tasks-name-levels-start-tiny-receptacles-9-11-objects-9-11-types-put.look.clean-mix-0"
    collapsed |= {f"climbed/{alone}/seed-{seed}/metrics.jsonl": step for seed, step in ((1, 20), (3, 21), (7, 24))}
    collapsed["climbed/hgpo-sampling.tasks-uniform/seed-5/metrics.jsonl"] = 18  # from 45 to 21 %, and back
    assert fallen == collapsed


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
        watch = watch_of(report)
        for step, one in enumerate(values, start=1):
            if step == cut:
                state = json.loads(json.dumps(watch.state()))
                watch = watch_of(report)
                watch.load_state(state)
            watch.after(step, one)
        assert [step for _, step, _ in report.events] == [23]


def test_the_state_of_an_earlier_version_is_read():
    watch = watch_of(Recorded())
    watch.load_state({"best": 0.5, "success": [0.5], "best_window": [], "changes": [0.0, 0], "active": ["flat"]})
    assert watch.state()["active"] == ["flat"]


def test_a_mixture_of_which_one_part_is_trained_on_is_warned_about():
    report = Recorded()
    watch = watch_of(report)
    values = {"no_variance_groups": 0.0, "signal": 0.5, "success": 0.5, "reward": 0.5, "updates": 1}

    def of(part, trained, dropped):
        return {f"trained_episodes/{part}": trained, f"groups_dropped/{part}": dropped}

    both = {**of("search", 8.0, 3.0), **of("house", 8.0, 0.0)}
    alone = {**of("search", 0.0, 4.0), **of("house", 16.0, 1.0)}
    failed = {**of("search", 0.0, 0.0), **of("house", 16.0, 1.0)}  # its episodes ended as errors
    for step, parts in enumerate([both, of("house", 8.0, 2.0), failed, alone, alone], start=1):
        watch.after(step, {**values, **parts})
    ((phase, step, text),) = report.events
    assert (phase, step) == ("warning", 4)
    assert text.startswith(
        "all that was trained on is of house: every group of the other parts was dropped (4 of search)"
    )
