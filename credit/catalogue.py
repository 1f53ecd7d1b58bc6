"""Our own credit rules: name, title, arXiv id, evidence, when to use it, function, columns that it needs."""

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
from turnwise.credit.outcome.lite_ppo import lite_ppo
from turnwise.credit.outcome.mapo_mixed import mapo_mixed
from turnwise.credit.outcome.mc_grpo import mc_grpo
from turnwise.credit.outcome.ngrpo import ngrpo
from turnwise.credit.outcome.opo import opo
from turnwise.credit.outcome.passk import passk
from turnwise.credit.outcome.pshw import pshw
from turnwise.credit.outcome.psr_nsr import psr_nsr
from turnwise.credit.outcome.reinforce_pp import reinforce_pp, reinforce_pp_baseline
from turnwise.credit.outcome.remax import remax
from turnwise.credit.outcome.rloo import rloo
from turnwise.credit.outcome.seed_grpo import seed_grpo
from turnwise.credit.outcome.spo_single_stream import spo_single_stream
from turnwise.credit.outcome.taught import taught
from turnwise.credit.outcome.unlikely import unlikely
from turnwise.credit.outcome.xrpo_novelty import xrpo_novelty
from turnwise.credit.registry import CreditRule, register
from turnwise.credit.turn.archer import archer
from turnwise.credit.turn.arpo import arpo_hard, arpo_soft
from turnwise.credit.turn.arpo_replay import arpo_replay
from turnwise.credit.turn.bpo import bpo
from turnwise.credit.turn.continuations import continuations
from turnwise.credit.turn.dr_mas import dr_mas
from turnwise.credit.turn.flow_grpo import flow_grpo
from turnwise.credit.turn.gae import gae
from turnwise.credit.turn.gigpo import gigpo
from turnwise.credit.turn.graft import graft
from turnwise.credit.turn.graphgpo import graphgpo
from turnwise.credit.turn.hcapo import hcapo
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
from turnwise.credit.turn.spear import spear
from turnwise.credit.turn.spo_segment import spo_segment
from turnwise.credit.turn.step_grpo import step_grpo
from turnwise.credit.turn.tempo import tempo
from turnwise.credit.turn.tree_grpo import tree_grpo
from turnwise.credit.turn.trloo import trloo
from turnwise.credit.turn.vine import vine

__all__ = [  # the functions; turnwise.credit exports them
    "a_grae", "adora", "archer", "arpo_hard", "arpo_replay", "arpo_soft", "bnpo", "bpo", "canon", "continuations",
    "copo", "dcpo_sas", "dr_grpo", "dr_mas", "evol", "flow_grpo", "gae", "gdpo", "gigpo", "graft", "graphgpo", "grpo",
    "hapo", "hcapo", "hgpo", "himac", "lite_ppo", "loop", "m_grpo", "mapo_dialogue", "mapo_mixed", "mars", "mc_grpo",
    "mt_grpo", "ngrpo", "opo", "passk", "ppr_renorm", "pshw", "psr_nsr", "reinforce_pp", "reinforce_pp_baseline",
    "remax", "rloo", "rtmc", "salt", "seed_grpo", "seeupo", "slea", "spear", "spo_segment", "spo_single_stream",
    "step_grpo", "taught", "tempo", "tree_grpo", "trloo", "unlikely", "vine", "xrpo_novelty",
]  # fmt: skip

