"""vLLM with images on a CPU: what it samples has the log-probabilities of sampler and learner, after each load too."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from toys.families import name_tower_as_on_hub  # noqa: E402
from toys.seen_episodes import plain  # noqa: E402
from toys.vision import FAMILIES, HAS_TORCHVISION, screen  # noqa: E402
from toys.vllm_gaps import measured_gaps  # noqa: E402

from turncredit.agents.agent import Agent  # noqa: E402
from turncredit.agents.content import ImagePart  # noqa: E402
from turncredit.agents.errors import RequestFailed, SamplerError  # noqa: E402
from turncredit.agents.models.model_folder import load_model  # noqa: E402
from turncredit.agents.prompts.dialogue import Dialogue  # noqa: E402
from turncredit.agents.prompts.prompt import View  # noqa: E402
from turncredit.agents.trajectory import Turn  # noqa: E402
from turncredit.agents.vision.image_reader import reader_of  # noqa: E402
from turncredit.engines.base import AnswerStart, Completion, Request, SamplerSettings  # noqa: E402
from turncredit.engines.transformers.sampler import TransformersSampler  # noqa: E402
from turncredit.engines.vllm.prompt_images import PromptImages  # noqa: E402
from turncredit.engines.vllm.sampler import VLLMSampler  # noqa: E402
from turncredit.engines.weight_files import shapes_of  # noqa: E402
from turncredit.training.learner.lora import LoraOptions, add_adapter  # noqa: E402
from turncredit.training.learner.policy import save_policy  # noqa: E402

MEASURED = ["qwen3", "llava", "own"]
MOST = 3


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, float]]:
    """What one process measures of all families, which imports vLLM once."""
    if not HAS_TORCHVISION:
        pytest.skip("processors of Qwen need torchvision")
    return measured_gaps("toys.vllm_images", MEASURED, tmp_path_factory.mktemp("vllm"))


@pytest.mark.vllm
@pytest.mark.parametrize("family", MEASURED)
def test_the_log_probabilities_of_the_engine_are_the_learners(family: str, measured: dict[str, Any]) -> None:
    gaps = measured[family]
    assert "error" not in gaps, gaps["error"]
    for what in ("start", "sent weights", "image encoder"):
        assert gaps[what] < 5e-4, what
    assert gaps["without sent weights"] > 0.05  # the models differ, so the bounds mean something
    assert gaps["without image encoder"] > 5e-3


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[VLLMSampler, Any, Any, Path]]:
    """A running engine with room for adapters, its model and tokenizer, and their folder."""
    model, tokenizer = FAMILIES["idefics3"]()
    folder = tmp_path_factory.mktemp("idefics3")
    save_policy(model, tokenizer, folder)
    settings = SamplerSettings(
        model=str(folder),
        tokenizer=tokenizer,
        dtype="float32",
        kv_cache_gib=2**-4,
        concurrency=4,
        context=700,
        options={"enable_lora": True, "max_lora_rank": 8, "limit_mm_per_prompt": {"image": MOST}},
    )
    sampler = VLLMSampler(settings)
    yield sampler, model, tokenizer, folder
    sampler.close()


def asked(tokenizer: Any, number: int, *seen: tuple[ImagePart, ...], **changes: Any) -> Request:
    """Return the last request of an episode that sees these images, turn by turn."""
    dialogue = Dialogue(Agent(chat=tokenizer), tokenizer, 4096)
    for turn, images in enumerate(seen):
        view = dialogue.view(f"tap {number} {turn}", images=images)
        prompt = dialogue.prompt(view)
        dialogue.add(view, "tap 3 4", None, tuple(tokenizer.encode("tap 3 4")))
    request = Request(f"e#{number}@0", 0, prompt.ids, prompt.messages, number, view, max_tokens=8, images=prompt.shown)
    return replace(request, **changes)


def ask(sampler: Any, requests: list[Request]) -> list[Completion | BaseException]:
    async def together() -> list[Completion | BaseException]:
        return await asyncio.gather(*(sampler.sample(request) for request in requests), return_exceptions=True)

    answers = asyncio.run(together())
    for request in requests:
        sampler.forget(request.episode)
    return answers


def episodes(tokenizer: Any, **changes: Any) -> list[Request]:
    """Return requests with an image, with two in one conversation, the same image again, and with text alone."""
    seen = [[(screen(1),)], [(screen(1),), (screen(2, (120, 60)),)], [(), (screen(2, (120, 60)),)], [(), ()]]
    return [asked(tokenizer, number, *images, **changes) for number, images in enumerate(seen)]


def gap(sampler: VLLMSampler, model: Any, tokenizer: Any) -> float:
    """Return the largest difference to the log-probabilities of a forward pass, in nats."""
    worst, answered = 0.0, 0
    requests = episodes(tokenizer)
    for request, answer in zip(requests, ask(sampler, requests), strict=True):
        if isinstance(answer, RequestFailed):  # a random model may say the placeholder of images
            continue
        assert isinstance(answer, Completion), answer
        turn = Turn(request.prompt, answer.tokens, (), 0, "", "", None, "", 0.0, False, shown=request.images)
        with torch.no_grad():
            worst = max(worst, float((plain(model, tokenizer, turn) - torch.tensor(answer.logprobs)).abs().max()))
        answered += 1
    assert answered >= 3
    return worst


@pytest.mark.vllm
def test_the_likeliest_answers_are_those_of_the_sampler_of_transformers(started: Any) -> None:
    sampler, model, tokenizer, _ = started
    assert sampler.images
    requests = episodes(tokenizer, temperature=0.0)
    other = ask(TransformersSampler(model, tokenizer), requests)
    for mine, theirs in zip(ask(sampler, requests), other, strict=True):
        assert isinstance(mine, Completion), mine
        assert isinstance(theirs, Completion), theirs
        assert mine.tokens == theirs.tokens
    assert gap(sampler, model, tokenizer) < 1e-3


@pytest.mark.vllm
def test_an_answer_to_a_prompt_with_images_goes_on_from_its_first_tokens(started: Any) -> None:
    sampler, _, tokenizer, _ = started
    requests = episodes(tokenizer, temperature=0.0)
    answers = ask(sampler, requests)
    for tokens in (1, 5):
        begun = []
        for request, whole in zip(requests, answers, strict=True):
            assert isinstance(whole, Completion), whole
            start = AnswerStart(whole.tokens[:tokens], whole.logprobs[:tokens], (whole.version,) * tokens)
            begun.append(replace(request, start=start))
        for whole, answer in zip(answers, ask(sampler, begun), strict=True):
            assert isinstance(whole, Completion), whole
            assert isinstance(answer, Completion), answer
            assert (answer.tokens, answer.text, answer.finish) == (whole.tokens, whole.text, whole.finish)
            assert answer.logprobs == pytest.approx(whole.logprobs, abs=1e-3)


@pytest.mark.vllm
def test_new_weights_of_the_image_encoder_replace_the_vectors_of_images(started: Any) -> None:
    sampler, model, tokenizer, _ = started
    new = copy.deepcopy(model)
    with torch.no_grad():
        for name, weight in new.named_parameters():
            weight.mul_(0.5 if "vision_model" in name else 1.0)
    assert gap(sampler, model, tokenizer) < 1e-3  # the engine has the vectors of these images
    asyncio.run(sampler.load(new, sampler.version + 1))
    assert gap(sampler, new, tokenizer) < 1e-3
    assert gap(sampler, model, tokenizer) > 5e-3
    asyncio.run(sampler.load(model, sampler.version + 1))
    assert gap(sampler, model, tokenizer) < 1e-3


@pytest.mark.vllm
def test_an_adapter_of_the_decoder_is_loaded_as_such(started: Any) -> None:
    pytest.importorskip("peft")
    sampler, model, tokenizer, folder = started
    adapted = add_adapter(copy.deepcopy(model), LoraOptions(rank=4), base=str(folder))
    with torch.no_grad():
        for name, weight in adapted.named_parameters():
            if "lora_" in name:
                weight.normal_(0.0, 0.3)
    asyncio.run(sampler.load(adapted, sampler.version + 1))
    assert sampler._weights.adapter is not None
    assert gap(sampler, adapted.get_base_model(), tokenizer) < 1e-3
    assert gap(sampler, model, tokenizer) > 0.01
    asyncio.run(sampler.load(model, sampler.version + 1))


@pytest.mark.vllm
def test_images_that_cannot_be_used_end_their_own_episode(started: Any, tmp_path: Path) -> None:
    sampler, model, tokenizer, _ = started
    good = asked(tokenizer, 0, (screen(1),))
    many = asked(tokenizer, 1, *[(screen(number, (28, 28)),) for number in range(MOST + 1)])
    lost = replace(good, episode="e#2@0", images=(ImagePart.stored("0" * 32, tmp_path / "lost.png"),))
    other = replace(good, episode="e#3@0", images=(screen(1), screen(2)))
    answers = ask(sampler, [good, many, lost, other])
    assert isinstance(answers[0], Completion)
    for answer, sentence in zip(
        answers[1:],
        (f"has {MOST + 1} images, and the engine takes at most {MOST}", "could not be read", "its 2 images have"),
        strict=True,
    ):
        assert isinstance(answer, RequestFailed)
        assert sentence in str(answer)
    assert gap(sampler, model, tokenizer) < 1e-3  # the engine goes on


def test_an_answer_with_the_placeholder_of_images_is_refused() -> None:
    _, tokenizer = FAMILIES["llava"]()
    processor = SimpleNamespace(info=SimpleNamespace(allowed_mm_limits={"image": 1}))
    reader = reader_of(tokenizer)
    assert reader is not None
    images = PromptImages(reader, processor, SimpleNamespace(dtype=torch.float32, is_mm_prefix_lm=False), "vllm-cpu")
    request = Request("e#0@0", 2, (1, 2), (), 0, View("", "", None, 0))
    images.refuse_placeholder(request, (5, 6))
    with pytest.raises(RequestFailed, match="turn 2: the model answered with the token that stands for an image"):
        images.refuse_placeholder(request, (5, reader.token))
    assert images.inputs(request) == {}


def test_images_whose_tokens_see_each_other_are_refused_on_a_cpu() -> None:
    _, tokenizer = FAMILIES["gemma3"]()
    reader = reader_of(tokenizer)
    assert reader is not None
    processor = SimpleNamespace(info=SimpleNamespace(allowed_mm_limits={"image": 1}))
    config = SimpleNamespace(dtype=torch.float32, is_mm_prefix_lm=True)
    images = PromptImages(reader, processor, config, "vllm-cpu")
    assert images.inputs(asked(tokenizer, 0, ())) == {}
    with pytest.raises(SamplerError, match="the tokens of an image see each other in this model"):
        images.inputs(asked(tokenizer, 0, (screen(1),)))
    many = asked(tokenizer, 0, (screen(1), screen(2)))
    with pytest.raises(RequestFailed, match="has 2 images"):  # the next check
        PromptImages(reader, processor, config, "vllm").inputs(many)


@pytest.mark.parametrize("family", ["llava", "gemma3"])
def test_a_policy_with_the_names_of_the_hub_is_saved_under_them(family: str, tmp_path: Path) -> None:
    model, tokenizer = FAMILIES[family]()
    save_policy(model, tokenizer, tmp_path)
    name_tower_as_on_hub(tmp_path)
    shapes = shapes_of(tmp_path)
    assert any(name.startswith("vision_tower.vision_model.") for name in shapes)
    save_policy(load_model(tmp_path), tokenizer, tmp_path / "again")
    assert shapes_of(tmp_path / "again") == shapes
