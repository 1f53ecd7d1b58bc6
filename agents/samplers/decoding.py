"""Decoding back ends: the logits of the next token of many sequences, with and without a KV cache.

`CachedDecoder` keeps the keys and values of every episode in a slot, and computes new tokens only. `UncachedDecoder`
computes every sequence from its beginning, which is slow but correct for any causal language model. `make_decoder`
chooses the first if both agree on a few tokens of the model.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from turnwise.agents.samplers.kvcache import CacheAccess, SlotCache, unsupported_reason

PREFILL_TOKENS = 4096
"""Most tokens, including padding, of one prefill pass."""


@dataclass(slots=True)
class DecodingCounts:
    """What a decoder has computed: passes through the model, and tokens."""

    passes: int = 0
    prefilled: int = 0
    """Tokens of prompts that were computed."""
    decoded: int = 0
    """Sampled tokens that were fed back."""
    reused: int = 0
    """Tokens of prompts that were found in a slot, or copied from an equal sequence."""


class Decoder:
    """A back end of the sampler; this base class keeps nothing for an episode."""

    def __init__(self, model: Any) -> None:
        """Keep the model."""
        self.model = model
        self.counts = DecodingCounts()
        self._last_only: dict[str, int] = {}
        if "logits_to_keep" in inspect.signature(model.forward).parameters:
            self._last_only = {"logits_to_keep": 1}  # compute the logits of the last position only

    def logits(self, batch: Sequence[tuple[str, list[int]]]) -> torch.Tensor:
        """Return the logits [B, V] of the next token of each (episode, whole sequence)."""
        raise NotImplementedError(f"{type(self).__name__} must define logits()")

    def begin(self, episode: str, prompt: Sequence[int]) -> bool:
        """Make room for a sequence that starts with `prompt`; return False if there is none at the moment."""
        return True

    def pause(self, episode: str) -> None:
        """Keep what the episode's next turn can reuse, unless another episode needs the room."""

    def drop(self, episode: str) -> None:
        """Forget the episode; an unknown one is not an error."""

    def reset(self) -> None:
        """Forget everything, because the weights changed."""

    def release(self) -> None:
        """Forget everything and free the memory: at the end, or after values that are not finite."""


class UncachedDecoder(Decoder):
    """Computes every sequence from its beginning; sequences of equal length share a pass, without padding or masks."""

    def logits(self, batch: Sequence[tuple[str, list[int]]]) -> torch.Tensor:
        """Return the logits [B, V] of the next token of each (episode, whole sequence)."""
        by_length: dict[int, list[int]] = {}
        for index, (_, ids) in enumerate(batch):
            by_length.setdefault(len(ids), []).append(index)
        parts = []
        for indices in by_length.values():
            block = torch.tensor([batch[index][1] for index in indices], device=self.model.device)
            parts.append(self.model(input_ids=block, use_cache=False, **self._last_only).logits[:, -1])
            self.counts.passes += 1
            self.counts.prefilled += block.numel()
        return torch.cat(parts)[_inverse([index for indices in by_length.values() for index in indices])]


@dataclass(slots=True)
class _Slot:
    """A slot in use: its index, the tokens in its columns, and whether a sequence is being sampled in it."""

    index: int
    tokens: list[int] = field(default_factory=list)
    busy: bool = True


@dataclass(slots=True)
class _NewTokens:
    """One row of a pass: where its logits go, its slot, and its new tokens."""

    index: int
    slot: _Slot
    new: list[int]


