"""Turns compared with others that start from the same state, or lie on the same path."""

from turncredit.credit.registry import CreditRule
from turncredit.credit.turn.gigpo import gigpo
from turncredit.credit.turn.graft import graft
from turncredit.credit.turn.graphgpo import graphgpo
from turncredit.credit.turn.hgpo import hgpo
from turncredit.credit.turn.rtmc import rtmc
from turncredit.credit.turn.salt import salt
from turncredit.credit.turn.slea import slea
from turncredit.credit.turn.step_grpo import step_grpo
from turncredit.credit.turn.tempo import tempo

__all__ = ["gigpo", "graft", "graphgpo", "hgpo", "rtmc", "salt", "slea", "step_grpo", "tempo"]

RULES = (
    CreditRule("gigpo", "Group-in-Group Policy Optimization", "2505.10978", "reference code",
               "Outcome plus a comparison of turns that start from the same state; states must recur within a task.",
               gigpo, ("state",)),
    CreditRule("hgpo", "Hierarchy-of-Groups Policy Optimization", "2602.22817", "reference code",
               "gigpo's step term, with more weight on turns that also share their recent history.", hgpo, ("state",)),
    CreditRule("salt", "Step-level Advantage Assignment via Trajectory Graph", "2510.20022", "our reading",
               "Any outcome rule, averaged over identical transitions of different episodes.",
               salt, ("state", "action")),
    CreditRule("graphgpo", "Graph-based Group Policy Optimization", "2605.26684", "paper",
               "Outcome plus progress toward the goal in the graph of states; also credits lost episodes' good turns.",
               graphgpo, ("state",)),
    CreditRule("graft", "GRAFT, values iterated on the rollouts' graph", None, "our reading",
               "Gain in state value, with values iterated over all episodes of the task; states must recur.",
               graft, ("state",)),
    CreditRule("rtmc", "Rollout-Tree Monte Carlo", "2604.11037", "our reading",
               "Mean return of the action in the state minus that of the state; needs several turns per choice.",
               rtmc, ("state", "action")),
    CreditRule("slea", "SLEA-RL", "2603.18079", "our reading",
               "gigpo for states that never recur exactly: matched by text similarity or by embeddings in `metric`.",
               slea, ("state",)),
    CreditRule("tempo", "Prefix-tree temporal differences (TEMPO), on turns", "2509.18314", "our reading",
               "Outcome plus the change in mean outcome where trajectories with a common past part ways; no critic.",
               tempo, ("state", "action")),
    CreditRule("step_grpo", "Step-wise GRPO of R1-Router", "2505.22095", "our reading",
               "Several outputs sampled in the same state and rewarded at once.", step_grpo, ("state",)),
)  # fmt: skip
