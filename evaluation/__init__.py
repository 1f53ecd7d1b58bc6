"""Evaluation: panels of tasks, intervals, paired comparison, suites and benchmark cards."""

from turnwise.evaluation.comparison import Comparison, compare
from turnwise.evaluation.evaluation import evaluate
from turnwise.evaluation.panels import Panel
from turnwise.evaluation.results import EvaluationResult, EvaluationSummary, Rate
from turnwise.evaluation.statistics import mcnemar_exact, paired_permutation, wilson

__all__ = [
    "Comparison",
    "EvaluationResult",
    "EvaluationSummary",
    "Panel",
    "Rate",
    "compare",
    "evaluate",
    "mcnemar_exact",
    "paired_permutation",
    "wilson",
]
