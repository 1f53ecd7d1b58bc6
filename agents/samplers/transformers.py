"""A transformers causal language model as a sampler: whatever waits goes through the model in one batch.

Requests are admitted between any two tokens. One worker runs on the caller's event loop, without threads: it first lets
everything else run that can (environments that are stepped, prompts that are built), then computes one token for every
request. Episodes that are deterministic themselves therefore meet in the same batches each time, and a repeated rollout
gives the same bits.

What comes back is what was sampled: ids, never re-tokenised, and the log-probability of each under the very
distribution that it was drawn from, so after temperature and nucleus (`turnwise.agents.samplers.token_sampling`; a
greedy token's is the model's own, at temperature 1).

Left out on purpose: speculative decoding, beams, constrained decoding, several devices, adapters.
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
from turnwise.agents.samplers.decoding import Counts, SlotRunner, make_runner
from turnwise.agents.samplers.token_sampling import draw, stream_key, uniforms

QUIET_ROUNDS = 3
"""Rounds of the event loop without a new request after which nothing else is thought to be able to run."""


COMPANY = 0.25
"""Share of all requests that has to wait before new ones are admitted: a pass for one prompt costs nearly what a pass
for ten does."""

PATIENCE = 4
"""Tokens that the others may draw before a waiting request is admitted without company."""


@dataclass(slots=True, eq=False)
class _Job:
    """A request on its way: the sequence so far, and what was drawn."""

    request: Request
    future: asyncio.Future[Completion]
    ids: list[int]
    limit: int
    key: int
    tokens: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)


class TransformersSampler:
    """Samples from a transformers causal language model on CPU or CUDA, batched, with the episodes' caches kept.

    A cache row is kept between the turns of an episode as far as the next prompt begins with the same tokens, which is
    all of it when the prompt extends prompt and response of the turn before. Models that cannot keep such rows (windows
    shorter than the context, recurrent states) are computed from the beginning for every token: right, but slow;
    `plain_because` says why.
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
        """Take the model as it is (the very object, when it is on `device` already), or a copy of it.

        A copy is made when the device differs or `bf16` asks for another type than the model has; a model that is
        shared with training is put into evaluation mode whenever it is sampled from, and left in it.

        Args:
            model: a transformers causal language model.
            tokenizer: its tokenizer; the end token ends a response, and so do those of the generation configuration.
            device: where to compute.
            slots: episodes whose caches are kept, and most requests computed at once.
            context: most tokens of prompt and response; None: what the model's positions allow.
            version: of the weights, handed on with every completion.
            bf16: compute in bfloat16; log-probabilities are still taken in float32.

        Raises:
            SamplerError: no slot, or a context that the model's positions do not reach.
        """
        most = getattr(model.config.get_text_config(), "max_position_embeddings", None)
        if slots < 1:
            raise SamplerError(f"a sampler needs one slot or more, got {slots}")
        if context is not None and (context < 2 or (most is not None and context > most)):
            raise SamplerError(f"context must be from 2 to the model's {most or 'unbounded'} tokens, got {context}")
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
        self._runner, self.plain_because = make_runner(self._model, slots=slots, context=self._context)
        self._waiting: list[_Job] = []
        self._active: list[_Job] = []
        self._running: dict[str, _Job] = {}
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
    def counts(self) -> Counts:
        """What was computed so far: passes, tokens of prompts, tokens that were reused."""
        return self._runner.counts

    async def sample(self, request: Request) -> Completion:
        """Return the model's answer to one prompt.

        The answer depends on the weights and on the request (its seed and turn included), not on what else is in the
        batch, apart from floating-point rounding. It ends with an end token, after the token that completes a stop
        string (text and tokens contain it), or at `max_tokens` or the end of the context.

        Args:
            request: the prompt's ids and how to sample.

        Returns:
            Ids, their log-probabilities in nats, and the text without the end token.

        Raises:
            ContextOverflow: the prompt leaves no room for a single token.
            SamplerError: a request that cannot be served, or a model whose logits are not finite.
        """
        self._check(request)
        job = _Job(
            request,
            asyncio.get_running_loop().create_future(),
            list(request.prompt),
            min(request.max_tokens, self._context - len(request.prompt)),
            stream_key(request.seed, request.turn),
        )
        self._wake()
        self._waiting.append(job)
        self._running[request.episode] = job
        return await job.future

    def forget(self, episode: str) -> None:
        """Free the slot of an episode that is over; a request of it that still runs is cancelled."""
        job = self._running.pop(episode, None)
        if job is not None and not job.future.done():
            job.future.cancel()
            self._prune()
        self._runner.drop(episode)

    def load(self, model: Any, version: int) -> None:
        """Use new weights from now on, and forget every cache.

        Args:
            model: the very module that is sampled from (nothing is copied), another module of the same shapes, or a
                state dict; the latter two are copied, into this sampler's type and device.
            version: of the new weights.

        Raises:
            SamplerError: requests are under way (their answers would mix two versions), or the shapes differ.
        """
        self._prune()
        if self._waiting or self._active:
            count = len(self._waiting) + len(self._active)
            raise SamplerError(f"new weights cannot be loaded while {count} requests are under way")
        if model is not self._model:
            state = model if isinstance(model, Mapping) else model.state_dict()
            try:
                self._model.load_state_dict(state)
            except RuntimeError as error:
                first = " ".join(str(error).split())[:300]
                raise SamplerError(f"the new weights do not fit the sampler's model: {first}") from error
        self._version = version
        self._runner.reset()

    def close(self) -> None:
        """Cancel what is under way and give the memory of the caches back; the sampler cannot be used again."""
        for job in [*self._waiting, *self._active]:
            job.future.cancel()
        self._release()
        self._running.clear()
        self._closed = True
        self._runner.reset()
        if isinstance(self._runner, SlotRunner):
            self._runner.clear()

    def _check(self, request: Request) -> None:
        """Refuse what cannot be served, before it meets others in a batch."""
        if self._closed:
            raise SamplerError("the sampler is closed")
        if not request.prompt:
            raise SamplerError(f"episode {request.episode}: an empty prompt has no next token; give one id or more")
        if len(request.prompt) >= self._context:
            raise ContextOverflow(
                f"episode {request.episode}: a prompt of {len(request.prompt)} tokens leaves no room in a context of "
                f"{self._context}"
            )
        if request.max_tokens < 1 or request.temperature < 0 or not 0 < request.top_p <= 1:
            raise SamplerError(
                f"episode {request.episode}: wanted max_tokens >= 1, temperature >= 0 and 0 < top_p <= 1, got "
                f"{request.max_tokens}, {request.temperature} and {request.top_p}"
            )
        if min(request.prompt) < 0 or max(request.prompt) >= self._vocabulary:
            raise SamplerError(
                f"episode {request.episode}: the prompt holds ids from {min(request.prompt)} to {max(request.prompt)}, "
                f"but the model knows 0 to {self._vocabulary - 1}; is it another model's tokenizer?"
            )
        running = self._running.get(request.episode)
        here = asyncio.get_running_loop()
        if running is not None and not running.future.done() and running.future.get_loop() is here:
            raise SamplerError(f"episode {request.episode} already has a request under way; ids must be unique")

    def _wake(self) -> None:
        """Start the worker on the running loop, unless it runs there."""
        loop = asyncio.get_running_loop()
        if self._worker is not None and not self._worker.done() and self._worker.get_loop() is loop:
            return
        # A loop that was closed under a rollout (Ctrl-C) leaves jobs that nobody awaits any more.
        self._release()
        self._worker = loop.create_task(self._work())

    async def _work(self) -> None:
        """Compute one token after another for everything that waits, until nothing does."""
        try:
            while True:
                await self._settle()
                self._prune()
                self._admit()
                if not self._active:
                    return
                try:
                    self._step()
                except Exception as error:  # torch raises kinds of its own; all of them end this batch only
                    self._fail(error)
        finally:
            for job in [*self._waiting, *self._active]:
                job.future.cancel()
            self._release()

    async def _settle(self) -> None:
        """Let everything else on the loop run until no further request comes."""
        quiet = 0
        while quiet < QUIET_ROUNDS:
            before = len(self._waiting)
            await asyncio.sleep(0)
            quiet = quiet + 1 if len(self._waiting) == before else 0

    def _prune(self) -> None:
        """Let go of requests whose callers were cancelled; what is in their slots stays right."""
        for job in [job for job in self._active if job.future.done()]:
            self._active.remove(job)
            self._runner.pause(job.request.episode)
        self._waiting = [job for job in self._waiting if not job.future.done()]

    def _release(self) -> None:
        """Let go of everything that waits or is computed; what is in the slots stays right."""
        for job in self._active:
            self._runner.pause(job.request.episode)
        self._waiting.clear()
        self._active.clear()

    def _admit(self) -> None:
        """Move waiting requests into the batch, first come first served, while there is room."""
        if len(self._waiting) < COMPANY * (len(self._waiting) + len(self._active)) and self._passed < PATIENCE:
            self._passed += bool(self._waiting)
            return
        self._passed = 0
        while self._waiting and len(self._active) < self._slots:
            job = self._waiting[0]
            if not self._runner.begin(job.request.episode, job.request.prompt):
                return
            self._active.append(self._waiting.pop(0))

    def _step(self) -> None:
        """Compute and draw one token for every request of the batch, and answer those that are complete."""
        jobs = self._active
        if self._model.training:
            self._model.eval()
        with torch.inference_mode():
            logits = self._runner.logits([(job.request.episode, job.ids) for job in jobs])
            keys = np.array([job.key for job in jobs], dtype=np.uint64)
            counters = np.array([len(job.tokens) for job in jobs], dtype=np.int64)
            tokens, logprobs = draw(
                logits,
                [job.request.temperature for job in jobs],
                [job.request.top_p for job in jobs],
                uniforms(keys, counters),
            )
        going = []
        for job, token, logprob in zip(jobs, tokens, logprobs, strict=True):
            job.ids.append(token)
            job.tokens.append(token)
            job.logprobs.append(logprob)
            if not self._finish(job):
                going.append(job)
        self._active = going

    def _finish(self, job: _Job) -> bool:
        """Answer the request when its response is complete; return whether it is."""
        ended = job.tokens[-1] in self._ends
        stopped = ended or (bool(job.request.stop) and self._stopped(job))
        if not stopped and len(job.tokens) < job.limit:
            return False
        text = self._tokenizer.decode(job.tokens[:-1] if ended else job.tokens)
        self._runner.pause(job.request.episode)
        self._running.pop(job.request.episode, None)
        job.future.set_result(
            Completion(
                tokens=tuple(job.tokens),
                logprobs=tuple(job.logprobs),
                text=text,
                version=self._version,
                finish="stop" if stopped else "length",
            )
        )
        return True

    def _stopped(self, job: _Job) -> bool:
        """Return whether a stop string is in the response; only the end can be new, at most 4 tokens a character."""
        reach = 4 * max(len(stop) for stop in job.request.stop) + 4
        tail = self._tokenizer.decode(job.tokens[-reach:])
        return any(stop in tail for stop in job.request.stop)

    def _fail(self, error: Exception) -> None:
        """Hand the error to everyone in the batch and start afresh: the slots may hold half a pass."""
        if isinstance(error, FloatingPointError):
            error = SamplerError(f"{error} (version {self._version}): the weights have diverged")
        for job in self._active:
            if not job.future.done():
                job.future.set_exception(error)
        self._active = []
        self._runner.reset()
        if isinstance(self._runner, SlotRunner):
            self._runner.clear()


def _end_tokens(model: Any, tokenizer: Tokenizer) -> frozenset[int]:
    """Return every id that ends a response: the tokenizer's, and those of the model's generation configuration."""
    ends: set[int] = set()
    configured = getattr(getattr(model, "generation_config", None), "eos_token_id", None)
    for value in (tokenizer.eos_token_id, configured):
        ends.update([] if value is None else value if isinstance(value, list) else [value])
    return frozenset(ends)
