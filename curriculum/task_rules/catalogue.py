"""Our own task rules: name, title, arXiv id, evidence, when to use it, function."""

from __future__ import annotations

from turncredit.curriculum.draws import TASK_RULES, TaskRule
from turncredit.curriculum.rule_registry import getter
from turncredit.curriculum.task_rules.craft_gui import craft_gui
from turncredit.curriculum.task_rules.cures import cures
from turncredit.curriculum.task_rules.dots import dots
from turncredit.curriculum.task_rules.gdro_prompt import gdro_prompt
from turncredit.curriculum.task_rules.gdro_rollout import gdro_rollout
from turncredit.curriculum.task_rules.hardest import hardest
from turncredit.curriculum.task_rules.knapsack import knapsack
from turncredit.curriculum.task_rules.levels import levels
from turncredit.curriculum.task_rules.mix import mix
from turncredit.curriculum.task_rules.mmr1 import mmr1
from turncredit.curriculum.task_rules.observe_r1 import observe_r1
from turncredit.curriculum.task_rules.pcurl import pcurl
from turncredit.curriculum.task_rules.self_reflection import self_reflection
from turncredit.curriculum.task_rules.spo import spo
from turncredit.curriculum.task_rules.uniform import uniform
from turncredit.curriculum.task_rules.v0 import v0
from turncredit.curriculum.task_rules.vade import vade
from turncredit.curriculum.task_rules.vspo import vspo
from turncredit.curriculum.task_rules.we_math import we_math

__all__ = ["CATALOGUE", "TASK_RULES", "get_task_rule"]

CATALOGUE = (
    TaskRule("craft_gui", "Curriculum by the expert's number of turns (CRAFT-GUI)", "2508.11360", "our reading",
             "Short tasks first, where the number of turns of an expert is remembered.", craft_gui),
    TaskRule("cures", "Curriculum by the spread of outcomes (CurES)", "2510.01037", "paper",
             "Tasks that are won about half of the time come more often, and with more episodes.", cures),
    TaskRule("dots", "Difficulty-targeted Online Data Selection (DOTS)", "2506.05316", "paper",
             "Only the tasks nearest to a difficulty, by a prediction or by the last visit.", dots),
    TaskRule("gdro_prompt", "Prompt-GDRO, weights by difficulty", "2601.19280", "paper",
             "Every task once an epoch; groups of the bins with the largest loss weigh more.", gdro_prompt),
    TaskRule("gdro_rollout", "Rollout-GDRO, group sizes by difficulty", "2601.19280", "paper",
             "Every task once an epoch, with a size of group for each bin of difficulty.", gdro_rollout),
    TaskRule("hardest", "Phases on the hardest tasks (DRIVE)", "2511.06307", "paper",
             "When most of the pool is won: ever smaller parts of it, the hardest.", hardest),
    TaskRule("knapsack", "Knapsack RL, group sizes by dynamic programming", "2509.25849", "paper",
             "Episodes from tasks that are always won to those that are almost always lost.", knapsack),
    TaskRule("levels", "Levels, the easiest first", None, "our reading",
             "A pool of several levels (`tiny/...`, `small/...`): the next one when the mean success is high enough.",
             levels),
    TaskRule("mix", "Two task rules, each for a share", None, "our reading",
             "To keep a share of all tasks beside a rule that prefers some.", mix),
    TaskRule("mmr1", "Variance-aware sampling (MMR1)", None, "paper",
             "Half of the groups by the spread of outcomes and metrics of your own, half from all tasks.", mmr1),
    TaskRule("observe_r1", "Weights by the spread of outcomes (Observe-R1)", None, "our reading",
             "Every task once an epoch; groups count less whose task was almost always won or lost.", observe_r1),
    TaskRule("pcurl", "Progressive curriculum, weights (VL-Cogito)", None, "paper",
             "Every task once an epoch; easy ones count first, then medium, then hard ones.", pcurl),
    TaskRule("self_reflection", "In-context self-reflection (R3)", "2601.19620", "paper",
             "Marks tasks that are mostly lost, so that their prompt can show a wrong attempt.", self_reflection),
    TaskRule("spo", "Prioritised sampling of SPO (single-stream)", "2509.13232", "paper",
             "Groups of one episode, with the credit rule spo_single_stream.", spo),
    TaskRule("uniform", "Every task once an epoch", None, "paper",
             "The default: no task is preferred.", uniform),
    TaskRule("v0", "Group sizes by a value model (V0)", "2602.03584", "our reading",
             "As knapsack, for rates of success that a model of your own predicts.", v0),
    TaskRule("vade", "Thompson sampling of what teaches most (VADE)", "2511.18902", "our reading",
             "A large pool of mixed difficulty: tasks that are won a third of the time, and unknown ones.", vade),
    TaskRule("vspo", "Tasks by value instead of those without spread (VSPO)", "2512.07478", "our reading",
             "Every task once an epoch, but for those whose episodes last all ended alike.", vspo),
    TaskRule("we_math", "Ladders of variants (We-Math 2.0)", None, "our reading",
             "Tasks with variants of growing difficulty, `q`, `q+steps`, `q+image+steps`.", we_math),
)  # fmt: skip

for _rule in CATALOGUE:
    TASK_RULES.register(_rule.name, _rule)

get_task_rule = getter(TASK_RULES)
