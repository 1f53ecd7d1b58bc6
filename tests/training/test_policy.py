"""The small default policy: a tokenizer that loses nothing, a model that is reproducible, folders that are checked."""

from __future__ import annotations

import math
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from turncredit.agents.models.model_folder import load_model, load_tokenizer  # noqa: E402
from turncredit.training.errors import ConfigError, VocabularyMismatch  # noqa: E402
from turncredit.training.learner.policy import (  # noqa: E402
    EOS,
    PAD,
    PolicyError,
    build_policy,
    build_tokenizer,
    device_of,
    require_vocabulary,
    save_policy,
    vocabulary_fingerprint,
)

TEXTS = [
    "You arrive at cabinet 1. On the cabinet 1, you see a mug 12, and a soapbar 2.\n> ",
    "take mug 12 from cabinet 1",
    "You pick up the mug 12 from the cabinet 1.\n> ",
    "go to sinkbasin 1",
    "You clean the soapbar 2 using the sinkbasin 1.",
] * 3


@pytest.fixture(scope="module")
def tokenizer():
    return build_tokenizer(TEXTS, vocab=500)


@pytest.fixture(scope="module")
def policy():
    return build_policy(TEXTS, vocab=400, hidden=32, layers=2, heads=1, context=64, seed=1)


@settings(max_examples=150, deadline=None)
@given(text=st.text(st.characters(exclude_categories=["Cs"])))
def test_any_text_round_trips(tokenizer, text: str):
    assert tokenizer.decode(tokenizer.encode(text)) == text


@pytest.mark.parametrize("text", [EOS, f"a{PAD}b", f"> {EOS}\n", "\x00\x01\xff", "日本 é\u200b", " \t\n  x  "])
def test_markers_in_a_text_are_text(tokenizer, text: str):
    ids = tokenizer.encode(text)
    assert tokenizer.eos_token_id not in ids
    assert tokenizer.pad_token_id not in ids
    assert tokenizer.decode(ids) == text


def test_words_are_single_tokens_and_digits_are_apart(tokenizer):
    pieces = [tokenizer.decode([i]) for i in tokenizer.encode("You see a mug 12, and a cabinet 1.")]
    assert pieces == ["You", " see", " a", " mug", " 1", "2", ",", " and", " a", " cabinet", " 1", "."]


def test_the_vocabulary_keeps_its_limit():
    assert len(build_tokenizer(TEXTS, vocab=300)) == 300
    small = build_tokenizer(TEXTS, vocab=258)
    assert len(small) == 258
    assert small.decode(small.encode("mug é")) == "mug é"
    assert len(build_tokenizer(["ab ab"], vocab=5000)) < 300


@pytest.mark.parametrize(
    ("how", "word"),
    [
        ({"vocab": 257}, "258"),
        ({"hidden": 30, "heads": 4}, "hidden=30"),
        ({"hidden": 12, "heads": 4}, "hidden=12"),
        ({"layers": 0}, "layers=0"),
        ({"context": 1}, "context"),
    ],
)
def test_sizes_that_do_not_fit(how: dict[str, int], word: str):
    with pytest.raises(PolicyError, match=word):
        build_policy(TEXTS, **how)


@pytest.mark.parametrize("texts", [[], ["", ""]])
def test_no_text_gives_no_tokenizer(texts: list[str]):
    with pytest.raises(PolicyError, match="text"):
        build_tokenizer(texts)


def test_the_seed_decides_the_weights_and_nothing_else_does(policy):
    model, tokenizer = policy
    torch.manual_seed(99)
    before = torch.get_rng_state()
    again, same = build_policy(TEXTS, vocab=400, hidden=32, layers=2, heads=1, context=64, seed=1)
    assert torch.equal(torch.get_rng_state(), before)
    other, _ = build_policy(TEXTS, vocab=400, hidden=32, layers=2, heads=1, context=64, seed=2)
    assert vocabulary_fingerprint(same) == vocabulary_fingerprint(tokenizer)
    for name, weight in model.state_dict().items():
        assert torch.equal(weight, again.state_dict()[name])
    assert not torch.equal(model.lm_head.weight, other.lm_head.weight)


@pytest.mark.waits
def test_the_tokenizer_does_not_depend_on_the_process():
    code = (
        f"from turncredit.training.learner.policy import build_tokenizer, vocabulary_fingerprint as v\n"
        f"print(v(build_tokenizer({TEXTS!r}, vocab=500)))"
    )
    seen = set()
    for seed in ("1", "2"):
        run = subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        )
        seen.add(run.stdout.strip().splitlines()[-1])
    assert seen == {vocabulary_fingerprint(build_tokenizer(TEXTS, vocab=500))}


def test_a_fresh_model_knows_nothing_and_is_as_large_as_said(policy):
    model, tokenizer = policy
    ids = torch.tensor([tokenizer.encode(TEXTS[0])])
    with torch.no_grad():
        loss = float(model(input_ids=ids, labels=ids).loss)
    assert -0.5 < loss - math.log(len(tokenizer)) < 4.0  # a wide embedding makes its guesses bold
    assert model.config.eos_token_id == tokenizer.eos_token_id == model.generation_config.eos_token_id
    assert model.config.max_position_embeddings == tokenizer.model_max_length == 64
    assert model.lm_head.weight.data_ptr() == model.model.embed_tokens.weight.data_ptr()


def test_saved_and_loaded_are_the_same(policy, tmp_path: Path):
    model, tokenizer = policy
    save_policy(model, tokenizer, tmp_path / "new" / "policy")
    folder = str(tmp_path / "new" / "policy")
    back, words = load_model(folder), load_tokenizer(folder)
    assert not back.training
    assert vocabulary_fingerprint(words) == vocabulary_fingerprint(tokenizer)
    assert words.encode(EOS) == tokenizer.encode(EOS)
    for name, weight in model.state_dict().items():
        assert torch.equal(weight, back.state_dict()[name])


def test_another_vocabulary_is_refused(tokenizer):
    fingerprint = vocabulary_fingerprint(tokenizer)
    require_vocabulary(build_tokenizer(TEXTS, vocab=500), fingerprint, "here")
    with pytest.raises(VocabularyMismatch, match=rf"^the checkpoint has another vocabulary.*{fingerprint}"):
        require_vocabulary(build_tokenizer(TEXTS, vocab=300), fingerprint, "the checkpoint")
    # As many entries, other words.
    other = build_tokenizer([text.replace("mug", "cup") for text in TEXTS], vocab=300)
    assert vocabulary_fingerprint(other) != vocabulary_fingerprint(build_tokenizer(TEXTS, vocab=300))


@pytest.mark.parametrize("cuda", [False, True])
def test_a_device_is_one_that_this_machine_has(monkeypatch: pytest.MonkeyPatch, cuda: bool):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: cuda)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2 if cuda else 0)
    assert device_of("cpu") == "cpu"
    assert device_of("auto") == ("cuda" if cuda else "cpu")
    assert device_of("cuda:1", elsewhere=True) == ("cuda:1" if cuda else "cpu")
    with pytest.raises(ConfigError, match=r"unknown policy.device 'tpu'"):
        device_of("tpu", elsewhere=True)
    if not cuda:
        with pytest.raises(ConfigError, match="no CUDA device is available"):
            device_of("cuda")
    else:
        with pytest.raises(ConfigError, match="there is no device cuda:2: this machine has 2 CUDA devices"):
            device_of("cuda:2", elsewhere=True)
