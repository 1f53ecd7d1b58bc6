"""Credit: turns with rewards in, one advantage per turn out. numpy only, so that any trainer can use it alone.

from turnwise.credit import Steps, gigpo
advantages = gigpo(Steps.from_rows(rows)).values
"""

from turnwise.credit.advantages import Advantages
from turnwise.credit.blocks import discounted_returns
from turnwise.credit.catalogue import OURS
from turnwise.credit.errors import BadOption, BadTable, CreditError, MissingColumn, UnknownEstimator
from turnwise.credit.outcome.grpo import grpo
from turnwise.credit.registry import Entry, estimators, get, register
from turnwise.credit.steps import Steps
from turnwise.credit.turn.gigpo import gigpo

__all__ = [
    "OURS",
    "Advantages",
    "BadOption",
    "BadTable",
    "CreditError",
    "Entry",
    "MissingColumn",
    "Steps",
    "UnknownEstimator",
    "discounted_returns",
    "estimators",
    "get",
    "gigpo",
    "grpo",
    "register",
]
