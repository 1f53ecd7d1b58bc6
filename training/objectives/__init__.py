"""Objectives: pure functions from log-probabilities to a loss, and how tokens are weighed into one number."""

from turnwise.training.objectives.aggregate import AGGREGATIONS, token_weights
from turnwise.training.objectives.kl import KL_ESTIMATORS, kl
from turnwise.training.objectives.ppo import Objective, ppo_clip

__all__ = ["AGGREGATIONS", "KL_ESTIMATORS", "Objective", "kl", "ppo_clip", "token_weights"]
