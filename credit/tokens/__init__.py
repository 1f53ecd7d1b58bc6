"""Transforms of token advantages on a packed batch, between credit and the objective.

from turnwise.credit.tokens import transform
result = transform("gtpo", weight=2.0)(advantages, mask, ids=ids, entropy=entropy, group=group)
result.values, result.keep
"""

from turnwise.credit.tokens.ace import ace
from turnwise.credit.tokens.catalogue import TRANSFORMS, TokenTransform, transform, transforms
from turnwise.credit.tokens.d3s import d3s
from turnwise.credit.tokens.dcpo_distribution import dcpo_distribution
from turnwise.credit.tokens.gtpo import gtpo
from turnwise.credit.tokens.hapo import hapo
from turnwise.credit.tokens.hicra import hicra
from turnwise.credit.tokens.influence import nthr, thr
from turnwise.credit.tokens.mssr import mssr
from turnwise.credit.tokens.packed import ARRAYS, TransformedAdvantages
from turnwise.credit.tokens.rto import rto_rewards
from turnwise.credit.tokens.tw_grpo import tw_grpo

__all__ = [
    "ARRAYS",
    "TRANSFORMS",
    "TokenTransform",
    "TransformedAdvantages",
    "ace",
    "d3s",
    "dcpo_distribution",
    "gtpo",
    "hapo",
    "hicra",
    "mssr",
    "nthr",
    "rto_rewards",
    "thr",
    "transform",
    "transforms",
    "tw_grpo",
]
