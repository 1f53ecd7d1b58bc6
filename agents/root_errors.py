"""Errors that the records of episodes raise: roots of the tree in `turncredit.agents.errors`, which has them all."""

from __future__ import annotations

__all__ = ["AgentError", "ImageError", "StoreError"]


class AgentError(Exception):
    """Root of the errors that a user of the agents can cause."""


class StoreError(AgentError):
    """A file of trajectories, or an output folder, cannot be read or written."""


class ImageError(StoreError):
    """A stored image is missing or damaged."""
