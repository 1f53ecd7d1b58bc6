"""A law of every rate of success: what the player caused counts, what the world caused does not, and is counted apart.

The one stop that is no doing of the player is "error". An episode that stopped in any other way is won or lost, those
with a new name included.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from toys.training_helpers import trajectory, turn

from turncredit.ablation.results import _over_seeds
from turncredit.agents.interchange.inspect_logs import _log
from turncredit.agents.interchange.records import Exported, Origin
from turncredit.agents.trajectory import STOPS, Group, Trajectory
from turncredit.cli.bench import _errors
from turncredit.evaluation.benchmark_card import Card, CardPanel
from turncredit.evaluation.comparison import compare
from turncredit.evaluation.panels import Panel
from turncredit.evaluation.reliability import best_of, reliability
from turncredit.evaluation.results import EpisodeRow, EvaluationResult
from turncredit.evaluation.seed_statistics import compare_seeds
from turncredit.report.ablation_tables import left_out_note
from turncredit.report.run_report.endings import ending
from turncredit.training.run_folder.metrics import part_metrics, play_metrics, success_error

WON, FAILED = 2, 1
PART = "part"


def episodes() -> list[Trajectory]:
    """Two that were won, and one that was lost for every way to stop; each is of its own task."""
    played = [trajectory([turn([1], [2])], won=True, stop="terminated") for _ in range(WON)]
    played += [trajectory([turn([1], [2])], stop=stop) for stop in STOPS]
    named = [replace(one, id=f"{PART}/{task}#0@0", task=f"{PART}/{task}") for task, one in enumerate(played)]
    return [replace(one, error=f"because of {one.stop}") if one.stop == "error" else one for one in named]


COUNTED = WON + len(STOPS) - FAILED
RATE = WON / COUNTED


def forks() -> list[Trajectory]:
    """Episodes that are no sample of what the policy achieves: each was won."""
    whole = episodes()[0]
    fork = replace(whole, id=f"{PART}/0#0/0.0@0", fork_of=whole.id, fork_turn=0)
    return [fork, replace(whole, id=f"{PART}/0#1@0", hint="look"), replace(whole, id=f"{PART}/0#2@0", temperature=0.5)]


def result(played: Sequence[Trajectory]) -> EvaluationResult:
    tasks = tuple(one.task for one in played)
    return EvaluationResult(Panel("toy", tasks, {}, 0), tuple(map(EpisodeRow.of, played)))


Said = tuple[float | None, int, int]
"""A rate, from how many episodes, and how many it leaves out."""


def of_evaluation(played: Sequence[Trajectory]) -> Said:
    summary = result(played).summary()
    return summary.success.value, summary.success.n, summary.errors


def of_reliability(played: Sequence[Trajectory]) -> Said:
    (each,), (some,) = reliability([result(played)]), best_of([result(played)])
    assert each.value == some.value
    return each.value, each.tasks, len(played) - each.tasks


def of_comparison(played: Sequence[Trajectory]) -> Said:
    comparison = compare(result(played), result(played))
    assert f"{comparison.left_out} tasks left out" in comparison.verdict
    return comparison.second.value, comparison.second.n, comparison.left_out


def of_seeds(played: Sequence[Trajectory]) -> Said:
    compared = compare_seeds({0: result(played)}, {0: result(played)})
    return RATE, compared.seeds[0].pairs, compared.left_out


def of_card(played: Sequence[Trajectory]) -> Said:
    own = result(played)
    panel = CardPanel("toy", "toy", "played", _errors(own), own)
    assert panel.reason.startswith(f"{FAILED} of {len(played)} episodes failed")
    mean = Card("card", "suite", (panel,)).mean()
    assert mean is not None
    return mean[0], own.summary().success.n, own.summary().errors


def of_ablation(played: Sequence[Trajectory]) -> Said:
    arm = _over_seeds({0: result(played)}, {0: result(played)})
    note = left_out_note({"warm_start": {}, "arms": {"grpo": arm}})
    assert note == f"Episodes that failed are in no rate: {FAILED} of grpo."
    return arm["success"]["value"], arm["pooled"]["n"], arm["left_out"]


def of_training(played: Sequence[Trajectory]) -> Said:
    metrics = play_metrics([Group(one.task, (one,)) for one in [*played, *forks()]])
    left = metrics["errors"] + metrics["uncounted"]
    return metrics["success"], int(metrics["episodes"] - left), int(metrics["errors"])


def of_a_part(played: Sequence[Trajectory]) -> Said:
    metrics = part_metrics([Group(one.task, (one,)) for one in [*played, *forks()]], [PART])
    left = metrics[f"errors/{PART}"] + metrics[f"uncounted/{PART}"]
    return metrics[f"success/{PART}"], int(metrics[f"episodes/{PART}"] - left), int(metrics[f"errors/{PART}"])


def of_inspects_log(played: Sequence[Trajectory]) -> Said:
    """With inspect's classes as plain records; tests/frameworks reads the log with inspect itself."""

    class Library:
        def __getattr__(self, name: str) -> Any:
            return Library() if name in ("log", "model", "scorer", "tool") else SimpleNamespace

    exported = [Exported(one) for one in [*played, *forks()]]
    log: Any = _log(Library(), exported, Origin("run", "toy", "tiny", "0"))  # type: ignore[arg-type]
    (score,) = log.results.scores
    assert log.results.total_samples == score.scored_samples + score.unscored_samples
    counted = [sample.scores["success"].value for sample in log.samples]
    assert sum(value == 1.0 for value in counted) == WON
    assert log.eval.metadata["not_counted"] == len(forks())
    return score.metrics["accuracy"].value, score.scored_samples, log.eval.metadata["failed"]


def of_the_report(played: Sequence[Trajectory]) -> Said:
    endings = [ending(one) for one in played]
    failed = sum(text is not None and text.startswith("error:") for text in endings)
    return endings.count(None) / (len(played) - failed), len(played) - failed, failed


RATES: Mapping[str, Callable[[Sequence[Trajectory]], Said]] = {
    "eval": of_evaluation,
    "eval --trials": of_reliability,
    "compare": of_comparison,
    "seeds": of_seeds,
    "bench": of_card,
    "ablate": of_ablation,
    "train": of_training,
    "a part of a mixture": of_a_part,
    "export --to inspect": of_inspects_log,
    "report": of_the_report,
}


@pytest.mark.parametrize("rate", RATES)
def test_only_what_the_world_caused_is_left_out(rate: str) -> None:
    assert RATES[rate](episodes()) == (pytest.approx(RATE), COUNTED, FAILED)


def test_the_error_of_success_is_over_the_same_episodes() -> None:
    groups = [Group(one.task, (one,)) for one in episodes()]
    own = success_error(groups)
    assert own == pytest.approx((RATE * (1 - RATE) / (COUNTED - 1)) ** 0.5)  # one episode in each group
    assert success_error([*groups, *(Group(one.task, (one,)) for one in forks())]) == own
