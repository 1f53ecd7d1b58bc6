"""From whole sequences to the logits of their next token: two ways that agree.

`SlotRunner` keeps what was computed for every episode in a slot and computes only the tokens that are new;
`PlainRunner` computes every sequence from its beginning, which is slow and right for any causal language model.
`make_runner` takes the first where the model can, and proves it on a few tokens before it does.

Left out on purpose: scheduling and randomness (`transformers.py`, `draw.py`), several devices, speculative decoding.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import torch

from turnwise.agents.samplers.kvcache import Plan, SlotCache, why_not_slots

PREFILL_TOKENS = 4096
"""Most tokens, padding included, that go through the model in one pass of prefill."""


@dataclass(slots=True)
class Counts:
    """What a runner computed since it was made: passes through the model and tokens."""

    passes: int = 0
    prefilled: int = 0
    """Tokens of prompts that were computed."""
    decoded: int = 0
    """Passes of one new token a row: the tokens that were sampled and fed back."""
    reused: int = 0
    """Tokens of prompts that were found in a slot, or copied from a sequence alike."""


class Runner(Protocol):
    """What the sampler needs of either way."""

    counts: Counts

    def begin(self, episode: str, prompt: Sequence[int]) -> bool:
        """Make room for a sequence that starts with `prompt`; False when there is none at the moment."""

    def logits(self, batch: Sequence[tuple[str, list[int]]]) -> torch.Tensor:
        """Return [B, V]: the logits of the next token of each (episode, whole sequence)."""

    def pause(self, episode: str) -> None:
        """Keep the episode's slot for its next turn, but let it be taken when room is short."""

    def drop(self, episode: str) -> None:
        """Forget the episode; unknown ones are no error."""

    def reset(self) -> None:
        """Forget everything: the weights changed."""


class PlainRunner:
    """Computes every sequence anew; sequences of one length go together, so that nothing is padded or masked."""

    def __init__(self, model: Any) -> None:
        """Keep the model."""
        self.model = model
        self.counts = Counts()
        self._keep = _last_only(model)

    def begin(self, episode: str, prompt: Sequence[int]) -> bool:
        """Return True: nothing is kept, so there is always room."""
        return True

    def logits(self, batch: Sequence[tuple[str, list[int]]]) -> torch.Tensor:
        """Return [B, V]: the logits of the next token of each (episode, whole sequence)."""
        by_length: dict[int, list[int]] = {}
        for index, (_, ids) in enumerate(batch):
            by_length.setdefault(len(ids), []).append(index)
        parts = []
        for indices in by_length.values():
            block = torch.tensor([batch[index][1] for index in indices], device=self.model.device)
            parts.append(self.model(input_ids=block, use_cache=False, **self._keep).logits[:, -1])
            self.counts.passes += 1
            self.counts.prefilled += block.numel()
        return torch.cat(parts)[_inverse([index for indices in by_length.values() for index in indices])]

    def pause(self, episode: str) -> None:
        """Do nothing: nothing is kept."""

    def drop(self, episode: str) -> None:
        """Do nothing: nothing is kept."""

    def reset(self) -> None:
        """Do nothing: nothing is kept."""


@dataclass(slots=True)
class _Held:
    """A slot in use: which tokens its columns hold, and whether a sequence is being sampled in it."""

    slot: int
    tokens: list[int] = field(default_factory=list)
    busy: bool = True


@dataclass(slots=True)
class _Row:
    """One row of a pass: where its logits go, its slot, and the tokens that are new."""

    index: int
    held: _Held
    new: list[int]


