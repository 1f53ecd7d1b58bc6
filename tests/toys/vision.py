"""Random tiny models that see: four families of transformers and the package's own, with their processors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
import transformers

from turncredit.agents.content import ImagePart
from turncredit.agents.vision.image_reader import ImageReader, attach_reader
from turncredit.training.config.section_tables import VisionSection
from turncredit.training.learner.policy import build_policy, build_tokenizer

HAS_TORCHVISION = transformers.utils.is_torchvision_available()
TEXTS = ["tap 3 4 hello world Settings user assistant system User Assistant USER ASSISTANT"]
ENCODER = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2}
NEWLINES = tuple("\n" * number for number in range(1, 5))
"""Which vLLM asks the tokenizer of Gemma 3 for."""
TILES = tuple(f"<row_{row}_col_{column}>" for row in range(1, 5) for column in range(1, 5))

QWEN = (
    "{% for m in messages %}{{'<|im_start|>' + m['role'] + '\n'}}{% if m['content'] is string %}{{ m['content'] }}"
    "{% else %}{% for c in m['content'] %}{% if c['type'] == 'image' %}<|vision_start|><|image_pad|><|vision_end|>"
    "{% else %}{{ c['text'] }}{% endif %}{% endfor %}{% endif %}{{'<|im_end|>\n'}}{% endfor %}"
    "{% if add_generation_prompt %}{{'<|im_start|>assistant\n'}}{% endif %}"
)
IDEFICS = (
    "{% for m in messages %}{{ m['role'] | capitalize }}{% if m['content'][0]['type'] == 'image' %}:{% else %}: "
    "{% endif %}{% for c in m['content'] %}{% if c['type'] == 'image' %}<image>{% else %}{{ c['text'] }}{% endif %}"
    "{% endfor %}<end_of_utterance>\n{% endfor %}{% if add_generation_prompt %}Assistant:{% endif %}"
)
GEMMA = (
    "{{ bos_token }}{% for m in messages %}{{ '<start_of_turn>' + ('model' if m['role'] == 'assistant' else 'user') "
    "+ '\n' }}{% if m['content'] is string %}{{ m['content'] | trim }}{% else %}{% for c in m['content'] %}"
    "{% if c['type'] == 'image' %}<start_of_image>{% else %}{{ c['text'] | trim }}{% endif %}{% endfor %}{% endif %}"
    "{{ '<end_of_turn>\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<start_of_turn>model\n' }}{% endif %}"
)
LLAVA = (
    "{% for m in messages %}{{ m['role'].upper() + ': ' }}{% for c in m['content'] if c['type'] == 'image' %}"
    "{{ '<image>\n' }}{% endfor %}{% for c in m['content'] if c['type'] == 'text' %}{{ c['text'] + ' ' }}{% endfor %}"
    "{% endfor %}{% if add_generation_prompt %}{{ 'ASSISTANT:' }}{% endif %}"
)


def own(seed: int = 0) -> tuple[Any, Any]:
    """The package's new policy with its image encoder for screens."""
    return build_policy(
        TEXTS, vocab=300, hidden=64, layers=2, heads=2, context=2048, seed=seed, vision=VisionSection(size=(24, 36))
    )


def qwen25(seed: int = 0) -> tuple[Any, Any]:
    """Qwen2.5-VL: patches of images of any size, with positions of their own."""
    encoder = {"depth": 2, "hidden_size": 32, "intermediate_size": 64, "num_heads": 2, "out_hidden_size": 64}
    encoder |= {"window_size": 56, "fullatt_block_indexes": [1], "patch_size": 14}
    return _qwen(seed, "Qwen2_5_VL", encoder, [4, 6, 6])


def qwen3(seed: int = 0) -> tuple[Any, Any]:
    """Qwen3-VL: as Qwen2.5-VL, and vectors of the encoder's layers enter the decoder's."""
    encoder = {"depth": 2, "hidden_size": 32, "intermediate_size": 64, "num_heads": 2, "out_hidden_size": 64}
    encoder |= {"num_position_embeddings": 64, "deepstack_visual_indexes": [0, 1], "patch_size": 16}
    return _qwen(seed, "Qwen3VL", encoder, [6, 5, 5])


def idefics3(seed: int = 0) -> tuple[Any, Any]:
    """Idefics3, which SmolVLM has the form of: an image is cut into tiles."""
    tokenizer = _tokenizer("<image>", "<fake_token_around_image>", "<end_of_utterance>", "<global-img>", *TILES)
    config = transformers.Idefics3Config(
        text_config={"model_type": "llama", **_text(tokenizer), "pad_token_id": 0},
        vision_config={"image_size": 28, "patch_size": 7, **ENCODER},
        image_token_id=tokenizer.convert_tokens_to_ids("<image>"),
        scale_factor=2,
        pad_token_id=0,
        tie_word_embeddings=False,
    )
    images = transformers.Idefics3ImageProcessorPil(size={"longest_edge": 56}, max_image_size={"longest_edge": 28})
    processor = transformers.Idefics3Processor(images, tokenizer, image_seq_len=4)
    return _made(seed, transformers.Idefics3ForConditionalGeneration, config, tokenizer, processor, IDEFICS)


