"""Episodes as samples of inspect_ai: the documented task, played by its mock model."""

from __future__ import annotations

import math
from functools import partial
from pathlib import Path
from typing import Any

import documented
import pytest

pytestmark = pytest.mark.frameworks
documented.need("inspect_ai")

import inspect_ai
from inspect_ai.model import ModelOutput, ModelUsage, get_model

import turncredit.envs
from turncredit.agents.agent import Agent
from turncredit.agents.frameworks.inspect import environment_task
from turncredit.agents.instructions import agent_for

HOUSEHOLD = partial(turncredit.envs.make, "turncredit/Household-v0", level="tiny")
TASKS = ["train/tiny/000001", "train/tiny/000002"]


def plan_of(task: str) -> tuple[str, list[str]]:
    """The first observation and the expert's actions."""
    env = HOUSEHOLD()
    start, _ = env.reset(seed=0, options={"task": task})
    return start, env.unwrapped.plan()


def say(text: str) -> ModelOutput:
    """An answer with its usage; without it, the mock model downloads a tokenizer to count tokens."""
    output = ModelOutput.from_content("mockllm/model", text)
    output.usage = ModelUsage(input_tokens=7, output_tokens=2, total_tokens=9)
    return output


def play(task: Any, answer: Any, folder: Path, **options: Any) -> Any:
    (log,) = inspect_ai.eval(
        task, model=get_model("mockllm/model", custom_outputs=answer), log_dir=str(folder), display="none", **options
    )
    assert log.status == "success", log.error
    return log


def test_the_documented_task_is_played_and_scored(tmp_path: Path):
    plans, instructed = dict(map(plan_of, TASKS)), agent_for("turncredit/Household-v0")
    asked: list[Any] = []

    def answer(messages: Any, tools: Any, choice: Any, config: Any) -> ModelOutput:
        asked.append((messages, config))
        assert messages[0].text == instructed.prompt.template.system.strip()
        start = next(start for start in plans if start in messages[1].text)
        turn = sum(message.role == "assistant" for message in messages)
        lost = start == next(iter(plans))  # the first episode is lost
        return say(instructed.format("look" if lost else plans[start][turn]))

    household = documented.run("inspect_ai")["household"]
    log = play(household(), answer, tmp_path)
    by_task = {sample.id: sample for sample in log.samples}
    lost, won = (by_task[task] for task in TASKS)
    assert (lost.scores["success"].value, won.scores["success"].value) == (0.0, 1.0)
    assert won.metadata["turns"] == len(plans[plan_of(TASKS[1])[0]])
    assert (lost.metadata["turns"], lost.metadata["stop"]) == (20, "turns")
    answers = [message.text for message in won.messages if message.role == "assistant"]
    assert answers == list(map(instructed.format, plan_of(TASKS[1])[1]))
    metrics = {name: metric.value for name, metric in log.results.scores[0].metrics.items()}
    assert metrics["accuracy"] == 0.5
    assert won.metadata["prompt_tokens"] == 7 * won.metadata["turns"]
    assert won.metadata["response_tokens"] == 2 * won.metadata["turns"]
    assert metrics["stderr"] > 0
    assert all(config.max_tokens == instructed.max_tokens for _, config in asked)


def test_epochs_are_further_episodes_of_the_same_task(tmp_path: Path):
    start, plan = plan_of(TASKS[0])

    def answer(messages: Any, tools: Any, choice: Any, config: Any) -> ModelOutput:
        assert start in messages[0].text
        return say(plan[sum(message.role == "assistant" for message in messages)])

    log = play(environment_task(HOUSEHOLD, TASKS[:1], Agent(max_turns=30), epochs=2), answer, tmp_path)
    assert [sample.scores["success"].value for sample in log.samples] == [1.0, 1.0]
    assert math.isnan(log.results.scores[0].metrics["stderr"].value)  # one task, in scores that all agree
    assert sorted(sample.epoch for sample in log.samples) == [1, 2]


def test_a_failure_of_the_environment_is_unscored_with_its_reason(tmp_path: Path):
    log = play(environment_task(HOUSEHOLD, ["no such task"], Agent()), None, tmp_path)
    (sample,) = log.samples
    assert math.isnan(sample.scores["success"].value)
    assert (log.results.scores[0].scored_samples, log.results.scores[0].unscored_samples) == (0, 1)
    assert (sample.metadata["stop"], "no such task" in sample.metadata["error"]) == ("error", True)
