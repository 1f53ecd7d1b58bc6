"""Tokenizers of eight families: their special tokens and chat templates on a tiny vocabulary."""

from __future__ import annotations

from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parents[1] / "agents" / "chat_templates"
IM = ("<|im_start|>", "<|im_end|>", "<|endoftext|>")
LLAMA = ("<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>")
SPECIALS: dict[str, tuple[str, str, tuple[str, ...]]] = {
    "chatml": ("", "<|im_end|>", IM),
    "llama3": ("<|begin|>", "<|eot_id|>", LLAMA),
    "qwen25": ("", "<|im_end|>", IM),
    "qwen3": ("", "<|im_end|>", IM),
    "mistral": ("<s>", "</s>", ("[INST]", "[/INST]", "[TOOL_RESULTS]", "[/TOOL_RESULTS]")),
    "gemma": ("<bos>", "<eos>", ("<start_of_turn>", "<end_of_turn>")),
    "phi": ("", "<|endoftext|>", ("<|system|>", "<|user|>", "<|assistant|>", "<|end|>")),
    "deepseek": ("<|begin|>", "<|end|>", ("<|User|>", "<|Assistant|>")),
}
"""Template -> beginning of a text, end of a text, and its other special tokens."""
ENDS = {"gemma": "<end_of_turn>", "phi": "<|end|>"}
"""Tokens that end an answer, where that is not the end of a text."""


def made(plain: Any, name: str) -> Any:
    """A tokenizer with the special tokens and the chat template of a family."""
    from transformers import PreTrainedTokenizerFast

    start, end, others = SPECIALS[name]
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=plain.backend_tokenizer,
        eos_token=end,
        pad_token=end,
        clean_up_tokenization_spaces=False,
        **({"bos_token": start} if start else {}),
    )
    tokenizer.add_special_tokens({"additional_special_tokens": list(others)}, False)
    tokenizer.chat_template = (FOLDER / f"{name}.jinja").read_text()
    return tokenizer
