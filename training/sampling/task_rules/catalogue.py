"""Our own task rules: name, title, arXiv id, evidence, when to use it, function."""

from __future__ import annotations

from turnwise.training.sampling.draws import TASK_RULES, TaskRule
from turnwise.training.sampling.rule_registry import bound
from turnwise.training.sampling.task_rules.mix import mix
from turnwise.training.sampling.task_rules.uniform import uniform

CATALOGUE = (
    TaskRule("uniform", "Every task once an epoch", None, "paper",
             "The default: no task is preferred.", uniform),
    TaskRule("mix", "Two rules at once", None, "our reading",
             "A share of the groups from one rule, the rest from another, such as `uniform`.", mix),
)  # fmt: skip

for _rule in CATALOGUE:
    TASK_RULES.register(_rule.name, _rule)


def get_task_rule(name: str, **options: object) -> TaskRule:
    """Return a task rule with its options bound.

    Args:
        name: a name of `TASK_RULES`, or "module:function".
        options: of the rule.

    Raises:
        ConfigError: there is no such rule, or it cannot be imported.
        BadOption: it has no such option, or the option has an impossible value.
    """
    return bound(TASK_RULES, name, options)
