"""Facts about a model, from its configuration and tokenizer alone: sizes, chat template, memory for sampling.

Not included: the memory for training, which `turncredit.training.learner.memory` estimates, and the weights themselves.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from turncredit.agents.errors import PromptError
from turncredit.agents.models.model_folder import (
    ModelFolder,
    empty_model,
    end_tokens_of,
    load_tokenizer,
    model_config,
)
from turncredit.agents.models.tokenization import Tokenizer, exact_decoder
from turncredit.agents.prompts.chat_template import ChatTemplate, TemplateFacts, template_facts

BYTES = {"float32": 4, "bfloat16": 2, "float16": 2}


@dataclass(frozen=True, slots=True)
class AnswerEndFact:
    """One thing that ends an answer.

    Attributes:
        text: how it is written.
        token: its id; None for a text of several tokens.
        source: where it is written: "chat template", "tokenizer" or "generation configuration".
    """

    text: str
    token: int | None
    source: str


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """Sizes of a model.

    Attributes:
        architecture: its class in transformers.
        parameters: number of weights; weights that are shared are counted once.
        layers: number of decoder layers.
        hidden: hidden size.
        heads: number of attention heads.
        key_value_heads: number of heads of the KV cache.
        head_size: entries of one head.
        vocabulary: rows of the embedding.
        tokens: entries of the tokenizer.
        context: maximum number of tokens of prompt and response; None if the configuration does not say.
        template: what its chat template does; None without one.
        ends: what ends an answer to the chat template, and where that is written.
    """

    architecture: str
    parameters: int
    layers: int
    hidden: int
    heads: int
    key_value_heads: int
    head_size: int
    vocabulary: int
    tokens: int
    context: int | None
    template: TemplateFacts | None
    ends: tuple[AnswerEndFact, ...]

    def weight_bytes(self, dtype: str) -> int:
        """Return the size of the weights in memory."""
        return self.parameters * BYTES[dtype]

    def cache_bytes(self, tokens: int, dtype: str) -> int:
        """Return the size of a KV cache for a number of tokens; a sliding window is not taken into account."""
        return tokens * 2 * self.layers * self.key_value_heads * self.head_size * BYTES[dtype]


def model_facts(folder: ModelFolder) -> ModelFacts:
    """Return the facts about a model; its weights are not read.

    Args:
        folder: with configuration and tokenizer.

    Raises:
        ModelError: the configuration or the tokenizer cannot be read, or the model is not a causal language model.
    """
    config, tokenizer = model_config(folder.path), load_tokenizer(folder.path)
    network = empty_model(folder.path)
    heads = int(config["num_attention_heads"])
    return ModelFacts(
        architecture=type(network).__name__,
        parameters=sum(weight.numel() for weight in network.parameters()),
        layers=int(config["num_hidden_layers"]),
        hidden=int(config["hidden_size"]),
        heads=heads,
        key_value_heads=int(config.get("num_key_value_heads") or heads),
        head_size=int(config.get("head_dim") or config["hidden_size"] // heads),
        vocabulary=int(network.get_input_embeddings().weight.shape[0]),
        tokens=len(tokenizer),
        context=config.get("max_position_embeddings"),
        template=template_facts(tokenizer) if getattr(tokenizer, "chat_template", None) else None,
        ends=answer_ends(folder.path, tokenizer),
    )


def answer_ends(folder: Path, tokenizer: Tokenizer) -> tuple[AnswerEndFact, ...]:
    """Return what ends an answer: the end of the chat template, and the end tokens of tokenizer and configuration."""
    decode = exact_decoder(tokenizer)
    ends: list[AnswerEndFact] = []
    if getattr(tokenizer, "chat_template", None):
        try:
            end = ChatTemplate(tokenizer, system=False, appends=False).end
        except PromptError:
            end = None
        if end is not None:
            ends.append(AnswerEndFact(end.text, end.token, "chat template"))
    for token in end_tokens_of(folder, tokenizer):
        source = "tokenizer" if token == tokenizer.eos_token_id else "generation configuration"
        ends.append(AnswerEndFact(decode([token]), token, source))
    return tuple(ends)
