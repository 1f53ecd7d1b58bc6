"""For tests of benchmarks: a suite of corridors, environments that fail, and a player that is slow."""

from __future__ import annotations

import asyncio
import os
from typing import Any, ClassVar

from toys.corridor import Corridor

from turncredit.agents.errors import EngineFailed
from turncredit.engines import Completion, Random, Request, SamplerSettings
from turncredit.envs import EnvError, register

SUITE = """
name = "tiny"
about = "corridors"
seed = 3
[agent]
max_turns = 12
[[panels]]
name = "short"
env = "toys/Corridor-v0"
kwargs = { lengths = [3], kinds = ["open"] }
episodes = 9
[[panels]]
name = "long"
like = "short"
kwargs = { lengths = [4, 5] }
episodes = 6
agent = { max_tokens = 8 }
"""


class Absent(Corridor):
    """It needs something that is not here."""

    def reset(self, **_: Any) -> Any:
        raise EnvError("there is no browser on this machine")


class Flaky(Corridor):
    """The first step of the first episodes fails."""

    left: ClassVar[int] = 0

    def step(self, action: str) -> Any:
        if Flaky.left > 0:
            Flaky.left -= 1
            raise RuntimeError("the connection was lost")
        return super().step(action)


class Unlisted(Corridor):
    """It lists no actions."""

    def reset(self, **options: Any) -> Any:
        text, info = super().reset(**options)
        return text, {key: value for key, value in info.items() if key != "admissible_actions"}


def register_toys() -> None:
    """Register the environments."""
    for kind in (Absent, Flaky, Unlisted):
        register(f"toys/{kind.__name__}-v0", kind)


class Slow(Random):
    """Waits before each answer, for as many seconds as the environment variable SLOW says."""

    async def sample(self, request: Request) -> Completion:
        await asyncio.sleep(float(os.environ.get("SLOW", "0")))
        return await super().sample(request)


class Dying(Random):
    """A server that is gone after a number of answers."""

    answers = 30

    async def sample(self, request: Request) -> Completion:
        self.answers -= 1
        if self.answers < 0:
            raise EngineFailed("the server does not answer")
        return await super().sample(request)


class Counting(Random):
    """A black box that counts tokens, knows prices, and whose second answer is cut off."""

    async def sample(self, request: Request) -> Completion:
        answer = await super().sample(request)
        counted = {"prompt_tokens": 10, "response_tokens": 3, "request_cost": 0.5}
        finish = "length" if request.turn == 1 else "stop"
        return Completion((), (), answer.text, 0, finish, counted)


def slow(settings: SamplerSettings) -> Slow:
    """Return the slow player."""
    return Slow(settings.seed, parser=settings.parser)


def dying(settings: SamplerSettings) -> Dying:
    """Return the player whose server dies."""
    return Dying(settings.seed, parser=settings.parser)


def counting(settings: SamplerSettings) -> Counting:
    """Return the player that counts."""
    return Counting(settings.seed, parser=settings.parser)
