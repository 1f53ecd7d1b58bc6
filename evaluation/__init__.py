"""Evaluation: panels of tasks, intervals, paired comparison, suites and benchmark cards."""

from turncredit.evaluation.comparison import Comparison, compare
from turncredit.evaluation.evaluation import evaluate
from turncredit.evaluation.panels import Panel
from turncredit.evaluation.results import EvaluationResult, EvaluationSummary, Rate
from turncredit.evaluation.statistics import mcnemar_exact, paired_permutation, wilson

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
