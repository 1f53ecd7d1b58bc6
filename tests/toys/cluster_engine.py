"""A sampler for engines on a cluster: it answers from (seed, turn, weights) alone, and fails on request.

options: seconds      of each answer
         dies_on      an episode over which its process ends
         hangs_on     an episode that its first process never answers, with `marker`
         marker       a file that the first process to hang or to fail makes
         broken_after a process that starts when `marker` exists fails to start
         samples      (id, log-probability) of the one token of the answer at each turn
"""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path
from typing import Any

from toys.tokens import Bytes

from turncredit.agents.errors import ContextOverflow, SamplerError
from turncredit.engines.base import Completion, Request, SamplerSettings


class Engine:
    """See the module's header."""

    context = None

    def __init__(self, settings: SamplerSettings) -> None:
        self.options = dict(settings.options)
        self.marker = Path(self.options.get("marker", "/nonexistent"))
        if self.options.get("broken_after") and self.marker.exists():
            raise SamplerError("the disk is full")
        self.version, self.scale, self.busy = 0, 1.0, 0
        self.tokenizer = Bytes() if "samples" in self.options else None

    async def sample(self, request: Request) -> Completion:
        if request.prompt and self.tokenizer is None:
            raise ContextOverflow("the prompt is too long")
        if request.episode == self.options.get("dies_on"):
            os._exit(1)
        if request.episode == self.options.get("hangs_on") and not self.marker.exists():
            self.marker.touch()
            time.sleep(3600)
        version = self.version
        self.busy += 1
        try:
            await asyncio.sleep(self.options.get("seconds", 0.0))
        finally:
            self.busy -= 1
        assert version == self.version, "new weights in the middle of a request"
        samples = self.options.get("samples")
        tokens, logprobs = zip(samples[request.turn], strict=True) if samples else ((), ())
        return Completion(
            tokens,
            logprobs,
            f"{request.seed} {request.turn} {self.scale}",
            self.version,
            "stop",
            {"pid": os.getpid()},
        )

    def forget(self, episode: str) -> None:
        return None

    async def load(self, weights: Any, version: int) -> None:
        if self.busy:
            raise SamplerError("requests are in progress")
        if set(weights) != {"scale"}:
            raise SamplerError(f"the new weights do not fit: they add {min(set(weights) - {'scale'})}")
        self.scale, self.version = float(weights["scale"]), version

    def close(self) -> None:
        return None
