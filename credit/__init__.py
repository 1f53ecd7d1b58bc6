"""Credit assignment: from turns with rewards to one advantage per turn. It needs numpy only.

    from turnwise.credit import Steps, gigpo
    advantages = gigpo(Steps.from_rows(rows)).values

Every rule raises MissingColumn if the table lacks a column that it needs, and BadOption if an option has an impossible
value.
"""

from turnwise.credit.advantages import Advantages
from turnwise.credit.catalogue import CATALOGUE
from turnwise.credit.errors import BadOption, BadTable, CreditError, MissingColumn, UnknownRule
from turnwise.credit.graph import to_dot, to_graphml, to_json, trajectory_graph
from turnwise.credit.numerics import discounted_returns
from turnwise.credit.outcome.a_grae import a_grae
from turnwise.credit.outcome.adora import adora
from turnwise.credit.outcome.bnpo import bnpo
from turnwise.credit.outcome.canon import canon
from turnwise.credit.outcome.copo import copo
from turnwise.credit.outcome.dcpo import dcpo_sas
from turnwise.credit.outcome.dr_grpo import dr_grpo
from turnwise.credit.outcome.evol import evol
from turnwise.credit.outcome.gdpo import gdpo
from turnwise.credit.outcome.grpo import grpo
from turnwise.credit.outcome.hapo import hapo
from turnwise.credit.outcome.mapo_mixed import mapo_mixed
from turnwise.credit.outcome.mc_grpo import mc_grpo
from turnwise.credit.outcome.ngrpo import ngrpo
from turnwise.credit.outcome.opo import opo
from turnwise.credit.outcome.passk import passk
from turnwise.credit.outcome.psr_nsr import psr_nsr
from turnwise.credit.outcome.reinforce_pp import reinforce_pp, reinforce_pp_baseline
from turnwise.credit.outcome.remax import remax
from turnwise.credit.outcome.rloo import rloo
from turnwise.credit.outcome.seed_grpo import seed_grpo
from turnwise.credit.outcome.spo_single_stream import spo_single_stream
from turnwise.credit.outcome.unlikely import unlikely
from turnwise.credit.outcome.xrpo_novelty import xrpo_novelty
from turnwise.credit.registry import CreditRule, get, register, rules
from turnwise.credit.steps import Steps
from turnwise.credit.tokens.gae import TokenAdvantages, bilevel_gae, gae_tokens
from turnwise.credit.tokens.tempo import tempo_tokens
from turnwise.credit.turn.archer import archer
from turnwise.credit.turn.arpo import arpo_hard, arpo_soft
from turnwise.credit.turn.arpo_replay import arpo_replay
from turnwise.credit.turn.dr_mas import dr_mas
from turnwise.credit.turn.flow_grpo import flow_grpo
from turnwise.credit.turn.gae import gae
from turnwise.credit.turn.gigpo import gigpo
from turnwise.credit.turn.graft import graft
from turnwise.credit.turn.graphgpo import graphgpo
from turnwise.credit.turn.hgpo import hgpo
from turnwise.credit.turn.himac import himac
from turnwise.credit.turn.loop import loop
from turnwise.credit.turn.m_grpo import m_grpo
from turnwise.credit.turn.mapo_dialogue import mapo_dialogue
from turnwise.credit.turn.mars import mars
from turnwise.credit.turn.mt_grpo import mt_grpo
from turnwise.credit.turn.ppr_renorm import ppr_renorm
from turnwise.credit.turn.rtmc import rtmc
from turnwise.credit.turn.salt import salt
from turnwise.credit.turn.seeupo import seeupo
from turnwise.credit.turn.slea import slea
from turnwise.credit.turn.spear import spear, spear_replay
from turnwise.credit.turn.spo_segment import spo_segment
from turnwise.credit.turn.step_grpo import step_grpo
from turnwise.credit.turn.tempo import tempo
from turnwise.credit.turn.tree_grpo import tree_grpo
from turnwise.credit.turn.trloo import trloo

__all__ = [
    "CATALOGUE",
    "Advantages",
    "BadOption",
    "BadTable",
    "CreditError",
    "CreditRule",
    "MissingColumn",
    "Steps",
    "TokenAdvantages",
    "UnknownRule",
    "a_grae",
    "adora",
    "archer",
    "arpo_hard",
    "arpo_replay",
    "arpo_soft",
    "bilevel_gae",
    "bnpo",
    "canon",
    "copo",
    "dcpo_sas",
    "discounted_returns",
    "dr_grpo",
    "dr_mas",
    "evol",
    "flow_grpo",
    "gae",
    "gae_tokens",
    "gdpo",
    "get",
    "gigpo",
    "graft",
    "graphgpo",
    "grpo",
    "hapo",
    "hgpo",
    "himac",
    "loop",
    "m_grpo",
    "mapo_dialogue",
    "mapo_mixed",
    "mars",
    "mc_grpo",
    "mt_grpo",
    "ngrpo",
    "opo",
    "passk",
    "ppr_renorm",
    "psr_nsr",
    "register",
    "reinforce_pp",
    "reinforce_pp_baseline",
    "remax",
    "rloo",
    "rtmc",
    "rules",
    "salt",
    "seed_grpo",
    "seeupo",
    "slea",
    "spear",
    "spear_replay",
    "spo_segment",
    "spo_single_stream",
    "step_grpo",
    "tempo",
    "tempo_tokens",
    "to_dot",
    "to_graphml",
    "to_json",
    "trajectory_graph",
    "tree_grpo",
    "trloo",
    "unlikely",
    "xrpo_novelty",
]
