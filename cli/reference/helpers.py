"""The building blocks that reference cases name as "helper/...", and what a function's result is compared by.

Columns and options of a case arrive as keyword arguments; a helper returns an array or several results by name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from turncredit.credit import Advantages, Steps, spear_replay
from turncredit.credit.columns import COLUMNS
from turncredit.credit.numerics import discounted_returns, penalties, trajectory_scores, whiten
from turncredit.credit.outcome.evol import novelty_rewards
from turncredit.credit.outcome.unlikely import reshaped
from turncredit.credit.outcome.xrpo_novelty import novelty_bonus, relative_likelihood
from turncredit.credit.tokens import TransformedAdvantages
from turncredit.credit.tokens.gae import TokenAdvantages, bilevel_gae, gae_tokens
from turncredit.credit.tokens.tempo import tempo_tokens
from turncredit.credit.turn.gigpo import anchors
from turncredit.credit.turn.hgpo import LevelMean, hgpo

Array = Any
Function = Callable[..., Any]


def results_of(output: object) -> Mapping[str, object]:
    """Return what a function returned as results by name; an array is the result "advantage".

    Raises:
        TypeError: it is neither numbers nor a output of turncredit.
    """
    if isinstance(output, Advantages):
        results = {"advantage": output.values, "keep": output.keep, "weight": output.weight, "state": output.state}
        return {**output.report, **output.parts, "rows_dropped": int((~output.keep).sum()), **results}
    if isinstance(output, TransformedAdvantages):
        return {"advantage": output.values, "keep": output.keep}
    if isinstance(output, TokenAdvantages):
        return {"advantage": output.advantages, "returns": output.returns}
    try:
        return {"advantage": np.asarray(output, dtype=np.float64)}
    except (TypeError, ValueError) as error:
        raise TypeError(f"expected Advantages or numbers, got {type(output).__name__}") from error


def _on_steps(function: Function) -> Function:
    """Return a function that gets the columns of the table of turns as its first argument."""

    def call(**arguments: Any) -> Any:
        names = set(arguments) & set(COLUMNS)
        return function(Steps.from_columns(**{name: arguments.pop(name) for name in names}), **arguments)

    return call


def _on_arrays(function: Function) -> Function:
    """Return a function that gets lists as arrays."""
    return lambda **arguments: function(
        **{k: np.asarray(v) if isinstance(v, list) else v for k, v in arguments.items()}
    )


def _returns(steps: Steps, *, gamma: float, invalid_penalty: float = 0.0) -> Array:
    """Return the discounted return of each row, less the penalty for an invalid action."""
    return discounted_returns(steps, gamma) - penalties(steps, invalid_penalty)


def _episode_scores(steps: Steps, *, invalid_penalty: float = 0.0, normalize_by_length: bool = False) -> Array:
    """Return the score of each row's episode, less the penalty for the row's own invalid action."""
    scores, _, member = trajectory_scores(steps)
    turns = np.bincount(member[steps.time_order], minlength=len(scores)) if normalize_by_length else 1
    return (scores / turns)[member] - penalties(steps, invalid_penalty)


def _state_groups(steps: Steps, *, similarity: float | None = None) -> Array:
    """Return the number of each row's group of equal or similar states, in order of first appearance."""
    group = anchors(steps, similarity, order="rows")
    return np.argsort(np.argsort(np.unique(group, return_index=True)[1]))[group]


def _hgpo_with_base(steps: Steps, *, given: Array, alpha: float = 1.0, eps: float = 1e-6, **options: Any) -> Array:
    """Return HGPO's advantages where the episode's normalised score is given instead of computed."""
    mean = LevelMean(len(steps), "zero", eps)
    mean.add("episode", np.asarray(given, dtype=np.float64), np.ones(len(steps), dtype=np.bool_), 1.0)
    parts = hgpo(steps, alpha=alpha, eps=eps, **options).parts
    for k, name in enumerate(name for name in parts if name.startswith("history ")):
        mean.add(name, parts[name], parts[name] != 0.0, float(k + 2) ** alpha)
    return mean.values


def _spear_replay(steps: Steps, *, memory: object, **options: Any) -> Advantages:
    """Return SPEAR's advantages of stored episodes. The option is not called `state`, which is a column."""
    return spear_replay(steps, state=memory, **options)


HELPERS: dict[str, Function] = {
    "returns": _on_steps(_returns),
    "episode_scores": _on_steps(_episode_scores),
    "state_groups": _on_steps(_state_groups),
    "hgpo_with_base": _on_steps(_hgpo_with_base),
    "spear_replay": _on_steps(_spear_replay),
    "whiten": _on_arrays(whiten),
    "tempo_tokens": _on_arrays(tempo_tokens),
    "gae_tokens": _on_arrays(gae_tokens),
    "bilevel_gae": _on_arrays(bilevel_gae),
    "novelty_rewards": _on_arrays(novelty_rewards),
    "novelty_bonus": _on_arrays(novelty_bonus),
    "relative_likelihood": _on_arrays(relative_likelihood),
    "unlikely_rewards": _on_arrays(reshaped),
}
"""Functions by the name that a case uses."""
