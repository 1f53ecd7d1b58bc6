"""A transformers causal language model as a sampler with continuous batching.

Requests join the batch between any two tokens. One task runs on the caller's event loop, without threads: it first lets
everything else run (environments step, prompts are built), then computes one token for every request. Deterministic
episodes therefore meet in the same batches each time, and a rollout repeats bit for bit on the same machine.

On CUDA, passes are replayed as CUDA graphs where the model allows it: those of one token for every request, and those
in which short prompts are computed as well.

Completions hold the sampled ids, which are never tokenized again, and their log-probabilities under the distribution
that they were sampled from, after temperature and nucleus (see
`turncredit.engines.transformers.token_sampling`).

Not included: speculative decoding, beam search, constrained decoding, several devices, several adapters at once.
"""

from __future__ import annotations

import asyncio
import time
from typing import Any

import numpy as np
import torch

from turncredit.agents.errors import RequestFailed, SamplerError, UnreadableAnswer
from turncredit.agents.models.model_folder import dtype_of, find_model, load_model, load_tokenizer
from turncredit.agents.models.tokenization import answer_text, exact_decoder
from turncredit.agents.models.weights import Weights, base_model, has_adapter
from turncredit.agents.trajectory import version_switches
from turncredit.agents.vision.image_reader import reader_of
from turncredit.engines.base import Completion, Request, Sampler, SamplerSettings, Tokenizer
from turncredit.engines.token_requests import check_prompt, check_sampling, end_tokens
from turncredit.engines.transformers.decoder_choice import (
    check_attention,
    check_settings,
    default_memory,
    make_decoder,
)
from turncredit.engines.transformers.decoding import DecodingCounts
from turncredit.engines.transformers.expert_routing import Routers
from turncredit.engines.transformers.generation import Generation
from turncredit.engines.transformers.image_tokens import ImageTokens
from turncredit.engines.transformers.module_copy import copy_model, fill_model
from turncredit.engines.transformers.token_sampling import sample_tokens, stream_key, uniforms

QUIET_ROUNDS = 3
"""Rounds of the event loop without a new request after which nothing else is expected to run."""

MIN_WAITING_SHARE = 0.25
"""Share of all requests that must be waiting before they are admitted: a prefill pass for one prompt costs nearly as
much as one for ten."""

MAX_PASSES_WAITING = 4
"""Tokens that are computed for the batch before a waiting request is admitted anyway."""

GIB = 2**30


