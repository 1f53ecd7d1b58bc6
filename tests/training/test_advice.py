"""Advice in runs that do not learn, and none in those that do: by hand, on the recorded runs, and from end to end."""

from __future__ import annotations

import json
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from test_training_loop import lines, make_run

from turncredit.credit import get
from turncredit.credit.steps import Steps
from turncredit.curriculum.reward_rules.catalogue import get_reward_rule
from turncredit.evaluation import EvaluationResult, Panel, wilson
from turncredit.evaluation.results import EpisodeRow
from turncredit.training import train
from turncredit.training.config.run import Run
from turncredit.training.monitor.advice import RunAdvice, listed
from turncredit.training.monitor.learning_watch import LearningWatch
from turncredit.training.monitor.progress import no_progress
from turncredit.training.run_folder.metrics import group_metrics
from turncredit.training.sampling.applied_rewards import OUTCOME, AppliedRewards

RECORDED = Path(__file__).parents[2] / "docs" / "recorded_runs"


class Recorded:
    """A reporter that keeps the texts of warnings."""

    def __init__(self) -> None:
        self.texts: list[tuple[int, str]] = []

    def event(self, phase: str, iteration: int, text: str) -> None:
        assert phase == "warning"
        self.texts.append((iteration, text))


def run_of(*words: str, **tables: object) -> Run:
    """The run of a table with overrides."""
    return Run.parse({"imitation": {"episodes": 600}, **tables}, list(words), source="a test")


def watch_of(*words: str) -> tuple[LearningWatch, list[tuple[int, str]]]:
    """A watch over a run with these keys, and what it says."""
    report = Recorded()
    return LearningWatch(report, RunAdvice(run_of(*words))), report.texts  # type: ignore[arg-type]


def result(won: int, episodes: int, **row: Any) -> EvaluationResult:
    """An evaluation of which so many episodes were won."""
    tasks = tuple(map(str, range(episodes)))
    rows = (
        EpisodeRow(task, None, at < won, float(at < won), 10, "turns", row.get("unparsable", 0), 0)
        for at, task in enumerate(tasks)
    )
    return EvaluationResult(Panel("e", tasks), tuple(rows))


LOST = {"no_variance_groups": 0.875, "signal": 0.9, "success": 1 / 64, "reward": 1 / 64, "inadmissible": 0.4}
"""An iteration of which one of 64 episodes was won, as F4 recorded six."""


def test_the_penalty_for_invalid_actions_is_no_signal_to_learn_from() -> None:
    watch, texts = watch_of("credit.method=grpo", "env.kwargs.level=medium")
    for step in range(1, 7):
        watch.after(step, LOST)
    ((step, text),) = texts
    assert step == 3
    assert text.startswith("98% of the episodes of the last 3 iterations were lost, and in 88% of the groups")
    assert "the only signal is the penalty for invalid actions (credit.options.invalid_penalty, now 0.1)" in text
    assert 'credit.options.scale, now "std": "none"' in text
    assert 'env.kwargs.level, now "medium": "small"' in text
    assert 'env.kwargs.levels = ["tiny", "small", "medium"] and sampling.tasks = "levels"' in text
    assert "imitation.episodes, now 600" in text  # nothing said it before training
    assert "train.group_size, now 8" in text


def test_other_signals_that_are_no_outcome_are_named() -> None:
    for words, values, source in (
        (("credit.options.invalid_penalty=0.0",), {}, 'what credit.method, now "gigpo" adds to the outcome'),
        ((), {"inadmissible": 0.0}, 'what credit.method, now "gigpo" adds to the outcome'),
        (
            ('sampling.rewards=["overlong"]', "credit.options.invalid_penalty=0.0"),
            {"no_variance_groups": 0.0, "no_outcome_variance": 0.875},
            "what the reward rules make of it (sampling.rewards: overlong)",
        ),
        (
            ('sampling.rewards=["overlong"]',),
            {"no_variance_groups": 0.0, "no_outcome_variance": 0.875},
            "(sampling.rewards: overlong) and the penalty for invalid actions",
        ),
        (
            ("objective.kl.coefficient=0.1", "objective.kl.where=reward", "credit.options.invalid_penalty=0.0"),
            {},
            "the KL term in the rewards (objective.kl.coefficient, now 0.1)",
        ),
    ):
        watch, texts = watch_of(*words)
        for step in (1, 2, 3):
            watch.after(step, {**LOST, **values})
        assert [step for step, _ in texts] == [3]
        assert f"the only signal is {source}" in texts[0][1] or source in texts[0][1], texts


