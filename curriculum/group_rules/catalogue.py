"""Our own group rules: name, title, arXiv id, evidence, when to use it, function."""

from __future__ import annotations

from turncredit.curriculum.group_rules.arpo import arpo
from turncredit.curriculum.group_rules.continuations import motif, mrt, pppo
from turncredit.curriculum.group_rules.forest import forest, uct
from turncredit.curriculum.group_rules.plan_hints import ghpo, sage, scaf_grpo
from turncredit.curriculum.group_rules.reinforce_ada import reinforce_ada
from turncredit.curriculum.group_rules.roll_in import expert_roll_in
from turncredit.curriculum.group_rules.seele import seele
from turncredit.curriculum.group_rules.stopping import dapo, probe, v05, xrpo
from turncredit.curriculum.group_rules.stored import arpo_gui, r3_ccr, ssb
from turncredit.curriculum.group_rules.subsets import dagrpo, drkernel_prs, pods, prof, rorecomp, ttrl
from turncredit.curriculum.group_rules.teachers import ampo, rl_plus
from turncredit.curriculum.group_rules.told import lessons, self_reflection, slea
from turncredit.curriculum.group_rules.trees import spo_tree, tree_grpo, treerl
from turncredit.curriculum.growth import GROUP_RULES, GroupRule
from turncredit.curriculum.rule_registry import getter

__all__ = ["CATALOGUE", "GROUP_RULES", "get_group_rule"]

CATALOGUE = (
    GroupRule("dapo", "Dynamic sampling (DAPO)", "2503.14476", "paper",
              "Another task instead of a group that teaches nothing, since all its episodes ended alike.", dapo),
    GroupRule("reinforce_ada", "Adaptive sampling (Reinforce-Ada)", "2510.04996", "paper",
              "Tasks that are seldom won, or seldom lost, are played until both outcomes are there.", reinforce_ada),
    GroupRule("probe", "Probes of the pool (MMR1)", None, "paper",
              "With the task rule mmr1 and its option `probe`: the whole pool is played now and then.", probe),
    GroupRule("v05", "Stopping by a prior value (V0.5)", "2603.10848", "our reading",
              "Fewer episodes of tasks that end as they did before.", v05),
    GroupRule("xrpo", "Allocation by uncertainty (XRPO)", "2510.06672", "our reading",
              "More episodes of tasks whose mean reward is still uncertain.", xrpo),
    GroupRule("pods", "Down-sampling by variance (PODS)", "2504.13818", "paper",
              "Many episodes are cheap and updates are not: the best and the worst are trained on.", pods),
    GroupRule("prof", "Process consistency filter (PROF)", "2509.03403", "our reading",
              "Turns have process scores: winners by luck and losers by accident are left out.", prof),
    GroupRule("rorecomp", "Recomposed groups (RoRecomp)", "2509.25958", "our reading",
              "Episodes should become shorter, without a penalty in the reward.", rorecomp),
    GroupRule("dagrpo", "Distinct pairs (DaGRPO)", "2512.06337", "our reading",
              "Winners and losers are often almost the same.", dagrpo),
    GroupRule("drkernel_prs", "Profiling-based rejection sampling (Dr. Kernel)", "2602.05885", "paper",
              "A success may be hollow, and a column says how much of it is real.", drkernel_prs),
    GroupRule("ttrl", "Votes of more than are trained on (TTRL)", "2504.16084", "paper",
              "The reward is a vote, which needs more episodes than the update.", ttrl),
    # Stored episodes.
    GroupRule("arpo_gui", "ARPO with replay for GUI agents", "2505.16282", "paper",
              "A stored success in the place of a failure where a whole group failed.", arpo_gui, replays=True),
    GroupRule("r3_ccr", "Cross-context replay (R3)", "2601.19620", "paper",
              "A stored episode of the opposite outcome for a group that ended alike.", r3_ccr, replays=True),
    GroupRule("ssb", "Selective sample buffer (Skywork R1V2)", "2504.16656", "our reading",
              "Stored episodes of a task in the place of a group that teaches nothing.", ssb, replays=True),
    # Other models.
    GroupRule("ampo", "Teachers for lost groups (AMPO)", "2510.02227", "paper",
              "Other models win what the policy never does.", ampo, taught=True),
    GroupRule("rl_plus", "A teacher in every group (RL-PLUS)", "2508.00222", "paper",
              "Episodes of another model are learned from beside the policy's own.", rl_plus, taught=True),
    # Words.
    GroupRule("lessons", "Lessons in the prompt (Training-Free GRPO)", "2510.08191", "paper",
              "Shows what the run has learned in words to every episode.", lessons),
    GroupRule("slea", "Lessons turn by turn (SLEA-RL)", "2603.18079", "our reading",
              "Shows each turn what was learned in states like its own.", slea),
    GroupRule("self_reflection", "In-context self-refinement (R3)", "2601.19620", "paper",
              "Shows a failed attempt at the same task where it is seldom won.", self_reflection),

    GroupRule("ghpo", "Guided groups (GHPO)", "2507.10628", "our reading",
              "Groups that nobody won are played again with more and more of the plan.", ghpo),
    GroupRule("scaf_grpo", "Scaffolded winners (Scaf-GRPO)", "2510.19807", "paper",
              "Groups that nobody won get one winner, with as little of the plan as suffices.", scaf_grpo),
    GroupRule("seele", "Hints for a success of one half (SEELE)", "2509.06923", "paper",
              "Every task is made as hard as teaches most, by the share of the plan that is shown.", seele),
    GroupRule("sage", "Hint levels from visit to visit (SAGE)", "2602.03143", "our reading",
              "Hints that cost no episodes: the next visit of a lost task shows more.", sage),
    GroupRule("expert_roll_in", "Roll-in by a guide (RLGF)", "2306.11816", "our reading",
              "Long tasks whose end the policy never sees: some episodes begin in the middle of a success.",
              expert_roll_in),
    GroupRule("forest", "Forks where a rule says", None, "our reading",
              "Trees by any rule of `turncredit list forks`, at the cost of whole episodes or less.", forest),
    GroupRule("uct", "Upper confidence bounds for trees", None, "our reading",
              "A search: forks go where episodes scored well, or where few went.", uct),
    GroupRule("arpo", "Branches by entropy (ARPO)", "2507.19849", "paper",
              "The environment's answers surprise the policy, and what it does then matters.", arpo),
    GroupRule("tree_grpo", "Trees by random branches (Tree-GRPO)", "2509.21240", "paper",
              "More episodes for the same tokens, compared within their tree.", tree_grpo),
    GroupRule("treerl", "Trees by uncertain answers (TreeRL)", "2506.11902", "paper",
              "The same with branches where the policy was least certain.", treerl),
    GroupRule("spo_tree", "Trees of a fixed branching (SPO-tree)", "2505.23564", "paper",
              "A value for each segment of an episode from the leaves below it.", spo_tree),
    GroupRule("pppo", "Continued prefixes (PPPO)", "2512.15274", "our reading",
              "The first steps decide, and are judged by many ways on.", pppo),
    GroupRule("motif", "Continued first turns (MOTIF)", "2507.02851", "our reading",
              "The first turn decides, and is judged by several ways on.", motif),
    GroupRule("mrt", "Continued blocks (MRT)", "2503.07572", "our reading",
              "Progress from block to block matters, and is worth many episodes.", mrt),
)  # fmt: skip

for _rule in CATALOGUE:
    GROUP_RULES.register(_rule.name, _rule)

get_group_rule = getter(GROUP_RULES)
