"""How a language model is asked for the actions of an environment, where neither its run nor the user says so.

Environments name options of an agent (`turncredit.envs.agent_defaults`): prompt, template, parser, max_tokens and so
on, and in the table `without_chat_template` options for models without one, such as stop strings and a worked turn. An
environment that names none is played with `INSTRUCTED`. Later ones win: `INSTRUCTED`, the environment's, those of a
suite or of the run of a checkpoint, those of the user.

Of a mixture, the table `parts` has the options of its parts, as far as they differ.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from turncredit.agents.agent import Agent
from turncredit.agents.errors import AgentError, PromptError
from turncredit.agents.json_types import JsonObject
from turncredit.agents.models.tokenization import Tokenizer
from turncredit.agents.prompts.chat_template import TOOLS, chat_fields
from turncredit.agents.prompts.native_tools import chat_with_tools
from turncredit.envs import agent_defaults, parts_of
from turncredit.envs.agent_defaults import TOOL_FORMAT
from turncredit.task_ids import part_of

__all__ = [
    "INSTRUCTED",
    "WITHOUT_CHAT",
    "agent_for",
    "agent_from",
    "instructions",
    "merged",
    "of_parts",
    "player_options",
    "tool_format",
    "wants_tools",
    "with_tools",
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

PARTS: Final = "parts"
"""The key of the options of a mixture's parts."""

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
    if parts := parts_of(env_id, **(kwargs or {})):
        return _common({part.name: instructions(part.id, dict(part.kwargs)) for part in parts}, INSTRUCTED)
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
    if parts := parts_of(env_id, **(kwargs or {})):
        return _common({part.name: player_options(part.id, dict(part.kwargs)) for part in parts}, {})
    parser = instructions(env_id, kwargs)["parser"]
    return {"parser": parser} if parser in ("whole", "with-thoughts") else {}


def _common(tables: Mapping[str, JsonObject], otherwise: JsonObject) -> JsonObject:
    """Return the options of parts as those of their mixture.

    Args:
        tables: the options by the name of the part, such as "household/tiny".
        otherwise: the options of the mixture, where those of its parts differ.
    """
    first, *others = tables.values()
    if all(table == first for table in others):
        return first
    groups: dict[str, dict[str, JsonObject]] = {}
    for name, table in tables.items():
        groups.setdefault(name.partition("/")[0], {})[name] = table
    parts: dict[str, JsonObject] = {}
    for name, group in groups.items():
        table, *others = group.values()
        parts |= {name: table} if all(other == table for other in others) else group
    return {**otherwise, PARTS: {name: table for name, table in parts.items() if table != otherwise}}


def of_parts(table: JsonObject, options: JsonObject) -> JsonObject:
    """Return options of an agent, replaced by others, also in the tables of its parts.

    Args:
        table: the options; those in its table `parts` are about a part.
        options: the others; those in its table `parts` replace what is about a part.
    """
    others = {name: value for name, value in options.items() if name != PARTS}
    own, theirs = table.get(PARTS) or {}, options.get(PARTS) or {}
    parts = {name: {**own.get(name, {}), **others, **theirs.get(name, {})} for name in {**own, **theirs}}
    return {**table, **others, **({PARTS: parts} if parts else {})}


def merged(defaults: JsonObject, options: JsonObject) -> JsonObject:
    """Return the defaults, replaced by options.

    Template and parser belong together: where the options have only one of them, the other becomes the one that fits,
    `think-action` for `react`, else `plain` and `bare`. What the defaults say for models without a chat template goes
    with them. Tables of `chat` are merged. Each part of a mixture has its own defaults, and the options are for all.
    """
    own, theirs = defaults.get(PARTS) or {}, options.get(PARTS) or {}
    if own or theirs:
        defaults, options = ({k: v for k, v in table.items() if k != PARTS} for table in (defaults, options))
        parts = {
            name: merged(merged(own.get(name, defaults), options), theirs.get(name, {})) for name in {**own, **theirs}
        }
        return {**merged(defaults, options), PARTS: parts}
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
    if env_id:
        options = with_tools(options, env_id, kwargs or {})
    whole = options.get("chat", True)
    tables = {
        name: {**table, "chat": _joined(whole, table.get("chat"))} for name, table in (options.get(PARTS) or {}).items()
    }
    parts = {name: _fields(table, tokenizer, env_id) for name, table in tables.items()}
    return Agent.from_options(**_fields(options, tokenizer, env_id), parts=parts)


