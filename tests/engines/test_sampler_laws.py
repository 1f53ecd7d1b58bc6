"""The laws of samplers, over all of them.

expert, random       answers without ids
transformers         a model in this process
openai-chat          a black box behind a real server
openai-tokens        the same server as a token engine
cluster              two transformers engines on a Ray cluster
vllm                 vLLM in this process (marker `vllm`, in its own environment)
"""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from toys.openai_server import NAME, ToyServer

from turncredit.agents.errors import ContextOverflow, RequestFailed, SamplerError
from turncredit.agents.models.tokenization import AnswerEnd, codec_of
from turncredit.agents.prompts.prompt import View
from turncredit.agents.trajectory import token_versions
from turncredit.engines.base import SAMPLERS, AnswerStart, Completion, Request, Sampler, SamplerSettings
from turncredit.engines.cluster.connection import ClusterSettings
from turncredit.engines.cluster.sampler import ClusterSampler

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")
pytest.importorskip("httpx")

from turncredit.training.learner.policy import build_policy, save_policy  # noqa: E402

CONTEXT = 96
ACTIONS = ("go east", "go west", "look", "take key")
TEMPLATE = "{% for message in messages %}{{ message.role }}: {{ message.content }}\n{% endfor %}assistant:"
BF16_BOUND = 0.05
"""Nats; two passes in bfloat16 that batch or cache differently round differently."""


@dataclass
class World:
    """A tiny model, a server that samples from its copy, and a folder of it."""

    module: Any
    tokenizer: Any
    server: ToyServer
    url: str
    folder: Path
    dtype: str
    opened: list[Sampler] = field(default_factory=list)
    slow: dict[str, Sampler] = field(default_factory=dict)

    def open(self, name: str, **changes: Any) -> Sampler:
        """Return a sampler of the kind, made as commands and runs make it; the slow engine is started once."""
        engine, _, kind = name.partition("-")
        if engine in self.slow:
            return self.slow[engine]
        settings = SamplerSettings(context=CONTEXT, dtype=self.dtype, tokenizer=self.tokenizer)
        if engine == "transformers":
            settings = replace(settings, module=self.module)
        elif engine == "openai":
            context = CONTEXT if kind == "tokens" else None
            settings = replace(
                settings, model=NAME, url=self.url, context=context, options={"tokens": kind == "tokens"}
            )
        elif engine in ("vllm", "cluster"):
            settings = replace(settings, model=str(self.folder), kv_cache_gib=0.125 if engine == "vllm" else 0.0)
        else:
            settings = replace(settings, tokenizer=None)
        settings = replace(settings, **changes)
        if engine == "cluster":
            engines = 2 if self.dtype == "float32" else 1  # both worlds have room on a cluster of two CPUs
            sampler: Sampler = ClusterSampler("transformers", settings, ClusterSettings(engines=engines, cpus=0.5))
        else:
            sampler = SAMPLERS.get(engine)(settings)
        self.opened.append(sampler)
        if engine in ("vllm", "cluster"):
            self.slow[engine] = sampler
        return sampler

    def request(self, text: str = "You see a door.", **changes: Any) -> Request:
        """Return a request whose prompt has the same text as ids and as messages."""
        view = View(text, text, ACTIONS, changes.get("turn", 0))
        ids = codec_of(self.tokenizer).encode(f"user: {text}\nassistant:")
        request = Request("task#0@0", 0, ids, ({"role": "user", "content": text},), 5, view, max_tokens=8)
        return replace(request, **changes)

    def teacher_forced(self, request: Request, tokens: tuple[int, ...]) -> list[float]:
        """Return the log-probabilities of the tokens in one pass over the whole sequence."""
        with torch.inference_mode():
            ids = torch.tensor([[*request.prompt, *tokens]])
            logits = self.module(input_ids=ids, use_cache=False).logits[0].float()
        table = torch.log_softmax(logits / (request.temperature or 1.0), dim=-1)
        return [float(table[len(request.prompt) + i - 1, token]) for i, token in enumerate(tokens)]


def make_world(folder: Path, dtype: str) -> Iterator[World]:
    texts = ["You see a door. It is open.", "go east", "go west", "take key", "user: look", "assistant: ."] * 3
    module, tokenizer = build_policy(texts, vocab=320, hidden=32, layers=2, heads=1, context=CONTEXT, seed=1)
    tokenizer.chat_template = TEMPLATE
    save_policy(module, tokenizer, folder)
    module = module.to(getattr(torch, dtype))
    server = ToyServer(copy.deepcopy(module), tokenizer, context=CONTEXT)
    with server.serve() as url:
        world = World(module, tokenizer, server, url, folder, dtype)
        yield world
        for sampler in world.opened:
            sampler.close()


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    yield from make_world(tmp_path_factory.mktemp("model"), "float32")


