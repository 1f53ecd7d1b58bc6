"""vLLM as a server, started by `turncredit serve model`: the token engine, and new weights over HTTP."""

from __future__ import annotations

import asyncio
import copy
import os
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from test_vllm_sampler import CONTEXT, ask, gap, make_model, request, scale
from toys.ports import reserved_port

from turncredit.agents.errors import ContextOverflow, EngineFailed, SamplerError
from turncredit.cli.serving.model import flags
from turncredit.engines.base import SAMPLERS, SamplerSettings
from turncredit.engines.weight_pieces import WeightStream

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")
pytest.importorskip("httpx")

from turncredit.training.learner.policy import save_policy  # noqa: E402

KEY = "sk-this-is-secret-4711"
START = 600.0
"""Seconds after which a server that does not answer has failed."""


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Any, Any]]:
    """A sampler of a server with a tied model, and the model."""
    model, tokenizer = make_model(tied=True)
    tokenizer.chat_template = "{% for message in messages %}{{ message.content }}{{ eos_token }}{% endfor %}"
    folder = tmp_path_factory.mktemp("served")
    save_policy(model, tokenizer, folder)
    with reserved_port() as port:
        yield from _sampler_of_a_server(folder, port, tokenizer, model)


def _sampler_of_a_server(folder: Path, port: int, tokenizer: Any, model: Any) -> Iterator[tuple[Any, Any]]:
    command = [sys.executable, "-c", "from turncredit.cli.main import main; main()", "serve", "model", str(folder)]
    command += ["--port", str(port), "--dtype", "float32", "--memory", "0.125", "--batch-size", "8"]
    command += ["enable_lora=true", "max_lora_rank=8", "transfer=gloo"]
    log = folder / "log"
    with log.open("wb") as file:
        environment = {**os.environ, "VLLM_API_KEY": KEY}
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=file, stderr=file, env=environment)
    try:
        _wait(f"http://127.0.0.1:{port}/health", process, log)
        settings = SamplerSettings(
            model=str(folder),
            url=f"http://127.0.0.1:{port}/v1",
            tokenizer=tokenizer,
            options={"tokens": True, "adapters": True, "transfer": "gloo"},
        )
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("OPENAI_API_KEY", KEY)
            sampler = SAMPLERS.get("openai")(settings)
            yield sampler, model
            sampler.close()
    finally:
        process.terminate()
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()


