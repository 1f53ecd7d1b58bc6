"""Log-probabilities of a batch's tokens under a model, computed only where a token carries loss.

Hidden states are picked before the vocabulary projection, where the model's head is nothing but a projection.

Left out on purpose: mixed precision.
"""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from turnwise.training.batch import Batch, micro_batches

Model = Any  # a causal language model of transformers, which has no types


def token_scores(
    model: Model, batch: Batch, *, temperature: float = 1.0, entropy: bool = False
) -> tuple[Tensor, Tensor]:
    """Compute the log-probability of every token in the mask, and the entropy of its distribution.

    log p = log softmax(logits / temperature)[token], logits of the position before the token.

    Args:
        model: a causal language model of transformers, right-padded input.
        batch: its mask says which tokens; row-major order.
        temperature: above 0.
        entropy: whether the entropy carries gradient.

    Returns:
        float [M] each, nats.
    """
    device = next(model.parameters()).device
    rows, columns = np.nonzero(batch.mask)
    tokens = torch.from_numpy(batch.tokens).to(device)
    positions = torch.from_numpy(rows).to(device), torch.from_numpy(columns - 1).to(device)
    logits = _logits_at(model, tokens, positions).float() if _low(model) else _logits_at(model, tokens, positions)
    normalised = torch.log_softmax(logits if temperature == 1.0 else logits / temperature, dim=-1)
    targets = tokens[torch.from_numpy(rows).to(device), torch.from_numpy(columns).to(device)]
    chosen = normalised.gather(-1, targets[:, None])[:, 0]
    with torch.set_grad_enabled(entropy and torch.is_grad_enabled()):
        source = normalised if entropy else normalised.detach()
        spread = -(source.exp() * source).sum(-1)
    return chosen, spread


def _low(model: Model) -> bool:
    return next(model.parameters()).dtype in {torch.bfloat16, torch.float16}


def _logits_at(model: Model, tokens: Tensor, positions: tuple[Tensor, Tensor]) -> Tensor:
    """Give the logits [M, V] at some positions; the projection is done only there where that is the same."""
    if _plain_head(model):
        hidden = model.base_model(input_ids=tokens, use_cache=False).last_hidden_state
        projected: Tensor = model.get_output_embeddings()(hidden[positions])
        return projected
    logits: Tensor = model(input_ids=tokens, use_cache=False).logits
    return logits[positions]


def _plain_head(model: Model) -> bool:
    """Whether logits are the output embedding of the last hidden state and nothing else; tried once on two tokens."""
    known = getattr(model, "_turnwise_plain_head", None)
    if known is not None:
        return bool(known)
    plain = False
    head: Any = model.get_output_embeddings()
    body: Any = getattr(model, "base_model", model)
    if head is not None and body is not model:
        with torch.no_grad():
            probe = torch.tensor([[1, 2]], device=next(model.parameters()).device)
            whole = model(input_ids=probe, use_cache=False).logits
            plain = torch.allclose(head(body(input_ids=probe, use_cache=False).last_hidden_state), whole, atol=1e-4)
    model._turnwise_plain_head = plain
    return plain


def score(model: Model, batch: Batch, *, temperature: float = 1.0, micro_tokens: int = 16384) -> NDArray[np.float64]:
    """Compute the log-probability of every token in the mask under a policy; see `score_both`."""
    return score_both(model, batch, temperature=temperature, micro_tokens=micro_tokens)[0]


@torch.no_grad()
def score_both(
    model: Model, batch: Batch, *, temperature: float = 1.0, micro_tokens: int = 16384
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Compute the log-probability of every token in the mask under a policy, and the entropy of its distribution.

    Args:
        model: the policy.
        batch: what it scores.
        temperature: of the distribution.
        micro_tokens: tokens, padding included, that are computed at a time.

    Returns:
        float64 [B, L] each, nats; 0 outside the mask.
    """
    model.eval()
    results = np.zeros(batch.mask.shape), np.zeros(batch.mask.shape)
    for index in micro_batches(batch.lengths, micro_tokens):
        rows = batch.rows(index)
        for result, column in zip(results, token_scores(model, rows, temperature=temperature), strict=True):
            block = np.zeros(rows.mask.shape)
            block[rows.mask] = column.double().cpu().numpy()
            result[index, : rows.mask.shape[1]] = block
    return results
