"""A transformers causal language model as a sampler with continuous batching.

Requests join the batch between any two tokens. One task runs on the caller's event loop, without threads: it first lets
everything else run (environments step, prompts are built), then computes one token for every request. Deterministic
episodes therefore meet in the same batches each time, and a repeated rollout gives the same bits.

Completions hold the sampled ids, which are never tokenized again, and their log-probabilities under the distribution
that they were sampled from, after temperature and nucleus (see `turnwise.agents.samplers.token_sampling`).

Not included: speculative decoding, beam search, constrained decoding, several devices, adapters.
"""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from turnwise.agents.errors import ContextOverflow, SamplerError
from turnwise.agents.samplers.base import Completion, Request, Tokenizer
from turnwise.agents.samplers.decoding import DecodingCounts, make_decoder
from turnwise.agents.samplers.token_sampling import sample_tokens, stream_key, uniforms

QUIET_ROUNDS = 3
"""Rounds of the event loop without a new request after which nothing else is expected to run."""

MIN_WAITING_SHARE = 0.25
"""Share of all requests that must be waiting before they are admitted: a prefill pass for one prompt costs nearly as
much as one for ten."""

MAX_PASSES_WAITING = 4
"""Tokens that are computed for the batch before a waiting request is admitted anyway."""


@dataclass(slots=True, eq=False)
class _Generation:
    """A request in progress: the sequence so far, and the sampled tokens."""

    request: Request
    future: asyncio.Future[Completion]
    ids: list[int]
    limit: int
    key: int
    tokens: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)


