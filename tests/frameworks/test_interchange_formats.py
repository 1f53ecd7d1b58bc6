"""Trajectories in formats whose own packages read and write them: inspect_ai, datasets and openai."""

from __future__ import annotations

import math
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import documented
import numpy as np
import pytest

pytestmark = pytest.mark.frameworks
documented.need("inspect_ai")

import inspect_ai
from inspect_ai import Task
from inspect_ai.dataset import Sample
from inspect_ai.log import read_eval_log
from inspect_ai.model import ModelOutput, ModelUsage, get_model
from inspect_ai.scorer import match

from turncredit.agents.content import ImagePart
from turncredit.agents.errors import StoreError
from turncredit.agents.interchange.formats import FORMATS
from turncredit.agents.interchange.records import Exported, Origin
from turncredit.agents.trajectory import Trajectory, Turn

ORIGIN = Origin("run", "turncredit/Household-v0", "tiny", "0.1.0")
CALL = '<tool_call>\n{"name": "find", "arguments": {"shelf": 9}}\n</tool_call>'
MAIN = Path(__file__).resolve().parents[2] / ".venv" / "bin" / "python"


def turn(observation: str, text: str, reward: float = 0.0, **fields: Any) -> Turn:
    return Turn((), (), (), 2, observation, text, text, f"state of {observation}", reward, True, **fields)


def episode(task: str, member: int, won: bool, *turns: Turn, **fields: Any) -> Trajectory:
    name = f"{task}#{member}@7"
    trajectory = Trajectory(name, task, "find", 7, turns, "terminated", won, float(won), "end", "Bye.", None, 1.5)
    return replace(trajectory, **fields)


RED = ImagePart(np.full((2, 3, 3), 200, np.uint8))
EPISODES = [
    episode(
        "b",
        0,
        True,
        turn("Find it.", f"<think>\nHm.\n</think>\n\n{CALL}", images=(RED,), shown=(RED,)),
        turn("40", "It is 40.", 1.0, results=("40",), shown=(RED,)),
    ),
    episode("a", 0, False, turn("Go.", "no\u00e9"), turn("", "")),
    episode("b", 1, False, turn("Find it.", CALL), turn("40", "41", admissible=("x",))),
    episode("a", 1, False, stop="error", error="the environment died"),
]


def without_images(trajectory: Trajectory) -> Trajectory:
    return replace(trajectory, turns=tuple(replace(turn, images=(), shown=()) for turn in trajectory.turns))


def test_a_log_comes_back_and_is_inspects_own(tmp_path: Path) -> None:
    exported = [Exported(one, 3, {"gigpo": [0.25] * len(one.turns)}) for one in EPISODES]
    FORMATS["inspect"].write(exported, tmp_path / "logs", ORIGIN)
    (file,) = (tmp_path / "logs").iterdir()
    log = read_eval_log(str(file))
    assert (log.status, log.eval.task, log.eval.model) == ("success", "turncredit/Household-v0", "turncredit/tiny")
    assert log.samples is not None
    by_id = {(sample.id, sample.epoch): sample for sample in log.samples}
    assert set(by_id) == {("a", 1), ("a", 2), ("b", 1), ("b", 2)}
    won = by_id["b", 1]
    assert [message.role for message in won.messages] == ["user", "assistant", "tool", "assistant", "user"]
    (call,) = won.messages[1].tool_calls
    assert (call.function, call.arguments) == ("find", {"shelf": 9})
    assert won.messages[1].content[0].reasoning == "Hm."
    assert won.scores["success"].value == 1.0
    assert won.metadata["turncredit"]["turns"][0]["advantages"] == {"gigpo": 0.25}
    assert by_id["a", 2].error.message == "the environment died"
    assert math.isnan(by_id["a", 2].scores["success"].value)
    (success,) = log.results.scores  # one of three was won; the fourth failed, and is no lost episode
    assert success.metrics["accuracy"].value == pytest.approx(1 / 3)
    assert (success.scored_samples, success.unscored_samples) == (3, 1)
    assert (log.eval.metadata["failed"], log.eval.metadata["not_counted"]) == (1, 0)
    read = list(FORMATS["inspect"].read(tmp_path / "logs"))
    assert [item.trajectory for item in read] == [without_images(trajectory) for trajectory in EPISODES]
    assert {item.iteration for item in read} == {3}


def test_iterations_and_long_ones_have_logs_of_their_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("turncredit.agents.interchange.inspect_logs.SAMPLES", 2)
    exported = [Exported(one, iteration) for iteration in (1, 2) for one in EPISODES[:3]]
    FORMATS["inspect"].write(exported, tmp_path / "logs", ORIGIN)
    names = sorted(path.name for path in (tmp_path / "logs").iterdir())
    assert [name.partition("-")[2] for name in names] == [f"iteration-{number}.eval" for number in (1, 1, 2, 2)]
    assert [item.iteration for item in FORMATS["inspect"].read(tmp_path / "logs")] == [1, 1, 1, 2, 2, 2]


