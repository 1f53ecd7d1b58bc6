"""The example of a large model that sees: its memory and what an image costs, from the configuration of the model."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from turncredit.cli.main import app as turncredit

transformers = pytest.importorskip("transformers")
pytest.importorskip("peft")
EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "qwen_vl_phone.toml"


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """The configuration of Qwen2.5-VL-3B, written from its published sizes."""
    text = {
        "hidden_size": 2048,
        "num_hidden_layers": 36,
        "num_attention_heads": 16,
        "num_key_value_heads": 2,
        "intermediate_size": 11008,
        "vocab_size": 151936,
        "tie_word_embeddings": True,
    }
    vision = {"depth": 32, "hidden_size": 1280, "num_heads": 16, "intermediate_size": 3420, "out_hidden_size": 2048}
    transformers.Qwen2_5_VLConfig(text_config=text, vision_config=vision, tie_word_embeddings=True).save_pretrained(
        tmp_path
    )
    (tmp_path / "preprocessor_config.json").write_text(json.dumps({"min_pixels": 3136, "max_pixels": 12845056}))
    return tmp_path


def test_it_fits_on_a_card_of_24_gb(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert not turncredit(["plan", str(EXAMPLE), f"policy.model={model}", "--memory", "24"], standalone_mode=False)
    output = capsys.readouterr().out
    assert "3.8B parameters" in output
    assert "an image of 392 x 868 pixels: 434 tokens, 14% of policy.context" in output
    assert "fastest" in output
    assert "too big" not in output
