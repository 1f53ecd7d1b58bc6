"""The agent of a run, for the tokenizer of its policy."""

from collections.abc import Callable, Mapping

from turncredit.agents.agent import Agent
from turncredit.agents.instructions import PARTS, agent_from, with_tools
from turncredit.agents.json_types import JsonObject
from turncredit.agents.models.tokenization import Tokenizer
from turncredit.agents.prompts.chat_template import TOOLS
from turncredit.training.config.sections import AgentSection, EnvSection

MakeAgent = Callable[[Tokenizer | None], Agent]
"""Makes the agent for a tokenizer; None for players without one."""


def agent_maker(section: AgentSection, env: EnvSection) -> MakeAgent:
    """Return a function that makes the run's agent for a tokenizer.

    Args:
        section: the `[agent]` section.
        env: the `[env]` section; an environment of functions gives their schemas to the chat template.
    """
    options = with_tools({**section.model_dump(), PARTS: env.agents()}, env.id, env.arguments())
    return lambda tokenizer: agent_from(options, tokenizer)


def described_tools(section: AgentSection, env: EnvSection) -> dict[str, list[JsonObject]]:
    """Return the definitions of the tools that a run's chat template describes, by part of a mixture; "": of the whole.

    Args:
        section: the `[agent]` section.
        env: the `[env]` section; it is opened only if its tools are asked for.

    Raises:
        PromptError: the environment has no tools for a chat template.
        EnvError: it cannot be opened.
    """
    options = with_tools({**section.model_dump(), PARTS: env.agents()}, env.id, env.arguments())
    chats = {name: table.get("chat") for name, table in {"": options, **(options.get(PARTS) or {})}.items()}
    return {
        name: list(chat[TOOLS])
        for name, chat in chats.items()
        if isinstance(chat, Mapping) and isinstance(chat.get(TOOLS), list)
    }
