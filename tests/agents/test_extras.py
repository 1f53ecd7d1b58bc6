"""Columns that an environment or a sampler adds to turns."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from toys.corridor import Corridor

from turncredit.agents.agent import Agent
from turncredit.agents.errors import SamplerError
from turncredit.agents.files.trajectory_files import TrajectoryWriter, from_json, read_trajectories, to_json
from turncredit.agents.rollouts.rollout import rollout
from turncredit.agents.trajectory import Trajectory
from turncredit.engines import Completion, Request
from turncredit.engines.scripted import Scripted

SCRIPT = ["take key", "", "go east"]


def corridor(start: Any, step: Any) -> Corridor:
    """Return a corridor whose reset and steps report the given extras."""

    class Extra(Corridor):
        def reset(self, **options: Any) -> tuple[str, dict[str, Any]]:
            observation, info = super().reset(**options)
            return observation, info | {"extras": start}

        def step(self, action: str) -> Any:
            *values, info = super().step(action)
            return (*values, info | {"extras": step(action)})

    return Extra()


class Critic(Scripted):
    """Adds a value to every turn."""

    async def sample(self, request: Request) -> Completion:
        return replace(await super().sample(request), extras={"value": request.turn / 2, "role": "critic"})


def played(env: Corridor, sampler: Scripted) -> Trajectory:
    return rollout(Agent(max_turns=3), sampler, ["open-3-1"], make=lambda: env)[0].trajectories[0]


def test_columns_of_reset_sampler_and_step_become_the_turns_extras(tmp_path: Path) -> None:
    found = played(corridor({"role": "solver", "label": "x"}, lambda action: {"label": action}), Critic(SCRIPT))
    assert [turn.extras for turn in found.turns] == [
        {"role": "critic", "label": "take key", "value": 0.0},
        {"role": "critic", "label": "x", "value": 0.5},  # nothing was parsed, so the environment said nothing
        {"role": "critic", "label": "go east", "value": 1.0},
    ]
    with TrajectoryWriter(tmp_path / "t.jsonl") as writer:
        writer.write(found)
    assert list(read_trajectories(tmp_path / "t.jsonl")) == [found]


def test_values_are_stored_as_plain_python() -> None:
    extras = {"value": np.float32(0.5), "metric": np.int64(3), "tree": [0, np.int64(2)], "multi": True}
    found = played(corridor(extras, lambda _: None), Scripted(SCRIPT))
    assert found.turns[0].extras == {"value": 0.5, "metric": 3, "tree": (0, 2), "multi": True}
    assert from_json(to_json(found)) == found


def test_turns_without_extras_are_stored_without_the_key() -> None:
    found = played(Corridor(), Scripted(SCRIPT))
    assert found.turns[0].extras == {}
    assert "extras" not in to_json(found)


@pytest.mark.parametrize(
    ("extras", "words"),
    [
        (3, "extras must be a mapping of column names to values, got int"),
        ({3: 1}, "the names of extras must be strings, got 3"),
        ({"value": None}, r"extras\['value'\] must be a number, a string or a tuple of these, got NoneType"),
        ({"value": [[1]]}, r"extras\['value'\] must be .* got list"),
        ({"value": np.zeros(2)}, r"extras\['value'\] must be .* got ndarray"),
    ],
)
def test_extras_of_another_type_are_the_failure_of_whoever_sent_them(extras: Any, words: str) -> None:
    for env in (corridor(extras, lambda _: None), corridor(None, lambda _: extras)):
        found = played(env, Scripted(SCRIPT))
        assert found.stop == "error"
        with pytest.raises(AssertionError, match=words):
            raise AssertionError(found.error)

    class Wrong(Scripted):
        async def sample(self, request: Request) -> Completion:
            return replace(await super().sample(request), extras=extras)

    with pytest.raises(SamplerError, match=words):
        played(Corridor(), Wrong(SCRIPT))
