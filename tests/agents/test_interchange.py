"""Trajectories in other formats: what is written comes back, and what others wrote becomes turns."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from turncredit.agents.agent import Agent
from turncredit.agents.demonstrations.files import read_demonstrations
from turncredit.agents.errors import StoreError
from turncredit.agents.interchange.atif_references import CONTINUED, continued, referenced_files
from turncredit.agents.interchange.chat_message import ChatMessage
from turncredit.agents.interchange.conversations import (
    answer_of,
    conversation_trajectory,
    messages_of,
    text_of,
)
from turncredit.agents.interchange.folders import files_in, whole_output
from turncredit.agents.interchange.formats import FORMATS
from turncredit.agents.interchange.harbor_trials import trial_of
from turncredit.agents.interchange.imported_folder import IMITATED, ImportedFolder
from turncredit.agents.interchange.records import TOKENS, Exported, Origin
from turncredit.agents.steps import steps_of
from turncredit.agents.trajectory import Trajectory, Turn, grouped
from turncredit.tools.bounded_input import InputError

ORIGIN = Origin("run", "turncredit/Household-v0", "tiny", "0.1.0")
CALL = '<tool_call>\n{"name": "find", "arguments": {"shelf": 9}}\n</tool_call>'
TWO_CALLS = CALL + '\n<tool_call>\n{"name": "take", "arguments": {}}\n</tool_call>'

words = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
floats = st.floats(-1e6, 1e6)
answers = st.one_of(
    words,
    st.sampled_from(
        ["", "go east", CALL, f"I look.\n{CALL}", TWO_CALLS, f"{CALL} ", "<tool_call>\nnot JSON\n</tool_call>"]
    ),
    words.map(lambda text: f"<think>\n{text}\n</think>\n\ngo"),
    words.map(lambda text: f"<think>\n{text}\n</think>\n\n{CALL}"),
)
extras = st.dictionaries(
    st.sampled_from(["role", "value", "tree"]),
    st.one_of(floats, st.integers(-(2**70), 2**70), words, st.lists(st.integers(), max_size=2).map(tuple)),
    max_size=2,
)


@st.composite
def turns(draw: st.DrawFn) -> Turn:
    response = tuple(draw(st.lists(st.integers(0, 200_000), max_size=4)))
    results = tuple(draw(st.lists(words, max_size=2)))
    return Turn(
        prompt=tuple(draw(st.lists(st.integers(0, 200_000), max_size=4))),
        response=response,
        logprobs=tuple(draw(st.floats(-50, 0)) for _ in response),
        version=draw(st.integers(0, 9)),
        observation=draw(st.one_of(words, st.just("\n".join(results)))),
        text=draw(answers),
        action=draw(st.none() | words),
        state=draw(words),
        reward=draw(floats),
        valid=draw(st.booleans()),
        admissible=draw(st.none() | st.lists(words, max_size=2).map(tuple)),
        extras=draw(extras),
        finish=draw(st.sampled_from(["stop", "length", "refusal", "empty"])),
        switches=((1, 7),) if len(response) > 1 and draw(st.booleans()) else (),
        results=results,
        free=tuple(draw(st.lists(words, max_size=1))),
    )


@st.composite
def trajectories(draw: st.DrawFn) -> Trajectory:
    played = tuple(draw(st.lists(turns(), max_size=4)))
    forked = bool(played) and draw(st.booleans())
    return Trajectory(
        id=draw(words),
        task=draw(words),
        task_type=draw(st.none() | words),
        seed=draw(st.integers(0, 2**62)),
        turns=played,
        stop=draw(st.sampled_from(["terminated", "truncated", "turns", "tokens", "error"])),
        won=draw(st.booleans()),
        score=draw(st.floats(0, 1)),
        final_state=draw(words),
        final_observation=draw(words),
        error=draw(st.none() | words),
        seconds=draw(st.floats(0, 1e4)),
        fork_of=draw(words) if forked else None,
        fork_turn=draw(st.integers(0, len(played))) if forked else None,
        round=draw(st.integers(0, 2)),
        hint=draw(words),
        temperature=draw(st.none() | st.floats(0.1, 2)),
    )


def turn(observation: str = "You see a door.", text: str = "open door", **fields: Any) -> Turn:
    return Turn((), (), (), 0, observation, text, text, "s", 0.0, True, **fields)


def episode(*played: Turn, final: str = "The end.", name: str = "t#0@0") -> Trajectory:
    return Trajectory(name, "t", None, 0, played, "terminated", True, 1.0, "end", final, None, 0.0)


def without_tokens(trajectory: Trajectory) -> Trajectory:
    bare = tuple(replace(turn, prompt=(), response=(), logprobs=(), switches=()) for turn in trajectory.turns)
    return replace(trajectory, turns=bare)


def there_and_back(name: str, exported: Sequence[Exported], plain: bool = False) -> list[Any]:
    """What comes back of episodes that were written in a format."""
    entry = FORMATS[name]
    with TemporaryDirectory() as folder:
        path = Path(folder) / f"out{entry.suffix}"
        entry.write(exported, path, replace(ORIGIN, plain=plain))
        return list(entry.read(path))


@pytest.mark.parametrize("name", ["atif", "sts", "openai"])
@given(played=st.lists(trajectories(), min_size=1, max_size=3), iteration=st.integers(0, 1000))
@settings(max_examples=25, deadline=None)
@example(played=[episode(turn(text=TWO_CALLS), turn("a\nb", "done", results=("a", "b")))], iteration=1)
@example(played=[episode(turn(text=TWO_CALLS), turn("what came back", "done"))], iteration=1)
@example(played=[episode()], iteration=1)
def test_what_is_written_comes_back(name: str, played: list[Trajectory], iteration: int) -> None:
    rule = {"gigpo": [0.5, -0.5, None, 0.0]}
    exported = [
        Exported(trajectory, iteration, {key: values[: len(trajectory.turns)] for key, values in rule.items()})
        for trajectory in played
    ]
    read = there_and_back(name, exported)
    whole = TOKENS not in FORMATS[name].lacks
    assert [item.trajectory for item in read] == (played if whole else list(map(without_tokens, played)))
    assert all(item.stored and item.scored and item.iteration == iteration for item in read)


@given(played=st.lists(trajectories(), min_size=20, max_size=20))
@settings(max_examples=2, deadline=None)
def test_a_data_set_comes_back(played: list[Trajectory]) -> None:
    pytest.importorskip("polars")
    read = there_and_back(
        "hf", [Exported(trajectory, 3, {"grpo": [0.5] * len(trajectory.turns)}) for trajectory in played]
    )
    assert [item.trajectory for item in read] == played


@pytest.mark.parametrize("name", ["atif", "sts", "openai", "hf"])
def test_plain_files_keep_the_conversation(name: str) -> None:
    if name == "hf":
        pytest.importorskip("polars")
    trajectory = episode(turn(text=f"<think>\nHm.\n</think>\n\n{CALL}"), turn("It is open.", "go east"))
    (item,) = there_and_back(name, [Exported(trajectory)], plain=True)
    assert not item.stored
    assert [(step.observation, step.text) for step in item.trajectory.turns] == [
        (step.observation, step.text) for step in trajectory.turns
    ]
    assert item.trajectory.final_observation == "The end."


@given(text=answers)
def test_the_parts_of_an_answer_give_its_text_again(text: str) -> None:
    assert text_of(answer_of(text)) == text


def test_an_answer_in_parts() -> None:
    answer = answer_of(f"<think>\nHm.\n</think>\n\nI look.\n{TWO_CALLS}", 3)
    assert (answer.reasoning, answer.content) == ("Hm.", "I look.")
    assert [(call.name, call.arguments, call.id) for call in answer.calls] == [
        ("find", {"shelf": 9}, "t0003c000"),
        ("take", {}, "t0003c001"),
    ]
    for odd in ("<think>\nHm.\n</think>\ngo", CALL.replace('": 9', '":9'), f"{CALL}\nAnd then?"):
        assert answer_of(odd) == ChatMessage("assistant", odd)


@given(trajectory=trajectories())
@settings(deadline=None)
def test_every_call_has_its_result_before_the_next_answer(trajectory: Trajectory) -> None:
    """What the servers of models ask of a conversation with tool calls."""
    open_calls: list[str] = []
    for message in messages_of(trajectory, "api"):
        if message.role == "tool":
            assert open_calls.pop(0) == message.call
            continue
        assert open_calls == []
        open_calls = [call.id for call in message.calls]
    assert open_calls == []


def test_equal_pasts_have_equal_states() -> None:
    def states(*pairs: tuple[str, str]) -> list[str]:
        messages = [
            ChatMessage(role, text) for pair in pairs for role, text in zip(("user", "assistant"), pair, strict=True)
        ]
        trajectory = conversation_trajectory(messages, "x").trajectory
        return [*(turn.state for turn in trajectory.turns), trajectory.final_state]

    first, other = states(("a", "b"), ("c", "d")), states(("a", "b"), ("c", "e"))
    assert first[:2] == other[:2]
    assert first[2] != other[2]
    assert len(set(first)) == 3
    assert states(("ab", "c"))[0] != states(("a", "bc"))[0]


@pytest.mark.parametrize(
    ("score", "reward", "cut", "won"),
    [(None, 1.0, 1.0, True), (0.4, 0.4, 0.4, False), (-3, -3, 0, False), (7, 7, 1, True)],
)
def test_a_score_is_the_last_reward(score: float | None, reward: float, cut: float, won: bool) -> None:
    messages = [
        ChatMessage("user", "a"),
        ChatMessage("assistant", "b"),
        ChatMessage("user", "c"),
        ChatMessage("assistant", "d"),
    ]
    item = conversation_trajectory(messages, "x", score=score)
    assert [turn.reward for turn in item.trajectory.turns] == [0.0, reward]
    assert (item.trajectory.score, item.trajectory.won, item.scored) == (cut, won, score is not None)
    with pytest.raises(InputError, match="the score must be finite, got nan"):
        conversation_trajectory(messages, "x", score=float("nan"))


def test_a_record_of_another_conversation_is_refused(tmp_path: Path) -> None:
    FORMATS["openai"].write([Exported(episode(turn(), turn()))], path := tmp_path / "out.jsonl", ORIGIN)
    line = json.loads(path.read_text())
    for messages, record, why in [
        (line["messages"][:2], line["turncredit"], "the record of 2 turns is not that of a conversation of 1"),
        (line["messages"], {**line["turncredit"], "stop": "tired"}, "stop must be one of terminated"),
        (line["messages"], {**line["turncredit"], "version": 2}, "version 2 of the format is unknown"),
        (line["messages"], [], "must hold the record of an episode"),
    ]:
        path.write_text(json.dumps({"messages": messages, "turncredit": record}))
        with pytest.raises(StoreError, match=why):
            list(FORMATS["openai"].read(path))


STEPS = [
    {"step_id": 1, "source": "system", "message": "Be brief."},
    {"step_id": 2, "source": "user", "message": "Fix the test."},
    {
        "step_id": 3,
        "source": "agent",
        "message": "",
        "reasoning_content": "I look.",
        "tool_calls": [{"tool_call_id": "a", "function_name": "bash", "arguments": {"command": "ls"}}],
        "observation": {"results": [{"source_call_id": "a", "content": "test.py"}]},
        "metrics": {"prompt_token_ids": [1, 2], "completion_token_ids": [3, 4], "logprobs": [-0.5, -0.25]},
    },
    {
        "step_id": 4,
        "source": "agent",
        "message": [
            {"type": "text", "text": "Done."},
            {"type": "image", "source": {"media_type": "image/png", "path": "x"}},
        ],
        "metrics": {"prompt_token_ids": [1, 2, 3, 4, 5], "completion_token_ids": [6], "logprobs": [-0.125]},
    },
]
DOCUMENT: dict[str, Any] = {
    "schema_version": "ATIF-v1.6",
    "session_id": "s",
    "agent": {"name": "other", "version": "1"},
    "steps": STEPS,
}


def harbor_trial(folder: Path, name: str, reward: float | None, failure: dict[str, str] | None = None) -> None:
    """A trial's folder, as Harbor writes it."""
    (folder / name / "agent").mkdir(parents=True)
    (folder / name / "verifier").mkdir()
    (folder / name / "agent" / "trajectory.json").write_text(json.dumps(DOCUMENT))
    (folder / name / "config.json").write_text('{"task": {"path": "x"}}')
    result: dict[str, Any] = {"task_name": "fix-test", "trial_name": name, "exception_info": failure}
    if reward is not None:
        result["verifier_result"] = {"rewards": {"reward": reward, "style": 0.5}}
    (folder / name / "result.json").write_text(json.dumps(result))


