"""ToolEnv: functions, tasks and a check give an environment that keeps the contract, in every call format."""

from __future__ import annotations

import functools
import importlib.util
import re
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import gymnasium
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from turncredit.agents.prompts.parsing import PARSERS
from turncredit.cli.main import app
from turncredit.envs import EnvError, NotReset, StepAfterEnd, UnknownOption, UnknownTask, check_env, make
from turncredit.envs.check import Effort
from turncredit.envs.info import fits
from turncredit.envs.toolenv import MAX_CALLS, ToolEnv
from turncredit.tools.functions import CALL_FORMATS, Call, Tool, call_format

EXAMPLE = Path(__file__).resolve().parent.parent.parent / "examples" / "my_tools.py"


@pytest.fixture(scope="module")
def example() -> ModuleType:
    spec = importlib.util.spec_from_file_location("my_tools", EXAMPLE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["my_tools"] = module
    spec.loader.exec_module(module)
    return module


class Counter:
    """A number that has to become the task's."""

    def __init__(self, goal: str) -> None:
        self.goal, self.number = int(goal), 0

    def add(self, step: int) -> int:
        """Add to the number."""
        self.number += step
        return self.number

    def fail(self) -> None:
        """Raise, having done something."""
        self.number += 100
        raise RuntimeError("no")


def counter(**options: Any) -> ToolEnv[str, Counter]:
    given = {
        "tools": lambda counter: [counter.add, counter.fail],
        "check": lambda counter, answer: counter.number == counter.goal,
        "state": lambda counter: counter.number,
    }
    return ToolEnv({"two": "2", "five": "5"}, start=Counter, **{**given, **options})


def start(env: ToolEnv[Any, Any], task: str = "two") -> dict[str, Any]:
    return env.reset(seed=0, options={"task": task})[1]


def test_info_names_the_kind_of_task_where_a_subclass_says_so() -> None:
    class Kinds(ToolEnv[str, Counter]):
        def task_type(self, task: str) -> str:
            return "even" if int(task) % 2 == 0 else "odd"

    plain = counter()
    kinds = Kinds({"two": "2", "five": "5"}, Counter, lambda counter: [counter.add], lambda counter, answer: True)
    assert start(kinds)["task_type"] == "even"
    assert start(kinds, "five")["task_type"] == "odd"
    assert kinds.step("<add>1</add>")[4]["task_type"] == "odd"
    assert "task_type" not in start(plain)


def test_the_example_is_short() -> None:
    lines = EXAMPLE.read_text(encoding="utf-8").splitlines()
    assert len(lines) < 60
    first = next(number for number, line in enumerate(lines) if line.startswith("Name ="))
    last = lines.index("    )")
    assert sum(bool(line.strip()) for line in lines[first : last + 1]) < 25


def in_form(example: ModuleType, form: str) -> Callable[[], gymnasium.Env[str, str]]:
    """What makes the example's environment, by its name or, for other forms of calls, of the same parts."""
    if form == "tags":
        return functools.partial(make, "examples/AddressBook-v0")
    return lambda: ToolEnv(
        example.TASKS,
        start=example.Book,
        tools=lambda book: [book.find, book.change],
        check=lambda book, answer: book.phones == book.wanted,
        state=lambda book: book.phones,
        plan=example.plan,
        form=form,
    )


@pytest.mark.parametrize("form", CALL_FORMATS)
def test_the_example_keeps_the_contract(example: ModuleType, form: str) -> None:
    effort = Effort(walks=2, turns=12, pairs=12, depth=8, continuations=2) if form == "tags" else Effort.light()
    report = check_env(in_form(example, form), tasks=2, effort=effort)
    assert report.ok, report
    assert report["plan"].outcome == report["state-different"].outcome == "ok"


def test_the_example_is_checked_by_the_program(example: ModuleType) -> None:
    done = CliRunner().invoke(app, ["check", "my_tools:examples/AddressBook-v0", "--light"])
    assert done.exit_code == 0, done.output


@pytest.mark.parametrize("form", CALL_FORMATS)
def test_the_plan_passes_through_the_parser_of_an_agent_and_wins(example: ModuleType, form: str) -> None:
    env = in_form(example, form)()
    for task in env.get_wrapper_attr("task_ids")():
        observation, _ = env.reset(options={"task": task})
        for name in ("find", "change", "answer"):
            assert name in observation
        for action in env.get_wrapper_attr("plan")():
            read = PARSERS.get("whole").read(f"<think>so</think>\n{action}")
            assert read.action == action
            _, reward, terminated, _, info = env.step(action)
        assert (reward, terminated, info["won"], info["score"]) == (1.0, True, True, 1.0)


def test_a_world_is_made_anew_for_every_episode() -> None:
    env = counter()
    for _ in range(2):
        begin = start(env)
        observation, reward, over, cut, info = env.step("<add>2</add>")
        assert (observation, reward, over, cut, info["valid"]) == ("2", 0.0, False, False, True)
        assert info["state"] != begin["state"]
        assert env.step("<answer>it is done</answer>")[1:4] == (1.0, True, False)
    start(env)
    observation, reward, over, _, info = env.step("<answer>2</answer>")
    assert (reward, over, info["won"]) == (0.0, True, False)


def test_the_same_world_has_the_same_state_by_whatever_way() -> None:
    env = counter()
    start(env)
    one = env.step("<add>3</add>")[4]["state"]
    start(env)
    env.step("<add>1</add>")
    assert env.step("<add>2</add>")[4]["state"] == one
    # Without state(), the calls themselves are the state.
    env = counter(state=None)
    begin = start(env)["state"]
    assert env.step("nothing")[4]["state"] == begin
    history = env.step("<add>3</add>")[4]["state"]
    start(env)
    env.step("<add>1</add>")
    assert env.step("<add>2</add>")[4]["state"] != history


def test_several_calls_in_a_turn_are_done_in_order_up_to_the_answer() -> None:
    env = counter()
    start(env)
    observation, reward, over, _, info = env.step("<add>1</add><add>1</add><answer>x</answer><add>9</add>")
    assert observation == "[1] add: 1\n[2] add: 2\n[3] answer: The answer was given."
    assert (reward, over, info["won"]) == (1.0, True, True)


@pytest.mark.parametrize(
    ("action", "said"),
    [
        ("", "Nothing was done: found no call"),
        ("<ad>1</ad>", "Nothing was done: unknown tool 'ad'; did you mean 'add'?"),
        ("<add>one</add>", "add was not called: 'step' should be a valid integer, got 'one'."),
        (
            "<add>1</add><add>x</add>",
            "add was not called: 'step' should be a valid integer, got 'x'. Nothing was done.",
        ),
        ("<add>1</add>" * (MAX_CALLS + 1), f"Nothing was done: a turn has at most {MAX_CALLS} calls, these were 9."),
    ],
)
def test_what_cannot_be_done_changes_nothing_and_is_not_valid(action: str, said: str) -> None:
    env = counter()
    begin = start(env)
    observation, reward, over, cut, info = env.step(action)
    assert observation.startswith(said)
    assert (reward, over, cut, info["valid"]) == (0.0, False, False, False)
    assert info["state"] == begin["state"]


@pytest.mark.parametrize("form", ["tags", "hermes", "openai"])
@pytest.mark.parametrize("native", [False, True])
def test_the_results_of_calls_are_told_one_by_one(form: str, native: bool) -> None:
    said = {"a": "", "b": "two\nlines\n", "c": "<tool_response>\nx\n</tool_response>"}

    def read(name: str) -> str:
        """Return a text."""
        return said[name]

    env: ToolEnv[Any, Any] = ToolEnv(
        "Read.", lambda task: {}, [read], lambda world, text: True, form=form, native=native
    )
    _, info = env.reset()
    assert "results" not in info
    tools = list(env._box or ())
    write = functools.partial(call_format(form).write, tools=tools)
    *_, info = env.step(write([Call("read", {"name": name}) for name in "abc"]))
    assert info["results"] == [said[name] for name in "abc"]
    refused = "<read>a</read><read><nmae>b</nmae></read>" if form == "tags" else ""
    *_, info = env.step(refused or write([Call("read", {"name": "a"}), Call("read", {})]))
    assert not info["valid"]
    assert info["results"][0] == "Nothing was done, because another call of this turn is invalid."
    assert "'name' is missing" in info["results"][1]
    *_, info = env.step("nothing")
    assert "results" not in info


def test_a_tool_that_fails_is_the_answer_of_the_world() -> None:
    env = counter()
    begin = start(env)
    observation, _, over, _, info = env.step("<fail/>")
    assert observation == "fail failed: RuntimeError: no."
    assert (over, info["valid"]) == (False, True)
    assert info["state"] != begin["state"]


def test_a_tool_that_never_returns_is_an_answer_and_the_episode_goes_on() -> None:
    def wait() -> None:
        """Never return."""
        while True:
            time.sleep(0.05)

    env = counter(tools=lambda counter: [counter.add, Tool.of(wait, seconds=0.05)])
    start(env)
    assert "exceeded its limit of 0.05 s" in env.step("<wait/>")[0]
    assert env.step("<add>2</add>")[0] == "2"
    env.close()
    env.close()


def test_tools_that_a_new_world_does_not_have_are_freed() -> None:
    ended: list[str] = []

    def tool(name: str) -> Tool:
        return Tool(name, "", {"properties": {}}, dict, lambda values: ("", "done"), lambda: ended.append(name))

    shared = tool("shared")
    env = counter(tools=lambda counter: [shared, tool("own")])
    start(env)
    start(env)
    assert ended == ["own"]
    env.close()
    assert ended == ["own", "shared", "own"]


@pytest.mark.parametrize("sentence", [3, None, b"text", ["a"]])
def test_a_task_without_a_sentence_is_said(sentence: object) -> None:
    with pytest.raises(EnvError, match=re.escape(f"say() must return the text of the task as a str, got {sentence!r}")):
        start(counter(say=lambda task: sentence))


@pytest.mark.parametrize("score", [1.5, -0.1, float("nan"), "yes", None])
def test_a_check_that_gives_no_score_is_named(score: object) -> None:
    env = counter(check=lambda counter, answer: score)
    start(env)
    with pytest.raises(EnvError, match=r"a score in \[0, 1\] or a bool"):
        env.step("<answer>2</answer>")


def test_a_score_between_is_no_win() -> None:
    env = counter(check=lambda counter, answer: 0.5)
    start(env)
    _, reward, over, _, info = env.step("<answer>2</answer>")
    assert (reward, over, info["score"], info["won"]) == (0.5, True, 0.5, False)


def test_what_a_user_can_cause_says_so() -> None:
    with pytest.raises(UnknownOption, match="tasks must be a text"):
        ToolEnv({}, start=Counter, tools=[], check=lambda world, answer: True)
    with pytest.raises(UnknownOption, match="did you mean 'tags'"):
        counter(form="tag")
    with pytest.raises(UnknownOption, match="render_mode"):
        counter(render_mode="rgb")
    with pytest.raises(EnvError, match="two tools are named 'answer'"):
        start(counter(tools=lambda counter: [Tool.of(counter.add, name="answer")]))
    with pytest.raises(EnvError, match="has no type hint"):
        start(counter(tools=lambda counter: [Tool.of(lambda a: a, name="f")]))
    with pytest.raises(EnvError, match="must return data"):
        start(counter(state=lambda counter: counter))
    env = counter()
    with pytest.raises(NotReset):
        env.step("<add>1</add>")
    with pytest.raises(UnknownTask, match="did you mean 'five'"):
        start(env, "fiev")
    with pytest.raises(UnknownOption, match="unknown reset option 'tsk'"):
        env.reset(options={"tsk": "two"})
    start(env)
    with pytest.raises(UnknownOption, match="action must be a str"):
        env.step(3)  # type: ignore[arg-type]
    env.step("<answer>x</answer>")
    with pytest.raises(StepAfterEnd):
        env.step("<add>1</add>")


def test_one_task_is_a_sentence_and_tools_may_need_no_world() -> None:
    def now() -> str:
        """Tell the time."""
        return "noon"

    env = ToolEnv(
        "What time is it?", start=str, tools=[now], check=lambda _, answer: answer == "noon", render_mode="ansi"
    )
    observation, info = env.reset()
    assert observation.startswith("What time is it?\n\n")
    assert info["free_actions"] == ["<now></now>", "<answer>...</answer>"]
    assert env.task_ids() == ["task"]
    env.step("<now/>")
    assert env.render() == "> <now/>\nnoon\n"
    assert env.step("<answer>noon</answer>")[4]["won"]
    assert not hasattr(env, "plan")


@pytest.mark.parametrize("form", CALL_FORMATS)
def test_the_forms_of_calls_are_told_in_every_format(form: str) -> None:
    env = counter(form=form)
    forms = start(env)["free_actions"]
    example = {tool.name: call_format(form).example(tool) for tool in env._playing()}
    assert forms == list(dict.fromkeys(example.values()))
    if form == "tags":
        assert forms == ["<add>...</add>", "<fail></fail>", "<answer>...</answer>"]
        assert fits("<add>2</add>", forms)
        assert not fits("<add></add>", forms)
    answer = call_format(form).write([Call("answer", {"text": "x"})], list(env._playing()))
    assert env.step(answer)[4]["free_actions"] == []


def test_the_plan_is_written_in_the_form() -> None:
    def plan(counter: Counter) -> list[Call]:
        return [Call("add", {"step": counter.goal - counter.number}), Call("answer", {"text": "done"})]

    env = counter(plan=plan)
    start(env, "five")
    env.step("<add>1</add>")
    assert env.get_wrapper_attr("plan")() == ["<add>4</add>", "<answer>done</answer>"]


@settings(max_examples=60, deadline=None)
@given(actions=st.lists(st.text() | st.sampled_from(["<add>", "</add>", "<answer>", "1", "\udcff"]), max_size=4))
def test_any_text_is_answered(actions: list[str]) -> None:
    env = counter(seconds=None)
    start(env)
    observation, *_ = env.step("".join(actions))
    assert observation in env.observation_space
