"""An MCP server that offers the tools of an environment, so that clients of the Model Context Protocol can play it.

    tools of a ToolEnv     as they are, and reset; the result of the final answer says what it earned
    other environments     reset and step

Each session of a client has an environment of its own. Over standard input and output there is one session. Over HTTP a
session begins with the handshake of the protocol; clients without one (protocol 2026-07-28) get the argument `episode`
in every tool, with the id that reset returns. A ToolEnv begins an episode itself where a tool is called before reset.

Rewards are in the structured content of reset and step, and in the `_meta` of other results.

Not included: authentication, resources and prompts. The tools are those of the first task.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from secrets import token_hex
from typing import TYPE_CHECKING, Final, cast

from turncredit.agents.errors import EnvFailure
from turncredit.agents.frameworks.session import ClientSession
from turncredit.agents.rollouts.env_pool import MakeEnv, StepResult
from turncredit.engines.openai.messages import data_url
from turncredit.envs.toolenv import ToolEnv
from turncredit.installation import MissingPackage, needs
from turncredit.tools.functions import BadCall, Call

if TYPE_CHECKING:
    import mcp.types as types
    from fastapi import FastAPI
    from mcp.server.context import ServerRequestContext
    from mcp.server.lowlevel import Server

__all__ = ["EnvironmentTools", "create_app", "serve_stdio"]

_MISSING: Final = "an MCP server needs the package mcp"
_STDIO: Final = "stdio"
_RESET: Final = "Begin a new episode and return the task. Call it before anything else, and again after the end."
_STEP: Final = "Take an action in the environment and return what the agent observes then."
_TASK_SCHEMA: Final = {
    "task": {"type": "string", "description": "id of the task; left out: any"},
    "seed": {"type": "integer", "description": "seed of the episode"},
}
_EPISODE_SCHEMA: Final = {"type": "string", "description": "the id of the episode, which reset returned"}


@dataclass
class _ClientEpisode:
    """The environment of one client, and when it was used last."""

    session: ClientSession
    used: float = field(default_factory=time.monotonic)
    begun: bool = False


class EnvironmentTools:
    """The tools of an environment, called on behalf of clients.

    Args:
        make: makes an environment.
        sessions: maximum number of clients at once; a further one is refused.
        idle: seconds after which a client that calls nothing loses its environment; None: never.
        deadline: seconds for each reset and step; None: no limit.

    Raises:
        EnvError: the environment cannot be made, or its first task cannot begin.
    """

    def __init__(
        self, make: MakeEnv, *, sessions: int = 64, idle: float | None = None, deadline: float | None = 60.0
    ) -> None:
        self._make, self._most, self._idle, self._deadline = make, sessions, idle, deadline
        self._episodes: dict[str, _ClientEpisode] = {}
        env = make()
        env.reset(seed=0)
        self._tool_env = env.unwrapped if isinstance(env.unwrapped, ToolEnv) else None
        self._example = env
        if self._tool_env is None:
            env.close()

    def schemas(self, *, stateless: bool) -> list[dict[str, object]]:
        """Return name, description and schema of each tool; without sessions, with the argument `episode`."""
        tools: list[dict[str, object]] = [
            {"name": "reset", "description": _RESET, "inputSchema": _object(_TASK_SCHEMA)}
        ]
        if self._tool_env is None:
            action = {"action": {"type": "string", "description": "the action, as text"}}
            tools.append({"name": "step", "description": _STEP, "inputSchema": _object(action, "action")})
        else:
            tools += [
                {"name": tool.name, "description": tool.description, "inputSchema": dict(tool.parameters)}
                for tool in self._tool_env.toolbox
            ]
        return [_with_episode(tool) if stateless and tool["name"] != "reset" else tool for tool in tools]

    async def call(self, client: str | None, name: str, arguments: Mapping[str, object]) -> tuple[str, StepResult]:
        """Call a tool; return the id of the episode and the result.

        Args:
            client: the session; None for a client without one.
            name: the tool.
            arguments: its arguments.

        Raises:
            EnvFailure: the tool or the episode does not exist, the arguments are wrong, or the environment failed.
        """
        self._close_idle()
        values = dict(arguments)
        key = client or str(values.pop("episode", "") or (token_hex(8) if name == "reset" else ""))
        episode = self._episode(key, new=client is not None or name == "reset")
        episode.used = time.monotonic()
        if name == "reset":
            episode.begun = True
            return key, await episode.session.reset(_task(values), _seed(values))
        action = self._action(name, values)
        if self._tool_env is not None and not episode.begun:
            episode.begun = True
            await episode.session.reset(None, 0)
        return key, await episode.session.step(action)

    def close(self) -> None:
        """Close all environments."""
        for episode in self._episodes.values():
            episode.session.close()
        self._episodes.clear()
        self._example.close()

    @property
    def plain(self) -> bool:
        """Whether the environment has tools of its own, whose results are plain text."""
        return self._tool_env is not None

    def _action(self, name: str, values: Mapping[str, object]) -> str:
        """Return the action of the environment that a call stands for."""
        if self._tool_env is None:
            if name != "step":
                raise EnvFailure(f"unknown tool {name!r}: the tools are reset and step")
            if not isinstance(values.get("action"), str) or len(values) != 1:
                raise EnvFailure(f"step takes one argument, action, a string; got {sorted(values)}")
            return str(values["action"])
        try:
            return self._tool_env.write_call(Call(name, dict(values)))
        except BadCall as error:
            raise EnvFailure(str(error)) from error

    def _episode(self, key: str, *, new: bool) -> _ClientEpisode:
        if key not in self._episodes:
            if not new:
                raise EnvFailure(
                    "there is no such episode, or it was closed: call reset, and pass the episode it returns"
                )
            if len(self._episodes) >= self._most:
                raise EnvFailure(f"{self._most} clients play already, as many as this server takes")
            self._episodes[key] = _ClientEpisode(ClientSession(self._make, self._deadline))
        return self._episodes[key]

    def _close_idle(self) -> None:
        if self._idle is None:
            return
        limit = time.monotonic() - self._idle
        for key in [key for key, episode in self._episodes.items() if episode.used < limit]:
            self._episodes.pop(key).session.close()


def create_app(tools: EnvironmentTools, *, name: str = "turncredit", idle: float | None = None) -> FastAPI:
    """Return the application at /mcp, for `turncredit.processes.serving` with `websockets=True`.

    Args:
        tools: the tools.
        name: name of the environment, for clients.
        idle: seconds after which a session without requests ends; None: never.

    Raises:
        ImportError: mcp is not installed.
    """
    from mcp.server.transport_security import TransportSecuritySettings

    unguarded = TransportSecuritySettings(enable_dns_rebinding_protection=False)  # RequestGuard does it, by more names
    app = _server(tools, name, "").streamable_http_app(
        session_idle_timeout=idle, transport_security=unguarded, json_response=True
    )
    return cast("FastAPI", app)


def serve_stdio(tools: EnvironmentTools, *, name: str = "turncredit") -> None:
    """Serve one client over standard input and output, until it closes them.

    Raises:
        ImportError: mcp is not installed.
    """
    server = _server(tools, name, _STDIO)
    import anyio
    from mcp.server.stdio import stdio_server

    async def serve() -> None:
        async with stdio_server() as (reading, writing):
            await server.run(reading, writing, server.create_initialization_options())

    anyio.run(serve)


def _server(tools: EnvironmentTools, name: str, only: str) -> Server[dict[str, object]]:
    """Return the server of the package; `only` is the session where there is one."""
    try:
        import mcp.types as types
        from mcp.server.lowlevel import Server
    except ImportError as missing:
        raise MissingPackage(needs(_MISSING, "mcp")) from missing

    def client_of(context: ServerRequestContext) -> str | None:
        return only or (context.request.headers.get("mcp-session-id") if context.request else None)

    async def list_tools(context: ServerRequestContext, _: object) -> types.ListToolsResult:
        schemas = tools.schemas(stateless=client_of(context) is None)
        return types.ListToolsResult(tools=[types.Tool.model_validate(schema) for schema in schemas])

    async def call_tool(context: ServerRequestContext, params: types.CallToolRequestParams) -> types.CallToolResult:
        try:
            key, result = await tools.call(client_of(context), params.name, params.arguments or {})
        except EnvFailure as failure:
            content = [{"type": "text", "text": str(failure)}]
            return types.CallToolResult.model_validate({"content": content, "isError": True})
        plain = tools.plain and params.name != "reset"
        return types.CallToolResult.model_validate(_result(result, key, plain=plain))

    return Server(name, on_list_tools=list_tools, on_call_tool=call_tool)


def _result(result: StepResult, episode: str, *, plain: bool) -> dict[str, object]:
    """Return the result of a call as the protocol has it."""
    facts: dict[str, object] = {
        "reward": result.reward,
        "terminated": result.terminated,
        "truncated": result.truncated,
        "won": result.won if result.terminated or result.truncated else None,
        "valid": result.valid,
    }
    text = "\n".join(result.results) if plain and result.results else result.observation
    content: list[dict[str, str]] = [{"type": "text", "text": text}]
    content += [
        {"type": "image", "mimeType": "image/png", "data": data_url(part.image).partition(",")[2]}
        for part in result.images
    ]
    if plain:
        meta = {f"turncredit/{key}": value for key, value in facts.items()}
        return {"content": content, "_meta": meta, "isError": result.valid is False}
    if result.admissible is not None:
        facts["admissible_actions"] = list(result.admissible)
    facts |= {"free_actions": list(result.free), "task": result.task, "episode": episode}
    return {"content": content, "structuredContent": {"observation": text, **facts}}


def _object(properties: Mapping[str, object], *required: str) -> dict[str, object]:
    return {"type": "object", "properties": dict(properties), "required": list(required)}


def _with_episode(tool: Mapping[str, object]) -> dict[str, object]:
    schema = tool["inputSchema"]
    if not isinstance(schema, Mapping):
        return dict(tool)
    properties = {"episode": _EPISODE_SCHEMA, **(schema.get("properties") or {})}
    required = ["episode", *(schema.get("required") or ())]
    return {**tool, "inputSchema": {**schema, "properties": properties, "required": required}}


def _task(values: Mapping[str, object]) -> str | None:
    task = values.get("task")
    if task is not None and not isinstance(task, str):
        raise EnvFailure(f"task must be the id of a task, got {task!r:.80}")
    if unknown := sorted(set(values) - set(_TASK_SCHEMA)):
        raise EnvFailure(f"reset takes task and seed, got {', '.join(unknown)}")
    return task


def _seed(values: Mapping[str, object]) -> int | None:
    seed = values.get("seed")
    if seed is not None and (isinstance(seed, bool) or not isinstance(seed, int) or seed < 0):
        raise EnvFailure(f"seed must be an integer >= 0, got {seed!r:.80}")
    return seed