class SlotRunner:
    """Keeps keys and values of up to `slots` episodes of up to `context` tokens between turns.

    Slots in use are always 0 .. n-1 (the last one moves into a gap), so that a batch of all of them is read as one
    view. A paused episode whose turn came longest ago gives its slot up when there is no other.
    """

    def __init__(self, model: Any, *, slots: int, context: int) -> None:
        """Keep the model; the memory of the slots is taken at the first pass."""
        self.model = model
        self.counts = Counts()
        self.slots = slots
        self.context = context
        self._keep = _last_only(model)
        self._held: dict[str, _Held] = {}
        self._cache = self._fresh()

    @property
    def held(self) -> int:
        """Number of slots in use."""
        return len(self._held)

    def begin(self, episode: str, prompt: Sequence[int]) -> bool:
        """Give the episode a slot and keep what it already holds of `prompt`; False when every slot is busy."""
        held = self._held.pop(episode, None) or self._take_slot()
        if held is None:
            return False
        self._held[episode] = held  # at the end: the order of this dict is the order of last use
        held.busy = True
        # At least one token is computed, since the logits after the last one are wanted.
        del held.tokens[_common(held.tokens, prompt, len(prompt) - 1) :]
        self.counts.reused += len(held.tokens)
        return True

    def logits(self, batch: Sequence[tuple[str, list[int]]]) -> torch.Tensor:
        """Return [B, V]: the logits of the next token of each (episode, whole sequence that extends its slot)."""
        leaders: dict[tuple[int, ...], _Row] = {}
        twins: list[tuple[_Row, _Row]] = []
        rows: list[_Row] = []
        for index, (episode, ids) in enumerate(batch):
            held = self._held[episode]
            row = _Row(index, held, ids[len(held.tokens) :])
            leader = leaders.setdefault(tuple(row.new), row) if not held.tokens else row
            if leader is row:
                rows.append(row)
            else:
                twins.append((row, leader))
        parts, order = [], []
        for group in _groups(rows):
            parts.append(self._pass(group))
            order += [row.index for row in group]
        out = torch.cat(parts) if len(parts) > 1 else parts[0]
        if not twins:
            return out[_inverse(order)] if order != list(range(len(order))) else out
        return out[self._copy_twins(twins, order)]

    def pause(self, episode: str) -> None:
        """Keep the episode's slot for its next turn, but let it be taken when room is short."""
        if episode in self._held:
            self._held[episode].busy = False

    def drop(self, episode: str) -> None:
        """Free the episode's slot; the last slot in use moves into the gap."""
        gone = self._held.pop(episode, None)
        if gone is None or gone.slot == len(self._held):
            return
        last = next(held for held in self._held.values() if held.slot == len(self._held))
        self._cache.copy_slot(last.slot, gone.slot, len(last.tokens))
        last.slot = gone.slot

    def reset(self) -> None:
        """Forget what the slots hold and who held them."""
        self._held.clear()

    def clear(self) -> None:
        """Give the memory back too: after numbers that are not finite, or at the end."""
        self._held.clear()
        self._cache = self._fresh()

    def _fresh(self) -> SlotCache:
        layers = int(self.model.config.get_text_config().num_hidden_layers)
        return SlotCache(layers, self.slots, self.context)

    def _take_slot(self) -> _Held | None:
        if len(self._held) < self.slots:
            return _Held(len(self._held))
        oldest = next((name for name, held in self._held.items() if not held.busy), None)
        return None if oldest is None else _Held(self._held.pop(oldest).slot)

    def _copy_twins(self, twins: list[tuple[_Row, _Row]], order: list[int]) -> list[int]:
        """Copy the slots of sequences alike, and return which computed row each of the batch takes."""
        place = {index: at for at, index in enumerate(order)}
        for row, leader in twins:
            place[row.index] = place[leader.index]
            self._cache.copy_slot(leader.held.slot, row.held.slot, len(leader.held.tokens))
            row.held.tokens = list(leader.held.tokens)
            self.counts.reused += len(row.new)
        return [place[index] for index in range(len(place))]

    def _pass(self, group: list[_Row]) -> torch.Tensor:
        """Compute the new tokens of the rows (sorted by slot) and return their logits [B, V] after the last."""
        slots = np.array([row.held.slot for row in group])
        lowest, span = int(slots[0]), int(slots[-1]) - int(slots[0]) + 1
        longest = max(len(row.new) for row in group)
        # Idle rows in between are computed along when they are few: a view is cheaper than a copy of all rows.
        whole = span <= (len(group) + (len(group) // 3 if longest == 1 else 0))
        size = span if whole else len(group)
        at = slots - lowest if whole else np.arange(len(group))
        ids = np.zeros((size, longest), dtype=np.int64)
        positions = np.zeros((size, longest), dtype=np.int64)
        columns = np.full((size, longest), self.context, dtype=np.int64)
        length = 1
        for place, row in zip(at, group, strict=True):
            start, count = len(row.held.tokens), len(row.new)
            # Aligned to the right, so that the last column holds everyone's last token.
            ids[place, longest - count :] = row.new
            positions[place, longest - count :] = columns[place, longest - count :] = np.arange(start, start + count)
            length = max(length, start + count)
        taken = np.arange(lowest, lowest + span) if whole else slots
        out = self._forward(ids, positions, columns, taken, whole, length)
        for row in group:
            row.held.tokens += row.new
        self._count(group, longest)
        return out if size == len(group) else out[torch.from_numpy(at).to(out.device)]

    def _forward(
        self, ids: np.ndarray, positions: np.ndarray, columns: np.ndarray, slots: np.ndarray, whole: bool, length: int
    ) -> torch.Tensor:
        device = self.model.device
        taken = torch.from_numpy(slots).to(device)
        rows = slice(int(slots[0]), int(slots[-1]) + 1) if whole else taken
        self._cache.prepare(Plan(rows, taken, torch.from_numpy(columns).to(device), length))
        place = torch.from_numpy(positions).to(device)
        # Column j is seen by position p when j <= p. Padding stands at position 0 and sees column 0: never nothing,
        # which would be 0 / 0.
        seen = torch.arange(length, device=device) <= place[:, None, :, None]
        hidden = torch.full((), torch.finfo(self.model.dtype).min, dtype=self.model.dtype, device=device)
        mask = torch.where(seen, torch.zeros_like(hidden), hidden)
        out = self.model(
            input_ids=torch.from_numpy(ids).to(device),
            attention_mask=mask,
            position_ids=place,
            past_key_values=self._cache,
            use_cache=True,
            **self._keep,
        )
        logits: torch.Tensor = out.logits[:, -1]
        return logits

    def _count(self, group: list[_Row], longest: int) -> None:
        self.counts.passes += 1
        if longest == 1:
            self.counts.decoded += len(group)
        else:
            self.counts.prefilled += sum(len(row.new) for row in group)


def make_runner(model: Any, *, slots: int, context: int) -> tuple[Runner, str | None]:
    """Return the fastest runner that is right for this model, and why it is the plain one (None when it is not).

    The slots are used when the configuration allows it and when, on a few tokens in two rows of different lengths,
    they give the same logits as computing everything anew.

    Args:
        model: a transformers causal language model on its device, in evaluation mode.
        slots: episodes that are kept at once.
        context: most tokens of a sequence.
    """
    why = why_not_slots(model.config, context) or _probe(model)
    if why is None:
        return SlotRunner(model, slots=slots, context=context), None
    return PlainRunner(model), why


def _probe(model: Any) -> str | None:
    """Return why slots and plain computation differ on a few tokens; None when they agree."""
    vocabulary = int(model.get_input_embeddings().weight.shape[0])
    long, short = [[(7 * i * i + 3 * i + k) % vocabulary for i in range(5)] for k in range(2)]
    short = short[:2]
    slotted, plain = SlotRunner(model, slots=2, context=8), PlainRunner(model)
    try:
        with torch.inference_mode():
            slotted.begin("a", long)
            slotted.begin("b", short)
            for _ in range(2):
                batch = [("a", long), ("b", short)]
                mine, right = slotted.logits(batch).float(), plain.logits(batch).float()
                scale = float(right.abs().max()) + 1e-6
                error = float((mine - right).abs().max()) / scale
                if not error < (1e-3 if model.dtype == torch.float32 else 5e-2):
                    return f"its logits with slots differ by {error:.1e} of their size from those without"
                long, short = [*long, 1 % vocabulary], [*short, 2 % vocabulary]
    except Exception as error:  # whatever a stranger's model raises on arguments that it does not take
        return f"it does not take an explicit mask and cache ({type(error).__name__}: {error})"
    return None


def _groups(rows: Iterable[_Row]) -> list[list[_Row]]:
    """Split rows into passes: one new token each; then by falling length, so that padding stays below a third."""
    single = sorted((row for row in rows if len(row.new) == 1), key=lambda row: row.held.slot)
    groups = [single] if single else []
    current: list[_Row] = []
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
    return [sorted(group, key=lambda row: row.held.slot) for group in groups]


def _common(held: list[int], prompt: Sequence[int], most: int) -> int:
    """Return how many first tokens two sequences share, `most` at most."""
    end = min(len(held), most)
    if held[:end] == list(prompt[:end]):
        return end
    return next(i for i in range(end) if held[i] != prompt[i])


def _inverse(order: list[int]) -> list[int]:
    """Return where each index stands in `order`."""
    place = [0] * len(order)
    for at, index in enumerate(order):
        place[index] = at
    return place


def _last_only(model: Any) -> dict[str, int]:
    """Return the keyword that makes the model compute the last position's logits only, where it has one."""
    return {"logits_to_keep": 1} if "logits_to_keep" in inspect.signature(model.forward).parameters else {}
