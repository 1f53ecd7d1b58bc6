"""Episodes of a verifiers environment, whose model is the agent that answers the requests.

verifiers runs an episode from its first message to its score and asks a model server in between. Here the server is one
of our own on the loopback interface: a request waits until `answer` is called. The environment, its harness and its
scoring run as in verifiers, on an event loop in a thread.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from contextlib import AbstractAsyncContextManager, ExitStack
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue
from threading import Event, Thread
from types import ModuleType
from typing import TYPE_CHECKING, Final, Protocol

from turncredit.envs.errors import DeadlineExceeded, EnvError, UnknownOption
from turncredit.processes.serving import serve_in_thread

if TYPE_CHECKING:
    from fastapi import FastAPI

__all__ = ["Finished", "ModelRequest", "VerifiersSession"]

_MISSING: Final = "environments of verifiers need the package verifiers: pip install verifiers"
_HARNESS: Final = "turncredit_chat"
"""Id of the harness that asks the model in this process; those of verifiers install a program."""
_CLOSING: Final = 10.0

Messages = Sequence[Mapping[str, object]]


class _Environment(Protocol):
    taskset: object

    def serving(self) -> AbstractAsyncContextManager[None]: ...
    async def run_episode(self, task: object, context: object) -> _PlayedEpisode: ...


class _Failure(Protocol):
    type: str
    message: str


class _ScoredTrace(Protocol):
    reward: float
    errors: Sequence[_Failure]
    metrics: Mapping[str, float | None]


class _PlayedEpisode(Protocol):
    errors: Sequence[_Failure]
    traces: Sequence[_ScoredTrace]


@dataclass
class ModelRequest:
    """A request of the model: the conversation, and where the answer goes."""

    messages: Messages
    reply: Future[str] = field(default_factory=Future)


@dataclass(frozen=True)
class Finished:
    """The end of an episode: the sum of the rewards of its traces, and their metrics."""

    reward: float
    metrics: Mapping[str, float]
    error: str = ""


class VerifiersSession:
    """An environment of verifiers, and the episode in it.

    Args:
        config: the table `env` of a run of verifiers; its taskset has an id.
        timeout: seconds until the next request of the model, or the end.

    Raises:
        EnvError: verifiers is not installed, or the taskset cannot be loaded.
        UnknownOption: verifiers refuses the configuration.
    """

    def __init__(self, config: Mapping[str, object], timeout: float) -> None:
        self._env = _load(config)
        self._timeout = timeout
        self._events: SimpleQueue[ModelRequest | Finished] = SimpleQueue()
        self._pending: ModelRequest | None = None
        self._episode: Future[None] | None = None
        self._ended = Event()
        self._stack = ExitStack()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._context: object = None
        self._tasks: list[object] = []
        self._source: object = None

    def tasks(self, count: int) -> int:
        """Return how many of the first `count` tasks there are."""
        if self._source is None:
            self._source = iter(self._env.taskset)  # type: ignore[call-overload]
        while len(self._tasks) < count:
            try:
                self._tasks.append(next(self._source))  # type: ignore[call-overload]
            except StopIteration:
                break
        return min(count, len(self._tasks))

    def start(self, number: int) -> ModelRequest | Finished:
        """Begin the episode of a task, and return the first request of the model."""
        self._abandon()
        loop = self._running()
        task = self._tasks[number]
        self._events = SimpleQueue()
        self._ended = Event()
        self._episode = asyncio.run_coroutine_threadsafe(self._play(task, self._events, self._ended), loop)
        return self._next()

    def answer(self, text: str) -> ModelRequest | Finished:
        """Answer the request, and return the next one, or the end of the episode."""
        assert self._pending is not None
        self._pending.reply.set_result(text)
        return self._next()

    def close(self) -> None:
        """End the episode, the server and the loop."""
        self._abandon()
        self._stack.close()
        self._loop = None

    def _next(self) -> ModelRequest | Finished:
        try:
            event = self._events.get(timeout=self._timeout)
        except Empty:
            self._abandon()
            raise DeadlineExceeded(f"verifiers took longer than {self._timeout:g} seconds") from None
        self._pending = event if isinstance(event, ModelRequest) else None
        return event

    def _abandon(self) -> None:
        """Cancel an episode that has not ended."""
        if self._episode is not None and not self._ended.is_set():
            self._episode.cancel()
            self._ended.wait(_CLOSING)
        if self._pending is not None:
            self._pending.reply.cancel()
        self._pending = self._episode = None

    async def _play(self, task: object, events: SimpleQueue[ModelRequest | Finished], ended: Event) -> None:
        try:
            episode = await self._env.run_episode(task, self._context)
        except Exception as error:
            events.put(Finished(0.0, {}, f"{type(error).__name__}: {error}"))
            return
        finally:
            ended.set()
        failures = [*episode.errors, *(failure for trace in episode.traces for failure in trace.errors)]
        metrics = {name: float(value or 0.0) for trace in episode.traces for name, value in trace.metrics.items()}
        reason = f"{failures[0].type}: {failures[0].message}" if failures else ""
        events.put(Finished(sum(float(trace.reward) for trace in episode.traces), metrics, reason))

    def _running(self) -> asyncio.AbstractEventLoop:
        """Return the loop, on which the environment is being served."""
        if self._loop is None:
            from verifiers.v1 import EvalClientConfig, ModelContext

            url = self._stack.enter_context(serve_in_thread(self._model_server()))
            self._context = ModelContext(
                model="turncredit", client=EvalClientConfig(base_url=f"{url}/v1", api_key_var="_")
            )
            self._loop = _loop_in_thread(self._stack)
            serving, ready = _Serving(self._env), Future[None]()
            ended = asyncio.run_coroutine_threadsafe(serving.run(ready), self._loop)
            self._stack.callback(_wait, ended)
            self._stack.callback(self._loop.call_soon_threadsafe, serving.ending.set)
            _wait(ended, ready)
        return self._loop

    def _model_server(self) -> FastAPI:
        from fastapi import FastAPI

        app = FastAPI()

        @app.post("/v1/chat/completions")
        async def complete(body: dict[str, object]) -> dict[str, object]:
            messages = body.get("messages")
            request = ModelRequest(
                [message for message in messages if isinstance(message, dict)] if isinstance(messages, list) else []
            )
            self._events.put(request)
            return _completion(await asyncio.wrap_future(request.reply))

        return app


class _Serving:
    """Keeps the resources of an environment open until `ending` is set."""

    def __init__(self, env: _Environment) -> None:
        self._env, self.ending = env, asyncio.Event()

    async def run(self, ready: Future[None]) -> None:
        async with self._env.serving():
            ready.set_result(None)
            await self.ending.wait()


def _wait(ended: Future[None], ready: Future[None] | None = None) -> None:
    """Wait for the end, or until the resources are ready; an error of the start is raised."""
    from concurrent.futures import FIRST_COMPLETED, wait

    done = wait([ended] if ready is None else [ended, ready], timeout=60.0, return_when=FIRST_COMPLETED).done
    if ended in done and (error := ended.exception()) is not None and ready is not None:
        raise EnvError(f"verifiers cannot serve the environment: {error}") from error


def _loop_in_thread(stack: ExitStack) -> asyncio.AbstractEventLoop:
    """Return an event loop that runs in a thread until the stack is closed."""
    loop = asyncio.new_event_loop()
    thread = Thread(target=loop.run_forever, name="turncredit-verifiers", daemon=True)
    thread.start()
    stack.callback(thread.join, _CLOSING)
    stack.callback(loop.call_soon_threadsafe, loop.stop)
    return loop


def _completion(text: str) -> dict[str, object]:
    """Return an answer in the form of the chat interface."""
    choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": text}}
    usage = {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}
    return {
        "id": "turncredit", "object": "chat.completion", "created": 0, "model": "turncredit",
        "choices": [choice], "usage": usage,
    }  # fmt: skip


def _load(config: Mapping[str, object]) -> _Environment:
    """Return the environment of a configuration, whose seats are played in this process unless it says otherwise."""
    try:
        from verifiers.v1.configs.agent import AgentConfig
        from verifiers.v1.utils.loaders import env_config_type, load_environment, resolve_env_config
    except ImportError as missing:
        raise EnvError(_MISSING) from missing
    sys.modules.setdefault(_HARNESS, _harness_module())
    taskset = config.get("taskset")
    name = str(taskset.get("id")) if isinstance(taskset, Mapping) else ""
    try:
        fields = env_config_type(name, str(config.get("id") or "")).model_fields
        seats = {seat: config.get(seat) for seat, info in fields.items() if isinstance(info.default, AgentConfig)}
        own = {"harness": {"id": _HARNESS}, "runtime": {"type": "subprocess"}}
        played = {seat: {**own, **value} if isinstance(value, Mapping) else own for seat, value in seats.items()}
        env: _Environment = load_environment(resolve_env_config({**config, **played}))
    except (ModuleNotFoundError, AttributeError) as error:
        raise EnvError(f"the taskset {name!r} cannot be loaded: {error}") from error
    except (ValueError, TypeError) as error:
        raise UnknownOption(f"verifiers refuses the configuration of {name!r}: {error}") from error
    return env


def _harness_module() -> ModuleType:
    """Return a module with the harness, which verifiers finds by its id among the imported modules."""
    from verifiers.v1.clients.base import build_async_httpx
    from verifiers.v1.configs.client import EvalClientConfig
    from verifiers.v1.configs.harness import HarnessConfig
    from verifiers.v1.dialects.chat import message_to_wire
    from verifiers.v1.harness import Harness
    from verifiers.v1.runtimes import ProgramResult

    class ChatHarness(Harness[HarnessConfig]):  # type: ignore[misc]
        """Asks the model once for each message of the user."""

        SUPPORTS_RESUME = True
        EXECUTES_CODE = False
        NEEDS_CONTAINER = False
        APPENDS_SYSTEM_PROMPT = True

        async def launch(
            self, ctx: object, trace: object, runtime: object, endpoint: str, secret: str, mcp_urls: object,
            data: object, **_: object
        ) -> object:  # fmt: skip
            system, prompt = self.resolve_prompt(data)
            messages: list[object] = [{"role": "system", "content": system}] if system else []
            messages += (
                [{"role": "user", "content": prompt}] if isinstance(prompt, str) else map(message_to_wire, prompt or ())
            )
            client = build_async_httpx(EvalClientConfig(base_url=endpoint, api_key_var="_"))
            async with client:
                body = {"model": "turncredit", "messages": messages}
                answer = await client.post(
                    f"{endpoint}/chat/completions", json=body, headers={"authorization": f"Bearer {secret}"}
                )
            return ProgramResult(exit_code=0 if answer.is_success else 1, stdout="", stderr="")

    module = ModuleType(_HARNESS)
    module.ChatHarness, module.__all__ = ChatHarness, ["ChatHarness"]  # type: ignore[attr-defined]
    return module