class TransformersSampler:
    """Samples from a transformers causal language model on CPU or CUDA, in batches, with a KV cache for each episode.

    The cache of an episode is kept between turns, up to the first token in which the next prompt differs. A prompt that
    extends the prompt and response of the turn before reuses all of it. Models that cannot use the cache (attention
    windows shorter than the context, recurrent states) compute every sequence from its beginning, which is correct but
    slow; `uncached_reason` says why.
    """

    def __init__(
        self,
        model: Any,
        tokenizer: Tokenizer,
        *,
        device: str | torch.device = "cpu",
        slots: int = 64,
        context: int | None = None,
        version: int = 0,
        bf16: bool = False,
    ) -> None:
        """Use the model itself if it is on `device` and has the right type, else a copy.

        A model that is shared with training is switched to evaluation mode whenever it is sampled from, and left in it.

        Args:
            model: a transformers causal language model.
            tokenizer: its tokenizer; its end token ends a response, and so do those of the generation configuration.
            device: where the model runs.
            slots: number of episodes with a cache, and most requests in one batch.
            context: most tokens of prompt and response; None: as many as the model has positions.
            version: version of the weights, returned with every completion.
            bf16: compute in bfloat16; log-probabilities are computed in float32.

        Raises:
            SamplerError: no slot, or a context longer than the model's positions.
        """
        most = getattr(model.config.get_text_config(), "max_position_embeddings", None)
        if slots < 1:
            raise SamplerError(f"slots must be >= 1, got {slots}")
        if context is not None and (context < 2 or (most is not None and context > most)):
            limit = f" and <= {most}, the number of the model's positions" if most else ""
            raise SamplerError(f"context must be >= 2{limit}, got {context}")
        wanted, dtype = torch.device(device), torch.bfloat16 if bf16 else model.dtype
        elsewhere = wanted.type != model.device.type or wanted.index not in (None, model.device.index)
        if elsewhere or dtype != model.dtype:
            model = copy.deepcopy(model).to(device=wanted, dtype=dtype)
        self._model = model.eval()
        self._tokenizer = tokenizer
        self._context = int(context or most or 1024)
        self._version = version
        self._slots = slots
        self._ends = _end_tokens(model, tokenizer)
        self._vocabulary = int(model.get_input_embeddings().weight.shape[0])
        self._decoder, self.uncached_reason = make_decoder(self._model, slots=slots, context=self._context)
        self._waiting: list[_Generation] = []
        self._active: list[_Generation] = []
        self._running: dict[str, _Generation] = {}
        self._passed = 0
        self._worker: asyncio.Task[None] | None = None
        self._closed = False

    @property
    def version(self) -> int:
        """Version of the weights in use."""
        return self._version

    @property
    def tokenizer(self) -> Tokenizer:
        """The model's tokenizer."""
        return self._tokenizer

    @property
    def context(self) -> int:
        """Most tokens of prompt and response together."""
        return self._context

    @property
    def counts(self) -> DecodingCounts:
        """What was computed so far: passes, tokens of prompts, reused tokens."""
        return self._decoder.counts

    async def sample(self, request: Request) -> Completion:
        """Return the model's answer to one prompt.

        The answer depends on the weights and on the request, including its seed and turn, but not on the rest of the
        batch, apart from floating-point rounding. It ends with an end token, with the token that completes a stop
        string (which text and tokens contain), at `max_tokens`, or at the end of the context.

        Raises:
            ContextOverflow: the prompt leaves no room for a single token.
            SamplerError: the request is invalid, or the model's logits are not finite.
        """
        self._check(request)
        item = _Generation(
            request,
            asyncio.get_running_loop().create_future(),
            list(request.prompt),
            min(request.max_tokens, self._context - len(request.prompt)),
            stream_key(request.seed, request.turn),
        )
        self._wake()
        self._waiting.append(item)
        self._running[request.episode] = item
        return await item.future

    def forget(self, episode: str) -> None:
        """Free the slot of an episode that is over; a request of it that is still running is cancelled."""
        item = self._running.pop(episode, None)
        if item is not None and not item.future.done():
            item.future.cancel()
            self._prune()
        self._decoder.drop(episode)

    def load(self, model: Any, version: int) -> None:
        """Use new weights from now on, and drop every cache.

        Args:
            model: the module that is sampled from (nothing is copied), or another module of the same shapes or a state
                dict (copied to this sampler's type and device).
            version: version of the new weights.

        Raises:
            SamplerError: requests are in progress (their answers would mix two versions), or the shapes differ.
        """
        self._prune()
        if self._waiting or self._active:
            count = len(self._waiting) + len(self._active)
            raise SamplerError(f"new weights cannot be loaded while {count} requests are in progress")
        if model is not self._model:
            state = model if isinstance(model, Mapping) else model.state_dict()
            try:
                self._model.load_state_dict(state)
            except RuntimeError as error:
                first = " ".join(str(error).split())[:300]
                raise SamplerError(f"the new weights do not fit the sampler's model: {first}") from error
        self._version = version
        self._decoder.reset()

    def close(self) -> None:
        """Cancel requests in progress and release the caches; the sampler cannot be used again."""
        for item in [*self._waiting, *self._active]:
            item.future.cancel()
        self._release()
        self._running.clear()
        self._closed = True
        self._decoder.release()

    def _check(self, request: Request) -> None:
        """Refuse an invalid request before it joins a batch."""
        if self._closed:
            raise SamplerError("the sampler is closed")
        if not request.prompt:
            raise SamplerError(f"episode {request.episode}: the prompt must have at least one token")
        if len(request.prompt) >= self._context:
            raise ContextOverflow(
                f"episode {request.episode}: a prompt of {len(request.prompt)} tokens leaves no room in a context of "
                f"{self._context}"
            )
        if request.max_tokens < 1 or request.temperature < 0 or not 0 < request.top_p <= 1:
            raise SamplerError(
                f"episode {request.episode}: max_tokens must be >= 1, temperature >= 0 and 0 < top_p <= 1, got "
                f"{request.max_tokens}, {request.temperature} and {request.top_p}"
            )
        if min(request.prompt) < 0 or max(request.prompt) >= self._vocabulary:
            raise SamplerError(
                f"episode {request.episode}: the prompt has ids from {min(request.prompt)} to {max(request.prompt)}, "
                f"but the model's vocabulary is 0 to {self._vocabulary - 1}; is it another model's tokenizer?"
            )
        running = self._running.get(request.episode)
        here = asyncio.get_running_loop()
        if running is not None and not running.future.done() and running.future.get_loop() is here:
            raise SamplerError(
                f"episode {request.episode} already has a request in progress; ids of episodes must be unique"
            )

    def _wake(self) -> None:
        """Start the worker task on the running event loop, unless it runs there."""
        loop = asyncio.get_running_loop()
        if self._worker is not None and not self._worker.done() and self._worker.get_loop() is loop:
            return
        # An event loop that was closed during a rollout (Ctrl-C) leaves requests that nobody awaits.
        self._release()
        self._worker = loop.create_task(self._work())

    async def _work(self) -> None:
        """Compute one token after another until no request is left."""
        try:
            while True:
                await self._settle()
                self._prune()
                self._admit()
                if not self._active:
                    return
                try:
                    self._step()
                except Exception as error:  # torch raises its own errors; each of them ends this batch only
                    self._fail(error)
        finally:
            for item in [*self._waiting, *self._active]:
                item.future.cancel()
            self._release()

    async def _settle(self) -> None:
        """Let everything else on the event loop run until no further request arrives."""
        quiet = 0
        while quiet < QUIET_ROUNDS:
            before = len(self._waiting)
            await asyncio.sleep(0)
            quiet = quiet + 1 if len(self._waiting) == before else 0

    def _prune(self) -> None:
        """Drop requests whose callers were cancelled; the contents of their slots stay valid."""
        for item in [item for item in self._active if item.future.done()]:
            self._active.remove(item)
            self._decoder.pause(item.request.episode)
        self._waiting = [item for item in self._waiting if not item.future.done()]

    def _release(self) -> None:
        """Drop all requests; the contents of their slots stay valid."""
        for item in self._active:
            self._decoder.pause(item.request.episode)
        self._waiting.clear()
        self._active.clear()

    def _admit(self) -> None:
        """Move waiting requests into the batch in order of arrival, while there is room."""
        if (
            len(self._waiting) < MIN_WAITING_SHARE * (len(self._waiting) + len(self._active))
            and self._passed < MAX_PASSES_WAITING
        ):
            self._passed += bool(self._waiting)
            return
        self._passed = 0
        while self._waiting and len(self._active) < self._slots:
            item = self._waiting[0]
            if not self._decoder.begin(item.request.episode, item.request.prompt):
                return
            self._active.append(self._waiting.pop(0))

    def _step(self) -> None:
        """Compute and sample one token for every request of the batch, and answer those that are complete."""
        batch = self._active
        if self._model.training:
            self._model.eval()
        with torch.inference_mode():
            logits = self._decoder.logits([(item.request.episode, item.ids) for item in batch])
            keys = np.array([item.key for item in batch], dtype=np.uint64)
            counters = np.array([len(item.tokens) for item in batch], dtype=np.int64)
            tokens, logprobs = sample_tokens(
                logits,
                [item.request.temperature for item in batch],
                [item.request.top_p for item in batch],
                uniforms(keys, counters),
            )
        continuing = []
        for item, token, logprob in zip(batch, tokens, logprobs, strict=True):
            item.ids.append(token)
            item.tokens.append(token)
            item.logprobs.append(logprob)
            if not self._finish(item):
                continuing.append(item)
        self._active = continuing

    def _finish(self, item: _Generation) -> bool:
        """Answer the request if its response is complete, and return whether it is."""
        ended = item.tokens[-1] in self._ends
        stopped = ended or (bool(item.request.stop) and self._stopped(item))
        if not stopped and len(item.tokens) < item.limit:
            return False
        text = self._tokenizer.decode(item.tokens[:-1] if ended else item.tokens)
        self._decoder.pause(item.request.episode)
        self._running.pop(item.request.episode, None)
        item.future.set_result(
            Completion(
                tokens=tuple(item.tokens),
                logprobs=tuple(item.logprobs),
                text=text,
                version=self._version,
                finish="stop" if stopped else "length",
            )
        )
        return True

    def _stopped(self, item: _Generation) -> bool:
        """Return whether the end of the response contains a stop string; a character has at most 4 tokens."""
        reach = 4 * max(len(stop) for stop in item.request.stop) + 4
        tail = self._tokenizer.decode(item.tokens[-reach:])
        return any(stop in tail for stop in item.request.stop)

    def _fail(self, error: Exception) -> None:
        """Raise the error for every request of the batch and reset the caches, which may hold half a pass."""
        if isinstance(error, FloatingPointError):
            error = SamplerError(f"{error} (version {self._version}): the weights have diverged")
        for item in self._active:
            if not item.future.done():
                item.future.set_exception(error)
        self._active = []
        self._decoder.release()


def _end_tokens(model: Any, tokenizer: Tokenizer) -> frozenset[int]:
    """Return the ids that end a response: the tokenizer's, and those of the model's generation configuration."""
    ends: set[int] = set()
    configured = getattr(getattr(model, "generation_config", None), "eos_token_id", None)
    for value in (tokenizer.eos_token_id, configured):
        ends.update([] if value is None else value if isinstance(value, list) else [value])
    return frozenset(ends)
