"""`turncredit/OpenEnv-v0` on servers of others and of our own: OpenEnv's template, and environments that we serve."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import documented
import pytest

pytestmark = pytest.mark.frameworks
documented.need("openenv", "fastapi", "websockets")

import httpx
from test_openenv import Fragile

import turncredit.envs
from turncredit.agents.frameworks.openenv import create_app
from turncredit.agents.rollouts.env_pool import EnvWorker
from turncredit.envs.errors import DeadlineExceeded, EnvError, EnvironmentDied, UnknownTask
from turncredit.processes.serving import serve_in_thread

HOUSEHOLD = partial(turncredit.envs.make, "turncredit/Household-v0", level="tiny")
REMOTE = partial(turncredit.envs.make, "turncredit/OpenEnv-v0")


def openenv(*words: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run OpenEnv's own command."""
    command = [str(Path(sys.executable).with_name("openenv")), *words]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300)


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """Serve the application `server.app` of a folder with uvicorn, as OpenEnv does."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    words = ["-m", "uvicorn", "server.app:app", "--host", "127.0.0.1", "--port", str(port)]
    environment = {**os.environ, "PYTHONPATH": str(folder)}
    server = subprocess.Popen([sys.executable, *words], cwd=folder, env=environment, stderr=subprocess.DEVNULL)
    url = f"http://127.0.0.1:{port}"
    try:
        end = time.monotonic() + 180
        while not _healthy(url):
            assert server.poll() is None, "the server ended"
            assert time.monotonic() < end, "the server did not start"
            time.sleep(0.2)
        yield url
    finally:
        server.kill()
        server.wait()


def _healthy(url: str) -> bool:
    try:
        return httpx.get(f"{url}/health").is_success
    except httpx.TransportError:
        return False


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The environment that `openenv init` writes, whose rewards are a tenth of a message's length, at most 1 or not."""
    folder = tmp_path_factory.mktemp("openenv")
    made = openenv("init", "echo_probe", folder=folder)
    assert made.returncode == 0, made.stdout + made.stderr
    with served(folder / "echo_probe") as url:
        yield url


def test_a_server_that_openenv_wrote_is_played(template: str):
    env = REMOTE(url=template)
    start, info = env.reset(seed=3, options={"task": "seed/3"})
    assert "echoed_message: Echo Probe environment ready!" in start
    assert "An action is the text of message (string)" in start
    assert (info["task"], info["valid"], info["won"]) == ("seed/3", True, False)
    first = env.step("hello")
    second = env.step('{"message": "hi"}')
    assert [step[0] for step in (first, second)] == [
        "echoed_message: hello\nmessage_length: 5",
        "echoed_message: hi\nmessage_length: 2",
    ]
    assert [step[1] for step in (first, second)] == pytest.approx([0.5, 0.2])
    assert second[-1]["score"] == pytest.approx(0.7)
    assert len({info["state"], first[-1]["state"], second[-1]["state"]}) == 3
    env.close()


def test_the_command_line_evaluates_on_it(template: str, tmp_path: Path):
    """A scripted model answers over the chat interface, and the server's rewards reach the report."""
    from fastapi import FastAPI

    model = FastAPI()

    @model.post("/v1/chat/completions")
    async def answer(body: dict[str, Any]) -> dict[str, Any]:
        assert "echoed_message" in body["messages"][-1]["content"]
        choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "abcde"}}
        usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
        named = {"id": "1", "object": "chat.completion", "created": 0, "model": body["model"]}
        return {**named, "choices": [choice], "usage": usage}

    with serve_in_thread(model) as address:
        words = ["eval", f"openai:m@{address}/v1", "turncredit/OpenEnv-v0", f"url={template}", "max_episode_steps=3"]
        options = ["--episodes", "2", "--concurrency", "1", "--output", "result.json"]
        command = [sys.executable, "-P", "-m", "turncredit.cli.main", *words, *options]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=400)
    assert done.returncode == 0, done.stdout + done.stderr
    result = json.loads((tmp_path / "result.json").read_text())
    assert "mean turns 3.0, mean score 1.000" in done.stdout
    assert result


def test_a_served_environment_is_the_environment():
    """Texts, rewards, ends, state keys, scores and actions are the same through server and client as without."""
    with serve_in_thread(create_app(HOUSEHOLD, name="turncredit/Household-v0"), websockets=True) as url:
        far, near = REMOTE(url=url), HOUSEHOLD()
        assert far.unwrapped.task_ids(5) == near.unwrapped.task_ids(5)
        task = near.unwrapped.task_ids(1)[0]
        options = {"task": task}
        answers = [(far.reset(seed=0, options=options), near.reset(seed=0, options=options))]
        for action in ["fly", *near.unwrapped.plan()]:
            answers.append((far.step(action), near.step(action)))
        for number, (theirs, ours) in enumerate(answers):
            assert theirs[:-1] == ours[:-1]
            keys = ("task", "task_type", "state", "valid", "score", "won", "admissible_actions")
            assert {key: theirs[-1].get(key) for key in keys} == {key: ours[-1].get(key) for key in keys}, number
        assert answers[-1][0][-1]["won"]
        with pytest.raises(UnknownTask, match="did you mean"):
            far.reset(options={"task": f"{task[:-1]}x"})
        far.close()


