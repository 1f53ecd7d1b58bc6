"""How a model reads images: the text that stands for an image in a prompt, and the tensors that its forward receives.

A processor of transformers decides both. Its text is encoded with the rest of the prompt, so that the ids are those
which the processor itself would give; its tensors are computed once for each image.

    text(image)        the tokens of the image, with a placeholder for each vector that the image encoder makes
    arguments(...)     of the model's forward, for rows of ids and the images of each

Not included: videos, and processors that do not say what stands for one image.
"""

from __future__ import annotations

import inspect
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from turncredit.agents.content import ImagePart
from turncredit.agents.errors import ModelError
from turncredit.agents.vision.untyped import Model, Processor

if TYPE_CHECKING:
    import torch
    from torch import Tensor

__all__ = ["ImageReader", "attach_reader", "reader_of"]

CACHE = 256 * 2**20
"""Bytes of tensors of images that are kept."""

_ATTRIBUTE = "turncredit_images"
TYPES = ("token_type_ids", "mm_token_type_ids")
"""Arguments that say which tokens are of an image, by the names that models have for them."""


class ImageReader:
    """What a processor does with images.

    Attributes:
        processor: of transformers.
        marker: text in a prompt that the processor puts an image in the place of.
        token: id of the placeholder for a vector of the image encoder.
    """

    def __init__(self, processor: Processor, token: int) -> None:
        """Keep the processor.

        Args:
            processor: with an image processor and a tokenizer.
            token: `image_token_id` of the model's configuration.

        Raises:
            ModelError: the processor does not say what stands for one image.
        """
        if not callable(getattr(processor, "replace_image_token", None)):
            raise ModelError(
                f"{type(processor).__name__} does not say which tokens stand for an image, so prompts with images "
                "cannot be built exactly; use a newer transformers, or a model of another family"
            )
        self.processor, self.token = processor, token
        self.marker = str(processor.image_token)
        self._options = _options_of(processor)
        self._unused = set(getattr(processor, "unused_input_names", ())) | {"rows", "cols"}
        self._texts: dict[tuple[int, int], str] = {}
        self._tensors: OrderedDict[str, dict[str, Tensor]] = OrderedDict()
        self._held = 0
        self._word = str(processor.tokenizer.convert_ids_to_tokens(token))

    def __getstate__(self) -> dict[str, object]:
        """Return the state without the tensors of images, which can be computed again."""
        return {**self.__dict__, "_tensors": OrderedDict(), "_held": 0}

    def text(self, image: ImagePart) -> str:
        """Return what stands for an image in a prompt: placeholders, and what the processor writes around them.

        Raises:
            ImageError: the image is stored, and cannot be read.
            ModelError: the processor refuses it.
        """
        size = image.size
        if size not in self._texts:
            self._texts[size] = str(self.processor.replace_image_token(self._process(image.image), 0))
        return self._texts[size]

    def count(self, image: ImagePart) -> int:
        """Return the number of placeholders of an image."""
        return self.text(image).count(self._word)

    def places(self, prompt: Sequence[int], images: Sequence[ImagePart]) -> list[list[int]]:
        """Return the positions of each image's placeholders in a prompt.

        Args:
            prompt: ids, with the placeholders of these images and no others.
            images: all images of the prompt, in order.

        Raises:
            ImageError: an image is stored, and cannot be read.
            ModelError: the processor refuses an image, or the placeholders are not those of the images.
        """
        places = [at for at, token in enumerate(prompt) if token == self.token]
        counts = [self.count(image) for image in images]
        if sum(counts) != len(places):
            raise ModelError(
                f"the prompt has {len(places)} places for vectors of images, and its {len(images)} images have "
                f"{sum(counts)}"
            )
        ends = list(accumulate(counts))
        return [places[end - count : end] for end, count in zip(ends, counts, strict=True)]

    def arguments(self, tokens: Tensor, images: Sequence[ImagePart], model: Model) -> dict[str, Model]:
        """Return the arguments of a model's forward for the images in rows of tokens.

        Where a model takes the vectors of images instead, those of an image that recurs are computed once.

        Args:
            tokens: int64 [B, L]; they hold the placeholders of these images, in this order, and no others.
            images: of all rows.
            model: whose forward receives them.
        """
        if not images:
            return {}
        taken = set(inspect.signature(model.forward).parameters)
        distinct = list(dict.fromkeys(images))
        if len(distinct) < len(images) and _takes_vectors(model, taken):
            return {"mm_encoder_outputs": {"image": self._repeated(distinct, images, model)}}
        arguments = {name: tensor.to(tokens.device) for name, tensor in self.tensors(images).items() if name in taken}
        return arguments | {name: (tokens == self.token).long() for name in TYPES if name in taken}

    def tensors(self, images: Sequence[ImagePart]) -> dict[str, Tensor]:
        """Return the tensors of some images together, as the model receives them."""
        return _together([self._of(image) for image in images])

    def features(self, image: ImagePart, model: Model) -> Tensor:
        """Return what an image's placeholders are replaced by, float [placeholders, hidden size].

        Args:
            image: the image.
            model: with `get_image_features`.
        """
        import torch

        taken = inspect.signature(model.get_image_features).parameters
        tensors = {name: tensor.to(model.device) for name, tensor in self.tensors([image]).items() if name in taken}
        output = model.get_image_features(**tensors)
        vectors = getattr(output, "pooler_output", output)
        joined = torch.cat(list(vectors)) if isinstance(vectors, list | tuple) else vectors
        return joined.reshape(-1, joined.shape[-1])

    def _repeated(self, distinct: Sequence[ImagePart], images: Sequence[ImagePart], model: Model) -> Model:
        """Return what the image encoder makes of some images, of which only the distinct ones are computed."""
        tensors = {name: tensor.to(model.device) for name, tensor in self.tensors(distinct).items()}
        output = model.get_image_features(**tensors)
        numbers = {image: number for number, image in enumerate(distinct)}
        output.pooler_output = [output.pooler_output[numbers[image]] for image in images]
        return output

    def save(self, folder: Path) -> None:
        """Write the processor into the folder of its model."""
        self.processor.save_pretrained(folder)

    def _of(self, image: ImagePart) -> dict[str, Tensor]:
        """Return the tensors of one image, from the cache where it has them."""
        key = image.key
        if key in self._tensors:
            self._tensors.move_to_end(key)
            return self._tensors[key]
        tensors = self._process(image.image)
        self._tensors[key] = tensors = {name: tensors[name] for name in tensors if name not in self._unused}
        self._held += _bytes(tensors)
        while self._held > CACHE and len(self._tensors) > 1:
            self._held -= _bytes(self._tensors.popitem(last=False)[1])
        return tensors

    def _process(self, pixels: NDArray[np.uint8]) -> Mapping[str, Tensor]:
        try:
            output: Mapping[str, Tensor] = self.processor.image_processor(
                images=[pixels], return_tensors="pt", input_data_format="channels_last", **self._options
            )
        except (ValueError, TypeError) as error:
            shape = "x".join(map(str, pixels.shape[1::-1]))
            raise ModelError(f"the model's processor refuses an image of {shape} pixels: {error}") from error
        return output


