"""Models with the sizes of published ones and random weights, for measurements where nothing can be downloaded.

Times and memory do not depend on what the weights are. An answer of such a model is noise, so it is always as long as
it may be, and no environment understands it.

    python benchmarks/real_shapes.py qwen2.5-1.5b FOLDER [--device cuda] [--dtype bfloat16]
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers

from turncredit.credit.advantages import Advantages
from turncredit.credit.steps import Steps
from turncredit.training.learner.policy import build_tokenizer, save_policy

QWEN = {"bos_token_id": None, "tie_word_embeddings": True, "rms_norm_eps": 1e-6}
SHAPES: dict[str, tuple[type, dict[str, Any]]] = {
    "smollm2-135m": (
        transformers.LlamaConfig,
        {
            "vocab_size": 49152,
            "hidden_size": 576,
            "intermediate_size": 1536,
            "num_hidden_layers": 30,
            "num_attention_heads": 9,
            "num_key_value_heads": 3,
            "max_position_embeddings": 8192,
            "tie_word_embeddings": True,
        },
    ),
    "qwen3-0.6b": (
        transformers.Qwen3Config,
        {
            "vocab_size": 151936,
            "hidden_size": 1024,
            "intermediate_size": 3072,
            "num_hidden_layers": 28,
            "num_attention_heads": 16,
            "num_key_value_heads": 8,
            "head_dim": 128,
            "max_position_embeddings": 32768,
            **QWEN,
        },
    ),
    "qwen2.5-1.5b": (
        transformers.Qwen2Config,
        {
            "vocab_size": 151936,
            "hidden_size": 1536,
            "intermediate_size": 8960,
            "num_hidden_layers": 28,
            "num_attention_heads": 12,
            "num_key_value_heads": 2,
            "max_position_embeddings": 32768,
            **QWEN,
        },
    ),
    "qwen3-4b": (
        transformers.Qwen3Config,
        {
            "vocab_size": 151936,
            "hidden_size": 2560,
            "intermediate_size": 9728,
            "num_hidden_layers": 36,
            "num_attention_heads": 32,
            "num_key_value_heads": 8,
            "head_dim": 128,
            "max_position_embeddings": 32768,
            **QWEN,
        },
    ),
    "tiny": (
        transformers.Qwen2Config,
        {
            "vocab_size": 16384,
            "hidden_size": 64,
            "intermediate_size": 128,
            "num_hidden_layers": 2,
            "num_attention_heads": 2,
            "num_key_value_heads": 1,
            "max_position_embeddings": 8192,
            **QWEN,
        },
    ),
}
"""Configurations by name, as the published config.json files have them; "tiny" is for trials."""
PAGES = Path(__file__).resolve().parents[1] / "docs"
CHAT = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def noise(steps: Steps) -> Advantages:
    """Return advantages that are drawn at random: a credit rule for episodes that all end alike."""
    return Advantages.of(steps, np.random.default_rng(0).normal(size=len(steps)))


def new_model(name: str, *, device: str = "cpu", dtype: torch.dtype = torch.bfloat16) -> Any:
    """Return a model with the sizes of a published one, whose weights are drawn on the device."""
    make, sizes = SHAPES[name]
    config = make(**sizes)
    torch.manual_seed(0)
    with torch.device(device):
        return transformers.AutoModelForCausalLM.from_config(config, dtype=dtype, trust_remote_code=False).eval()


def write_model(name: str, folder: Path, *, device: str = "cpu", dtype: torch.dtype = torch.bfloat16) -> None:
    """Write such a model as a Hugging Face folder, with a tokenizer of this project's pages and a chat template.

    A prompt of the household has about as many tokens as with a published tokenizer: 175, and 169 with SmolLM2's.
    """
    sizes = SHAPES[name][1]
    pages = [path.read_text(encoding="utf-8") for path in sorted(PAGES.glob("*.md"))]
    words = min(16384, sizes["vocab_size"] - 100)
    tokenizer = build_tokenizer(pages, vocab=words, context=sizes["max_position_embeddings"])
    tokenizer.chat_template = CHAT
    model = new_model(name, device=device, dtype=dtype)
    for config in (model.config, model.generation_config):
        config.eos_token_id, config.pad_token_id = tokenizer.eos_token_id, tokenizer.pad_token_id
    save_policy(model, tokenizer, folder)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", choices=SHAPES)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--dtype", default="bfloat16")
    options = parser.parse_args()
    write_model(options.name, options.folder, device=options.device, dtype=getattr(torch, options.dtype))
    print(json.dumps({"folder": str(options.folder), "model": options.name}))


if __name__ == "__main__":
    main()
