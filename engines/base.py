"""The interface to a model: a request for one turn, its completion, and the base class of samplers.

It is asynchronous because episodes are independent: every episode awaits its own completion, and the sampler
batches the requests that are waiting.
"""

# ruff: noqa: B027 - a sampler that lacks an ability does nothing when it is asked for it

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, cast

from turncredit.agents.annealing import Annealing
from turncredit.agents.content import ImagePart
from turncredit.agents.errors import SamplerError
from turncredit.agents.json_types import JsonObject
from turncredit.agents.models.tokenization import AnswerEnd, Tokenizer
from turncredit.agents.models.weights import Weights, WeightSource
from turncredit.agents.prompts.dialogue import Message
from turncredit.agents.prompts.prompt import Exchange, View
from turncredit.agents.token_experts import Experts
from turncredit.agents.trajectory import Extra, Finish
from turncredit.registry import Registry

__all__ = [
    "MODEL_FREE",
    "SAMPLERS",
    "AnswerStart",
    "Completion",
    "Planner",
    "Request",
    "Sampler",
    "SamplerSettings",
    "Samples",
    "Tokenizer",
    "parse_sampler",
    "task_of",
]

Planner = Callable[[], list[str]]
"""Returns the actions that lead from the environment's current state to success."""


@dataclass(frozen=True, slots=True)
class AnswerStart:
    """The first tokens of an answer that was sampled before, with all that is known of each."""

    tokens: tuple[int, ...]
    logprobs: tuple[float, ...]
    versions: tuple[int, ...]


NOTHING = AnswerStart((), (), ())
"""The beginning of an answer that is sampled as a whole."""


@dataclass(frozen=True, slots=True)
class Request:
    """One call of the model: a prompt as ids and as messages, and how to sample."""

    episode: str
    """Id of the episode, ``task#member@seed``: the key of what a sampler keeps between turns, such as a KV cache."""
    turn: int
    prompt: tuple[int, ...]
    """Token ids of the whole prompt; empty if the sampler has no tokenizer."""
    messages: tuple[Message, ...]
    """The same prompt as chat messages."""
    seed: int
    """Sampling seed of the episode, the same at every turn: a sampler draws from (seed, turn) alone."""
    view: View
    """What the agent sees, for samplers that are not language models."""
    temperature: float = 1.0
    annealing: Annealing | None = None
    """Multiplies the temperature by a factor of the position in the answer."""
    top_p: float = 1.0
    top_k: int = 0
    min_p: float = 0.0
    max_tokens: int = 32
    stop: tuple[str, ...] = ()
    """Strings that end the response once it contains one of them."""
    end: AnswerEnd | None = None
    """What the chat template of the prompt writes at the end of an answer; it ends the response as well."""
    past: tuple[Exchange, ...] = ()
    """The earlier turns of a conversation, one for each answer in ``messages``, for samplers without a tokenizer."""
    images: tuple[ImagePart, ...] = ()
    """All images in the prompt, in order."""
    parser: str = ""
    """The parser of the task's part in a mixture, for samplers that write actions; empty: the sampler's own."""
    parent: str = ""
    """Id of the episode that this one is a fork of, whose prompts its own begin with; empty: it is none."""
    start: AnswerStart = NOTHING
    """What the answer begins with: a sampler that `continues` samples what follows, and returns the whole answer."""

    def temperature_at(self, position: int) -> float:
        """Return the temperature of a token by its position in the answer."""
        return self.temperature if self.annealing is None else self.temperature * self.annealing(position)

    @property
    def truncated(self) -> bool:
        """Whether some tokens are never sampled, however probable the model finds them."""
        return self.top_p < 1 or self.top_k > 0 or self.min_p > 0


@dataclass(frozen=True, slots=True)
class Completion:
    """The model's answer."""

    tokens: tuple[int, ...]
    """Ids as sampled, with the end token if it was sampled; empty if the sampler has no tokenizer."""
    logprobs: tuple[float, ...]
    """Log-probability (nats) of each token under the distribution that it was sampled from."""
    text: str
    """The decoded tokens without the end token, and without the end that the chat template writes."""
    version: int
    """Version of the weights that sampled it, or its first token."""
    finish: Finish
    """``stop``: end token or stop string; ``length``: cut at ``max_tokens`` or at the end of the context; ``refusal``
    and ``empty``: a server that refused to answer, or answered nothing."""
    extras: Mapping[str, Extra] = field(default_factory=dict, hash=False)
    """Further columns of the turn, such as a critic's `value`; see `turncredit.agents.trajectory.Turn`."""
    switches: tuple[tuple[int, int], ...] = ()
    """(index of a token, version): new weights that were loaded in the middle of the answer, and went on from there."""
    reasoning: str = ""
    """Reasoning that a server returned apart from the text; the agent puts it before the text where its parser reads
    it."""
    experts: Experts | None = field(default=None, hash=False, compare=False)
    """Experts of a mixture that computed the prompt and the tokens without the last, where they are recorded."""
    message: JsonObject | None = field(default=None, hash=False)
    """The message of a server as it came, which is sent back with the next prompt."""


