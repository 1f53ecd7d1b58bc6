"""Screens of a report: the stored images, or drawn again where a replay of the episode shows the stored texts."""

from __future__ import annotations

import base64
import gzip
import io
import json
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from toys.commands import one_sentence
from toys.report_runs import write_run

from turncredit.agents.agent import Agent
from turncredit.agents.content import ImagePart
from turncredit.agents.files.trajectory_files import TrajectoryWriter
from turncredit.agents.rollouts.rollout import rollout
from turncredit.agents.trajectory import Trajectory
from turncredit.engines import Expert
from turncredit.envs import make
from turncredit.report import report_page
from turncredit.report.run_report.report_data import open_report
from turncredit.report.run_report.screens import Screens
from turncredit.report.run_report.server import LiveServer

TOML = 'name = "phone"\n[env]\nid = "turncredit/Android-v0"\n[env.kwargs]\napps = ["Clock"]\n'


@pytest.fixture(scope="module")
def played() -> list[Trajectory]:
    """Two episodes of an expert on a phone, as text."""
    env = make("turncredit/Android-v0", apps=["Clock"])
    tasks = env.unwrapped.task_ids(2)  # type: ignore[attr-defined]
    env.close()
    groups = rollout(Agent(max_turns=15), Expert(), tasks, make=lambda: make("turncredit/Android-v0", apps=["Clock"]))
    return [one for group in groups for one in group.trajectories]


def run_of(folder: Path, played: Sequence[Trajectory]) -> Path:
    folder.mkdir()
    (folder / "run.toml").write_text(TOML)
    with TrajectoryWriter(folder / "trajectories" / "000001.jsonl.gz") as writer:
        for one in played:
            writer.write(one)
    return folder


def test_every_turn_has_its_screen(tmp_path: Path, played: list[Trajectory]) -> None:
    screens, done = open_report(run_of(tmp_path / "run", played)).screens("", 1, 5)
    content = screens.content()
    assert done == 2
    for place, trajectory in enumerate(played):
        found = content["groups"][str(place)]["0"]
        assert found["note"] == ""
        assert not found["stored"]
        assert len(found["places"]) == len(trajectory.turns) + 1
        changed = [a.observation != b.observation for a, b in zip(trajectory.turns, trajectory.turns[1:], strict=False)]
        assert any(changed)
        assert len(set(found["places"])) > 1
    assert all(image.startswith("data:image/png;base64,") for image in content["images"])
    assert len(set(content["images"])) == len(content["images"])


def test_screens_end_where_the_replay_differs(tmp_path: Path, played: list[Trajectory]) -> None:
    first = played[0]
    turns = list(first.turns)
    turns[1] = replace(turns[1], observation="0 button that was never there")
    screens, _ = open_report(run_of(tmp_path / "run", [replace(first, turns=tuple(turns))])).screens("", 1, 1)
    found = screens.groups["0"]["0"]
    assert len(found["places"]) == 1
    assert "From turn 2 on" in found["note"]


def test_a_number_of_screens(tmp_path: Path, played: list[Trajectory]) -> None:
    screens, done = open_report(run_of(tmp_path / "run", played)).screens("", 1, 1)
    assert done == 1
    assert list(screens.groups) == ["0"]


def test_environments_without_screens_say_so(tmp_path: Path, turncredit: Any) -> None:
    run = write_run(tmp_path / "text", iterations=1)
    one_sentence(turncredit("report", run, "--output", tmp_path / "x.html", "--screens", "2"), "has no pictures")
    one_sentence(turncredit("report", run, "--live", "--screens", "2"), "--live")


def test_touches_are_where_the_actions_were(tmp_path: Path, played: list[Trajectory]) -> None:
    screens, _ = open_report(run_of(tmp_path / "run", played)).screens("", 1, 2)
    touched = 0
    for place, trajectory in enumerate(played):
        touches = screens.groups[str(place)]["0"]["touches"]
        assert len(touches) == len(trajectory.turns)
        for turn, points in zip(trajectory.turns, touches, strict=True):
            assert len(points) == (
                str(turn.action).startswith(("tap", "type ")) or 2 * str(turn.action).startswith("sc")
            )
            assert all(0 <= share < 1 for point in points for share in point)
            touched += len(points)
    assert touched > 2


SEEN = {"apps": ["Clock"], "observation": "screen", "format": "none", "size": [108, 240], "points": "0..1000"}
SEEN_TOML = TOML + 'observation = "screen"\nformat = "none"\nsize = [108, 240]\npoints = "0..1000"\n'