def test_a_late_answer_a_failure_and_a_lost_server_are_errors_of_ours():
    with serve_in_thread(create_app(Fragile, sessions=2), websockets=True) as url:
        env = REMOTE(url=url, timeout=1.0)
        env.reset(seed=0)
        with pytest.raises(EnvError, match="ZeroDivisionError in step"):
            env.step("fail")
        env.reset(seed=0)
        Fragile.release.clear()
        with pytest.raises(DeadlineExceeded, match="did not answer step within 1 seconds"):
            env.step("hang")
        Fragile.release.set()
        assert env.reset(seed=0)[0].startswith("ready")
        assert env.step("hello")[:2] == ("hello", 1.0)
    with pytest.raises(EnvironmentDied, match=r"the connection to .* was lost in step"):
        env.step("hello")
    with pytest.raises(EnvironmentDied, match="cannot be reached"):
        env.reset(seed=0)


def test_a_full_server_refuses_and_has_a_place_again_when_a_client_leaves():
    with serve_in_thread(create_app(Fragile, sessions=1), websockets=True) as url:
        first, second = REMOTE(url=url), REMOTE(url=url)
        first.reset(seed=0)
        with pytest.raises(EnvError, match=r"refused a session: Server at capacity.*--concurrency"):
            second.reset(seed=0)
        first.close()
        assert second.reset(seed=0)[0].startswith("ready")
        second.close()


def test_no_episode_begins_in_the_middle_of_another():
    with serve_in_thread(create_app(HOUSEHOLD), websockets=True) as url:
        worker = EnvWorker(partial(REMOTE, url=url))
        asyncio.run(worker.reset(None, 0))
        assert "cannot save an episode" in worker.no_forks
        worker.close()


def test_openenv_validates_a_served_environment(tmp_path: Path):
    with serve_in_thread(create_app(HOUSEHOLD, name="turncredit/Household-v0"), websockets=True) as url:
        checked = openenv("validate", "--url", url, folder=tmp_path)
        assert checked.returncode == 0, checked.stdout
        report = json.loads(checked.stdout)
        assert (report["passed"], report["summary"]["failed_criteria"]) == (True, [])
        tasks = httpx.post(f"{url}/Household-v0/task_range", json={"split": "train", "stop": 2}).json()["tasks"]
        assert tasks == [{"task": task} for task in HOUSEHOLD().unwrapped.task_ids(2)]
        wrong = httpx.post(f"{url}/Household-v0/tasks", json={"split": "test"})
        assert (wrong.status_code, "there is no split 'test'" in wrong.text) == (409, True)
    with serve_in_thread(create_app(Fragile, name="fragile"), websockets=True) as url:
        assert httpx.get(f"{url}/fragile/splits").status_code == 501


def test_a_packaged_environment_is_valid_and_plays_its_episode(tmp_path: Path):
    """Of what `openenv validate` asks, only uv.lock is missing, which `uv lock` writes."""
    words = ["package", "turncredit/Household-v0", "level=tiny", "split=held_out"]
    command = [sys.executable, "-P", "-m", "turncredit.cli.main", *words]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    folder = tmp_path / "household"
    checked = openenv("validate", "--json", "household", folder=tmp_path)
    assert json.loads(checked.stdout)["issues"] == ["Missing uv.lock - run 'uv lock' to generate it"]
    (folder / "uv.lock").touch()
    assert openenv("validate", "household", folder=tmp_path).returncode == 0
    manifest = pytest.importorskip("yaml").safe_load((folder / "openenv.yaml").read_text())
    assert manifest["validation"]["capabilities"]["declared_task_count"] == {"held_out": 1000}
    episode = json.loads((folder / manifest["validation"]["execution"]["probe_path"]).read_text())
    with served(folder) as url:
        env = REMOTE(url=url)
        env.reset(seed=episode["reset"]["seed"], options=episode["reset"]["options"])
        answers = [env.step(json.dumps(action)) for action in episode["actions"]]
        assert answers[-1][-1]["won"]
        assert all(0.0 <= answer[1] <= 1.0 for answer in answers)
        env.close()
    again = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert (again.returncode, "is not an empty folder" in again.stderr) == (2, True)
