"""Errors that a user of the agents can cause.

AgentError                 the root: catch this one
├── PromptError            a template or a chat template that cannot be used
├── ModelError             a model that cannot be found, downloaded or read
├── SamplerError           a sampler that cannot be made, or a request that it cannot serve
│   ├── ContextOverflow    a prompt that leaves no room in the model's context
│   ├── RequestFailed      one request that could not be answered; the others go on
│   │   └── UnreadableAnswer    the model's own answer, which no model could read again
│   └── EngineFailed       the engine or server as a whole cannot be used, or not any more
├── StoreError             a file or folder that cannot be read or written
│   ├── FolderInUse        an output folder that another process writes into
│   └── ImageError         a stored image that is missing or damaged
├── EvaluationError        results that cannot be compared, panels that cannot be played
└── StepsError             turns that make no table for credit

Interrupted                (a KeyboardInterrupt) Ctrl-C in a rollout: it carries what was finished

EnvFailure                 (no AgentError) an environment that failed during an episode. It is data: it ends the
├── EnvLost                episode as a trajectory with ``stop="error"``
├── EnvEndedHost
├── ForkRefused
└── NoPlan
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from turncredit.agents.root_errors import AgentError as AgentError
from turncredit.agents.root_errors import ImageError as ImageError
from turncredit.agents.root_errors import StoreError as StoreError
from turncredit.registry import CannotLoad, Registry, UnknownName

if TYPE_CHECKING:
    from turncredit.agents.trajectory import Group

Item = TypeVar("Item")


class PromptError(AgentError):
    """A template, or the chat template of a tokenizer, cannot be used."""


class ModelError(AgentError):
    """A model cannot be found, downloaded or read."""


class SamplerError(AgentError):
    """A sampler cannot be made, or cannot serve a request."""


class ContextOverflow(SamplerError):
    """A prompt leaves no room for a response in the model's context; a rollout ends the episode as ``tokens``."""


class RequestFailed(SamplerError):
    """One request could not be answered, although it was retried; a rollout ends the episode as ``error``."""


class UnreadableAnswer(RequestFailed):
    """The model's own answer holds a token that no model could read again; a rollout ends the episode as ``answer``.

    Unlike other failed requests this is the policy's doing, so the episode is lost, and counts.
    """


class EngineFailed(SamplerError):
    """The engine or server as a whole cannot be used, or not any more; a rollout ends, since no episode could go on.

    ``groups`` holds the trajectories that the rollout had finished, in the order of the tasks.
    """

    groups: list[Group] | None = None


class FolderInUse(StoreError):
    """Another process writes into the output folder."""


class StepsError(AgentError):
    """Turns make no table for credit."""


class EvaluationError(AgentError):
    """A panel cannot be played, or two results cannot be compared."""


class Interrupted(KeyboardInterrupt):
    """Ctrl-C during a rollout; ``groups`` holds the trajectories that were finished, in the order of the tasks."""

    def __init__(self, groups: list[Group]) -> None:
        """Keep the finished trajectories."""
        count = sum(len(group.trajectories) for group in groups)
        super().__init__(f"interrupted; {count} finished episode(s) are kept")
        self.groups = groups


class EnvFailure(Exception):
    """An environment failed; the message says in which call, and how."""


class EnvLost(EnvFailure):
    """An environment was lost with its process, which another environment ended."""

    suspect = False
    """Whether it may have ended the process itself, since it was in a call at that moment."""


class EnvEndedHost(EnvFailure):
    """An environment ended its process, in which others may have lived."""


class ForkRefused(EnvFailure):
    """An episode cannot begin in the middle of another: its environment cannot be put into that state again."""


class NoPlan(EnvFailure):
    """The environment works, but knows no way to success from its current state."""


def look_up(registry: Registry[Item], name: str, error: type[AgentError] = AgentError) -> Item:
    """Return an item of a registry.

    Args:
        registry: parsers, templates, prompts or samplers.
        name: a registered name, the name of an entry point, or "module:attribute".
        error: what to raise instead of the registry's own errors.

    Raises:
        AgentError: the name is unknown, or its object cannot be loaded or used.
    """
    try:
        return registry.get(name)
    except (UnknownName, CannotLoad, TypeError) as problem:
        raise error(str(problem)) from problem
