"""Decoders: the logits of the next token of many sequences. The one in this module has no KV cache.

`UncachedDecoder` computes every sequence from its beginning, which is slow but correct for any causal language model.
`turncredit.engines.transformers.cached_decoding` computes new tokens only, and
`turncredit.engines.transformers.decoder_choice` chooses the fastest that is correct for a model.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from turncredit.agents.token_experts import Experts
from turncredit.agents.vision.image_reader import TYPES
from turncredit.agents.vision.untyped import Model
from turncredit.engines.transformers.expert_routing import Routers
from turncredit.engines.transformers.image_tokens import ImageTokens
from turncredit.engines.transformers.paged_attention import attention_of


@dataclass(slots=True)
class DecodingCounts:
    """What a decoder has computed: passes through the model, and tokens."""

    passes: int = 0
    prefilled: int = 0
    """Tokens of prompts that were computed."""
    decoded: int = 0
    """Sampled tokens that were fed back."""
    replayed: int = 0
    """Passes, among these, that were replayed as a CUDA graph."""
    reused: int = 0
    """Tokens of prompts whose keys and values were kept from the turn before, or are another sequence's."""
    seconds: float = 0.0
    """Seconds of passes and of sampling from their logits, with the waits for the device."""
    eager_seconds: float = 0.0
    """Seconds, of these, of steps with a pass that was not replayed."""
    _eager: int = 0
    _marked: tuple[float, float] = (0.0, 0.0)

    def add_step(self, seconds: float) -> None:
        """Add the seconds of the passes since the last call, and of the sampling after them."""
        before, self._eager = self._eager, self.passes - self.replayed
        self.seconds += seconds
        self.eager_seconds += seconds if self._eager > before else 0.0

    def mark(self) -> None:
        """Let `since_mark` count from here on."""
        self._marked = (self.seconds, self.eager_seconds)

    def since_mark(self) -> dict[str, float]:
        """Return both seconds since the last mark."""
        seconds, eager = self._marked
        return {"pass_seconds": self.seconds - seconds, "eager_seconds": self.eager_seconds - eager}


