"""Agents: prompts and memory, parsers, models, rollouts, trajectories on disk. Imports no torch."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from turncredit.agents.agent import Agent
    from turncredit.agents.content import Content, ImagePart, TextPart
    from turncredit.agents.demonstrations.tokens import tokenize_trajectory
    from turncredit.agents.errors import (
        AgentError,
        ContextOverflow,
        EngineFailed,
        EvaluationError,
        ForkRefused,
        Interrupted,
        PromptError,
        RequestFailed,
        SamplerError,
        StepsError,
        StoreError,
        UnreadableAnswer,
    )
    from turncredit.agents.files.trajectory_files import TornLine, TrajectoryWriter, read_trajectories
    from turncredit.agents.prompts.dialogue import Dialogue, Prompt
    from turncredit.agents.prompts.parsing import PARSERS, Parsed, Parser
    from turncredit.agents.prompts.prompt import PROMPTS, Conversation, Exchange, PromptBuilder, View, Window
    from turncredit.agents.prompts.templates import PLAIN, REACT, TEMPLATES, Template
    from turncredit.agents.rollouts.env_pool import EnvPool
    from turncredit.agents.rollouts.rollout import Fork, RolloutReport, Snapshots, arollout, play, rollout
    from turncredit.agents.rollouts.rollout_stream import stream
    from turncredit.agents.steps import steps_of
    from turncredit.agents.trajectory import Group, Stop, Trajectory, Turn, grouped

__all__ = [
    "PARSERS",
    "PLAIN",
    "PROMPTS",
    "REACT",
    "TEMPLATES",
    "Agent",
    "AgentError",
    "Content",
    "ContextOverflow",
    "Conversation",
    "Dialogue",
    "EngineFailed",
    "EnvPool",
    "EvaluationError",
    "Exchange",
    "Fork",
    "ForkRefused",
    "Group",
    "ImagePart",
    "Interrupted",
    "Parsed",
    "Parser",
    "Prompt",
    "PromptBuilder",
    "PromptError",
    "RequestFailed",
    "RolloutReport",
    "SamplerError",
    "Snapshots",
    "StepsError",
    "Stop",
    "StoreError",
    "Template",
    "TextPart",
    "TornLine",
    "Trajectory",
    "TrajectoryWriter",
    "Turn",
    "UnreadableAnswer",
    "View",
    "Window",
    "arollout",
    "grouped",
    "play",
    "read_trajectories",
    "rollout",
    "steps_of",
    "stream",
    "tokenize_trajectory",
]

_HOMES = {
    "agent": ("Agent",),
    "content": (
        "Content",
        "ImagePart",
        "TextPart",
    ),
    "demonstrations.tokens": ("tokenize_trajectory",),
    "errors": (
        "AgentError",
        "ContextOverflow",
        "EngineFailed",
        "EvaluationError",
        "ForkRefused",
        "Interrupted",
        "PromptError",
        "RequestFailed",
        "SamplerError",
        "StepsError",
        "StoreError",
        "UnreadableAnswer",
    ),
    "files.trajectory_files": (
        "TornLine",
        "TrajectoryWriter",
        "read_trajectories",
    ),
    "prompts.dialogue": (
        "Dialogue",
        "Prompt",
    ),
    "prompts.parsing": (
        "PARSERS",
        "Parsed",
        "Parser",
    ),
    "prompts.prompt": (
        "PROMPTS",
        "Conversation",
        "Exchange",
        "PromptBuilder",
        "View",
        "Window",
    ),
    "prompts.templates": (
        "PLAIN",
        "REACT",
        "TEMPLATES",
        "Template",
    ),
    "rollouts.env_pool": ("EnvPool",),
    "rollouts.rollout": (
        "Fork",
        "RolloutReport",
        "Snapshots",
        "arollout",
        "play",
        "rollout",
    ),
    "rollouts.rollout_stream": ("stream",),
    "steps": ("steps_of",),
    "trajectory": (
        "Group",
        "Stop",
        "Trajectory",
        "Turn",
        "grouped",
    ),
}
"""The public names by module, which is imported when one of them is first used: engines import modules of this folder,
and modules of this folder import engines."""
_MODULES = {name: module for module, names in _HOMES.items() for name in names}

_MOVED = {
    "turncredit.evaluation": """
        Comparison EvaluationResult EvaluationSummary Panel Rate compare evaluate mcnemar_exact paired_permutation
        wilson
    """,
    "turncredit.engines": """
        SAMPLERS Completion Expert PlayerSampler Random Request Sampler SamplerSettings Scripted Tokenizer parse_sampler
    """,
}
"""Names that a reader may look for here, by the folder that has them."""


def __getattr__(name: str) -> object:
    if name in _MODULES:
        return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
    if (folder := _moved_to(name)) is not None:  # `from turncredit.agents import Panel` hides other errors
        raise ImportError(f"{name} is in {folder}: from {folder} import {name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def _moved_to(name: str) -> str | None:
    return next((folder for folder, names in _MOVED.items() if name in names.split()), None)


def __dir__() -> list[str]:
    return sorted([*globals(), *_MODULES])
