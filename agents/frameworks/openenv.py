"""Any environment behind OpenEnv's server interface, so that OpenEnv's clients, TRL and verifiers can play it.

    action         {"action": str}
    observation    {"text", "image", "admissible_actions", "free_actions", "valid", "truncated"}, None where absent
    state          {"task", "task_type", "state", "won", "score", "step_count", ...}
    reset          takes "task" and "seed"
    tasks          {"task": id}, listed by OpenEnv's task API in one split

Every connection is a session with an environment of its own. An environment that fails or overruns answers with an
error, and the next reset makes a new one. The state, which may reveal what the agent should find out, is not part of
the observation. Images are PNG data URLs.

Not included: authentication, OpenEnv's tools over MCP, and its web page.
"""

from __future__ import annotations

import json
from functools import cache, partial
from typing import TYPE_CHECKING, Annotated, Any, Final

from pydantic import BeforeValidator, Field, create_model

from turncredit.agents.errors import EnvFailure
from turncredit.agents.frameworks.session import ClientSession
from turncredit.agents.frameworks.task_lists import TaskLists, TaskTable
from turncredit.agents.rollouts.env_pool import MakeEnv, StepResult
from turncredit.engines.openai.messages import data_url
from turncredit.installation import MissingPackage, needs

if TYPE_CHECKING:
    from fastapi import FastAPI

__all__ = ["create_app"]

_MISSING: Final = "OpenEnv's server needs the package openenv"


def create_app(
    make: MakeEnv,
    *,
    name: str = "turncredit",
    sessions: int = 64,
    idle: float | None = None,
    deadline: float = 60.0,
    split: str = "train",
) -> FastAPI:
    """Return OpenEnv's application for an environment; `turncredit.processes.serving` runs it with `websockets=True`.

    Args:
        make: makes an environment, such as `functools.partial(turncredit.envs.make, "turncredit/Household-v0")`.
        name: name of the environment, for OpenEnv's clients.
        sessions: maximum number of clients at once; a further one is refused.
        idle: seconds after which a client that sends nothing loses its environment; None: never.
        deadline: seconds for each reset and step.
        split: name of the split under which the environment's tasks are listed.

    Raises:
        ImportError: openenv is not installed.
    """
    try:
        from openenv.core.env_server.http_server import create_fastapi_app
        from openenv.core.env_server.types import ConcurrencyConfig
    except ImportError as missing:
        raise MissingPackage(needs(_MISSING, "openenv")) from missing
    app: FastAPI = create_fastapi_app(
        partial(_environment_class(name), make, deadline, TaskTable(make, split)),
        *_models(),
        concurrency_config=ConcurrencyConfig(max_concurrent_envs=sessions, session_timeout=idle),
        env_name=name.rpartition("/")[2],  # a part of the task API's paths
    )
    app.add_exception_handler(EnvFailure, _explain)
    return app


def _as_text(value: object) -> str:
    """Return an action as text; clients that parse JSON turn the answer "7" into a number."""
    return value if isinstance(value, str) else json.dumps(value)


_ACTION: Final[dict[str, Any]] = {
    "action": (Annotated[str, BeforeValidator(_as_text)], Field(description="The action."))
}
_OBSERVATION: Final[dict[str, Any]] = {
    "text": (str, Field(description="What the agent reads.")),
    "image": (str | None, Field(None, description="What the agent sees: a PNG data URL.")),
    "admissible_actions": (list[str] | None, Field(None, description="All actions that are possible now.")),
    "free_actions": (list[str], Field([], description="Forms of actions with free text, such as search[...].")),
    "valid": (bool | None, Field(None, description="Whether the last action was understood and admissible.")),
    "truncated": (bool, Field(False, description="The episode was cut off before its end.")),
}


@cache
def _models() -> tuple[Any, Any]:
    """Return the classes of actions and observations."""
    from openenv.core.env_server.types import Action, Observation

    action = create_model("TextAction", __base__=Action, **_ACTION)
    return action, create_model("TextObservation", __base__=Observation, **_OBSERVATION)


def _environment_class(name: str) -> Any:
    """Return a subclass of OpenEnv's Environment whose instances are sessions."""
    from openenv.core.env_server.interfaces import Environment
    from openenv.core.env_server.types import EnvironmentMetadata, State

    class SessionEnvironment(TaskLists, Environment):  # type: ignore[misc]
        """A session as OpenEnv's server expects it."""

        SUPPORTS_CONCURRENT_SESSIONS = True

        def __init__(self, make: MakeEnv, deadline: float, table: TaskTable) -> None:
            super().__init__()
            self.table = table
            self.session, self.episode = ClientSession(make, deadline), ""

        async def reset_async(
            self, seed: int | None = None, episode_id: str | None = None, task: str | None = None, **other: object
        ) -> object:
            if other:
                raise EnvFailure(f"reset takes task, seed and episode_id, got {', '.join(sorted(other))}")
            self.episode = episode_id or ""
            return _observation(await self.session.reset(task, seed))

        async def step_async(self, action: Any, timeout_s: float | None = None, **_: object) -> object:
            return _observation(await self.session.step(action.action))

        reset, step = reset_async, step_async  # abstract in the base class; the server awaits those above

        @property
        def state(self) -> object:
            return State(episode_id=self.episode or None, step_count=self.session.turns, **self.session.facts())

        def get_metadata(self) -> object:
            return EnvironmentMetadata(name=name, description=f"{name}, served by turncredit", version="1.0.0")

        def close(self) -> None:
            self.session.close()

    return SessionEnvironment


def _observation(result: StepResult) -> object:
    """Return OpenEnv's observation with the values of a result."""
    return _models()[1](
        text=result.observation,
        image=data_url(result.images[0].image) if result.images else None,
        admissible_actions=None if result.admissible is None else list(result.admissible),
        free_actions=list(result.free),
        valid=result.valid,
        truncated=result.truncated,
        reward=result.reward,
        done=result.terminated or result.truncated,
    )


async def _explain(request: Any, error: Exception) -> Any:
    """Answer a failure of an environment outside of a session."""
    from fastapi.responses import JSONResponse

    return JSONResponse({"detail": str(error)}, status_code=409)
