"""Objectives: pure functions from log-probabilities to a loss, and how tokens are weighed into one number."""

from turncredit.training.objectives.adaptive_bounds import dcpo, etr, hapo
from turncredit.training.objectives.aggregate import AGGREGATIONS, token_weights
from turncredit.training.objectives.catalogue import ObjectiveInfo, get, objectives
from turncredit.training.objectives.correction import CORRECTIONS, corrections
from turncredit.training.objectives.entropy_collapse import aepo, clip_cov, kl_cov, ter
from turncredit.training.objectives.function import ObjectiveFunction, objective
from turncredit.training.objectives.group_losses import disco, drpo, grao, p3o, pacs, reg_grpo
from turncredit.training.objectives.kl import KL_ESTIMATORS, kl
from turncredit.training.objectives.policy_gradient import (
    a_lol,
    a_lol_ref_free,
    a_lol_seq,
    asymre,
    dro,
    kl_penalty,
    llds,
    opmd,
    otr,
    rec,
    reinforce,
    rover,
)
from turncredit.training.objectives.ppo import ampo, decoupled, imitation_weight, ppo_clip, rl_plus, self_imitation
from turncredit.training.objectives.run_objective import Objective
from turncredit.training.objectives.sequence_ratios import dhpo, gmpo, gspo, gspo_token, sspo, vespo
from turncredit.training.objectives.soft_clipping import cispo, dppo_tv, sapo
from turncredit.training.objectives.terms import Terms
from turncredit.training.objectives.tokens import Tokens

__all__ = [
    "AGGREGATIONS",
    "CORRECTIONS",
    "KL_ESTIMATORS",
    "Objective",
    "ObjectiveFunction",
    "ObjectiveInfo",
    "Terms",
    "Tokens",
    "a_lol",
    "a_lol_ref_free",
    "a_lol_seq",
    "aepo",
    "ampo",
    "asymre",
    "cispo",
    "clip_cov",
    "corrections",
    "dcpo",
    "decoupled",
    "dhpo",
    "disco",
    "dppo_tv",
    "dro",
    "drpo",
    "etr",
    "get",
    "gmpo",
    "grao",
    "gspo",
    "gspo_token",
    "hapo",
    "imitation_weight",
    "kl",
    "kl_cov",
    "kl_penalty",
    "llds",
    "objective",
    "objectives",
    "opmd",
    "otr",
    "p3o",
    "pacs",
    "ppo_clip",
    "rec",
    "reg_grpo",
    "reinforce",
    "rl_plus",
    "rover",
    "sapo",
    "self_imitation",
    "sspo",
    "ter",
    "token_weights",
    "vespo",
]
