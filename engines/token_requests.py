"""What token engines check of requests and of what was sampled, and the ids that end a response."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from numbers import Integral, Real

from turncredit.agents.errors import ContextOverflow, RequestFailed, SamplerError
from turncredit.agents.models.tokenization import Tokenizer
from turncredit.engines.base import Request
from turncredit.tools.visible_text import shortened

ROUNDING = 1e-4
"""Largest log-probability that counts as 0, nats."""


def check_prompt(request: Request, *, context: int | None = None, vocabulary: int | None = None) -> None:
    """Refuse a prompt that no model of these sizes could answer, or the beginning of an answer that cannot go on.

    Args:
        request: with the ids of the prompt, and those that the answer begins with.
        context: maximum number of tokens of prompt and response; None: unknown.
        vocabulary: number of ids; None: unknown.

    Raises:
        ContextOverflow: prompt and beginning leave no room for a single token.
        SamplerError: the prompt is empty, or has ids that the model lacks.
        RequestFailed: the beginning is as long as the answer may be, or some of its tokens have no log-probability or
            version.
    """
    where, start = f"episode {request.episode}", request.start
    if not request.prompt:
        raise SamplerError(f"{where}: the prompt must have at least one token")
    begun, numbers = len(start.tokens), (len(start.logprobs), len(start.versions))
    if numbers != (begun, begun):
        raise RequestFailed(
            f"{where}: the answer begins with {begun} tokens, which need as many log-probabilities and versions; got "
            f"{numbers[0]} and {numbers[1]}"
        )
    prompt = request.prompt + start.tokens
    if context is not None and len(prompt) >= context:
        raise ContextOverflow(f"{where}: a prompt of {len(prompt)} tokens leaves no room in a context of {context}")
    if 0 < request.max_tokens <= begun:
        raise RequestFailed(
            f"{where}: an answer that begins with {begun} tokens needs max_tokens > {begun}, got {request.max_tokens}"
        )
    if vocabulary is not None and (min(prompt) < 0 or max(prompt) >= vocabulary):
        raise SamplerError(
            f"{where}: the prompt has ids from {min(prompt)} to {max(prompt)}, but the model's vocabulary is 0 to "
            f"{vocabulary - 1}; is it another model's tokenizer?"
        )


def refuse_annealing(request: Request, engine: str) -> None:
    """Refuse a temperature that changes within an answer, for an engine that samples a whole answer at one.

    Raises:
        SamplerError: the request has one.
    """
    if request.annealing is not None:
        raise SamplerError(
            f"episode {request.episode}: the engine {engine} samples an answer at one temperature; annealing needs the "
            'engine "transformers"'
        )


def check_sampling(request: Request, *, most_temperature: float = float("inf")) -> None:
    """Refuse settings that describe no distribution.

    Raises:
        SamplerError: it says which range was expected.
    """
    if request.top_k < 0 or not 0 <= request.min_p <= 1:
        raise SamplerError(
            f"episode {request.episode}: top_k must be >= 0 and 0 <= min_p <= 1, got {request.top_k} and "
            f"{request.min_p}"
        )
    if request.max_tokens < 1 or not 0 <= request.temperature <= most_temperature or not 0 < request.top_p <= 1:
        limit = "temperature >= 0" if most_temperature == float("inf") else f"0 <= temperature <= {most_temperature:g}"
        raise SamplerError(
            f"episode {request.episode}: max_tokens must be >= 1, {limit} and 0 < top_p <= 1, got "
            f"{request.max_tokens}, {request.temperature} and {request.top_p}"
        )


def check_sample(
    request: Request,
    tokens: Sequence[object],
    logprobs: Sequence[object],
    *,
    most: int | None = None,
    vocabulary: int | None = None,
    engine: str = "the engine",
) -> tuple[tuple[int, ...], tuple[float, ...]]:
    """Return what an engine sampled as ids and log-probabilities, if both can be trained on.

    Args:
        request: that was answered.
        tokens: sampled ids.
        logprobs: log-probability of each token, nats.
        most: number of tokens that were asked for; None: any number.
        vocabulary: number of ids; None: unknown.
        engine: its name in the message.

    Raises:
        RequestFailed: there is no token, there are more than were asked for or another number of log-probabilities; an
            id is no integer or not in the vocabulary; or a log-probability is no number, not finite, or above 0.
    """
    where = f"episode {request.episode}: {engine} returned"
    if not tokens or len(tokens) != len(logprobs):
        raise RequestFailed(f"{where} {len(tokens)} token ids with {len(logprobs)} log-probabilities")
    if most is not None and len(tokens) > most:
        raise RequestFailed(f"{where} {len(tokens)} token ids, and at most {most} were asked for")
    ids: list[int] = []
    for token in tokens:
        integral = type(token) is int or (isinstance(token, Integral) and not isinstance(token, bool))
        if not integral or not 0 <= int(token) < (vocabulary or math.inf):  # type: ignore[call-overload]
            limit = "an integer >= 0" if vocabulary is None else f"an integer from 0 to {vocabulary - 1}"
            raise RequestFailed(f"{where} the token id {_shown(token)}, expected {limit}")
        ids.append(int(token))  # type: ignore[call-overload]
    values: list[float] = []
    for value in logprobs:
        number = _number(value)
        if not -math.inf < number <= ROUNDING:
            raise RequestFailed(f"{where} the log-probability {_shown(value)}, expected a finite number that is <= 0")
        values.append(number)
    return tuple(ids), tuple(values)


def _number(value: object) -> float:
    """Return a number as a float; NaN for anything else."""
    if type(value) is float:
        return value
    try:
        return float(value) if isinstance(value, Real) and not isinstance(value, bool) else math.nan
    except OverflowError:
        return math.nan


def _shown(value: object) -> str:
    text = ascii(value) if isinstance(value, int | float | str | None) else f"of type {type(value).__name__}"
    return shortened(text, 40)


def stop_strings(request: Request) -> tuple[str, ...]:
    """Return the strings that end a response: the agent's, and the chat template's end if it is no single token."""
    return request.stop if request.end is None else (*request.stop, *request.end.stop)


def first_stop(request: Request, tokens: Sequence[int], start: int, decode: Callable[[Sequence[int]], str]) -> int:
    """Return how many tokens an answer has where a stop string ends that began in an earlier part; 0 without one.

    An engine that samples an answer in parts looks for stop strings in each of them alone.

    Args:
        request: with the stop strings.
        tokens: of the answer.
        start: number of those in earlier parts.
        decode: returns the text of tokens; a character has at most 4.
    """
    stops = stop_strings(request)
    reach = 4 * max(map(len, stops), default=0)
    for end in range(start + 1, min(start + reach, len(tokens)) + 1):
        text = decode(tokens[max(0, start - reach) : end])
        if any(stop in text for stop in stops):
            return end
    return 0


def end_tokens(tokenizer: Tokenizer, configured: int | list[int] | None) -> frozenset[int]:
    """Return the ids that end a response: the tokenizer's, and those of the model's generation configuration."""
    ends: set[int] = set()
    for value in (tokenizer.eos_token_id, configured):
        ends.update([] if value is None else value if isinstance(value, list) else [value])
    return frozenset(ends)
