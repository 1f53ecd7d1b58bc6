"""Log-probabilities and entropies of tokens, and means over the vocabulary, from hidden states through the projection.

With M tokens and V words in the vocabulary, the plain way holds several arrays [M, V] at once. Above `CHUNK` numbers
the tokens are processed in chunks instead: the forward pass keeps a few numbers per token, and the backward pass
computes the logits of each chunk again. Both ways have the same result up to rounding.

What is done with logits can be compiled: torch then reads them a few times, and not once for each operation.
"""

from collections.abc import Callable, Iterator
from functools import cache, partial
from typing import Any, Final

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from turncredit.training.learner.kernels import fused
from turncredit.training.learner.untyped import CausalLM

CHUNK = 2**25
"""Largest number of logits (tokens x vocabulary) that is computed at once: 128 MiB in float32."""

LOWEST = -1e4
"""Log-probability below which p, and with it p log p, is 0 in every floating type; -inf itself would give 0 * inf."""


WIDEST: Final = 1e4
"""Largest logit of the ramp that shows what a model does after its output layer."""

Heat = float | Tensor
"""The temperature of all tokens, or a tensor [M, 1] with that of each."""


def token_logprobs(
    hidden: Tensor,
    head: Any,
    tokens: Tensor,
    *,
    temperature: Heat = 1.0,
    entropy: bool = False,
    mean: bool = False,
    chunk: int = CHUNK,
    compiled: bool = False,
) -> tuple[Tensor, ...]:
    """Return the log-probability of each token, and the entropy of the distribution that it was drawn from.

    log p = log softmax(head(hidden) / temperature)[token]. A token with a logit of -inf has p = 0, and adds nothing to
    the entropy.

    Args:
        hidden: float [M, H], hidden states of the positions before the tokens.
        head: the module that projects to the vocabulary.
        tokens: int64 [M].
        temperature: > 0, a number or a tensor [M, 1].
        entropy: whether the entropy carries gradient.
        mean: return the mean of log p over the vocabulary as well, without gradient; log p counts as -10,000 where it
            is less.
        chunk: largest number of logits that is computed at once.
        compiled: compute with kernels that torch compiles.

    Returns:
        Two float tensors [M], nats; with `mean` three.
    """
    rows = max(1, chunk // head.weight.shape[0])
    if len(hidden) <= rows:
        of_logits = _compiled(logprobs_of) if compiled else logprobs_of
        return tuple(of_logits(head(hidden), tokens, temperature=temperature, entropy=entropy, mean=mean))
    if type(head) is torch.nn.Linear:
        states, dtype = hidden, _autocast_dtype(hidden)
        if dtype is not None:
            states = hidden.to(dtype)
        score, slope = (_compiled(_score_chunk), _compiled(_slope_chunk)) if compiled else (_score_chunk, _slope_chunk)
        steps = partial(score, mean=mean), slope
        chosen, spread, *means = _InChunks.apply(states, head.weight, head.bias, tokens, temperature, rows, steps)  # type: ignore[no-untyped-call]
        return chosen, spread if entropy else spread.detach(), *means

    def one(part: Tensor, of: Tensor, heat: Heat) -> tuple[Tensor, ...]:
        return logprobs_of(head(part), of, temperature=heat, entropy=entropy, mean=mean)

    parts = [
        checkpoint(
            one, hidden[cut], tokens[cut], _of(temperature, cut), use_reentrant=False
        )  # a head with more than one matrix
        for cut in _cuts(len(hidden), rows)
    ]
    return tuple(torch.cat(column) for column in zip(*parts, strict=True))


def logprobs_of(
    logits: Tensor, tokens: Tensor, *, temperature: Heat = 1.0, entropy: bool = False, mean: bool = False
) -> tuple[Tensor, ...]:
    """Return log-probabilities and entropies of tokens from logits [M, V], as `token_logprobs` does."""
    if logits.dtype in (torch.bfloat16, torch.float16):
        logits = logits.float()
    normalised = torch.log_softmax(_divided(logits, temperature), dim=-1)
    chosen = normalised.gather(-1, tokens[:, None])[:, 0]
    source = normalised.detach()
    means = (source.clamp(min=LOWEST).mean(-1),) if mean else ()
    if entropy and torch.is_grad_enabled():
        return chosen, -(normalised.exp() * normalised.clamp(min=LOWEST)).sum(-1), *means
    return chosen, -source.exp().mul_(source.clamp(min=LOWEST)).sum(-1), *means


class _InChunks(torch.autograd.Function):
    """The same from hidden states [M, H], a weight [V, H] and a bias [V], without holding [M, V] at once.

    With p = softmax(z), z = (W h + b) / temperature, and entropy E = -sum(p log p):
    d log p_y / d z = onehot(y) - p, and d E / d z = -p (log p + E).
    """

    @staticmethod
    def forward(
        ctx: Any,
        hidden: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        tokens: Tensor,
        temperature: Heat,
        rows: int,
        steps: tuple[Callable[..., tuple[Tensor, ...]], Callable[..., Tensor]],
    ) -> tuple[Tensor, ...]:
        with torch.autocast(hidden.device.type, enabled=False):
            matrix, shift = _cast(weight, hidden), _cast(bias, hidden)
            parts = [
                steps[0](hidden[cut], matrix, shift, tokens[cut], _of(temperature, cut))
                for cut in _cuts(len(hidden), rows)
            ]
        chosen, spread, norm, *means = (torch.cat(column) for column in zip(*parts, strict=True))
        ctx.save_for_backward(hidden, weight, bias, tokens, norm, spread)
        ctx.temperature, ctx.rows, ctx.slope = temperature, rows, steps[1]
        ctx.set_materialize_grads(False)
        ctx.mark_non_differentiable(*means)
        return chosen, spread, *means

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        hidden, weight, bias, tokens, norm, spread = ctx.saved_tensors
        to_hidden, to_weight, to_bias = ctx.needs_input_grad[:3]
        of_chosen, of_spread = grads[:2]
        if of_chosen is None:
            of_chosen = torch.zeros_like(norm)
        sums = [
            torch.empty_like(hidden) if to_hidden else None,
            torch.zeros_like(weight) if to_weight else None,
            torch.zeros_like(bias) if bias is not None and to_bias else None,
        ]
        matrix, shift = _cast(weight, hidden), _cast(bias, hidden)
        for cut in _cuts(len(hidden), ctx.rows):
            entropies = None if of_spread is None else (spread[cut], of_spread[cut])
            heat = _of(ctx.temperature, cut)
            slope = ctx.slope(hidden[cut], matrix, shift, tokens[cut], heat, norm[cut], of_chosen[cut], entropies)
            _accumulate(sums, cut, slope, hidden[cut], matrix)
        return (*sums, None, None, None, None)


def _score_chunk(
    hidden: Tensor, matrix: Tensor, shift: Tensor | None, tokens: Tensor, temperature: Heat, mean: bool
) -> tuple[Tensor, ...]:
    """Return log-probability, entropy and log-sum-exp of one chunk, and with `mean` the mean over the vocabulary."""
    logits = _logits(hidden, matrix, shift, temperature)
    norm = logits.logsumexp(-1)
    logits -= norm[:, None]
    chosen = logits.gather(-1, tokens[:, None])[:, 0]
    spread = -(logits.exp().mul_(logits.clamp_(min=LOWEST))).sum(-1)
    return (chosen, spread, norm, logits.mean(-1)) if mean else (chosen, spread, norm)


def _slope_chunk(
    hidden: Tensor,
    matrix: Tensor,
    shift: Tensor | None,
    tokens: Tensor,
    temperature: Heat,
    norm: Tensor,
    of_chosen: Tensor,
    entropies: tuple[Tensor, Tensor] | None,
) -> Tensor:
    """Return the gradient of one chunk's logits, in the type of its hidden states."""
    logits = _logits(hidden, matrix, shift, temperature)
    logits -= norm[:, None]
    slope = logits.exp()
    if entropies is None:
        slope *= -of_chosen[:, None]
    else:
        spread, of_spread = entropies
        logits.clamp_(min=LOWEST)
        slope *= logits.add_(spread[:, None]).mul_(-of_spread[:, None]).sub_(of_chosen[:, None])
    del logits
    slope.scatter_add_(1, tokens[:, None], of_chosen[:, None])
    return (slope / _like(temperature, slope)).to(hidden.dtype)


_compiled = cache(fused)
"""The functions of this module, compiled once for all learners."""


def _logits(hidden: Tensor, matrix: Tensor, shift: Tensor | None, temperature: Heat) -> Tensor:
    """Return the logits of some hidden states, divided by the temperature, in float32 or wider."""
    logits = torch.nn.functional.linear(hidden, matrix, shift)
    logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
    if isinstance(temperature, Tensor):
        return logits.div_(_like(temperature, logits))
    return logits if temperature == 1.0 else logits.div_(temperature)


def _divided(logits: Tensor, temperature: Heat) -> Tensor:
    """Return logits / temperature, in the type of the logits."""
    if not isinstance(temperature, Tensor) and temperature == 1.0:
        return logits
    return logits / _like(temperature, logits)


def _like(temperature: Heat, numbers: Tensor) -> Heat:
    return temperature.to(numbers.dtype) if isinstance(temperature, Tensor) else temperature


def _of(temperature: Heat, cut: slice) -> Heat:
    """Return the temperature of a chunk of tokens."""
    return temperature[cut] if isinstance(temperature, Tensor) else temperature


def _accumulate(sums: list[Tensor | None], cut: slice, slope: Tensor, hidden: Tensor, matrix: Tensor) -> None:
    """Add the gradient of one chunk to those of hidden states, weight and bias."""
    of_hidden, of_weight, of_bias = sums
    if of_hidden is not None:
        torch.mm(slope, matrix, out=of_hidden[cut])
    if of_weight is not None and of_weight.dtype == slope.dtype:
        of_weight.addmm_(slope.T, hidden)
    elif of_weight is not None:
        of_weight += slope.T @ hidden
    if of_bias is not None:
        of_bias += slope.sum(0)


def _cast(tensor: Tensor | None, like: Tensor) -> Any:
    return None if tensor is None else tensor.to(like.dtype)


def _cuts(count: int, rows: int) -> Iterator[slice]:
    """Yield slices of at most `rows` out of `count`."""
    return (slice(start, min(start + rows, count)) for start in range(0, count, rows))


def _autocast_dtype(like: Tensor) -> torch.dtype | None:
    """Return the dtype in which autocast computes on a tensor's device; None without autocast."""
    device = like.device.type
    return torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else None


def head_is_a_projection(model: CausalLM) -> bool:
    """Return whether a model's logits are the output layer's, and its input the last hidden state, on two tokens.

    In the place of the output layer's own outputs the model gets a ramp up to `WIDEST`: a cap, a scale or a mask after
    the layer shows in it, however small the logits of the weights at hand are.
    """
    head: Any = model.get_output_embeddings()
    body: Any = getattr(model, "base_model", model)
    if head is None or body is model:
        return False
    hidden: list[Tensor] = []
    ramps: list[Tensor] = []

    def replace_output(_: Any, arguments: tuple[Tensor, ...], output: Tensor) -> Tensor:
        hidden.extend(arguments)
        values = torch.linspace(-WIDEST, WIDEST, output.numel(), device=output.device)
        ramps.append(values.view(output.shape).to(output.dtype))
        return ramps[-1]

    probe = torch.tensor([[1, 2]], device=next(iter(model.parameters())).device)
    handle = head.register_forward_hook(replace_output)
    try:
        logits = model(input_ids=probe, use_cache=False).logits
    finally:
        handle.remove()
    last = body(input_ids=probe, use_cache=False).last_hidden_state
    if len(ramps) != 1 or len(hidden) != 1 or ramps[0].shape != logits.shape or hidden[0].shape != last.shape:
        return False
    return torch.equal(logits.double(), ramps[0].double()) and torch.allclose(hidden[0], last, atol=1e-4)
