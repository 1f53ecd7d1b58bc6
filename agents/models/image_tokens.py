"""How many tokens an image costs, and the size of the picture that a model sees, from the files of its folder alone.

    qwen2_vl, qwen2_5_vl, qwen3_vl   sides rounded to multiples of patch x merge pixels, a token for each such square
    idefics3, smolvlm                tiles of a fixed size and the whole image once more, as many tokens for each
    gemma3                           one square, mm_tokens_per_image tokens
    llava                            one square, a token for each patch

These are the placeholders of an image. The texts around tiles, which take about eight tokens for each, are not counted,
nor are the two or three tokens around an image.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final, NamedTuple

from turncredit.agents.errors import ModelError
from turncredit.agents.json_types import JsonObject
from turncredit.tools.bounded_input import InputError, parse_json, read_bytes

__all__ = ["FAMILIES", "ImageCost", "image_tokens", "image_tokens_of"]

_LONGEST: Final = 4096
"""Largest side to which Idefics3 and SmolVLM enlarge an image."""


class ImageCost(NamedTuple):
    """What an image becomes: its tokens, and width and height of the picture that the model sees."""

    tokens: int
    width: int
    height: int


Rule = Callable[[Mapping[str, object], Mapping[str, object], int, int], ImageCost]
"""From the model's configuration, that of its processor, and width and height of an image."""


def image_tokens(config: Mapping[str, object], processor: Mapping[str, object], size: tuple[int, int]) -> ImageCost:
    """Return what an image of this width and height becomes.

    Args:
        config: of the model (config.json).
        processor: of its images (preprocessor_config.json); {} for the defaults of transformers.
        size: width and height in pixels.

    Raises:
        ModelError: the model reads no images, or its family is not known here.

    >>> image_tokens({"model_type": "qwen2_5_vl"}, {}, (540, 1200))
    ImageCost(tokens=817, width=532, height=1204)
    """
    family = str(config.get("model_type", ""))
    if family not in FAMILIES:
        raise ModelError(f"tokens of images are known for {', '.join(FAMILIES)}, and this model is {family!r}")
    return FAMILIES[family](config, processor, *size)


def image_tokens_of(folder: Path, size: tuple[int, int]) -> ImageCost:
    """Return what an image of this width and height becomes for the model in a folder.

    Raises:
        ModelError: the folder has no configuration that can be read, or see `image_tokens`.
    """
    processor = _read(folder / "preprocessor_config.json") or _read(folder / "processor_config.json")
    images = processor.get("image_processor")
    return image_tokens(_read(folder / "config.json"), images if isinstance(images, dict) else processor, size)


def _read(path: Path) -> JsonObject:
    try:
        table = parse_json(read_bytes(path), str(path))
    except FileNotFoundError:
        return {}
    except (OSError, InputError) as error:
        raise ModelError(f"{path} cannot be read: {error}") from error
    return table if isinstance(table, dict) else {}


def _part(table: Mapping[str, object], name: str) -> Mapping[str, object]:
    part = table.get(name)
    return part if isinstance(part, Mapping) else {}


def _number(table: Mapping[str, object], name: str, default: int) -> int:
    value = table.get(name)
    return int(value) if isinstance(value, int | float) and not isinstance(value, bool) else default


def _qwen(patch: int) -> Rule:
    def rule(config: Mapping[str, object], processor: Mapping[str, object], width: int, height: int) -> ImageCost:
        side = _number(processor, "patch_size", patch) * _number(processor, "merge_size", 2)
        size = _part(processor, "size")
        least = _number(processor, "min_pixels", _number(size, "shortest_edge", 56 * 56))
        most = _number(processor, "max_pixels", _number(size, "longest_edge", 28 * 28 * 1280))
        wide, high = (max(side, round(length / side) * side) for length in (width, height))
        if wide * high > most:
            factor = math.sqrt(width * height / most)
            wide, high = (max(side, math.floor(length / factor / side) * side) for length in (width, height))
        elif wide * high < least:
            factor = math.sqrt(least / (width * height))
            wide, high = (math.ceil(length * factor / side) * side for length in (width, height))
        return ImageCost(wide * high // side**2, wide, high)

    return rule


def _idefics(config: Mapping[str, object], processor: Mapping[str, object], width: int, height: int) -> ImageCost:
    vision = _part(config, "vision_config")
    tile = _number(_part(processor, "max_image_size"), "longest_edge", 364)
    patches = (_number(vision, "image_size", tile) // _number(vision, "patch_size", 14)) ** 2
    each = patches // _number(config, "scale_factor", 2) ** 2
    longest = min(_number(_part(processor, "size"), "longest_edge", 4 * 364), _LONGEST)
    shorter = int(longest * min(width, height) / max(width, height))
    sides = (longest, shorter + shorter % 2) if width >= height else (shorter + shorter % 2, longest)
    columns, rows = (math.ceil(side / tile) for side in sides)
    if processor.get("do_image_splitting") is False or columns * rows == 1:
        return ImageCost(each, tile, tile)
    return ImageCost((columns * rows + 1) * each, columns * tile, rows * tile)


def _gemma(config: Mapping[str, object], processor: Mapping[str, object], width: int, height: int) -> ImageCost:
    side = _number(_part(config, "vision_config"), "image_size", 896)
    return ImageCost(_number(config, "mm_tokens_per_image", 256), side, side)


def _llava(config: Mapping[str, object], processor: Mapping[str, object], width: int, height: int) -> ImageCost:
    vision = _part(config, "vision_config")
    side = _number(vision, "image_size", 336)
    whole = config.get("vision_feature_select_strategy") == "full"
    return ImageCost((side // _number(vision, "patch_size", 14)) ** 2 + whole, side, side)


FAMILIES: Final[dict[str, Rule]] = {
    "qwen2_vl": _qwen(14),
    "qwen2_5_vl": _qwen(14),
    "qwen3_vl": _qwen(16),
    "idefics3": _idefics,
    "smolvlm": _idefics,
    "gemma3": _gemma,
    "llava": _llava,
}
"""The rules by `model_type`."""
