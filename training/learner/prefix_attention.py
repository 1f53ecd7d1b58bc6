"""Attention in a forest of prefixes, as an attention function of transformers: a token sees itself and its ancestors.

A branch attends to the keys of its path in one call of the model's own function ("sdpa" or "eager"), so that nothing is
computed between tokens that do not see each other. Which ancestors a layer sees (all, or those in a window) is the
model's own mask at the depths of the tokens. With "flex_attention" all branches are one call, and a block mask leaves
out what is not seen.
"""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import cache
from typing import Final

import numpy as np
import torch
from torch import Tensor

from turncredit.training.batch.batch import Batch
from turncredit.training.batch.prefix_forest import PrefixForest
from turncredit.training.learner.untyped import CausalLM

NAME: Final = "turncredit_prefixes"
"""Name of the attention function in transformers."""

Rule = Callable[..., Tensor]
"""Whether a token sees another: of batch, head, and their positions."""

Attention = Callable[..., tuple[Tensor, object]]
"""An attention function of transformers."""


@dataclass(slots=True)
class ForestPass:
    """One pass of a model over a forest.

    Attributes:
        forest: of its tokens.
        function: name of the attention function of a branch, by default the model's own; "flex_attention": of all.
        calls: attention layers that were computed.
    """

    forest: PrefixForest
    function: str
    calls: int = 0
    _plain: dict[int, bool] = field(default_factory=dict)
    _additive: dict[tuple[int, torch.dtype], Tensor] = field(default_factory=dict)

    def sees_all(self, mask: Tensor) -> bool:
        """Whether a mask [1, 1, L, L] over depths shows every ancestor."""
        key = mask.data_ptr()
        if key not in self._plain:
            self._plain[key] = torch.equal(mask[0, 0], torch.ones_like(mask[0, 0]).tril())
        return self._plain[key]

    def additive(self, mask: Tensor, like: Tensor) -> Tensor:
        """Return a mask as numbers to add to scores: 0 where it is true, else the lowest number.

        A kernel would make one of its own for each branch of each layer and keep it for the backward pass; of this one
        all of them keep views.
        """
        device = like.device.type
        dtype = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else like.dtype
        key = mask.data_ptr(), dtype
        if key not in self._additive:
            hidden = torch.full((), torch.finfo(dtype).min, dtype=dtype, device=mask.device)
            self._additive[key] = torch.where(mask, torch.zeros_like(hidden), hidden)
        return self._additive[key]


# transformers calls an attention function with tensors and the layer's module alone: the forest comes by this way, also
# to layers that are computed again in the backward pass, on a thread of torch.
_PASS: ContextVar[ForestPass] = ContextVar("forest pass")


@contextmanager
def attending(model: CausalLM, running: ForestPass) -> Iterator[None]:
    """Let a model attend in a forest, and restore its own attention function afterwards."""
    _register()
    text = model.config.get_text_config()
    before, token = text._attn_implementation, _PASS.set(running)
    text._attn_implementation = NAME
    try:
        yield
    finally:
        text._attn_implementation = before
        _PASS.reset(token)


def own_function(model: CausalLM) -> str:
    """Return the name of a model's own attention function."""
    return str(model.config.get_text_config()._attn_implementation)


def forest_mask(
    *sizes: object, mask_function: Rule, device: torch.device, use_vmap: bool = False, **others: object
) -> object:
    """Return what one kind of layers sees, from the model's own rule: a bool mask [1, 1, L, L] of depths, or of blocks.

    A row of a forest has the positions of its depths, so what the rule says of two positions holds for all paths.
    """
    from transformers.masking_utils import sdpa_mask

    running = _PASS.get()
    if running.function == "flex_attention":
        return _block_mask(running.forest, mask_function, device)
    longest = running.forest.longest
    options = {"mask_function": mask_function, "use_vmap": use_vmap, "device": device}
    mask: Tensor = sdpa_mask(1, longest, longest, allow_is_causal_skip=False, **options)
    return mask