@pytest.fixture(scope="module")
def seen() -> list[Trajectory]:
    """Two episodes of an expert that sees the screen alone."""
    env = make("turncredit/Android-v0", **SEEN)
    tasks = env.unwrapped.task_ids(2)  # type: ignore[attr-defined]
    env.close()
    groups = rollout(Agent(max_turns=30), Expert(), tasks, make=lambda: make("turncredit/Android-v0", **SEEN))
    return [member for group in groups for member in group.trajectories]


def seen_run(folder: Path, seen: Sequence[Trajectory]) -> Path:
    run = run_of(folder, seen)
    (run / "run.toml").write_text(SEEN_TOML)
    return run


def chunk_of(page: str, name: str) -> Any:
    """Return a compressed part of a page; None if it is not there."""
    match = re.search(rf'id="{re.escape(name)}">([^<]*)</script>', page)
    return match and json.loads(gzip.decompress(base64.b64decode(match[1])))


def png_of(image: ImagePart) -> str:
    return f"data:image/png;base64,{base64.b64encode(image.png).decode()}"


def test_stored_images_of_all_episodes_are_on_the_page(tmp_path: Path, seen: list[Trajectory]) -> None:
    page = report_page(seen_run(tmp_path / "run", seen))
    content = chunk_of(page, "screens/1")
    assert sorted(content["groups"]) == ["0", "1"]
    for place, trajectory in enumerate(seen):
        shown = content["groups"][str(place)]["0"]
        assert shown["stored"]
        assert shown["note"] == ""
        assert shown["touches"] == []
        assert [content["images"][n] for n in shown["places"]] == [png_of(turn.images[-1]) for turn in trajectory.turns]
    members = chunk_of(page, "turns/1")["groups"]
    assert [members[n]["members"][0]["images"] for n in "01"] == ["1" * len(one.turns) for one in seen]


def test_a_replay_adds_touches_to_stored_images(tmp_path: Path, seen: list[Trajectory]) -> None:
    page = report_page(seen_run(tmp_path / "run", seen), screens=1)
    first, second = (chunk_of(page, "screens/1")["groups"][place]["0"] for place in "01")
    assert first["stored"]
    assert second["stored"]
    assert [bool(touch) for touch in first["touches"]] == [
        turn.action is not None and turn.action.startswith(("tap", "swipe", "long")) for turn in seen[0].turns
    ]
    assert second["touches"] == []


def test_an_image_that_is_gone_leaves_a_note(tmp_path: Path, seen: list[Trajectory]) -> None:
    run = seen_run(tmp_path / "run", seen)
    gone = seen[0].turns[1].images[-1].key
    (run / "images" / gone[:2] / f"{gone}.png").unlink()
    shown = chunk_of(report_page(run), "screens/1")["groups"]["0"]["0"]
    missing = [n for n, turn in enumerate(seen[0].turns) if turn.images[-1].key == gone]
    assert [n for n, place in enumerate(shown["places"]) if place is None] == missing
    assert f"{len(missing)} of the stored images cannot be read" in shown["note"]
    assert gone in shown["note"]


def test_stored_images_take_the_room_that_is_left(tmp_path: Path, seen: list[Trajectory]) -> None:
    run = seen_run(tmp_path / "run", seen)
    whole, bare = len(report_page(run)), len(report_page(run, limit=1))
    sizes = []
    for limit in (2 * whole, whole - 1000, whole // 2, 1000):
        page = report_page(run, limit=limit)
        content = chunk_of(page, "screens/1")
        sizes.append(0 if content is None else len(content["groups"]))
        assert len(page) <= max(limit, bare) + 50  # the outcomes stay, and the numbers of what is left out
    assert sizes[:2] == [2, 1]
    assert sizes[-1] == 0
    assert sizes == sorted(sizes, reverse=True)


def test_large_images_are_halved(tmp_path: Path) -> None:
    tall = np.arange(3 * 1300 * 4, dtype=np.uint8).reshape(1300, 4, 3)
    screens = Screens()
    place = screens._image(ImagePart(tall))
    again = screens._image(ImagePart(tall.copy()))
    assert place == again == 0
    shown = Image.open(io.BytesIO(base64.b64decode(screens.images[0].partition(",")[2])))
    assert shown.size == (1, 325)


def test_a_live_report_sends_stored_images(tmp_path: Path, seen: list[Trajectory]) -> None:
    server = LiveServer(open_report(seen_run(tmp_path / "run", seen)))
    try:
        content = json.loads(gzip.decompress(server._chunk("", "screens", 1, 1) or b""))
    finally:
        server._server.server_close()
    assert list(content["groups"]) == ["1"]
