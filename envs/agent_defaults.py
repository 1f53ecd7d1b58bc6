"""How a language model is asked for the actions of an environment: the options of an agent that the environment names.

    class Shell(TextEnv):
        metadata = {"render_modes": ["ansi"], "agent": {"parser": "whole", "template": {"ask": "\\n\\nYour command:"}}}

`metadata["agent"]` is a table of plain values, or a function from the environment's arguments to such a table. It is
read from the class; where the registry has a function, from the environment that the function makes, so that a
constructor may set it. `turncredit.agents.instructions` says what the options mean, and which ones an agent has where
the environment names none.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from turncredit.envs.errors import EnvError
from turncredit.envs.registration import creator_of, find, make

__all__ = ["AGENT", "TOOL_FORMAT", "AgentTable", "agent_defaults"]

AGENT = "agent"
"""The key of `metadata`."""
TOOL_FORMAT = "tool_format"
"""The key, in the table, of the format in which an environment reads calls whose tools somebody else describes."""

AgentTable = Mapping[str, object]


def agent_defaults(id: str, **kwargs: object) -> dict[str, object]:
    """Return the options of an agent that an environment names; {} if it names none.

    Args:
        id: see `turncredit.envs.registration.find`.
        kwargs: arguments of the environment.

    Raises:
        UnknownEnv: no environment has this id.
        EnvError: `metadata["agent"]` is neither a table nor a function that returns one, or the environment cannot be
            imported or made.
    """
    spec = find(id)
    kwargs = {**spec.kwargs, **kwargs}
    metadata = getattr(creator_of(spec), "metadata", None)
    if metadata is None:  # a function: only the environment that it makes can say
        env = make(id, **kwargs)
        try:
            metadata = env.unwrapped.metadata
        finally:
            env.close()
    table: AgentTable | Callable[..., AgentTable] = metadata.get(AGENT) or {}
    if callable(table):
        table = table(**kwargs)
    if not isinstance(table, Mapping):
        raise EnvError(f"metadata[{AGENT!r}] of {id} must be a table of an agent's options, got {table!r:.200}")
    return dict(table)