class Sampler(ABC):
    """Answers requests; a subclass defines `sample`, and overrides what differs from the defaults.

    A plain object with a method `sample` works as well; `turncredit.engines.wrappers.as_sampler` gives it the
    defaults.
    """

    version: int = 0
    """Version of the weights in use."""
    tokenizer: Tokenizer | None = None
    """None for a sampler that works on messages or text."""
    context: int | None = None
    """Maximum number of tokens of prompt plus response; None: no limit."""
    images: bool = False
    """Whether it can use images; environments that return images are refused otherwise."""
    continues: bool = False
    """Whether it goes on from the first tokens of an answer (`Request.start`); episodes that begin inside an answer are
    refused otherwise."""
    module: object = None
    """The module that it computes with, where that is in this process: a learner's own, perhaps."""
    model_name: str = ""
    """Name of the model that answers, in traces; empty: there is none, or it is not known."""

    @property
    def name(self) -> str:
        """Name in messages."""
        return type(self).__name__

    @property
    def provider(self) -> str:
        """Name of what runs the model, in traces."""
        return self.name.removesuffix("Sampler").lower()

    @abstractmethod
    async def sample(self, request: Request) -> Completion:
        """Return the answer to one request; several may be awaited at once."""

    def attach(self, episode: str, planner: Planner) -> None:
        """Receive the planner of an episode that begins, which `forget` drops; most samplers do not look at it.

        It is separate from the request, so that a language model never sees the plan.
        """

    def forget(self, episode: str) -> None:
        """Drop what is kept for an episode that is over."""

    async def load(self, weights: Weights | WeightSource, version: int) -> None:
        """Use new weights from now on, and drop what was cached under the old ones; `use` does it.

        Args:
            weights: a torch module, named tensors, or a folder; see `turncredit.agents.models.weights`.
            version: version of the weights, returned with every completion.

        Raises:
            SamplerError: the sampler has no weights, or these do not fit.
        """
        await self.use(Weights.of(weights), version)

    async def use(self, weights: Weights, version: int) -> None:
        """Do what `load` does; a sampler whose weights can be replaced defines it."""
        raise SamplerError(f"the sampler {self.name} has no weights that can be replaced")

    @property
    def interruptible(self) -> bool:
        """Whether new weights can be loaded in the middle of answers, which go on with them: it has an `interrupt`."""
        return type(self).interrupt is not Sampler.interrupt

    async def interrupt(self) -> None:
        """Compute nothing for the requests in progress until `proceed`; they keep the tokens that were sampled."""

    async def proceed(self) -> None:
        """Go on with the requests that were interrupted, under the weights that are loaded by now."""

    async def sleep(self) -> None:
        """Release the memory of weights and caches until the next `load`, for a learner on the same device."""

    def metrics(self) -> dict[str, float]:
        """Return counts since the start that the log of a run should show, by name."""
        return {}

    def notes(self) -> Any:
        """Return what the sampler noted about its answers, which can be pickled; None if it takes no notes."""
        return None

    def notes_of(self, episode: str) -> object:
        """Return what of that is about an episode which is over, for who has to know it at once; None: nothing."""
        return None

    def add_notes(self, notes: Any) -> None:
        """Add the notes of a copy of this sampler in another process."""

    def close(self) -> None:
        """Release what the sampler holds; it cannot be used again."""


class Samples(Protocol):
    """The least that a sampler of a user must have."""

    async def sample(self, request: Request) -> Completion:
        """Return the answer to one request."""


def task_of(episode: str) -> str:
    """Return the task id inside an episode id.

    >>> task_of("train/small/000007#3@42")
    'train/small/000007'
    """
    return episode.rpartition("#")[0] or episode