@pytest.mark.parametrize("values", [
    {"success": 0.2},  # some are won
    {"no_variance_groups": 0.5},  # where they are, groups have something to compare
    {"no_variance_groups": 1.0, "no_outcome_variance": 0.5},  # the rules took it away, and the outcome has it
    {"success": 1.0, "no_variance_groups": 1.0},  # all are won: learned, and a penalty polishes it
])  # fmt: skip
def test_where_outcomes_differ_nothing_is_said(values: dict[str, float]) -> None:
    watch, texts = watch_of()
    for step in range(1, 8):
        watch.after(step, {**LOST, **values})
    assert texts == []


def test_it_is_said_once_and_again_after_the_cause_was_gone() -> None:
    watch, texts = watch_of()
    better = {**LOST, "success": 0.5, "no_variance_groups": 0.2}
    for step, values in enumerate([LOST] * 5 + [better] * 3 + [LOST] * 4, start=1):
        state = json.loads(json.dumps(watch.state()))  # a run that is stopped after each iteration says no more
        watch, said = watch_of()
        watch.load_state(state)
        watch.after(step, values)
        texts += said
    assert [step for step, _ in texts] == [3, 11]


def test_a_weak_warm_start_gets_the_keys_of_its_run() -> None:
    watch, texts = watch_of("imitation.epochs=2", "imitation.target_loss=0.09", "policy.new.layers=2")
    watch.before(result(1, 60).summary())
    ((step, text),) = texts
    assert step == 0
    assert wilson(1, 60)[1] < 0.1
    assert text.startswith("the warm start wins next to nothing: 1 of 60 held-out tasks (95 % interval up to 8.9%)")
    for words in (
        "more demonstrations (imitation.episodes, now 600)",
        "more passes over them (imitation.epochs, now 2)",
        "a lower imitation.target_loss, now 0.09",
        "a larger model (policy.new.layers, now 2; policy.new.hidden, now 128)",
        'an easier level (env.kwargs.level, now "small": "tiny")',
        "agent.max_turns, now 50",
    ):
        assert words in text
    assert "no action" not in text


def test_a_policy_whose_answers_cannot_be_read_is_told_so_first() -> None:
    watch, texts = watch_of("imitation.episodes=0", "policy.model=some/model")
    watch.before(result(0, 60, unparsable=6).summary())
    ((_, text),) = texts
    assert text.startswith("the policy wins next to nothing")
    assert "try answers that can be read, since 60% of them had no action (agent.max_tokens, now 32" in text
    assert "a warm start (imitation.episodes, now 0)" in text
    assert "policy.new" not in text


@pytest.mark.parametrize(("won", "episodes"), [(0, 20), (3, 60), (60, 60), (0, 0)])
def test_a_warm_start_that_may_win_enough_gets_no_advice(won: int, episodes: int) -> None:
    watch, texts = watch_of()
    if episodes:
        watch.before(result(won, episodes).summary())
    else:
        failed = EpisodeRow("0", None, False, 0.0, 1, "error", 0, 0, "broken")
        watch.before(EvaluationResult(Panel("e", ("0",)), (failed,)).summary())
    assert texts == []


