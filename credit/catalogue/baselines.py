"""Whole episodes against a baseline: the mean of their task, of other episodes, or a model's."""

from turncredit.credit.outcome.dr_grpo import dr_grpo
from turncredit.credit.outcome.grpo import grpo
from turncredit.credit.outcome.lite_ppo import lite_ppo
from turncredit.credit.outcome.mc_grpo import mc_grpo
from turncredit.credit.outcome.ngrpo import ngrpo
from turncredit.credit.outcome.opo import opo
from turncredit.credit.outcome.raw import raw
from turncredit.credit.outcome.reinforce_pp import reinforce_pp, reinforce_pp_baseline
from turncredit.credit.outcome.remax import remax
from turncredit.credit.outcome.rloo import rloo
from turncredit.credit.outcome.taught import taught
from turncredit.credit.registry import CreditRule

__all__ = [
    "dr_grpo",
    "grpo",
    "lite_ppo",
    "mc_grpo",
    "ngrpo",
    "opo",
    "raw",
    "reinforce_pp",
    "reinforce_pp_baseline",
    "remax",
    "rloo",
    "taught",
]

RULES = (
    CreditRule("grpo", "Group Relative Policy Optimization", "2402.03300", "reference code",
               "The outcome alone: every turn of an episode gets the same advantage.", grpo),
    CreditRule("dr_grpo", "GRPO Done Right", "2503.20783", "reference code",
               "The outcome minus the task's mean, without scaling by the spread.", dr_grpo),
    CreditRule("rloo", "REINFORCE Leave-One-Out", "2402.14740", "reference code",
               "The outcome minus the mean of the other episodes; unbiased in small groups too.", rloo),
    CreditRule("remax", "ReMax", "2310.10505", "paper",
               "The outcome minus that of a greedy episode, given as the first turn's value; needs no group.",
               remax, ("value",)),
    CreditRule("reinforce_pp", "REINFORCE++", "2501.03262", "paper",
               "Discounted returns whitened over the batch; for many tasks with one episode each.",
               reinforce_pp, ("tokens",)),
    CreditRule("reinforce_pp_baseline", "REINFORCE++ with a group baseline", "2501.03262", "reference code",
               "The outcome minus the task's mean, scaled by the batch instead of the group.",
               reinforce_pp_baseline, ("tokens",)),
    CreditRule("lite_ppo", "Lite PPO", "2508.08221", "paper",
               "The outcome minus the task's mean, scaled by the spread of the batch, which easy tasks do not inflate.",
               lite_ppo),
    CreditRule("opo", "On-Policy RL with Optimal reward baseline", "2505.23585", "reference code",
               "The outcome minus a length-weighted mean; for episodes of very different lengths.", opo, ("tokens",)),
    CreditRule("mc_grpo", "Median-Centered GRPO", "2601.22582", "reference code",
               "The outcome relative to the median; for small groups with one extra episode sampled.", mc_grpo),
    CreditRule("ngrpo", "Negative-enhanced GRPO", "2509.18851", "reference code",
               "GRPO with one imaginary perfect episode per group, so that all-failed groups still learn.", ngrpo),
    CreditRule("raw", "The reward as the advantage (BRPO)", "2506.00103", "our reading",
               "Rewards that are advantages already, with 0 for neither good nor bad, such as preferences.", raw),
    CreditRule("taught", "Baseline of the policy's episodes (AMPO, RL-PLUS)", "2510.02227", "paper",
               "Other models play some episodes, which must not move the baseline.", taught, ("source",)),
)  # fmt: skip
