"""The credit rules that a report applies to the episodes of a run."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from turncredit.report.credit_settings import credit_settings

if TYPE_CHECKING:
    from turncredit.report.credit_settings import CreditSettings

RULES = "gigpo,grpo"


def settings_of(path: Path, rules: str | Sequence[str] | None) -> CreditSettings | None:
    """Return the credit rules of the run, or those that were asked for; None if the run's settings cannot be read."""
    from turncredit.training.errors import ConfigError

    try:
        return credit_settings(path, rules, {}, None, RULES)
    except ConfigError as error:
        warnings.warn(f"no advantages: {error}", stacklevel=2)
        return None
