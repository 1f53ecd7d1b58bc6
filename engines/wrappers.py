"""Samplers around samplers: one that passes everything on, and one that gives a user's own object the defaults.

    sampler = as_sampler(theirs)                   the boundary of `rollout`, `stream`, `play` and evaluation
    sampler = make_sampler("their:engine", ...)    the boundary of commands and runs, which know a name and settings

Behind these, everything is a `Sampler`: callers call its methods and never ask which there are.
"""

from __future__ import annotations

from typing import Any, Final

from turncredit.agents.errors import AgentError, look_up
from turncredit.agents.models.weights import Weights, WeightSource
from turncredit.engines.base import SAMPLERS, Completion, Planner, Request, Sampler, SamplerSettings, Samples

__all__ = ["SamplerWrapper", "as_sampler", "make_sampler"]

_METHODS: Final = (
    "attach",
    "forget",
    "load",
    "interrupt",
    "proceed",
    "sleep",
    "metrics",
    "notes",
    "notes_of",
    "add_notes",
    "close",
)
"""Methods of a plain object that are used if it has them."""


def as_sampler(sampler: Samples) -> Sampler:
    """Return a sampler as it is, and a plain object with `sample` as a `Sampler` with the defaults of what it lacks.

    >>> class Ours:
    ...     async def sample(self, request: Request) -> Completion:
    ...         return Completion((), (), "look", 0, "stop")
    >>> sampler = as_sampler(Ours())
    >>> sampler.name, sampler.context, sampler.interruptible
    ('Ours', None, False)

    Raises:
        AgentError: it has no method `sample`.
    """
    return sampler if isinstance(sampler, Sampler) else _PlainSampler(sampler)


def make_sampler(name: str, settings: SamplerSettings, error: type[AgentError] = AgentError) -> Sampler:
    """Return the sampler of a name.

    Args:
        name: a registered name, the name of an entry point, or "module:attribute".
        settings: passed to the function of that name.
        error: what to raise if the name cannot be used.

    Raises:
        AgentError: the name is unknown, or the sampler cannot be made.
    """
    sampler = as_sampler(look_up(SAMPLERS, name, error)(settings))
    sampler.model_name = sampler.model_name or settings.model
    return sampler


def _passed_on(name: str) -> Any:
    """Return a property that is the inner sampler's attribute, now and later, or the default."""
    return property(lambda self: getattr(self.inner, name, getattr(Sampler, name)), doc=f"The inner sampler's {name}.")


class _PlainSampler(Sampler):
    """An object that has `sample`, and perhaps other methods and attributes of a `Sampler`."""

    version = _passed_on("version")
    tokenizer = _passed_on("tokenizer")
    context = _passed_on("context")
    images = _passed_on("images")
    continues = _passed_on("continues")
    module = _passed_on("module")

    def __init__(self, inner: Samples) -> None:
        if not callable(getattr(inner, "sample", None)):
            raise AgentError(f"a sampler must have a method sample(request), and {type(inner).__name__} has none")
        self.inner = inner
        for name in _METHODS:
            if method := getattr(inner, name, None):
                setattr(self, name, method)

    @property
    def name(self) -> str:
        return type(self.inner).__name__

    @property
    def interruptible(self) -> bool:
        return "interrupt" in vars(self) and "proceed" in vars(self)

    async def sample(self, request: Request) -> Completion:
        return await self.inner.sample(request)


class SamplerWrapper(Sampler):
    """Passes everything on to another sampler: the base of samplers that change some of it.

    Args:
        inner: the other sampler.
    """

    version = _passed_on("version")
    tokenizer = _passed_on("tokenizer")
    context = _passed_on("context")
    images = _passed_on("images")
    continues = _passed_on("continues")
    module = _passed_on("module")

    def __init__(self, inner: Samples) -> None:
        self.inner = as_sampler(inner)

    @property
    def model_name(self) -> str:
        """The inner sampler's."""
        return self.inner.model_name

    @model_name.setter
    def model_name(self, name: str) -> None:
        self.inner.model_name = name

    @property
    def provider(self) -> str:
        """The inner sampler's."""
        return self.inner.provider

    @property
    def interruptible(self) -> bool:
        """Whether the inner sampler is."""
        return self.inner.interruptible

    async def sample(self, request: Request) -> Completion:
        """Return the inner sampler's answer."""
        return await self.inner.sample(request)

    def attach(self, episode: str, planner: Planner) -> None:
        """Hand the planner to the inner sampler."""
        self.inner.attach(episode, planner)

    def forget(self, episode: str) -> None:
        """Let the inner sampler drop what it keeps for an episode that is over."""
        self.inner.forget(episode)

    async def load(self, weights: Weights | WeightSource, version: int) -> None:
        """Load new weights into the inner sampler."""
        await self.inner.load(weights, version)

    async def interrupt(self) -> None:
        """Interrupt the inner sampler."""
        await self.inner.interrupt()

    async def proceed(self) -> None:
        """Let the inner sampler go on."""
        await self.inner.proceed()

    async def sleep(self) -> None:
        """Let the inner sampler release its memory."""
        await self.inner.sleep()

    def metrics(self) -> dict[str, float]:
        """Return the inner sampler's counts."""
        return self.inner.metrics()

    def notes(self) -> Any:
        """Return the inner sampler's notes."""
        return self.inner.notes()

    def notes_of(self, episode: str) -> object:
        """Return the inner sampler's notes about an episode."""
        return self.inner.notes_of(episode)

    def add_notes(self, notes: Any) -> None:
        """Add notes to the inner sampler's."""
        self.inner.add_notes(notes)

    def close(self) -> None:
        """Close the inner sampler."""
        self.inner.close()
