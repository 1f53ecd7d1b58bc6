"""The continuous batching of the transformers library as a sampler, by its public interface alone.

It stands beside ours in `continuous_batching.py`. An answer has a fixed number of tokens: no end token is set. What our
interface wants and the library does not have (seeds of requests, stop strings, images, one temperature for each
request) is left out here, and named there.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
from typing import Any

from transformers import GenerationConfig
from transformers.generation.configuration_utils import ContinuousBatchingConfig

from turncredit.agents.errors import RequestFailed
from turncredit.agents.models.weights import Weights
from turncredit.engines.base import Completion, Request, Sampler

# They warn of every default, and print the stack of every failed request.
for logger in ("transformers", "ContinuousBatchingLogger"):
    logging.getLogger(logger).setLevel(logging.CRITICAL)


class Running:
    """A request in progress, and what the library has answered so far."""

    def __init__(self, request: Request) -> None:
        self.request = request
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.tokens, self.logprobs = list(request.start.tokens), list(request.start.logprobs)
        self.begun = 0
        """Tokens that were there when the library was last asked."""
        self.switches: tuple[tuple[int, int], ...] = ()


class LibraryEngine(Sampler):
    """Answers requests with `ContinuousBatchingManager`.

    New weights need a new manager, since a manager hands out pages of old weights: requests in progress fail, and are
    asked again with the tokens that they have. With `pauses` the manager is paused instead, as its documentation says.
    """

    continues = True

    def __init__(
        self,
        model: Any,
        *,
        greedy: bool = False,
        temperature: float = 1.0,
        page: int = 16,
        tokens: int = 8192,
        requests: int = 8,
        pauses: bool = False,
        plain: bool = True,
    ) -> None:
        """Start a manager.

        Args:
            model: a transformers causal language model.
            greedy: take the most probable token, for all requests.
            temperature: of all requests.
            page: tokens in a page of the cache.
            tokens: tokens in the whole cache.
            requests: largest number of requests in a batch.
            pauses: pause the manager for new weights.
            plain: neither CUDA graphs nor flash attention, so that passes are exact in float32 and can be counted.
        """
        self.module, self._pauses, self._names = model, pauses, itertools.count()
        # -1: no end token.
        self._sampling = GenerationConfig(do_sample=not greedy, temperature=temperature, top_p=1.0, eos_token_id=-1)
        self._sampling.top_k = 0
        self._config = ContinuousBatchingConfig(
            page_size=page,
            num_blocks=-(-tokens // page),
            max_batch_tokens=4096,
            max_requests_per_batch=requests,
            return_logprobs=True,
            use_cuda_graph=False if plain else None,
            auto_switch_to_flash=not plain,
        )
        self._running: dict[str, Running] = {}
        self._held: list[Running] = []
        self._pause: Any = None
        self._begin()

    async def sample(self, request: Request) -> Completion:
        """Return the answer to one request.

        Raises:
            RequestFailed: the library's reason.
        """
        item = Running(request)
        self._ask(item)
        await item.done
        version = self.version - len(item.switches)
        return Completion(tuple(item.tokens), tuple(item.logprobs), "", version, "length", switches=item.switches)

    async def sample_with(self, request: Request, **arguments: object) -> Completion:
        """Return the answer to a request with further arguments of the library's `add_request`.

        Raises:
            RequestFailed: the library's reason.
        """
        item = Running(request)
        self._ask(item, **arguments)
        await item.done
        return Completion(tuple(item.tokens), tuple(item.logprobs), "", self.version, "length")

    async def interrupt(self) -> None:
        """Stop the requests in progress, or pause them."""
        if self._pauses:
            self._pause = self.manager.pause()
            self._pause.__enter__()
            await asyncio.sleep(0.05)  # answers of the last pass arrive
            return
        self._held, self._running = list(self._running.values()), {}
        self.manager.stop(hard_stop=True)
        await asyncio.sleep(0.05)

    async def proceed(self) -> None:
        """Go on with them."""
        if self._pauses:
            self._pause.__exit__(None, None, None)
            return
        for item in self._held:
            if not item.done.done():
                self._ask(item)
        self._held = []

    async def use(self, weights: Weights, version: int) -> None:
        """Go on with the module's new weights, which were changed in place."""
        assert weights.source is self.module
        for item in self._running.values() if self._pauses else self._held:
            item.switches = ((len(item.tokens), version),)
        self.version = version
        if not self._pauses:
            self.manager.destroy()
            self._begin()

    def close(self) -> None:
        """End the manager's thread."""
        self.manager.stop(hard_stop=True)
        self.manager.destroy()

    def _begin(self) -> None:
        self.manager = self.module.init_continuous_batching(self._sampling, self._config)
        self.manager.start()

    def _ask(self, item: Running, **arguments: object) -> None:
        """Send a request with the tokens that it has."""
        name = f"{item.request.episode}/{item.request.turn}/{next(self._names)}"
        self._running[name] = item
        item.begun = len(item.tokens)
        self.manager.register_result_handler(name, lambda output: self._receive(name, item, output))
        prompt = [*item.request.prompt, *item.tokens]
        missing = item.request.max_tokens - item.begun
        self.manager.add_request(prompt, request_id=name, max_new_tokens=missing, streaming=self._pauses, **arguments)

    def _receive(self, name: str, item: Running, output: Any) -> None:
        """Keep what was sampled so far, and answer if that is all."""
        item.tokens[item.begun :] = output.generated_tokens
        item.logprobs[item.begun :] = output.logprobs
        known = self._running.get(name) is item
        if not known or not output.is_finished():  # it was stopped for new weights, or goes on
            return
        del self._running[name]
        if item.done.done():
            return
        if output.error is not None:
            item.done.set_exception(RequestFailed(output.error))
        else:
            item.done.set_result(None)
