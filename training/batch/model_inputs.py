"""The tokens of a micro-batch as a model receives them: as padded rows, or packed into one sequence without padding.

In a packed sequence the positions restart at every row, and no token attends to another row: transformers derives the
mask from the positions (eager, sdpa), and FlashAttention computes each row by itself.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from turnwise.training.batch.batch import Batch
from turnwise.training.errors import ConfigError


@dataclass(frozen=True, slots=True)
class ModelInputs:
    """What a model receives, and where its outputs for the M tokens in the mask are.

    Attributes:
        arguments: of the model's forward.
        before: index into the outputs [rows, positions, ...]: the positions before the tokens.
        targets: int64 [M], the tokens in the mask, in row-major order.
    """

    arguments: dict[str, Tensor]
    before: tuple[Tensor, Tensor]
    targets: Tensor


def padded(batch: Batch, device: torch.device) -> ModelInputs:
    """Return the rows of a batch, padded on the right."""
    rows, columns = (torch.from_numpy(index).to(device) for index in np.nonzero(batch.mask))
    tokens = torch.from_numpy(batch.tokens).to(device)
    return ModelInputs({"input_ids": tokens}, (rows, columns - 1), tokens[rows, columns])


def packed(batch: Batch, device: torch.device) -> ModelInputs:
    """Return the rows of a batch one after another, as one sequence."""
    within = np.arange(batch.tokens.shape[1]) < batch.lengths[:, None]
    starts = np.cumsum(batch.lengths) - batch.lengths
    rows, columns = np.nonzero(batch.mask & within)
    tokens, positions, index = (
        torch.from_numpy(array).to(device)
        for array in (batch.tokens[within], np.nonzero(within)[1], starts[rows] + columns)
    )
    arguments = {"input_ids": tokens[None], "position_ids": positions[None]}
    return ModelInputs(arguments, (torch.zeros_like(index), index - 1), tokens[index])


def require_packable(model: Any) -> None:
    """Check on a few tokens that a model computes packed rows as it computes single ones.

    Raises:
        ConfigError: a row sees the rows before it, as in models with a recurrent state.
    """
    device = next(iter(model.parameters())).device
    first, second = torch.tensor([[1, 2, 3]], device=device), torch.tensor([[2, 1, 1, 2]], device=device)
    together = torch.cat([first, second], dim=1)
    positions = torch.tensor([[0, 1, 2, 0, 1, 2, 3]], device=device)
    apart = model(input_ids=second, use_cache=False).logits[0]
    joined = model(input_ids=together, position_ids=positions, use_cache=False).logits[0, 3:]
    bound = 0.1 if apart.dtype in (torch.bfloat16, torch.float16) else 1e-3
    if not torch.allclose(apart, joined, atol=bound, rtol=bound):
        raise ConfigError(
            f"train.micro_batch.packing is not available: {type(model).__name__} lets packed sequences see each other"
        )
