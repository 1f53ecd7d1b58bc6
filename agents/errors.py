"""Errors that a user of the agents can cause.

    AgentError                 the root: catch this one
    ├── PromptError            a template or a chat template that cannot be used
    ├── SamplerError           a sampler that cannot be made, or a request that it cannot serve
    │   └── ContextOverflow    a prompt that leaves no room in the model's context
    ├── StoreError             a trajectory file that cannot be read or written
    └── EvaluationError        results that cannot be compared, panels that cannot be played

    Interrupted                (a KeyboardInterrupt) Ctrl-C in a rollout: it carries what was finished

What goes wrong *inside* an environment while it is played is not here: it is data, a trajectory with ``stop="error"``.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from turnwise.agents.trajectory import Group


class AgentError(Exception):
    """Root of what a user of the agents can cause."""


class PromptError(AgentError):
    """A template, or the chat template of a tokenizer, cannot be used."""


class SamplerError(AgentError):
    """A sampler cannot be made, or cannot serve a request."""


class ContextOverflow(SamplerError):
    """A prompt leaves no room for a response in the model's context; a rollout ends the episode as ``tokens``."""


class StoreError(AgentError):
    """A file of trajectories cannot be read or written."""


class EvaluationError(AgentError):
    """A panel cannot be played, or two results cannot be compared."""


class Interrupted(KeyboardInterrupt):
    """Ctrl-C during a rollout; ``groups`` holds the trajectories that were finished, in the order of the tasks."""

    def __init__(self, groups: list[Group]) -> None:
        """Keep what was finished."""
        count = sum(len(group.trajectories) for group in groups)
        super().__init__(f"interrupted; {count} finished episode(s) are kept")
        self.groups = groups


def choices(what: str, given: object, known: Iterable[str]) -> str:
    """Return the sentence for an unknown name: what was wanted, what came, the near name and all choices.

    >>> choices("parser", "bear", ["bare", "think-action"])
    "unknown parser 'bear'; did you mean 'bare'? The choices are bare, think-action"
    """
    names = sorted(known)
    near = difflib.get_close_matches(str(given), names, n=1, cutoff=0.5)
    hint = f"; did you mean {near[0]!r}? The" if near else "; the"
    return f"unknown {what} {given!r}{hint} choices are {', '.join(names) or 'none'}"