def test_the_job_of_a_harbor_agent_is_a_group(tmp_path: Path) -> None:
    harbor_trial(tmp_path, "fix-test__aaa", 1.0)
    harbor_trial(tmp_path, "fix-test__bbb", 0.25)
    harbor_trial(tmp_path, "fix-test__ccc", None, {"exception_type": "AgentTimeoutError", "exception_message": "600 s"})
    read = list(FORMATS["atif"].read(tmp_path))
    (group,) = grouped(item.trajectory for item in read)
    assert group.task == "fix-test"
    won, lost, failed = group.trajectories
    assert (won.id, won.won, won.reward, lost.won, lost.score) == ("fix-test__aaa", True, 1.0, False, 0.25)
    assert (failed.stop, failed.error, failed.won) == ("error", "AgentTimeoutError: 600 s", False)
    assert failed.reward == 0.0
    first, last = won.turns
    assert first.observation == "Be brief.\nFix the test."
    assert first.text == (
        '<think>\nI look.\n</think>\n\n<tool_call>\n{"name": "bash", "arguments": {"command": "ls"}}\n</tool_call>'
    )
    assert (last.observation, last.text) == ("test.py", "Done.")
    assert [turn.response for turn in won.turns] == [(3, 4), (6,)]
    assert [turn.logprobs for turn in won.turns] == [(-0.5, -0.25), (-0.125,)]
    assert steps_of([group]).column("tokens").tolist() == [2, 1, 2, 1]
    assert read[0].left_out == ("images",)


