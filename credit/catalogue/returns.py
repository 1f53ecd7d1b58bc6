"""Turns by what followed them: discounted returns, critics, hindsight."""

from turncredit.credit.registry import CreditRule
from turncredit.credit.turn.archer import archer
from turncredit.credit.turn.gae import gae
from turncredit.credit.turn.hcapo import hcapo
from turncredit.credit.turn.loop import loop
from turncredit.credit.turn.mapo_dialogue import mapo_dialogue
from turncredit.credit.turn.mt_grpo import mt_grpo
from turncredit.credit.turn.ppr_renorm import ppr_renorm
from turncredit.credit.turn.seeupo import seeupo
from turncredit.credit.turn.trloo import trloo

__all__ = ["archer", "gae", "hcapo", "loop", "mapo_dialogue", "mt_grpo", "ppr_renorm", "seeupo", "trloo"]

RULES = (
    CreditRule("hcapo", "Hindsight Credit Assignment Policy Optimization", "2603.08754", "our reading",
               "Outcome plus returns weighted by what the policy, told the end, finds likely; states need not recur.",
               hcapo, ("hindsight",), binary={"protect": True}),
    CreditRule("gae", "Generalized Advantage Estimation over turns", "1506.02438", "paper",
               "Generalised advantages from a critic that values the state before each turn.", gae, ("value",)),
    CreditRule("trloo", "Turn-level REINFORCE Leave-One-Out", "2602.05885", "reference code",
               "Each turn's return minus the mean return of the others at the same turn; unbiased.", trloo),
    CreditRule("mt_grpo", "Multi-Turn GRPO", "2505.11821", "paper",
               "Turns with rewards of their own (tool calls) on top of an outcome.", mt_grpo),
    CreditRule("mapo_dialogue", "Mixed Advantage Policy Optimization for dialogue (MICA)", "2603.06194", "our reading",
               "Turn rewards of dialogues, normalised per turn and over the batch, then mixed.", mapo_dialogue),
    CreditRule("loop", "Leave-One-Out PPO", "2502.01600", "paper",
               "The outcome minus the mean of the others, without episodes whose advantage is almost zero.", loop),
    CreditRule("ppr_renorm", "Principle Process Reward, ReNorm", "2509.25598", "our reading",
               "Step scores and an outcome, both in [0, 1], with a critic.", ppr_renorm, ("metric", "value")),
    CreditRule("archer", "Actor-Critic with a Hierarchical structure", "2402.19446", "paper",
               "Utterance-level critics: Q minus V.", archer, ("metric", "value")),
    CreditRule("seeupo", "Sequence-level sequential Update Policy Optimization", "2602.06554", "our reading",
               "The outcome for updates that go turn by turn from the last to the first (update_passes).", seeupo),
)  # fmt: skip