def with_tools(options: JsonObject, env_id: str, kwargs: JsonObject) -> JsonObject:
    """Return options of an agent with the schemas of the environment's tools in place of ``chat = {tools = true}``.

    Args:
        options: of the agent; those of the parts of a mixture are in its table `parts`.
        env_id: id of the environment; it, or a part, is opened only if its tools are asked for.
        kwargs: its arguments.

    Raises:
        PromptError: the environment has no tools for a chat template.
    """
    parts, whole = parts_of(env_id, **kwargs), options.get("chat", True)
    if not parts:
        return {**options, "chat": chat_with_tools(whole, env_id, kwargs)}
    tables, all_ask = dict(options.get(PARTS) or {}), wants_tools({"chat": whole})
    for part in parts:
        name = part_of(f"{part.name}/", tables) or (part.name if all_ask else "")
        chat = _joined(whole, tables.get(name, {}).get("chat"))
        if name and wants_tools({"chat": chat}):
            tables[name] = {**tables.get(name, {}), "chat": chat_with_tools(chat, part.id, dict(part.kwargs))}
    chat = {key: value for key, value in whole.items() if key != TOOLS} if isinstance(whole, Mapping) else whole
    return {**options, "chat": chat, **({PARTS: tables} if tables else {})}


def _joined(whole: bool | JsonObject, own: bool | JsonObject | None) -> bool | JsonObject:
    """Return the setting `chat` of a part: its own, with what the table of the whole adds to its table."""
    if isinstance(whole, Mapping) and isinstance(own, Mapping):
        return {**whole, **own}
    return whole if own is None else own


def _fields(options: JsonObject, tokenizer: Tokenizer | None, env_id: str) -> JsonObject:
    """Return arguments of `Agent.from_options`, with the tokenizer whose chat template writes the prompts."""
    fields, chat = _plain(options), options.get("chat", True)
    templated = chat is not False and bool(getattr(tokenizer, "chat_template", None))
    if tokenizer is not None and not templated:
        if isinstance(chat, Mapping) and chat.get(TOOLS):
            raise PromptError(
                f"{env_id or 'the environment'} leaves the description of its tools to a chat template, and this model "
                "has none; leave out native=true, so that the first observation describes them"
            )
        fields = {**options.get(WITHOUT_CHAT, {}), **fields}
    return {**fields, **chat_fields(chat, tokenizer)}


def wants_tools(options: JsonObject) -> bool:
    """Return whether a chat template, or a server, should describe the tools of the environment, or of a part."""
    tables = [options, *(options.get(PARTS) or {}).values()]
    chats = [table.get("chat") for table in tables]
    return any(isinstance(chat, Mapping) and chat.get(TOOLS) is True for chat in chats)


def tool_format(options: JsonObject) -> str:
    """Return the format in which an environment reads the calls of a server; "" if it does not say.

    Raises:
        AgentError: the parts of a mixture read different formats, and the calls of a server are written in one.
    """
    tables = [options, *(options.get(PARTS) or {}).values()]
    formats = sorted({str(table[TOOL_FORMAT]) for table in tables if table.get(TOOL_FORMAT) and wants_tools(table)})
    if len(formats) > 1:
        raise AgentError(f"the parts read calls in different formats, {' and '.join(formats)}; give them the same form")
    return formats[0] if formats else ""


def _plain(options: JsonObject) -> JsonObject:
    """Return the options that mean the same for every model."""
    special = ("chat", WITHOUT_CHAT, PARTS, TOOL_FORMAT)
    return {name: value for name, value in options.items() if name not in special}


def _name(template: object) -> str:
    """Return the name of a template, of a table that of its base."""
    return str(template.get("base", "plain") if isinstance(template, Mapping) else template)