def gemma3(seed: int = 0) -> tuple[Any, Any]:
    """Gemma 3: the tokens of an image see each other."""
    names = ("<start_of_image>", "<end_of_image>", "<image_soft_token>")
    tokenizer = _tokenizer("<bos>", "<start_of_turn>", "<end_of_turn>", *names, *NEWLINES)
    tokenizer.bos_token = "<bos>"
    for name, token in zip(("boi_token", "eoi_token", "image_token"), names, strict=True):
        name_token(tokenizer, name, token)
    config = transformers.Gemma3Config(
        text_config={**_text(tokenizer), "sliding_window": 64, "layer_types": ["sliding_attention", "full_attention"]},
        vision_config={"image_size": 28, "patch_size": 7, **ENCODER},
        mm_tokens_per_image=4,
        image_token_index=tokenizer.image_token_id,
        boi_token_index=tokenizer.boi_token_id,
        eoi_token_index=tokenizer.eoi_token_id,
    )
    images = transformers.Gemma3ImageProcessorPil(size={"height": 28, "width": 28})
    processor = transformers.Gemma3Processor(images, tokenizer, image_seq_length=4)
    return _made(seed, transformers.Gemma3ForConditionalGeneration, config, tokenizer, processor, GEMMA)


def llava(seed: int = 0) -> tuple[Any, Any]:
    """LLaVA with a tower of CLIP."""
    tokenizer = _tokenizer("<image>")
    config = transformers.LlavaConfig(
        text_config={"model_type": "llama", **_text(tokenizer)},
        vision_config={"model_type": "clip_vision_model", "image_size": 28, "patch_size": 7, **ENCODER},
        image_token_index=tokenizer.convert_tokens_to_ids("<image>"),
        vision_feature_layer=-2,
        vision_feature_select_strategy="default",
    )
    images = transformers.LlavaImageProcessorPil(size={"shortest_edge": 28}, crop_size={"height": 28, "width": 28})
    processor = transformers.LlavaProcessor(
        images, tokenizer, patch_size=7, vision_feature_select_strategy="default", num_additional_image_tokens=1
    )
    return _made(seed, transformers.LlavaForConditionalGeneration, config, tokenizer, processor, LLAVA)


FAMILIES: dict[str, Callable[..., tuple[Any, Any]]] = {
    "own": own, "qwen2.5": qwen25, "qwen3": qwen3, "idefics3": idefics3, "gemma3": gemma3, "llava": llava
}  # fmt: skip


def name_token(tokenizer: Any, name: str, token: str) -> None:
    """Give a tokenizer, and the file that it is stored in, a name for a token."""
    setattr(tokenizer, name, token)
    setattr(tokenizer, f"{name}_id", tokenizer.convert_tokens_to_ids(token))
    tokenizer.init_kwargs[name] = token


def screen(number: int, size: tuple[int, int] = (84, 60)) -> ImagePart:
    """An image of noise."""
    width, height = size
    return ImagePart(np.random.default_rng(number).integers(0, 256, (height, width, 3), dtype=np.uint8))


def _qwen(seed: int, name: str, encoder: dict[str, object], sections: list[int]) -> tuple[Any, Any]:
    tokens = ("<|im_start|>", "<|im_end|>", "<|vision_start|>", "<|vision_end|>", "<|image_pad|>", "<|video_pad|>")
    tokenizer = _tokenizer(*tokens)
    ids = dict(zip(tokens, tokenizer.convert_tokens_to_ids(list(tokens)), strict=True))
    rope = {"rope_type": "default", "mrope_section": sections, "rope_theta": 1e4}
    rope |= {"mrope_interleaved": True} if name == "Qwen3VL" else {}  # as in the configurations of these models
    config = getattr(transformers, f"{name}Config")(
        text_config={**_text(tokenizer), "rope_parameters": rope},
        vision_config=encoder,
        image_token_id=ids["<|image_pad|>"],
        video_token_id=ids["<|video_pad|>"],
        vision_start_token_id=ids["<|vision_start|>"],
        vision_end_token_id=ids["<|vision_end|>"],
        tie_word_embeddings=False,
    )
    processor = _qwen_processor(getattr(transformers, f"{name}Processor"), tokenizer, encoder["patch_size"])
    return _made(seed, getattr(transformers, f"{name}ForConditionalGeneration"), config, tokenizer, processor, QWEN)


def _qwen_processor(kind: Any, tokenizer: Any, patch: object) -> Any:
    images = transformers.Qwen2VLImageProcessorPil(patch_size=patch)
    if HAS_TORCHVISION:
        return kind(images, tokenizer, transformers.Qwen2VLVideoProcessor(patch_size=patch), chat_template=QWEN)
    processor = object.__new__(kind)  # the constructor would ask for a processor of videos; this one cannot be stored
    processor.image_processor, processor.tokenizer = images, tokenizer
    processor.image_token, processor.chat_template = "<|image_pad|>", QWEN
    processor.image_token_id = tokenizer.convert_tokens_to_ids("<|image_pad|>")
    return processor


def _tokenizer(*special: str) -> Any:
    tokenizer = build_tokenizer(TEXTS, vocab=320 + len(special), context=4096, special=special)
    tokenizer.split_special_tokens = False  # as in the tokenizers of these models
    return tokenizer


def _text(tokenizer: Any) -> dict[str, Any]:
    heads = {"num_hidden_layers": 2, "num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 32}
    sizes = {"hidden_size": 64, "intermediate_size": 64, "max_position_embeddings": 2048}
    ends = {"eos_token_id": tokenizer.eos_token_id, "bos_token_id": None}
    return {"vocab_size": len(tokenizer), **sizes, **heads, **ends}


def _made(seed: int, kind: Any, config: Any, tokenizer: Any, processor: Any, template: str) -> tuple[Any, Any]:
    """Return a model with weights that matter, and its tokenizer, which knows its processor."""
    tokenizer.chat_template = template
    torch.manual_seed(seed)
    model = kind(config).eval()
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if weight.dim() > 1:
                weight.normal_(0.0, 0.15)
            elif "norm" not in name:
                weight.normal_(0.0, 0.02)
    attach_reader(tokenizer, ImageReader(processor, model.config.image_token_id))
    return model, tokenizer
