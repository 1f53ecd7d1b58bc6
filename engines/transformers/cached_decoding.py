"""Decoding with a KV cache: the logits of the next token of many sequences, computing new tokens only."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from turncredit.agents.token_experts import Experts
from turncredit.engines.transformers.cache_pages import PageTable
from turncredit.engines.transformers.decoding import Decoder
from turncredit.engines.transformers.expert_pages import ExpertPages
from turncredit.engines.transformers.expert_routing import Routers
from turncredit.engines.transformers.graph_capture import Capture
from turncredit.engines.transformers.image_tokens import ImageTokens
from turncredit.engines.transformers.kvcache import DenseAccess, NewTokens, PagedCache, to_device
from turncredit.engines.transformers.paged_attention import NAME, PagedAccess, attention_of, make_access
from turncredit.engines.transformers.pass_planning import PREFILL_TOKENS, NewRow, pass_groups, share_prompts
from turncredit.engines.transformers.step_access import StepAccess
from turncredit.engines.transformers.step_graphs import CaptureFailed, PassSize, StepGraphs, StepRow


class CachedDecoder(Decoder):
    """Keeps the keys and values of episodes between turns, in pages of which there is a fixed number.

    If all pages are taken, the paused episode that was used least recently loses its own. A new episode takes over the
    longest prefix of its prompt that any other holds: it shares the full pages, and copies the last.
    """

    def __init__(
        self,
        model: Any,
        *,
        pages: int,
        width: int,
        paged: bool,
        context: int,
        attention: str = "",
        share: bool = True,
        capture: Capture | None = None,
        images: ImageTokens | None = None,
        rows: int = 1,
    ) -> None:
        """Keep the model; memory is allocated as it is needed.

        Args:
            model: a transformers causal language model.
            pages: maximum number of pages.
            width: tokens in a page.
            paged: attend to the pages themselves, instead of a dense view or copy of them.
            context: maximum number of tokens of a sequence.
            attention: the attention function; pages are read by "flash_attention_2" with the flash-attn package, and
                otherwise by PyTorch's kernels.
            share: hold the full pages of a common prefix once, instead of a copy for each episode.
            capture: how passes are captured, if pages are read themselves; None: they are not.
            images: the images in the sequences, of a model that sees.
            rows: sequences that are sampled at once, at most.
        """
        super().__init__(model, NAME if paged else attention, images)
        self.width, self.paged, self.flash = width, paged, attention == "flash_attention_2"
        self.context = context
        self._whole = width >= context
        self._steps: StepGraphs | None = None
        self.eager_reason = None if capture is not None and paged else "nobody asked for CUDA graphs"
        self.warns = True
        """Whether it warns if a capture fails."""
        if capture is not None and paged:
            # A model that computes the logits of all positions has too many for passes with observations.
            tokens = PREFILL_TOKENS if self._last_only else rows
            most = -(-context // width)
            self._steps = StepGraphs(model, self._forward_step, capture, width, most, rows, tokens)
        self._cache = self._new_cache(pages)
        self._table = PageTable(pages, width, self._copy_pages, grows=not self._whole, share=share)
        self.last_access: DenseAccess | PagedAccess | None = None
        self._experts: ExpertPages | None = None

    @property
    def used(self) -> int:
        """Number of episodes in the cache."""
        return len(self._table.sequences)

    @property
    def memory(self) -> int:
        """Bytes of the cache at the moment."""
        return self._cache.memory

    @property
    def bytes_per_token(self) -> int:
        """Bytes of the keys and values of one token, known after the first pass."""
        return self._cache.memory // max(1, self._cache.capacity * self.width)

    @property
    def capacity(self) -> int:
        """Maximum number of tokens of one sequence."""
        return self._table.total * self.width

    def begin(self, episode: str, prompt: list[int]) -> bool:
        """Make room for the prompt and find what is known of it; return False if there is no room at the moment."""
        sequence = self._table.begin(episode, prompt)
        if sequence is None:
            return False
        self._reserve()
        if self._steps is not None:
            self._steps.begun()
        self.counts.reused += len(sequence.tokens)
        return True

    def extend(self, episode: str, tokens: int) -> bool:
        """Make room for a number of tokens of a sequence that was begun; return False if others have it all."""
        fits = self._table.extend(self._table.sequences[episode], tokens)
        self._reserve()
        return fits

    def fits(self, batch: Sequence[tuple[str, list[int]]]) -> bool:
        """Return whether all these (episode, whole sequence) have room beside everything that is kept."""
        return self._table.fits({episode: len(ids) for episode, ids in batch})

    def holds(self, episode: str) -> bool:
        """Return whether something is kept of the episode's last turn."""
        return episode in self._table.sequences

    def logits(self, batch: Sequence[tuple[str, list[int]]]) -> torch.Tensor:
        """Return the logits [B, V] of the next token of each (episode, whole sequence that extends what is cached)."""
        rows = []
        for index, (episode, ids) in enumerate(batch):
            sequence = self._table.sequences[episode]
            rows.append(NewRow(index, sequence, ids[len(sequence.tokens) :]))
        self._table.begins_pass()
        firsts, seconds, copies = share_prompts(rows)
        parts: list[torch.Tensor] = []
        order: list[int] = []
        self._passes(firsts, parts, order)
        for copy in seconds:
            self._table.take_over(copy.leader.sequence, copy.shared, copy.row.sequence)
            self.counts.reused += copy.shared
            del copy.row.new[: copy.shared]
        self._passes([copy.row for copy in seconds], parts, order)
        position = {index: at for at, index in enumerate(order)}
        for copy in copies:
            self._table.take_over(copy.leader.sequence, copy.shared, copy.row.sequence)
            self.counts.reused += copy.shared
            position[copy.row.index] = position[copy.leader.index]
        out = torch.cat(parts) if len(parts) > 1 else parts[0]
        taken = np.array([position[index] for index in range(len(batch))], dtype=np.int64)
        return out if np.array_equal(taken, np.arange(len(order))) else out[to_device(taken, out.device)]

    def record_experts(self, routers: Routers) -> None:
        """Record the experts of all tokens from here on, beside their keys and values; passes are not captured."""
        super().record_experts(routers)
        if self._steps is not None:
            self._steps, self.eager_reason = None, "the experts of each token are recorded"
        self.release()

    def experts(self, spans: Sequence[tuple[str, int, int]]) -> list[Experts]:
        """Return the experts of tokens in the cache, for each (episode, first token, token after the last)."""
        assert self._experts is not None
        sequences = self._table.sequences
        return self._experts.read([(sequences[episode].pages, start, stop) for episode, start, stop in spans])

    def pause(self, episode: str) -> None:
        """Keep the episode's pages for its next turn, unless another episode needs them."""
        self._table.pause(episode)

    def drop(self, episode: str) -> None:
        """Free the episode's pages."""
        self._table.drop(episode)

    def reset(self) -> None:
        """Forget the contents of all pages."""
        self._table.clear()
        if self._steps is not None:
            self._steps.loaded()

    def release(self) -> None:
        """Forget the contents of all pages and free their memory."""
        self._table.clear()
        if self._steps is not None:
            self._steps.clear()
        self._cache = self._new_cache(self._table.total)

    def _new_cache(self, pages: int) -> PagedCache:
        layers = int(self.model.config.get_text_config().num_hidden_layers)
        if self.routers is not None:
            self._experts = ExpertPages(self.routers, self.width, self.model.device)
        if self._steps is None:
            return PagedCache(layers, self.width, pages)
        # Captured passes have tokens that nobody needs, which write to a page more than there are; and since each
        # growth of the blocks costs new captures, they begin larger and grow twice at most.
        return PagedCache(layers, self.width, pages + 1, least=max(8, pages // 16), growth=4.0)

    def _reserve(self) -> None:
        self._cache.reserve(self._table.used + (self._steps is not None))
        if self._experts is not None:
            self._experts.reserve(self._cache.capacity)

    def _copy_pages(self, sources: list[int], targets: list[int]) -> None:
        self._reserve()  # copies must have memory before any pass writes to it
        self._cache.copy_pages(sources, targets)
        if self._experts is not None:
            self._experts.copy_pages(sources, targets)

    def _passes(self, rows: list[NewRow], parts: list[torch.Tensor], order: list[int]) -> None:
        """Compute the new tokens of rows, and append logits and indices; very long ones take several passes."""
        rows = self._replayed(rows, parts, order)
        for row in rows:
            while len(row.new) > PREFILL_TOKENS:
                remaining = row.new[PREFILL_TOKENS:]
                del row.new[PREFILL_TOKENS:]
                self._pass([row])
                row.new = remaining
        for group in pass_groups(rows):
            parts.append(self._pass(group))
            order += [row.index for row in group]

    def _pass(self, group: list[NewRow]) -> torch.Tensor:
        """Compute the new tokens of rows sorted by page, and return the logits [B, V] after the last token of each."""
        longest = max(len(row.new) for row in group)
        at, size, view = self._places(group, longest)
        ids = np.zeros((size, longest), dtype=np.int64)
        positions = np.zeros((size, longest), dtype=np.int64)
        columns, pages, where = [], [], []
        length = 1
        for index, row in zip(at, group, strict=True):
            start, count = len(row.sequence.tokens), len(row.new)
            span = np.arange(start, start + count)
            # Aligned to the right, so that the last column holds the last token of every row.
            ids[index, longest - count :] = row.new
            positions[index, longest - count :] = span
            where.append(span % self.width)
            pages.append(np.array(row.sequence.pages)[span // self.width])
            columns.append(np.arange(longest - count, longest))
            length = max(length, start + count)
        rows = np.repeat(at, [len(row.new) for row in group])
        joined = (np.concatenate(columns), np.concatenate(pages), np.concatenate(where))
        new = NewTokens(rows, *joined, size, longest, self.model.device)
        with self.recording() as choices:
            out = self._forward(ids, positions, self._access(group, new, view, length))
        if self._experts is not None:
            self._experts.write(new, choices)
        for row in group:
            row.sequence.tokens += row.new
        self._count(group)
        return out if size == len(group) else out[to_device(at, out.device)]

    def _replayed(self, rows: list[NewRow], parts: list[torch.Tensor], order: list[int]) -> list[NewRow]:
        """Compute rows by captured passes, as far as these are not more passes than others; return the rows left."""
        for group in self._captured_groups(rows):
            out = None if self._steps is None else self._replay(group, self._steps)
            if out is not None:
                parts.append(out)
                order += [row.index for row in group]
        computed = set(order)
        return [row for row in rows if row.index not in computed]

    def _captured_groups(self, rows: list[NewRow]) -> list[list[NewRow]]:
        """Return the rows of each captured pass."""
        steps = self._steps
        if steps is None or self._cache.device is None:  # the first pass makes the blocks
            return []
        single = [row for row in rows if len(row.new) == 1]
        groups = [single] if single else []
        joined = [list(group) for group in groups]
        size = PassSize()
        for row in single:
            size = size.joined(1, len(row.sequence.tokens))
        several = []
        for row in rows:
            count, start = len(row.new), len(row.sequence.tokens)
            # Rows with images have other inputs.
            if count == 1 or self.images is not None or not steps.takes(alone := PassSize().joined(count, start)):
                continue
            several.append(row)
            if joined and steps.takes(larger := size.joined(count, start)):
                joined[-1].append(row)
                size = larger
            else:
                joined.append([row])
                size = alone
        if len(joined) > len(groups) + len(pass_groups(several)):
            return groups
        return [sorted(group, key=_index) for group in joined]

    def _replay(self, group: list[NewRow], steps: StepGraphs) -> torch.Tensor | None:
        """Return the logits [B, V] after the new tokens of each row from a captured pass; None if there is none."""
        try:
            out = steps.logits([_step_row(row) for row in group], self._cache)
        except CaptureFailed as error:
            steps.clear()
            self._steps, self.eager_reason = None, str(error)
            if self.warns:
                warnings.warn(f"the sampler decodes without CUDA graphs: {error}", RuntimeWarning, stacklevel=2)
            return None
        if out is None:
            return None
        for row in group:
            row.sequence.tokens += row.new
        self._count(group)
        self.counts.replayed += 1
        return out

    def _places(self, group: list[NewRow], longest: int) -> tuple[np.ndarray, int, slice | None]:
        """Return the place of each row in the pass, the number of rows, and the pages if they are a view."""
        at = np.arange(len(group))
        if self.paged or not self._whole:
            return at, len(group), None
        slots = np.array([row.sequence.pages[0] for row in group])
        lowest, span = int(slots[0]), int(slots[-1]) - int(slots[0]) + 1
        # A few idle rows in between are computed too: a view is cheaper than a copy of all rows.
        if span <= len(group) + (len(group) // 3 if longest == 1 else 0):
            return slots - lowest, span, slice(lowest, lowest + span)
        return at, len(group), None

    def _access(
        self, group: list[NewRow], new: NewTokens, view: slice | None, length: int
    ) -> DenseAccess | PagedAccess:
        if self.paged:
            rows = [(row.sequence.pages, len(row.sequence.tokens), len(row.new)) for row in group]
            return make_access(new, rows, self.width, flash=self.flash)
        if view is not None:
            return DenseAccess(new, view, length)
        table = np.zeros((len(group), self._table.count(length)), dtype=np.int64)
        for index, row in enumerate(group):
            held = row.sequence.pages[: table.shape[1]]
            table[index, : len(held)] = held
        return DenseAccess(new, to_device(table, new.device), length)

    def _forward_step(
        self, ids: torch.Tensor, positions: torch.Tensor, last: torch.Tensor, access: StepAccess
    ) -> torch.Tensor:
        """Compute the logits [K, V] after some of the new tokens, int64 [1, N]; a captured pass replays this."""
        self._cache.prepare(access)
        inputs = {"input_ids": ids, "position_ids": positions, self._cache_name: self._cache}
        if self._last_only:
            inputs["logits_to_keep"] = last
        with attention_of(self.model, NAME, self._cache):
            logits: torch.Tensor = self.model(use_cache=True, **inputs).logits[0]
        return logits if self._last_only else logits.index_select(0, last)

    def _forward(self, ids: np.ndarray, positions: np.ndarray, access: DenseAccess | PagedAccess) -> torch.Tensor:
        device = self.model.device
        self.last_access = access
        self._cache.prepare(access)
        position_ids = to_device(positions, device)
        tokens = {"input_ids": to_device(ids, device)} if self.images is None else self.images.inputs(ids)
        inputs = {
            **tokens,
            "position_ids": position_ids,
            self._cache_name: self._cache,
            "use_cache": True,
            **self._last_only,
        }
        if isinstance(access, PagedAccess):
            with attention_of(self.model, self._attention, self._cache):
                return self.model(**inputs).logits[:, -1]  # type: ignore[no-any-return]
        # Position p attends to columns j <= p. Padding has position 0 and attends to column 0: attending to nothing
        # would give 0 / 0.
        seen = torch.arange(access.length, device=device) <= position_ids[:, None, :, None]
        hidden = torch.full((), torch.finfo(self.model.dtype).min, dtype=self.model.dtype, device=device)
        mask = torch.where(seen, torch.zeros_like(hidden), hidden)
        with attention_of(self.model, self._attention):
            return self.model(attention_mask=mask, **inputs).logits[:, -1]  # type: ignore[no-any-return]

    def _count(self, group: list[NewRow]) -> None:
        self._table.passes += 1
        self.counts.passes += 1
        for row in group:
            if len(row.new) == 1:
                self.counts.decoded += 1
            else:
                self.counts.prefilled += len(row.new)


def _index(row: NewRow) -> int:
    return row.index


def _step_row(row: NewRow) -> StepRow:
    return StepRow(row.new, len(row.sequence.tokens), row.sequence.pages)
