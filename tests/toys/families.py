"""Tiny random models of the families that people train: the configurations of transformers with small sizes.

`FAMILIES` is the one list of them. docs/models.md shows it, and tests check that it does.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import torch
import transformers
from safetensors.torch import load_file, save_file

from turncredit.training.learner.policy import build_tokenizer, save_policy

VOCAB = 300
CONTEXT = 128
WINDOW = 32
"""Tokens that a layer with a sliding window sees; prompts of the tests are longer."""
HEAD = 32
"""Size of a head, the smallest that vLLM computes on a CPU."""
LINEAR_HEAD = 128
"""Size of a head of linear attention, the smallest that vLLM computes on a CPU."""
IMAGE, IMAGE_START, IMAGE_END, VIDEO = IMAGE_TOKENS = ("<image>", "<image_start>", "<image_end>", "<video>")
SIZES = {"float32": 0.2, "bfloat16": 0.1}
"""Standard deviation of matrices by the type in which vLLM computes; larger ones make more of its rounding."""
DOCUMENT = Path(__file__).resolve().parents[2] / "docs/models.md"


@dataclass(frozen=True)
class Family:
    """A family of models.

    Attributes:
        name: as the documentation has it.
        example: a model of the Hub.
        config: makes the configuration of a tiny one.
        loader: class of transformers that makes the model as its checkpoint is.
        experts: whether experts are held in another layout than they have in the checkpoint.
        cache: whether the sampler of this package keeps keys and values.
        dtype: type in which vLLM computes with it on a CPU.
        vllm: why it is not tested with vLLM on a CPU; empty: it is.
        adapter: whether vLLM takes a LoRA adapter as an adapter.
    """

    name: str
    example: str
    config: Callable[[], Any]
    loader: str = "AutoModelForCausalLM"
    experts: bool = False
    cache: bool = True
    dtype: str = "float32"
    vllm: str = ""
    adapter: bool = True


def sizes(**changes: Any) -> dict[str, Any]:
    """Return what most configurations have in common; None leaves a key out."""
    common: dict[str, Any] = {
        "vocab_size": VOCAB,
        "hidden_size": 32,
        "intermediate_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "num_key_value_heads": 1,
        "head_dim": HEAD,
        "max_position_embeddings": CONTEXT,
        "eos_token_id": 1,
        "pad_token_id": 0,
    }
    left_out = {name for name, value in changes.items() if value is None}
    return {name: value for name, value in {**common, **changes}.items() if name not in left_out} | {
        "bos_token_id": None
    }


ALTERNATING = {"sliding_window": WINDOW, "layer_types": ["sliding_attention", "full_attention"]}
LLAMA3 = {
    "rope_type": "llama3",
    "rope_theta": 500000.0,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 64,
}
YARN = {
    "rope_type": "yarn",
    "rope_theta": 150000.0,
    "factor": 4.0,
    "beta_fast": 32.0,
    "beta_slow": 1.0,
    "truncate": False,
    "original_max_position_embeddings": 32,
}
EXPERTS = {"num_experts_per_tok": 2}
SIGLIP = {
    "hidden_size": 32,
    "intermediate_size": 32,
    "num_hidden_layers": 1,
    "num_attention_heads": 1,
    "image_size": 28,
    "patch_size": 14,
}
QWEN_VISION = {
    "hidden_size": 32,
    "intermediate_size": 32,
    "depth": 1,
    "num_heads": 1,
    "patch_size": 14,
    "out_hidden_size": 32,
    "num_position_embeddings": 16,
    "deepstack_visual_indexes": [],
}


def _gemma3() -> Any:
    return transformers.Gemma3Config(
        text_config=sizes(query_pre_attn_scalar=HEAD, **ALTERNATING),
        vision_config=SIGLIP,
        mm_tokens_per_image=4,
        image_token_index=token_id(IMAGE),
        boi_token_index=token_id(IMAGE_START),
        eoi_token_index=token_id(IMAGE_END),
        tie_word_embeddings=True,
    )


def _qwen35() -> Any:
    text = sizes(
        linear_key_head_dim=LINEAR_HEAD,
        linear_value_head_dim=LINEAR_HEAD,
        linear_num_key_heads=1,
        linear_num_value_heads=2,
        layer_types=["linear_attention", "full_attention"],
        tie_word_embeddings=True,
    )
    return transformers.Qwen3_5Config(
        text_config=text,
        vision_config=QWEN_VISION,
        image_token_id=token_id(IMAGE),
        video_token_id=token_id(VIDEO),
        vision_start_token_id=token_id(IMAGE_START),
        vision_end_token_id=token_id(IMAGE_END),
        tie_word_embeddings=True,
    )


def _granite() -> Any:
    scales = {"embedding_multiplier": 12.0, "residual_multiplier": 0.22, "logits_scaling": 8.0}
    scales["attention_multiplier"] = 1 / 64
    return transformers.GraniteConfig(**sizes(hidden_size=64, head_dim=None, tie_word_embeddings=True, **scales))


def _deepseek() -> Any:
    ranks = {"q_lora_rank": 32, "kv_lora_rank": 512, "qk_rope_head_dim": 64, "qk_nope_head_dim": 32, "v_head_dim": 32}
    routing = {"n_routed_experts": 4, "n_group": 1, "topk_group": 1, "n_shared_experts": 1, "first_k_dense_replace": 1}
    routing |= {"topk_method": "noaux_tc", "scoring_func": "sigmoid"}  # which vLLM reads
    return transformers.DeepseekV3Config(
        **sizes(head_dim=None, num_key_value_heads=2, moe_intermediate_size=32, **EXPERTS, **ranks, **routing)
    )


FAMILIES = {
    family.name: family
    for family in (
        Family(
            "Llama 3",
            "meta-llama/Llama-3.1-8B-Instruct",
            lambda: transformers.LlamaConfig(**sizes(rope_parameters=LLAMA3)),
        ),
        Family(
            "Qwen 2.5",
            "Qwen/Qwen2.5-1.5B-Instruct",
            lambda: transformers.Qwen2Config(**sizes(hidden_size=64, head_dim=None, tie_word_embeddings=True)),
        ),
        Family("Qwen 3", "Qwen/Qwen3-8B", lambda: transformers.Qwen3Config(**sizes(tie_word_embeddings=True))),
        Family(
            "Mistral",
            "mistralai/Mistral-7B-Instruct-v0.3",
            lambda: transformers.MistralConfig(**sizes(sliding_window=WINDOW)),
        ),
        Family("Phi 4", "microsoft/phi-4", lambda: transformers.Phi3Config(**sizes(hidden_size=64, head_dim=None))),
        Family(
            "SmolLM 3",
            "HuggingFaceTB/SmolLM3-3B",
            lambda: transformers.SmolLM3Config(
                **sizes(hidden_size=64, head_dim=None, no_rope_layers=[1, 0], tie_word_embeddings=True)
            ),
            adapter=False,
        ),
        Family("Granite", "ibm-granite/granite-3.3-8b-instruct", _granite),
        Family(
            "Mixtral",
            "mistralai/Mixtral-8x7B-Instruct-v0.1",
            lambda: transformers.MixtralConfig(**sizes(num_local_experts=4, **EXPERTS)),
            experts=True,
            adapter=False,
        ),
        Family(
            "Qwen 3 MoE",
            "Qwen/Qwen3-30B-A3B",
            lambda: transformers.Qwen3MoeConfig(
                **sizes(moe_intermediate_size=32, num_experts=4, norm_topk_prob=True, **EXPERTS)
            ),
            experts=True,
            adapter=False,
        ),
        Family(
            "Gemma 3",
            "google/gemma-3-4b-it",
            _gemma3,
            loader="AutoModelForImageTextToText",
        ),
        Family(
            "Gemma 3, text only",
            "google/gemma-3-1b-it",
            lambda: transformers.Gemma3TextConfig(
                **sizes(query_pre_attn_scalar=HEAD, tie_word_embeddings=True, **ALTERNATING)
            ),
        ),
        Family(
            "GPT-OSS",
            "openai/gpt-oss-20b",
            lambda: transformers.GptOssConfig(
                **sizes(num_local_experts=4, rope_parameters=YARN, **EXPERTS, **ALTERNATING)
            ),
            cache=False,
            vllm="refused: vLLM 0.32 leaves its experts as they were",
            adapter=False,
        ),
        Family(
            "DeepSeek V3",
            "deepseek-ai/DeepSeek-V3",
            _deepseek,
            experts=True,
            adapter=False,
            vllm="not on a CPU: vLLM 0.32 differs from the start",
        ),
        Family(
            "Qwen 3.5",
            "Qwen/Qwen3.5-4B",
            _qwen35,
            loader="AutoModelForImageTextToText",
            cache=False,
            dtype="bfloat16",
        ),
    )
}
"""The families by name, in the order of the documentation."""


@cache
def tokenizer() -> Any:
    """Return the tokenizer of all of them."""
    texts = ["go to the kitchen and take the apple", "open the fridge 1", "you see a mug 12 on the table."]
    return build_tokenizer(texts * 3, vocab=VOCAB, context=CONTEXT, special=IMAGE_TOKENS)


def token_id(name: str) -> int:
    """Return the id of a token of images."""
    return int(tokenizer().convert_tokens_to_ids(name))


def write_model(family: Family, folder: Path, seed: int = 3) -> Path:
    """Write a model as its checkpoint on the Hub is, with sharp predictions, so that a wrong tensor shows."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = getattr(transformers, family.loader).from_config(family.config()).eval()
        with torch.no_grad():
            for name, weight in model.named_parameters():
                if weight.ndim >= 2:
                    weight.normal_(0.0, SIZES[family.dtype])
                elif "norm" in name or "bias" in name or "sinks" in name:
                    weight.add_(0.1 * torch.randn_like(weight))
            for name, buffer in model.named_buffers():
                if "correction_bias" in name:  # decides which experts of DeepSeek are chosen
                    buffer.normal_(0.0, 0.1)
    save_policy(model, tokenizer(), folder)
    name_tower_as_on_hub(folder)
    return folder


