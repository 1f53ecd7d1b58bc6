"""`turncredit model`: what is shown about a model, without reading its weights."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from toys.commands import Call, one_sentence

pytest.importorskip("torch")
pytest.importorskip("transformers")

from turncredit.agents.models.model_folder import load_tokenizer
from turncredit.training.learner.policy import build_policy, save_policy

CHATML = (
    "{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    model, tokenizer = build_policy(["go to shelf 1"], vocab=300, hidden=32, layers=2, heads=1, context=64)
    save_policy(model, tokenizer, tmp_path)
    (tmp_path / "model.safetensors").unlink()  # not needed
    return tmp_path


def test_info_shows_sizes_and_memory(turncredit: Call, folder: Path) -> None:
    said = turncredit("model", "info", folder, "--dtype", "float32", "--concurrency", 16)
    assert said.code == 0, said.err
    # 262 x 32 embedding (tied), 2 layers of 4 x 32 x 32 + 3 x 32 x 96 + 2 x 32, and the last norm of 32
    rows = int(said.out.split("vocabulary")[1].split("(")[0])
    assert f"{rows * 32 + 2 * (4 * 32 * 32 + 3 * 32 * 96 + 64) + 32:,}" in said.out
    assert "2 of 32" in said.out
    assert "64 tokens" in said.out
    assert "prompts are plain text" in said.out
    # 2 layers x (keys + values) x 32 numbers x 4 bytes = 512 bytes a token
    assert "16 episodes of 64 tokens" in said.out
    assert "(0.5 KiB a token)" in said.out
    assert "micro-batches of 4,096 tokens in sequences of at most 64" in said.out


def test_info_shows_the_memory_of_training(turncredit: Call, folder: Path) -> None:
    def sizes(*options: object) -> dict[str, float]:
        said = turncredit("model", "info", folder, "--dtype", "float32", *options)
        assert said.code == 0, said.err
        lines = said.out.partition("training, micro-batches")[2].splitlines()[1:]
        return {name: float(size) for name, size, _ in (line.split() for line in lines if line.strip())}

    whole, adapter = sizes(), sizes("--lora", 4, "--recompute-activations")
    assert set(whole) == {"weights", "gradients", "optimizer", "activations", "logits", "together"}
    assert adapter["activations"] < whole["activations"]
    assert sizes("--tokens", 65_536)["activations"] > 10 * whole["activations"]
    one_sentence(turncredit("model", "info", folder, "--optimizer", "adamz"), "unknown optimizer 'adamz'", "adamw")


def test_info_shows_what_the_chat_template_does(turncredit: Call, folder: Path) -> None:
    (folder / "chat_template.jinja").write_text(CHATML)
    assert "are only appended" in turncredit("model", "info", folder).out
    (folder / "chat_template.jinja").write_text(
        CHATML.replace("message.content", "message.content.split('</think>')[-1]")
    )
    assert "keep_history = true" in turncredit("model", "info", folder).out
    (folder / "chat_template.jinja").write_text("{{ messages | length }}" + CHATML)
    assert "rewrites earlier turns" in turncredit("model", "info", folder).out


def test_info_shows_what_ends_an_answer(turncredit: Call, folder: Path) -> None:
    def ends() -> str:
        said = turncredit("model", "info", folder)
        assert said.code == 0, said.err
        return said.out.partition("an answer ends with")[2].partition("sampling in")[0]

    tokenizer = load_tokenizer(folder)
    (end,) = [tokenizer.eos_token_id]
    assert ends().split() == f"{tokenizer.eos_token} token {end}, of the tokenizer".split()
    (folder / "chat_template.jinja").write_text(CHATML)
    assert "<|im_end|> several tokens, of the chat template" in " ".join(ends().split())
    (folder / "generation_config.json").write_text('{"eos_token_id": [7, 8]}')
    assert "token 8, of the generation configuration" in " ".join(ends().split())
    (folder / "chat_template.jinja").write_text("{% for m in messages %}{{ m.content }}\n\n{% endfor %}")
    assert "writes nothing at the end of an answer" in ends()
    tokenizer.add_special_tokens({"additional_special_tokens": ["<|im_end|>"]})
    tokenizer.chat_template = CHATML
    tokenizer.save_pretrained(folder)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "vocab_size": len(tokenizer)}))
    token = tokenizer.convert_tokens_to_ids("<|im_end|>")
    assert f"<|im_end|> token {token}, of the chat template" in " ".join(ends().split())


def test_mistakes_are_one_sentence(turncredit: Call, folder: Path) -> None:
    one_sentence(turncredit("model", "info", "nowhere"), "expected a Hugging Face folder or an id", "does not exist")
    one_sentence(turncredit("model", "info", folder, "--dtype", "float61"), "float16")
    one_sentence(turncredit("model", "info", folder, "--context", 65), "the context of", "64 tokens")
    one_sentence(turncredit("model", "get", "smolm2", "--output", folder / "new"), "smollm2")
    one_sentence(turncredit("model", "get", "smollm2", "--output", folder), "already exists")
    (folder / "config.json").write_text('{"model_type": "nothing"}')
    one_sentence(turncredit("model", "info", folder), str(folder))
