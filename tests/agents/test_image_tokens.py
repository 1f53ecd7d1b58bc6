"""Tokens of an image, against what the processors of transformers make of one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from turncredit.agents.errors import ModelError
from turncredit.agents.models.image_tokens import image_tokens, image_tokens_of

transformers = pytest.importorskip("transformers")
pytest.importorskip("PIL")
SIZE = st.tuples(st.integers(56, 900), st.integers(56, 900))


def pixels(size: tuple[int, int]) -> Any:
    return np.zeros((size[1], size[0], 3), np.uint8)


def processor_of(family: str, **options: object) -> Any:
    module = __import__(f"transformers.models.{family}.image_processing_pil_{family}", fromlist=["x"])
    name = {"qwen2_vl": "Qwen2VL", "idefics3": "Idefics3", "smolvlm": "SmolVLM"}[family]
    return getattr(module, f"{name}ImageProcessorPil")(**options)


@settings(max_examples=20, deadline=None)
@given(size=SIZE, patch=st.sampled_from([14, 16]), most=st.sampled_from([28 * 28 * 1280, 28 * 28 * 200]))
def test_qwen(size: tuple[int, int], patch: int, most: int) -> None:
    options = {"patch_size": patch, "min_pixels": 56 * 56, "max_pixels": most}
    made = processor_of("qwen2_vl", **options)(images=[pixels(size)], return_tensors="np")
    _, rows, columns = made["image_grid_thw"][0]
    tokens = image_tokens({"model_type": "qwen3_vl" if patch == 16 else "qwen2_5_vl"}, options, size)
    assert tokens == (rows * columns // 4, columns * patch, rows * patch)


@pytest.mark.parametrize("family", ["idefics3", "smolvlm"])
@settings(max_examples=10, deadline=None)
@given(size=SIZE, edge=st.sampled_from([364, 2 * 364, 4 * 364]), splits=st.booleans())
def test_tiles(family: str, size: tuple[int, int], edge: int, splits: bool) -> None:
    options = {"size": {"longest_edge": edge}, "do_image_splitting": splits}
    made = processor_of(family, **options)(images=[[pixels(size)]], return_tensors="np")
    tiles = made["pixel_values"].shape[1]
    config = {"model_type": family, "vision_config": {"image_size": 364, "patch_size": 14}, "scale_factor": 2}
    assert image_tokens(config, options, size).tokens == tiles * (26 // 2) ** 2


def test_one_square() -> None:
    gemma = transformers.Gemma3Config().to_dict()
    assert image_tokens(gemma, {}, (540, 1200)).tokens == gemma["mm_tokens_per_image"] == 256
    llava = transformers.LlavaConfig().to_dict()
    assert image_tokens(llava, {}, (540, 1200)) == (llava["image_seq_length"], 336, 336) == (576, 336, 336)


def test_files_of_a_folder(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "qwen2_5_vl"}))
    (tmp_path / "preprocessor_config.json").write_text(json.dumps({"max_pixels": 28 * 28 * 100}))
    assert image_tokens_of(tmp_path, (540, 1200)).tokens <= 100
    (tmp_path / "preprocessor_config.json").write_text("{")
    with pytest.raises(ModelError, match="cannot be read"):
        image_tokens_of(tmp_path, (540, 1200))
    with pytest.raises(ModelError, match="tokens of images are known for qwen2_vl"):
        image_tokens({"model_type": "gpt2"}, {}, (1, 1))
