"""Stages of a run: settings that change on the way, and when."""

from typing import Literal

from pydantic import Field, field_validator

from turncredit.training.config.section_tables import Section
from turncredit.training.config.toml import Table

__all__ = ["CHANGEABLE", "StageSection"]

CHANGEABLE = (
    *("agent.max_tokens", "agent.max_turns", "credit.", "objective.", "sampling."),
    *("train.group_size", "train.lr", "train.concurrency", "train.replacements", "train.forks"),
)
"""Keys, or beginnings of keys, whose change leaves weights and files valid."""


class StageSection(Section):
    """A part of a run with settings of its own, on top of those of the stages before."""

    until: dict[str, float] = Field(
        default={},
        description="When it ends: {iteration = N}, {success = P, over = N} (mean of its last N iterations) or "
        "{stalled = N} (no better iteration for N). The last stage has none.",
    )
    set: Table = Field(default={}, description='Keys that change, such as {"agent.max_tokens" = 16384}.')
    reset: list[Literal["reference", "optimizer"]] = Field(
        default=[],
        description="What begins anew: the reference policy, which becomes the policy of now; the optimizer.",
    )

    @field_validator("until")
    @classmethod
    def _check_until(cls, until: dict[str, float]) -> dict[str, float]:
        """Refuse other conditions."""
        if until.keys() not in ({"iteration"}, {"success", "over"}, {"stalled"}, set()):
            raise ValueError("it is {iteration = N}, {success = P, over = N} or {stalled = N}")
        if any(value < 1 or value % 1 for name, value in until.items() if name != "success"):
            raise ValueError("numbers of iterations are integers >= 1")
        return until

    @field_validator("set")
    @classmethod
    def _check_keys(cls, table: Table) -> Table:
        """Refuse keys that cannot change."""
        for key in table:
            if not key.startswith(CHANGEABLE):
                raise ValueError(f"a stage cannot change {key!r}; it can change {', '.join(CHANGEABLE)}")
        return table
