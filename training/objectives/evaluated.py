"""Loss and gradient of an objective as plain numbers, for comparisons with reference results."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from turncredit.training.errors import ConfigError

_WHOLE = ("spans",)


def loss_and_gradient(
    function: Callable[..., Any], arrays: Mapping[str, Sequence[Sequence[float]]], options: Mapping[str, object]
) -> tuple[float, list[list[float]]]:
    """Return the loss of a function and its gradient by `logprobs`, [B][L], in double precision.

    Args:
        function: an objective, called as `function(logprobs, old, advantages, mask, **others, **options)`; it gives
            back the loss, or the loss and more.
        arrays: numbers [B][L] by the names of an objective's arguments; `logprobs` at least.
        options: of the function.

    Raises:
        ConfigError: the function gives back no tensor, or refuses an option.
        ValueError: shapes differ.
    """
    tensors = {
        name: torch.tensor(values, dtype=torch.int64 if name in _WHOLE else torch.float64)
        for name, values in arrays.items()
    }
    new = tensors.pop("logprobs").requires_grad_()
    old, advantages, mask = (tensors.pop(name, None) for name in ("old", "advantages", "mask"))
    outcome = function(new, old, advantages, None if mask is None else mask.bool(), **tensors, **options)
    loss = outcome[0] if isinstance(outcome, tuple) else outcome
    if not isinstance(loss, torch.Tensor):
        raise ConfigError(f"the function gave back {type(loss).__name__}, not a loss")
    gradient = torch.autograd.grad(loss, new, allow_unused=True)[0] if loss.requires_grad else None
    numbers: list[list[float]] = (torch.zeros_like(new) if gradient is None else gradient).tolist()
    return float(loss.detach()), numbers