@pytest.fixture(scope="module")
def bf16(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    yield from make_world(tmp_path_factory.mktemp("bf16"), "bfloat16")


VLLM = pytest.param("vllm", marks=pytest.mark.vllm)
NO_RAY = pytest.mark.skipif(find_spec("ray") is None, reason="needs the extra `ray`")
CLUSTER = pytest.param("cluster", marks=[NO_RAY, pytest.mark.slow])
TOKEN_SAMPLERS = ["transformers", "openai-tokens", CLUSTER, VLLM]
MODELS = ["transformers", "openai-chat", "openai-tokens", CLUSTER, VLLM]
ALL = ["random", *MODELS]
over = pytest.mark.parametrize


def ask(sampler: Sampler, *requests: Request) -> list[Completion]:
    """Return the answers to requests that are in flight together; an expert gets a plan."""
    for request in requests:
        sampler.attach(request.episode, lambda: ["take key", "go east"])

    async def together() -> list[Completion]:
        return await asyncio.gather(*(sampler.sample(request) for request in requests))

    return asyncio.run(together())


def same(first: Completion, second: Completion) -> None:
    assert (first.tokens, first.text, first.finish) == (second.tokens, second.text, second.finish)
    assert first.logprobs == pytest.approx(second.logprobs, abs=1e-4)


@over("name", ["expert", *ALL])
def test_the_same_request_has_the_same_answer_in_any_rollout_and_batch(world: World, name: str) -> None:
    sampler, asked = world.open(name), world.request()
    (first,) = ask(sampler, asked)
    sampler.forget(asked.episode)
    (again,) = ask(sampler, asked)  # on another event loop
    same(first, again)
    sampler.forget(asked.episode)
    others = [world.request(f"Look {n}.", episode=f"other#{n}@0", seed=n) for n in range(5)]
    same(first, ask(sampler, *others, asked)[-1])
    same(first, ask(world.open(name), asked)[0])


@over("name", ALL)
def test_seed_and_turn_change_the_answer(world: World, name: str) -> None:
    sampler = world.open(name)
    asked = [world.request(seed=seed, episode=f"task#{seed}@0") for seed in range(4)]
    asked += [world.request(turn=turn, episode=f"task#9{turn}@0") for turn in range(4)]
    answers = ask(sampler, *asked)
    assert len({answer.text for answer in answers[:4]}) > 1
    assert len({answer.text for answer in answers[4:]}) > 1


@over("name", MODELS)
def test_at_temperature_zero_the_seed_changes_nothing(world: World, name: str) -> None:
    sampler = world.open(name)
    asked = [world.request(seed=seed, episode=f"task#{seed}@0", temperature=0.0) for seed in range(3)]
    first, *others = ask(sampler, *asked)
    for other in others:
        same(first, other)


@over("name", TOKEN_SAMPLERS)
@over("temperature", [1.0, 0.6, 0.0])
def test_log_probabilities_are_those_of_a_teacher_forced_pass(world: World, name: str, temperature: float) -> None:
    sampler = world.open(name)
    asked = [
        world.request("door " * n, seed=n, episode=f"task#{n}@0", temperature=temperature, max_tokens=20)
        for n in range(1, 5)
    ]
    for request, answer in zip(asked, ask(sampler, *asked), strict=True):
        assert len(answer.tokens) == len(answer.logprobs) > 0
        assert answer.logprobs == pytest.approx(world.teacher_forced(request, answer.tokens), abs=1e-4)


@over("name", TOKEN_SAMPLERS)
def test_in_bfloat16_they_are_within_a_bound(bf16: World, name: str) -> None:
    sampler = bf16.open(name)
    asked = [bf16.request("door " * n, seed=n, episode=f"task#{n}@0", max_tokens=20) for n in range(1, 5)]
    for request, answer in zip(asked, ask(sampler, *asked), strict=True):
        assert answer.logprobs == pytest.approx(bf16.teacher_forced(request, answer.tokens), abs=BF16_BOUND)


@over("name", TOKEN_SAMPLERS)
def test_the_text_is_that_of_the_ids_without_the_end_token(world: World, name: str) -> None:
    sampler = world.open(name)
    hot = {"temperature": 2.0, "max_tokens": 60}  # so that end tokens are sampled
    asked = [world.request(seed=seed, episode=f"task#{seed}@0", **hot) for seed in range(40)]
    answers = ask(sampler, *asked)
    ended = [answer for answer in answers if answer.tokens[-1] == world.tokenizer.eos_token_id]
    assert ended  # else the test shows nothing
    for answer in answers:
        kept = answer.tokens[:-1] if answer in ended else answer.tokens
        assert answer.text == world.tokenizer.decode(list(kept))
        assert answer.finish == ("stop" if answer in ended else "length")
        assert world.tokenizer.eos_token_id not in kept


@over("name", MODELS)
def test_a_stop_string_ends_the_answer_and_is_part_of_it(world: World, name: str) -> None:
    sampler = world.open(name)
    free = ask(sampler, world.request(max_tokens=30))[0]
    at = len(free.text) // 2
    stop = free.text[at : at + 2]
    answer = ask(sampler, world.request(max_tokens=30, stop=("never", stop)))[0]
    assert answer.finish == "stop"
    assert free.text.startswith(answer.text)
    assert stop in answer.text
    if answer.tokens:
        assert answer.tokens == free.tokens[: len(answer.tokens)]
        assert stop not in world.tokenizer.decode(list(answer.tokens[:-1]))
    else:
        assert answer.text.endswith(stop)


@over("name", MODELS)
def test_an_answer_is_cut_at_its_limit(world: World, name: str) -> None:
    sampler = world.open(name)
    full = ask(sampler, world.request(max_tokens=30))[0]
    cut = ask(sampler, world.request(max_tokens=3))[0]
    assert cut.finish == "length"
    assert len(cut.text) < len(full.text)
    if cut.tokens:
        assert cut.tokens == full.tokens[:3]


@contextmanager
def sharper(world: World, sampler: Sampler) -> Iterator[None]:
    """Let sampler and model have weights whose likeliest answers do not repeat one token."""
    old, chance = copy.deepcopy(world.module.state_dict()), torch.Generator().manual_seed(3)
    with torch.no_grad():
        for weight in world.module.parameters():
            if weight.ndim == 2:
                weight.normal_(0.0, 0.2, generator=chance)
    try:
        asyncio.run(sampler.load(world.module, 5))
        yield
    finally:
        world.module.load_state_dict(old)
        asyncio.run(sampler.load(world.module, 0))


def goes_on_from_each_token(sampler: Sampler, request: Request) -> Completion:
    """Return the likeliest answer, after a check that from each of its places but the end, the same one comes out."""
    (whole,) = ask(sampler, request)
    requests = []
    for tokens in range(len(whole.tokens)):
        start = AnswerStart(whole.tokens[:tokens], whole.logprobs[:tokens], (whole.version,) * tokens)
        requests.append(replace(request, episode=f"task#0/0:{tokens}.0@0", start=start))
    for tokens, answer in enumerate(ask(sampler, *requests)):
        same(whole, answer)
        assert answer.logprobs[:tokens] == whole.logprobs[:tokens]  # those that were given, not computed again
        assert (answer.version, answer.switches) == (5, ())
    return whole


@over("name", TOKEN_SAMPLERS)
def test_an_answer_goes_on_from_any_of_its_tokens(world: World, name: str) -> None:
    sampler, asked = world.open(name), world.request(temperature=0.0, max_tokens=12)
    with sharper(world, sampler):
        whole = goes_on_from_each_token(sampler, asked)
        assert (len(whole.tokens), whole.finish) == (12, "length")
        assert len(set(whole.tokens)) > 6  # else a wrong place would not show
        last = whole.tokens.index(whole.tokens[8])
        stop = world.tokenizer.decode(list(whole.tokens[last - 2 : last + 1]))  # most places lie before or inside it
        stopped = goes_on_from_each_token(sampler, replace(asked, stop=(stop,)))
        assert (stopped.tokens, stopped.finish) == (whole.tokens[: last + 1], "stop")
        ended = goes_on_from_each_token(sampler, replace(asked, end=AnswerEnd("end", whole.tokens[last])))
        assert (ended.tokens, ended.finish) == (whole.tokens[: last + 1], "stop")
        assert ended.text == world.tokenizer.decode(list(whole.tokens[:last]))


@over("name", TOKEN_SAMPLERS)
@over("temperature", [1.0, 0.6])
def test_what_follows_the_first_tokens_is_sampled_after_them(world: World, name: str, temperature: float) -> None:
    sampler = world.open(name)
    asked = world.request(temperature=temperature, max_tokens=20)
    first = AnswerStart(asked.prompt[:3], (-7.0, -0.5, -8.0), (-3, -3, -2))  # numbers that this model would not say
    requests = [replace(asked, seed=seed, episode=f"task#0/0:3.{seed}@0", start=first) for seed in range(4)]
    answers = ask(sampler, *requests)
    for answer in answers:
        assert 3 < len(answer.tokens) <= 20
        assert (answer.tokens[:3], answer.logprobs[:3]) == (first.tokens, first.logprobs)
        versions = token_versions(answer.version, answer.switches, len(answer.tokens))
        assert versions == (*first.versions, *[sampler.version] * (len(answer.tokens) - 3))
        assert answer.logprobs[3:] == pytest.approx(world.teacher_forced(asked, answer.tokens)[3:], abs=1e-4)
    assert len({answer.tokens for answer in answers}) > 1


@over("name", TOKEN_SAMPLERS)
def test_a_limit_counts_the_first_tokens(world: World, name: str) -> None:
    sampler = world.open(name)
    request = replace(world.request(max_tokens=CONTEXT), prompt=world.request().prompt[:1] * (CONTEXT - 6))
    begun = AnswerStart(request.prompt[:4], (-1.0,) * 4, (0,) * 4)
    assert len(ask(sampler, replace(request, start=begun))[0].tokens) <= 6
    with pytest.raises(RequestFailed, match="an answer that begins with 4 tokens needs max_tokens > 4, got 4"):
        ask(sampler, world.request(max_tokens=4, start=begun))
    with pytest.raises(ContextOverflow):
        ask(sampler, replace(request, prompt=request.prompt[:1] * (CONTEXT - 4), start=begun))
    with pytest.raises(RequestFailed, match="2 tokens, which need as many log-probabilities and versions; got 1 and 2"):
        ask(sampler, world.request(start=AnswerStart((1, 2), (-1.0,), (0, 0))))


@over("name", MODELS)
def test_a_prompt_that_fills_the_context_is_refused_and_the_next_is_answered(world: World, name: str) -> None:
    sampler = world.open(name)
    with pytest.raises(ContextOverflow):
        ask(sampler, world.request("door 1 key 2 " * CONTEXT))
    assert ask(sampler, world.request())[0].text


@over("name", TOKEN_SAMPLERS)
def test_the_context_cuts_an_answer_that_begins_below_it(world: World, name: str) -> None:
    request = world.request("door " * 30, max_tokens=CONTEXT, stop=())
    request = replace(request, prompt=request.prompt[:1] * (CONTEXT - 4))
    answer = ask(world.open(name), request)[0]
    assert len(answer.tokens) <= 4


@over("name", MODELS)
def test_a_cancelled_request_leaves_the_others_as_they_are(world: World, name: str) -> None:
    sampler = world.open(name)
    asked = [world.request(seed=seed, episode=f"task#{seed}@0") for seed in range(4)]
    expected = ask(sampler, *asked)

    async def cancel_one() -> list[Completion | BaseException]:
        tasks = [asyncio.create_task(sampler.sample(request)) for request in asked]
        await asyncio.sleep(0)
        tasks[1].cancel()
        return await asyncio.gather(*tasks, return_exceptions=True)

    found = asyncio.run(cancel_one())
    assert isinstance(found[1], asyncio.CancelledError)
    for index in (0, 2, 3):
        same(expected[index], found[index])  # type: ignore[arg-type]
    same(expected[1], ask(sampler, asked[1])[0])


@over("name", TOKEN_SAMPLERS)
def test_new_weights_are_used_from_now_on(world: World, name: str) -> None:
    sampler, asked, old = world.open(name), world.request(), copy.deepcopy(world.module.state_dict())
    before = ask(sampler, asked)[0]
    with torch.no_grad():
        for weight in world.module.parameters():
            weight.mul_(1.25)
    try:
        asyncio.run(sampler.load(world.module, 7))
        after = ask(sampler, asked)[0]
        assert (before.version, after.version, sampler.version) == (0, 7, 7)
        assert after.logprobs == pytest.approx(world.teacher_forced(asked, after.tokens), abs=1e-4)
        assert after.logprobs[0] != pytest.approx(before.logprobs[0], abs=1e-3)
    finally:
        world.module.load_state_dict(old)
        asyncio.run(sampler.load(world.module, 0))


@over("name", ["expert", *ALL])
def test_close_may_be_called_twice(world: World, name: str) -> None:
    sampler = world.open(name)
    ask(sampler, world.request())
    sampler.close()
    sampler.close()
    world.slow.pop(name, None)
    if name in MODELS or name == "vllm":  # the others hold nothing
        with pytest.raises(SamplerError, match="closed"):
            ask(sampler, world.request())


def test_an_engine_with_another_tokenizer_is_refused(world: World) -> None:
    _, other = build_policy(["other words entirely, quite other ones"] * 3, vocab=300, hidden=32, layers=1, heads=1)
    with pytest.raises(SamplerError, match=r"the tokenizer of .* differs from this model's"):
        world.open("openai-tokens", tokenizer=other)


def test_log_probabilities_before_the_temperature_are_refused_where_they_would_be_wrong(world: World) -> None:
    server = ToyServer(world.module, world.tokenizer, context=CONTEXT, processed=False)
    with server.serve() as url:
        sampler, asked = world.open("openai-tokens", url=url), world.request()
        assert ask(sampler, asked)[0].logprobs  # at temperature 1 they are the same
        with pytest.raises(SamplerError, match="processed_logprobs"):
            ask(sampler, replace(asked, temperature=0.7))
        with pytest.raises(SamplerError, match="processed_logprobs"):
            ask(sampler, replace(asked, top_p=0.5))
