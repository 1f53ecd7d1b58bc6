"""Whole episodes, weighted by how hard their task is, or by what counts as a success."""

from turncredit.credit.outcome.a_grae import a_grae
from turncredit.credit.outcome.bnpo import bnpo
from turncredit.credit.outcome.gdpo import gdpo
from turncredit.credit.outcome.mapo_mixed import mapo_mixed
from turncredit.credit.outcome.passk import passk
from turncredit.credit.outcome.pshw import pshw
from turncredit.credit.outcome.psr_nsr import psr_nsr
from turncredit.credit.registry import CreditRule

__all__ = ["a_grae", "bnpo", "gdpo", "mapo_mixed", "passk", "pshw", "psr_nsr"]

RULES = (
    CreditRule("gdpo", "Group reward-Decoupled normalization Policy Optimization", "2601.05242", "paper",
               "Several rewards, each normalised on its own before they are added.", gdpo, ("multi",)),
    CreditRule("bnpo", "Beta Normalization Policy Optimization", "2506.02864", "reference code",
               "Outcomes weighted by how rare tasks of that success rate are in the batch.", bnpo),
    CreditRule("passk", "Pass@k policy optimization", "2503.19595", "reference code",
               "Credit for the best episode of a group only; trains for success in k attempts.", passk),
    CreditRule("psr_nsr", "Positive and negative sample reinforcement", "2506.01347", "paper",
               "Right or wrong without a baseline; penalising wrong answers keeps answers diverse.",
               psr_nsr, binary={}),
    CreditRule("pshw", "Policy-Specific Hardness Weighting (Confucius3-Math)", "2506.18330", "paper",
               "Right or wrong minus the task's mean, with more weight on hard tasks; not scaled.", pshw, binary={}),
    CreditRule("a_grae", "Asymmetric Group Relative Advantage Estimation", "2602.05548", "reference code",
               "GRPO that shifts weight to hard tasks as the batch gets easier.", a_grae, binary={}),
    CreditRule("mapo_mixed", "Mixed Advantage Policy Optimization", "2509.18849", "our reading",
               "GRPO, but relative deviation instead of a z-score near success rates of 0 and 1.",
               mapo_mixed, binary={}),
)  # fmt: skip
