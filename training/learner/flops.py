"""Floating-point operations of a language model's forward and backward pass, counted from its matrix products.

Model FLOPs are what the gradient of the tokens needs, however it is computed. Hardware FLOPs are those of the passes
that were run, with padding, recomputed activations and passes without gradient.

Not included: everything that is no matrix product (norms, softmax, rotary positions, the optimizer), convolutions and
states of recurrent layers, and pairs of tokens that a mask hides, which some kernels of attention compute all the same.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from turncredit.agents.models.four_bits import numbers_in
from turncredit.training.learner.untyped import CausalLM, ModelConfig
from turncredit.training.learner.vocabulary import CHUNK


@dataclass(frozen=True, slots=True)
class Matrices:
    """Numbers in matrices that multiply each token, and how many of them are trained."""

    size: int
    trained: int


@dataclass(frozen=True, slots=True)
class ModelShape:
    """What decides how many operations a model takes.

    Attributes:
        body: matrices before the output layer. Of experts, the share counts that a token is given to.
        head: the output layer, also where it shares its weights with the embedding. The embedding looks up rows, which
            is no product.
        words: rows of the output layer.
        width: query heads x their size: numbers that attention multiplies for each pair of tokens, twice.
        windows: for each layer with attention, how many tokens a token may attend to; 0: all before it.
    """

    body: Matrices
    head: Matrices
    words: int
    width: int
    windows: tuple[int, ...]

    @classmethod
    def of(cls, model: CausalLM) -> "ModelShape":
        """Return the shape of a model of transformers, with its adapter where it has one."""
        config = model.config.get_text_config()
        output = model.get_output_embeddings()
        head = [] if output is None else list(output.named_parameters())
        looked_up = [("", module.weight) for module in model.modules() if isinstance(module, torch.nn.Embedding)]
        outside = {id(parameter) for _, parameter in (*head, *looked_up)}
        body = [(name, parameter) for name, parameter in model.named_parameters() if id(parameter) not in outside]
        heads = int(getattr(config, "num_attention_heads", 0))
        size = getattr(config, "head_dim", None) or config.hidden_size // max(1, heads)
        return cls(
            body=_matrices(body, _expert_share(config)),
            head=_matrices(head),
            words=int(config.vocab_size),
            width=heads * int(size),
            windows=_windows(config),
        )


def _matrices(parameters: Iterable[tuple[str, Tensor]], expert_share: float = 1.0) -> Matrices:
    """Return the sum over matrices; of those of experts, which have one more axis, the share that a token is given."""
    size = trained = 0.0
    for name, parameter in parameters:
        if parameter.dim() >= 2:
            numbers = numbers_in(parameter) * (expert_share if ".experts." in name else 1.0)
            size, trained = size + numbers, trained + numbers * parameter.requires_grad
    return Matrices(round(size), round(trained))


def _expert_share(config: ModelConfig) -> float:
    """Return experts of a token / experts of a layer, by the names that transformers has for both."""
    names = ("num_experts", "num_local_experts", "n_routed_experts")
    experts = next((number for name in names if (number := getattr(config, name, None))), None)
    return (getattr(config, "num_experts_per_tok", None) or experts) / experts if experts else 1.0


def _windows(config: ModelConfig) -> tuple[int, ...]:
    window = getattr(config, "sliding_window", None) or 0
    kinds = getattr(config, "layer_types", None)
    if kinds is None:
        every = window if getattr(config, "use_sliding_window", True) else 0
        return (every,) * int(config.num_hidden_layers)
    attending = [kind for kind in kinds if "attention" in kind and kind != "linear_attention"]
    return tuple(window if kind == "sliding_attention" else 0 for kind in attending)


@dataclass(frozen=True, slots=True)
class Work:
    """What a pass computes.

    Attributes:
        tokens: number of tokens that go through the model.
        scored: number of tokens whose logits are computed.
        pairs: pairs of a token and one that it attends to, itself included, summed over the layers.
    """

    tokens: int = 0
    scored: int = 0
    pairs: int = 0

    @classmethod
    def of(
        cls, shape: ModelShape, lengths: NDArray[np.int64], scored: int, begun: NDArray[np.int64] | None = None
    ) -> "Work":
        """Return the work on causal sequences: T (T + 1) / 2 pairs of one with T tokens; see `attended_pairs`.

        Args:
            shape: of the model.
            lengths: int64 [B], tokens of each sequence.
            scored: number of tokens whose logits are computed.
            begun: int64 [B], tokens of each sequence that are computed for another one; None: none.
        """
        begun = np.zeros_like(lengths) if begun is None else begun
        pairs = {w: attended_pairs(lengths, w) - attended_pairs(begun, w) for w in set(shape.windows)}
        return cls(int((lengths - begun).sum()), scored, sum(pairs[window] for window in shape.windows))


def attended_pairs(lengths: NDArray[np.int64], window: int = 0) -> int:
    """Return the sum over all tokens of min(position, window), with positions from 1: the tokens each one attends to.

    >>> attended_pairs(np.array([3, 1])), attended_pairs(np.array([4]), window=2)
    (7, 7)
    """
    full = np.minimum(lengths, window) if window else lengths
    return int((full * (full + 1) // 2 + (lengths - full) * window).sum())


def forward_flops(shape: ModelShape, work: Work) -> int:
    """Return the operations of a forward pass: a product with a matrix of n numbers takes 2 n a token.

    2 (body x tokens + head x scored) + 4 x width x pairs: queries times keys, and weights times values, 2 x width each.
    """
    return 2 * (shape.body.size * work.tokens + shape.head.size * work.scored) + 4 * shape.width * work.pairs


def backward_flops(shape: ModelShape, work: Work) -> int:
    """Return the operations of a backward pass.

    The gradient of every input takes as much as the forward pass, that of every trained matrix as much once more, and
    attention twice its forward pass, since both factors of its products are inputs. All weights trained, this is twice
    the forward pass; with an adapter it is little more than once. The inputs of the first layer count also where
    nothing before them is trained.
    """
    inputs = shape.body.size * work.tokens + shape.head.size * work.scored
    weights = shape.body.trained * work.tokens + shape.head.trained * work.scored
    return 2 * (inputs + weights) + 8 * shape.width * work.pairs


def training_flops(shape: ModelShape, work: Work) -> int:
    """Return the model FLOPs of a gradient: one forward and one backward pass."""
    return forward_flops(shape, work) + backward_flops(shape, work)


@dataclass(frozen=True, slots=True)
class PassCost:
    """The hardware FLOPs of a pass over a micro-batch, as this program computes it.

    Attributes:
        shape: of the model.
        recomputed: whether the backward pass computes the layers again.
        all_logits: whether logits are computed for all tokens, not for the scored ones alone.
    """

    shape: ModelShape
    recomputed: bool = False
    all_logits: bool = False

    def flops(
        self, lengths: NDArray[np.int64], scored: int, *, gradient: bool, begun: NDArray[np.int64] | None = None
    ) -> int:
        """Return the operations.

        Args:
            lengths: int64 [B], tokens of each sequence as it is computed, padding included.
            scored: number of tokens that are scored.
            gradient: whether a backward pass follows.
            begun: int64 [B], tokens of each sequence that are computed for another one; None: none.
        """
        work = Work.of(self.shape, lengths, scored, begun)
        if self.all_logits:
            work = replace(work, scored=work.tokens)
        total = forward_flops(self.shape, work)
        return total + backward_flops(self.shape, work) + self._again(work) if gradient else total

    def _again(self, work: Work) -> int:
        """Return the operations of what the backward pass computes a second time: layers, and logits in chunks.

        The last product of a layer counts, although torch leaves it out.
        """
        chunked = not self.all_logits and work.scored * self.shape.words > CHUNK
        layers = Work(work.tokens if self.recomputed else 0, 0, work.pairs if self.recomputed else 0)
        return forward_flops(self.shape, layers) + chunked * 2 * self.shape.head.size * work.scored
