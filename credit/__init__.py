"""Credit assignment: from turns with rewards to one advantage per turn. It needs numpy only.

    from turnwise.credit import Steps, gigpo
    advantages = gigpo(Steps.from_rows(rows)).values

Every rule raises MissingColumn if the table lacks a column that it needs, and BadOption if an option has an impossible
value.
"""

from turnwise.credit import catalogue
from turnwise.credit.advantages import Advantages
from turnwise.credit.catalogue import *  # noqa: F403  # the functions of all rules
from turnwise.credit.catalogue import CATALOGUE
from turnwise.credit.errors import BadOption, BadTable, CreditError, MissingColumn, UnknownRule
from turnwise.credit.graph import to_dot, to_graphml, to_json, trajectory_graph
from turnwise.credit.numerics import discounted_returns
from turnwise.credit.registry import CreditRule, get, register, rules
from turnwise.credit.steps import Steps
from turnwise.credit.tokens.gae import TokenAdvantages, bilevel_gae, gae_tokens
from turnwise.credit.tokens.tempo import tempo_tokens
from turnwise.credit.turn.spear import spear_replay

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
