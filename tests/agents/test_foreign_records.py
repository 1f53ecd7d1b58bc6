"""What the records of other programs become: results in the order of calls, outcomes as stated, parts of messages."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from turncredit.agents.errors import StoreError
from turncredit.agents.interchange import openhands, swe_agent, tau_results
from turncredit.agents.interchange.conversations import Demonstration, messages_of
from turncredit.agents.interchange.formats import FORMATS
from turncredit.agents.interchange.records import Exported, Origin

ASK = {"role": "user", "content": "Which?"}
END = {"role": "assistant", "content": "Done."}


def calling(*ids: str) -> dict[str, Any]:
    calls = [{"id": id, "type": "function", "function": {"name": f"get_{id}", "arguments": "{}"}} for id in ids]
    return {"role": "assistant", "content": None, "tool_calls": calls}


def result(id: str, text: str) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": id, "content": text}


def read(path: Path, record: object, name: str = "openai", file: str = "x.jsonl") -> Demonstration:
    (path / file).write_text(json.dumps(record))
    (item,) = FORMATS[name].read(path / file)
    return item


def atif(*steps: dict[str, Any], **fields: Any) -> dict[str, Any]:
    numbered = [{"step_id": number, **step} for number, step in enumerate(steps, 1)]
    return {"schema_version": "ATIF-v1.6", "agent": {"name": "x", "version": "1"}, "steps": numbered, **fields}


def atif_calling(*ids: str, results: list[tuple[str, str]], **fields: Any) -> dict[str, Any]:
    calls = [{"tool_call_id": id, "function_name": f"get_{id}", "arguments": {}} for id in ids]
    found = [{"source_call_id": id, "content": text} for id, text in results]
    return {"source": "agent", "message": "", "tool_calls": calls, "observation": {"results": found}, **fields}


def test_results_stand_in_the_order_of_their_calls(tmp_path: Path) -> None:
    chat = {"messages": [ASK, calling("c1", "c2"), result("c2", "TWO"), result("c1", "ONE"), END]}
    document = atif(
        {"source": "user", "message": "Which?"},
        atif_calling("c1", "c2", results=[("c2", "TWO"), ("c1", "ONE")]),
        {"source": "agent", "message": "Done."},
    )
    for item in (read(tmp_path, chat), read(tmp_path, document, "atif", "x.json")):
        first, last = item.trajectory.turns
        assert (last.observation, last.results, first.results) == ("ONE\nTWO", ("ONE", "TWO"), ())
        roles = [(message.role, message.content) for message in messages_of(item.trajectory)][2:4]
        assert roles == [("tool", "ONE"), ("tool", "TWO")]


@pytest.mark.parametrize(
    ("messages", "why"),
    [
        ([ASK, calling("a", "a"), result("a", "1"), END], "two calls of answer 1 have the id 'a'"),
        ([ASK, calling("a", "b"), result("a", "1"), result("a", "2"), END], "two results of answer 1 have the id 'a'"),
        ([ASK, calling("a"), result("b", "1"), END], "the id 'b' of a call; it follows answer 1, whose calls are 'a'"),
        ([ASK, END, result("b", "1"), END], "the id 'b' of a call; it follows answer 1, whose calls are none"),
        ([result("b", "1"), END], "the id 'b' of a call; it follows no answer"),
        ([ASK, calling("a"), result("a", "1"), END, result("a", "1")], "it follows answer 2, whose calls are none"),
    ],
)
def test_a_result_that_answers_no_call_is_refused(messages: list[Any], why: str, tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=why):
        read(tmp_path, {"messages": messages})


def test_results_without_ids_answer_the_calls_in_order(tmp_path: Path) -> None:
    call = {"function": {"name": "get", "arguments": {}}}
    talk = [
        ASK,
        {"role": "assistant", "content": "", "tool_calls": [call, call]},
        {"role": "tool", "content": "ONE"},
        {"role": "tool", "content": "TWO"},
        END,
    ]
    assert read(tmp_path, {"messages": talk}).trajectory.turns[1].results == ("ONE", "TWO")
    talk.insert(4, ASK)  # more than results is one observation
    turn = read(tmp_path, {"messages": talk}).trajectory.turns[1]
    assert (turn.observation, turn.results) == ("ONE\nTWO\nWhich?", ())


@pytest.mark.parametrize(
    ("fields", "reward", "score", "won"),
    [
        ({"won": True, "reward": -1.0}, -1.0, 1.0, True),
        ({"won": False, "reward": 0.4}, 0.4, 0.4, False),
        ({"won": False, "reward": 7}, 7.0, 0.0, False),
        ({"resolved": False}, 0.0, 0.0, False),
        ({"resolved": True}, 1.0, 1.0, True),
        ({"rewards": [0.0]}, 0.0, 0.0, False),
        ({"rewards": [0.25, 0.5]}, 0.75, 0.75, False),
        ({"metadata": {"reward": 0}}, 0.0, 0.0, False),
        ({"info": {"score": 0.5}, "reward": 3}, 3.0, 0.5, False),
        ({"success": "False"}, 0.0, 0.0, False),
        ({"score": "0.25"}, 0.25, 0.25, False),
        ({"reward": {"style": 1}}, 1.0, 1.0, True),  # nothing is stated
        ({}, 1.0, 1.0, True),
    ],
)
def test_an_outcome_is_what_the_record_states(
    fields: dict[str, Any], reward: float, score: float, won: bool, tmp_path: Path
) -> None:
    item = read(tmp_path, {"messages": [ASK, END], **fields})
    assert (item.trajectory.reward, item.trajectory.score, item.trajectory.won) == (reward, score, won)
    assert item.scored == (fields not in ({}, {"reward": {"style": 1}}))


def test_rewards_of_answers_are_theirs(tmp_path: Path) -> None:
    item = read(tmp_path, {"messages": [ASK, END, ASK, END], "rewards": [0.25, -1]})
    assert [turn.reward for turn in item.trajectory.turns] == [0.25, -1.0]


def test_an_outcome_that_is_a_word_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="score must be a number, true or false, got 'good'"):
        read(tmp_path, {"messages": [ASK, END], "score": "good"})


def test_a_call_of_2023_is_a_call(tmp_path: Path) -> None:
    call = {"role": "assistant", "content": None, "function_call": {"name": "get", "arguments": '{"x": 1}'}}
    item = read(tmp_path, {"messages": [ASK, call, {"role": "function", "name": "get", "content": "1"}, END]})
    first, last = item.trajectory.turns
    assert first.text == '<tool_call>\n{"name": "get", "arguments": {"x": 1}}\n</tool_call>'
    assert last.results == ("1",)


@pytest.mark.parametrize("mark", [{"train": False}, {"training": False}, {"loss": False}, {"weight": 0}])
def test_answers_without_training_are_not_imitated(mark: dict[str, Any], tmp_path: Path) -> None:
    messages = [ASK, {**END, **mark}, ASK, {**END, **dict.fromkeys(mark, True)}]
    assert read(tmp_path, {"messages": messages}).mistakes == {0}


def test_a_system_message_beside_the_messages_is_the_first(tmp_path: Path) -> None:
    item = read(tmp_path, {"system": "Be brief.", "messages": [ASK, END]})
    assert item.trajectory.turns[0].observation == "Be brief.\nWhich?"
    twice = {"system": "Be brief.", "messages": [{"role": "system", "content": "Be brief."}, ASK, END]}
    assert read(tmp_path, twice).trajectory.turns[0].observation == "Be brief.\nWhich?"


def test_the_kind_of_a_task_makes_no_group(tmp_path: Path) -> None:
    hermes = {"id": "7f", "category": "Code", "task": "Debugging", "tools": "[{}]", "conversations": [ASK, END]}
    item = read(tmp_path, hermes, "sharegpt")
    assert (item.trajectory.task, item.trajectory.task_type, item.left_out) == (
        "7f",
        "Debugging",
        ("tool definitions",),
    )
    verifiers = {"example_id": 3, "task": "math", "prompt": "2+2?", "completion": "4", "reward": 1.0}
    item = read(tmp_path, verifiers, "completions")
    assert (item.trajectory.task, item.trajectory.task_type) == ("3", "math")
    ours = {"id": "t#0@5", "task": "t", "task_type": "find", "seed": 5, "messages": [ASK, END]}
    item = read(tmp_path, ours)
    assert (item.trajectory.id, item.trajectory.task, item.trajectory.task_type) == ("t#0@5", "t", "find")


def test_parts_of_messages_are_read_or_counted(tmp_path: Path) -> None:
    image = {"type": "image_url", "image_url": {"url": "data:"}}
    item = read(tmp_path, {"messages": [{"role": "user", "content": [{"type": "text", "text": "See"}, image]}, END]})
    assert (item.trajectory.turns[0].observation, item.left_out) == ("See", ("images",))
    anthropic = [
        {"role": "user", "content": "Which?"},
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "Hm.", "signature": "x"},
                {"type": "text", "text": "I look."},
                {"type": "tool_use", "id": "a", "name": "look", "input": {"at": 1}},
                {"type": "tool_use", "id": "b", "name": "look", "input": {"at": 2}},
            ],
        },
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "b", "content": [{"type": "text", "text": "TWO"}]},
                {"type": "tool_result", "tool_use_id": "a", "content": "ONE"},
            ],
        },
        {"role": "assistant", "content": [{"type": "text", "text": "Done."}]},
    ]
    first, last = read(tmp_path, {"messages": anthropic}).trajectory.turns
    assert first.text == (
        "<think>\nHm.\n</think>\n\nI look.\n"
        '<tool_call>\n{"name": "look", "arguments": {"at": 1}}\n</tool_call>\n'
        '<tool_call>\n{"name": "look", "arguments": {"at": 2}}\n</tool_call>'
    )
    assert (last.results, last.text) == (("ONE", "TWO"), "Done.")


def test_messages_may_be_json_in_a_text(tmp_path: Path) -> None:
    assert read(tmp_path, {"messages": json.dumps([ASK, END])}).trajectory.turns[0].text == "Done."
    item = read(tmp_path, {"conversations": json.dumps([{"from": "human", "value": "a"}, END])}, "sharegpt")
    assert item.trajectory.turns[0].observation == "a"


def test_several_calls_of_sharegpt(tmp_path: Path) -> None:
    calls = '[{"name": "a", "arguments": {}}, {"name": "b", "arguments": {"x": 1}}]'
    item = read(tmp_path, {"conversations": [{"from": "function_call", "value": calls}]}, "sharegpt")
    assert item.trajectory.turns[0].text.count("<tool_call>") == 2


def fork_and_document(tmp_path: Path) -> tuple[Any, dict[str, Any]]:
    from toys.report_runs import episode, turn

    turns = [turn(0, "a"), turn(1, "b"), turn(2, "c")]
    fork = episode("t", 0, turns, True, fork_of="t#1@5", fork_turn=1, fork_tokens=1)
    FORMATS["atif"].write([Exported(fork)], tmp_path / "out", Origin("run"))
    (file,) = (tmp_path / "out").iterdir()
    return fork, json.loads(file.read_text())


def test_totals_count_what_was_sampled(tmp_path: Path) -> None:
    """Prompts have 3, 7 and 11 tokens, answers 2; the first turn and one token of the second are the parent's."""
    fork, document = fork_and_document(tmp_path)
    totals = document["final_metrics"]
    assert (totals["total_prompt_tokens"], totals["total_completion_tokens"]) == (18, fork.sampled_tokens)
    assert fork.sampled_tokens == 3
    answers = [step for step in document["steps"] if step["source"] == "agent"]
    assert [("metrics" in step, step.get("is_copied_context", False)) for step in answers] == [
        (False, True),
        (True, False),
        (True, False),
    ]
    assert [step["metrics"]["completion_tokens"] for step in answers[1:]] == [1, 2]
    (item,) = FORMATS["atif"].read(tmp_path / "out")
    assert item.trajectory == fork


