"""The sampler `transformers` around a model that says one text, whatever it is asked."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from turncredit.engines.transformers.sampler import TransformersSampler


class Fixed:
    """Replaces the pass of a model: whatever the prompt, it samples one text again and again."""

    def __init__(self, ids: list[int], size: int) -> None:
        self.ids, self.size = ids, size
        self.begun: dict[str, int] = {}

    def logits(self, batch: list[tuple[str, list[int]]]) -> torch.Tensor:
        rows = torch.full((len(batch), self.size), -50.0)
        for row, (episode, ids) in enumerate(batch):
            begun = self.begun.setdefault(episode, len(ids))
            rows[row, self.ids[(len(ids) - begun) % len(self.ids)]] = 50.0
        return rows


def sampler_of(
    tokenizer: Any, text: str, monkeypatch: pytest.MonkeyPatch, ends: tuple[str, ...] = ()
) -> TransformersSampler:
    """A sampler whose model says a text, and then the text after it: the turns of the environment.

    Args:
        ends: further end tokens of its generation configuration.
    """
    config = LlamaConfig(
        vocab_size=len(tokenizer), hidden_size=8, intermediate_size=8, num_hidden_layers=1, num_attention_heads=1,
        max_position_embeddings=2000, eos_token_id=tokenizer.eos_token_id,
    )  # fmt: skip
    model = LlamaForCausalLM(config)
    if ends:
        model.generation_config.eos_token_id = [tokenizer.eos_token_id, *tokenizer.convert_tokens_to_ids(list(ends))]
    sampler = TransformersSampler(model, tokenizer, context=2000)
    fixed = Fixed(tokenizer.encode(text, add_special_tokens=False), len(tokenizer))
    begin = sampler._decoder.begin

    def begins(episode: str, ids: list[int]) -> bool:
        fixed.begun.pop(episode, None)
        return begin(episode, ids)

    monkeypatch.setattr(sampler._decoder, "logits", fixed.logits)
    monkeypatch.setattr(sampler._decoder, "begin", begins)
    return sampler
