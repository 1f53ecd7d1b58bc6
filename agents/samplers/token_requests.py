"""What every sampler checks of a request of token ids, and the ids that end a response."""

from __future__ import annotations

from turnwise.agents.errors import ContextOverflow, SamplerError
from turnwise.agents.samplers.base import Request
from turnwise.agents.tokenization import Tokenizer


def check_prompt(request: Request, *, context: int | None = None, vocabulary: int | None = None) -> None:
    """Refuse a prompt that no model of these sizes could answer.

    Args:
        request: with the prompt's ids.
        context: most tokens of prompt and response; None: unknown.
        vocabulary: number of ids; None: unknown.

    Raises:
        ContextOverflow: the prompt leaves no room for a single token.
        SamplerError: the prompt is empty, or has ids that the model lacks.
    """
    where, prompt = f"episode {request.episode}", request.prompt
    if not prompt:
        raise SamplerError(f"{where}: the prompt must have at least one token")
    if context is not None and len(prompt) >= context:
        raise ContextOverflow(f"{where}: a prompt of {len(prompt)} tokens leaves no room in a context of {context}")
    if vocabulary is not None and (min(prompt) < 0 or max(prompt) >= vocabulary):
        raise SamplerError(
            f"{where}: the prompt has ids from {min(prompt)} to {max(prompt)}, but the model's vocabulary is 0 to "
            f"{vocabulary - 1}; is it another model's tokenizer?"
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


def end_tokens(tokenizer: Tokenizer, configured: int | list[int] | None) -> frozenset[int]:
    """Return the ids that end a response: the tokenizer's, and those of the model's generation configuration."""
    ends: set[int] = set()
    for value in (tokenizer.eos_token_id, configured):
        ends.update([] if value is None else value if isinstance(value, list) else [value])
    return frozenset(ends)
