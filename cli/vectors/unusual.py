"""Methods of credit.json that do not go by the registry, from three modules: outcome, turns and tokens."""

from __future__ import annotations

from collections.abc import Callable

from turnwise.cli.vectors import outcome, tokens, turns
from turnwise.cli.vectors.estimators import Case, Figures

UNUSUAL: dict[str, Callable[[Case], Figures]] = {**outcome.METHODS, **turns.METHODS, **tokens.METHODS}
"""Functions from a case to its figures, by our name of the method."""
