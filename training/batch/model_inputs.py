"""The tokens of a micro-batch as a model receives them: as padded rows, packed into one sequence, or as a forest.

In a packed sequence the positions restart at every row, and no token attends to another row: transformers derives the
mask from the positions (eager, sdpa), and FlashAttention computes each row by itself. In a forest, rows that begin
alike share the tokens of their common prefix (`turncredit.training.learner.prefix_attention` has the attention).
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from turncredit.agents.vision.untyped import Model
from turncredit.training.batch.batch import Batch
from turncredit.training.batch.prefix_forest import PrefixForest
from turncredit.training.errors import ConfigError


@dataclass(frozen=True, slots=True)
class ModelInputs:
    """What a model receives, and where its outputs for the M tokens in the mask are.

    Attributes:
        arguments: of the model's forward.
        before: index into the outputs [rows, positions, ...]: the positions before E tokens.
        targets: int64 [E], these tokens: those in the mask, in row-major order, or the distinct pairs of them and of
            what is before.
        pairs: int64 [M], number of each masked token's pair; None where they are the tokens themselves.
        forest: that the tokens lie in; None for rows.
        heat: float64 [E], factor of the temperature at each target; None: 1 everywhere.
        experts: integers [N, layers, K] of the N tokens that the model receives, in its order; None: it chooses.
        has_experts: bool [N], tokens whose experts are prescribed.
    """

    arguments: dict[str, Tensor]
    before: tuple[Tensor, Tensor]
    targets: Tensor
    pairs: Tensor | None = None
    forest: PrefixForest | None = None
    heat: Tensor | None = None
    experts: Tensor | None = None
    has_experts: Tensor | None = None

    def with_experts(self, batch: Batch, at: NDArray[np.int64]) -> "ModelInputs":
        """Return the same inputs with the experts of a batch, if it has any.

        Args:
            batch: the rows.
            at: int64 [B, L], number of each token among those that the model receives; -1 for those that it does not.
        """
        parts = [] if batch.experts is None else [experts for experts in batch.experts if experts is not None]
        if batch.experts is None or not parts:
            return self
        # of 16 bits, torch computes with signed integers alone
        kind = np.uint8 if parts[0].dtype == np.uint8 else np.int16
        count, device = self.arguments["input_ids"].numel(), self.targets.device
        table, there = np.zeros((count, *parts[0].shape[1:]), dtype=kind), np.zeros(count, dtype=bool)
        for row, experts in enumerate(batch.experts):
            if experts is not None:
                index = at[row, : len(experts)]
                seen = index >= 0
                table[index[seen]] = experts[: len(index)][seen]
                there[index[seen]] = True
        return replace(self, experts=torch.from_numpy(table).to(device), has_experts=torch.from_numpy(there).to(device))


def padded(batch: Batch, device: torch.device) -> ModelInputs:
    """Return the rows of a batch, padded on the right."""
    rows, columns = (torch.from_numpy(index).to(device) for index in np.nonzero(batch.mask))
    tokens = torch.from_numpy(batch.tokens).to(device)
    heat = None if batch.heat is None else torch.from_numpy(batch.heat[batch.mask]).to(device)
    inputs = ModelInputs({"input_ids": tokens}, (rows, columns - 1), tokens[rows, columns], heat=heat)
    return inputs.with_experts(batch, np.arange(batch.tokens.size).reshape(batch.tokens.shape))


def packed(batch: Batch, device: torch.device) -> ModelInputs:
    """Return the rows of a batch one after another, as one sequence."""
    forest = PrefixForest.of(batch.tokens, batch.lengths, share=False)
    rows, columns = np.nonzero(batch.mask & (forest.at >= 0))
    before, targets = forest.at[rows, columns - 1], batch.tokens[rows, columns]
    inputs = _of_forest(forest, before, targets, device).with_experts(batch, forest.at)
    if batch.heat is None:
        return inputs
    return replace(inputs, heat=torch.from_numpy(batch.heat[rows, columns]).to(device))


def shared(batch: Batch, device: torch.device) -> ModelInputs:
    """Return the distinct prefixes of a batch that its masked tokens come after, and each distinct pair once."""
    needed = batch.needed
    if not needed.any():
        needed = np.minimum(batch.lengths, 1)  # a model receives one token at least
    forest = PrefixForest.of(batch.path, needed)
    if batch.codes is not None:
        forest = replace(forest, tokens=forest.spread(batch.tokens))
    rows, columns = np.nonzero(batch.mask)
    # The last token of a shared prefix has a successor in every row: a loss belongs to an edge of the forest, of which
    # rows that sampled the same token have one.
    edges = np.stack([forest.at[rows, columns - 1], batch.tokens[rows, columns]], axis=1)
    heats = np.ones(0)
    if batch.heat is not None:  # the same token at two temperatures is two edges
        heats, code = np.unique(batch.heat[rows, columns], return_inverse=True)
        edges = np.concatenate([edges, code.reshape(-1, 1)], axis=1)
    distinct, pairs = np.unique(edges, axis=0, return_inverse=True)
    inputs = _of_forest(forest, distinct[:, 0], distinct[:, 1], device).with_experts(batch, forest.at)
    inputs.arguments["attention_mask"] = torch.ones_like(inputs.arguments["input_ids"])  # one "row": see `_seen`
    heat = None if batch.heat is None else torch.from_numpy(heats[distinct[:, 2]]).to(device)
    return replace(inputs, pairs=torch.from_numpy(pairs.reshape(-1)).to(device), forest=forest, heat=heat)


def _of_forest(
    forest: PrefixForest, before: NDArray[np.int64], targets: NDArray[np.int64], device: torch.device
) -> ModelInputs:
    tokens, positions, index, chosen = (
        torch.from_numpy(array).to(device) for array in (forest.tokens, forest.depth, before, targets)
    )
    return ModelInputs(
        {"input_ids": tokens[None], "position_ids": positions[None]}, (torch.zeros_like(index), index), chosen
    )


def positions_of_text(positions: Tensor, model: Model) -> Tensor:
    """Return the positions of packed rows as a model takes them.

    Models whose images have several positions take int64 [4, 1, N]: that in the row, then three for the rotary factors.
    Without images all of them are the same.

    Args:
        positions: int64 [1, N], in the row.
        model: with or without its output layer.
    """
    several = hasattr(getattr(model, "base_model", model), "get_rope_index")
    return positions.expand(4, *positions.shape) if several else positions


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
    own = positions_of_text(positions, model)
    joined = model(input_ids=together, position_ids=own, use_cache=False).logits[0, 3:]
    bound = 0.1 if apart.dtype in (torch.bfloat16, torch.float16) else 1e-3
    if not torch.allclose(apart, joined, atol=bound, rtol=bound):
        raise ConfigError(
            f"train.micro_batch.packing is not available: {type(model).__name__} lets packed sequences see each other"
        )
