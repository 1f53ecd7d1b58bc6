"""Models by name: folders and ids of the Hub, the local cache, and one sentence for all that can be wrong."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from toys.hub import COMMITS, Hub, serving

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from turncredit.agents.errors import AgentError, ModelError  # noqa: E402
from turncredit.agents.models.hub import needed_files  # noqa: E402
from turncredit.agents.models.model_folder import (  # noqa: E402
    empty_model,
    find_model,
    load_model,
    load_tokenizer,
    model_config,
)
from turncredit.agents.models.stored_layers import panics_as_errors  # noqa: E402
from turncredit.agents.models.tokenization import TokenCodec  # noqa: E402
from turncredit.training.learner.policy import build_policy, save_policy  # noqa: E402

pytestmark = pytest.mark.waits

TEXTS = ["You see a mug 12.\n> ", "take mug 12", "go to sinkbasin 1"] * 3
FIND = """
import sys
from turncredit.agents.errors import ModelError
from turncredit.agents.models.model_folder import find_model
for name in sys.argv[1:]:
    try:
        found = find_model(name)
        print("found", found.path, found.revision, sorted(path.name for path in found.path.iterdir()), sep="|")
    except ModelError as error:
        print("refused", error, sep="|")
"""


@pytest.fixture(scope="module")
def policy():
    return build_policy(TEXTS, vocab=300, hidden=32, layers=2, heads=1, context=64, seed=1)


@pytest.fixture(scope="module")
def folder(policy, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("model")
    save_policy(*policy, path)
    (path / "README.md").write_text("read me")
    (path / "onnx").mkdir()
    (path / "onnx" / "model.onnx").write_text("not for us")
    return path


def look_for(names: list[str], home: Path, **environment: str) -> list[list[str]]:
    """What `find_model` says in a fresh process, whose client of the Hub reads these environment variables."""
    values = {"HF_HOME": str(home), "HF_HUB_DISABLE_PROGRESS_BARS": "0", "NO_PROXY": "127.0.0.1", **environment}
    kept = {key: value for key, value in os.environ.items() if not key.lower().startswith(("hf_", "http"))}
    command = [sys.executable, "-P", "-c", FIND, *names]
    run = subprocess.run(command, env={**kept, **values}, capture_output=True, text=True, check=True, timeout=60)
    look_for.shown = run.stderr  # type: ignore[attr-defined]
    return [line.split("|") for line in run.stdout.splitlines()]


def test_a_folder_is_found_by_its_path(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(folder.parent))
    for name in (str(folder), f"~/{folder.name}"):
        found = find_model(name)
        assert (found.path, found.name, found.revision) == (folder, name, "")


@pytest.mark.parametrize("name", ["nowhere", "a/b/c", "", "../up", "/nowhere/at all", "org/name@"])
def test_what_is_neither_a_folder_nor_an_id_is_refused(name: str) -> None:
    with pytest.raises(ModelError, match=r"expected a Hugging Face folder or an id such as \S+/\S+, but"):
        find_model(name)


def test_a_model_of_the_hub_is_downloaded_once(folder: Path, tmp_path: Path) -> None:
    with serving(Hub({"org/tiny": folder})) as hub:
        ((what, path, revision, files),) = look_for(["org/tiny"], tmp_path, HF_ENDPOINT=hub.url)
        assert (what, revision) == ("found", COMMITS["main"])
        assert "model.safetensors" in files
        assert "README" not in files
        assert "onnx" not in files
        assert "Fetching" in look_for.shown  # type: ignore[attr-defined]
        asked = len(hub.asked)
        again = look_for(["org/tiny", "org/tiny@main", f"org/tiny@{COMMITS['main']}"], tmp_path, HF_ENDPOINT=hub.url)
        assert [line[1] for line in again] == [path] * 3
        assert len(hub.asked) == asked, "a model in the cache needs no network"
        ((_, _, revision, _),) = look_for(["org/tiny@v1"], tmp_path, HF_ENDPOINT=hub.url)
        assert revision == COMMITS["v1"]
    model, tokenizer = load_model(path), load_tokenizer(path)
    assert tokenizer.decode(tokenizer.encode("mug 12")) == "mug 12"
    assert next(model.parameters()).dtype == torch.float32


def test_an_incomplete_snapshot_is_completed(folder: Path, tmp_path: Path) -> None:
    with serving(Hub({"org/tiny": folder})) as hub:
        ((_, path, _, files),) = look_for(["org/tiny"], tmp_path, HF_ENDPOINT=hub.url)
        (Path(path) / "model.safetensors").unlink()
        (offline,) = look_for(["org/tiny"], tmp_path, HF_ENDPOINT=hub.url, HF_HUB_OFFLINE="1")
        assert offline[0] == "refused"
        assert look_for(["org/tiny"], tmp_path, HF_ENDPOINT=hub.url) == [["found", path, COMMITS["main"], files]]


@pytest.mark.parametrize(
    ("name", "environment", "sentence"),
    [
        ("org/unknown", {}, "has no model org/unknown; if the model is private, log in with `hf auth login`"),
        ("org/tiny@v9", {}, "org/tiny has no revision 'v9'; expected a branch, a tag, or a commit hash"),
        ("org/gated", {}, "org/gated is gated: accept its terms at http://127.0.0.1:"),
        ("org/huge", {}, "GB left; free some space, or set HF_HOME to a folder on another disk"),
        ("org/broken", {}, "could not deliver org/broken"),
        ("org/empty", {}, "org/empty has no weights that transformers reads"),
        ("org/tiny", {"HF_HUB_OFFLINE": "1"}, "is not in the local cache, and HF_HUB_OFFLINE forbids downloads"),
        ("org/tiny", {"HF_ENDPOINT": "http://127.0.0.1:9"}, "http://127.0.0.1:9 could not be reached ("),
    ],
)
def test_every_reason_is_one_sentence(
    folder: Path, tmp_path: Path, name: str, environment: dict[str, str], sentence: str
) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty" / "README.md").write_text("no model")
    models = {f"org/{name}": folder for name in ("tiny", "gated", "huge")} | {"org/empty": tmp_path / "empty"}
    with serving(Hub(models, gated="org/gated", huge="org/huge", broken="org/broken")) as hub:
        ((what, why),) = look_for([name], tmp_path / "home", **{"HF_ENDPOINT": hub.url, **environment})
    assert what == "refused"
    assert sentence in why
    assert not list((tmp_path / "home").rglob("*.safetensors"))


def test_only_one_format_of_weights_is_needed() -> None:
    shards = [f"model-0000{number}-of-00002.safetensors" for number in (1, 2)]
    names = [*shards, "model.safetensors.index.json", "config.json", "consolidated.safetensors", "modeling_x.py"]
    assert needed_files([*names, "pytorch_model.bin"]) == ["config.json", *shards, "model.safetensors.index.json"]
    assert needed_files(["config.json", "pytorch_model.bin", "tokenizer.model"])[1] == "pytorch_model.bin"
    assert needed_files(["config.json", "adapter_model.safetensors"]) == []


def test_weights_lie_in_memory_of_their_own(policy, folder: Path) -> None:
    model = load_model(folder)
    assert all(weight.data_ptr() % 16 == 0 for weight in model.parameters())
    assert model.lm_head.weight.data_ptr() == model.model.embed_tokens.weight.data_ptr()
    assert not model.training
    for name, weight in policy[0].state_dict().items():
        assert torch.equal(weight, model.state_dict()[name])
    mapped = [line for line in Path("/proc/self/maps").read_text().splitlines() if str(folder) in line]
    assert mapped == []


def test_dtype_and_attention_are_as_asked(folder: Path) -> None:
    model = load_model(folder, dtype="bfloat16", attention="eager")
    assert {weight.dtype for weight in model.parameters()} == {torch.bfloat16}
    assert model.config._attn_implementation == "eager"
    assert load_model(folder, dtype=torch.float16).dtype == torch.float16
    with pytest.raises(ModelError, match=r"unknown dtype 'bfloat61'.*bfloat16"):
        load_model(folder, dtype="bfloat61")
    with pytest.raises(ModelError, match=r"could not be read as a causal language model: .*flush"):
        load_model(folder, attention="flush")


def test_a_folder_without_padding_pads_with_its_end_token(policy, tmp_path: Path) -> None:
    save_policy(*policy, tmp_path)
    for name in ("tokenizer_config.json", "special_tokens_map.json"):
        path = tmp_path / name
        if path.exists():
            path.write_text(json.dumps({k: v for k, v in json.loads(path.read_text()).items() if k != "pad_token"}))
    tokenizer = load_tokenizer(tmp_path)
    assert tokenizer.pad_token_id == tokenizer.eos_token_id


def test_a_tokenizer_that_does_not_fit_is_refused(policy, tmp_path: Path) -> None:
    save_policy(*policy, tmp_path)
    table = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps({**table, "vocab_size": 280}))
    with pytest.raises(ModelError, match="the tokenizer has 281 entries, but the model only 280"):
        load_tokenizer(tmp_path)
    (tmp_path / "config.json").write_text(json.dumps(table))
    path = tmp_path / "tokenizer_config.json"
    path.write_text(json.dumps({k: v for k, v in json.loads(path.read_text()).items() if k != "eos_token"}))
    with pytest.raises(ModelError, match="no end-of-sequence token"):
        load_tokenizer(tmp_path)


def test_the_text_part_of_a_configuration_counts(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"vocab_size": 1, "text_config": {"vocab_size": 5, "hidden_size": 2}}')
    assert model_config(tmp_path)["vocab_size"] == 5


@pytest.mark.parametrize("load", [load_model, load_tokenizer])
def test_what_is_no_folder_is_refused(load, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="does not exist"):
        load("some-org/some-model")
    (tmp_path / "file").write_text("x")
    with pytest.raises(ModelError, match="is a file"):
        load(tmp_path / "file")
    with pytest.raises(ModelError, match=r"config\.json"):
        load(tmp_path)


@pytest.mark.parametrize("damage", ["cut", "empty", "gone", "noise", "config", "no tokenizer", "part"])
def test_torn_folders_are_refused_in_one_sentence(policy, tmp_path: Path, damage: str) -> None:
    save_policy(*policy, tmp_path)
    weights = tmp_path / "model.safetensors"
    if damage == "cut":
        weights.write_bytes(weights.read_bytes()[:-100])
    elif damage == "empty":
        weights.write_bytes(b"")
    elif damage == "gone":
        weights.unlink()
    elif damage == "noise":
        weights.write_bytes(bytes(range(256)) * 40)
    elif damage == "config":
        (tmp_path / "config.json").write_text("{")
    elif damage == "no tokenizer":
        for path in tmp_path.glob("*token*"):
            path.unlink()
    else:
        from safetensors.torch import load_file, save_file

        tensors = load_file(weights)
        tensors.pop("model.layers.1.mlp.up_proj.weight")
        save_file(tensors, weights, metadata={"format": "pt"})
    with pytest.raises(ModelError) as caught:
        load_model(tmp_path), load_tokenizer(tmp_path)
    assert str(tmp_path) in str(caught.value)
    assert "\n" not in str(caught.value)
    assert isinstance(caught.value, AgentError)


@pytest.mark.parametrize("key", ["num_hidden_layers"])
def test_layers_that_the_weights_lack_are_refused_before_any_is_built(
    policy, tmp_path: Path, key: str, monkeypatch
) -> None:
    save_policy(*policy, tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    assert config[key] == 2
    (tmp_path / "config.json").write_text(json.dumps({**config, key: 100_000, "layer_types": None}))
    built: list[int] = []
    monkeypatch.setattr(torch.nn.Linear, "__init__", lambda *_, **__: built.append(1))
    for load in (load_model, empty_model):
        with pytest.raises(ModelError, match="num_hidden_layers = 100000, but the weights have 2 layers"):
            load(tmp_path)
    (tmp_path / "model.safetensors").unlink()
    with pytest.raises(ModelError, match="num_hidden_layers = 100000, and models have at most 2048"):
        empty_model(tmp_path)
    assert not built


def test_a_pipe_in_a_model_folder_is_refused(policy, tmp_path: Path) -> None:
    save_policy(*policy, tmp_path)
    (tmp_path / "model.safetensors").unlink()
    os.mkfifo(tmp_path / "model.safetensors")
    with pytest.raises(ModelError, match=r"model\.safetensors is a pipe"):
        load_model(tmp_path)


class PanicException(BaseException):
    """As pyo3 makes one for each library in Rust."""


def test_a_panic_of_a_library_in_rust_is_an_error(policy, tmp_path: Path, monkeypatch) -> None:
    import transformers

    def panic(*_: object, **__: object) -> None:
        raise PanicException("called `Result::unwrap()` on an `Err` value:\nRuntimeError(StackOverflow)")

    save_policy(*policy, tmp_path)
    codec = TokenCodec(policy[1])
    monkeypatch.setattr(codec, "_encode", panics_as_errors()(panic))
    with pytest.raises(AgentError, match="unwrap"):
        codec.encode("a")
    monkeypatch.setattr(transformers.AutoTokenizer, "from_pretrained", panic)
    with pytest.raises(ModelError, match="holds no readable tokenizer: RustPanic: called"):
        load_tokenizer(tmp_path)
