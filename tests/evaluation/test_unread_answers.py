"""Answers without effect: when one of them is shown, and what is shown of it."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from toys import corridor

from turncredit.agents import Agent, Trajectory, rollout
from turncredit.agents.instructions import agent_for
from turncredit.engines import Scripted
from turncredit.evaluation.unread_answers import UnreadAnswers

LOOK = "<think>?</think><action>look</action>"


def played(agent: Agent, answers: Sequence[str]) -> Trajectory:
    (group,) = rollout(agent, Scripted(answers), ["open-3-2"], make=corridor.Corridor)
    return group.trajectories[0]


@pytest.fixture
def agent() -> Agent:
    corridor.register()
    return agent_for(corridor.ID, max_turns=3)


def test_a_prompt_and_its_answer_are_shown_where_most_answers_had_no_action(agent: Agent) -> None:
    unread = UnreadAnswers()
    unread(played(agent, [LOOK, "I look\x1b[2J", "look"]))
    count, prompt, answer, reply = unread.lines(agent)
    assert count == "of 3 answers, 2 had no action; for example turn 1 of open-3-2#0@0:"
    assert "You act in a text environment" in prompt
    assert "between <action> and </action>." in prompt
    assert prompt.count("\n") == 0
    assert answer == r"  answer: 'I look\x1b[2J'"
    assert reply.startswith("  reply: 'Nothing was done: there was no </think>. Expected: <think>your reasoning<")


def test_a_long_prompt_loses_its_middle_and_a_long_answer_its_end() -> None:
    corridor.register()
    agent = agent_for(corridor.ID, template={"base": "react", "system": "so " * 300}, max_turns=3)
    unread = UnreadAnswers()
    unread(played(agent, [LOOK, "x" * 5000, "y"]))
    _, prompt, answer, _ = unread.lines(agent)
    assert "' ... '" in prompt
    assert prompt.endswith("between <action> and </action>.'")
    assert answer == f"  answer: '{'x' * 300}' ... "
    assert max(map(len, unread.lines(agent))) < 1000


def test_actions_that_the_environment_refuses_are_shown_too(agent: Agent) -> None:
    unread = UnreadAnswers()
    unread(played(agent, ["<think>?</think><action>fly</action>"] * 2 + ["nothing"]))
    count, _, answer, reply = unread.lines(agent)
    assert count.startswith("of 3 answers, 1 had no action and 2 had one that was not possible; for example turn 0 of ")
    assert "fly" in answer
    assert "Nothing was done" not in reply


@pytest.mark.parametrize(
    ("answers", "shown"), [([], True), ([LOOK], True), ([LOOK, LOOK], False), ([LOOK, LOOK, LOOK], False)]
)
def test_half_of_the_answers_are_not_enough(agent: Agent, answers: list[str], shown: bool) -> None:
    unread = UnreadAnswers()
    unread(played(agent, [*answers, "?", "?", "?"]))
    assert bool(list(unread.lines(agent))) == shown
    assert list(UnreadAnswers().lines(agent)) == []