def attach_reader(tokenizer: Processor, reader: ImageReader) -> None:
    """Let a tokenizer know how its model reads images."""
    setattr(tokenizer, _ATTRIBUTE, reader)


def reader_of(tokenizer: object) -> ImageReader | None:
    """Return how the model of a tokenizer reads images; None if it reads text only."""
    reader = getattr(tokenizer, _ATTRIBUTE, None)
    return reader if isinstance(reader, ImageReader) else None


def _options_of(processor: Processor) -> dict[str, object]:
    """Return the arguments with which a processor of transformers calls the one for images: its own, or its class's."""
    of_class = getattr(getattr(type(processor), "valid_processor_kwargs", None), "_defaults", {})
    return {**of_class.get("images_kwargs", {}), **(getattr(processor, "images_kwargs", None) or {})}


def _takes_vectors(model: Model, taken: set[str]) -> bool:
    """Whether a model's forward takes the output of its image encoder, one list of vectors for each image.

    LLaVA does. Others need more than these vectors, such as positions or those of several layers.
    """
    return "mm_encoder_outputs" in taken and getattr(model.config, "model_type", "") == "llava"


def _bytes(tensors: Mapping[str, torch.Tensor]) -> int:
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors.values())


def _together(parts: Sequence[Mapping[str, Tensor]]) -> dict[str, Tensor]:
    """Return the tensors of several images as those of one row, whose axis of images comes first or after it."""
    import torch

    axis = int(parts[0]["pixel_values"].dim() == 5)  # [1, tiles, channels, height, width]
    return {name: torch.cat(_of_one_size([part[name] for part in parts], axis), dim=axis) for name in parts[0]}


def _of_one_size(tensors: Sequence[Tensor], axis: int) -> list[Tensor]:
    """Return tensors padded with zeros, at the end of all axes but one, to the largest of them."""
    import torch

    shapes = torch.tensor([tensor.shape for tensor in tensors])
    most = shapes.max(dim=0).values
    padded = []
    for tensor, shape in zip(tensors, shapes, strict=True):
        missing = (most - shape).tolist()
        missing[axis] = 0
        sides = [size for more in reversed(missing) for size in (0, more)]
        padded.append(torch.nn.functional.pad(tensor, sides) if any(missing) else tensor)
    return padded
