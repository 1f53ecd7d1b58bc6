"""Mixtures: every part is asked in its own way, with every kind of player, in every kind of process."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from toys import corridor

from turncredit.agents import Agent, AgentError, Fork, Snapshots, rollout
from turncredit.agents.instructions import (
    INSTRUCTED,
    PARTS,
    agent_for,
    agent_from,
    instructions,
    merged,
    player_options,
)
from turncredit.agents.rollouts.env_pool import EnvPool
from turncredit.agents.trajectory import Trajectory
from turncredit.engines import Expert, Random
from turncredit.envs import maker, register
from turncredit.envs.parts import MIXTURE
from turncredit.envs.registration import parts_of
from turncredit.envs.toolenv import ToolEnv
from turncredit.task_ids import within
from turncredit.tools.functions import Call

HOUSE, SEARCH, BELL, GONG = "turncredit/Household-v0", "turncredit/Search-v0", "toys/Bell-v0", "toys/Gong-v0"
KWARGS: dict[str, Any] = {
    "parts": [
        {"id": HOUSE, "kwargs": {"levels": ["tiny", "small"]}},
        {"id": SEARCH, "kwargs": {"level": "tiny"}},
        {"id": BELL},
    ]
}
TASKS = [
    "household/tiny/train/tiny/000000",
    "search/train/tiny/000001",
    "bell/task",
    "household/small/train/small/000002",
]


def ring(bell: str) -> str:
    """Ring a bell.

    Args:
        bell: its name
    """
    return f"{bell} rings"


def beat(gong: int) -> str:
    """Beat a gong.

    Args:
        gong: its number
    """
    return f"{gong} sounds"


def _tools(tool: Any, argument: Any, native: bool) -> ToolEnv[str, list[str]]:
    plan = [Call(tool.__name__, argument), Call("answer", {"text": "done"})]
    return ToolEnv(
        "Make a sound, then answer 'done'.",
        start=lambda task: list[str](),
        tools=[tool],
        check=lambda world, answer: answer == "done",
        plan=lambda world: plan,
        form="hermes" if native else "tags",
        native=native,
    )


def bells(native: bool = False) -> ToolEnv[str, list[str]]:
    return _tools(ring, {"bell": "left"}, native)


def gongs(native: bool = False) -> ToolEnv[str, list[str]]:
    return _tools(beat, {"gong": 2}, native)


@pytest.fixture(autouse=True)
def _registered() -> None:
    corridor.register()
    register(BELL, bells)
    register(GONG, gongs)


def alone(agent: Agent) -> Agent:
    """The agent without the name of the part that it plays."""
    return replace(agent, part="", parts={})


def test_the_options_of_a_mixture_are_those_of_its_parts() -> None:
    options = instructions(MIXTURE, KWARGS)
    assert {name: options[name] for name in INSTRUCTED} == INSTRUCTED == instructions(HOUSE)
    assert options[PARTS] == {
        "search": instructions(SEARCH, {"level": "tiny"}),
        "bell": instructions(BELL),
    }
    assert instructions(HOUSE, {"levels": ["tiny", "small"]}) == instructions(HOUSE, {"level": "tiny"})
    assert player_options(MIXTURE, KWARGS)[PARTS] == {
        "search": {"parser": "with-thoughts"},
        "bell": {"parser": "whole"},
    }


@pytest.mark.parametrize("family", ["none", "plain", "qwen25"])
def test_a_part_is_asked_as_it_is_alone(family: str) -> None:
    tokenizer = None
    if family != "none":
        pytest.importorskip("transformers")
        from toys.chat_tokenizers import made

        from turncredit.training.learner.policy import build_tokenizer

        tokenizer = build_tokenizer(["go to the sink"], vocab=300)
        tokenizer = made(tokenizer, family) if family != "plain" else tokenizer
    agent = agent_for(MIXTURE, KWARGS, tokenizer=tokenizer)
    for part in parts_of(MIXTURE, **KWARGS):
        asked = agent.for_task(f"{part.name}/task")
        assert asked.part == ("" if part.id == HOUSE else part.name)  # which is asked like the whole
        assert alone(asked) == agent_for(part.id, dict(part.kwargs), tokenizer=tokenizer)
    assert agent.for_task("train/tiny/000000") is agent


def test_options_of_the_user_are_for_all_parts_and_those_for_a_part_come_first() -> None:
    options = merged(
        instructions(MIXTURE, KWARGS), {"max_tokens": 9, PARTS: {"search": {"max_tokens": 11, "stop": ["x"]}}}
    )
    agent = agent_from(options)
    assert [agent.for_task(task).max_tokens for task in TASKS] == [9, 11, 9, 9]
    assert [agent.for_task(task).parser for task in TASKS] == ["think-action", "with-thoughts", "whole", "think-action"]
    greedy = replace(agent, temperature=0.0, max_turns=3)
    assert {(one.temperature, one.max_turns) for one in map(greedy.for_task, TASKS)} == {(0.0, 3)}
    assert greedy.for_task(TASKS[1]).stop == ("x",)


@pytest.mark.parametrize(
    ("parts", "sentence"),
    [
        ({"a": {"parsr": "bare"}}, "no option 'parsr'; did you mean 'parser'"),
        ({"a": {"max_tokens": 0}}, "max_tokens must be an integer >= 1"),
        ({"a": "bare"}, "parts must be a table of tables"),
        ({"a": {"parts": {}}}, "no option 'parts'"),
    ],
)
def test_wrong_options_of_a_part_are_refused(parts: Any, sentence: str) -> None:
    with pytest.raises(AgentError, match=sentence):
        Agent.from_options(parts=parts)


def check_played(trajectories: list[Trajectory]) -> None:
    assert [one.error for one in trajectories if one.error] == []
    assert all(one.won for one in trajectories)
    texts = [trajectory.turns[-1].text for trajectory in trajectories]
    forms = ("<action>", "<answer> ", "<answer>done", "<action>")
    assert [form in text for form, text in zip(forms, texts, strict=True)] == [True] * 4


def test_the_expert_answers_in_the_form_of_each_part() -> None:
    agent = agent_from(merged(instructions(MIXTURE, KWARGS), {"chat": False}))
    make = maker(MIXTURE, **KWARGS)
    groups = rollout(agent, Expert(parser=agent.parser), TASKS, make=make, size=2, concurrency=3)
    check_played([group.trajectories[0] for group in groups])
    for task, group in zip(TASKS, groups, strict=True):
        part = next(part for part in parts_of(MIXTURE, **KWARGS) if task.startswith(f"{part.name}/"))
        kwargs = dict(part.kwargs)
        lonely = agent_from(merged(instructions(part.id, kwargs), {"chat": False}))
        (own,) = rollout(lonely, Expert(parser=lonely.parser), [within(task, part.name)], make=maker(part.id, **kwargs))
        turns, others = group.trajectories[0].turns, own.trajectories[0].turns
        assert [(turn.text, turn.observation, turn.reward) for turn in turns] == [
            (turn.text, turn.observation, turn.reward) for turn in others
        ]


@pytest.mark.waits
def test_a_mixture_is_played_in_processes_of_all_kinds() -> None:
    agent, make = agent_from(merged(instructions(MIXTURE, KWARGS), {"chat": False})), maker(MIXTURE, **KWARGS)
    here = rollout(agent, Expert(parser=agent.parser), TASKS, make=make, size=2)
    forked = rollout(agent, Expert(parser=agent.parser), TASKS, make=make, size=2, processes=2)
    with EnvPool(make, workers=2) as pool:
        elsewhere = rollout(agent, Expert(parser=agent.parser), TASKS, make=pool, size=2)
    for groups in (forked, elsewhere):
        for group, other in zip(here, groups, strict=True):
            assert [replace(one, seconds=0) for one in group.trajectories] == [
                replace(one, seconds=0) for one in other.trajectories
            ]


def test_tools_of_each_part_are_described_to_the_chat_template() -> None:
    pytest.importorskip("transformers")
    from toys.chat_tokenizers import made

    from turncredit.training.learner.policy import build_tokenizer

    tokenizer = made(build_tokenizer(["ring"], vocab=300), "qwen25")
    parts = [{"id": BELL, "kwargs": {"native": True}}, {"id": GONG, "kwargs": {"native": True}}, {"id": HOUSE}]
    for kwargs in ({"parts": parts}, {"parts": parts[:2]}):  # with the same options, and with others
        agent = agent_for(MIXTURE, kwargs, tokenizer=tokenizer)
        names = [
            [tool["function"]["name"] for tool in agent.for_task(f"{part}/task").chat_options["tools"]]
            for part in ("bell", "gong")
        ]
        assert names == [["ring", "answer"], ["beat", "answer"]]
        assert "tools" not in agent.chat_options
        assert "tools" not in agent.for_task("household/x").chat_options


@pytest.mark.parametrize("snapshots", [None, Snapshots()], ids=["replay", "snapshot"])
def test_an_episode_is_forked_in_its_part(snapshots: Snapshots | None) -> None:
    kwargs = {"parts": [{"id": HOUSE, "kwargs": {"level": "tiny"}}, {"id": corridor.ID}]}
    agent, make = Agent(max_turns=6), maker(MIXTURE, **kwargs)
    groups = rollout(
        agent, Random(), ["household/train/tiny/000000", "corridor/fetch-4-2"], make=make, snapshots=snapshots
    )
    parents = [group.trajectories[0] for group in groups]
    forks = rollout(agent, Random(), [Fork(one, 3) for one in parents], make=make, size=2, snapshots=snapshots)
    for parent, group in zip(parents, forks, strict=True):
        assert [one.error for one in group.trajectories] == [None, None]
        assert all(one.turns[:3] == parent.turns[:3] for one in group.trajectories)


def test_demonstrations_become_prompts_of_their_part() -> None:
    pytest.importorskip("transformers")
    from turncredit.agents.demonstrations.tokens import tokenize_trajectory
    from turncredit.training.learner.policy import build_tokenizer

    tokenizer = build_tokenizer(["go to the sink"], vocab=300)
    agent = agent_for(MIXTURE, KWARGS, tokenizer=tokenizer)
    player = agent_from(merged(instructions(MIXTURE, KWARGS), {"chat": False}))
    groups = rollout(player, Expert(parser=player.parser), TASKS[:3], make=maker(MIXTURE, **KWARGS))
    for task, group in zip(TASKS, groups, strict=False):
        (trajectory,) = group.trajectories
        tokens = tokenize_trajectory(trajectory, agent, tokenizer, rewrite=True)
        assert tokens == tokenize_trajectory(trajectory, alone(agent.for_task(task)), tokenizer, rewrite=True)
