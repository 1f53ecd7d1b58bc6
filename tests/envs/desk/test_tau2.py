"""The reader of tau2-bench's data: files as published, scores as its evaluators give, and one sentence for the rest."""

from __future__ import annotations

import hashlib
import json
import sys
import types
from pathlib import Path
from typing import Any

import pytest

from turncredit.envs import EnvError, UnknownOption, UnknownTask
from turncredit.envs.desk.tau2 import Tau2Action, databases_match, read_tau2, score_tau2
from turncredit.tools.functions import Call

FIND = {"action_id": "0_0", "name": "find_order", "arguments": {"order_id": "#1"}, "info": None}
CANCEL = {
    "action_id": "0_1",
    "name": "cancel",
    "arguments": {"order_id": "#1", "why": "x"},
    "compare_args": ["order_id"],
}
RESTART = {"action_id": "0_2", "requestor": "user", "name": "restart", "arguments": {}}
SCENARIO = {
    "persona": "Curt.",
    "instructions": {"reason_for_call": "Cancel it.", "known_info": "#1", "unknown_info": None},
}
TASKS = [
    {
        "id": "0",
        "user_scenario": SCENARIO,
        "evaluation_criteria": {"actions": [FIND, CANCEL, RESTART], "communicate_info": ["1200"]},
    },
    {
        "id": "1",
        "user_scenario": {"instructions": "Say nothing."},
        "evaluation_criteria": {"actions": [], "nl_assertions": ["Was kind."], "reward_basis": ["DB", "NL_ASSERTION"]},
    },
]
DATABASE = {"orders": {"#1": {"state": "sent"}}}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    place = tmp_path / "shop"
    place.mkdir()
    (place / "tasks.json").write_text(json.dumps(TASKS))
    (place / "db.json").write_text(json.dumps(DATABASE))
    (place / "policy.md").write_text("Be kind.")
    (place / "split_tasks.json").write_text(json.dumps({"train": ["0"], "test": ["1"]}))
    return place


def test_a_domain_is_read(folder: Path) -> None:
    domain = read_tau2(folder)
    assert (domain.name, domain.policy, domain.database) == ("shop", "Be kind.", DATABASE)
    assert [task.id for task in domain.split("test")] == ["1"]
    task = domain.task("0")
    assert task.scenario == "Persona: Curt.\nReason for call: Cancel it.\nKnown info: #1"
    assert [(action.call.name, action.by_user) for action in task.actions] == [
        ("find_order", False),
        ("cancel", False),
        ("restart", True),
    ]
    assert task.basis == ("DB", "COMMUNICATE")
    assert domain.task("1").scenario == "Say nothing."
    assert domain.digest == hashlib.sha256(json.dumps(DATABASE, sort_keys=True).encode()).hexdigest()
    with pytest.raises(UnknownTask, match="unknown task '7'"):
        domain.task("7")
    with pytest.raises(UnknownOption, match="unknown split 'dev' of shop"):
        domain.split("dev")


def test_a_database_in_toml_and_another_policy(folder: Path) -> None:
    (folder / "db.json").unlink()
    (folder / "policy.md").rename(folder / "main_policy.md")
    (folder / "split_tasks.json").unlink()
    (folder / "db.toml").write_text('[[plans]]\nid = "P1"\n')
    domain = read_tau2(folder)
    assert domain.database == {"plans": [{"id": "P1"}]}
    assert domain.splits == {}


def test_calls_and_messages_are_scored(folder: Path) -> None:
    task = read_tau2(folder).task("0")
    right = [action.call for action in task.actions]
    score = score_tau2(task, right, ["That is $1,200 in all."])
    assert (score.actions, score.communicated, score.database, score.reward) == ((True,) * 3, (True,), True, 1.0)
    silent = score_tau2(task, right, ["Done."])
    assert (silent.communicated, silent.reward) == ((False,), 0.0)
    other = score_tau2(task, [*right, Call("find_order", {"order_id": "#2"})], ["1200"])
    assert (other.actions, other.database, other.unjudged, other.reward) == ((True,) * 3, None, ("DB",), None)
    assert score_tau2(task, [], ["1200"], database=False).reward == 0.0
    kind = score_tau2(read_tau2(folder).task("1"), [], [])
    assert (kind.database, kind.unjudged, kind.reward) == (True, ("NL_ASSERTION",), None)


BASIS = ["DB", "COMMUNICATE", "ACTION", "ENV_ASSERTION", "NL_ASSERTION"]


@pytest.mark.parametrize("basis", [BASIS, *([name] for name in BASIS)], ids=str)
@pytest.mark.parametrize(
    ("criteria", "needs"),
    [
        ({}, ()),
        ({"nl_assertions": ["Was kind."]}, ("NL_ASSERTION",)),
        ({"env_assertions": [{"func_name": "is_open"}]}, ("ENV_ASSERTION",)),
    ],
)
def test_a_part_with_nothing_to_judge_is_one(
    folder: Path, basis: list[str], criteria: dict[str, Any], needs: tuple[str, ...]
) -> None:
    entry = {"id": "5", "user_scenario": SCENARIO, "evaluation_criteria": {"reward_basis": basis, **criteria}}
    (folder / "tasks.json").write_text(json.dumps([entry]))
    score = score_tau2(read_tau2(folder).task("5"), [], [])
    expected = tuple(name for name in basis if name in needs)
    assert (score.unjudged, score.reward) == (expected, None if expected else 1.0)


