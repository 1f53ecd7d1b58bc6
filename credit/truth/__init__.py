"""The truth about credit, in numbers: true advantages from returns of forks, and what a credit rule is measured by.

Like the rest of `turncredit.credit` this needs numpy alone, so that other trainers can use it with forks of their own.
`turncredit.training.truth` plays the forks.
"""

from turncredit.credit.truth.estimates import TrueCredit, estimate, fork_return, smoothed_variance
from turncredit.credit.truth.metrics import IDENTIFICATION, Density, Interval, density, identification, reliability
from turncredit.credit.truth.rule_differences import paired_differences, same_rules

__all__ = [
    "IDENTIFICATION",
    "Density",
    "Interval",
    "TrueCredit",
    "density",
    "estimate",
    "fork_return",
    "identification",
    "paired_differences",
    "reliability",
    "same_rules",
    "smoothed_variance",
]
