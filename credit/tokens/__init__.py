"""Transforms of token advantages on a packed batch, between credit and the objective.

from turncredit.credit.tokens import transform
result = transform("gtpo", weight=2.0)(advantages, mask, ids=ids, entropy=entropy, group=group)
result.values, result.keep
"""

from turncredit.credit.tokens.ace import ace
from turncredit.credit.tokens.catalogue import TRANSFORMS, TokenTransform, transform, transforms
from turncredit.credit.tokens.d3s import d3s
from turncredit.credit.tokens.dcpo_distribution import dcpo_distribution
from turncredit.credit.tokens.gtpo import gtpo
from turncredit.credit.tokens.hapo import hapo
from turncredit.credit.tokens.hicra import hicra
from turncredit.credit.tokens.influence import nthr, thr
from turncredit.credit.tokens.mssr import mssr
from turncredit.credit.tokens.packed import ARRAYS, TransformedAdvantages
from turncredit.credit.tokens.rto import rto_rewards
from turncredit.credit.tokens.tw_grpo import tw_grpo

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
