"""New small policies that see: the image encoder for screens in front of the decoder of a new text policy.

The model is a LLaVA model of transformers, with `turncredit.agents.vision.screen_tower` as its vision tower; so it is
sampled, stored and trained as the large models for images and text are.
"""

from __future__ import annotations

from turncredit.agents.vision.image_reader import ImageReader
from turncredit.training.config.section_tables import VisionSection
from turncredit.training.errors import ConfigError
from turncredit.training.learner.untyped import CausalLM, ModelConfig, PolicyTokenizer

__all__ = ["IMAGE", "build_reader", "check_vision", "with_tower"]

IMAGE = "<|image|>"
"""The token in whose place a vector of a patch is put."""


def check_vision(section: VisionSection) -> None:
    """Refuse an image that does not consist of whole patches.

    Raises:
        ConfigError: it says which sizes were expected.
    """
    width, height = section.size
    if min(width, height) < section.patch or width % section.patch or height % section.patch:
        raise ConfigError(
            f"policy.new.vision: width and height of size must be multiples of patch = {section.patch}, got "
            f"{width} x {height}"
        )


def with_tower(text: ModelConfig, section: VisionSection, image_token: int) -> CausalLM:
    """Return a new LLaVA model, whose weights are drawn from torch's global generator.

    Args:
        text: configuration of the decoder.
        section: sizes of the image encoder.
        image_token: id of `IMAGE`.
    """
    import torch
    import transformers

    from turncredit.agents.vision.screen_tower import ScreenTowerConfig

    width, height = section.size
    config = transformers.LlavaConfig(
        text_config=text,
        vision_config=ScreenTowerConfig(
            image_height=height,
            image_width=width,
            patch_size=section.patch,
            hidden_size=section.hidden,
            layers=section.layers,
        ),
        image_token_index=image_token,
        image_seq_length=(height // section.patch) * (width // section.patch),
        vision_feature_layer=-1,
        vision_feature_select_strategy="full",
        tie_word_embeddings=text.tie_word_embeddings,
        eos_token_id=text.eos_token_id,
        pad_token_id=text.pad_token_id,
    )
    model = transformers.LlavaForConditionalGeneration(config)
    projector = model.model.multi_modal_projector
    with torch.no_grad():  # a vector of a patch begins about as long as that of a token
        projector.linear_1.weight.normal_(0.0, section.hidden**-0.5)
        projector.linear_2.weight.normal_(0.0, 0.5 * text.hidden_size**-0.5)
    return model


def build_reader(tokenizer: PolicyTokenizer, section: VisionSection) -> ImageReader:
    """Return how a new model reads images: scaled to one size, with values from -1 to 1.

    Args:
        tokenizer: with the token `IMAGE`.
        section: sizes of the image encoder.
    """
    import transformers

    width, height = section.size
    half = [0.5, 0.5, 0.5]
    images = transformers.LlavaImageProcessorPil(
        size={"height": height, "width": width}, do_center_crop=False, image_mean=half, image_std=half
    )
    processor = transformers.LlavaProcessor(
        image_processor=images,
        tokenizer=tokenizer,
        patch_size=section.patch,
        vision_feature_select_strategy="full",
        image_token=IMAGE,
    )
    return ImageReader(processor, int(tokenizer.convert_tokens_to_ids(IMAGE)))
