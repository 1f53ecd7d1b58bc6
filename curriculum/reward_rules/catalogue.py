"""Our own reward rules: name, title, arXiv id, evidence, when to use it, function, columns that it needs."""

from __future__ import annotations

from turncredit.curriculum.reward_rules.behaviours import (
    ada_grpo,
    gcpo,
    otc,
    parallel,
    prs,
    reflection,
    repetition,
)
from turncredit.curriculum.reward_rules.judged import e_grpo, genrm_pairs, knowrl, listener, pta, rlmt
from turncredit.curriculum.reward_rules.lengths import budget, cosine, dylr, l_grpo, overlong, tldr, truncate
from turncredit.curriculum.reward_rules.several import advevo, ensemble, weighted
from turncredit.curriculum.reward_rules.votes import con_rag, diversity, frequency, majority
from turncredit.curriculum.rewards import REWARD_RULES, RewardRule
from turncredit.curriculum.rule_registry import getter

__all__ = ["CATALOGUE", "REWARD_RULES", "get_reward_rule"]

CATALOGUE: tuple[RewardRule, ...] = (
    # Length.
    RewardRule("overlong", "Soft overlong punishment (DAPO)", "2503.14476", "paper",
               "A penalty that grows toward the limit of length.", overlong, ("tokens",)),
    RewardRule("truncate", "Truncation only (DLER)", "2510.15110", "paper",
               "Nothing for episodes that reach the limit of length, and no other reward of length.",
               truncate, ("tokens",), divides=True),
    RewardRule("cosine", "Cosine reward of length", "2502.03373", "paper",
               "Short wins earn more than long ones; short losses are charged more than long ones.",
               cosine, ("tokens",)),
    RewardRule("l_grpo", "ConciseR, second stage", "2505.21178", "our reading",
               "Length counts only where the whole group wins.", l_grpo, ("tokens",)),
    RewardRule("budget", "Train Long, Think Short", "2508.08940", "our reading",
               "A budget of length that shrinks during the run.", budget, ("tokens",), divides=True),
    RewardRule("dylr", "Dynamic length reward (VL-Cogito)", "2507.22607", "paper",
               "Lost episodes are drawn to the length of the group's won ones.", dylr, ("tokens",), divides=True),
    RewardRule("tldr", "TLDR, length by the prompt's level", None, "our reading",
               "A penalty for more than the prompt allowed.", tldr, ("tokens", "length_budget")),
    # Several rewards.
    RewardRule("ensemble", "Reward model ensembles", "2310.02743", "paper",
               "Several judges: their mean, the worst, or the mean less their variance.", ensemble, ("multi",)),
    RewardRule("weighted", "Weighted objectives", "2503.21819", "our reading",
               "Several objectives in one sum.", weighted, ("multi",)),
    RewardRule("advevo", "AdvEvo-MARL", "2510.01586", "our reading",
               "Attackers and defenders: safety first, then the task.", advevo, ("role", "multi")),
    # Without labels.
    RewardRule("majority", "Majority vote (TTRL)", "2504.16084", "paper",
               "No label is known: the group's most frequent answer counts as right.",
               majority, ("label",), divides=True),
    RewardRule("frequency", "Frequency of the answer (TTRV)", "2510.06783", "our reading",
               "No label is known: an answer is worth the share of the group that gave it.", frequency, ("label",)),
    RewardRule("con_rag", "Consistency over wordings (Con-RAG)", "2510.04392", "our reading",
               "The same answer to every wording of a question.", con_rag, ("answer", "wording", "question")),
    RewardRule("diversity", "Diversity of winners (MultiRole-R1)", "2507.20187", "our reading",
               "A bonus for winners that are unlike the others.", diversity, ("metric",), divides=True),
    # Judges.
    RewardRule("knowrl", "KnowRL", "2506.19807", "paper",
               "Wrong answers are worth more the more of their facts are supported.",
               knowrl, ("facts", "supported", "refused")),
    RewardRule("genrm_pairs", "Pairwise judge with a bootstrapped reference (BRPO)", "2506.00103", "our reading",
               "A judge compares each answer with one of the group.", genrm_pairs, ("preferred",)),
    RewardRule("rlmt", "RL with model-rewarded thinking", "2509.20357", "our reading",
               "A reward model's score of the answer.", rlmt, ("judge",)),
    RewardRule("pta", "PTA-GRPO", "2510.01833", "our reading",
               "A reward for the plan beside that for the outcome.", pta, ("plan_score",)),
    RewardRule("listener", "Listener-augmented reward", "2506.22832", "our reading",
               "Thoughts must convince another model.", listener, ("confidence",)),
    RewardRule("e_grpo", "Entity-aware reward (E-GRPO)", "2510.24694", "paper",
               "Lost searches earn a part for the entities that they came across.", e_grpo, ("entities",)),
    # Behaviour.
    RewardRule("prs", "Progressive reward shaping (VSPO)", "2512.07478", "our reading",
               "Read, then call, then answer: each stage is paid once the one before it is passed.",
               prs, ("action", "valid")),
    RewardRule("otc", "Optimal tool calls (OTC)", "2504.14870", "our reading",
               "Wins in fewer turns earn more.", otc),
    RewardRule("gcpo", "Group contrastive reward of a tool (GeometryZero)", "2506.07160", "our reading",
               "An optional tool is paid where its users win more than the others.", gcpo, ("used",)),
    RewardRule("ada_grpo", "Adaptive formats (ARM)", "2505.20258", "paper",
               "Rare formats of an answer count more in the first half of the run.", ada_grpo, ("format",)),
    RewardRule("repetition", "Repetition penalty (MiroMind-M1)", "2507.14683", "paper",
               "Against answers that repeat their tail up to the limit.", repetition, ("repeated",)),
    RewardRule("reflection", "Reflection reward (SRPO)", "2506.01713", "our reading",
               "A second answer that mends a wrong first one is paid.", reflection, ("first_right",)),
    RewardRule("parallel", "Parallel-R1", "2509.07980", "our reading",
               "In a part of the iterations, wins with a parallel block earn more.",
               parallel, ("parallel",), divides=True),
)  # fmt: skip

for _rule in CATALOGUE:
    REWARD_RULES.register(_rule.name, _rule)

get_reward_rule = getter(REWARD_RULES)
