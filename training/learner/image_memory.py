"""The memory of images in an update: what the passes of the image encoder keep for the backward pass."""

import numpy as np
import torch
from torch import Tensor

from turnwise.agents.content import ImagePart
from turnwise.agents.vision.image_reader import ImageReader
from turnwise.training.learner.untyped import CausalLM


def bytes_per_image_token(model: CausalLM, reader: ImageReader, size: tuple[int, int]) -> float:
    """Return the bytes that the image encoder keeps for each token of an image, measured on one.

    Args:
        model: of transformers, without an adapter's wrapper, on any device.
        reader: how it reads images.
        size: width and height of the images.
    """
    kept: dict[int, int] = {}
    weights = {parameter.untyped_storage().data_ptr() for parameter in model.parameters()}

    def keep(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in weights:
            kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    width, height = size
    image = ImagePart(np.zeros((height, width, 3), np.uint8))
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor), torch.enable_grad():
        vectors = reader.features(image, model)
        total = sum(kept.values())
    return total / max(1, len(vectors))