def _wait(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    for _ in range(int(START)):
        try:
            urllib.request.urlopen(url, timeout=5).close()
            return
        except (urllib.error.URLError, OSError):
            assert process.poll() is None, log.read_text(encoding="utf-8")[-2000:]
            time.sleep(1.0)
    pytest.fail(f"the server did not start: {log.read_text(encoding='utf-8')[-2000:]}")


@pytest.mark.vllm
def test_a_server_is_a_token_engine_like_any(served: tuple[Any, Any]) -> None:
    sampler, model = served
    assert sampler.context == CONTEXT
    assert gap(sampler, model) < 1e-4
    (hot,) = ask(sampler, request(temperature=0.7))  # the sampler checks that log-probabilities follow
    assert ask(sampler, request(temperature=0.7))[0].tokens == hot.tokens
    assert ask(sampler, request(temperature=0.7, turn=1))[0].tokens != hot.tokens


@pytest.mark.vllm
def test_each_version_of_an_adapter_takes_effect_over_http(served: tuple[Any, Any]) -> None:
    peft = pytest.importorskip("peft")
    sampler, model = served
    config = peft.LoraConfig(r=4, target_modules=["q_proj", "v_proj"])
    adapted = peft.get_peft_model(copy.deepcopy(model), config).eval()
    for version in (20, 21):
        with torch.no_grad():
            for name, weight in adapted.named_parameters():
                if "lora_B" in name:
                    weight.normal_(0.0, 0.5)
        asyncio.run(sampler.load(adapted, version))
        assert gap(sampler, adapted) < 1e-3
        assert gap(sampler, model) > 0.05
    asyncio.run(sampler.load(model, 22))
    assert gap(sampler, model) < 1e-4


@pytest.mark.vllm
def test_a_server_is_a_black_box_as_well(served: tuple[Any, Any]) -> None:
    engine, _ = served
    box = SAMPLERS.get("openai")(SamplerSettings(url=engine.url))  # its only model
    (found,) = ask(box, request(messages=({"role": "user", "content": "open the fridge 1"},)))
    assert found.text
    assert (found.finish, found.extras["response_tokens"]) == ("length", 12)
    with pytest.raises(ContextOverflow):
        ask(box, request(messages=({"role": "user", "content": "open the fridge 1 " * CONTEXT},)))
    box.close()


@pytest.mark.vllm
def test_a_wrong_key_and_an_unknown_model_are_one_sentence(
    served: tuple[Any, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    sampler, _ = served
    settings = SamplerSettings(model="tinny", url=sampler.url, tokenizer=sampler.tokenizer, options={"tokens": True})
    with pytest.raises(EngineFailed, match="has no model 'tinny'"):
        SAMPLERS.get("openai")(settings)
    monkeypatch.setenv("OPENAI_API_KEY", "wrong")
    with pytest.raises(EngineFailed, match=r"refuses the key of \$OPENAI_API_KEY"):
        SAMPLERS.get("openai")(settings)


@pytest.mark.vllm
def test_new_weights_over_http_leave_nothing_old(served: tuple[Any, Any], tmp_path: Path) -> None:
    sampler, model = served
    new, tokenizer = make_model(tied=True)
    scale(new)
    save_policy(new, tokenizer, tmp_path)
    for version, weights in enumerate((tmp_path, model, new, model.state_dict()), start=1):
        asyncio.run(sampler.load(weights, version))
        assert sampler.version == version
        assert gap(sampler, new if version % 2 else model) < 1e-4
    assert gap(sampler, new) > 0.1
    with pytest.raises(EngineFailed, match=r"could not load the new weights: .* have no tensors"):
        asyncio.run(sampler.load(tmp_path / "missing", 9))
    assert gap(sampler, model) < 1e-4


@pytest.mark.vllm
def test_new_weights_are_sent_over_http_in_four_phases(
    served: tuple[Any, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    sampler, model = served
    command, phases = sampler._client.command, []

    async def note(url: str, body: Any) -> Any:
        phases.append(body.get("method") or url.rpartition("/")[2])
        return await command(url, body)

    monkeypatch.setattr(sampler._client, "command", note)
    asyncio.run(sampler.load(model, 30))
    rest = ["start_weight_update", "update_weights", "finish_weight_update", "reset_prefix_cache"]
    assert [phase for phase in phases if phase in rest] == rest
    new, _ = make_model(tied=True, seed=3)
    phases.clear()
    asyncio.run(sampler.load(new, 31))
    assert phases == ["check_tensors", *rest]  # they have met
    assert gap(sampler, new) < 1e-4
    with pytest.raises(EngineFailed, match=r"model\.norm\.weight has the shape \[3\] instead of \[64\]"):
        asyncio.run(sampler.load({**model.state_dict(), "model.norm.weight": torch.ones(3)}, 32))
    assert gap(sampler, new) < 1e-4  # nothing has changed
    following, names = WeightStream._next, []

    def fail(source: Any, piece: Any) -> Any:
        names.append(piece.name)
        if len(names) == 7:
            raise RuntimeError("the cable is cut")
        return following(source, piece)

    monkeypatch.setattr(WeightStream, "_next", staticmethod(fail))
    with pytest.raises(EngineFailed, match=r"could not load the new weights: .*the cable is cut"):
        asyncio.run(sampler.load(model, 32))
    monkeypatch.setattr(WeightStream, "_next", staticmethod(following))
    with pytest.raises(SamplerError, match="a load of new weights failed"):
        ask(sampler, request())
    asyncio.run(sampler.load(model, 33))
    assert gap(sampler, model) < 1e-4


def test_flags_are_those_of_the_command_line() -> None:
    assert flags({"a_b": True, "c": False, "d": None, "e": 2, "f": "x y", "g": {"h": 1}}) == [
        "--a-b",
        "--no-c",
        "--e",
        "2",
        "--f",
        "x y",
        "--g",
        '{"h": 1}',
    ]
