"""The agent of a run, for the tokenizer of its policy."""

from collections.abc import Callable

from turncredit.agents.agent import Agent
from turncredit.agents.instructions import PARTS, agent_from, with_tools
from turncredit.agents.models.tokenization import Tokenizer
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
