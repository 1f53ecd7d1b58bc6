"""The agent of a run of a pretrained model whose file says nothing about prompts: as the environment names it."""

from __future__ import annotations

from pathlib import Path

from turncredit.agents.instructions import PARTS, instructions, merged
from turncredit.agents.json_types import JsonObject
from turncredit.envs.parts import name_of
from turncredit.training.config.run import Run
from turncredit.training.config.sections import AgentSection
from turncredit.training.run_folder.paths import run_of

__all__ = ["with_instructions"]

_KEYS = ("prompt", "template", "parser", "max_tokens", "chat")


def with_instructions(run: Run) -> Run:
    """Return the run with the prompts, the parser and the longest answer that its environment names.

    A run keeps its agent if the file sets template or parser, and if its model is new. A checkpoint of another run is
    asked as it was there, in the same environment. In another one it is asked as that names it, unless it knows bare
    actions alone, as new models do.

    Raises:
        AgentError: the environment names options that agents do not have.
        EnvError: there is no such environment, or it cannot be imported or made.
    """
    agent, model = run.agent, run.policy.model
    if not model or {"template", "parser"} & agent.model_fields_set:
        return run
    trained = run_of(Path(model).expanduser())
    options: JsonObject
    if trained is not None and trained.env.id == run.env.id and not run.env.mix:
        options = trained.agent.model_dump(include=set(_KEYS))
    elif trained is not None and trained.agent.template == AgentSection().template:
        return run
    else:
        options = instructions(run.env.id, run.env.arguments())
    env = run.env.model_copy(update={"mix": [_asked(table, options, agent) for table in run.env.mix]})
    return run.model_copy(update={"agent": agent.model_copy(update=_own(options, agent)), "env": env})


def _asked(table: JsonObject, options: JsonObject, agent: AgentSection) -> JsonObject:
    """Return a table of `env.mix` with how its environment wants to be asked, as far as that differs from the others.

    Args:
        table: of a part.
        options: of the whole mixture.
        agent: as the file says.
    """
    name = name_of(table)
    parts = {part: own for part, own in options.get(PARTS, {}).items() if part.partition("/")[0] == name}
    own = _own(next(iter(parts.values()), {}), agent)
    return {**table, "agent": merged(own, table.get("agent", {}))} if own else table


def _own(options: JsonObject, agent: AgentSection) -> JsonObject:
    """Return what the environment says and the file does not."""
    return {name: options[name] for name in _KEYS if name in options and name not in agent.model_fields_set}
