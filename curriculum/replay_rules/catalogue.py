"""Our own replay rules: name, title, arXiv id, evidence, when to use it, function."""

from __future__ import annotations

from turncredit.curriculum.replay import REPLAY_RULES, ReplayRule
from turncredit.curriculum.replay_rules.spear import spear
from turncredit.curriculum.replay_rules.stored_groups import dots_rr, rorecomp, successes
from turncredit.curriculum.rule_registry import getter

__all__ = ["CATALOGUE", "REPLAY_RULES", "get_replay_rule"]

CATALOGUE = (
    ReplayRule("spear", "Self-imitation (SPEAR)", "2509.22601", "paper",
               "Good episodes are learned from again once there are enough of them.", spear),
    ReplayRule("dots_rr", "Rollout replay (DOTS)", "2506.05316", "paper",
               "Whole groups of earlier iterations, with the advantages that they had.", dots_rr),
    ReplayRule("rorecomp", "Compensation batches (RoRecomp)", "2509.25958", "our reading",
               "What a group rule left out is trained on every few iterations.", rorecomp),
    ReplayRule("successes", "Shortest successes", None, "our reading",
               "Rare wins are learned from in every iteration.", successes),
)  # fmt: skip

for _rule in CATALOGUE:
    REPLAY_RULES.register(_rule.name, _rule)

get_replay_rule = getter(REPLAY_RULES)
