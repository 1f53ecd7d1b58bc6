"""The phases of vLLM's weight transfer, for an engine in this process: what a `WeightSender` calls from its thread."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from turncredit.agents.errors import EngineFailed
from turncredit.engines.vllm.engine import VLLMEngine

__all__ = ["EnginePhases"]

PATIENCE = 600.0
"""Seconds after which workers that do not answer are given up; a model of any size is loaded in less."""
ABANDON = 60.0
"""Seconds after which workers that wait for a sender are given up."""


class EnginePhases:
    """Calls each phase in all workers, and returns when they are done."""

    def __init__(self, engine: VLLMEngine) -> None:
        """Keep the engine."""
        self._engine = engine

    def init_weight_transfer_engine(self, init_info: dict[str, object]) -> None:
        """Let the workers meet the sender."""
        self._call("init_weight_transfer_engine", init_info)

    def start_weight_update(self) -> None:
        """Let the workers wait for tensors."""
        self._call("start_weight_update")

    def update_weights(self, update_info: Mapping[str, object]) -> None:
        """Let the workers receive tensors."""
        self._call("update_weights", update_info)

    def update_shared_weights(self, update_info: Mapping[str, object]) -> None:
        """Let the workers read tensors from a `SharedBuffer`."""
        self._call("update_shared_weights", update_info)

    def finish_weight_update(self, weight_version: str | None = None) -> None:
        """Let the workers use what they received."""
        self._call("finish_weight_update")

    def abandon_weight_update(self) -> None:
        """Let the workers forget an update that failed."""
        self._call("abandon_weight_update", seconds=ABANDON)

    def _call(self, method: str, *arguments: object, seconds: float = PATIENCE) -> None:
        """Call a method of the workers.

        Raises:
            SamplerError: it failed.
            EngineFailed: the engine has ended, or its workers do not answer.
        """
        work = self._engine.call("collective_rpc", method, args=arguments)
        try:
            asyncio.run(asyncio.wait_for(work, seconds))
        except TimeoutError as error:
            raise EngineFailed(f"the engine's workers do not answer ({method}, {seconds:g} seconds)") from error
