"""Gradients of each turn's log-probability under a policy, small enough to be kept for every turn.

A gradient of a million numbers is projected to a few thousand, each the signed sum of a random share of them (a count
sketch): inner products, which are all that the measures need, keep their expectation. With an adapter, only its
matrices have gradients.

Source: M. Charikar, K. Chen and M. Farach-Colton, 2002, Finding frequent items in data streams.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from turncredit.agents.trajectory import Group, Turn
from turncredit.credit.advantages import Advantages
from turncredit.credit.truth import TrueCredit
from turncredit.credit.truth.directions import gradient_draws
from turncredit.credit.truth.metrics import Draws
from turncredit.training.errors import TrainingError

__all__ = ["DIMENSIONS", "GradientSketch", "as_model", "gradient_measures", "turn_gradients"]

DIMENSIONS = 4096
"""Numbers to which a gradient is projected."""


class GradientSketch:
    """A fixed random projection of the gradients of a model."""

    def __init__(self, model: nn.Module, dimensions: int = DIMENSIONS, seed: int = 0) -> None:
        """Draw where each number goes, and with which sign.

        Args:
            model: parameters that need no gradient are left out.
            dimensions: numbers of a sketch, at most 16,384.
            seed: of the draws.
        """
        self.parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
        self.dimensions = dimensions
        generator = torch.Generator().manual_seed(seed)
        # place and sign in two bytes for each parameter
        self._draws = [
            torch.randint(0, 2 * dimensions, (parameter.numel(),), generator=generator, dtype=torch.int16)
            for parameter in self.parameters
        ]

    def of(self, gradients: Sequence[Tensor | None]) -> NDArray[np.float32]:
        """Return the sketch of the gradients of the parameters, float32 [dimensions]."""
        sketch = torch.zeros(self.dimensions)
        for gradient, draws in zip(gradients, self._draws, strict=True):
            if gradient is not None:
                signs = (draws % 2).float() * 2.0 - 1.0
                sketch.index_add_(0, (draws // 2).long(), gradient.detach().reshape(-1).float().cpu() * signs)
        result: NDArray[np.float32] = sketch.numpy()
        return result


def as_model(module: object) -> nn.Module:
    """Return a sampler's module as what it is.

    Raises:
        TrainingError: it is no module of torch.
    """
    if not isinstance(module, nn.Module):
        raise TrainingError(f"gradients need a module of torch, got {type(module).__name__}")
    return module


def turn_gradients(
    model: nn.Module,
    groups: Sequence[Group],
    *,
    temperature: float = 1.0,
    on_turn: Callable[[int], None] = lambda number: None,
) -> NDArray[np.float32]:
    """Return the sketched gradient of the log-probability of each turn's answer, float32 [N, DIMENSIONS].

    Args:
        model: a causal language model of transformers.
        groups: finished trajectories, whose turns are the rows.
        temperature: of sampling; log-probabilities are those of the distribution that was sampled from, but for top-p
            and top-k.
        on_turn: called with the number of each turn.
    """
    frozen = [parameter for parameter in model.parameters() if not parameter.requires_grad]
    trains = any(parameter.requires_grad for parameter in model.parameters())
    for parameter in () if trains else frozen:  # a sampler's model: its weights stay, but gradients pass
        parameter.requires_grad_(True)
    try:
        sketch, memory = GradientSketch(model), dict[tuple[tuple[int, ...], tuple[int, ...]], NDArray[np.float32]]()
        rows = []
        turns = (turn for group in groups for trajectory in group.finished for turn in trajectory.turns)
        for number, turn in enumerate(turns):
            key = turn.prompt, turn.response
            if key not in memory:
                memory[key] = sketch.of(_gradients(model, sketch.parameters, turn, temperature))
            rows.append(memory[key])
            on_turn(number)
        return np.stack(rows) if rows else np.zeros((0, DIMENSIONS), dtype=np.float32)
    finally:
        for parameter in () if trains else frozen:
            parameter.requires_grad_(False)


def _gradients(
    model: nn.Module, parameters: Sequence[Tensor], turn: Turn, temperature: float
) -> tuple[Tensor | None, ...]:
    """Return the gradient of the log-probability of a turn's answer."""
    device = next(model.parameters()).device
    ids = torch.tensor([[*turn.prompt, *turn.response]], device=device)
    with torch.enable_grad():
        logits = model(input_ids=ids, use_cache=False).logits[0, len(turn.prompt) - 1 : -1].float()
        scores = torch.log_softmax(logits / (temperature or 1.0), dim=-1)
        answer = torch.tensor(turn.response, device=device)
        total = scores.gather(1, answer[:, None]).sum()
        return torch.autograd.grad(total, list(parameters), allow_unused=True)


def gradient_measures(
    gradients: NDArray[np.float32], groups: Sequence[Group]
) -> Callable[[Mapping[str, Advantages], TrueCredit], dict[str, dict[str, Draws]]]:
    """Return a function that scores the gradients of rules against those of the truth.

    Args:
        gradients: float32 [N, D], those of `turn_gradients`.
        groups: the same groups.
    """
    sizes = [sum(len(trajectory.turns) for trajectory in group.finished) for group in groups]
    group = np.repeat(np.arange(sum(map(bool, sizes))), [size for size in sizes if size])
    wide = gradients.astype(np.float64)

    def scores(results: Mapping[str, Advantages], truth: TrueCredit) -> dict[str, dict[str, Draws]]:
        return {
            name: gradient_draws(wide, result.values * result.keep * result.weight, truth.advantage, group)
            for name, result in results.items()
        }

    return scores
