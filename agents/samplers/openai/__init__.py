"""The `openai` sampler: any server with the OpenAI API, as a black box or as a token engine."""

from __future__ import annotations

from turnwise.agents.samplers.base import SamplerSettings
from turnwise.agents.samplers.openai.chat import OpenAIChat
from turnwise.agents.samplers.openai.options import OpenAIOptions
from turnwise.agents.samplers.openai.tokens import OpenAITokens
from turnwise.agents.tokenization import Tokenizer

__all__ = ["make_openai"]


def make_openai(settings: SamplerSettings) -> OpenAIChat | OpenAITokens:
    """Any server with the OpenAI API, as a black box, or with options.tokens as a token engine (vLLM).

    Args:
        settings: model and URL; ``tokenizer`` is that of a token engine, else it is loaded by the model's name.

    Raises:
        SamplerError: an invalid option or URL, or httpx is missing.
        EngineFailed: a token engine cannot be reached, or has another tokenizer.
        ModelError: the tokenizer of a token engine cannot be loaded.
    """
    options = OpenAIOptions.read(settings.options)
    if not options.tokens:
        return OpenAIChat(settings, options)
    return OpenAITokens(settings, options, settings.tokenizer or _tokenizer(options.tokenizer or settings.model))


def _tokenizer(name: str) -> Tokenizer:
    from turnwise.agents.models import find_model, load_tokenizer

    tokenizer: Tokenizer = load_tokenizer(find_model(name).path)
    return tokenizer
