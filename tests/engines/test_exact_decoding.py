"""Text is the exact decoding of its ids, for every kind of tokenizer: programs are executed as they were sampled."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

pytest.importorskip("transformers")
pytest.importorskip("torch")

import tokenizers
import torch
from tokenizers import decoders, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from turncredit.agents.models.tokenization import codec_of, exact_decoder
from turncredit.agents.prompts.prompt import View
from turncredit.engines.base import Completion, Request
from turncredit.engines.transformers.sampler import TransformersSampler
from turncredit.training.learner.policy import build_tokenizer

NASTY = "grep -n 'it 's' . ; x = y != z , I do n't 've 're ?"
"""Every change that a clean-up makes: " .", " ?", " !", " ,", " ' ", " n't", " 'm", " 's", " 've", " 're"."""


class Plain:
    """A tokenizer without options."""

    eos_token_id = 0

    def encode(self, text: str) -> list[int]:
        return [ord(letter) + 1 for letter in text]

    def decode(self, ids: Sequence[int]) -> str:
        assert isinstance(ids, list)
        return "".join("<end>" if one == 0 else chr(one - 1) for one in ids)


class Strict(Plain):
    """One that refuses options that it does not know, as mistral-common's does."""

    def decode(self, ids: Sequence[int], skip_special_tokens: bool = False, **options: Any) -> str:
        if set(options) - {"clean_up_tokenization_spaces"}:
            raise ValueError(f"{list(options)} are not supported")
        text = super().decode(ids)
        return text.replace(" .", ".") if options.get("clean_up_tokenization_spaces", True) else text


def byte_level(**options: Any) -> Any:
    """A byte-level BPE tokenizer, as that of a policy built from scratch."""
    plain = build_tokenizer([NASTY] * 9, vocab=300)
    return PreTrainedTokenizerFast(
        tokenizer_object=plain.backend_tokenizer, eos_token=plain.eos_token, pad_token=plain.eos_token, **options
    )


def word_pieces(cleanup: bool) -> Any:
    """A tokenizer whose own decoder cleans up, which no option of transformers changes."""
    words = ["[UNK]", "</s>", "x", "!", "=", ".", "it", "'", "s"]
    raw = tokenizers.Tokenizer(models.WordPiece({word: number for number, word in enumerate(words)}, unk_token="[UNK]"))
    raw.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    raw.decoder = decoders.WordPiece(cleanup=cleanup)
    return PreTrainedTokenizerFast(tokenizer_object=raw, eos_token="</s>", unk_token="[UNK]")


@pytest.mark.parametrize(
    "options",
    [
        {"clean_up_tokenization_spaces": True},
        {
            "clean_up_tokenization_spaces": True,
            "clean_up_tokenization_spaces_for_bpe_even_though_it_will_corrupt_output": True,
        },
        {},
    ],
)
def test_byte_level_ids_decode_to_their_bytes(options: dict[str, bool]) -> None:
    tokenizer = byte_level(**options)
    ids = tokenizer.encode(NASTY, add_special_tokens=False)
    table = {index: token for token, index in tokenizer.get_vocab().items()}
    letters = decoders.ByteLevel().decode([table[one] for one in ids])  # of the package tokenizers, token by token
    assert letters == NASTY
    codec = codec_of(tokenizer)
    assert codec.decode(ids) == codec.decode(tuple(ids)) == NASTY
    assert codec.decode([*ids, tokenizer.eos_token_id]) == NASTY + tokenizer.eos_token
    assert codec.decode([]) == ""


def test_a_decoder_that_cleans_up_by_itself_is_not_used() -> None:
    cleaning, plain = word_pieces(True), word_pieces(False)
    ids = plain.encode("x != it 's .", add_special_tokens=False)
    exact = "x ! = it ' s ."
    assert cleaning.decode(ids, clean_up_tokenization_spaces=False) != exact
    assert exact_decoder(cleaning)(ids) == exact_decoder(plain)(ids) == exact


@pytest.mark.parametrize("tokenizer", [Plain(), Strict()])
def test_a_tokenizer_gets_the_options_that_it_takes(tokenizer: Any) -> None:
    assert exact_decoder(tokenizer)((*tokenizer.encode("ls ."), 0)) == "ls .<end>"


def test_sampled_programs_are_not_changed() -> None:
    """Text and action are what the ids spell, whatever the model samples."""
    tokenizer = byte_level(
        clean_up_tokenization_spaces=True, clean_up_tokenization_spaces_for_bpe_even_though_it_will_corrupt_output=True
    )
    config = LlamaConfig(
        vocab_size=len(tokenizer), hidden_size=16, intermediate_size=16, num_hidden_layers=1, num_attention_heads=2,
        max_position_embeddings=400, eos_token_id=tokenizer.eos_token_id,
    )  # fmt: skip
    torch.manual_seed(0)
    sampler = TransformersSampler(LlamaForCausalLM(config), tokenizer, context=400)
    torch.nn.init.zeros_(sampler.module.lm_head.weight)  # every token is as likely as any other
    view = View(start="", observation="", admissible=None, turn=0)
    prompt = tuple(tokenizer.encode("x = y", add_special_tokens=False))
    table = {index: token for token, index in tokenizer.get_vocab().items()}
    requests = [Request(f"e{seed}", 0, prompt, (), seed, view, max_tokens=380) for seed in range(12)]

    async def ask() -> list[Completion]:
        return await asyncio.gather(*map(sampler.sample, requests))

    texts = []
    for answer in asyncio.run(ask()):
        tokens = [one for one in answer.tokens if one != tokenizer.eos_token_id]
        assert answer.text == decoders.ByteLevel().decode([table[one] for one in tokens])
        texts.append(answer.text)
    assert any(tokenizer.clean_up_tokenization(text) != text for text in texts)
