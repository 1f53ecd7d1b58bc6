"""How a model is asked for tool calls: options of an agent (see `turncredit.envs.agent_defaults`)."""

from __future__ import annotations

from turncredit.envs.agent_defaults import TOOL_FORMAT
from turncredit.tools.functions import Call, CallFormat, Tool

__all__ = ["tool_agent"]


def tool_agent(form: CallFormat, native: bool) -> dict[str, object]:
    """Return how a model is asked for calls.

    Args:
        form: format of the calls.
        native: whether a chat template describes the tools, and not the first observation.
    """
    if native:
        template: dict[str, str] = {"saw": "{observation}", "ask": ""}
        return {
            "prompt": "conversation",
            "template": template,
            "parser": "whole",
            "chat": {"tools": True},
            TOOL_FORMAT: form.name,
        }
    return {
        "prompt": "conversation",
        "template": {
            "system": "You reach a goal by calling tools, one call at a time. Give the call alone; you may reason "
            "before it between <think> and </think>.\n\n",
            "saw": "{observation}",
            "ask": "\n\nYour call:",
            "example": _example(form),
        },
        "parser": "whole",
        "without_chat_template": {"stop": ["\n\n"], "example": True},
    }


def _example(form: CallFormat) -> str:
    """Return a worked turn in a format, as a format string."""
    tools = [Tool.of(_weather, name="weather")]
    task = f"Say whether it rains in Oslo.\n\n{form.describe(tools)}"
    call = form.write([Call("weather", {"city": "Oslo"})], tools)
    before, after = (text.replace("{", "{{").replace("}", "}}") for text in (task, call))
    return (
        f"This is what one turn looks like:\n\n{before}{{ask}} {after}\n\n"
        "Now another task begins, with other tools.\n\n"
    )


# The agent reads this docstring as the description of the tool.
def _weather(city: str) -> str:
    """Return the weather of a city."""
    return "rain"