@pytest.mark.parametrize(
    ("document", "why"),
    [
        (
            {**atif(), "schema_version": "ATIF-v1.9"},
            r"schema_version must be ATIF-v1\.0 to ATIF-v1\.8, got 'ATIF-v1\.9'",
        ),
        ({**atif(), "schema_version": "ATIF-v1.10"}, "got 'ATIF-v1.10'"),
        ({**atif(), "schema_version": None}, "got None"),
        (
            atif({"source": "user", "message": "a"}, {"step_id": 1, "source": "agent"}),
            "must grow from 1, got 1 after 1",
        ),
        (
            atif({"source": "agent", "message": "a", "metrics": [1]}),
            "the metrics of step 1 must be an object, got list",
        ),
        (atif(atif_calling("a", results=[("b", "x")])), "the id 'b' of a call; it follows answer 1"),
    ],
)
def test_documents_that_are_refused(document: dict[str, Any], why: str, tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=why):
        read(tmp_path, document, "atif", "x.json")


def test_what_swe_agents_wrote(tmp_path: Path) -> None:
    item = read(tmp_path, swe_agent.EXAMPLE, "swe-agent", "astropy__astropy-1.traj")
    played = item.trajectory
    assert (played.id, played.task, item.scored, item.mistakes) == (
        "astropy__astropy-1",
        "astropy__astropy-1",
        False,
        {0},
    )
    assert [turn.text.partition("\n")[0] for turn in played.turns] == ["ls -a", "I look.", "submit"]
    assert [turn.observation for turn in played.turns] == ["You fix issues.", "Fix it.", "setup.py"]
    mini = read(tmp_path, swe_agent.MINI_EXAMPLE, "mini-swe-agent", "astropy__astropy-2.traj.json").trajectory
    assert (mini.id, mini.stop, mini.score, mini.won) == ("astropy__astropy-2", "truncated", 0.0, False)
    assert mini.final_observation == "<output>\nsetup.py\n</output>\nLimitsExceeded"


