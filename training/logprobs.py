"""Log-probabilities and entropies of a batch's tokens under a model, computed only where a token is in the mask."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from turnwise.training.batch import Batch, micro_batches

CausalLM = Any
"""A causal language model of transformers, which has no types."""


@dataclass(frozen=True, slots=True)
class Scores:
    """What a model says about every token of a batch.

    Attributes:
        logprobs: float64 [B, L], nats; 0 outside the mask.
        entropy: float64 [B, L], nats, of the distribution that the token was drawn from; 0 outside the mask.
    """

    logprobs: NDArray[np.float64]
    entropy: NDArray[np.float64]


class TokenScorer:
    """Scores the tokens of batches under one model.

    Hidden states are selected before the projection to the vocabulary where the model's head is only a projection, so
    that logits are computed for masked tokens alone.

    Args:
        model: a causal language model of transformers; it is put into evaluation mode.
    """

    def __init__(self, model: CausalLM) -> None:
        self.model = model.eval()
        self._projects = _head_is_a_projection(model)

    @property
    def device(self) -> torch.device:
        """The device of the model."""
        device: torch.device = next(iter(self.model.parameters())).device
        return device

    def __call__(self, batch: Batch, *, temperature: float = 1.0, entropy: bool = False) -> tuple[Tensor, Tensor]:
        """Return the log-probability of every token in the mask, and the entropy of its distribution.

        log p = log softmax(logits / temperature)[token], with the logits of the position before the token.

        Args:
            batch: right-padded; its mask selects M tokens, in row-major order.
            temperature: > 0.
            entropy: whether the entropy carries gradient.

        Returns:
            Two float tensors [M], nats; both carry gradient as requested and as torch's grad mode allows.
        """
        rows, columns = (torch.from_numpy(index).to(self.device) for index in np.nonzero(batch.mask))
        tokens = torch.from_numpy(batch.tokens).to(self.device)
        logits = self._logits(tokens, rows, columns - 1)
        if logits.dtype in (torch.bfloat16, torch.float16):
            logits = logits.float()
        normalised = torch.log_softmax(logits if temperature == 1.0 else logits / temperature, dim=-1)
        chosen = normalised.gather(-1, tokens[rows, columns][:, None])[:, 0]
        with torch.set_grad_enabled(entropy and torch.is_grad_enabled()):
            source = normalised if entropy else normalised.detach()
            spread = -(source.exp() * source).sum(-1)
        return chosen, spread

    @torch.no_grad()
    def score(self, batch: Batch, *, temperature: float = 1.0, micro_tokens: int = 16384) -> Scores:
        """Return the scores of all tokens in the mask, without gradient.

        Args:
            batch: the tokens.
            temperature: of the distribution, > 0.
            micro_tokens: tokens per micro-batch, padding included.
        """
        result = Scores(np.zeros(batch.mask.shape), np.zeros(batch.mask.shape))
        for index in micro_batches(batch.lengths, micro_tokens):
            rows = batch.rows(index)
            columns = self(rows, temperature=temperature)
            for array, column in zip((result.logprobs, result.entropy), columns, strict=True):
                block = np.zeros(rows.mask.shape)
                block[rows.mask] = column.double().cpu().numpy()
                array[index, : rows.mask.shape[1]] = block
        return result

    def _logits(self, tokens: Tensor, rows: Tensor, columns: Tensor) -> Tensor:
        """Return the logits [M, V] at the given positions."""
        if self._projects:
            hidden = self.model.base_model(input_ids=tokens, use_cache=False).last_hidden_state
            projected: Tensor = self.model.get_output_embeddings()(hidden[rows, columns])
            return projected
        logits: Tensor = self.model(input_ids=tokens, use_cache=False).logits
        return logits[rows, columns]


@torch.no_grad()
def _head_is_a_projection(model: CausalLM) -> bool:
    """Compare the model's logits of two tokens with the output embedding of its last hidden state."""
    head: Any = model.get_output_embeddings()
    body: Any = getattr(model, "base_model", model)
    if head is None or body is model:
        return False
    probe = torch.tensor([[1, 2]], device=next(iter(model.parameters())).device)
    whole = model(input_ids=probe, use_cache=False).logits
    return torch.allclose(head(body(input_ids=probe, use_cache=False).last_hidden_state), whole, atol=1e-4)
