"""Our estimators, one line each: name, title, arXiv id, columns needed, evidence, when to take it, function.

Left out on purpose: the options; a function's signature and docstring have them.
"""

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
from turnwise.credit.registry import Entry, register
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
from turnwise.credit.turn.spear import spear
from turnwise.credit.turn.spo_segment import spo_segment
from turnwise.credit.turn.step_grpo import step_grpo
from turnwise.credit.turn.tempo import tempo
from turnwise.credit.turn.tree_grpo import tree_grpo
from turnwise.credit.turn.trloo import trloo

OURS = (
    # The outcome of episodes.
    Entry("grpo", "Group Relative Policy Optimization", "2402.03300", (), "reference code",
          "The outcome alone: every turn of an episode gets the same advantage.", grpo),
    Entry("dr_grpo", "GRPO Done Right", "2503.20783", (), "reference code",
          "The outcome less the task's mean, not scaled: easy and hard tasks weigh by their spread.", dr_grpo),
    Entry("rloo", "REINFORCE Leave-One-Out", "2402.14740", (), "reference code",
          "The outcome against the mean of the others: unbiased also in small groups.", rloo),
    Entry("remax", "ReMax", "2310.10505", ("value",), "paper",
          "The outcome against a greedy episode's, whose score is the first turn's value; needs no siblings.", remax),
    Entry("reinforce_pp", "REINFORCE++", "2501.03262", ("tokens",), "paper",
          "Returns on the scale of the whole batch, no groups: for many tasks with one episode each.", reinforce_pp),
    Entry("reinforce_pp_baseline", "REINFORCE++ with a group baseline", "2501.03262", ("tokens",), "reference code",
          "The outcome less the task's mean, scaled by the batch and not by the group.", reinforce_pp_baseline),
    Entry("opo", "On-Policy RL with Optimal reward baseline", "2505.23585", ("tokens",), "reference code",
          "The outcome less a mean weighted by length; take it where lengths differ much.", opo),
    Entry("mc_grpo", "Median-Centered GRPO", "2601.22582", (), "reference code",
          "The outcome against the median; for groups of few: sample one episode more than is trained on.", mc_grpo),
    Entry("ngrpo", "Negative-enhanced GRPO", "2509.18851", (), "reference code",
          "GRPO beside an imagined perfect episode: groups in which all failed teach too.", ngrpo),
    Entry("gdpo", "Group reward-Decoupled normalization Policy Optimization", "2601.05242", ("multi",), "paper",
          "Several rewards, each scaled apart before they are added, so that none drowns another.", gdpo),
    Entry("bnpo", "Beta Normalization Policy Optimization", "2506.02864", (), "reference code",
          "Outcomes weighed by how rare tasks of that success rate are in the batch.", bnpo),
    Entry("spo_single_stream", "Single-stream Policy Optimization", "2509.13232", ("metric",), "paper",
          "The outcome against a memory of the task's success rate: one episode a task.", spo_single_stream),
    Entry("dcpo_sas", "Smoothed Advantage Standardization (DCPO)", "2509.02333", (), "paper",
          "The outcome against this group and all earlier visits of the task: groups without spread still learn.",
          dcpo_sas),
    Entry("passk", "Pass@k policy optimization", "2503.19595", (), "reference code",
          "Credit for the best of a group alone: train for success in k tries.", passk),
    Entry("psr_nsr", "Positive and negative sample reinforcement", "2506.01347", (), "paper",
          "Right or wrong without a baseline; pushing wrong ones down keeps answers diverse.", psr_nsr),
    Entry("a_grae", "Asymmetric Group Relative Advantage Estimation", "2602.05548", (), "reference code",
          "GRPO that turns to hard tasks as the batch gets easier.", a_grae),
    Entry("adora", "Advantage Dynamics via Online Rollout Adaptation", "2602.10019", ("tokens",), "reference code",
          "GRPO in full only where longer answers were the right ones: to grow reasoning.", adora),
    Entry("canon", "Conditional Advantage Estimation", "2509.23962", ("tokens",), "reference code",
          "Compares across and within halves by length, or by a metric: brings out what the metric changes.", canon),
    Entry("mapo_mixed", "Mixed Advantage Policy Optimization", "2509.18849", (), "our reading",
          "Deviation in per cent instead of a z-score where nearly all or nearly no episode succeeds.", mapo_mixed),
    Entry("copo", "Consistency-aware Policy Optimization", "2508.04138", ("label",), "our reading",
          "Compares groups where a group's answers agree: all right or all wrong still teaches.", copo),
    Entry("unlikely", "Rewarding the Unlikely", "2506.02355", ("logprob",), "paper",
          "Less reward for what the policy finds likely: against the collapse onto one solution.", unlikely),
    Entry("xrpo_novelty", "XRPO's novelty sharpening", "2510.06672", ("logprob",), "our reading",
          "A bonus for right answers that were less likely than the group's others.", xrpo_novelty),
    Entry("seed_grpo", "Semantic Entropy Enhanced GRPO", "2505.12346", ("label",), "our reading",
          "Smaller steps on tasks whose answers mean many different things.", seed_grpo),
    Entry("evol", "EVOL-RL: majority for selection, novelty for variation", "2509.15194", ("label", "metric"),
          "paper",
          "Without labels: the majority's answer is right, and new reasoning is worth more.", evol),
    Entry("hapo", "Heterogeneous Adaptive Policy Optimization, token-level average", "2509.16591", ("tokens",),
          "reference code", "GRPO in which each token has a vote; goes with the transform of the same name.", hapo),
    # Turns told apart.
    Entry("gigpo", "Group-in-Group Policy Optimization", "2505.10978", ("state",), "reference code",
          "Outcome plus standing among turns from the same state; states must recur within a task.", gigpo),
    Entry("hgpo", "Hierarchy-of-Groups Policy Optimization", "2602.22817", ("state",), "reference code",
          "As gigpo's step term, with turns that share their recent history weighing more.", hgpo),
    Entry("salt", "Step-level Advantage Assignment via Trajectory Graph", "2510.20022", ("state", "action"),
          "our reading", "On top of an outcome method: steps that won and lost episodes share are not pushed.", salt),
    Entry("graphgpo", "Graph-based Group Policy Optimization", "2605.26684", ("state",), "paper",
          "Outcome plus nearness to the goal; credits turns of lost episodes that went a won one's way.", graphgpo),
    Entry("graft", "GRAFT, values iterated on the rollouts' graph", None, ("state",), "our reading",
          "Gain in the state's value, with values from all episodes of the task; states must recur.", graft),
    Entry("rtmc", "RTMC, Monte Carlo means over merged rollouts", None, ("state", "action"), "our reading",
          "What an action brought on average from a state; wants several turns for each choice.", rtmc),
    Entry("slea", "SLEA-RL", "2603.18079", ("state",), "our reading",
          "gigpo where states are never quite the same: by texts, or by embeddings given as metric.", slea),
    Entry("tree_grpo", "Tree-based Group Relative Policy Optimization", "2509.21240", ("tree",), "reference code",
          "Rollouts from tree search: leaves compared within their tree and across trees.", tree_grpo),
    Entry("tempo", "Prefix-tree temporal differences (TEMPO), on turns", "2509.18314", ("state", "action"),
          "our reading", "Outcome plus what changed where siblings with one past part ways; no critic.", tempo),
    Entry("arpo_soft", "Agentic Reinforced Policy Optimization, soft estimation", "2507.19849", (), "paper",
          "Branched rollouts, each path credited as an episode of its own.", arpo_soft),
    Entry("arpo_hard", "Agentic Reinforced Policy Optimization, hard estimation", "2507.19849", ("parent",),
          "our reading", "Branched rollouts, a shared turn credited with the mean of the paths that share it.",
          arpo_hard),
    Entry("spo_segment", "Segment Policy Optimization", "2505.23564", ("value",), "paper",
          "The outcome is estimated at every cut, by sampling on from there or by a tree.", spo_segment),
    Entry("gae", "Generalized Advantage Estimation over turns", "1506.02438", ("value",), "paper",
          "There is a critic that values the state before each turn.", gae),
    Entry("trloo", "Turn-level REINFORCE Leave-One-Out", "2602.05885", (), "reference code",
          "Rewards along the way: each turn's return against the others' at the same turn, without bias.", trloo),
    Entry("mt_grpo", "Multi-Turn GRPO", "2505.11821", (), "paper",
          "Turns that are paid for themselves (tool calls) on top of an outcome.", mt_grpo),
    Entry("mapo_dialogue", "Mixed Advantage Policy Optimization for dialogue (MICA)", "2603.06194", (), "our reading",
          "Dialogues judged turn by turn: standing at the same turn mixed with standing in the batch.", mapo_dialogue),
    Entry("mars", "Multi-agent reasoning through self-play (MARSHAL)", "2510.15414", ("role",), "paper",
          "Self-play: players with rewards of different size, whitened over the batch.", mars),
    Entry("flow_grpo", "Flow-based Group Refined Policy Optimization (AgentFlow)", "2510.05592", (), "paper",
          "A team of modules of which only the planner is trained, on the outcome of the whole.", flow_grpo),
    Entry("m_grpo", "GRPO for a main agent with sub-agents", "2511.13288", ("role",), "our reading",
          "A main agent and its sub-agents, each with rewards of its own; can even out the number of calls.", m_grpo),
    Entry("dr_mas", "Dr. MAS, agent-wise normalisation", "2602.08847", ("role",), "paper",
          "A team with one outcome: each role compared with itself; w adds GiGPO's step term.", dr_mas),
    Entry("step_grpo", "Step-wise GRPO of R1-Router", "2505.22095", ("state",), "our reading",
          "Several outputs sampled at the same state and judged on the spot.", step_grpo),
    Entry("himac", "Hierarchical Macro-Micro learning", "2603.00977", ("role",), "our reading",
          "Agents that write a plan and follow it: plans against plans, episodes against those of one plan.", himac),
    Entry("loop", "Leave-One-Out PPO", "2502.01600", (), "paper",
          "The outcome against the mean of the others, without episodes that hardly differ from it.", loop),
    Entry("spear", "Self-imitation with Progressive Exploration for Agentic RL", "2509.22601", (), "paper",
          "The outcome, with a memory by which stored successes are measured again (spear_replay).", spear),
    Entry("arpo_replay", "Agentic Replay Policy Optimization, for screens", "2505.16282", (), "paper",
          "Rare successes: a group that failed throughout gets a stored success of its task.", arpo_replay),
    Entry("ppr_renorm", "Principle Process Reward, ReNorm", "2509.25598", ("metric", "value"), "our reading",
          "Scores of steps and an outcome, both in [0, 1], under a critic.", ppr_renorm),
    Entry("archer", "Actor-Critic with a Hierarchical structure", "2402.19446", ("metric", "value"), "paper",
          "Critics of whole utterances: Q less V.", archer),
    Entry("seeupo", "Sequence-level sequential Update Policy Optimization", "2602.06554", (), "our reading",
          "The outcome for updates turn by turn from the last to the first (update_passes).", seeupo),
)  # fmt: skip

for _entry in OURS:
    register(_entry)
