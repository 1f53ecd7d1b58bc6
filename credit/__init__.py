"""Credit assignment: from turns with rewards to one advantage per turn. It needs numpy only.

    from turncredit.credit import Steps, gigpo
    advantages = gigpo(Steps.from_rows(rows)).values

Every rule raises MissingColumn if the table lacks a column that it needs, and BadOption if an option has an impossible
value.
"""

from turncredit.credit import catalogue
from turncredit.credit.advantages import Advantages
from turncredit.credit.catalogue import *  # noqa: F403  # the functions of all rules
from turncredit.credit.catalogue import CATALOGUE
from turncredit.credit.errors import BadOption, BadTable, CreditError, MissingColumn, UnknownRule
from turncredit.credit.graph import to_dot, to_graphml, to_json, trajectory_graph
from turncredit.credit.numerics import discounted_returns
from turncredit.credit.registry import CreditRule, get, register, rules
from turncredit.credit.steps import Steps
from turncredit.credit.tokens.gae import TokenAdvantages, bilevel_gae, gae_tokens
from turncredit.credit.tokens.tempo import tempo_tokens
from turncredit.credit.turn.spear import spear_replay

__all__ = [
    "CATALOGUE",
    "Advantages",
    "BadOption",
    "BadTable",
    "CreditError",
    "CreditRule",
    "MissingColumn",
    "Steps",
    "TokenAdvantages",
    "UnknownRule",
    "bilevel_gae",
    "discounted_returns",
    "gae_tokens",
    "get",
    "register",
    "rules",
    "spear_replay",
    "tempo_tokens",
    "to_dot",
    "to_graphml",
    "to_json",
    "trajectory_graph",
]
__all__ += catalogue.__all__
