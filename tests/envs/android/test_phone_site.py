"""The server of the phone's page without a browser: demonstrations, and requests that are refused."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from turncredit.agents.files.trajectory_files import read_trajectories
from turncredit.cli.main import app as turncredit
from turncredit.cli.serving.phone import saver
from turncredit.envs.android.site.app import create_app
from turncredit.envs.android.site.player import Choice, PhonePlayer
from turncredit.phone.shell import run_text
from turncredit.processes.serving import serve_in_thread

httpx = pytest.importorskip("httpx")
TASK = Choice(template="ClockAddAlarm", seed=1)  # Set an alarm for 23:05.


@pytest.fixture
def player() -> Iterator[PhonePlayer]:
    player = PhonePlayer(TASK, save=saver(None))
    yield player
    player.close()


RUN = """
seed = 1
[env]
id = "turncredit/Android-v0"
kwargs = { task_types = ["ClockAddAlarm"] }
[policy]
new = { hidden = 16, layers = 1, heads = 1, vocab = 300 }
context = 4096
[imitation]
demonstrator = "FILE"
episodes = 1
epochs = 1
[train]
iterations = 0
[evaluation]
episodes = 0
"""


def test_a_saved_episode_is_imitated_and_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "mine.jsonl"
    player = PhonePlayer(TASK, save=saver(file))
    try:
        while player.status()["verdict"] is None:
            player.expert()
        assert player.save() == {"file": str(file)}
        player.save()
    finally:
        player.close()
    assert [one.id for one in read_trajectories(file)] == ["ClockAddAlarm/1#0@0", "ClockAddAlarm/1#1@0"]
    (tmp_path / "run.toml").write_text(RUN.replace("FILE", str(file)), encoding="utf-8")
    assert not turncredit(["train", str(tmp_path / "run.toml"), f"output={tmp_path / 'run'}"], standalone_mode=False)
    assert "1 demonstrations, 1 won" in capsys.readouterr().out
    assert not turncredit(["show", str(file)], standalone_mode=False)
    assert "ClockAddAlarm/1" in capsys.readouterr().out
    page = tmp_path / "mine.html"
    assert not turncredit(["report", str(file), "--output", str(page)], standalone_mode=False)
    assert page.stat().st_size > 10_000


@pytest.fixture
def site(player: PhonePlayer) -> Iterator[Any]:
    with serve_in_thread(create_app(player)) as url, httpx.Client(base_url=url, timeout=60) as client:
        yield client


def test_bad_requests_are_one_sentence_and_the_phone_goes_on(site: Any, player: PhonePlayer) -> None:
    json_type = {"Content-Type": "application/json"}
    for path, body in (
        ("/input", b"{"),
        ("/input", b"[1]"),
        ("/input", b'{"kind": "tap", "x": 1e999, "y": 2}'),
        ("/input", b"[" * 60_000),
        ("/input", b'{"kind": "text", "text": "\xff"}'),
        ("/say", b'{"text": 5}'),
        ("/say", b'{"text": "tap 1"}'),
        ("/start", b'{"seed": true}'),
        ("/start", b'{"apps": "Clock"}'),
        ("/start", b'{"template": ["x"]}'),
        ("/save", b"{}"),
    ):
        answer = site.post(path, content=body, headers=json_type)
        assert answer.status_code == 400, (path, body[:40], answer.text)
        assert len(answer.json()["detail"].splitlines()) == 1
    assert site.post("/input", content=b" " * 70_000, headers=json_type).status_code == 413
    assert site.get("/screen.png?width=5").status_code == site.get("/screen.png?width=x").status_code == 400
    assert site.get("/../app.py").status_code == site.get("/nothing").status_code == 404
    half = site.post("/input", content=json.dumps({"kind": "text", "text": "\ud83d"}), headers=json_type)
    assert half.status_code == 200
    assert site.get("/screen.png?width=300").content.startswith(b"\x89PNG")


def test_other_sites_and_machines_are_refused(site: Any) -> None:
    assert site.get("/state", headers={"Host": "evil.example"}).status_code == 403
    tap = {"kind": "tap", "x": 540, "y": 1200}
    assert site.post("/input", json=tap, headers={"Origin": "http://evil.example"}).status_code == 403
    assert site.post("/input", content=json.dumps(tap), headers={"Content-Type": "text/plain"}).status_code == 415
    assert site.get("/").headers["content-security-policy"].startswith("default-src 'none'")


def test_an_error_of_an_app_does_not_end_the_page(
    site: Any, player: PhonePlayer, monkeypatch: pytest.MonkeyPatch
) -> None:
    phone: Any = player._device.phone
    with monkeypatch.context() as broken:
        broken.setattr(phone, "tap", lambda x, y: 1 / 0)
        answer = site.post("/input", json={"kind": "tap", "x": 1, "y": 1})
        assert (answer.status_code, answer.json()["detail"]) == (500, "the phone has failed at this; it goes on")
    answer = site.post("/expert", json={})
    assert (answer.status_code, answer.json()["result"]) == (200, "open Clock")


def test_an_app_that_stops_on_data_from_adb_does_not_stop_the_page(site: Any, player: PhonePlayer) -> None:
    database = "/data/data/org.turncredit.calendar/databases/events.db"
    with player.adb.paused() as phone:
        broken = "INSERT INTO events(title, start, end) VALUES('x', 'soon', 'later')"
        run_text(phone, f'sqlite3 {database} "{broken}"; am start org.turncredit.calendar')
    assert site.get("/state").status_code == site.get("/screen.png").status_code == 200
    with player.adb.paused() as phone:
        x, y = phone.tree().find("Close app").center
    assert site.post("/input", json={"kind": "tap", "x": x, "y": y}).status_code == 200
    with player.adb.paused() as phone:
        assert phone.page.screen == "home"