def test_a_policy_in_components_and_tasks_in_files(folder: Path) -> None:
    components = folder / "prompts/components"
    components.mkdir(parents=True)
    (folder / "policy.md").unlink()
    (folder / "tasks.json").unlink()
    (folder / "tasks").mkdir()
    for number, task in enumerate(TASKS):
        (folder / f"tasks/task_{number}.json").write_text(json.dumps(task))
    (components / "policy_header.md").write_text("Be kind.\n")
    (components / "additional_instructions.md").write_text("Be brief.")
    (folder / "prompts/classic.md").write_text("{{component:policy_header}}\n\nSearch first.\n")
    domain = read_tau2(folder)
    assert (domain.policy, [task.id for task in domain.tasks]) == ("Be kind.\n\nBe brief.", ["0", "1"])
    assert read_tau2(folder, prompt="classic").policy == "Be kind.\n\nSearch first.\n"
    with pytest.raises(EnvError, match="has no prompt 'clasic'; did you mean 'classic'"):
        read_tau2(folder, prompt="clasic")
    (components / "policy_header.md").unlink()
    with pytest.raises(EnvError, match="policy_header"):
        read_tau2(folder, prompt="classic")


@pytest.mark.parametrize(
    ("arguments", "compared", "matches"),
    [
        ({"a": 1, "b": 2}, None, True),
        ({"a": 1}, None, True),  # without a list, the arguments of the call are compared
        ({"a": 1, "b": 3}, None, False),
        ({"a": 1, "b": 3}, ("a",), True),
        ({"a": 1, "b": 3}, (), True),
        ({"a": 2, "b": 2}, ("a",), False),
    ],
)
def test_actions_match_by_their_arguments(arguments: dict[str, Any], compared: Any, matches: bool) -> None:
    action = Tau2Action(Call("f", {"a": 1, "b": 2}), compared=compared)
    assert action.matches(Call("f", arguments)) is matches
    assert not action.matches(Call("g", arguments))


def test_texts_of_json_are_compared_as_data() -> None:
    action = Tau2Action(Call("f", {"x": '{"a": 1, "b": [2]}'}))
    assert action.matches(Call("f", {"x": '{ "b":[2], "a":1 }'}))
    assert action.matches(Call("f", {"x": {"a": 1, "b": [2]}}))
    assert not action.matches(Call("f", {"x": "{not json"}))


@pytest.mark.parametrize(
    ("file", "content", "words"),
    [
        ("tasks.json", "[", "is not valid JSON"),
        ("tasks.json", "{}", "must hold a list"),
        ("tasks.json", '[{"id": "0"}]', "entry 1 is no task of tau2-bench"),
        ("tasks.json", '[{"id": "0", "user_scenario": {}, "evaluation_criteria": [1]}]', "entry 1 is no task"),
        (
            "tasks.json",
            '[{"id": "0", "user_scenario": {}, "evaluation_criteria": {"actions": [{}]}}]',
            "KeyError: 'name'",
        ),
        ("db.json", "[]", "the other files objects"),
        ("policy.md", None, "it has neither policy.md nor main_policy.md"),
        ("tasks.json", None, "is no domain of tau2-bench"),
    ],
)
def test_what_is_not_as_published_is_one_sentence(folder: Path, file: str, content: str | None, words: str) -> None:
    if content is None:
        (folder / file).unlink()
    else:
        (folder / file).write_text(content)
    with pytest.raises(EnvError, match=words):
        read_tau2(folder)


def test_without_the_package_a_sentence_says_what_is_needed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tau2", None)
    with pytest.raises(EnvError, match="need the package tau2 of its repository"):
        databases_match("shop", read_tau2(folder).task("0"), [])


def test_the_tools_of_the_package_judge_other_calls(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a registry of the package's interface, whose tools count calls and refuse unknown orders."""

    class Environment:
        def __init__(self) -> None:
            self.cancelled: set[str] = set()
            self.restarted = False

        def make_tool_call(self, name: str, requestor: str, **arguments: str) -> None:
            if requestor == "user":
                self.restarted = True
            elif name == "cancel":
                if arguments["order_id"] != "#1":
                    raise ValueError("no such order")
                self.cancelled.add(arguments["order_id"])

        def get_db_hash(self) -> str:
            return str(sorted(self.cancelled))

        def get_user_db_hash(self) -> str:
            return str(self.restarted)

    registry = types.SimpleNamespace(get_env_constructor=lambda name: Environment)
    module = types.ModuleType("tau2.registry")
    module.registry = registry  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "tau2", types.ModuleType("tau2"))
    monkeypatch.setitem(sys.modules, "tau2.registry", module)
    task = read_tau2(folder).task("0")
    cancel, restart = (Call("cancel", {"order_id": "#1", "why": "y"}), False), (Call("restart", {}), True)
    assert databases_match("shop", task, [restart, cancel, (Call("cancel", {"order_id": "#9"}), False)])
    assert not databases_match("shop", task, [cancel])
    assert not databases_match("shop", task, [])