def test_the_reward_of_a_trial_may_lie_in_its_files(tmp_path: Path) -> None:
    harbor_trial(tmp_path, "fix-test__aaa", None)
    trial = tmp_path / "fix-test__aaa"
    (trial / "result.json").unlink()
    (trial / "verifier" / "reward.txt").write_text("0.5\n")
    (item,) = FORMATS["atif"].read(tmp_path)
    assert (item.trajectory.task, item.trajectory.score, item.scored) == ("fix-test", 0.5, True)
    (trial / "verifier" / "reward.json").write_text('{"tests": 1.0, "style": 0.5}')
    (item,) = FORMATS["atif"].read(tmp_path)
    assert item.trajectory.score == 0.75
    (trial / "verifier" / "reward.json").unlink()
    (trial / "verifier" / "reward.txt").write_text("good")
    with pytest.raises(StoreError, match=r"reward\.txt must hold a number, got 'good'"):
        list(FORMATS["atif"].read(tmp_path))


def test_a_trial_whose_context_was_summarized_is_one_episode(tmp_path: Path) -> None:
    """Its files are the trajectory, its continuation, and what subagents said, which is left out."""
    harbor_trial(tmp_path, "fix-test__aaa", 1.0)
    folder = tmp_path / "fix-test__aaa" / "agent"
    reference = {"session_id": "s-summary", "trajectory_path": "trajectory.summary.json"}
    handoff = {
        "source": "system",
        "message": "The context was summarized.",
        "observation": {"results": [{"subagent_trajectory_ref": [reference]}]},
    }
    first = {**DOCUMENT, "steps": [*STEPS[:3], handoff], "continued_trajectory_ref": "trajectory.cont-1.json"}
    copied = [{**STEPS[1], "message": "In short: fix the test.", "is_copied_context": True}]
    (folder / "trajectory.json").write_text(json.dumps(first))
    second = {**DOCUMENT, "steps": copied, "continued_trajectory_ref": "trajectory.cont-2.json"}
    (folder / "trajectory.cont-1.json").write_text(json.dumps(second))
    (folder / "trajectory.cont-2.json").write_text(json.dumps({**DOCUMENT, "steps": [STEPS[3]]}))
    (folder / "trajectory.summary.json").write_text(json.dumps({**DOCUMENT, "session_id": "s-summary"}))
    (item,) = FORMATS["atif"].read(tmp_path)
    assert (item.trajectory.id, item.trajectory.reward) == ("fix-test__aaa", 1.0)
    assert [turn.text.splitlines()[-1] for turn in item.trajectory.turns] == ["</tool_call>", "Done."]
    assert item.trajectory.turns[1].observation.endswith("The context was summarized.\n\nIn short: fix the test.")
    assert [turn.reward for turn in item.trajectory.turns] == [0.0, 1.0]
    assert "trajectories of subagents" in item.left_out
    assert "continuations that do not lie beside" not in item.left_out
    (item,) = FORMATS["atif"].read(folder / "trajectory.json")
    assert len(item.trajectory.turns) == 2