def test_without_an_evaluation_the_first_iteration_is_judged_by_its_groups() -> None:
    for groups, evaluated, expected in ((64, 0, [1]), (8, 0, []), (64, 50, [])):
        watch, texts = watch_of(f"train.groups={groups}", f"evaluation.episodes={evaluated}")
        watch.after(1, {**LOST, "success": 0.0})
        assert [step for step, _ in texts] == expected
        assert all("of the first iteration's episodes (95 % interval up to 5.7%)" in text for _, text in texts)


def test_advice_about_levels_is_about_those_below_the_runs_own() -> None:
    def levels(*words: str) -> list[str]:
        return [way for way in RunAdvice(run_of(*words)).easier() if "level" in way]

    for words in ("env.kwargs.level=tiny", 'env.kwargs.games="/somewhere"', "env.id=turncredit/MiniWoB-v0"):
        assert levels(words) == []
    assert '"tiny+types=put"' not in levels("env.kwargs.level=small+types=put")[0].partition(")")[0]
    assert 'env.kwargs.levels = ["tiny", "small+types=put"]' in levels("env.kwargs.level=small+types=put")[0]
    assert levels('env.kwargs={levels=["tiny","small"]}') == [
        'the easiest level first (sampling.tasks, now "uniform": "levels")'
    ]
    assert levels('env.kwargs={levels=["tiny","small"]}', "sampling.tasks=levels") == []
    assert listed(["one"]) == "one"


def table(rewards: list[list[float]], tokens: list[list[int]]) -> Steps:
    """Groups of episodes of one turn each."""
    rows = [
        {"task": group, "trajectory": f"{group}-{at}", "turn": 0, "reward": reward, "tokens": tokens[group][at]}
        for group, members in enumerate(rewards)
        for at, reward in enumerate(members)
    ]
    return Steps.from_rows(rows)


def test_groups_are_judged_by_what_the_environment_paid_before_reward_rules() -> None:
    """Both groups differ in length alone but for one win in the second: 1 of 2 groups has no outcome to compare."""
    steps = table([[0.0, 0.0], [1.0, 0.0]], [[10, 100], [10, 100]])
    rule = get_reward_rule("overlong", limit=100, buffer=50)
    changed = AppliedRewards([rule], 1)(steps, 0)
    advantages = get("grpo")(changed)
    metrics = group_metrics(changed, advantages, outcome=OUTCOME)
    assert (metrics["no_variance_groups"], metrics["no_outcome_variance"]) == (0.0, 0.5)
    shuffled = np.array([3, 0, 2, 1])
    again = group_metrics(changed.take(shuffled), advantages.take(shuffled), outcome=OUTCOME)
    assert again["no_outcome_variance"] == 0.5
    assert "no_outcome_variance" not in group_metrics(steps, get("grpo")(steps), outcome=OUTCOME)


def recorded() -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """The name and the events of every recorded run."""
    for archive in sorted(RECORDED.glob("*.tar.xz")):
        with tarfile.open(archive) as file:
            for name in file.getnames():
                if name.endswith("metrics.jsonl"):
                    stored = file.extractfile(name)
                    assert stored is not None
                    yield name, [json.loads(line) for line in stored.read().splitlines()]


ALONE = "hgpo-sampling.tasks-name-levels-start-tiny-receptacles-9-11-objects-9-11-types-put.look.clean-mix-0"
"""The arm that trains on the hardest level alone: none of its eight runs won more than 15 % at the end."""


def test_of_the_recorded_runs_those_that_lost_nearly_everything_get_advice_and_no_others() -> None:
    """All 410 others stay silent: their warm starts win 11 % and more, and they learn."""
    advised, count = {}, 0
    for name, events in recorded():
        report, count = Recorded(), count + 1
        watch = LearningWatch(report, RunAdvice(run_of()))  # type: ignore[arg-type]
        for event in events:
            if event["phase"] == "evaluation" and event["iteration"] == 0:
                assert event["high"] > 0.1
            if event["phase"] == "train":
                watch.after(event["iteration"], event)
        said = [step for step, text in report.texts if "were lost" in text or "next to nothing" in text]
        if said:
            advised[name.removesuffix("/metrics.jsonl")] = said[0]
    assert count > 400
    expected = {f"climbed/{ALONE}/seed-{seed}" for seed in range(8)}
    expected.add("climbed/hgpo-sampling.tasks-name-levels-threshold-0.5/seed-3")  # the curriculum went on too early
    expected |= {f"staleness/staleness-{age}/seed-2" for age in (1, 2, 4)}  # collapsed; see test_learning_watch.py
    assert set(advised) == expected


