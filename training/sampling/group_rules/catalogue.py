"""Our own group rules: name, title, arXiv id, evidence, when to use it, function."""

from __future__ import annotations

from turnwise.training.sampling.group_rules.dapo import dapo
from turnwise.training.sampling.group_rules.reinforce_ada import reinforce_ada
from turnwise.training.sampling.group_rules.stopping import v05, xrpo
from turnwise.training.sampling.growth import GROUP_RULES, GroupRule
from turnwise.training.sampling.rule_registry import bound

CATALOGUE = (
    GroupRule("dapo", "Dynamic sampling (DAPO)", "2503.14476", "paper",
              "Another task instead of a group that teaches nothing, since all its episodes ended alike.", dapo),
    GroupRule("reinforce_ada", "Adaptive sampling (Reinforce-Ada)", "2510.04996", "paper",
              "Tasks that are seldom won, or seldom lost, are played until both outcomes are there.", reinforce_ada),
    GroupRule("v05", "Stopping by a prior value (V0.5)", "2603.10848", "our reading",
              "Fewer episodes of tasks that end as they did before.", v05),
    GroupRule("xrpo", "Allocation by uncertainty (XRPO)", "2510.06672", "our reading",
              "More episodes of tasks whose mean reward is still uncertain.", xrpo),
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