@pytest.mark.parametrize(
    ("name", "content", "why"),
    [
        ("trajectory.json", None, "trajectory.json continues itself"),
        ("more.json", "[]", "more.json, which continues it, is no ATIF document"),
        ("more.json", "{", "JSON"),
    ],
)
def test_a_continuation_that_cannot_be_read_is_one_sentence(
    name: str, content: str | None, why: str, tmp_path: Path
) -> None:
    (path := tmp_path / "trajectory.json").write_text(changed(continued_trajectory_ref=name))
    if content is not None:
        (tmp_path / name).write_text(content)
    with pytest.raises(StoreError, match=why) as error:
        list(FORMATS["atif"].read(path))
    assert len(str(error.value).splitlines()) == 1


@pytest.mark.parametrize("name", ["../trajectory.json", "/etc/hostname", "s3://bucket/x.json", "absent.json", "", 7])
def test_a_continuation_that_does_not_lie_beside_is_left_out(name: object, tmp_path: Path) -> None:
    (folder := tmp_path / "agent").mkdir()
    (tmp_path / "trajectory.json").write_text(json.dumps(DOCUMENT))
    (folder / "first.json").write_text(changed(continued_trajectory_ref=name))
    (item,) = FORMATS["atif"].read(folder)
    assert len(item.trajectory.turns) == 2
    assert ("continuations that do not lie beside" in item.left_out) == bool(name)