class TransformersSampler(Sampler):
    """Samples from a transformers causal language model on CPU or CUDA, in batches, with a KV cache for each episode.

    The cache of an episode is kept between turns, up to the first token in which the next prompt differs. A prompt that
    extends the prompt and response of the turn before reuses all of it, and a new episode holds what its prompt shares
    with any other: the members of a group their prompt, a fork the turns of its parent. The cache grows with its
    contents up to a budget; then requests wait, paused episodes lose their part, and if running ones need more, the
    newest is stopped and computed again later. Models that cannot use the cache (recurrent states, attention functions
    of their own) compute every sequence from its beginning, which is correct but slow; `uncached_reason` says why.
    """

    tokenizer: Tokenizer
    context: int
    continues = True

    def __init__(
        self,
        model: Any,
        tokenizer: Tokenizer,
        *,
        device: str | torch.device = "cpu",
        concurrency: int = 64,
        context: int | None = None,
        kv_cache_gib: float = 0.0,
        dtype: str | torch.dtype = "",
        attention: str = "",
        graphs: bool = True,
        experts: bool = False,
        version: int = 0,
    ) -> None:
        """Use the model itself if it is on `device` and has the right type, else a copy.

        A model that is shared with training is switched to evaluation mode whenever it is sampled from, and left in it.

        Args:
            model: a transformers causal language model; one with a LoRA adapter of peft is sampled from with it.
            tokenizer: its tokenizer; its end token ends a response, and so do those of the generation configuration
                and what the request's chat template writes at the end of an answer.
            device: where the model runs.
            concurrency: maximum number of requests in one batch.
            context: maximum number of tokens of prompt and response; None: as many as the model has positions.
            kv_cache_gib: maximum memory of the KV cache in GiB; 0: see
                `turncredit.engines.transformers.decoder_choice.default_memory`.
            dtype: type that the model is computed in; "": its own. Log-probabilities are computed in float32.
            attention: "sdpa", "eager" or "flash_attention_2" (CUDA only); "": the model's own.
            graphs: on CUDA, replay passes as CUDA graphs if the model allows it; `eager_reason` says why it does not.
            experts: return with every completion the experts of a mixture that computed each token.
            version: version of the weights, returned with every completion.

        Raises:
            SamplerError: an argument is out of range, or the context is longer than the model's positions.
            ModelError: the model has no routers whose experts can be recorded.
        """
        most = getattr(model.config.get_text_config(), "max_position_embeddings", None)
        if concurrency < 1:
            raise SamplerError(f"concurrency must be >= 1, got {concurrency}")
        if context is not None and (context < 2 or (most is not None and context > most)):
            limit = f" and <= {most}, the number of the model's positions" if most else ""
            raise SamplerError(f"context must be >= 2{limit}, got {context}")
        if kv_cache_gib < 0:
            raise SamplerError(f"kv_cache_gib must be >= 0, got {kv_cache_gib}")
        target, kind = torch.device(device), dtype_of(dtype) if dtype else model.dtype
        check_attention(attention, target)
        elsewhere = target.type != model.device.type or target.index not in (None, model.device.index)
        if elsewhere or kind != model.dtype:
            model = copy_model(model, target, kind)
        self._model = self.module = model.eval()
        self.tokenizer, self._decode = tokenizer, exact_decoder(tokenizer)
        self.context = int(context or most or 1024)
        self.version = version
        self._concurrency = concurrency
        self._ends = end_tokens(tokenizer, getattr(getattr(model, "generation_config", None), "eos_token_id", None))
        self._vocabulary = int(model.get_input_embeddings().weight.shape[0])
        self._memory = int(kv_cache_gib * GIB) or default_memory(model.device)
        inner = base_model(model)
        reader = reader_of(tokenizer)
        self.images = reader is not None
        self._images = None if reader is None else ImageTokens(reader, inner)
        self._decoder, self.uncached_reason = make_decoder(
            inner,
            concurrency=concurrency,
            context=self.context,
            memory=self._memory,
            attention=attention,
            graphs=graphs and not experts,
            images=self._images,
        )
        self._records = experts
        if experts:
            self._decoder.record_experts(Routers.checked(inner))
        self._waiting: list[Generation] = []
        self._active: list[Generation] = []
        self._held: list[Generation] = []
        self._running: dict[str, Generation] = {}
        self._passed = 0
        self._worker: asyncio.Task[None] | None = None
        self._closed = False

    @property
    def counts(self) -> DecodingCounts:
        """What was computed so far: passes, tokens of prompts, reused tokens."""
        return self._decoder.counts

    @property
    def eager_reason(self) -> str | None:
        """Why its passes are not replayed as CUDA graphs; None: they are, but for long prompts and for images."""
        return self._decoder.eager_reason

    def metrics(self) -> dict[str, float]:
        """Return the seconds of passes since the last load, and of those in steps that were not replayed as a whole."""
        return self.counts.since_mark()

    async def sample(self, request: Request) -> Completion:
        """Return the model's answer to one prompt.

        The answer depends on the weights and on the request, including its seed and turn, but not on the rest of the
        batch, apart from floating-point rounding. It ends with an end token, with the token that completes a stop
        string (which text and tokens contain) or the end of the chat template, at `max_tokens`, or at the end of the
        context.

        Raises:
            ContextOverflow: the prompt leaves no room for a single token.
            SamplerError: the request is invalid, or the model's logits are not finite.
        """
        self._check(request)
        start = request.start
        item = Generation(
            request,
            asyncio.get_running_loop().create_future(),
            [*self._ids(request), *start.tokens],
            min(request.max_tokens, self.context - len(request.prompt)),
            stream_key(request.seed, request.turn),
            list(start.tokens),
            list(start.logprobs),
            list(start.versions),
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
        if self._images is not None:
            self._images.forget(episode)

    def _ids(self, request: Request) -> list[int]:
        """Return the prompt of a request; what stands for images has ids of its own.

        Raises:
            RequestFailed: an image cannot be read.
        """
        if self._images is None or not request.images:
            return list(request.prompt)
        return self._images.ids(request.episode, request.prompt, request.images)

    @classmethod
    def from_settings(cls, settings: SamplerSettings) -> TransformersSampler:
        """Sample from a transformers model in this process, in batches, with a KV cache for each episode.

        Raises:
            SamplerError: the settings have no model, or it cannot be sampled from.
            ModelError: the model cannot be found or read.
        """
        check_settings(settings, here=True)
        if settings.module is None and not settings.model:
            raise SamplerError("the sampler transformers needs a model: transformers:PATH")
        device = settings.device
        if device == "auto":
            device = "cuda" if torch.cuda.is_available() else "cpu"
        module, tokenizer = settings.module, settings.tokenizer
        if module is None:
            folder = find_model(settings.model).path
            tokenizer = load_tokenizer(folder) if tokenizer is None else tokenizer
            dtype = settings.dtype or ("bfloat16" if device.startswith("cuda") else "float32")
            module = load_model(folder, dtype=dtype, device=device)
        return cls(
            module,
            tokenizer,
            device=device,
            concurrency=settings.concurrency,
            context=settings.context,
            kv_cache_gib=settings.kv_cache_gib,
            dtype=settings.dtype,
            attention=str(settings.options.get("attention", "")),
            graphs=bool(settings.options.get("graphs", True)),
            experts=settings.experts,
        )

    async def interrupt(self) -> None:
        """Compute nothing for the requests in progress until `proceed`; they keep the tokens that were sampled."""
        self._held += self._active + self._waiting
        self._release()

    async def proceed(self) -> None:
        """Go on with the requests that were interrupted, under the weights that are loaded by now."""
        self._wake()
        self._waiting += self._held
        self._held.clear()

    async def use(self, weights: Weights, version: int) -> None:
        """Use new weights from now on, and drop every cache.

        Args:
            weights: weights of the module that is sampled from (nothing is copied), or others of the same shapes,
                which are copied to this sampler's type and device; of an adapter in a folder, the base is read as well.
            version: version of the new weights.

        Raises:
            SamplerError: requests are in progress and not interrupted, or tensors are missing, unknown or of another
                shape.
            ModelError: the folder with an adapter, or its base, cannot be read.
        """
        self._prune()
        if self._waiting or self._active:
            count = len(self._waiting) + len(self._active)
            raise SamplerError(f"new weights cannot be loaded while {count} requests are in progress")
        if weights.source is not self._model:
            if has_adapter(self._model):
                raise SamplerError("a model with an adapter that is shared with training takes no other weights")
            folder = weights.adapter_folder
            fill_model(self._model, weights.source if folder is None else load_model(folder))  # with its base
        self.version = version
        self.counts.mark()
        self._decoder.reset()
        if self._images is not None:
            self._images.reset()

    def close(self) -> None:
        """Cancel requests in progress and release the caches; the sampler cannot be used again."""
        for item in [*self._waiting, *self._active, *self._held]:
            item.future.cancel()
        self._release()
        self._held.clear()
        self._running.clear()
        self._closed = True
        self._decoder.release()

    def _check(self, request: Request) -> None:
        """Refuse an invalid request before it joins a batch."""
        if self._closed:
            raise SamplerError("the sampler is closed")
        check_prompt(request, context=self.context, vocabulary=self._vocabulary)
        check_sampling(request)
        self._check_memory(request)
        running = self._running.get(request.episode)
        here = asyncio.get_running_loop()
        if running is not None and not running.future.done() and running.future.get_loop() is here:
            raise SamplerError(
                f"episode {request.episode} already has a request in progress; ids of episodes must be unique"
            )

    def _check_memory(self, request: Request) -> None:
        """Refuse a request that the cache could not hold even if it were alone."""
        capacity = self._decoder.capacity
        tokens = min(len(request.prompt) + request.max_tokens, self.context)
        if capacity is not None and tokens > capacity:
            raise RequestFailed(
                f"episode {request.episode}: prompt and response may have {tokens} tokens, but the memory of the KV "
                f"cache ({self._memory / GIB:.3g} GiB) holds {capacity}; raise kv_cache_gib, or lower max_tokens"
            )

    def _wake(self) -> None:
        """Start the worker task on the running event loop, unless it runs there."""
        loop = asyncio.get_running_loop()
        if self._worker is not None and not self._worker.done() and self._worker.get_loop() is loop:
            return
        # An event loop that was closed during a rollout (Ctrl-C) leaves requests that nobody awaits.
        self._release()
        self._worker = loop.create_task(self._work())
        # Ctrl-C in the middle of a pass ends this task too; asyncio would report an exception that nobody asked for.
        self._worker.add_done_callback(lambda task: task.cancelled() or task.exception())

    async def _work(self) -> None:
        """Compute one token after another until no request is left."""
        try:
            while True:
                await self._settle()
                self._prune()
                try:
                    self._admit()
                    if not self._active:
                        return
                    self._step()
                except Exception as error:  # torch raises its own errors; each of them ends this batch only
                    if not self._active:  # not even the first request could be admitted
                        self._active, self._waiting = self._waiting, []
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
        waiting = self._waiting
        if not self._decoder.fits([(item.request.episode, item.ids) for item in waiting]):
            # Episodes that the cache knows come first: the pages that others would take from them are computed already.
            waiting = sorted(waiting, key=lambda item: not self._decoder.holds(item.request.episode))
        remaining: list[Generation] = []
        for at, item in enumerate(waiting):
            if len(self._active) >= self._concurrency:
                remaining += waiting[at:]
                break
            # When one finds no room, none that is new goes ahead of it, or a long prompt would wait for ever.
            overtakes = bool(remaining) and not self._decoder.holds(item.request.episode)
            if overtakes or not self._decoder.begin(item.request.episode, item.ids):
                remaining.append(item)
            else:
                self._active.append(item)
        self._waiting = remaining

    def _extend(self) -> list[Generation]:
        """Make room for the next token of every request, the oldest first; the newest are stopped if there is none."""
        batch = self._active
        for item in list(batch):
            while item in batch and not self._decoder.extend(item.request.episode, len(item.ids)):
                last = batch.pop()
                self._decoder.drop(last.request.episode)
                self._waiting.insert(0, last)
        return batch

    def _step(self) -> None:
        """Compute and sample one token for every request of the batch, and answer those that are complete."""
        batch, begun = self._extend(), time.perf_counter()
        if self._model.training:
            self._model.eval()
        with torch.inference_mode():
            logits = self._decoder.logits([(item.request.episode, item.ids) for item in batch])
            if self._records:
                self._record(batch)
            keys = np.array([item.key for item in batch], dtype=np.uint64)
            counters = np.array([len(item.tokens) for item in batch], dtype=np.int64)
            tokens, logprobs = sample_tokens(
                logits,
                [item.request.temperature_at(len(item.tokens)) for item in batch],
                [item.request.top_p for item in batch],
                uniforms(keys, counters),
                top_k=[item.request.top_k for item in batch],
                min_p=[item.request.min_p for item in batch],
            )
        self.counts.add_step(time.perf_counter() - begun)
        continuing = []
        for item, token, logprob in zip(batch, tokens, logprobs, strict=True):
            item.ids.append(token)
            item.tokens.append(token)
            item.logprobs.append(logprob)
            item.versions.append(self.version)
            if self._images is not None and token == self._images.token:
                self._refuse(item)
            elif not self._finish(item):
                continuing.append(item)
        self._active = continuing

    def _record(self, batch: list[Generation]) -> None:
        """Keep the experts of tokens that were computed for the first time; the others were computed again."""
        spans = [(item.request.episode, item.recorded, len(item.ids)) for item in batch]
        for item, experts in zip(batch, self._decoder.experts(spans), strict=True):
            item.experts.append(experts)

    def _refuse(self, item: Generation) -> None:
        """Fail a request whose answer has the token that stands for an image, which no model could read again."""
        self._decoder.pause(item.request.episode)
        self._running.pop(item.request.episode, None)
        item.future.set_exception(
            UnreadableAnswer(f"turn {item.request.turn}: the model answered with the token that stands for an image")
        )

    def _finish(self, item: Generation) -> bool:
        """Answer the request if its response is complete, and return whether it is."""
        end = item.request.end
        ended = item.tokens[-1] in self._ends or (end is not None and item.tokens[-1] == end.token)
        stopped = ended or item.stopped(self._decode)
        if not stopped and len(item.tokens) < item.limit:
            return False
        text = answer_text(self._decode, item.tokens, self._ends, end)
        self._decoder.pause(item.request.episode)
        self._running.pop(item.request.episode, None)
        item.future.set_result(
            Completion(
                tokens=tuple(item.tokens),
                logprobs=tuple(item.logprobs),
                text=text,
                version=item.versions[0],
                finish="stop" if stopped else "length",
                switches=version_switches(item.versions),
                experts=np.concatenate(item.experts) if self._records else None,
            )
        )
        return True

    def _fail(self, error: Exception) -> None:
        """Raise the error for every request of the batch and reset the caches, which may hold half a pass."""
        if isinstance(error, FloatingPointError):
            error = SamplerError(f"{error} (version {self.version}): the weights have diverged")
        for item in self._active:
            if not item.future.done():
                item.future.set_exception(error)
        self._active = []
        self._decoder.release()
