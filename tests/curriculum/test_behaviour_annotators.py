"""Annotators that tell what episodes did, from their texts: columns of made-up episodes, by hand."""

import asyncio
from dataclasses import replace

import pytest
from toys.open_groups import episode, turn

from turncredit.agents.trajectory import Group
from turncredit.credit import BadOption
from turncredit.curriculum.annotators.catalogue import get_annotator


def said(name, *turns, won=False, task="q~1", tokens=1):
    """An episode of turns (observation, answer, action)."""
    made = tuple(
        replace(turn(logprobs=(-1.0,) * tokens), observation=seen, text=text, action=action)
        for seen, text, action in turns
    )
    return replace(episode(name, won, made), task=task)


def noted(name, *members, ask=None, **options):
    notes = asyncio.run(get_annotator(name, **options)([Group(members[0].task, members)], ask))
    return {column: [values[member.id, 0] for member in members] for column, values in notes.columns.items()}, notes


LOOKS = said(0, ("a shelf", "I look. look", "look"), ("a cup", "take cup", "take cup"))
TAKES = said(1, ("a shelf", "take", "take"), ("a cup", "?", None))


def test_a_pattern_occurs_in_actions_answers_or_observations():
    assert noted("matches", LOOKS, TAKES, pattern="look")[0] == {"used": [1, 0]}
    assert noted("matches", LOOKS, TAKES, pattern="I look", of="answers", column="parallel")[0] == {"parallel": [1, 0]}
    assert noted("matches", LOOKS, TAKES, pattern="cup", of="observations")[0] == {"used": [1, 1]}
    assert noted("matches", LOOKS, TAKES, least=2)[0] == {"used": [1, 0]}  # an answer that was no action is none
    with pytest.raises(BadOption, match="regular expression"):
        get_annotator("matches", pattern="(")


def test_kinds_of_episodes_and_of_turns():
    patterns = {"thinks": "I ", "takes": "take"}
    assert noted("kinds", LOOKS, TAKES, patterns=patterns)[0] == {"format": ["thinks", "takes"]}
    _, notes = noted("kinds", LOOKS, TAKES, patterns=patterns, column="role", per="turn", otherwise="lost")
    roles = notes.columns["role"]
    assert [roles[LOOKS.id, 0], roles[LOOKS.id, 1], roles[TAKES.id, 0], roles[TAKES.id, 1]] == [
        "thinks", "takes", "takes", "lost",
    ]  # fmt: skip
    assert noted("kinds", LOOKS, TAKES)[0] == {"format": ["thought", "plain"]}


def test_wordings_are_told_apart_by_the_ids_of_tasks():
    columns, _ = noted("wordings", LOOKS, replace(TAKES, task="q~2"))
    assert columns == {"answer": ["take cup", "take"], "wording": ["q~1", "q~2"], "question": ["q", "q"]}


def test_facts_are_supported_by_lines_that_were_read():
    """Two sentences of which one has three of four words in a line; and an answer that admits not to know."""
    knows = said(0, ("Ada Marsh was born in Oakford", "Marsh was born near Oakford. Whales swim.", "answer"))
    refuses = said(1, ("nothing", "I do not know", "answer"))
    columns, _ = noted("facts", knows, refuses)
    assert columns == {"facts": [2, 1], "supported": [1, 0], "refused": [0, 1]}


def test_a_budget_is_the_mean_length_of_the_wins():
    step = [("o", "t", "a")]
    members = [said(k, *step, won=won, tokens=n) for k, (won, n) in enumerate([(True, 4), (True, 8), (False, 40)])]
    assert noted("budgets", *members, factor=1.5)[0] == {"length_budget": [9.0, 9.0, 9.0]}
    assert noted("budgets", members[2], otherwise=7.0)[0] == {"length_budget": [7.0]}


def test_several_rewards_of_a_turn():
    first = replace(turn(0.5, extras={"harm": 1}), valid=False)
    member = replace(episode(0), turns=(first,))
    assert noted("several", member, of=["-harm", "reward", "valid"])[0] == {"multi": [(0.0, 0.5, 0.0)]}
    with pytest.raises(BadOption, match="no number 'safe'; there are reward, valid, harm"):
        noted("several", member, of=["safe"])


def test_a_verdict_is_yes_or_no():
    async def ask(messages, *, temperature=0.0, max_tokens=64):
        text = messages[-1]["content"]
        assert "Was it quick? Answer with yes or no alone." in text
        return "Yes." if "look" in text else "no, it was not"

    assert noted("verdict", LOOKS, TAKES, ask=ask, question="Was it quick?")[0] == {"first_right": [1, 0]}