def changed(**fields: Any) -> str:
    return json.dumps({**DOCUMENT, **fields})


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("{", "not valid JSON|JSON"),
        ("[]", "an ATIF document is an object, got list"),
        (changed(schema_version="ATIF-v2.0"), r"schema_version must be ATIF-v1\.0 to ATIF-v1\.8, got 'ATIF-v2\.0'"),
        (changed(steps=7), "steps must be a list of objects, got 7"),
        (changed(steps=[]), "no answer of an assistant"),
        (changed(steps=[{"source": "narrator", "message": "x"}]), "unknown role 'narrator'"),
        (changed(steps=[{"source": "agent", "message": {}}]), "the content of a message must be text, got dict"),
        (changed(steps=[{"source": "agent", "message": "", "tool_calls": [{}]}]), "must have a function_name"),
    ],
)
def test_other_documents_are_one_sentence(text: str, why: str, tmp_path: Path) -> None:
    (path := tmp_path / "trajectory.json").write_text(text)
    with pytest.raises(StoreError, match=why) as error:
        list(FORMATS["atif"].read(path))
    assert len(str(error.value).splitlines()) == 1


def test_steps_without_a_model_are_not_imitated(tmp_path: Path) -> None:
    steps = [
        *STEPS[:2],
        {**STEPS[2], "is_copied_context": True},
        {"source": "agent", "message": "x", "llm_call_count": 0},
    ]
    (path := tmp_path / "trajectory.json").write_text(changed(steps=[*steps, STEPS[3]]))
    (item,) = FORMATS["atif"].read(path)
    assert item.mistakes == {0, 1}
    assert "token ids that lack a prompt, an answer or a log-probability" in item.left_out
    assert [turn.response for turn in item.trajectory.turns] == [(), (), ()]


def test_a_session_of_another_harness(tmp_path: Path) -> None:
    call = {"id": "t1", "function": {"name": "get_time", "arguments": "{}"}}
    lines = [
        {"type": "session", "harness": "other", "id": "abc", "name": "what time is it"},
        {"type": "message", "message": {"role": "user", "content": "what time is it?", "timestamp": 1}},
        {"type": "message", "message": {"role": "assistant", "content": "", "toolCalls": [call], "model": "m"}},
        {"type": "message", "message": {"role": "tool", "toolCallId": "t1", "content": "15:00"}},
        {"type": "message", "message": {"role": "assistant", "content": "It is 15:00.", "reasoningContent": "Easy."}},
        {"type": "session", "harness": "other", "id": "def"},
        {"type": "message", "message": {"role": "assistant", "content": "Hello."}},
    ]
    (path := tmp_path / "session.jsonl").write_text("\n".join(map(json.dumps, lines)))
    first, second = FORMATS["sts"].read(path)
    assert (first.trajectory.id, second.trajectory.id, first.scored) == ("abc", "def", False)
    assert [(turn.observation, turn.text) for turn in first.trajectory.turns] == [
        ("what time is it?", '<tool_call>\n{"name": "get_time", "arguments": {}}\n</tool_call>'),
        ("15:00", "<think>\nEasy.\n</think>\n\nIt is 15:00."),
    ]
    path.write_text(json.dumps(lines[1]))
    with pytest.raises(StoreError, match='line 1: expected a header with "type": "session"'):
        list(FORMATS["sts"].read(path))


