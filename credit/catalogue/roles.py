"""Turns of several agents: players, planners, teams."""

from turncredit.credit.registry import CreditRule
from turncredit.credit.turn.dr_mas import dr_mas
from turncredit.credit.turn.flow_grpo import flow_grpo
from turncredit.credit.turn.himac import himac
from turncredit.credit.turn.m_grpo import m_grpo
from turncredit.credit.turn.mars import mars

__all__ = ["dr_mas", "flow_grpo", "himac", "m_grpo", "mars"]

RULES = (
    CreditRule("mars", "Multi-agent reasoning through self-play (MARSHAL)", "2510.15414", "paper",
               "Self-play: returns of each player relative to its role, whitened over the batch.", mars, ("role",)),
    CreditRule("flow_grpo", "Flow-based Group Refined Policy Optimization (AgentFlow)", "2510.05592", "paper",
               "A team of modules of which only the planner is trained, on the outcome of the whole team.", flow_grpo),
    CreditRule("m_grpo", "GRPO for a main agent with sub-agents", "2511.13288", "our reading",
               "A main agent and its sub-agents, each compared with its own kind; can equalise the number of calls.",
               m_grpo, ("role",), callers=True),
    CreditRule("dr_mas", "Dr. MAS, agent-wise normalisation", "2602.08847", "paper",
               "A team with one outcome: each role compared with itself; w adds GiGPO's step term.", dr_mas, ("role",)),
    CreditRule("himac", "Hierarchical Macro-Micro learning", "2603.00977", "our reading",
               "Agents that write a plan and follow it: plans compared with plans, episodes within their plan.",
               himac, ("role",), callers=True),
)  # fmt: skip
