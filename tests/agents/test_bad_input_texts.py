"""Whatever a model says, and whatever a file holds: an episode, a record, or one error of ours."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from toys.corridor import Corridor
from toys.tokens import Bytes

from turncredit.agents.agent import Agent
from turncredit.agents.errors import EvaluationError
from turncredit.agents.files.trajectory_files import from_json, to_json
from turncredit.agents.prompts.prompt import Conversation, Window
from turncredit.agents.prompts.templates import REACT
from turncredit.agents.rollouts.rollout import rollout
from turncredit.engines import Completion, Request
from turncredit.engines.scripted import Scripted
from turncredit.evaluation.comparison import compare
from turncredit.evaluation.panels import Panel
from turncredit.evaluation.results import EpisodeRow, EvaluationResult

TEXTS = st.lists(
    st.one_of(
        st.text(max_size=30),
        st.binary(max_size=30).map(lambda raw: raw.decode("utf-8", "surrogateescape")),
        st.sampled_from(
            [
                "",
                "look",
                "\0",
                "\ud800",
                "go east\n",
                "x" * 30_000,
                "\x00\udcff\x1b[2J",
                "\u2028",
                "<action>look</action>",
                "</think>" * 3,
            ]
        ),
        st.sampled_from(["take key", "go east", "<think>a</think><action>take key</action>"]),
    ),
    max_size=6,
)
AGENTS = [Agent(max_turns=6), Agent(Window(history=2), "think-action", max_turns=6), Agent(Conversation(REACT))]


class Says(Scripted):
    """Says the script's texts as they are, with the ids of a tokenizer."""

    async def sample(self, request: Request) -> Completion:
        text = self.action(request)
        tokens = tuple(Bytes().encode(text.encode("utf-8", "replace").decode()))
        return Completion(tokens, (-0.5,) * len(tokens), text, 0, "length")


@pytest.mark.parametrize("agent", AGENTS, ids=["bare", "window", "react"])
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(TEXTS)
def test_whatever_a_model_says_makes_an_episode_that_can_be_stored(agent: Agent, texts: list[str]) -> None:
    (group,) = rollout(agent, Says(texts, tokenizer=Bytes()), ["open-3-1"], make=Corridor)
    (played,) = group.trajectories
    assert played.stop in {"terminated", "truncated", "turns"}
    assert played.error is None
    assert from_json(to_json(played)) == played
    for turn in played.turns:
        turn.text.encode()  # it can be written
        assert turn.action is not None or not turn.valid
    sent = [turn.action for turn in played.turns if turn.action is not None]
    assert all(action.isprintable() and action == action.strip() for action in sent)


PANEL = Panel("e", ("a", "b"))
ROWS = tuple(EpisodeRow(task, None, task == "a", 0.5, 3, "terminated", 0, 0) for task in PANEL.tasks)
JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=5)),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=5), inner, max_size=3)),
    max_leaves=5,
)


def _places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Where something stands in nested lists and tables."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(place for key, inner in items for place in _places(inner, (*path, key)))]


@settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
@given(st.data())
def test_a_result_with_anything_in_any_place_is_a_result_or_an_error(tmp_path: Any, data: st.DataObject) -> None:
    path = tmp_path / "result.json"
    whole = EvaluationResult(PANEL, ROWS, "name")
    whole.save(path)
    content = json.loads(path.read_text())
    *above, last = data.draw(st.sampled_from(_places(content)[1:]))
    inner = content
    for key in above:
        inner = inner[key]
    if data.draw(st.booleans()):
        inner[last] = data.draw(JSON)
    else:
        del inner[last]
    path.write_text(json.dumps(content))
    try:
        result = EvaluationResult.load(path)
        compare(whole, result)
    except EvaluationError:
        return
    assert result.summary().success.n <= len(result.rows) <= 2


@settings(
    max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
@given(st.one_of(st.binary(max_size=60), JSON.map(lambda value: json.dumps({"version": 1, "panel": value}).encode())))
def test_any_bytes_are_a_panel_or_an_error(tmp_path: Any, raw: bytes) -> None:
    path = tmp_path / "panel.json"
    path.write_bytes(raw)
    with pytest.raises(EvaluationError, match=r"panel\.json"):
        Panel.load(path)
