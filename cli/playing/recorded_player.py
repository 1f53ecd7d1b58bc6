"""The player of a stored rollout, from its record."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from turncredit.cli.players import load_player
from turncredit.registry import Untrusted, trusted

if TYPE_CHECKING:
    from turncredit.evaluation.stored_rollouts import RolloutRecord
    from turncredit.training.engine.loaded_agent import LoadedAgent

HARMLESS = frozenset({"noise"})
"""Options of a sampler that a record may set: they name no model, server or file."""


def player_of(record: RolloutRecord, env_id: str, env_kwargs: Mapping[str, object]) -> LoadedAgent:
    """Return the player that a record names, with the options that it was given.

    Args:
        record: how the groups were played.
        env_id: the environment.
        env_kwargs: its arguments.

    Raises:
        Untrusted: the record names an engine, a server or code, or sets what could reach one.
        UserError, TrainingError, AgentError: as `load_player`.
    """
    from turncredit.training.engine.loaded_agent import ModelOptions

    reaching = [key for key in record.sampler if key not in HARMLESS]
    if (":" in record.player or reaching) and not trusted():
        options = "".join(f" with sampler.{key}" for key in reaching)
        raise Untrusted(
            f"the player {record.player}{options} is named by a file; --trust uses it, and so does --policy PLAYER"
        )
    return load_player(
        record.player,
        dict(record.agent),
        env_id=env_id,
        env_kwargs=env_kwargs,
        seed=record.panel.seed,
        model=ModelOptions(options=record.sampler),
    )
