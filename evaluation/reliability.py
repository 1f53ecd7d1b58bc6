"""Reliability: how often a player wins a task in all, or in at least one, of k trials.

Each trial has another seed, so that the environment, a simulated user and the sampling differ.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import comb

from turncredit.agents.errors import EvaluationError
from turncredit.evaluation.results import EvaluationResult
from turncredit.evaluation.statistics import wilson

__all__ = ["Reliability", "best_of", "pass_all", "pass_any", "reliability"]


def pass_all(successes: int, trials: int, k: int) -> float:
    """Return the unbiased estimate of the probability that k independent trials of a task all succeed, pass^k.

    With c successes in n trials::

        pass^k = C(c, k) / C(n, k)

    Args:
        successes: c, from 0 to n.
        trials: n.
        k: from 1 to n.

    Raises:
        EvaluationError: a number is out of range; fewer than k trials do not say how often k succeed.

    Source: S. Yao et al., tau-bench, 2024, arXiv:2406.12045.

    >>> [round(pass_all(3, 4, k), 4) for k in (1, 2, 3, 4)]
    [0.75, 0.5, 0.25, 0.0]

    """
    if not 0 <= successes <= trials:
        raise EvaluationError(f"successes must be from 0 to {trials}, the number of trials, got {successes}")
    if not 1 <= k <= trials:
        raise EvaluationError(f"k must be from 1 to {trials}, the number of trials, got {k}")
    return comb(successes, k) / comb(trials, k)


def pass_any(successes: int, trials: int, k: int) -> float:
    """Return the unbiased estimate of the probability that at least one of k independent trials succeeds, pass@k.

    With c successes in n trials, since all k fail with the probability `pass_all` of the failures::

        pass@k = 1 - C(n - c, k) / C(n, k)

    Args:
        successes: c, from 0 to n.
        trials: n.
        k: from 1 to n.

    Raises:
        EvaluationError: a number is out of range.

    Source: M. Chen et al., Evaluating Large Language Models Trained on Code, 2021, arXiv:2107.03374.

    >>> [round(pass_any(1, 4, k), 4) for k in (1, 2, 3, 4)]
    [0.25, 0.5, 0.75, 1.0]

    """
    return 1.0 - pass_all(trials - successes, trials, k)


@dataclass(frozen=True, slots=True)
class Reliability:
    """The mean of pass^k or pass@k over tasks, with its 95 % interval."""

    k: int
    value: float
    low: float
    high: float
    tasks: int
    """Tasks with at least k trials that did not end as an error."""
    name: str = "pass^"
    """What is before the k: "pass^" for all of them, "pass@" for at least one."""

    def __str__(self) -> str:
        """Return it with interval and number of tasks, in percent."""
        interval = f"[{100 * self.low:.1f}, {100 * self.high:.1f}]"
        return f"{self.name}{self.k} {100 * self.value:.1f} % {interval} ({self.tasks} tasks)"


def reliability(results: Sequence[EvaluationResult]) -> list[Reliability]:
    """Return pass^k for every k up to the number of trials in all results.

    The interval is Wilson's with the tasks as trials, as if each task were won always or never. Since the estimates of
    tasks lie in [0, 1], their spread is at most that of such tasks, so the interval is wide enough.

    Args:
        results: of one player, each on the same tasks.

    Raises:
        EvaluationError: there are no results, or they have different tasks.
    """
    return _rates(results, pass_all, "pass^")


def best_of(results: Sequence[EvaluationResult]) -> list[Reliability]:
    """Return pass@k for every k up to the number of trials in all results; arguments and interval as `reliability`."""
    return _rates(results, pass_any, "pass@")


def _rates(
    results: Sequence[EvaluationResult], estimate: Callable[[int, int, int], float], name: str
) -> list[Reliability]:
    if not results:
        raise EvaluationError("reliability needs at least one result")
    tasks = results[0].panel.tasks
    if any(result.panel.tasks != tasks for result in results):
        raise EvaluationError("reliability needs results on the same tasks")
    wins: dict[str, list[bool]] = {task: [] for task in tasks}
    for result in results:
        for row in result.rows:
            if row.stop != "error":
                wins[row.task].append(row.won)
    rates = []
    for k in range(1, max(map(len, wins.values())) + 1):
        estimates = [estimate(sum(trials), len(trials), k) for trials in wins.values() if len(trials) >= k]
        low, high = wilson(sum(estimates), len(estimates))
        rates.append(Reliability(k, sum(estimates) / len(estimates), low, high, len(estimates), name))
    return rates
