"""Whole episodes by what was answered: how long, how likely, and how much the answers of a group agree."""

from turncredit.credit.outcome.adora import adora
from turncredit.credit.outcome.canon import canon
from turncredit.credit.outcome.copo import copo
from turncredit.credit.outcome.evol import evol
from turncredit.credit.outcome.hapo import hapo
from turncredit.credit.outcome.seed_grpo import seed_grpo
from turncredit.credit.outcome.unlikely import unlikely
from turncredit.credit.outcome.xrpo_novelty import xrpo_novelty
from turncredit.credit.registry import CreditRule

__all__ = ["adora", "canon", "copo", "evol", "hapo", "seed_grpo", "unlikely", "xrpo_novelty"]

RULES = (
    CreditRule("adora", "Advantage Dynamics via Online Rollout Adaptation", "2602.10019", "reference code",
               "GRPO at full strength only where longer answers were the right ones.", adora, ("tokens",), binary={}),
    CreditRule("hapo",
               "Heterogeneous Adaptive Policy Optimization, token-level average", "2509.16591", "reference code",
               "GRPO averaged over tokens; combine it with the token transform of the same name.", hapo, ("tokens",)),
    CreditRule("canon", "Conditional Advantage Estimation", "2509.23962", "reference code",
               "Compares across and within two halves of a group, split by length or by a metric.", canon, ("tokens",)),
    CreditRule("unlikely", "Rewarding the Unlikely", "2506.02355", "paper",
               "Less reward for answers that the policy already finds likely; against mode collapse.",
               unlikely, ("logprob",)),
    CreditRule("xrpo_novelty", "XRPO's novelty sharpening", "2510.06672", "our reading",
               "A bonus for right answers that were less likely than the group's others.",
               xrpo_novelty, ("logprob",), binary={}),
    CreditRule("copo", "Consistency-aware Policy Optimization", "2508.04138", "our reading",
               "Compares groups with each other where a group's answers agree.", copo, ("label",)),
    CreditRule("seed_grpo", "Semantic Entropy Enhanced GRPO", "2505.12346", "our reading",
               "Smaller steps on tasks whose answers mean many different things.", seed_grpo, ("label",)),
    CreditRule("evol", "EVOL-RL: majority for selection, novelty for variation", "2509.15194", "paper",
               "Without labels: the majority's answer counts as right, and novel reasoning is worth more.",
               evol, ("label", "metric"), binary={"by": "score"}),
)  # fmt: skip
