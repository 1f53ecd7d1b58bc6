"""Images among the tokens of a sampler: each vector of an image has a token id of its own.

In a prompt all placeholders of all images are the same id. A cache that compares ids would take one image for
another. So each vector of an image gets an id beyond the vocabulary: sequences of equal ids have equal contents, and
everything that is done with ids (shared prefixes, pages, passes of a part of a prompt) holds for images as well.

Not included: images in passes that are replayed as CUDA graphs; of a model that sees, those have sampled tokens only.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray

from turncredit.agents.content import ImagePart
from turncredit.agents.errors import ModelError, RequestFailed, StoreError
from turncredit.agents.models.tokenization import codec_of
from turncredit.agents.vision.untyped import Model
from turncredit.engines.transformers.kvcache import to_device

if TYPE_CHECKING:
    from turncredit.agents.vision.image_reader import ImageReader

__all__ = ["ImageTokens"]


class ImageTokens:
    """The ids of the images in the sequences of episodes, and their vectors.

    Attributes:
        reader: how the model reads images.
        token: the placeholder in prompts.
    """

    def __init__(self, reader: ImageReader, model: Model) -> None:
        """Begin without images.

        Args:
            reader: how the model reads images.
            model: of transformers, without an adapter's wrapper.
        """
        self.reader, self.token, self._model = reader, reader.token, model
        self._first = self._next = int(model.get_input_embeddings().weight.shape[0])
        self._starts: list[int] = []
        self._images: list[ImagePart] = []
        self._by_key: dict[str, int] = {}
        self._episodes: dict[str, set[str]] = {}
        self._uses: dict[str, int] = {}
        self._vectors: dict[str, torch.Tensor] = {}

    def ids(self, episode: str, prompt: Sequence[int], images: Sequence[ImagePart]) -> list[int]:
        """Return a prompt in which each placeholder is an id of its own.

        Args:
            episode: whose prompt it is; `forget` drops its images.
            prompt: ids, with placeholders.
            images: all images of the prompt, in order.

        Raises:
            RequestFailed: an image cannot be read, or the placeholders are not those of the images.
        """
        ids = list(prompt)
        try:
            places = self.reader.places(prompt, images)
        except (StoreError, ModelError) as error:
            raise RequestFailed(f"episode {episode}: {error}") from error
        for image, of_image in zip(images, places, strict=True):
            start = self._start(episode, image, len(of_image))
            for offset, at in enumerate(of_image):
                ids[at] = start + offset
        return ids

    def plain(self, ids: Sequence[int]) -> tuple[list[int], list[ImagePart]]:
        """Return ids with placeholders, and the images that begin among them."""
        begins = [token for token in ids if token >= self._first and token in self._begins]
        tokens = [self.token if token >= self._first else token for token in ids]
        return tokens, [self._images[self._place(token)] for token in begins]

    def inputs(self, ids: NDArray[np.int64]) -> dict[str, torch.Tensor]:
        """Return what a model receives for ids [B, L]: the ids, or vectors in their place where some are of images."""
        device = self._model.device
        virtual = ids >= self._first
        if not virtual.any():
            return {"input_ids": to_device(ids, device)}
        vectors = self._model.get_input_embeddings()(to_device(np.where(virtual, 0, ids), device)).clone()
        rows, columns = np.nonzero(virtual)
        tokens = ids[rows, columns]
        places = np.searchsorted(np.array(self._starts), tokens, side="right") - 1
        for number in np.unique(places):
            of_image = places == number
            offsets = to_device(tokens[of_image] - self._starts[number], device)
            target = to_device(rows[of_image], device), to_device(columns[of_image], device)
            vectors[target] = self._of(self._images[number])[offsets].to(vectors.dtype)
        return {"inputs_embeds": vectors}

    def example(self, shape: tuple[int, int] = (56, 84)) -> list[int]:
        """Return ids of a short text around an image, to try a cache with; `forget("example")` drops it."""
        pixels = np.arange(3 * shape[0] * shape[1]).reshape(*shape, 3) * 7 % 251
        image = ImagePart(pixels.astype(np.uint8))
        text = codec_of(self.reader.processor.tokenizer).encode(self.reader.text(image))
        few = [token for token in range(self._first) if token != self.token][3:8]
        return self.ids("example", (*few[:3], *text, *few[3:]), [image])

    def forget(self, episode: str) -> None:
        """Drop the images that only this episode has."""
        for key in self._episodes.pop(episode, set()):
            self._uses[key] -= 1
            if not self._uses[key]:
                number = self._place(self._by_key.pop(key))
                del self._uses[key], self._starts[number], self._images[number]
                self._vectors.pop(key, None)

    def reset(self) -> None:
        """Drop all vectors, since the weights changed."""
        self._vectors.clear()

    @property
    def _begins(self) -> set[int]:
        return set(self._starts)

    def _start(self, episode: str, image: ImagePart, count: int) -> int:
        """Return the first id of an image; ids of images that were dropped are never given again."""
        key = image.key
        if key not in self._by_key:
            self._by_key[key] = self._next
            self._starts.append(self._next)
            self._images.append(image)
            self._uses[key] = 0
            self._next += count
        held = self._episodes.setdefault(episode, set())
        if key not in held:
            held.add(key)
            self._uses[key] += 1
        return self._by_key[key]

    def _place(self, token: int) -> int:
        return bisect_right(self._starts, token) - 1

    def _of(self, image: ImagePart) -> torch.Tensor:
        if image.key not in self._vectors:
            self._vectors[image.key] = self.reader.features(image, self._model)
        return self._vectors[image.key]
