"""Whether a run that is over changed its success by more than noise."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from turncredit.evaluation.comparison import compare
from turncredit.evaluation.results import EvaluationResult
from turncredit.training.config.run import Run
from turncredit.training.config.sections import chosen
from turncredit.training.monitor.success_falls import SuccessWindow
from turncredit.training.run_folder.metrics import METRICS, read_events

__all__ = ["no_progress"]

ALPHA = 0.05
"""p-value from which a difference of two evaluations is within the noise."""
WINDOW = 8
"""Most iterations at each end of a run that are compared where nothing was evaluated."""
FEWEST = 3
"""Fewest of them, so that they have a spread."""
NOISE = 2.0
"""Standard errors of the difference up to which it is noise."""


def no_progress(run: Run) -> str | None:
    """Return a sentence about a finished run whose success did not move beyond the noise; None if it did.

    The evaluations before and after training are compared task by task. Without them, it is the mean success of the
    first and of the last iterations, where these draw their tasks alike; else nothing is said.

    Args:
        run: the configuration, whose folder holds the results.
    """
    before, after = run.folder / "before.json", run.folder / "after.json"
    if not run.train.iterations:
        return None
    if before.is_file() and after.is_file():
        return _between(EvaluationResult.load(before), EvaluationResult.load(after))
    if run.stages or "levels" in run.env.kwargs or chosen(run.sampling.tasks, "sampling.tasks")[0] != "uniform":
        return None
    events = [event for event in read_events(run.folder / METRICS) if event.get("phase") == "train"]
    return _within([event for event in events if event.get("success") is not None])


def _between(before: EvaluationResult, after: EvaluationResult) -> str | None:
    if before.panel != after.panel:  # evaluation.episodes was changed for the end of the run
        return None
    comparison = compare(before, after)
    if comparison.p_success < ALPHA or comparison.first.value is None or comparison.second.value is None:
        return None
    return (
        f"success did not move beyond the noise: {comparison.first.value:.1%} of {comparison.pairs} held-out tasks "
        f"before training and {comparison.second.value:.1%} after it (exact McNemar p={comparison.p_success:.2f})"
    )


def _within(events: Sequence[Mapping[str, float]]) -> str | None:
    """Compare the first iterations with the last ones."""
    size = min(WINDOW, len(events) // 2)
    if size < FEWEST:
        return None
    success = [event["success"] for event in events]
    errors = [event.get("success_error") for event in events]
    variances = [None if error is None else error**2 for error in errors]
    first, last = (SuccessWindow.of(success[part], variances[part]) for part in (slice(None, size), slice(-size, None)))
    if abs(last.mean - first.mean) > NOISE * math.sqrt((first.variance + last.variance) / size):
        return None
    return (
        f"success did not move beyond the noise: {first.mean:.1%} in the first {size} iterations and {last.mean:.1%} "
        f"in the last {size}; evaluation.episodes measures it on held-out tasks"
    )
