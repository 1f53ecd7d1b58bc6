"""The suites and cards of the package: `quick`, `standard`, and the results of simple players on them."""

from __future__ import annotations

from pathlib import Path

from turncredit.agents.errors import EvaluationError
from turncredit.evaluation.benchmark_card import Card
from turncredit.evaluation.suite import Suite
from turncredit.registry import suggest

__all__ = ["BASELINES", "RULE", "SUITES", "baseline_cards", "load_suite"]

SUITES = Path(__file__).parent / "suites"
RULE = "rule"
"""Name of the player that is each panel's rule-based demonstrator."""
BASELINES = ("random", RULE, "expert")
"""Names of the players whose cards are shipped."""


def load_suite(name: str) -> Suite:
    """Return a suite by name or path.

    Raises:
        EvaluationError: there is no such suite, or the file is not a suite.
    """
    path = SUITES / f"{name}.toml"
    if not path.is_file():
        path = Path(name)
        if not path.is_file():
            names = [file.stem for file in sorted(SUITES.glob("*.toml"))]
            near = suggest(name, names) if path.suffix != ".toml" else ""
            raise EvaluationError(f"there is no suite {name!r}{near or '; expected the path of a TOML file'}")
    return Suite.load(path)


def baseline_cards() -> list[Card]:
    """Return the cards of the random player, the rule-based one and the expert on the suites of the package."""
    files = [file for name in BASELINES for file in sorted(SUITES.glob(f"*-{name}.json"))]
    return [Card.load(file) for file in files]
