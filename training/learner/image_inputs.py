"""The images of a batch as a model receives them, beside the tokens of its rows."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from turncredit.agents.content import ImagePart
from turncredit.agents.models.tokenization import codec_of
from turncredit.agents.vision.image_reader import ImageReader
from turncredit.training.batch.batch import Batch
from turncredit.training.batch.model_inputs import ModelInputs
from turncredit.training.learner.untyped import CausalLM

Images = list[ImagePart]


def whole_images(batch: Batch, reader: ImageReader) -> tuple[Batch, list[Images]]:
    """Return a batch without the placeholders of images that are cut off, and the images of each row that are left.

    A row may end in the middle of an image, where nothing comes after that could be learned from.

    Args:
        batch: with images.
        reader: how the model reads images.
    """
    tokens, left = batch.tokens.copy(), []
    for row, (length, images) in enumerate(zip(batch.lengths.tolist(), batch.images or (), strict=True)):
        places = np.flatnonzero(tokens[row] == reader.token)
        ends = np.cumsum([reader.count(image) for image in images], dtype=np.int64)
        count = int(np.searchsorted(ends, int((places < length).sum()), side="right"))
        tokens[row, places[int(ends[count - 1]) if count else 0 :]] = 0
        left.append(list(images[:count]))
    return replace(batch, tokens=tokens), left


def with_images(inputs: ModelInputs, images: Sequence[Images], reader: ImageReader, model: CausalLM) -> ModelInputs:
    """Return inputs with the arguments that a model receives for their images.

    Args:
        inputs: of a batch from `whole_images`, as padded rows or packed into one.
        images: of each row.
        reader: how the model reads images.
        model: whose forward receives them.
    """
    tokens = inputs.arguments["input_ids"]
    arguments = reader.arguments(tokens, [image for row in images for image in row], model)
    if "position_ids" in inputs.arguments and hasattr(model, "get_rope_index"):
        arguments["position_ids"] = _positions_of_rows(inputs.arguments["position_ids"], tokens, images, reader, model)
    return replace(inputs, arguments=inputs.arguments | arguments)


def _positions_of_rows(
    positions: Tensor, tokens: Tensor, images: Sequence[Images], reader: ImageReader, model: CausalLM
) -> Tensor:
    """Return the positions of packed rows for a model whose images have several: int64 [4, 1, N], of text first."""
    starts = torch.nonzero(positions[0] == 0)[:, 0].tolist()
    rows = torch.tensor_split(tokens[0], starts[1:])
    parts = []
    for row, shown in zip(rows, (row for row in images), strict=True):
        arguments = reader.arguments(row[None], shown, model)
        arguments.pop("pixel_values", None)
        if shown:
            parts.append(model.get_rope_index(row[None], **arguments)[0][:, 0])
        else:
            parts.append(torch.arange(len(row), device=row.device).expand(3, -1))
    return torch.cat([positions[None], torch.cat(parts, dim=1)[:, None]])


def example_image(step: int) -> ImagePart:
    """Return an image of 84 x 56 pixels, another one for each step, for what has to be computed without a real one."""
    return ImagePart((np.arange(3 * 56 * 84).reshape(56, 84, 3) * step % 251).astype(np.uint8))


def example_rows(reader: ImageReader, words: int) -> Batch:
    """Return three short rows around an image each, to try a layout with; the last tokens are in the mask.

    Args:
        reader: how the model reads images.
        words: number of ids that the model has.
    """
    codec = codec_of(reader.processor.tokenizer)
    few = [token for token in range(words) if token != reader.token][3:11]
    images = [example_image(step) for step in (3, 5, 7)]
    rows = [(*few[at:4], *codec.encode(reader.text(image)), *few[4:]) for at, image in enumerate(images)]
    lengths = np.array([len(row) for row in rows], dtype=np.int64)
    tokens = np.zeros((len(rows), int(lengths.max())), dtype=np.int64)
    for at, row in enumerate(rows):
        tokens[at, : len(row)] = row
    columns = np.arange(tokens.shape[1])
    mask = (columns >= lengths[:, None] - 3) & (columns < lengths[:, None])
    turn = np.where(mask, np.arange(len(rows))[:, None], -1)
    return Batch(
        tokens=tokens,
        lengths=lengths,
        mask=mask,
        old=np.zeros(tokens.shape),
        advantages=np.zeros(tokens.shape),
        trajectory=np.arange(len(rows)),
        turn=turn,
        version=np.where(mask, 0, -1),
        images=tuple((image,) for image in images),
    )