def test_a_log_of_inspects_own_evaluation_is_read(tmp_path: Path) -> None:
    def answer(messages: Any, tools: Any, choice: Any, config: Any) -> ModelOutput:
        output = ModelOutput.from_content("mockllm/model", "40" if "two" in messages[-1].text else "7")
        output.usage = ModelUsage(input_tokens=7, output_tokens=2, total_tokens=9)
        return output

    samples = [Sample(input="one?", target="1", id="first"), Sample(input="two?", target="40", id="second")]
    inspect_ai.eval(
        Task(dataset=samples, scorer=match(), epochs=2),
        model=get_model("mockllm/model", custom_outputs=answer),
        log_dir=str(tmp_path),
        display="none",
    )
    read = {item.trajectory.id: item for item in FORMATS["inspect"].read(tmp_path)}
    assert sorted(read) == ["first#0@0", "first#1@0", "second#0@0", "second#1@0"]
    lost, won = read["first#0@0"].trajectory, read["second#1@0"].trajectory
    assert (lost.won, lost.score, won.won, won.score) == (False, 0.0, True, 1.0)
    assert [(one.observation, one.text, one.reward) for one in won.turns] == [("two?", "40", 1.0)]
    assert all(item.scored and not item.stored for item in read.values())


def test_other_files_are_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "a.eval").write_bytes(b"PK\x03\x04 no")
    with pytest.raises(StoreError, match=r"a\.eval cannot be read as a log of inspect") as error:
        list(FORMATS["inspect"].read(tmp_path))
    assert len(str(error.value).splitlines()) == 1


def test_datasets_loads_what_is_exported(tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets")
    if not MAIN.exists():
        pytest.skip("the environment with polars is not installed (make install)")
    from turncredit.agents.files.trajectory_files import TrajectoryWriter

    with TrajectoryWriter(tmp_path / "run.jsonl") as writer:
        for one in EPISODES:
            writer.write(one)
    command = [str(MAIN), "-m", "turncredit.cli.main", "export", str(tmp_path / "run.jsonl"), "--to", "hf"]
    command += ["--output", str(tmp_path / "out"), "--credit", "grpo"]
    subprocess.run(command, check=True, timeout=120)
    loaded = datasets.load_dataset(str(tmp_path / "out"), split="train", cache_dir=str(tmp_path / "cache"))
    assert loaded["id"][:] == [one.id for one in EPISODES]
    assert loaded["won"][:] == [True, False, False, False]
    first = loaded[0]
    assert [message["role"] for message in first["messages"]] == ["user", "assistant", "tool", "assistant", "user"]
    assert first["messages"][1]["tool_calls"][0]["function"]["arguments"] == {"shelf": 9}
    assert first["states"] == ["state of Find it.", "state of 40"]
    assert len(first["advantages"]["grpo"]) == 2
    assert first["images"][0].size == (3, 2)
    assert first["images"][0].getpixel((0, 0)) == (200, 200, 200)


def test_requests_have_the_types_of_the_package_openai() -> None:
    openai = pytest.importorskip("openai")
    from openai.types.responses.response_create_params import ResponseCreateParamsNonStreaming
    from pydantic import TypeAdapter

    from turncredit.engines.openai.responses import chat_answer, responses_request

    call = {"id": "a", "type": "function", "function": {"name": "find", "arguments": '{"shelf": 9}'}}
    tool = {"type": "function", "function": {"name": "find", "parameters": {"type": "object"}}}
    messages = [
        {"role": "system", "content": "Be brief."},
        {
            "role": "user",
            "content": [{"type": "text", "text": "look"}, {"type": "image_url", "image_url": {"url": "data:"}}],
        },
        {"role": "assistant", "content": "I look.", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "a", "content": "40"},
    ]
    body = responses_request(
        {"model": "m", "messages": messages, "tools": [tool], "max_tokens": 9, "temperature": 1.0}, official=True
    )
    TypeAdapter(ResponseCreateParamsNonStreaming).validate_python(body)
    response = openai.types.responses.Response.model_validate(
        {
            "id": "r1",
            "object": "response",
            "created_at": 0,
            "model": "m",
            "status": "completed",
            "parallel_tool_calls": True,
            "tool_choice": "auto",
            "tools": [],
            "output": [
                {"type": "reasoning", "id": "s", "summary": [{"type": "summary_text", "text": "Hm."}]},
                {
                    "type": "message",
                    "id": "m1",
                    "role": "assistant",
                    "status": "completed",
                    "content": [{"type": "output_text", "text": "Let me see.", "annotations": []}],
                },
                {"type": "function_call", "call_id": "b", "name": "find", "arguments": "{}"},
            ],
        }
    )
    message = chat_answer(response.model_dump())["choices"][0]["message"]
    assert message == {
        "role": "assistant",
        "content": response.output_text,
        "reasoning_content": "Hm.",
        "tool_calls": [{"id": "b", "type": "function", "function": {"name": "find", "arguments": "{}"}}],
    }
