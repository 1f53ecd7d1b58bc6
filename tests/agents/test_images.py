"""Observations with images: given to samplers that can use them, refused for all others."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import pytest
from toys.corridor import Corridor

from turncredit.agents.agent import Agent
from turncredit.agents.content import ImagePart, TextPart, read_observation
from turncredit.agents.errors import AgentError
from turncredit.agents.rollouts.rollout import rollout
from turncredit.agents.trajectory import Trajectory
from turncredit.engines import (
    SAMPLERS,
    Completion,
    Expert,
    PlayerSampler,
    Random,
    Request,
    SamplerSettings,
    Scripted,
    parse_sampler,
)
from turncredit.training.errors import TrainingError
from turncredit.training.tasks.environments import list_tasks

PICTURE = np.full((4, 6, 3), 7, np.uint8)


def pictured(image: Any, first: bool = True) -> type[Corridor]:
    """Return a corridor whose observations have an image, from the first or the second on."""

    class Pictured(Corridor):
        def reset(self, **options: Any) -> Any:
            text, info = super().reset(**options)
            return ({"text": text, "image": image} if first else text), info

        def step(self, action: str) -> Any:
            text, *rest = super().step(action)
            return ({"text": text, "image": image}, *rest)

    return Pictured


class TextOnly(Scripted):
    images = False


def play(sampler: Scripted | PlayerSampler, env: type[Corridor]) -> Trajectory:
    return rollout(Agent(max_turns=3), sampler, ["open-3-1"], make=env)[0].trajectories[0]


@pytest.mark.parametrize("first", [True, False])
def test_a_sampler_that_reads_text_only_is_told_that_the_environment_returns_images(first: bool) -> None:
    with pytest.raises(AgentError, match=r"returns images, and the sampler TextOnly reads text only; .* images = True"):
        play(TextOnly(["look"]), pictured(PICTURE, first))


def test_a_sampler_that_uses_images_gets_them_in_view_and_messages() -> None:
    requests: list[Request] = []

    class Sees(Scripted):
        async def sample(self, request: Request) -> Completion:
            requests.append(request)
            return await super().sample(request)

    found = play(Sees(["look", "", "look"]), pictured(PICTURE))
    assert [turn.observation for turn in found.turns] == [request.view.observation for request in requests]
    text, image = requests[0].view.content
    assert isinstance(text, TextPart)
    assert isinstance(image, ImagePart)
    assert image.image is PICTURE
    assert [part["type"] for part in requests[1].messages[-1]["content"]] == ["text", "image"]
    assert requests[2].view.content == (TextPart(found.turns[2].observation),)  # a correction has no image


@pytest.mark.parametrize("image", [PICTURE[0], PICTURE.astype(float), "a picture"])
def test_an_image_of_another_form_is_a_failure_of_the_environment(image: Any) -> None:
    found = play(Scripted(["look"]), pictured(image))
    assert found.stop == "error"
    assert "uint8 array of shape [height, width, 3]" in str(found.error)


def test_training_refuses_images_before_anything_is_played() -> None:
    class Screen(Corridor):
        def __init__(self) -> None:
            super().__init__()
            image = gymnasium.spaces.Box(0, 255, PICTURE.shape, np.uint8)
            self.observation_space = gymnasium.spaces.Dict({"text": self.observation_space, "image": image})

    with pytest.raises(TrainingError, match="returns images, and the new policy reads text only"):
        list_tasks(Screen, None, 0)
    assert list_tasks(Corridor, None, 0)


def test_samplers_are_found_by_name_and_as_module_and_attribute() -> None:
    assert isinstance(SAMPLERS.get("expert")(SamplerSettings()), Expert)
    assert isinstance(SAMPLERS.get("random")(SamplerSettings(seed=3)), Random)
    scripted = SAMPLERS.get("scripted")(SamplerSettings(options={"actions": ["look"]}))
    assert isinstance(scripted, Scripted)
    with pytest.raises(AgentError, match="needs the option actions"):
        SAMPLERS.get("scripted")(SamplerSettings())
    assert SAMPLERS.get(f"{__name__}:TextOnly") is TextOnly
    assert {"expert", "random", "scripted", "transformers"} <= set(SAMPLERS.names())
    with pytest.raises(LookupError, match="unknown sampler 'exprt'; did you mean 'expert'"):
        SAMPLERS.get("exprt")
    with pytest.raises(TypeError, match="must be a function that makes a sampler"):
        SAMPLERS.get("math:pi")


def test_a_sampler_is_named_with_its_model_and_url() -> None:
    assert parse_sampler("random") == ("random", "", "")
    assert parse_sampler("transformers:a/b@main") == ("transformers", "a/b@main", "")
    assert parse_sampler("openai:m@http://h:1/v1") == ("openai", "m", "http://h:1/v1")
    assert parse_sampler("openai:org/m@v2@https://h/v1") == ("openai", "org/m@v2", "https://h/v1")
    assert parse_sampler("openai:m@https://me:secret@h:1/v1?a=b@c") == ("openai", "m", "https://me:secret@h:1/v1?a=b@c")
    assert parse_sampler("some.module:make") == ("some.module:make", "", "")


def test_lone_surrogates_in_an_observation_become_question_marks() -> None:
    assert read_observation("a \udcff b \N{SNOWMAN}")[0] == "a ? b \N{SNOWMAN}"
    assert read_observation({"text": "\ud800"})[0] == "?"
