"""How a language model is asked for the actions of an environment, where neither its run nor the user says so.

Environments name options of an agent (`turnwise.envs.agent_defaults`): prompt, template, parser, max_tokens and so on,
and in the table `without_chat_template` options for models without one, such as stop strings and a worked turn. An
environment that names none is played with `INSTRUCTED`. Later ones win: `INSTRUCTED`, the environment's, those of a
suite or of the run of a checkpoint, those of the user.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from turnwise.agents.agent import Agent
from turnwise.agents.errors import AgentError, PromptError
from turnwise.agents.json_types import JsonObject
from turnwise.agents.models.tokenization import Tokenizer
from turnwise.agents.prompts.chat_template import TOOLS, chat_fields
from turnwise.agents.prompts.native_tools import chat_with_tools
from turnwise.envs import agent_defaults

__all__ = [
    "INSTRUCTED",
    "WITHOUT_CHAT",
    "agent_for",
    "agent_from",
    "instructions",
    "merged",
    "player_options",
    "wants_tools",
]

WITHOUT_CHAT: Final = "without_chat_template"
"""The key of options that count for a model without a chat template."""

INSTRUCTED: Final[JsonObject] = {
    "template": "react",
    "parser": "think-action",
    "max_tokens": 512,
    WITHOUT_CHAT: {"stop": ["</action>"], "example": True},
}
"""The options of an environment that names none: reasoning, then one tagged action."""

_FITS: Final = {"react": "think-action"}
"""The parser that reads what a template asks for; of other templates it is `bare`."""


def instructions(env_id: str, kwargs: JsonObject | None = None) -> JsonObject:
    """Return the options of an agent for a language model in an environment.

    Args:
        env_id: id of the environment.
        kwargs: its arguments.

    Raises:
        AgentError: the environment names an option that agents do not have, or a wrong value.
        EnvError: there is no such environment, or it cannot be imported or made.
    """
    options = merged(INSTRUCTED, agent_defaults(env_id, **(kwargs or {})))
    try:
        without = options.get(WITHOUT_CHAT, {})
        if not isinstance(without, Mapping):
            raise AgentError(f"{WITHOUT_CHAT} must be a table of options, got {without!r}")
        Agent.from_options(**_plain({**options, **without}))
    except AgentError as error:
        raise AgentError(f"{env_id} names options of an agent that cannot be used: {error}") from error
    return options


def player_options(env_id: str, kwargs: JsonObject | None = None) -> JsonObject:
    """Return the options of an agent for a player that reads no prompts, such as the expert.

    It writes bare actions, unless the environment's have several lines.
    """
    parser = instructions(env_id, kwargs)["parser"]
    return {"parser": parser} if parser in ("whole", "with-thoughts") else {}


def merged(defaults: JsonObject, options: JsonObject) -> JsonObject:
    """Return the defaults, replaced by options.

    Template and parser belong together: where the options have only one of them, the other becomes the one that fits,
    `think-action` for `react`, else `plain` and `bare`. What the defaults say for models without a chat template goes
    with them. Tables of `chat` are merged.
    """
    result = {**defaults, **options}
    if "template" in options and "parser" not in options:
        result["parser"] = _FITS.get(_name(options["template"]), "bare")
    if "parser" in options and "template" not in options and options["parser"] != defaults.get("parser"):
        result["template"] = next((name for name, parser in _FITS.items() if parser == options["parser"]), "plain")
    if WITHOUT_CHAT not in options and any(result.get(name) != defaults.get(name) for name in ("template", "parser")):
        result.pop(WITHOUT_CHAT, None)
        if result["parser"] == INSTRUCTED["parser"]:
            result[WITHOUT_CHAT] = INSTRUCTED[WITHOUT_CHAT]
    if isinstance(defaults.get("chat"), Mapping) and options.get("chat") is not False:
        chat = options.get("chat")
        result["chat"] = {**defaults["chat"], **(chat if isinstance(chat, Mapping) else {})}
    return result


def agent_for(
    env_id: str,
    kwargs: JsonObject | None = None,
    *,
    tokenizer: Tokenizer | None = None,
    **options: object,
) -> Agent:
    """Return an agent that asks a language model for the actions of an environment.

    Args:
        env_id: id of the environment.
        kwargs: its arguments.
        tokenizer: of the model; None for a model behind an API, which gets messages.
        options: options of the agent that replace those of the environment.

    Raises:
        AgentError: an option that agents do not have, or a wrong value.
        EnvError: there is no such environment, or it cannot be imported or made.
    """
    return agent_from(merged(instructions(env_id, kwargs), options), tokenizer, env_id, kwargs)


def agent_from(
    options: JsonObject,
    tokenizer: Tokenizer | None = None,
    env_id: str = "",
    kwargs: JsonObject | None = None,
) -> Agent:
    """Return the agent of options, in which `chat` is a setting and not a tokenizer.

    Args:
        options: of `Agent.from_options`, with `chat` (true, false or a table) and `without_chat_template`.
        tokenizer: of the model; None for players without one.
        env_id: the environment whose tools ``chat = {tools = true}`` means; "" if it is not known.
        kwargs: its arguments.

    Raises:
        AgentError: an option that agents do not have, or a wrong value.
        PromptError: the chat template does not fit the prompt, or cannot describe the tools.
    """
    fields, chat = _plain(options), options.get("chat", True)
    templated = chat is not False and bool(getattr(tokenizer, "chat_template", None))
    if tokenizer is not None and not templated:
        if wants_tools(options):
            raise PromptError(
                f"{env_id or 'the environment'} leaves the description of its tools to a chat template, and this model "
                "has none; leave out native=true, so that the first observation describes them"
            )
        fields = {**options.get(WITHOUT_CHAT, {}), **fields}
    if env_id:
        chat = chat_with_tools(chat, env_id, kwargs or {})
    return Agent.from_options(**fields, **chat_fields(chat, tokenizer))


def wants_tools(options: JsonObject) -> bool:
    """Return whether a chat template, or a server, should describe the environment's tools."""
    chat = options.get("chat")
    return isinstance(chat, Mapping) and chat.get(TOOLS) is True


def _plain(options: JsonObject) -> JsonObject:
    """Return the options that mean the same for every model."""
    return {name: value for name, value in options.items() if name not in ("chat", WITHOUT_CHAT)}


def _name(template: object) -> str:
    """Return the name of a template, of a table that of its base."""
    return str(template.get("base", "plain") if isinstance(template, Mapping) else template)