@pytest.mark.parametrize("example", [openhands.EXAMPLE, openhands.SDK_EXAMPLE])
def test_what_openhands_wrote(example: dict[str, Any], tmp_path: Path) -> None:
    item = read(tmp_path, example, "openhands", "output.jsonl")
    first, last = item.trajectory.turns
    assert first.observation == "You fix issues.\nFix it."
    assert first.text.splitlines()[0] == "I look."
    assert '"arguments": {"command": "ls"}}' in first.text
    assert (last.observation, last.results) == ("setup.py", ("setup.py",))
    assert "Done." in last.text
    assert (item.trajectory.task, item.trajectory.won) == (example["instance_id"], example is openhands.SDK_EXAMPLE)
    assert item.scored == (example is openhands.EXAMPLE)


def test_actions_of_one_answer_are_its_calls(tmp_path: Path) -> None:
    (action,) = (event for event in openhands.SDK_EXAMPLE["history"] if event["kind"] == "ActionEvent")
    second = {**action, "tool_call_id": "c2", "thought": [], "tool_call": {**action["tool_call"], "id": "c2"}}
    results = [
        {"kind": "ObservationEvent", "tool_call_id": id, "observation": {"content": [{"text": id}]}}
        for id in ("c2", "c1")
    ]
    history = [*openhands.SDK_EXAMPLE["history"][:2], action, second, *results, openhands.SDK_EXAMPLE["history"][-1]]
    item = read(tmp_path, {"instance_id": "x", "history": history}, "openhands", "output.jsonl")
    first, last = item.trajectory.turns
    assert (first.text.count("<tool_call>"), last.results) == (2, ("c1", "c2"))