def _block_mask(forest: PrefixForest, rule: Rule, device: torch.device) -> object:
    from transformers.integrations import flex_attention

    depth, end = (torch.from_numpy(array).to(device) for array in (forest.depth, forest.end))

    def seen(batch: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
        visible: Tensor = (key <= query) & (query < end[key]) & rule(batch, head, depth[query], depth[key])
        return visible

    size, compiled = len(forest), device.type == "cuda"
    return flex_attention.create_block_mask(
        seen, B=1, H=None, Q_LEN=size, KV_LEN=size, device=device, _compile=compiled
    )


@torch.compiler.disable  # type: ignore[untyped-decorator]
def prefix_attention(
    module: torch.nn.Module, query: Tensor, key: Tensor, value: Tensor, attention_mask: object, **options: object
) -> tuple[Tensor, None]:
    """Return the attention [1, N, heads, size] of the tokens of the running pass's forest.

    Raises:
        NotImplementedError: the model does not say by a mask what a layer sees, or adds a bias to the scores.
    """
    running = _PASS.get()
    running.calls += 1
    if options.get("position_bias") is not None:
        raise NotImplementedError("attention with position_bias")
    if running.function == "flex_attention":
        return _in_one_call(module, query, key, value, attention_mask, options), None
    longest = running.forest.longest
    if not isinstance(attention_mask, Tensor) or attention_mask.shape != (1, 1, longest, longest):
        raise NotImplementedError("attention with a mask of its own")
    return _by_branch(running, module, query, key, value, attention_mask, options), None


def _in_one_call(
    module: torch.nn.Module, query: Tensor, key: Tensor, value: Tensor, mask: object, options: dict[str, object]
) -> Tensor:
    from transformers.integrations import flex_attention

    if not isinstance(mask, flex_attention.BlockMask):
        raise NotImplementedError("attention with a mask of its own")
    out: Tensor = flex_attention.flex_attention_forward(module, query, key, value, mask, **options)[0]
    return out


def _by_branch(
    running: ForestPass,
    module: torch.nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor,
    options: dict[str, object],
) -> Tensor:
    forest, eager = running.forest, running.function == "eager"
    attend = _eager(module) if eager else _fused()
    plain, added = not eager and running.sees_all(mask), running.additive(mask, query)
    # Pieces are split once, and not sliced for each branch: the gradient of a slice is as large as the whole.
    keys, values = (torch.split(tensor, list(forest.pieces), dim=2) for tensor in (key, value))
    queries = torch.split(query, [branch.size for branch in forest.branches], dim=2)
    results = []
    for branch, asked in zip(forest.branches, queries, strict=True):
        start, stop = branch.depth, branch.depth + branch.size
        # Without a mask the function is causal, which is fastest, but it counts from the first key: that is right at a
        # root. A single token sees all keys.
        seen = None if plain and (not start or branch.size == 1) else added[:, :, start:stop, :stop]
        out, _ = attend(module, asked, _joined(keys, branch.path), _joined(values, branch.path), seen, **options)
        results.append(out)
    return results[0] if len(results) == 1 else torch.cat(results, dim=1)


def _joined(pieces: tuple[Tensor, ...], path: tuple[int, ...]) -> Tensor:
    return pieces[path[0]] if len(path) == 1 else torch.cat([pieces[number] for number in path], dim=2)


def _eager(module: torch.nn.Module) -> Attention:
    """Return the attention that the module's own file writes out, with caps and sinks of its own."""
    function: Attention | None = getattr(sys.modules[type(module).__module__], "eager_attention_forward", None)
    if function is None:
        raise NotImplementedError("attention of its own")
    return function


def _fused() -> Attention:
    from transformers.integrations.sdpa_attention import sdpa_attention_forward

    function: Attention = sdpa_attention_forward
    return function


def forked_rows(words: int) -> Batch:
    """Return rows that part after one, four and five tokens, and end alike; their ids are below `words`."""
    ids = [[1, 2, 3, 4, 5, 6, 7], [1, 2, 3, 4, 5, 9, 7], [1, 2, 3, 4, 9, 6, 7], [1, 5, 3, 4, 5, 6, 7]]
    tokens = np.array(ids, dtype=np.int64) % words
    mask, rows, nothing = np.ones(tokens.shape, dtype=bool), np.arange(len(tokens)), np.zeros(tokens.shape)
    mask[:, 0] = False
    number = np.where(mask, rows[:, None], -1)
    return Batch(tokens, np.full(len(tokens), tokens.shape[1]), mask, nothing, nothing, rows, number, number)


def difference(alone: Tensor, together: Tensor, *, coarse: bool) -> str:
    """Return what is wrong with log-probabilities that rows have together, or nothing.

    Args:
        alone: float [B, L], nats, of rows that end with the same token.
        together: float [B, L], of the same rows as a forest.
        coarse: whether they are computed with two or three digits.
    """
    alone, together = alone.double(), together.double()
    # An untrained model hardly reacts to its context, so an error counts against that reaction.
    reaction = float((alone[1:, -1] - alone[:-1, -1]).abs().max())
    bound = 0.1 if coarse else min(1e-3, 0.01 * reaction) + 1e-5
    agree = float((alone - together).abs().max()) <= bound
    return "" if agree else "its tokens see more than their own row"


@cache
def _register() -> None:
    from transformers import AttentionInterface, AttentionMaskInterface

    AttentionInterface.register(NAME, prefix_attention)
    AttentionMaskInterface.register(NAME, forest_mask)
