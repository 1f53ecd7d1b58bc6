"""The column `hindsight` in runs: the prompts that tell the end, their scores, and the rule that reads them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import toys.corridor
from test_training_loop import lines, make_run

from turncredit.agents.agent import Agent
from turncredit.agents.files.trajectory_files import read_trajectories
from turncredit.agents.models.model_folder import load_model
from turncredit.agents.prompts.prompt import View
from turncredit.agents.trajectory import Group
from turncredit.credit import Advantages, Steps, hcapo
from turncredit.envs import register
from turncredit.training import train
from turncredit.training.assign import hindsight as hindsight_module
from turncredit.training.assign.credit_assignment import CreditAssignment
from turncredit.training.assign.hindsight import TOLD, Hindsight, _with

Look = Callable[[Hindsight, Steps, list[Group]], None]
ENV = "toys/Foretold-v0"


class Foretold(toys.corridor.Corridor):
    """The corridor, which reports a column of this name itself."""

    def reset(self, **options: Any) -> tuple[str, dict[str, Any]]:
        text, info = super().reset(**options)
        return text, info | {"extras": {"hindsight": -0.125}}


register(ENV, f"{__name__}:Foretold")


def run_with(tmp_path: Any, monkeypatch: pytest.MonkeyPatch, look: Look, *overrides: str) -> dict[str, Any]:
    """Train one iteration with hcapo, look at it before its credit is assigned, and return its event."""
    assign = CreditAssignment.advantages

    def advantages(self: CreditAssignment, steps: Steps, groups: list[Group], *rest: Any) -> Advantages:
        look(self.hindsight, steps, groups)
        return assign(self, steps, groups, *rest)

    monkeypatch.setattr(CreditAssignment, "advantages", advantages)
    settings = ("train.iterations=1", "evaluation.episodes=0", "checkpoints.every=1")
    train(make_run(tmp_path, "credit.method=hcapo", *settings, *overrides))
    (event,) = [event for event in lines(tmp_path) if event["phase"] == "train"]
    return event


@pytest.mark.parametrize("prompt", ["conversation", "{name='window',history=2}"])
def test_the_prompts_are_those_of_the_turns_with_the_end_of_the_episode(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch, prompt: str
) -> None:
    def look(told: Hindsight, _: Steps, groups: list[Group]) -> None:
        decode = told.scores.learner.tokenizer.decode
        turns = 0
        for trajectory in (member for group in groups for member in group.finished):
            sentence = TOLD.format(end=trajectory.final_observation)
            for turn, prompt in zip(trajectory.turns, told._prompts(trajectory), strict=True):
                text = decode(prompt.ids)
                assert text.count(sentence) == 1
                before, after = text.split(sentence)
                assert before.endswith(turn.observation)
                assert before + after == decode(turn.prompt)
                turns += 1
        assert turns > 6

    event = run_with(tmp_path, monkeypatch, look, f"agent.prompt={prompt}")
    assert np.isfinite(event["loss"])


def test_the_column_is_the_mean_log_probability_of_the_answers(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beside the same numbers from the model itself, one answer at a time."""
    seen: list[tuple[tuple[int, ...], tuple[int, ...], float]] = []

    def look(told: Hindsight, steps: Steps, groups: list[Group]) -> None:
        column = told.column(groups)
        assert len(column) == len(steps)
        prompts = [prompt.ids for group in groups for member in group.finished for prompt in told._prompts(member)]
        turns = [turn for group in groups for member in group.finished for turn in member.turns]
        seen.extend((ids, turn.response, value) for ids, turn, value in zip(prompts, turns, column, strict=True))

    run_with(tmp_path, monkeypatch, look, "policy.context=2000")
    model = load_model(tmp_path / "checkpoints" / "000000")
    for prompt, response, value in seen:
        with torch.no_grad():
            logits = model(torch.tensor([prompt + response])).logits[0]
        scores = torch.log_softmax(logits.double(), dim=-1)[
            range(len(prompt) - 1, len(prompt + response) - 1), response
        ]
        assert value == pytest.approx(scores.mean().item(), abs=1e-4)
    assert len({round(value, 6) for *_, value in seen}) > 3


def test_without_a_sentence_the_column_is_what_was_sampled(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hindsight_module, "TOLD", "")

    def look(told: Hindsight, steps: Steps, groups: list[Group]) -> None:
        assert told.column(groups) == pytest.approx(steps.column("logprob"), abs=1e-4)

    run_with(tmp_path, monkeypatch, look)


def test_an_episode_that_does_not_fit_in_with_its_end_has_turns_that_count_alike(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def look(told: Hindsight, steps: Steps, groups: list[Group]) -> None:
        episodes = [member for group in groups for member in group.finished]
        sizes = [max(len(turn.prompt) + len(turn.response) for turn in told._told(one).turns) for one in episodes]
        context = sorted(sizes)[len(sizes) // 2] - 1
        some = Hindsight(agent=told.agent, scores=told.scores, context=context).column(groups)
        fits = np.repeat([size <= context for size in sizes], [len(one.turns) for one in episodes])
        assert set(fits.tolist()) == {True, False}
        assert some.tolist() == np.where(fits, some, 0.0).tolist()
        assert some[fits] == pytest.approx(told.column(groups)[fits], abs=1e-5)
        none = Hindsight(agent=told.agent, scores=told.scores, context=16).column(groups)
        assert len(none) == len(steps)
        assert not none.any()

    run_with(tmp_path, monkeypatch, look, "policy.context=2000")


def test_a_run_trains_on_its_hindsight(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The advantages are those of the rule on the table with the column."""
    columns: list[np.ndarray] = []
    tables: list[Steps] = []

    def look(told: Hindsight, steps: Steps, groups: list[Group]) -> None:
        columns.append(told.column(groups))
        tables.append(steps)

    event = run_with(tmp_path, monkeypatch, look, "train.group_size=6", "imitation.epochs=12", "policy.context=2000")
    (stored,) = {"hindsight" in table for table in tables}
    assert not stored
    steps = Steps.from_columns(
        **{name: tables[0].ids(name) for name in ("task", "trajectory")},
        **{name: tables[0].column(name) for name in ("turn", "reward", "valid")},
        hindsight=columns[0],
    )
    values = hcapo(steps).values
    assert event["advantage"] == pytest.approx(values.mean(), abs=1e-9)
    assert event["advantage_std"] == pytest.approx(values.std(), rel=1e-6)
    assert len(list(read_trajectories(tmp_path / "trajectories" / "000001.jsonl"))) == 12


def test_an_environment_may_report_the_column(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Hindsight, "column", lambda self, groups: pytest.fail("the environment has said it"))

    def look(_: Hindsight, steps: Steps, __: list[Group]) -> None:
        assert set(steps.column("hindsight").tolist()) == {-0.125}

    run_with(tmp_path, monkeypatch, look, f'env.id="{ENV}"')


def test_results_of_calls_carry_the_end() -> None:
    view = View("start", "two results", None, 1, results=("a", "b"))
    assert _with(view, "!") == View("start", "two results!", None, 1, results=("a", "b!"))
    assert _with(View("start", "start", None, 0), "!") == View("start!", "start!", None, 0)
    assert Agent().prompt.message((), _with(View("start", "start", None, 0), "!")).text.count("start!") == 1