@dataclass(frozen=True, slots=True)
class SamplerSettings:
    """How a sampler is made; every sampler reads what concerns it."""

    model: str = ""
    """A folder, a Hugging Face id, or the model's name on a server."""
    url: str = ""
    """Base URL of a server."""
    device: str = "cpu"
    dtype: str = ""
    """float32, bfloat16 or float16; empty: the engine's choice."""
    kv_cache_gib: float = 0.0
    """Memory of the KV cache in GiB; 0: the engine's choice."""
    utilization: float = 0.0
    """Share of each GPU's memory that the engine may take, for one beside a learner; 0: the engine's choice."""
    context: int | None = None
    """Maximum number of tokens of prompt and response; None: as many as the model has positions."""
    concurrency: int = 64
    """Maximum number of requests that are sampled at once."""
    seed: int = 0
    """Of samplers without a model; models draw from the seed of each request."""
    parser: str = "bare"
    """The agent's parser, for samplers that write actions."""
    experts: bool = False
    """Return with every completion the experts of a mixture that computed each token."""
    options: JsonObject = field(default_factory=dict, hash=False)
    """Options of the engine."""
    module: Any = None
    """A model in this process, which is shared instead of loaded."""
    tokenizer: Any = None
    """The tokenizer of that model."""
    vocabulary: int | None = None
    """Number of ids of the model that is trained, against which answers of a server are checked; None: unknown."""


MODEL_FREE = ("expert", "random", "scripted")
"""Samplers that are not models."""


def parse_sampler(text: str) -> tuple[str, str, str]:
    """Return engine, model and URL of ``ENGINE``, ``ENGINE:MODEL`` or ``ENGINE:MODEL@URL``.

    A text whose part before the first colon is no registered sampler is returned whole as the engine, since it may be
    "module:attribute".

    >>> parse_sampler("openai:Qwen/Qwen3-8B@http://127.0.0.1:8000/v1")
    ('openai', 'Qwen/Qwen3-8B', 'http://127.0.0.1:8000/v1')
    >>> parse_sampler("openai:MODEL@main@http://user:word@127.0.0.1:8000/v1")
    ('openai', 'MODEL@main', 'http://user:word@127.0.0.1:8000/v1')
    >>> parse_sampler("transformers:Qwen/Qwen3-8B@main")
    ('transformers', 'Qwen/Qwen3-8B@main', '')
    >>> parse_sampler("their_package:make_sampler")
    ('their_package:make_sampler', '', '')
    """
    engine, _, address = text.partition(":")
    if engine not in SAMPLERS.names():
        return text, "", ""
    if mark := re.search(r"@(?=[A-Za-z][A-Za-z0-9+.-]*://)", address):  # a URL may hold further "@"
        return engine, address[: mark.start()], address[mark.end() :]
    _, at, url = address.rpartition("@")
    if engine == "openai" and at and re.match(r"localhost\b|[\w.-]+:\d+|[\w.-]+\.\w+/", url):
        raise SamplerError(f"the URL of a server must begin with http:// or https://, got {url}")
    return engine, address, ""


MakeSampler = Callable[[SamplerSettings], Samples]
CheckSettings = Callable[[SamplerSettings, bool], object]


def _adapt(name: str, loaded: object) -> MakeSampler:
    if not callable(loaded):
        raise TypeError(
            f"the sampler {name!r} must be a function that makes a sampler from its settings, got "
            f"{type(loaded).__name__}"
        )
    return cast(MakeSampler, loaded)


SAMPLERS: Registry[MakeSampler] = Registry(
    "sampler",
    group="turncredit.samplers",
    adapt=_adapt,
    lazy={
        "expert": "turncredit.engines.expert:Expert.from_settings",
        "openai": "turncredit.engines.openai:make_openai",
        "random": "turncredit.engines.scripted:Random.from_settings",
        "scripted": "turncredit.engines.scripted:Scripted.from_settings",
        "transformers": "turncredit.engines.transformers.sampler:TransformersSampler.from_settings",
        "vllm": "turncredit.engines.vllm.sampler:VLLMSampler.from_settings",
    },
)
"""Functions that make a sampler from its `SamplerSettings`, by name, by entry point (group ``turncredit.samplers``), or
as "module:attribute"."""

SETTING_CHECKS: Registry[CheckSettings] = Registry(
    "check of a sampler's settings",
    group="turncredit.sampler_checks",
    lazy={
        "openai": "turncredit.engines.openai.options:check_settings",
        "transformers": "turncredit.engines.transformers.decoder_choice:check_settings",
        "vllm": "turncredit.engines.vllm.arguments:check_settings",
    },
)
"""Functions that raise what a sampler's function would raise, as far as the settings say without a model. The second
argument is false for a sampler on another machine, whose devices and packages are unknown."""


def check_settings(engine: str, settings: SamplerSettings, *, here: bool = True) -> None:
    """Refuse settings that a sampler cannot be made from, before there is a model.

    Args:
        engine: name of the sampler; one without a check in `SETTING_CHECKS` is not checked.
        settings: without a model.
        here: whether it would be made on this machine.

    Raises:
        SamplerError: from the check.
    """
    if engine in SETTING_CHECKS.names():
        SETTING_CHECKS.get(engine)(settings, here)