def written(folder: Path, *events: dict[str, Any], before: int | None = None, after: int | None = None) -> Run:
    """A run folder with metrics, and with evaluations on 100 tasks of which so many were won."""
    folder.mkdir()
    (folder / "metrics.jsonl").write_text("".join(f"{json.dumps(event)}\n" for event in events))
    for name, won in (("before.json", before), ("after.json", after)):
        if won is not None:
            result(won, 100).save(folder / name)
    return run_of(f"output={json.dumps(str(folder))}")


def iterations(rates: list[float]) -> list[dict[str, Any]]:
    """Events of iterations with this success."""
    return [{"phase": "train", "iteration": at, "success": rate} for at, rate in enumerate(rates, start=1)]


def test_a_run_whose_success_did_not_move_says_so(tmp_path: Path) -> None:
    sentence = no_progress(written(tmp_path / "a", before=30, after=33))
    assert sentence == (
        "success did not move beyond the noise: 30.0% of 100 held-out tasks before training and 33.0% after it (exact "
        "McNemar p=0.25)"
    )
    assert no_progress(written(tmp_path / "b", before=30, after=40)) is None
    assert no_progress(written(tmp_path / "c", before=40, after=30)) is None  # it moved; that it fell, a warning says
    sentence = no_progress(written(tmp_path / "d", *iterations([0.1, 0.2] * 5)))
    assert sentence is not None
    assert sentence.startswith("success did not move beyond the noise: 14.0% in the first 5 iterations and 16.0% in")
    assert no_progress(written(tmp_path / "e", *iterations([0.1, 0.2] * 4 + [0.6, 0.7] * 4))) is None
    assert no_progress(written(tmp_path / "f", *iterations([0.1] * 5))) is None  # too few to say


def test_iterations_on_changing_tasks_are_not_compared(tmp_path: Path) -> None:
    run = written(tmp_path / "run", *iterations([0.1, 0.2] * 5))
    for words in (["sampling.tasks=levels"], ['env.kwargs={levels=["tiny","small"]}'], ["train.iterations=0"]):
        assert no_progress(Run.parse(run.model_dump(exclude_unset=True), words, source="a test")) is None


def test_the_recorded_runs_that_learned_did_not_stand_still(tmp_path: Path) -> None:
    """Of the long runs of credit rules on the household, each moved beyond the noise."""
    with tarfile.open(RECORDED / "twelve-seeds-0-3.tar.xz") as file:
        names = [name for name in file.getnames() if "/seed-" in name and name.endswith(("before.json", "after.json"))]
        folders = {name.rpartition("/")[0] for name in names}
        for folder in folders:
            place = tmp_path / folder
            place.mkdir(parents=True)
            for name in ("before.json", "after.json"):
                stored = file.extractfile(f"{folder}/{name}")
                assert stored is not None
                (place / name).write_bytes(stored.read())
            if "warm-start" not in folder:
                assert no_progress(run_of(f"output={json.dumps(str(place))}")) is None, folder
    assert len(folders) >= 20


def test_a_run_ends_with_the_sentence_and_says_it_once(tmp_path: Path) -> None:
    """No learning rate to speak of: the policy stays as it was."""
    words = ("train.iterations=1", "evaluation.episodes=4", "train.lr=1e-12")
    train(make_run(tmp_path / "run", *words))
    events = lines(tmp_path / "run")
    texts = [event["text"] for event in events if event["phase"] == "warning" and "did not move" in event["text"]]
    assert len(texts) == 1
    assert events[-1]["phase"] == "done"
    assert events[-2]["text"] == texts[0]
