"""`turncredit eval openai:MODEL@URL ENV` against a real server: the table, tokens and price, and what goes wrong."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from toys.commands import ENV, Call, one_sentence

pytest.importorskip("torch")
pytest.importorskip("transformers")
pytest.importorskip("httpx")

from toys.harbor_tasks import harbor_task
from toys.openai_server import Fault, ToyServer, chat_model, error
from toys.sandboxes import needed

from turncredit.agents.files.trajectory_files import read_trajectories
from turncredit.engines.openai import failures as openai_failures
from turncredit.envs import register
from turncredit.envs.toolenv import ToolEnv
from turncredit.training.learner.policy import save_policy

WIN = ["go east", "take key", "unlock door", "go east"]  # of open-3-2, which the panel draws
KEY = "sk-this-is-secret-4711"


@pytest.fixture(scope="module")
def model() -> tuple[Any, Any]:
    return chat_model(4096)


@pytest.fixture
def served(model: tuple[Any, Any], monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[ToyServer, str]]:
    monkeypatch.setattr(openai_failures, "FIRST_WAIT", 0.001)
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    server = ToyServer(*model, context=4096, key=KEY)
    with server.serve() as url:
        yield server, url


PLAIN = ["agent.template=plain", "agent.parser=bare"]


def answer(content: str | None, finish: str = "stop", **more: Any) -> dict[str, Any]:
    return {"message": {"role": "assistant", "content": content, **more}, "finish_reason": finish}


@pytest.mark.waits
def test_a_black_box_solves_a_harbor_task(turncredit: Call, served: tuple[ToyServer, str], tmp_path: Path) -> None:
    needed("bwrap")
    server, url = served
    harbor_task(tmp_path / "tasks" / "one")
    count = "<think>Count, then write.</think>n=$(grep -c red notes.txt)\necho $n > count.txt"
    server.script += [answer("cat notes.txt"), answer(count), answer("submit")]
    said = turncredit(
        "eval", f"openai:tiny@{url}", "turncredit/Bash-v0", f"tasks={tmp_path / 'tasks'}", "sandbox=bwrap"
    )
    assert said.code == 0, said.err
    assert re.search(r"all tasks +100\.0 % .* 1/1", said.out), said.out
    first, _, third = server.sent("/chat/completions")
    assert "contain red into /app/count.txt" in first["messages"][-1]["content"]
    assert "red fox" in third["messages"][-3]["content"]


def test_a_black_box_is_evaluated_with_tokens_price_and_kinds_of_answers(
    turncredit: Call, served: tuple[ToyServer, str], tmp_path: Path
) -> None:
    server, url = served
    server.script += [answer("lo", "length"), answer(None), answer(None, refusal="No."), *map(answer, WIN)]
    output, kept = tmp_path / "result.json", tmp_path / "episodes.jsonl"
    said = turncredit(
        "eval", f"openai:tiny@{url}", ENV, "lengths=[3]", "kinds=['open']", "--episodes", 1, "--output", output,
        "--trajectories", kept, "sampler.input_price=2.0", "sampler.output_price=8.0", *PLAIN,
    )  # fmt: skip
    assert said.code == 0, said.err
    assert "tiny on toys/Corridor-v0" in said.out
    assert "answers: truncated 1, refused 1, empty 1 of 7" in said.out
    result = json.loads(output.read_text())
    (row,) = result["rows"]
    assert (row["turns"], row["truncated"], row["refused"], row["empty"]) == (7, 1, 1, 1)
    assert row["response_tokens"] == 7 * 5
    assert row["cost"] == pytest.approx((2 * row["prompt_tokens"] + 8 * 35) / 1e6)
    assert f"tokens: {row['prompt_tokens']:,} of prompts, 35 of answers" in said.out
    assert f"cost: {row['cost']:.4f}" in said.out
    (episode,) = read_trajectories(kept)
    assert [turn.finish for turn in episode.turns[:4]] == ["length", "empty", "refusal", "stop"]
    assert KEY not in said.out + said.err + output.read_text() + kept.read_text()


def test_a_model_is_told_what_is_expected_unless_a_template_or_parser_is_given(
    turncredit: Call, served: tuple[ToyServer, str]
) -> None:
    server, url = served
    server.script += [answer(f"<think>So.</think><action>{action}</action>") for action in WIN]
    words = ("eval", f"openai:tiny@{url}", ENV, "lengths=[3]", "kinds=['open']", "--episodes", 1)
    said = turncredit(*words)
    assert re.search(r"all tasks +100", said.out), said.out
    first = server.sent("/chat/completions")[0]
    assert "<action>" in str(first["messages"])
    assert first["max_completion_tokens" if "max_completion_tokens" in first else "max_tokens"] == 512
    turncredit(*words, *PLAIN, "agent.max_turns=1")
    last = server.sent("/chat/completions")[-1]
    assert "<action>" not in str(last["messages"])
    assert last["max_completion_tokens" if "max_completion_tokens" in last else "max_tokens"] == 512


def test_an_environment_of_native_tools_is_played_with_those_of_the_server(
    turncredit: Call, served: tuple[ToyServer, str]
) -> None:
    server, url = served
    register("toys/Sums-v0", sums)
    words = ("eval", f"openai:tiny@{url}", "toys/Sums-v0", "native=true", "form=hermes", "agent.max_turns=1")
    assert turncredit(*words).code == 0
    (request,) = server.sent("/chat/completions")
    assert [tool["function"]["name"] for tool in request["tools"]] == ["add", "answer"]
    assert [message["content"] for message in request["messages"]] == ["What is 1 + 1?"]
    assert turncredit(*words, "sampler.tools=false").code == 0
    assert "tools" not in server.sent("/chat/completions")[-1]


@pytest.mark.parametrize("form", [(), ("form=hermes",), ("form=openai",)])
def test_native_calls_of_a_server_are_read_in_the_format_of_the_environment(
    turncredit: Call, served: tuple[ToyServer, str], form: tuple[str, ...]
) -> None:
    server, url = served
    register("toys/Sums-v0", sums)
    function = {"name": "answer", "arguments": '{"text": "2"}'}
    server.script += [answer(None, "tool_calls", tool_calls=[{"id": "x", "type": "function", "function": function}])]
    said = turncredit("eval", f"openai:tiny@{url}", "toys/Sums-v0", "native=true", *form)
    assert re.search(r"all tasks +100", said.out), (said.out, said.err)


@pytest.mark.parametrize("form", ["tags", "llama", "mistral"])
def test_a_format_that_native_calls_of_a_server_do_not_have_is_refused(
    turncredit: Call, served: tuple[ToyServer, str], form: str
) -> None:
    register("toys/Sums-v0", sums)
    said = turncredit("eval", f"openai:tiny@{served[1]}", "toys/Sums-v0", "native=true", f"form={form}")
    one_sentence(said, f"toys/Sums-v0 reads calls in the format '{form}'", "make it with form=hermes")


def add(a: int, b: int) -> int:
    """Return a sum."""
    return a + b


def sums(form: str | None = None, native: bool = False) -> ToolEnv[str, None]:
    return ToolEnv(
        "What is 1 + 1?",
        start=lambda task: None,
        tools=[add],
        check=lambda world, answer: answer == "2",
        form=form,
        native=native,
    )


def test_a_token_engine_is_evaluated(
    turncredit: Call, served: tuple[ToyServer, str], model: tuple[Any, Any], tmp_path: Path
) -> None:
    server, url = served
    save_policy(*model, tmp_path / "model")
    how = [
        "sampler.tokens=true",
        f"sampler.tokenizer={tmp_path / 'model'}",
        "agent.max_turns=2",
        "agent.max_tokens=32",
        *PLAIN,
    ]
    kept = tmp_path / "episodes.jsonl"
    said = turncredit("eval", f"openai:tiny@{url}", ENV, "--episodes", 3, "--trajectories", kept, *how)
    assert said.code == 0, said.err
    assert re.search(r"tokens: [\d,]+ of prompts, \d+ of answers", said.out)
    turns = [turn for episode in read_trajectories(kept) for turn in episode.turns]
    assert len(turns) == len(server.sent("/completions")) == 6
    assert all(len(turn.response) == len(turn.logprobs) > 0 for turn in turns)


def test_a_failing_request_is_an_error_in_the_table(turncredit: Call, served: tuple[ToyServer, str]) -> None:
    server, url = served
    words = ["eval", f"openai:tiny@{url}", ENV, "--episodes", 3, "agent.max_turns=1", "--concurrency", 1]
    server.faults.append(error(400, "bad prompt"))
    said = turncredit(*words)
    assert "failed" not in said.err + said.out  # the episode is played once more
    server.faults.extend([error(400, "bad prompt"), Fault(), Fault(), error(400, "bad prompt")])
    said = turncredit(*words)
    assert said.code == 0, said.err
    assert "1 episodes failed and are excluded from the rates" in said.err + said.out
    assert "HTTP 400: bad prompt" in said.err + said.out


def test_what_goes_wrong_is_one_sentence(
    turncredit: Call, served: tuple[ToyServer, str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    server, url = served

    def evaluate(who: str, *words: object) -> Any:
        return turncredit("eval", who, ENV, "--episodes", 2, *words)

    one_sentence(evaluate("openai:tiny@http://127.0.0.1:9/v1"), "http://127.0.0.1:9/v1: cannot be reached")
    one_sentence(evaluate(f"openai:tinny@{url}"), "has no model 'tinny'; did you mean 'tiny'?")
    one_sentence(evaluate(f"openai:tiny@{url}", "sampler.retrys=1"), "no option 'retrys'; did you mean 'retries'?")
    one_sentence(evaluate(f"openai:tiny@{url}", "sampler.key_variable=NOPE"), "asks for a key, and $NOPE is not set")
    one_sentence(evaluate(f"openai:tiny@{url}", "sampler.tokens=true"), "'tiny'")
    monkeypatch.setenv("OPENAI_API_KEY", KEY + "x")
    one_sentence(evaluate(f"openai:tiny@{url}"), "refuses the key of $OPENAI_API_KEY")
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    server.always = error(400, "bad prompt")
    one_sentence(evaluate(f"openai:tiny@{url}"), "every episode failed", "HTTP 400: bad prompt")
    assert not list(tmp_path.iterdir())


def test_a_server_that_dies_leaves_what_was_finished(
    turncredit: Call, served: tuple[ToyServer, str], tmp_path: Path
) -> None:
    server, url = served
    kept = tmp_path / "episodes.jsonl"
    server.faults += [Fault()] * 3  # three answers, and no more
    server.always = error(503, "gone")
    said = turncredit("eval", f"openai:tiny@{url}", ENV, "lengths=[3,4,5,6]", "--episodes", 20, "--concurrency", 1,
                    "--trajectories", kept, "agent.max_turns=1", "sampler.retries=0")  # fmt: skip
    assert said.code == 2
    assert "the last 16 requests failed" in said.err
    assert f"of 20 episodes were finished; they are in {kept}" in said.err
    stops = [episode.stop for episode in read_trajectories(kept)]
    assert stops == ["turns"] * 3 + ["error"] * (len(stops) - 3)
    assert len(stops) == 3 + 15  # the sixteenth failure ends the rollout