class CachedDecoder(Decoder):
    """Keeps the keys and values of up to `slots` episodes of up to `context` tokens between turns.

    Slots in use are always 0 .. n-1 (the last one moves into a gap), so that a batch of all of them is one view. If no
    slot is free, the paused episode that was used least recently loses its own.
    """

    def __init__(self, model: Any, *, slots: int, context: int) -> None:
        """Keep the model; the memory of the slots is allocated at the first pass."""
        super().__init__(model)
        self.slots = slots
        self.context = context
        self._used: dict[str, _Slot] = {}
        self._cache = self._new_cache()

    @property
    def used(self) -> int:
        """Number of slots in use."""
        return len(self._used)

    def begin(self, episode: str, prompt: Sequence[int]) -> bool:
        """Assign a slot and keep the prefix of `prompt` that it holds; return False if every slot is busy."""
        slot = self._used.pop(episode, None) or self._take_slot()
        if slot is None:
            return False
        self._used[episode] = slot  # at the end: the dict is ordered by last use
        slot.busy = True
        # At least one token is computed, since the logits after the last token are needed.
        del slot.tokens[_common(slot.tokens, prompt, len(prompt) - 1) :]
        self.counts.reused += len(slot.tokens)
        return True

    def logits(self, batch: Sequence[tuple[str, list[int]]]) -> torch.Tensor:
        """Return the logits [B, V] of the next token of each (episode, whole sequence that extends its slot)."""
        leaders: dict[tuple[int, ...], _NewTokens] = {}
        duplicates: list[tuple[_NewTokens, _NewTokens]] = []
        rows: list[_NewTokens] = []
        for index, (episode, ids) in enumerate(batch):
            slot = self._used[episode]
            row = _NewTokens(index, slot, ids[len(slot.tokens) :])
            leader = leaders.setdefault(tuple(row.new), row) if not slot.tokens else row
            if leader is row:
                rows.append(row)
            else:
                duplicates.append((row, leader))
        parts, order = [], []
        for group in _groups(rows):
            parts.append(self._pass(group))
            order += [row.index for row in group]
        out = torch.cat(parts) if len(parts) > 1 else parts[0]
        if not duplicates:
            return out[_inverse(order)] if order != list(range(len(order))) else out
        return out[self._copy_duplicates(duplicates, order)]

    def pause(self, episode: str) -> None:
        """Keep the episode's slot for its next turn, unless another episode needs it."""
        if episode in self._used:
            self._used[episode].busy = False

    def drop(self, episode: str) -> None:
        """Free the episode's slot; the last slot in use moves into the gap."""
        gone = self._used.pop(episode, None)
        if gone is None or gone.index == len(self._used):
            return
        last = next(slot for slot in self._used.values() if slot.index == len(self._used))
        self._cache.copy_slot(last.index, gone.index, len(last.tokens))
        last.index = gone.index

    def reset(self) -> None:
        """Forget the contents of all slots."""
        self._used.clear()

    def release(self) -> None:
        """Forget the contents of all slots and free their memory."""
        self._used.clear()
        self._cache = self._new_cache()

    def _new_cache(self) -> SlotCache:
        layers = int(self.model.config.get_text_config().num_hidden_layers)
        return SlotCache(layers, self.slots, self.context)

    def _take_slot(self) -> _Slot | None:
        if len(self._used) < self.slots:
            return _Slot(len(self._used))
        oldest = next((name for name, slot in self._used.items() if not slot.busy), None)
        return None if oldest is None else _Slot(self._used.pop(oldest).index)

    def _copy_duplicates(self, duplicates: list[tuple[_NewTokens, _NewTokens]], order: list[int]) -> list[int]:
        """Copy the slots of equal sequences, and return which computed row each row of the batch takes."""
        place = {index: at for at, index in enumerate(order)}
        for row, leader in duplicates:
            place[row.index] = place[leader.index]
            self._cache.copy_slot(leader.slot.index, row.slot.index, len(leader.slot.tokens))
            row.slot.tokens = list(leader.slot.tokens)
            self.counts.reused += len(row.new)
        return [place[index] for index in range(len(place))]

    def _pass(self, group: list[_NewTokens]) -> torch.Tensor:
        """Compute the new tokens of rows sorted by slot, and return the logits [B, V] after the last token of each."""
        slots = np.array([row.slot.index for row in group])
        lowest, span = int(slots[0]), int(slots[-1]) - int(slots[0]) + 1
        longest = max(len(row.new) for row in group)
        # A few idle rows in between are computed too: a view is cheaper than a copy of all rows.
        whole = span <= (len(group) + (len(group) // 3 if longest == 1 else 0))
        size = span if whole else len(group)
        at = slots - lowest if whole else np.arange(len(group))
        ids = np.zeros((size, longest), dtype=np.int64)
        positions = np.zeros((size, longest), dtype=np.int64)
        columns = np.full((size, longest), self.context, dtype=np.int64)
        length = 1
        for place, row in zip(at, group, strict=True):
            start, count = len(row.slot.tokens), len(row.new)
            # Aligned to the right, so that the last column holds the last token of every row.
            ids[place, longest - count :] = row.new
            positions[place, longest - count :] = columns[place, longest - count :] = np.arange(start, start + count)
            length = max(length, start + count)
        taken = np.arange(lowest, lowest + span) if whole else slots
        out = self._forward(ids, positions, columns, taken, whole, length)
        for row in group:
            row.slot.tokens += row.new
        self._count(group, longest)
        return out if size == len(group) else out[torch.from_numpy(at).to(out.device)]

    def _forward(
        self, ids: np.ndarray, positions: np.ndarray, columns: np.ndarray, slots: np.ndarray, whole: bool, length: int
    ) -> torch.Tensor:
        device = self.model.device
        taken = torch.from_numpy(slots).to(device)
        rows = slice(int(slots[0]), int(slots[-1]) + 1) if whole else taken
        self._cache.prepare(CacheAccess(rows, taken, torch.from_numpy(columns).to(device), length))
        place = torch.from_numpy(positions).to(device)
        # Position p attends to columns j <= p. Padding has position 0 and attends to column 0: attending to nothing
        # would give 0 / 0.
        seen = torch.arange(length, device=device) <= place[:, None, :, None]
        hidden = torch.full((), torch.finfo(self.model.dtype).min, dtype=self.model.dtype, device=device)
        mask = torch.where(seen, torch.zeros_like(hidden), hidden)
        out = self.model(
            input_ids=torch.from_numpy(ids).to(device),
            attention_mask=mask,
            position_ids=place,
            past_key_values=self._cache,
            use_cache=True,
            **self._last_only,
        )
        logits: torch.Tensor = out.logits[:, -1]
        return logits

    def _count(self, group: list[_NewTokens], longest: int) -> None:
        self.counts.passes += 1
        if longest == 1:
            self.counts.decoded += len(group)
        else:
            self.counts.prefilled += sum(len(row.new) for row in group)


def make_decoder(model: Any, *, slots: int, context: int) -> tuple[Decoder, str | None]:
    """Return the fastest correct decoder for a model, and why it has no cache (None if it has one).

    The cache is used if the configuration allows it and if it gives the same logits as no cache on a few tokens in two
    rows of different lengths.

    Args:
        model: a transformers causal language model on its device, in evaluation mode.
        slots: number of episodes that are cached.
        context: most tokens of a sequence.
    """
    why = unsupported_reason(model.config, context) or _probe(model)
    if why is None:
        return CachedDecoder(model, slots=slots, context=context), None
    return UncachedDecoder(model), why


def _probe(model: Any) -> str | None:
    """Return how the results with and without the cache differ on a few tokens; None if they agree."""
    vocabulary = int(model.get_input_embeddings().weight.shape[0])
    long, short = [[(7 * i * i + 3 * i + k) % vocabulary for i in range(5)] for k in range(2)]
    short = short[:2]
    cached, uncached = CachedDecoder(model, slots=2, context=8), UncachedDecoder(model)
    try:
        with torch.inference_mode():
            cached.begin("a", long)
            cached.begin("b", short)
            for _ in range(2):
                batch = [("a", long), ("b", short)]
                found, right = cached.logits(batch).float(), uncached.logits(batch).float()
                scale = float(right.abs().max()) + 1e-6
                error = float((found - right).abs().max()) / scale
                if not error < (1e-3 if model.dtype == torch.float32 else 5e-2):
                    return f"its logits with the cache have a relative error of {error:.1e}"
                long, short = [*long, 1 % vocabulary], [*short, 2 % vocabulary]
    except Exception as error:  # a model may raise anything for arguments that it does not take
        return f"it does not accept an explicit mask and cache ({type(error).__name__}: {error})"
    return None


def _groups(rows: Iterable[_NewTokens]) -> list[list[_NewTokens]]:
    """Split rows into passes: first those with one new token, then by falling length, to keep padding below a third."""
    single = sorted((row for row in rows if len(row.new) == 1), key=lambda row: row.slot.index)
    groups = [single] if single else []
    current: list[_NewTokens] = []
    real = 0
    for row in sorted((row for row in rows if len(row.new) > 1), key=lambda row: -len(row.new)):
        padded = len(current[0].new) * (len(current) + 1) if current else 0
        if current and (padded > PREFILL_TOKENS or padded - real - len(row.new) > max(512, padded // 3)):
            groups.append(current)
            current, real = [], 0
        current.append(row)
        real += len(row.new)
    if current:
        groups.append(current)
    return [sorted(group, key=lambda row: row.slot.index) for group in groups]


def _common(held: list[int], prompt: Sequence[int], most: int) -> int:
    """Return the length of the common prefix of two sequences, at most `most`."""
    end = min(len(held), most)
    if held[:end] == list(prompt[:end]):
        return end
    return next(i for i in range(end) if held[i] != prompt[i])


def _inverse(order: list[int]) -> list[int]:
    """Return the position of each index in `order`."""
    place = [0] * len(order)
    for at, index in enumerate(order):
        place[index] = at
    return place
