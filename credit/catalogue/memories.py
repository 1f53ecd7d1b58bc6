"""Episodes against what happened before: earlier episodes of their task, or stored ones."""

from turncredit.credit.outcome.dcpo import dcpo_sas
from turncredit.credit.outcome.spo_single_stream import spo_single_stream
from turncredit.credit.outcome.v05 import v05
from turncredit.credit.registry import CreditRule
from turncredit.credit.turn.arpo_replay import arpo_replay
from turncredit.credit.turn.spear import spear

__all__ = ["arpo_replay", "dcpo_sas", "spear", "spo_single_stream", "v05"]

RULES = (
    CreditRule("spo_single_stream", "Single-stream Policy Optimization", "2509.13232", "paper",
               "The outcome relative to a running estimate of the task's success rate; one episode per task.",
               spo_single_stream, ("metric",)),
    CreditRule("dcpo_sas", "Smoothed Advantage Standardization (DCPO)", "2509.02333", "paper",
               "The outcome relative to this group and all earlier visits of the task.", dcpo_sas),
    CreditRule("v05", "Baseline shrunk toward a prior value (V0.5)", "2603.10848", "our reading",
               "Small groups of tasks that were played before; groups that ended alike teach something too.",
               v05, binary={}),
    CreditRule("spear", "Self-imitation with Progressive Exploration for Agentic RL", "2509.22601", "paper",
               "The outcome, with a memory that lets stored successes be evaluated again (spear_replay).", spear),
    CreditRule("arpo_replay", "Agentic Replay Policy Optimization, for screens", "2505.16282", "paper",
               "Rare successes: a group that failed throughout gets a stored success of its task.", arpo_replay),
)  # fmt: skip
