"""What runs inside the process of an engine: a sampler, made from its settings, behind calls that can be pickled.

Errors are returned instead of raised, since Ray would wrap what is raised into its own exceptions with a traceback as
text. An exception that leaves this process is one of `turncredit.agents.errors`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from dataclasses import dataclass
from importlib.metadata import version as version_of
from pathlib import Path
from typing import TypeVar

from turncredit.agents.errors import AgentError, SamplerError
from turncredit.engines.base import Completion, Request, Sampler, SamplerSettings, Tokenizer
from turncredit.engines.cluster.weight_chunks import WeightChunk, join_chunks
from turncredit.engines.wrappers import make_sampler
from turncredit.registry import ImportRules, adopt_import_rules

__all__ = ["EngineFacts", "EngineHost"]

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class EngineFacts:
    """What the driver must know about an engine."""

    turncredit: str
    """Version of the package on its node."""
    tokenizer: Tokenizer | None
    """Of an engine that found its tokenizer by itself; None if the driver gave it, or there is none."""
    has_tokenizer: bool
    context: int | None
    images: bool
    continues: bool


class EngineHost:
    """The class of the Ray actor of an engine; `open` makes its sampler."""

    def __init__(self, rules: ImportRules) -> None:
        """Find modules where the driver finds them, as far as this node has the folders: samplers of the user's own."""
        adopt_import_rules(rules)
        self._opened: Sampler | None = None
        self._chunks: dict[int, WeightChunk] = {}
        self._running: dict[str, asyncio.Event] = {}
        self._held = False  # requests in progress are interrupted
        self._open_to_new = asyncio.Event()
        self._open_to_new.set()

    async def open(self, name: str, settings: SamplerSettings) -> EngineFacts | AgentError:
        """Make the sampler, and return what the driver must know about it."""
        return await _caught(self._open(name, settings))

    async def sample(self, request: Request) -> Completion | AgentError | None:
        """Return the sampler's answer; None if its episode was forgotten meanwhile.

        The driver has one request of an episode at a time. One that it has cancelled may still be ending here.
        """
        while request.episode in self._running:
            await self._running[request.episode].wait()
        self._running[request.episode] = ended = asyncio.Event()
        try:
            await self._open_to_new.wait()
            return await _caught(self._sampler.sample(request))
        except asyncio.CancelledError:
            return None
        finally:
            del self._running[request.episode]
            ended.set()

    async def forget(self, episode: str) -> None:
        """Drop what is kept for an episode."""
        self._sampler.forget(episode)

    async def take(self, number: int, chunk: WeightChunk) -> None:
        """Keep a chunk of the weights that `load` will use."""
        self._chunks[number] = chunk

    async def interrupt(self) -> AgentError | None:
        """Hold the requests in progress until `proceed`, and new ones until the next load, if the sampler can.

        Other samplers answer what they have.
        """
        sampler = self._sampler
        if not sampler.interruptible:
            await self._answer_all()
            return None
        self._held = True
        self._open_to_new.clear()
        return await _caught(sampler.interrupt())

    async def proceed(self) -> AgentError | None:
        """Go on with the requests that are held."""
        self._held = False
        self._open_to_new.set()
        return await _caught(self._sampler.proceed())

    async def load(self, version: int) -> AgentError | None:
        """Use the weights whose chunks were taken, once the requests that were cancelled have ended."""
        if not self._held:
            await self._answer_all()
        chunks = [self._chunks[number] for number in sorted(self._chunks)]
        self._chunks.clear()
        try:
            return await _caught(self._sampler.load(join_chunks(chunks), version))
        finally:
            self._open_to_new.set()

    async def sleep(self) -> AgentError | None:
        """Release memory until the next load, if the sampler can."""
        return await _caught(self._sampler.sleep())

    async def close(self) -> None:
        """Close the sampler."""
        self._sampler.close()

    async def _answer_all(self) -> None:
        while self._running:
            await next(iter(self._running.values())).wait()

    @property
    def _sampler(self) -> Sampler:
        assert self._opened is not None, "open comes first"
        return self._opened

    async def _open(self, name: str, settings: SamplerSettings) -> EngineFacts:
        folder = Path(settings.model)
        if folder.is_absolute() and not folder.is_dir():
            raise SamplerError(
                f"the model folder {folder} does not exist on an engine's node; nodes need a common disk for folders, "
                "or policy.model must be an id of the Hugging Face Hub"
            )
        self._opened = sampler = make_sampler(name, settings, SamplerError)
        return EngineFacts(
            turncredit=version_of("turncredit"),
            tokenizer=sampler.tokenizer if settings.tokenizer is None else None,
            has_tokenizer=sampler.tokenizer is not None,
            context=sampler.context,
            images=sampler.images,
            continues=sampler.continues,
        )


async def _caught(work: Awaitable[Result]) -> Result | AgentError:
    """Return the result of the work, or its error as one of ours."""
    try:
        return await work
    except AgentError as error:
        return error.with_traceback(None)
    except Exception as error:
        return SamplerError(f"an engine failed: {type(error).__name__}: {error}")
