"""Our own reward rules: name, title, arXiv id, evidence, when to use it, function, columns that it needs."""

from __future__ import annotations

from turnwise.training.sampling.rewards import REWARD_RULES, RewardRule
from turnwise.training.sampling.rule_registry import bound

CATALOGUE: tuple[RewardRule, ...] = ()

for _rule in CATALOGUE:
    REWARD_RULES.register(_rule.name, _rule)


def get_reward_rule(name: str, **options: object) -> RewardRule:
    """Return a reward rule with its options bound.

    Args:
        name: a name of `REWARD_RULES`, or "module:function".
        options: of the rule.

    Raises:
        ConfigError: there is no such rule, or it cannot be imported.
        BadOption: it has no such option, or the option has an impossible value.
    """
    return bound(REWARD_RULES, name, options)
