"""Demonstrations as other programs write them: messages become turns, and what they leave out is not imitated."""

import gzip
import json
from pathlib import Path

import pytest

from turncredit.agents.agent import Agent
from turncredit.agents.demonstrations.files import read_demonstrations
from turncredit.agents.errors import StoreError
from turncredit.agents.files.trajectory_files import TrajectoryWriter

TURNS = [("Be brief.\nYou see a door.", "open door"), ("It is open.", "go east")]
CHAT = {
    "messages": [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": [{"type": "text", "text": "You see a door."}]},
        {"role": "assistant", "content": "open door"},
        {"role": "user", "content": "It is open."},
        {"role": "assistant", "content": "go east"},
        {"role": "user", "content": "The end."},
    ]
}
SHAREGPT = {
    "id": "identity_0",
    "system": "Be brief.",
    "conversations": [
        {"from": "human", "value": "You see a door."},
        {"from": "gpt", "value": "open door"},
        {"from": "human", "value": "It is open."},
        {"from": "gpt", "value": "go east"},
    ],
}
AGENTGYM = {
    "item_id": "alfworld_12",
    "conversations": [
        {"from": "human", "loss": None, "value": "Interact with a household."},
        {"from": "gpt", "loss": False, "value": "OK"},
        {"from": "human", "loss": None, "value": "You are in a room."},
        {"from": "gpt", "loss": True, "value": "Thought:\nI look.\n\nAction:\nlook"},
    ],
}
TRL = {"prompt": [{"role": "user", "content": "You see a door."}], "completion": "open door"}
ALPACA = {"instruction": "Say what you do.", "input": "You see a door.", "output": "open door"}


def written(path: Path, *rows: dict) -> Path:
    path.write_text("\n".join(map(json.dumps, rows)))
    return path


def read(path: Path, parser: str = "whole", count: int | None = None):
    return read_demonstrations(path, Agent(parser=parser).parse, count)


@pytest.mark.parametrize(
    ("row", "turns"),
    [
        (CHAT, TURNS),
        (SHAREGPT, TURNS),
        (TRL, [("You see a door.", "open door")]),
        (ALPACA, [("Say what you do.\n\nYou see a door.", "open door")]),
    ],
)
def test_messages_become_turns(row: dict, turns: list, tmp_path: Path) -> None:
    (one,) = read(written(tmp_path / "chats.jsonl", row))
    assert [(turn.observation, turn.text) for turn in one.trajectory.turns] == turns
    assert [turn.action for turn in one.trajectory.turns] == [text for _, text in turns]
    assert (one.trajectory.won, one.trajectory.finished, one.mistakes) == (True, True, frozenset())
    assert one.trajectory.final_observation == ("The end." if row is CHAT else "")


def test_answers_without_loss_stay_as_context(tmp_path: Path) -> None:
    (path := tmp_path / "alfworld_train.json").write_text(
        json.dumps([AGENTGYM, {**AGENTGYM, "item_id": "alfworld_13"}])
    )
    one, other = read(path)
    assert (one.trajectory.id, one.trajectory.task, other.trajectory.id) == (
        "alfworld_12",
        "alfworld_12",
        "alfworld_13",
    )
    assert [turn.observation for turn in one.trajectory.turns] == ["Interact with a household.", "You are in a room."]
    assert one.mistakes == {0}
    weighted = {
        "messages": [{"role": "assistant", "content": "no", "weight": 0}, {"role": "assistant", "content": "yes"}]
    }
    (one,) = read(written(tmp_path / "openai.jsonl", weighted))
    assert ([turn.text for turn in one.trajectory.turns], one.mistakes) == (["no", "yes"], {0})


