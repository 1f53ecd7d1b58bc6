"""The openai sampler as a token engine: ids and log-probabilities, new weights, adapters."""

from __future__ import annotations

import asyncio
import shutil
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from toys.openai_client import ask, connect
from toys.openai_server import NAME, ToyServer, error

from turncredit.agents.errors import EngineFailed, SamplerError
from turncredit.agents.trajectory import token_versions
from turncredit.engines.base import AnswerStart
from turncredit.engines.weight_files import MEMORY

pytest.importorskip("torch")
pytest.importorskip("transformers")
pytest.importorskip("httpx")
from safetensors import SafetensorError


def test_a_server_without_token_ids_is_no_token_engine(
    server: ToyServer, opened: ExitStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def completions(body: Any) -> Any:
        return {"choices": [{"text": "look", "finish_reason": "stop", "logprobs": None}]}

    monkeypatch.setattr(server, "_completions", completions)
    sampler = connect(server, opened, tokens=True, tokenizer=server.tokenizer)
    with pytest.raises(EngineFailed, match="returns no token ids and log-probabilities"):
        ask(sampler, prompt=(5, 6))


def test_what_a_token_engine_is_asked(server: ToyServer, opened: ExitStack) -> None:
    sampler = connect(server, opened, tokens=True, tokenizer=server.tokenizer)
    assert sampler.context == 2048  # the server's
    ask(sampler, prompt=(5, 6), stop=("\n",))
    ask(sampler, prompt=(7,) * 2046, max_tokens=10)
    first, second = server.sent("/completions")
    assert first["prompt"] == [5, 6]
    assert (first["stop"], first["max_tokens"], second["max_tokens"]) == (["\n"], 4, 2)
    # the defaults of a model's folder must not change what is sampled from
    assert (first["top_k"], first["min_p"], first["repetition_penalty"]) == (0, 0.0, 1.0)
    ask(sampler, prompt=(5, 6), top_k=20, min_p=0.1, top_p=0.9)
    limited = server.sent("/completions")[-1]
    assert (limited["top_k"], limited["min_p"], limited["top_p"]) == (20, 0.1, 0.9)
    assert len(server.sent("/completions")) > 3  # it tried out whether log-probabilities are those of what was sampled
    with pytest.raises(SamplerError, match="the context must be <= 2048"):
        connect(server, opened, url=sampler.url, tokens=True, tokenizer=server.tokenizer, context=4096)


def test_new_weights_are_read_from_a_folder_once(
    server: ToyServer, opened: ExitStack, tmp_path: Path, model: tuple[Any, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    sampler = connect(server, opened, tokens=True, tokenizer=server.tokenizer, folder=str(tmp_path))
    asyncio.run(sampler.load(model[0], 3))
    assert sampler.version == 3
    assert [path for path, _ in server.requests[-2:]] == ["/collective_rpc", "/reset_prefix_cache"]
    (command,) = server.sent("/collective_rpc")
    assert command["method"] == "load_tensors"
    assert Path(command["args"][0]).parent == tmp_path
    assert not list(tmp_path.iterdir())  # the copy is gone
    server.extended = False
    asyncio.run(sampler.load(tmp_path, 4))
    assert server.sent("/collective_rpc")[-1] == {
        "method": "reload_weights",
        "kwargs": {"weights_path": str(tmp_path)},
    }
    server.requests.clear()
    server.always = error(500, "the folder is empty")
    with pytest.raises(EngineFailed, match=r"could not load the new weights: .* the folder is empty"):
        asyncio.run(sampler.load(model[0], 5))
    assert len(server.requests) == 1  # commands are not repeated
    server.always = None
    monkeypatch.setattr(server, "_collective_rpc", None)
    with pytest.raises(EngineFailed, match="no interface for new weights; start it with `turncredit serve model`"):
        asyncio.run(sampler.load(model[0], 5))
    assert sampler.version == 4
    missing = connect(server, opened, url=sampler.url, tokens=True, tokenizer=server.tokenizer, folder="/missing")
    with pytest.raises(SamplerError, match="new weights cannot be written into /missing: No such file"):
        asyncio.run(missing.load(model[0], 5))


def test_an_adapter_is_loaded_under_a_new_name_and_the_old_one_is_removed(
    server: ToyServer, opened: ExitStack, tmp_path: Path
) -> None:
    sampler = connect(server, opened, tokens=True, tokenizer=server.tokenizer)
    (tmp_path / "adapter_config.json").write_text("{}")
    for version in (1, 2):
        asyncio.run(sampler.load(tmp_path, version))
        ask(sampler, prompt=(5, 6))
        assert server.models == [NAME, server.sent("/completions")[-1]["model"]]
        assert server.models[1].endswith(f"-{version}")
    asyncio.run(sampler.load(server.module, 3))
    ask(sampler, prompt=(5, 6))
    assert server.sent("/completions")[-1]["model"] == NAME
    assert server.models == [NAME]


def test_two_runs_on_one_server_have_adapters_of_their_own(
    server: ToyServer, opened: ExitStack, tmp_path: Path
) -> None:
    (tmp_path / "adapter_config.json").write_text("{}")
    for _ in range(2):
        asyncio.run(connect(server, opened, tokens=True, tokenizer=server.tokenizer).load(tmp_path, 1))
    assert len(set(server.models)) == 3


def test_weights_go_into_memory_only_if_there_is_room_for_them(
    server: ToyServer, opened: ExitStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = shutil.disk_usage
    small = SimpleNamespace(free=2**26 + 2**10)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: small if path == MEMORY else real(path))
    sampler = connect(server, opened, tokens=True, tokenizer=server.tokenizer)
    asyncio.run(sampler.load(server.module, 1))
    (folder,) = server.sent("/collective_rpc")[-1]["args"]
    assert not folder.startswith(str(MEMORY))


def test_weights_that_cannot_be_written_are_one_sentence(
    server: ToyServer, opened: ExitStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    def save_file(*_: Any) -> None:
        raise SafetensorError("I/O error: No space left on device")

    monkeypatch.setattr("safetensors.torch.save_file", save_file)
    sampler = connect(server, opened, tokens=True, tokenizer=server.tokenizer)
    with pytest.raises(SamplerError, match=r"cannot be written into .*No space left"):
        asyncio.run(sampler.load(server.module, 1))


def test_an_answer_goes_on_from_given_tokens(server: ToyServer, opened: ExitStack) -> None:
    sampler = connect(server, opened, tokens=True, tokenizer=server.tokenizer)
    whole = ask(sampler, prompt=(5, 6, 7), temperature=0.0, max_tokens=6)
    for given in range(1, len(whole.tokens)):
        start = AnswerStart(whole.tokens[:given], whole.logprobs[:given], (9,) * given)
        answer = ask(sampler, prompt=(5, 6, 7), temperature=0.0, max_tokens=6, start=start)
        assert (answer.tokens, answer.text, answer.finish) == (whole.tokens, whole.text, whole.finish)
        assert answer.logprobs == pytest.approx(whole.logprobs, abs=1e-4)
        assert token_versions(answer.version, answer.switches, len(answer.tokens)) == (
            *(9,) * given,
            *(sampler.version,) * (len(whole.tokens) - given),
        )
        sent = server.sent("/completions")[-1]
        assert sent["prompt"] == [5, 6, 7, *whole.tokens[:given]]
        assert sent["max_tokens"] == 6 - given


def test_a_stop_string_across_the_given_tokens_ends_the_answer(server: ToyServer, opened: ExitStack) -> None:
    sampler = connect(server, opened, tokens=True, tokenizer=server.tokenizer)
    whole = ask(sampler, prompt=(5, 6, 7), temperature=0.0, max_tokens=6)
    given = 2
    stop = sampler.tokenizer.decode(whole.tokens[given - 1 : given + 1])
    start = AnswerStart(whole.tokens[:given], whole.logprobs[:given], (9,) * given)
    answer = ask(sampler, prompt=(5, 6, 7), temperature=0.0, max_tokens=6, start=start, stop=(stop,))
    assert (answer.tokens, answer.finish) == (whole.tokens[: given + 1], "stop")
