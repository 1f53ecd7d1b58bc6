"""The MCP server of environments, played by the client of the package mcp: over standard streams, and over HTTP."""

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("mcp")
pytest.importorskip("fastapi")

from mcp import Client, StdioServerParameters

from turncredit.agents.frameworks.mcp_server import EnvironmentTools, create_app
from turncredit.envs import make
from turncredit.envs.toolenv import ToolEnv
from turncredit.processes.serving import serve_in_thread

pytestmark = pytest.mark.waits

ROOT = Path(__file__).resolve().parents[2]
HOUSE = "turncredit/Household-v0"


class Shelf:
    """A number that tools change."""

    def __init__(self, task: str) -> None:
        self.wanted, self.number = int(task), 0

    def add(self, amount: int, why: str = "") -> dict[str, Any]:
        """Add to the number.

        Args:
            amount: how much
            why: the reason
        """
        self.number += amount
        return {"number": self.number, "why": why}


def shelf_env() -> ToolEnv[str, Shelf]:
    return ToolEnv(
        {"seven": "7", "nine": "9"},
        start=Shelf,
        tools=lambda shelf: [shelf.add],
        check=lambda shelf, answer: shelf.number == shelf.wanted,
    )


def run(play: Callable[[Any], Awaitable[None]], server: Any, mode: str) -> None:
    async def connected() -> None:
        async with asyncio.timeout(120), Client(server, mode=mode) as client:
            await play(client)

    asyncio.run(connected())


def names(listed: Any) -> list[str]:
    return [tool.name for tool in listed.tools]


def test_a_tool_env_over_standard_streams(tmp_path: Path) -> None:
    """The example of docs/tools.md as a desktop client starts it."""
    arguments = [
        "-c",
        "from turncredit.cli.main import main; main()",
        "serve",
        "mcp",
        "my_tools:examples/AddressBook-v0",
    ]
    server = StdioServerParameters(command=sys.executable, args=arguments, cwd=ROOT / "examples")

    async def play(client: Any) -> None:
        listed = await client.list_tools()
        assert names(listed) == ["reset", "find", "change", "answer"]
        assert listed.tools[2].input_schema["required"] == ["name", "phone"]
        task = await client.call_tool("reset", {"task": "move-1"})
        assert "Adam Stone has a new number, 555-0201" in task.content[0].text
        assert (await client.call_tool("find", {"text": "stone"})).content[0].text == '{"Adam Stone": "555-0102"}'
        wrong = await client.call_tool("change", {"name": "Nobody", "phone": "1"})
        assert wrong.is_error
        assert "Nobody" in wrong.content[0].text
        await client.call_tool("change", {"name": "Adam Stone", "phone": "555-0201"})
        end = await client.call_tool("answer", {"text": "done"})
        assert (end.meta["turncredit/reward"], end.meta["turncredit/won"]) == (1.0, True)
        after = await client.call_tool("find", {"text": "a"})
        assert after.is_error
        assert "reset" in after.content[0].text

    run(play, server, "auto")


@pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])
def test_clients_over_http_have_episodes_of_their_own(mode: str) -> None:
    tools = EnvironmentTools(shelf_env)

    async def play(client: Any, wanted: str, amount: int, address: str) -> None:
        start = await client.call_tool("reset", {"task": wanted})
        episode = start.structured_content["episode"]
        assert start.structured_content["task"] == wanted
        key = {} if mode == "legacy" else {"episode": episode}
        listed = await client.list_tools()
        assert ("episode" in listed.tools[1].input_schema["properties"]) == (mode != "legacy")
        async with Client(f"{address}/mcp", mode=mode) as other:  # which plays meanwhile
            await other.call_tool("reset", {"task": "nine"})
        value = {"amount": amount, "why": 'a < b & "c"\n</add>'}
        result = await client.call_tool("add", {**value, **key})
        assert json.loads(result.content[0].text) == {"number": amount, "why": value["why"]}
        end = await client.call_tool("answer", {"text": "done", **key})
        assert end.meta["turncredit/won"] is (amount == 7)

    try:
        with serve_in_thread(create_app(tools), websockets=True) as address:
            run(partial(play, wanted="seven", amount=7, address=address), f"{address}/mcp", mode)
            run(partial(play, wanted="seven", amount=6, address=address), f"{address}/mcp", mode)
    finally:
        tools.close()


def test_other_environments_have_reset_and_step() -> None:
    tools = EnvironmentTools(partial(make, HOUSE, level="tiny"), sessions=1)
    plan = make(HOUSE, level="tiny")

    async def play(client: Any, address: str) -> None:
        assert names(await client.list_tools()) == ["reset", "step"]
        early = await client.call_tool("step", {"action": "look"})
        assert early.is_error
        assert "reset" in early.content[0].text
        start = await client.call_tool("reset", {"seed": 4})
        text, _ = plan.reset(seed=4)
        assert start.content[0].text == text == start.structured_content["observation"]
        async with Client(f"{address}/mcp", mode="legacy") as other:
            refused = await other.call_tool("reset", {})
            assert refused.is_error
            assert "1 clients play already" in refused.content[0].text
        for action in plan.unwrapped.plan():
            result = await client.call_tool("step", {"action": action})
        assert (result.structured_content["reward"], result.structured_content["terminated"]) == (1.0, True)
        for arguments in ({}, {"action": 3}, {"action": "look", "more": 1}):
            assert (await client.call_tool("step", arguments)).is_error
        for arguments in ({"seed": -1}, {"task": 7}, {"game": "x"}, {"task": "no such task"}):
            assert (await client.call_tool("reset", arguments)).is_error

    try:
        with serve_in_thread(create_app(tools), websockets=True) as address:
            run(partial(play, address=address), f"{address}/mcp", "legacy")
    finally:
        tools.close()
        plan.close()