def name_tower_as_on_hub(folder: Path) -> None:
    """Give the tensors of an image encoder of CLIP or SigLIP the names that they have in checkpoints on the Hub."""
    tower = re.compile(r"^vision_tower\.(?=embeddings|encoder|pre_layrnorm|post_layernorm|head)")
    file = folder / "model.safetensors"
    tensors = load_file(file)
    if any(map(tower.match, tensors)):
        named = {tower.sub("vision_tower.vision_model.", name): tensor for name, tensor in tensors.items()}
        save_file(named, file, metadata={"format": "pt"})


def change_all(model: Any, seed: int = 0) -> None:
    """Change every tensor of a model by amounts of its own."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for weight in model.parameters():
            weight.add_(0.05 * torch.randn(weight.shape, generator=generator))


def table() -> str:
    """Return the table of docs/models.md."""
    head = ["family", "such as", "load, sample, update, LoRA", "cache", "new weights in vLLM", "adapter in vLLM"]
    lines = [head, ["---"] * len(head)]
    for family in FAMILIES.values():
        tested = "tested" if family.dtype == "float32" else f"tested in {family.dtype}"
        engine = family.vllm or tested
        adapter = family.vllm or (tested if family.adapter else "merged")
        lines.append([family.name, f"`{family.example}`", "tested", "yes" if family.cache else "no", engine, adapter])
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def documented() -> str:
    """Return docs/models.md with the table as it should be."""
    before, _, rest = DOCUMENT.read_text(encoding="utf-8").partition("<!-- families -->\n")
    return f"{before}<!-- families -->\n{table()}<!-- /families -->{rest.partition('<!-- /families -->')[2]}"


if __name__ == "__main__":
    DOCUMENT.write_text(documented(), encoding="utf-8")
