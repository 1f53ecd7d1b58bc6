"""Objectives of other packages and of one's own: tried on a few tokens before a run begins.

A function from tokens to losses says nothing about itself, and a wrong property would show in no error: a loss that
reads the whole sequence is another one when a micro-batch ends within it, and what has a gradient where advantages are
zero loses it with the tokens that are left out. So the function is called once as a whole and once on each unit of its
scope, and the two must agree.

Options other than the defaults are not tried.
"""

from collections.abc import Callable, Collection, Iterator
from dataclasses import replace
from functools import lru_cache

import numpy as np
import torch
from torch import Tensor

from turncredit.training.objectives.function import ObjectiveFunction, objective
from turncredit.training.objectives.terms import SCOPES, Scope
from turncredit.training.objectives.tokens import AbsentColumn, Tokens

__all__ = ["tried"]

_TURNS = 2
"""Turns of a sequence; a turn has as many tokens, a group as many sequences, and there are as many groups."""
"""Group of each sequence."""


@lru_cache(maxsize=256)
def tried(loaded: Callable[..., object], needs: tuple[str, ...] = ()) -> tuple[ObjectiveFunction, tuple[str, ...]]:
    """Return a function as an objective, and the columns that it needs beside those that all tokens have.

    Args:
        loaded: an `ObjectiveFunction`, or a function from tokens to losses, which is one of tokens by themselves.
        needs: columns that it is known to need.

    Raises:
        TypeError: it is no function of tokens, fails, returns something else than a loss for each token, or does not
            have the properties that it says.
    """
    function = loaded if isinstance(loaded, ObjectiveFunction) else objective(loaded)  # type: ignore[arg-type]
    columns = set(needs)
    while True:
        tokens = _tokens(columns)
        try:
            function.kernel(tokens)
            break
        except AbsentColumn as error:
            if error.column in columns:
                raise TypeError(f"{function.__name__} reads {error.column!r}, which it does not get") from error
            columns.add({"old_mean_logprob": "mean_logprob"}.get(error.column, error.column))
        except Exception as error:  # code of others, which may raise anything
            raise TypeError(
                f"{function.__name__} failed on {len(tokens)} tokens: {type(error).__name__}: {error} (a column that "
                'not every run has is read with need, as in tokens.need("entropy"))'
            ) from error
    losses, _ = function.losses(tokens)
    _check_gradient(function, tokens, losses)
    _check_scope(function, tokens, losses)
    return function, tuple(sorted(columns - {"spans"}))


def _groups() -> Tensor:
    """Return the group of each sequence."""
    return torch.arange(_TURNS**2) // _TURNS


def _tokens(columns: Collection[str]) -> Tokens:
    """Return two groups of two sequences of two turns of two tokens, with some of the optional columns."""
    dice = np.random.default_rng(0)
    count = _TURNS**4

    def drawn() -> Tensor:
        return torch.from_numpy(dice.random(count))

    old, sequence = -0.1 - drawn(), torch.arange(count) // _TURNS**2
    optional: dict[str, Tensor] = {
        "ref": old + 0.1 * drawn(),
        "rollout": old + 0.1 * drawn(),
        "entropy": drawn().requires_grad_(),
        "mean_logprob": -2.0 - drawn(),
        "old_mean_logprob": -2.0 - drawn(),
        "outcome": torch.tensor([1.0, 0.0, 1.0, 0.0], dtype=torch.float64),
        "source": torch.tensor([0, 2, 0, 0]),
    }

    def shown(name: str) -> Tensor | None:
        return optional[name] if name.removeprefix("old_") in columns else None

    return Tokens(
        new=(old + drawn() - 0.5).requires_grad_(),
        old=old,
        advantages=drawn() - 0.5,
        sequence=sequence,
        turn=torch.arange(count) // _TURNS,
        sequences=_TURNS**2,
        ref=shown("ref"),
        rollout=shown("rollout"),
        entropy=shown("entropy"),
        mean_logprob=shown("mean_logprob"),
        old_mean_logprob=shown("old_mean_logprob"),
        outcome=shown("outcome"),
        group=_groups() if "group" in columns else None,
        source=shown("source"),
    )


def _check_gradient(function: ObjectiveFunction, tokens: Tokens, losses: Tensor) -> None:
    """Check that there is a gradient, and where there may be none."""
    if not losses.requires_grad:
        raise TypeError(f"{function.__name__} has no gradient: its losses must depend on tokens.new")
    if tokens.entropy is not None and not function.spreads and _gradient(losses, tokens.entropy).any():
        raise TypeError(f"{function.__name__} has a gradient through tokens.entropy: say @objective(spreads=True)")
    if function.everywhere or function.scope == "group":
        return
    idle = replace(tokens, advantages=torch.zeros_like(tokens.advantages))
    losses, _ = function.losses(idle)
    if losses.requires_grad and _gradient(losses, idle.new).any():
        raise TypeError(
            f"{function.__name__} has a gradient where all advantages are zero, and such tokens would be left out: say "
            "@objective(everywhere=True)"
        )


def _check_scope(function: ObjectiveFunction, tokens: Tokens, losses: Tensor) -> None:
    """Check that the losses of a unit depend on no token outside of it."""
    if function.scope in ("group", "batch") or _agree(function, tokens, losses, function.scope):
        return  # both see a whole optimizer step
    wider = SCOPES[SCOPES.index(function.scope) + 1 :]
    scope = next(scope for scope in wider if _agree(function, tokens, losses, scope))
    raise TypeError(
        f"{function.__name__} computes a loss from tokens outside of its {function.scope}: say "
        f'@objective(scope="{scope}"), so that they are always computed together'
    )


def _agree(function: ObjectiveFunction, tokens: Tokens, losses: Tensor, scope: Scope) -> bool:
    """Whether each unit of a scope has the same losses alone as among the others."""
    return all(
        torch.allclose(function.losses(_only(tokens, rows))[0], losses[rows], rtol=1e-6, atol=1e-9)
        for rows in _units(tokens, scope)
    )


def _units(tokens: Tokens, scope: Scope) -> Iterator[Tensor]:
    """Yield the rows of each unit of a scope."""
    codes = {
        "token": torch.arange(len(tokens)),
        "turn": tokens.turn,
        "sequence": tokens.sequence,
        "group": _groups()[tokens.sequence],
        "batch": torch.zeros_like(tokens.turn),
    }[scope]
    yield from (torch.nonzero(codes == code).flatten() for code in sorted(set(codes.tolist())))


def _only(tokens: Tokens, rows: Tensor) -> Tokens:
    """Return some of the tokens; their sequences keep their numbers."""

    def taken(column: Tensor | None) -> Tensor | None:
        return None if column is None else column[rows]

    return replace(
        tokens,
        new=tokens.new[rows],
        old=tokens.old[rows],
        advantages=tokens.advantages[rows],
        sequence=tokens.sequence[rows],
        turn=tokens.turn[rows],
        ref=taken(tokens.ref),
        rollout=taken(tokens.rollout),
        entropy=taken(tokens.entropy),
        mean_logprob=taken(tokens.mean_logprob),
        old_mean_logprob=taken(tokens.old_mean_logprob),
        spans=taken(tokens.spans),
    )


def _gradient(losses: Tensor, column: Tensor) -> Tensor:
    (gradient,) = torch.autograd.grad(losses.sum(), column, retain_graph=True, allow_unused=True)
    return torch.zeros_like(column) if gradient is None else gradient
