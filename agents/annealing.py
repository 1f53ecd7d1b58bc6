"""Annealing: factors of the sampling temperature that depend on the position in an answer.

A factor must follow from the position alone, since the learner divides its logits by the same numbers as the sampler.
`ANNEALINGS` finds one by name, by entry point (group ``turncredit.annealings``), or as "module:function": a function
``annealing(position, *, options) -> factor`` whose options are numbers with defaults.

Not included: factors that depend on the entropy, which the sampler would have to record token by token.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from turncredit.agents.errors import AgentError, look_up
from turncredit.registry import Registry, suggest

__all__ = ["ANNEALINGS", "Annealing", "annealed", "ead"]

Curve = Callable[..., float]
CHECKED = (0, 1, 10, 100, 1000, 10_000, 100_000)
"""Positions at which a factor is tried out before anything is sampled."""


def ead(position: int, *, warmth: float = 0.2, least: float = 0.1, scale: float = 500.0, first: float = 10.0) -> float:
    """Return the factor of exploratory annealed decoding: warm at the beginning of an answer, cold at its end.

        max(2 + warmth - exp(position / scale), least), and 1 before the position `first`

        >>> [round(ead(position), 3) for position in (9, 10, 100, 250, 400)]
        [1, 1.18, 0.979, 0.551, 0.1]

    Args:
        position: number of tokens of the answer before this one.
        warmth: by how much the factor exceeds 1 at the beginning.
        least: smallest factor.
        scale: tokens; the factor is 1 at scale ln(1 + warmth).
        first: tokens without annealing.

    Source: Yang et al. 2025, arXiv 2510.05251, and its code, whose learner divides by other temperatures than its
    sampler, and whose scale grows by 100 tokens in each step.
    """
    if position < first:
        return 1.0
    return max(2.0 + warmth - math.exp(min(position / scale, 700.0)), least)


ANNEALINGS: Registry[Curve] = Registry("annealing", group="turncredit.annealings")
ANNEALINGS.register("ead", ead)


@dataclass(frozen=True, slots=True)
class Annealing:
    """A function of the position with its options: ``annealing(position)`` is a factor of the temperature."""

    curve: Curve
    options: tuple[tuple[str, float], ...] = ()

    def __call__(self, position: int) -> float:
        """Return the factor of a token by its position in the answer."""
        return float(self.curve(position, **dict(self.options)))

    def factors(self, tokens: int) -> list[float]:
        """Return the factors of all tokens of an answer."""
        return [self(position) for position in range(tokens)]

    @property
    def name(self) -> str:
        """Name of the function with its options, for people."""
        return ", ".join([self.curve.__name__, *(f"{name}={value:g}" for name, value in self.options)])

    @classmethod
    def of(cls, choice: str | Mapping[str, object]) -> Annealing | None:
        """Return the annealing that a configuration names; None for an empty name.

        Args:
            choice: a name, or a table with the name and its options, ``{"name": "ead", "scale": 300}``.

        Raises:
            AgentError: the name or an option is unknown, or a factor is not a positive number.
        """
        options = {} if isinstance(choice, str) else dict(choice)
        name = choice if isinstance(choice, str) else options.pop("name", None)
        if not isinstance(name, str):
            raise AgentError(
                f'annealing must be a name or a table with a name, such as {{name = "ead"}}; got {choice!r}'
            )
        if not name:
            return None
        curve = look_up(ANNEALINGS, name)
        known_options = list(inspect.signature(curve).parameters)[1:]
        numbers: list[tuple[str, float]] = []
        for option, value in sorted(options.items()):
            if option not in known_options:
                raise AgentError(f"annealing {name!r} has no option {option!r}{suggest(option, known_options)}")
            if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
                raise AgentError(f"annealing {name!r}: {option} must be a finite number, got {value!r}")
            numbers.append((option, value))
        annealing = cls(curve, tuple(numbers))
        for position in CHECKED:
            annealing._check(name, position)
        return annealing

    def _check(self, name: str, position: int) -> None:
        try:
            factor = self(position)
        except (ArithmeticError, TypeError, ValueError) as error:
            raise AgentError(f"annealing {name!r} has no factor at position {position}: {error}") from error
        if not (math.isfinite(factor) and factor > 0):
            raise AgentError(f"annealing {name!r} must be a positive number, got {factor} at position {position}")


def annealed(choice: object) -> tuple[float, Annealing | None]:
    """Return the temperature that a configuration names, and how it changes within an answer.

    >>> annealed(0.9)
    (0.9, None)
    >>> temperature, annealing = annealed({"name": "ead", "scale": 300, "value": 0.9})
    >>> temperature, annealing.name
    (0.9, 'ead, scale=300')

    Args:
        choice: a number; the name of an annealing; or a table of its name, its options, and `value`, the temperature
            that its factors multiply, 1 by default.

    Raises:
        AgentError: the name or an option is unknown, or a number is out of range.
    """
    if isinstance(choice, str):
        if ":" not in choice and choice not in ANNEALINGS.names():
            names = ", ".join(ANNEALINGS.names())
            raise AgentError(f"temperature must be a number, got {choice!r}; or an annealing, one of: {names}")
        return 1.0, Annealing.of(choice)
    if not isinstance(choice, Mapping):
        return choice, None  # type: ignore[return-value]  # `Agent` refuses what is no number
    options = dict(choice)
    return options.pop("value", 1.0), Annealing.of(options)
