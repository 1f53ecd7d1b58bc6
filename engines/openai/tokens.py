"""A model behind /completions as a token engine: ids in, ids and log-probabilities out, for training as well.

The server must return token ids (``return_token_ids``) and log-probabilities, as vLLM does. At temperatures other than
0 and 1, or with top_p below 1, it must also return log-probabilities of what was sampled, which vLLM does with
``--logprobs-mode processed_logprobs``; the sampler tries that out before the first such request.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence, Sized
from typing import cast

from turncredit.agents.errors import EngineFailed, RequestFailed, SamplerError
from turncredit.agents.json_types import JsonObject
from turncredit.agents.models.tokenization import answer_text, codec_of
from turncredit.agents.models.weights import Weights
from turncredit.agents.trajectory import Finish, version_switches
from turncredit.engines.base import Completion, Request, SamplerSettings, Tokenizer
from turncredit.engines.openai.answers import failure_in
from turncredit.engines.openai.options import OpenAIOptions
from turncredit.engines.openai.served import ServedModel, answer_bytes, choice_of
from turncredit.engines.openai.weights import ServedWeights
from turncredit.engines.seeds import request_seed
from turncredit.engines.token_requests import check_prompt, check_sample, first_stop, stop_strings
from turncredit.registry import suggest

__all__ = ["OpenAITokens"]

PROBE = "Look at 12 mugs: naïve, 你好, <b>x</b>.\n\tEnd"
"""Text that different tokenizers encode differently."""


class OpenAITokens(ServedModel):
    """Samples token ids from a server, and their log-probabilities."""

    tokenizer: Tokenizer
    continues = True

    def __init__(self, settings: SamplerSettings, options: OpenAIOptions, tokenizer: Tokenizer) -> None:
        """Ask the server for its model, and compare the tokenizers.

        Args:
            settings: model, URL, context, concurrency.
            options: options of the sampler.
            tokenizer: tokenizer of the model.

        Raises:
            EngineFailed: the server cannot be reached or used, or has another tokenizer.
            SamplerError: invalid settings.
        """
        super().__init__(settings, options)
        self.tokenizer = tokenizer
        self._codec = codec_of(tokenizer)
        self._ends = self._codec.ends
        self._vocabulary = settings.vocabulary or (len(tokenizer) if isinstance(tokenizer, Sized) else None)
        self._weights = ServedWeights(self._client, options, settings.device)
        self._adapter = ""
        self._running = 0
        self._processed = asyncio.Lock()
        self._checked = False
        try:
            self._background.call(self._meet())
        except BaseException:
            self.close()
            raise

    async def use(self, weights: Weights, version: int) -> None:
        """Let the server read new weights, and drop its prefix cache.

        Args:
            weights: a module or named tensors, which are written to a temporary folder; or a folder on a disk that the
                server reads as well.
            version: version of the new weights.

        Raises:
            SamplerError: requests are in progress, or the weights cannot be written.
            EngineFailed: the server has no interface for this, or refuses the weights.
        """
        if self._running:
            raise SamplerError(f"new weights cannot be loaded while {self._running} requests are in progress")
        self._adapter = await self._background.run(self._weights.load(weights, version))
        self.version = version

    async def sample(self, request: Request) -> Completion:
        """Return the model's answer: ids as sampled, and their log-probabilities.

        The answer ends with an end token, with the token that completes a stop string (which text and tokens contain),
        at `max_tokens`, or at the end of the context.

        Raises:
            RequestFailed: this request cannot be answered.
            ContextOverflow: its prompt leaves no room in the model's context.
            EngineFailed: the server cannot answer any request.
        """
        if self._weights.lost:
            raise SamplerError("a load of new weights failed, and the engine answers no request until one succeeds")
        check_prompt(request, context=self.context)
        self._running += 1
        try:
            return await super().sample(request)
        finally:
            self._running -= 1

    async def _answer(self, request: Request) -> Completion:
        if request.temperature not in (0.0, 1.0) or request.truncated:
            await self._require_processed_logprobs(request.prompt)
        begun, end = request.start, request.end
        most = min(request.max_tokens, (self.context or len(request.prompt) + request.max_tokens) - len(request.prompt))
        most -= len(begun.tokens)
        choice = await self._complete(
            [*request.prompt, *begun.tokens],
            max_tokens=most,
            temperature=request.temperature,
            top_p=request.top_p,
            top_k=request.top_k,
            min_p=request.min_p,
            seed=request_seed(request.seed, request.turn, len(begun.tokens)),
            stop=list(stop_strings(request)),
            stop_token_ids=sorted(end.tokens) if end is not None else [],
        )
        tokens, logprobs = check_sample(
            request, *self._sampled(choice), most=most, vocabulary=self._vocabulary, engine=self.url
        )
        reason = choice.get("finish_reason")
        if reason not in ("stop", "length"):
            raise RequestFailed(f"{self.url}: the answer ended with {reason!r:.80} instead of 'stop' or 'length'")
        ends = self._ends if reason == "stop" else frozenset()
        if reason == "stop" and isinstance(choice.get("stop_reason"), int):
            ends |= {tokens[-1]}
        versions = begun.versions + (self.version,) * len(tokens)
        tokens, logprobs = begun.tokens + tokens, begun.logprobs + logprobs
        if begun.tokens and (stop := first_stop(request, tokens, len(begun.tokens), self._codec.decode)):
            tokens, logprobs, versions, reason = tokens[:stop], logprobs[:stop], versions[:stop], "stop"
        text, finish = answer_text(self._codec.decode, tokens, ends, end), cast(Finish, reason)
        return Completion(tokens, logprobs, text, versions[0], finish, switches=version_switches(versions))

    async def _complete(self, prompt: Sequence[int], **fields: object) -> JsonObject:
        """Return the choice that completes a prompt; servers' defaults from the model's folder are overridden."""
        body = {
            "model": self._adapter or self._model,
            "prompt": list(prompt),
            "logprobs": 1,
            "return_token_ids": True,
            "include_stop_str_in_output": True,
            "skip_special_tokens": False,
            "top_k": 0,
            "min_p": 0.0,
            "repetition_penalty": 1.0,
            **fields,
        }
        sent = self._sent(body)
        most = answer_bytes(sent, len(prompt))
        return choice_of(await self._client.post("/completions", sent, max_bytes=most, judge=failure_in), self.url)

    def _sampled(self, choice: JsonObject) -> tuple[list[object], list[object]]:
        """Return ids and log-probabilities of an answer, unchecked.

        Raises:
            EngineFailed: the server does not return them.
        """
        tokens, table = choice.get("token_ids"), choice.get("logprobs")
        logprobs = table.get("token_logprobs") if isinstance(table, Mapping) else None
        if not isinstance(tokens, list) or not isinstance(logprobs, list):
            raise EngineFailed(
                f"{self.url} returns no token ids and log-probabilities; a token engine needs a server with "
                "return_token_ids, such as vLLM"
            )
        return tokens, logprobs

    async def _require_processed_logprobs(self, prompt: Sequence[int]) -> None:
        """Check once that log-probabilities follow the temperature.

        The log-probability of the most probable token must change from temperature 0.05 to 2. After a prompt with a
        single possible answer it is 0 at both, so beginnings of the prompt are tried as well.
        """
        async with self._processed:
            if self._checked:
                return
            for length in sorted({max(1, len(prompt) * part // 4) for part in (4, 3, 2, 1)}, reverse=True):
                cold, hot = [await self._highest(prompt[:length], temperature) for temperature in (0.05, 2.0)]
                if abs(cold - hot) > 0.1:
                    self._checked = True
                    return
            raise EngineFailed(
                f"{self.url} returns log-probabilities before temperature and top_p, not those of what was sampled; "
                "start vLLM with --logprobs-mode processed_logprobs, or sample at temperature 1"
            )

    async def _highest(self, prompt: Sequence[int], temperature: float) -> float:
        """Return the log-probability of the most probable next token."""
        choice = await self._complete(prompt, max_tokens=1, temperature=temperature, top_p=1.0, seed=0)
        self._sampled(choice)
        tops = choice["logprobs"].get("top_logprobs")
        first = tops[0] if isinstance(tops, list) and tops and isinstance(tops[0], Mapping) else {}
        return max((float(value) for value in first.values() if isinstance(value, int | float)), default=0.0)

    async def _meet(self) -> None:
        """Find the model and its context, and compare the tokenizers."""
        name = await self._name()
        models = {model["id"]: model for model in await self._client.models()}
        if models and name not in models:
            raise EngineFailed(f"{self.url} has no model {name!r}{suggest(name, list(models))}")
        length = models.get(name, {}).get("max_model_len")
        if isinstance(length, int):
            if self.context is not None and self.context > length:
                raise EngineFailed(f"the context must be <= {length}, that of {self.url}, got {self.context}")
            self.context = self.context or length
        await self._compare_tokenizers(name)

    async def _compare_tokenizers(self, name: str) -> None:
        body = {"model": name, "prompt": PROBE, "add_special_tokens": False}
        try:
            answer = await self._client.post(self._client.root + "/tokenize", body)
        except (RequestFailed, EngineFailed):
            return  # not every server has it
        theirs, ours = answer.get("tokens"), list(codec_of(self.tokenizer).encode(PROBE))
        if isinstance(theirs, list) and theirs != ours:
            raise EngineFailed(
                f"the tokenizer of {self.url} differs from this model's: it encodes a text as {theirs[:8]}..., this "
                f"one as {ours[:8]}...; both must be of the same model"
            )
