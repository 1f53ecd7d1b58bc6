"""The `openai` sampler: any server with the OpenAI API, as a black box or as a token engine."""

from __future__ import annotations

from dataclasses import replace

from turncredit.agents.errors import SamplerError
from turncredit.engines.base import SamplerSettings
from turncredit.engines.openai.chat import OpenAIChat
from turncredit.engines.openai.options import OpenAIOptions
from turncredit.engines.openai.tokens import OpenAITokens

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
    if options.tokens and options.api != "chat":
        raise SamplerError('tokens = true asks /completions for token ids: leave out api = "responses"')
    if not options.tokens:
        return OpenAIChat(settings, options)
    if settings.tokenizer is None:
        settings = _with_tokenizer(settings, options.tokenizer or settings.model)
    return OpenAITokens(settings, options, settings.tokenizer)


def _with_tokenizer(settings: SamplerSettings, name: str) -> SamplerSettings:
    """Return the settings with the tokenizer of a model, and the number of its ids."""
    from turncredit.agents.models.model_folder import find_model, load_tokenizer, model_config

    folder = find_model(name, weights=False).path
    rows = settings.vocabulary or model_config(folder).get("vocab_size")
    return replace(settings, tokenizer=load_tokenizer(folder), vocabulary=rows)