def test_what_tau_wrote(tmp_path: Path) -> None:
    failed = {"task_id": 3, "reward": 0.0, "info": {"error": "no key"}, "traj": [], "trial": 2}
    (tmp_path / "results.json").write_text(json.dumps([tau_results.EXAMPLE, failed]))
    first, second = (item.trajectory for item in FORMATS["tau"].read(tmp_path))
    assert [(one.id, one.task, one.reward, one.stop) for one in (first, second)] == [
        ("3#1", "3", 0.0, "terminated"),
        ("3#2", "3", 0.0, "error"),
    ]
    assert [(turn.observation, turn.results) for turn in first.turns] == [
        ("The policy.\nCancel my order.", ()),
        ("cancelled", ("cancelled",)),
    ]
    item = read(tmp_path, tau_results.TAU2_EXAMPLE, "tau", "tau2.json")
    played = item.trajectory
    assert (played.id, played.task_type, played.won, item.mistakes) == ("roaming#0", "telecom", True, {0})
    assert [turn.results for turn in played.turns] == [(), (), ("one", "two")]
    assert played.final_observation == "Thank you. ###STOP###"
    assert "tool calls of the simulated user" in item.left_out


def test_the_name_of_an_image_is_its_key_and_no_path(tmp_path: Path) -> None:
    """A row of others must not name a file elsewhere that an import would write."""
    from toys.report_runs import episode, turn

    FORMATS["openai"].write([Exported(episode("t", 0, [turn(0, "a")], True))], tmp_path / "x.jsonl", Origin("run"))
    record = json.loads((tmp_path / "x.jsonl").read_text())
    for key, why in [("../../elsewhere", "32 hexadecimal digits"), ("0" * 32, "is missing")]:
        record["turncredit"]["turns"][0]["images"] = [key]
        record["images"] = [{"bytes": "data:;base64,aGVsbG8=", "path": "../../elsewhere.png"}]
        with pytest.raises(StoreError, match=why):
            read(tmp_path, record)