def test_tool_calls_and_reasoning_are_part_of_the_answer(tmp_path: Path) -> None:
    call = {"id": "a", "type": "function", "function": {"name": "find", "arguments": '{"shelf": 9}'}}
    row = {
        "messages": [
            {"role": "user", "content": "Where?"},
            {"role": "assistant", "content": None, "reasoning_content": "I look it up.", "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "a", "content": "40"},
            {"role": "assistant", "content": "It is 40."},
        ]
    }
    (one,) = read(written(tmp_path / "tools.jsonl", row))
    assert [turn.text for turn in one.trajectory.turns] == [
        '<think>\nI look it up.\n</think>\n\n<tool_call>\n{"name": "find", "arguments": {"shelf": 9}}\n</tool_call>',
        "It is 40.",
    ]
    factory = {"conversations": [{"from": "function_call", "value": '{"name": "find", "arguments": {"shelf": 9}}'}]}
    (other,) = read(written(tmp_path / "factory.jsonl", factory))
    assert other.trajectory.turns[0].text == '<tool_call>\n{"name": "find", "arguments": {"shelf": 9}}\n</tool_call>'


def test_a_stated_score_is_kept(tmp_path: Path) -> None:
    rows = [{**CHAT, "reward": 0.4}, {**CHAT, "success": False}, {**CHAT, "score": 1}]
    read_back = read(written(tmp_path / "chats.jsonl", *rows))
    assert [(one.trajectory.score, one.trajectory.won) for one in read_back] == [
        (0.4, False),
        (0.0, False),
        (1.0, True),
    ]


@pytest.mark.parametrize("more", [{"version": "1.0"}, {"turns": 2}, {"version": 1, "turns": [], "id": 3}])
def test_a_conversation_may_have_keys_of_a_trajectory(more: dict[str, object], tmp_path: Path) -> None:
    (demonstration,) = read(written(tmp_path / "chats.jsonl", {**CHAT, **more}))
    (plain,) = read(written(tmp_path / "plain.jsonl", CHAT))
    assert demonstration.trajectory.turns == plain.trajectory.turns


def test_any_container_and_our_own_trajectories_are_read(tmp_path: Path) -> None:
    (path := tmp_path / "chats.jsonl.gz").write_bytes(
        gzip.compress(f"{json.dumps(CHAT)}\n{json.dumps(SHAREGPT)}".encode())
    )
    first, second = read(path)
    assert (first.trajectory.id, second.trajectory.id) == ("line_1", "identity_0")
    assert len(read(path, count=1)) == 1
    polars = pytest.importorskip("polars")
    polars.DataFrame([SHAREGPT]).write_parquet(tmp_path / "chats.parquet")
    assert read(tmp_path / "chats.parquet")[0].trajectory.turns == second.trajectory.turns
    with TrajectoryWriter(tmp_path / "own.jsonl.gz") as writer:
        writer.write(first.trajectory)
    assert [one.trajectory for one in read(tmp_path / "own.jsonl.gz")] == [first.trajectory]


@pytest.mark.parametrize(
    ("row", "sentence"),
    [
        ({"chosen": "a", "rejected": "b"}, r"line 1: expected a demonstration as in chat \(messages\); ShareGPT and"),
        ({"messages": "text"}, "the messages must be a list of objects"),
        ({"messages": [{"role": "user", "content": "hi"}]}, "no answer of an assistant"),
        ({"messages": [{"role": "narrator", "content": "hi"}]}, "unknown role 'narrator'"),
        ({"messages": [{"role": "user", "content": [7]}]}, "a part of a message must be text or an object, got int"),
        ({"messages": [{"role": "assistant", "content": "", "tool_calls": [{"function": {}}]}]}, "must have a name"),
    ],
)
def test_other_records_are_one_sentence(row: dict, sentence: str, tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=sentence) as error:
        read(written(tmp_path / "chats.jsonl", row))
    assert len(str(error.value).splitlines()) == 1


def test_answers_of_another_parser_are_told(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"none of the 2 answers .* contains an action in the form of agent\.parser"):
        read(written(tmp_path / "chats.jsonl", CHAT), parser="think-action")