CATALOGUE = (
    # Outcome level.
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
    CreditRule("gdpo", "Group reward-Decoupled normalization Policy Optimization", "2601.05242", "paper",
               "Several rewards, each normalised on its own before they are added.", gdpo, ("multi",)),
    CreditRule("bnpo", "Beta Normalization Policy Optimization", "2506.02864", "reference code",
               "Outcomes weighted by how rare tasks of that success rate are in the batch.", bnpo),
    CreditRule("spo_single_stream", "Single-stream Policy Optimization", "2509.13232", "paper",
               "The outcome relative to a running estimate of the task's success rate; one episode per task.",
               spo_single_stream, ("metric",)),
    CreditRule("dcpo_sas", "Smoothed Advantage Standardization (DCPO)", "2509.02333", "paper",
               "The outcome relative to this group and all earlier visits of the task.", dcpo_sas),
    CreditRule("passk", "Pass@k policy optimization", "2503.19595", "reference code",
               "Credit for the best episode of a group only; trains for success in k attempts.", passk),
    CreditRule("psr_nsr", "Positive and negative sample reinforcement", "2506.01347", "paper",
               "Right or wrong without a baseline; penalising wrong answers keeps answers diverse.", psr_nsr),
    CreditRule("pshw", "Policy-Specific Hardness Weighting (Confucius3-Math)", "2506.18330", "paper",
               "Right or wrong minus the task's mean, with more weight on hard tasks; not scaled.", pshw),
    CreditRule("a_grae", "Asymmetric Group Relative Advantage Estimation", "2602.05548", "reference code",
               "GRPO that shifts weight to hard tasks as the batch gets easier.", a_grae),
    CreditRule("adora", "Advantage Dynamics via Online Rollout Adaptation", "2602.10019", "reference code",
               "GRPO at full strength only where longer answers were the right ones.", adora, ("tokens",)),
    CreditRule("canon", "Conditional Advantage Estimation", "2509.23962", "reference code",
               "Compares across and within two halves of a group, split by length or by a metric.", canon, ("tokens",)),
    CreditRule("mapo_mixed", "Mixed Advantage Policy Optimization", "2509.18849", "our reading",
               "GRPO, but relative deviation instead of a z-score near success rates of 0 and 1.", mapo_mixed),
    CreditRule("copo", "Consistency-aware Policy Optimization", "2508.04138", "our reading",
               "Compares groups with each other where a group's answers agree.", copo, ("label",)),
    CreditRule("unlikely", "Rewarding the Unlikely", "2506.02355", "paper",
               "Less reward for answers that the policy already finds likely; against mode collapse.",
               unlikely, ("logprob",)),
    CreditRule("xrpo_novelty", "XRPO's novelty sharpening", "2510.06672", "our reading",
               "A bonus for right answers that were less likely than the group's others.", xrpo_novelty, ("logprob",)),
    CreditRule("seed_grpo", "Semantic Entropy Enhanced GRPO", "2505.12346", "our reading",
               "Smaller steps on tasks whose answers mean many different things.", seed_grpo, ("label",)),
    CreditRule("evol", "EVOL-RL: majority for selection, novelty for variation", "2509.15194", "paper",
               "Without labels: the majority's answer counts as right, and novel reasoning is worth more.",
               evol, ("label", "metric")),
    CreditRule("hapo",
               "Heterogeneous Adaptive Policy Optimization, token-level average", "2509.16591", "reference code",
               "GRPO averaged over tokens; combine it with the token transform of the same name.", hapo, ("tokens",)),
    # Turn level.
    CreditRule("gigpo", "Group-in-Group Policy Optimization", "2505.10978", "reference code",
               "Outcome plus a comparison of turns that start from the same state; states must recur within a task.",
               gigpo, ("state",)),
    CreditRule("hgpo", "Hierarchy-of-Groups Policy Optimization", "2602.22817", "reference code",
               "gigpo's step term, with more weight on turns that also share their recent history.", hgpo, ("state",)),
    CreditRule("hcapo", "Hindsight Credit Assignment Policy Optimization", "2603.08754", "our reading",
               "Outcome plus returns weighted by what the policy, told the end, finds likely; states need not recur.",
               hcapo, ("hindsight",)),
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
    CreditRule("tree_grpo", "Tree-based Group Relative Policy Optimization", "2509.21240", "reference code",
               "Rollouts from tree search: leaves compared within their tree and across trees.", tree_grpo, ("tree",)),
    CreditRule("tempo", "Prefix-tree temporal differences (TEMPO), on turns", "2509.18314", "our reading",
               "Outcome plus the change in mean outcome where trajectories with a common past part ways; no critic.",
               tempo, ("state", "action")),
    CreditRule("arpo_soft", "Agentic Reinforced Policy Optimization, soft estimation", "2507.19849", "paper",
               "Branched rollouts, each path credited as an episode of its own.", arpo_soft),
    CreditRule("arpo_hard", "Agentic Reinforced Policy Optimization, hard estimation", "2507.19849", "our reading",
               "Branched rollouts, a shared turn credited with the mean of the paths that share it.",
               arpo_hard, ("parent",)),
    CreditRule("taught", "Baseline of the policy's episodes (AMPO, RL-PLUS)", "2510.02227", "paper",
               "Other models play some episodes, which must not move the baseline.", taught, ("source",)),
    CreditRule("continuations", "Worth by continuations (PPPO, MOTIF, MRT)", "2512.15274", "our reading",
               "Episodes that are played on several times from places inside them.", continuations,
               ("tree", "forked")),
    CreditRule("spo_segment", "Segment Policy Optimization", "2505.23564", "paper",
               "Change in estimated outcome from segment to segment, by resampling or from a tree.",
               spo_segment, ("value",)),
    CreditRule("bpo", "Branching Policy Optimization", "2607.14171", "our reading",
               "Branched rollouts: the branches of a fork compared with each other, trunks with the task.",
               bpo, ("parent",)),
    CreditRule("vine", "VinePPO, on turns", "2410.01679", "our reading",
               "True values by forks of every turn, or of some: what perfect credit would gain, at their cost.",
               vine, ("value",)),
    CreditRule("gae", "Generalized Advantage Estimation over turns", "1506.02438", "paper",
               "Generalised advantages from a critic that values the state before each turn.", gae, ("value",)),
    CreditRule("trloo", "Turn-level REINFORCE Leave-One-Out", "2602.05885", "reference code",
               "Each turn's return minus the mean return of the others at the same turn; unbiased.", trloo),
    CreditRule("mt_grpo", "Multi-Turn GRPO", "2505.11821", "paper",
               "Turns with rewards of their own (tool calls) on top of an outcome.", mt_grpo),
    CreditRule("mapo_dialogue", "Mixed Advantage Policy Optimization for dialogue (MICA)", "2603.06194", "our reading",
               "Turn rewards of dialogues, normalised per turn and over the batch, then mixed.", mapo_dialogue),
    CreditRule("mars", "Multi-agent reasoning through self-play (MARSHAL)", "2510.15414", "paper",
               "Self-play: returns of each player relative to its role, whitened over the batch.", mars, ("role",)),
    CreditRule("flow_grpo", "Flow-based Group Refined Policy Optimization (AgentFlow)", "2510.05592", "paper",
               "A team of modules of which only the planner is trained, on the outcome of the whole team.", flow_grpo),
    CreditRule("m_grpo", "GRPO for a main agent with sub-agents", "2511.13288", "our reading",
               "A main agent and its sub-agents, each compared with its own kind; can equalise the number of calls.",
               m_grpo, ("role",)),
    CreditRule("dr_mas", "Dr. MAS, agent-wise normalisation", "2602.08847", "paper",
               "A team with one outcome: each role compared with itself; w adds GiGPO's step term.", dr_mas, ("role",)),
    CreditRule("step_grpo", "Step-wise GRPO of R1-Router", "2505.22095", "our reading",
               "Several outputs sampled in the same state and rewarded at once.", step_grpo, ("state",)),
    CreditRule("himac", "Hierarchical Macro-Micro learning", "2603.00977", "our reading",
               "Agents that write a plan and follow it: plans compared with plans, episodes within their plan.",
               himac, ("role",)),
    CreditRule("loop", "Leave-One-Out PPO", "2502.01600", "paper",
               "The outcome minus the mean of the others, without episodes whose advantage is almost zero.", loop),
    CreditRule("spear", "Self-imitation with Progressive Exploration for Agentic RL", "2509.22601", "paper",
               "The outcome, with a memory that lets stored successes be evaluated again (spear_replay).", spear),
    CreditRule("arpo_replay", "Agentic Replay Policy Optimization, for screens", "2505.16282", "paper",
               "Rare successes: a group that failed throughout gets a stored success of its task.", arpo_replay),
    CreditRule("ppr_renorm", "Principle Process Reward, ReNorm", "2509.25598", "our reading",
               "Step scores and an outcome, both in [0, 1], with a critic.", ppr_renorm, ("metric", "value")),
    CreditRule("archer", "Actor-Critic with a Hierarchical structure", "2402.19446", "paper",
               "Utterance-level critics: Q minus V.", archer, ("metric", "value")),
    CreditRule("seeupo", "Sequence-level sequential Update Policy Optimization", "2602.06554", "our reading",
               "The outcome for updates that go turn by turn from the last to the first (update_passes).", seeupo),
)  # fmt: skip

for _rule in CATALOGUE:
    register(_rule)
