"""Environments behind OpenEnv's server interface: its own client, many clients, and what can go wrong."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from functools import partial
from typing import Any

import documented
import gymnasium
import pytest

pytestmark = pytest.mark.frameworks
documented.need("openenv", "fastapi", "websockets")

import httpx
from openenv import GenericEnvClient

import turncredit.envs
from turncredit.agents.frameworks.openenv import create_app
from turncredit.envs import Text
from turncredit.processes.serving import serve_in_thread

HOUSEHOLD = partial(turncredit.envs.make, "turncredit/Household-v0", level="tiny")
TASKS = HOUSEHOLD().unwrapped.task_ids(8)


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with serve_in_thread(create_app(HOUSEHOLD, name="household", sessions=20), websockets=True) as address:
        yield address


async def solve(url: str, task: str) -> tuple[float, dict[str, Any], list[str]]:
    """Play the expert's plan, and return the sum of rewards, the state at the end and all texts."""
    env = HOUSEHOLD()
    env.reset(seed=0, options={"task": task})
    async with GenericEnvClient(base_url=url) as client:
        result = await client.reset(task=task, seed=0)
        total, texts = 0.0, [result.observation["text"]]
        for action in env.unwrapped.plan():
            assert not result.done
            result = await client.step({"action": action})
            total += result.reward
            texts.append(result.observation["text"])
        assert result.done
        return total, await client.state(), texts


def test_the_documented_client_plays(url: str, capsys: pytest.CaptureFixture[str]):
    names = documented.run("openenv", None, **{"http://127.0.0.1:8000": url})
    assert names["score"] == 0.0
    assert "go to sink 1" in capsys.readouterr().out


def test_many_clients_play_at_once_each_in_its_own_environment(url: str):
    async def everybody() -> list[Any]:
        return await asyncio.gather(*(solve(url, TASKS[number % len(TASKS)]) for number in range(16)))

    for number, (total, state, texts) in enumerate(asyncio.run(everybody())):
        task = TASKS[number % len(TASKS)]
        env = HOUSEHOLD()
        expected = [env.reset(seed=0, options={"task": task})[0]]
        plan = env.unwrapped.plan()
        steps = [env.step(action) for action in plan]
        assert texts == expected + [step[0] for step in steps]
        assert total == sum(step[1] for step in steps)
        assert (state["task"], state["won"], state["score"]) == (task, True, 1.0)
        assert (state["state"], state["step_count"]) == (steps[-1][-1]["state"], len(plan))


def test_the_schema_and_the_metadata_need_no_environment(url: str):
    schema = httpx.get(f"{url}/schema").json()
    assert schema["action"]["required"] == ["action"]
    assert set(schema["observation"]["properties"]) >= {"text", "admissible_actions", "image", "truncated"}
    assert httpx.get(f"{url}/metadata").json()["name"] == "household"
    assert httpx.get(f"{url}/health").json() == {"status": "healthy"}


def test_mistakes_are_answered_and_the_session_goes_on(url: str):
    async def play() -> list[str]:
        said = []
        async with GenericEnvClient(base_url=url) as client:
            for call in (
                partial(client.step, {"action": "look"}),
                partial(client.reset, task="nope"),
                partial(client.reset, tsk="train/tiny/000001"),
                partial(client.step, {"acton": "look"}),
            ):
                with pytest.raises(RuntimeError) as error:
                    await call()
                said.append(str(error.value))
            result = await client.reset(task=TASKS[0])
            assert result.observation["valid"]
            assert not (await client.step({"action": 7})).observation["valid"]  # a JSON number, from "7"
        return said

    started, task, option, action = asyncio.run(play())
    assert "the episode has not begun; reset the environment before the next step" in started
    assert "'nope' is not the id of a generated game" in task
    assert "reset takes task, seed and episode_id, got tsk" in option
    assert "VALIDATION_ERROR" in action
    alone = httpx.post(f"{url}/step", json={"action": {"action": "look"}})
    assert (alone.status_code, "has not begun" in alone.text) == (409, True)


def test_further_clients_are_refused_and_idle_ones_lose_their_environment():
    async def play(url: str) -> None:
        first, second = GenericEnvClient(base_url=url), GenericEnvClient(base_url=url)
        await first.connect()
        await first.reset()
        await second.connect()
        with pytest.raises(Exception, match=r"capacity|received 1000"):
            await second.reset()
        await asyncio.sleep(6.5)  # OpenEnv looks for idle sessions every 5 seconds
        third = GenericEnvClient(base_url=url)
        await third.connect()
        await third.reset()
        with pytest.raises(RuntimeError, match="nothing was received for too long; connect again"):
            await first.step({"action": "look"})
        await third.close()

    with serve_in_thread(create_app(HOUSEHOLD, sessions=1, idle=1.0), websockets=True) as url:
        asyncio.run(play(url))


