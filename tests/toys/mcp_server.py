"""A tiny MCP server over stdio, for tests of the client: tools that answer, fail, hang and die."""

import os
import sys
import time
from typing import Any

if "--silent" in sys.argv:
    time.sleep(600)
if "--broken" in sys.argv:
    raise SystemExit("no database at this address")

from mcp.server.mcpserver import MCPServer

server = MCPServer("toy")


@server.tool()
def add(first: int, second: int = 1) -> int:
    """Add two numbers."""
    return first + second


@server.tool(name="people.find")
def find(name: str) -> dict[str, Any]:
    """Look somebody up."""
    return {"name": name, "phone": "555-0101"}


@server.tool()
def fail(reason: str) -> str:
    """Raise."""
    raise ValueError(reason)


@server.tool()
def long(count: int) -> str:
    """Return many words."""
    return "word " * count


@server.tool()
async def wait(seconds: float) -> str:
    """Answer late."""
    import asyncio

    await asyncio.sleep(seconds)
    return "awake"


@server.tool()
def die() -> str:
    """End the process in the middle of the call."""
    print("this is the end", file=sys.stderr, flush=True)
    os._exit(3)


@server.tool()
def process() -> int:
    """Return the id of the server's process."""
    return os.getpid()


if "--http" in sys.argv:
    server.run("streamable-http", host="127.0.0.1", port=int(sys.argv[-1]))
else:
    server.run("stdio")
