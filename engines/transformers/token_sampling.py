"""Sampling tokens from logits: temperature, truncation, and one uniform number for each token.

The uniform numbers come from a counter-based generator: number `i` of turn `t` of an episode depends on the episode's
seed, `t` and `i` alone. The rest of the batch changes nothing beyond floating-point rounding.

Not included: repetition penalties and logit processors. With them, the distribution would depend on what was sampled
before.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from turncredit.engines.transformers.kvcache import to_device

LARGE = 4096
"""Vocabularies of more tokens are sampled in two steps, and their nucleus is looked for among the most probable ones:
cumulative sums and sorting of a whole row cost as much as a layer of the model."""

BLOCK = 256
"""Tokens whose probabilities are summed in the first step."""

HEAD = 1024
"""Most probable tokens among which a nucleus is looked for first."""

_MASK = (1 << 64) - 1
_GOLDEN = 0x9E3779B97F4A7C15


def stream_key(seed: int, turn: int) -> int:
    """Return the 64-bit key of the random numbers of one turn: two rounds of splitmix64 over seed and turn.

    Args:
        seed: sampling seed of the episode, any integer.
        turn: index of the turn.

    Returns:
        Integer in [0, 2**64).

    Source: Steele, Lea, Flood, Fast splittable pseudorandom number generators (OOPSLA 2014).
    """
    return _mix((_mix((seed + _GOLDEN) & _MASK) ^ ((turn + 1) * _GOLDEN)) & _MASK)


def uniforms(keys: np.ndarray, counters: np.ndarray) -> np.ndarray:
    """Return one number in [0, 1) for each pair of key and counter, with 53 random bits.

    u = splitmix64(key + (counter + 1) * golden) >> 11, times 2**-53.

    Args:
        keys: uint64 [B], from `stream_key`.
        counters: int64 [B], index of the token within its turn.

    Returns:
        float64 [B].
    """
    with np.errstate(over="ignore"):
        z = keys + (counters.astype(np.uint64) + np.uint64(1)) * np.uint64(_GOLDEN)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        z = z ^ (z >> np.uint64(31))
    return np.asarray((z >> np.uint64(11)).astype(np.float64) * 2.0**-53)


def sample_tokens(
    logits: torch.Tensor,
    temperature: Sequence[float],
    top_p: Sequence[float],
    uniform: np.ndarray,
    *,
    top_k: Sequence[int] = (),
    min_p: Sequence[float] = (),
) -> tuple[list[int], list[float]]:
    """Return one token for each row of logits, and its log-probability (nats) under the distribution drawn from.

    p = softmax(logits / temperature). With min_p > 0, only tokens with p >= min_p * max(p) are kept; with top_k > 0, of
    these the `top_k` most probable ones, and all that are as probable as the last of them; p is normalised again. With
    top_p < 1, of these the smallest set of most probable tokens whose mass reaches `top_p` is kept, and p is normalised
    again. This is vLLM's order. The token is the first whose cumulative p exceeds `uniform`. At
    temperature 0 the token is the most probable one (the first, if several are equal), and its log-probability is the
    model's own, at temperature 1 and without truncation.

    Args:
        logits: [B, V], any floating type; computed in float32, accumulated in float64.
        temperature: B numbers >= 0.
        top_p: B numbers in (0, 1].
        uniform: float64 [B] in [0, 1).
        top_k: B integers >= 0; 0: all tokens. Empty: 0 for every row.
        min_p: B numbers in [0, 1]; 0: all tokens. Empty: 0 for every row.

    Returns:
        B token ids and B log-probabilities.

    Raises:
        FloatingPointError: the logits are not finite, so there is no distribution to sample from.
    """
    heat = [t if t > 0 else 1.0 for t in temperature]
    logits = logits.float()
    # One copy to the device and one back: each of them may wait for it.
    numbers = to_device(np.array([heat, top_p, temperature, uniform], dtype=np.float64), logits.device)
    if any(t != 1.0 for t in heat):
        logits = logits / numbers[0].float()[:, None]
    logprobs = torch.log_softmax(logits, dim=-1)
    few = list(zip(top_k or [0] * len(heat), min_p or [0.0] * len(heat), strict=True))
    short = [row for row, (limits, t) in enumerate(zip(few, temperature, strict=True)) if any(limits) and t > 0]
    if short:
        rows = to_device(np.array(short), logits.device)
        logprobs[rows] = _most_probable(logprobs[rows], *zip(*[few[row] for row in short], strict=True))
    cut = [row for row, (p, t) in enumerate(zip(top_p, temperature, strict=True)) if p < 1 and t > 0]
    if len(cut) == len(heat):
        logprobs = _nucleus(logprobs, numbers[1].float())
    elif cut:
        rows = to_device(np.array(cut), logits.device)
        logprobs[rows] = _nucleus(logprobs[rows], numbers[1, rows].float())
    greedy = [t <= 0 for t in temperature]
    tokens = logprobs.argmax(dim=-1) if all(greedy) else _invert(logprobs, numbers[3])
    if any(greedy) and not all(greedy):
        tokens = torch.where(numbers[2] <= 0, logprobs.argmax(dim=-1), tokens)
    picked = logprobs.gather(1, tokens[:, None])[:, 0]
    # Both are exact in float64.
    ids, values = torch.stack([tokens.double(), picked.double()]).tolist()
    if not np.isfinite(values).all():
        raise FloatingPointError("the model's logits are not finite")
    return [int(token) for token in ids], values


def _most_probable(logprobs: torch.Tensor, top_k: Sequence[int], min_p: Sequence[float]) -> torch.Tensor:
    """Return the log-probabilities [B, V] of the tokens within both limits, normalised again; all others are -inf."""
    size, device = logprobs.shape[1], logprobs.device
    counts = np.array([min(k, size) or size for k in top_k])
    ordered = logprobs.topk(int(counts.max()), dim=-1).values
    last = ordered.gather(1, to_device(counts - 1, device)[:, None])
    floor = ordered[:, :1] + to_device(np.array(min_p, dtype=np.float64), device).log()[:, None]
    return torch.log_softmax(logprobs.masked_fill((logprobs < last) | (logprobs < floor), -torch.inf), dim=-1)


def _nucleus(logprobs: torch.Tensor, top_p: torch.Tensor) -> torch.Tensor:
    """Return the log-probabilities [B, V] of the nucleus, normalised again; all others are -inf."""
    if logprobs.shape[1] > LARGE:
        ordered, order = logprobs.topk(HEAD, dim=-1)
        if bool((ordered.double().exp().sum(dim=-1) > top_p.double() + 1e-6).all()):
            nucleus = torch.full_like(logprobs, -torch.inf)
            return nucleus.scatter_(1, order, torch.log_softmax(_keep(ordered, top_p), dim=-1))
    ordered, order = logprobs.sort(dim=-1, descending=True, stable=True)
    nucleus = torch.empty_like(logprobs).scatter_(1, order, _keep(ordered, top_p))
    return torch.log_softmax(nucleus, dim=-1)


def _keep(ordered: torch.Tensor, top_p: torch.Tensor) -> torch.Tensor:
    """Return log-probabilities in falling order, with -inf outside of the nucleus."""
    before = ordered.double().exp().cumsum(dim=-1) - ordered.double().exp()
    # A token is kept if the mass before it is below top_p; the first token is always kept.
    dropped = before >= top_p[:, None].double()
    dropped[:, 0] = False
    return ordered.masked_fill(dropped, -torch.inf)


def _invert(logprobs: torch.Tensor, uniform: torch.Tensor) -> torch.Tensor:
    """Return the first index of each row [B, V] whose cumulative probability exceeds `uniform` times the total."""
    if logprobs.shape[1] > LARGE:
        return _invert_blocks(logprobs.exp(), uniform)
    mass = logprobs.double().exp().cumsum(dim=-1)
    return _first_above(mass, uniform[:, None].double() * mass[:, -1:])


def _invert_blocks(mass: torch.Tensor, uniform: torch.Tensor) -> torch.Tensor:
    """Return the same for probabilities [B, V]: first the block of tokens, then the token in it."""
    size = mass.shape[1]
    whole = size - size % BLOCK
    sums = [mass[:, :whole].view(len(mass), -1, BLOCK).sum(dim=-1), mass[:, whole:].sum(dim=-1, keepdim=True)]
    ends = torch.cat(sums, dim=1).double().cumsum(dim=-1)
    target = uniform[:, None].double() * ends[:, -1:]
    block = _first_above(ends, target)[:, None]
    start = torch.where(block > 0, ends.gather(1, (block - 1).clamp(min=0)), 0.0)
    index = block * BLOCK + torch.arange(BLOCK, device=mass.device)
    inside = mass.gather(1, index.clamp(max=size - 1)).double().masked_fill(index >= size, 0.0)
    return (block[:, 0] * BLOCK + _first_above(start + inside.cumsum(dim=-1), target)).clamp_(max=size - 1)


def _first_above(sums: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    """Return the first index of each row [B, N] of rising sums that exceeds the target [B, 1]."""
    last = sums[:, -1:]
    # Strictly below the total even after rounding, or a final token of probability zero could be chosen.
    below = torch.minimum(target, torch.nextafter(last, torch.zeros_like(last)))
    return torch.searchsorted(sums, below, right=True)[:, 0].clamp_(max=sums.shape[1] - 1)


def _mix(value: int) -> int:
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & _MASK
    return value ^ (value >> 31)