def test_an_imported_folder_is_imitated_without_its_mistakes(tmp_path: Path) -> None:
    messages = [
        ChatMessage("user", "a"),
        ChatMessage("assistant", "no", imitated=False),
        ChatMessage("user", "c"),
        ChatMessage("assistant", "Action: d"),
    ]
    with ImportedFolder(tmp_path / "run") as folder:
        folder.write(conversation_trajectory(messages, "x", score=1.0))
        folder.write(conversation_trajectory(messages, "x", score=1.0))
    first, second = read_demonstrations(tmp_path / "run", Agent().parse)
    assert (first.trajectory.id, second.trajectory.id) == ("x", "x/2")
    assert first.mistakes == {0}
    assert [turn.extras[IMITATED] for turn in first.trajectory.turns] == [0, 1]
    assert [turn.action for turn in first.trajectory.turns] == ["no", "Action: d"]


def test_output_is_whole_or_absent(tmp_path: Path) -> None:
    def broken() -> Any:
        yield Exported(episode(turn()))
        raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space"), whole_output(tmp_path / "out") as part:
        FORMATS["sts"].write(broken(), part, ORIGIN)
    assert list(tmp_path.iterdir()) == []
    with whole_output(tmp_path / "out") as part:
        FORMATS["sts"].write([Exported(episode(turn()))], part, ORIGIN)
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["000000-t-0-0.jsonl"]
    with pytest.raises(StoreError, match="exists already"), whole_output(tmp_path / "out"):
        pass
    with pytest.raises(StoreError, match=r"the folder .* does not exist"), whole_output(tmp_path / "no" / "out"):
        pass


def test_a_large_data_set_has_several_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("polars")
    monkeypatch.setattr("turncredit.agents.interchange.hub_dataset.SHARD", 100)
    played = [episode(turn("x" * 30), name=f"t#{number}@0") for number in range(4)]
    FORMATS["hf"].write([Exported(trajectory) for trajectory in played], tmp_path / "out", ORIGIN)
    names = sorted(path.name for path in (tmp_path / "out" / "data").iterdir())
    assert names == ["train-00000-of-00002.parquet", "train-00001-of-00002.parquet"]
    assert [item.trajectory for item in FORMATS["hf"].read(tmp_path / "out")] == played
    assert "4 episodes, 4 won, 4 answers" in (tmp_path / "out" / "README.md").read_text()


def test_links_out_of_a_folder_from_elsewhere_are_not_followed(tmp_path: Path) -> None:
    secret, folder = tmp_path / "secret.json", tmp_path / "folder"
    secret.write_text(json.dumps({"schema_version": "ATIF-v1.6", "steps": []}), encoding="utf-8")
    agent, verifier = folder / "trial" / "agent", folder / "trial" / "verifier"
    agent.mkdir(parents=True)
    verifier.mkdir()
    (agent / "more.json").symlink_to(secret)
    first = agent / "trajectory.json"
    with pytest.raises(InputError, match=r"more\.json is a link"):
        continued({"steps": [], CONTINUED: "more.json"}, first, check=lambda document: document)
    first.write_text(json.dumps({"steps": [], CONTINUED: "more.json"}), encoding="utf-8")
    assert referenced_files([first]) == frozenset()
    with pytest.raises(StoreError, match=r"more\.json is a link that leads out"):
        files_in(folder, ".json")
    (agent / "more.json").unlink()
    (agent / "again.json").symlink_to(first)  # it stays
    assert [file.name for file in files_in(folder, ".json")] == ["again.json", "trajectory.json"]
    reward = verifier / "reward.txt"
    reward.symlink_to(secret)
    with pytest.raises(InputError, match=r"reward\.txt is a link"):
        trial_of(first)
    reward.unlink()
    reward.write_text("0.5", encoding="utf-8")
    trial = trial_of(first)
    assert trial is not None
    assert trial.reward == 0.5
    (folder / "trial" / "result.json").symlink_to(secret)
    with pytest.raises(InputError, match=r"result\.json is a link"):
        trial_of(first)


def test_files_of_a_snapshot_in_the_cache_of_the_hub_are_read(tmp_path: Path) -> None:
    blobs, snapshot = tmp_path / "datasets--a" / "blobs", tmp_path / "datasets--a" / "snapshots" / "0123"
    blobs.mkdir(parents=True)
    snapshot.mkdir(parents=True)
    (blobs / "45").write_text("{}", encoding="utf-8")
    (snapshot / "train.json").symlink_to("../../blobs/45")
    assert files_in(snapshot, ".json") == [snapshot / "train.json"]
