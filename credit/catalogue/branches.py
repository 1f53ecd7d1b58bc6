"""Turns of episodes that share beginnings: trees, forks and continuations."""

from turncredit.credit.registry import CreditRule
from turncredit.credit.turn.arpo import arpo_hard, arpo_soft
from turncredit.credit.turn.bpo import bpo
from turncredit.credit.turn.continuations import continuations
from turncredit.credit.turn.spo_segment import spo_segment
from turncredit.credit.turn.tree_grpo import tree_grpo
from turncredit.credit.turn.vine import vine

__all__ = ["arpo_hard", "arpo_soft", "bpo", "continuations", "spo_segment", "tree_grpo", "vine"]

RULES = (
    CreditRule("tree_grpo", "Tree-based Group Relative Policy Optimization", "2509.21240", "reference code",
               "Rollouts from tree search: leaves compared within their tree and across trees.", tree_grpo, ("tree",)),
    CreditRule("arpo_soft", "Agentic Reinforced Policy Optimization, soft estimation", "2507.19849", "paper",
               "Branched rollouts, each path credited as an episode of its own.", arpo_soft),
    CreditRule("arpo_hard", "Agentic Reinforced Policy Optimization, hard estimation", "2507.19849", "our reading",
               "Branched rollouts, a shared turn credited with the mean of the paths that share it.",
               arpo_hard, ("parent",)),
    CreditRule("continuations", "Worth by continuations (PPPO, MOTIF, MRT)", "2512.15274", "our reading",
               "Episodes that are played on several times from places inside them.", continuations,
               ("tree", "forked")),
    CreditRule("spo_segment", "Segment Policy Optimization", "2505.23564", "paper",
               "Change in estimated outcome from segment to segment, by resampling or from a tree.",
               spo_segment, ("value",), splits={"mode": "tree"}),
    CreditRule("bpo", "Branching Policy Optimization", "2607.14171", "our reading",
               "Branched rollouts: the branches of a fork compared with each other, trunks with the task.",
               bpo, ("parent",)),
    CreditRule("vine", "VinePPO, on turns", "2410.01679", "our reading",
               "True values by forks of every turn, or of some: what perfect credit would gain, at their cost.",
               vine, ("value",)),
)  # fmt: skip
