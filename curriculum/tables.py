"""The tables of docs/sampling.md, rendered from the code; a test compares them."""

from __future__ import annotations

from collections.abc import Sequence

from turncredit.curriculum.annotators.catalogue import CATALOGUE as ANNOTATOR_CATALOGUE
from turncredit.curriculum.group_rules.catalogue import CATALOGUE as GROUP_RULE_CATALOGUE
from turncredit.curriculum.replay_rules.catalogue import CATALOGUE as REPLAY_RULE_CATALOGUE
from turncredit.curriculum.reward_rules.catalogue import CATALOGUE as REWARD_RULE_CATALOGUE
from turncredit.curriculum.rule_registry import SamplingRule
from turncredit.curriculum.task_rules.catalogue import CATALOGUE as TASK_RULE_CATALOGUE


def tables() -> dict[str, str]:
    """Return the tables by name, as Markdown."""
    return {
        "annotators": table(ANNOTATOR_CATALOGUE),
        "group rules": table(GROUP_RULE_CATALOGUE),
        "replay rules": table(REPLAY_RULE_CATALOGUE),
        "reward rules": table(REWARD_RULE_CATALOGUE),
        "task rules": table(TASK_RULE_CATALOGUE),
    }


def table(rules: Sequence[SamplingRule]) -> str:
    """Return one line a rule, by name, with its options and their defaults.

    Args:
        rules: of one catalogue.
    """
    lines = ["| name | method | when | options | checked against |", "|---|---|---|---|---|"]
    for rule in sorted(rules, key=lambda rule: rule.name):
        link = f" ([{rule.arxiv}](https://arxiv.org/abs/{rule.arxiv}))" if rule.arxiv else ""
        options = ", ".join(f"`{name}={_short(value)}`" for name, value in rule.options.items())
        lines.append(f"| `{rule.name}` | {rule.title}{link} | {rule.use} | {options} | {rule.evidence} |")
    return "\n".join(lines)


def _short(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        return f"[{', '.join(map(_short, value))}]"
    return "none" if value is None else str(value)
