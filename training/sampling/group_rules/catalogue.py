"""Our own group rules: name, title, arXiv id, evidence, when to use it, function."""

from __future__ import annotations

from turnwise.training.sampling.group_rules.dapo import dapo
from turnwise.training.sampling.group_rules.stored import arpo_gui, r3_ccr, ssb
from turnwise.training.sampling.group_rules.told import lessons, self_reflection
from turnwise.training.sampling.growth import GROUP_RULES, GroupRule
from turnwise.training.sampling.rule_registry import bound

CATALOGUE = (
    GroupRule("dapo", "Dynamic sampling (DAPO)", "2503.14476", "paper",
              "Another task instead of a group that teaches nothing, since all its episodes ended alike.", dapo),
    # Stored episodes.
    GroupRule("arpo_gui", "ARPO with replay for GUI agents", "2505.16282", "paper",
              "A stored success in the place of a failure where a whole group failed.", arpo_gui),
    GroupRule("r3_ccr", "Cross-context replay (R3)", "2601.19620", "paper",
              "A stored episode of the opposite outcome for a group that ended alike.", r3_ccr),
    GroupRule("ssb", "Selective sample buffer (Skywork R1V2)", "2504.16656", "our reading",
              "Stored episodes of a task in the place of a group that teaches nothing.", ssb),
    # Words.
    GroupRule("lessons", "Lessons in the prompt (Training-Free GRPO)", "2510.08191", "paper",
              "Shows what the run has learned in words to every episode.", lessons),
    GroupRule("self_reflection", "In-context self-refinement (R3)", "2601.19620", "paper",
              "Shows a failed attempt at the same task where it is seldom won.", self_reflection),
)  # fmt: skip

for _rule in CATALOGUE:
    GROUP_RULES.register(_rule.name, _rule)


def get_group_rule(name: str, **options: object) -> GroupRule:
    """Return a group rule with its options bound.

    Args:
        name: a name of `GROUP_RULES`, or "module:function".
        options: of the rule.

    Raises:
        ConfigError: there is no such rule, or it cannot be imported.
        BadOption: it has no such option, or the option has an impossible value.
    """
    return bound(GROUP_RULES, name, options)
