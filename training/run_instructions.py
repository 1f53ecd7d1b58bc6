"""The agent of a run of a pretrained model whose file says nothing about prompts: as the environment names it."""

from __future__ import annotations

from pathlib import Path

from turnwise.agents.instructions import PARTS, instructions, merged
from turnwise.agents.json_types import JsonObject
from turnwise.training.config.run import Run
from turnwise.training.config.sections import AgentSection
from turnwise.training.run_folder.paths import run_of

__all__ = ["with_instructions"]

_KEYS = ("prompt", "template", "parser", "max_tokens", "chat")


def with_instructions(run: Run) -> Run:
    """Return the run with the prompts, the parser and the longest answer that its environment names.

    A run keeps its agent if the file sets template or parser, if its model is new, and if the model is a checkpoint of
    another run, which was trained with prompts of its own.

    Raises:
        AgentError: the environment names options that agents do not have.
        EnvError: there is no such environment, or it cannot be imported or made.
    """
    agent, model = run.agent, run.policy.model
    if not model or {"template", "parser"} & agent.model_fields_set or run_of(Path(model).expanduser()) is not None:
        return run
    options = instructions(run.env.id, run.env.arguments())
    others = instructions(run.env.id, run.evaluation_kwargs())
    parts = {
        name: merged(_own(table, agent), agent.parts.get(name, {}))
        for name, table in {**others.get(PARTS, {}), **options.get(PARTS, {})}.items()
    }
    update = {**_own(options, agent), PARTS: {**agent.parts, **parts}}
    return run.model_copy(update={"agent": agent.model_copy(update=update)})


def _own(options: JsonObject, agent: AgentSection) -> JsonObject:
    """Return what the environment says and the file does not."""
    return {name: options[name] for name in _KEYS if name in options and name not in agent.model_fields_set}