class Decoder:
    """A back end of the sampler; this base class keeps nothing for an episode."""

    eager_reason: str | None = "it has no cache"
    """Why its passes are not replayed as CUDA graphs; None: they are."""

    def __init__(self, model: Any, attention: str = "", images: ImageTokens | None = None) -> None:
        """Keep the model.

        Args:
            model: a transformers causal language model.
            attention: the attention function that it uses, as transformers knows it; "": its own.
            images: the images in the sequences, of a model that sees.
        """
        self.model, self.images = model, images
        self._attention = attention
        self.counts = DecodingCounts()
        self.routers: Routers | None = None
        """Whose choices it records; None: it records none."""
        taken = inspect.signature(model.forward).parameters
        self._last_only: dict[str, int] = {}
        if "logits_to_keep" in taken:
            self._last_only = {"logits_to_keep": 1}  # compute the logits of the last position only
        self._cache_name = "cache" if "cache" in taken else "past_key_values"  # renamed in transformers 5.24

    def logits(self, batch: Sequence[tuple[str, list[int]]]) -> torch.Tensor:
        """Return the logits [B, V] of the next token of each (episode, whole sequence)."""
        raise NotImplementedError(f"{type(self).__name__} must define logits()")

    @property
    def capacity(self) -> int | None:
        """Maximum number of tokens of one sequence; None: no limit of its own."""
        return None

    def begin(self, episode: str, prompt: list[int]) -> bool:
        """Make room for a sequence that starts with `prompt`; return False if there is none at the moment."""
        return True

    def extend(self, episode: str, tokens: int) -> bool:
        """Make room for a number of tokens of a sequence that was begun; return False if others have it all."""
        return True

    def fits(self, batch: Sequence[tuple[str, list[int]]]) -> bool:
        """Return whether all these (episode, whole sequence) have room beside everything that is kept."""
        return True

    def holds(self, episode: str) -> bool:
        """Return whether something is kept of the episode's last turn."""
        return False

    def record_experts(self, routers: Routers) -> None:
        """Record the experts of all tokens from here on; nothing may have been computed yet."""
        self.routers = routers

    def recording(self) -> AbstractContextManager[list[Tensor]]:
        """Return a context whose list receives the experts of each layer of one pass, if it records any."""
        return nullcontext(list[Tensor]()) if self.routers is None else self.routers.recording()

    def experts(self, spans: Sequence[tuple[str, int, int]]) -> list[Experts]:
        """Return the experts of tokens that were computed, for each (episode, first token, token after the last)."""
        raise NotImplementedError(f"{type(self).__name__} must define experts()")

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

    def __init__(self, model: Model, attention: str = "", images: ImageTokens | None = None) -> None:
        """Keep the model; see `Decoder`."""
        super().__init__(model, attention, images)
        self._latest: dict[str, Tensor] = {}  # experts of the last pass of each episode, [tokens, layers, K]

    def logits(self, batch: Sequence[tuple[str, list[int]]]) -> torch.Tensor:
        """Return the logits [B, V] of the next token of each (episode, whole sequence)."""
        by_length: dict[int, list[int]] = {}
        for index, (_, ids) in enumerate(batch):
            by_length.setdefault(len(ids), []).append(index)
        position = {index: at for at, index in enumerate(index for indices in by_length.values() for index in indices)}
        parts = []
        for indices in by_length.values():
            inputs = self._inputs([batch[index][1] for index in indices])
            with attention_of(self.model, self._attention), self.recording() as choices:
                parts.append(self.model(**inputs, use_cache=False, **self._last_only).logits[:, -1])
            if choices:
                stacked = torch.stack(choices, dim=1)
                chosen = stacked.view(len(indices), -1, *stacked.shape[1:])
                self._latest |= {batch[index][0]: chosen[row] for row, index in enumerate(indices)}
            self.counts.passes += 1
            self.counts.prefilled += inputs["input_ids"].numel()
        return torch.cat(parts)[[position[index] for index in range(len(batch))]]

    def needs_types(self, ids: list[int]) -> bool:
        """Return whether the next token's logits depend on the types of tokens: those of images and those of text."""
        inputs = self._inputs([ids])
        types = {name: torch.zeros_like(inputs[name]) for name in TYPES if name in inputs}
        if not types:
            return False
        with attention_of(self.model, self._attention):
            typed, plain = (
                self.model(**each, use_cache=False, **self._last_only).logits[:, -1]
                for each in (inputs, inputs | types)
            )
        return not torch.equal(typed, plain)

    def experts(self, spans: Sequence[tuple[str, int, int]]) -> list[Experts]:
        """Return the experts of tokens of the last pass, for each (episode, first token, token after the last)."""
        assert self.routers is not None
        kind = self.routers.dtype
        return [self._latest[episode][start:stop].cpu().numpy().astype(kind) for episode, start, stop in spans]

    def pause(self, episode: str) -> None:
        """Keep nothing."""
        self._latest.pop(episode, None)

    def drop(self, episode: str) -> None:
        """Forget the episode; an unknown one is not an error."""
        self._latest.pop(episode, None)

    def release(self) -> None:
        """Forget everything and free the memory."""
        self._latest.clear()

    def _inputs(self, rows: list[list[int]]) -> dict[str, torch.Tensor]:
        """Return the arguments of the model for rows of equal length."""
        if self.images is None:
            return {"input_ids": torch.tensor(rows, device=self.model.device)}
        plain = [self.images.plain(row) for row in rows]
        block = torch.tensor([tokens for tokens, _ in plain], device=self.model.device)
        pictures = [image for _, images in plain for image in images]
        return {"input_ids": block, **self.images.reader.arguments(block, pictures, self.model)}
