"""The tools of an environment, for chat templates that describe tools to their model."""

from __future__ import annotations

from collections.abc import Mapping

from turncredit.agents.errors import PromptError
from turncredit.agents.json_types import JsonObject
from turncredit.envs import agent_defaults, make
from turncredit.envs.agent_defaults import TOOL_FORMAT
from turncredit.envs.info import TOOLS
from turncredit.tools.functions import CALL_FORMATS

__all__ = ["chat_with_tools"]

_TAUGHT = [name for name in CALL_FORMATS if name not in ("tags", "openai")]
"""Formats of calls that chat templates teach."""


def chat_with_tools(chat: bool | JsonObject, env_id: str, kwargs: JsonObject) -> bool | JsonObject:
    """Return the setting `agent.chat` with the schemas of the environment's tools in place of ``tools = true``.

    Args:
        chat: the setting.
        env_id: id of the environment; it is opened only if its tools are asked for.
        kwargs: arguments of the environment.

    Raises:
        PromptError: the environment has no tools for a chat template, or reads calls in a format that none teaches.
    """
    if not isinstance(chat, Mapping) or chat.get("tools") is not True:
        return chat
    env = make(env_id, **kwargs)
    try:
        _, info = env.reset(seed=0)
    finally:
        env.close()
    if not info.get(TOOLS):
        raise PromptError(
            f"agent.chat has tools = true, but {env_id} describes its tools itself; only a ToolEnv made with "
            "native=True leaves them to the chat template"
        )
    if agent_defaults(env_id, **kwargs).get(TOOL_FORMAT) == "tags":
        raise PromptError(
            f'agent.chat has tools = true, but {env_id} reads calls in the format "tags", which no chat template '
            f"teaches; make it with the form of the model's template: {', '.join(_TAUGHT)}"
        )
    return {**chat, "tools": list(info[TOOLS])}