class Fragile(gymnasium.Env[str, str]):
    """Fails, hangs, or says what it was told, and counts what is open."""

    observation_space = action_space = Text()
    alive = 0
    release = threading.Event()

    def __init__(self) -> None:
        type(self).alive += 1

    def reset(self, *, seed: Any = None, options: Any = None) -> tuple[str, dict[str, Any]]:
        return "ready", {}

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        if action == "fail":
            raise ZeroDivisionError("by zero")
        if action == "hang":
            type(self).release.wait(60)
        return action, 1.0, False, False, {}

    def close(self) -> None:
        type(self).alive -= 1


def wait_until(condition: Any, what: str) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.02)


def test_an_environment_that_fails_or_hangs_is_replaced():
    async def play(url: str) -> None:
        async with GenericEnvClient(base_url=url) as client:
            for action, reason in (("fail", "ZeroDivisionError in step"), ("hang", "longer than 0.5 seconds")):
                await client.reset()
                with pytest.raises(RuntimeError, match=reason):
                    await client.step({"action": action})
                with pytest.raises(RuntimeError, match="has not begun"):
                    await client.step({"action": "hello"})
                await client.reset()
                assert (await client.step({"action": "hello"})).observation["text"] == "hello"

    with serve_in_thread(create_app(Fragile, sessions=2, deadline=0.5), websockets=True) as url:
        asyncio.run(play(url))
        Fragile.release.set()
    wait_until(lambda: Fragile.alive == 0, "an environment was not closed")


def test_a_client_that_vanishes_frees_its_environment():
    code = """
import asyncio, os
from openenv import GenericEnvClient
async def vanish(url):
    client = GenericEnvClient(base_url=url)
    await client.connect()
    await client.reset()
    print("playing", flush=True)
    os.kill(os.getpid(), 9)
asyncio.run(vanish(__import__("sys").argv[1]))
"""
    with serve_in_thread(create_app(Fragile, sessions=1), websockets=True) as url:
        gone = subprocess.run([sys.executable, "-c", code, url], capture_output=True, text=True, timeout=300)
        assert (gone.returncode, gone.stdout) == (-9, "playing\n")
        wait_until(lambda: Fragile.alive == 0, "the environment of a killed client stayed open")

        async def next_client() -> Any:
            async with GenericEnvClient(base_url=url) as client:
                return (await client.reset()).observation["text"]

        assert asyncio.run(next_client()) == "ready"


def test_images_are_png():
    import base64

    import numpy as np

    class Picture(Fragile):
        def reset(self, *, seed: Any = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
            return {"text": "page", "image": np.arange(24, dtype=np.uint8).reshape(2, 4, 3)}, {}

    async def look(url: str) -> Any:
        async with GenericEnvClient(base_url=url) as client:
            return (await client.reset()).observation

    with serve_in_thread(create_app(Picture), websockets=True) as url:
        seen = asyncio.run(look(url))
    kind, _, data = seen["image"].partition(",")
    assert kind == "data:image/png;base64"
    data = base64.b64decode(data)
    assert data.startswith(b"\x89PNG\r\n\x1a\n")
    pillow = pytest.importorskip("PIL.Image")
    import io

    assert np.array_equal(np.asarray(pillow.open(io.BytesIO(data))).ravel(), np.arange(24))


def test_the_command_serves_until_it_is_interrupted(tmp_path: Any):
    import signal

    words = ["-m", "turncredit.cli.main", "serve", "env", "turncredit/Household-v0", "level=tiny", "--port", "0"]
    with open(tmp_path / "out", "w+") as out:
        server = subprocess.Popen([sys.executable, "-P", *words], stdout=out, stderr=subprocess.STDOUT)
        try:
            wait_until(lambda: "Ctrl-C" in (tmp_path / "out").read_text(), "the server did not start")
            text = (tmp_path / "out").read_text()
            address = text[text.index("http://") :].split()[0]
            wait_until(lambda: _answers(address), "the server does not answer")
            assert asyncio.run(solve(address, TASKS[0]))[1]["won"]
            server.send_signal(signal.SIGINT)
            assert server.wait(60) == 0
        finally:
            server.kill()
    assert "closed" in (tmp_path / "out").read_text()


def _answers(address: str) -> bool:
    try:
        return httpx.get(f"{address}/health").is_success
    except httpx.TransportError:
        return False
