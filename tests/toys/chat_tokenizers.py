"""Tokenizers of many families: their special tokens and chat templates on a tiny vocabulary."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from toys.chat_families import FAMILIES

FOLDER = Path(__file__).parent / "chat_templates"


def made(plain: Any, name: str) -> Any:
    """A tokenizer with the tokens and the chat template of a family."""
    from transformers import PreTrainedTokenizerFast

    family = FAMILIES[name]
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=plain.backend_tokenizer,
        eos_token=family.eos,
        pad_token=family.eos,
        clean_up_tokenization_spaces=False,
        **({"bos_token": family.bos} if family.bos else {}),
    )
    tokenizer.add_special_tokens({"additional_special_tokens": [*family.special, *family.ends]}, False)
    tokenizer.add_tokens(list(family.added))
    tokenizer.chat_template = (FOLDER / f"{family.template or name}.jinja").read_text(encoding="utf-8")
    return tokenizer
