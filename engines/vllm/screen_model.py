"""The new small policy that sees as a model of vLLM: its LLaVA around turncredit's image encoder for screens.

vLLM's own LLaVA takes the image encoders of CLIP, SigLIP and Pixtral. This one differs from it in the encoder, in the
number of its vectors, and in images that need not be square. `turncredit.engines.vllm.own_models` makes it
known.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from vllm.config import VllmConfig
from vllm.model_executor.models.llava import (
    LlavaDummyInputsBuilder,
    LlavaForConditionalGeneration,
    LlavaMultiModalProcessor,
    LlavaMultiModalProjector,
    LlavaProcessingInfo,
)
from vllm.model_executor.models.utils import init_vllm_registered_model, maybe_prefix
from vllm.multimodal import MULTIMODAL_REGISTRY
from vllm.multimodal.parse import ImageSize
from vllm.multimodal.processing import ProcessorInputs

from turncredit.agents.vision.screen_tower import ScreenTower

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["ScreenLlava"]


class ScreenInfo(LlavaProcessingInfo):  # type: ignore[misc]
    """Sizes of images and of what the encoder makes of them."""

    def get_num_image_tokens(self, *, image_width: int, image_height: int) -> int:
        """Return the number of vectors, which is the same for every image."""
        config = self.get_hf_config().vision_config
        return int(config.image_height // config.patch_size * (config.image_width // config.patch_size))

    def get_image_size_with_most_features(self) -> ImageSize:
        """Return the size to which every image is scaled."""
        config = self.get_hf_config().vision_config
        return ImageSize(width=config.image_width, height=config.image_height)


class ScreenProcessor(LlavaMultiModalProcessor):  # type: ignore[misc]
    """Processes images; of a run only those with which vLLM looks how many tokens an image has."""

    def get_dummy_inputs(self, seq_len: int, mm_counts: Mapping[str, int], mm_options: object) -> ProcessorInputs:
        """Return a prompt with the ids of placeholders, since the tokenizer never makes them of a text."""
        inputs = super().get_dummy_inputs(seq_len, mm_counts, mm_options)
        inputs.prompt = [self.info.get_hf_config().image_token_index] * mm_counts.get("image", 0)
        return inputs


@MULTIMODAL_REGISTRY.register_processor(ScreenProcessor, info=ScreenInfo, dummy_inputs=LlavaDummyInputsBuilder)
class ScreenLlava(LlavaForConditionalGeneration):  # type: ignore[misc]
    """LLaVA with a `ScreenTower`."""

    def __init__(self, *, vllm_config: VllmConfig, prefix: str = "") -> None:
        """Make the layers as vLLM's LLaVA does, apart from the image encoder."""
        super(LlavaForConditionalGeneration, self).__init__()
        model = vllm_config.model_config
        config = self.config = model.hf_config
        self.multimodal_config = model.multimodal_config
        self.configure_mm_token_handling(
            vocab_size=config.text_config.vocab_size, mm_token_ids=[config.image_token_index]
        )
        with self._mark_tower_model(vllm_config, "image"):
            self.vision_tower = ScreenTower(config.vision_config)
            self.multi_modal_projector = LlavaMultiModalProjector(
                vision_hidden_size=config.vision_config.hidden_size,
                text_hidden_size=config.text_config.hidden_size,
                projector_hidden_act=config.projector_hidden_act,
                multimodal_projector_bias=config.multimodal_projector_bias,
                prefix=maybe_prefix(prefix, "multi_modal_projector"),
            )
        with self._mark_language_model(vllm_config):
            self.language_model = init_vllm_registered_model(
                vllm_config=vllm_config, hf_config=config.text_config, prefix=maybe_prefix(prefix, "language_model")
            )
        self.make_empty_intermediate_tensors = self.language_model.make_empty_intermediate_tensors

    def embed_multimodal(self, pixel_values: Tensor) -> Tensor:
        """Return the vectors of images, float [images, patches, hidden size of the decoder]."""
        vectors: Tensor = self.multi_modal_projector(self.vision_tower(pixel_values).last_hidden_state)
        return vectors
