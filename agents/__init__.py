"""Agents: prompts and memory, parsers, samplers, rollouts, trajectories on disk. Imports no torch."""

from __future__ import annotations

from turnwise.agents.agent import Agent
from turnwise.agents.content import Content, ImagePart, TextPart
from turnwise.agents.demonstrations.tokens import tokenize_trajectory
from turnwise.agents.errors import (
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
)
from turnwise.agents.files.trajectory_files import TornLine, TrajectoryWriter, read_trajectories
from turnwise.agents.prompts.dialogue import Dialogue, Prompt
from turnwise.agents.prompts.parsing import PARSERS, Parsed, Parser
from turnwise.agents.prompts.prompt import PROMPTS, Conversation, Exchange, PromptBuilder, View, Window
from turnwise.agents.prompts.templates import PLAIN, REACT, TEMPLATES, Template
from turnwise.agents.rollouts.env_pool import EnvPool
from turnwise.agents.rollouts.rollout import Fork, RolloutReport, Snapshots, arollout, play, rollout
from turnwise.agents.rollouts.rollout_stream import stream
from turnwise.agents.samplers import (
    SAMPLERS,
    Completion,
    Expert,
    PlayerSampler,
    Random,
    Request,
    Sampler,
    SamplerSettings,
    Scripted,
    Tokenizer,
    parse_sampler,
)
from turnwise.agents.steps import steps_of
from turnwise.agents.trajectory import Group, Stop, Trajectory, Turn, grouped

__all__ = [
    "PARSERS",
    "PLAIN",
    "PROMPTS",
    "REACT",
    "SAMPLERS",
    "TEMPLATES",
    "Agent",
    "AgentError",
    "Completion",
    "Content",
    "ContextOverflow",
    "Conversation",
    "Dialogue",
    "EngineFailed",
    "EnvPool",
    "EvaluationError",
    "Exchange",
    "Expert",
    "Fork",
    "ForkRefused",
    "Group",
    "ImagePart",
    "Interrupted",
    "Parsed",
    "Parser",
    "PlayerSampler",
    "Prompt",
    "PromptBuilder",
    "PromptError",
    "Random",
    "Request",
    "RequestFailed",
    "RolloutReport",
    "Sampler",
    "SamplerError",
    "SamplerSettings",
    "Scripted",
    "Snapshots",
    "StepsError",
    "Stop",
    "StoreError",
    "Template",
    "TextPart",
    "Tokenizer",
    "TornLine",
    "Trajectory",
    "TrajectoryWriter",
    "Turn",
    "View",
    "Window",
    "arollout",
    "grouped",
    "parse_sampler",
    "play",
    "read_trajectories",
    "rollout",
    "steps_of",
    "stream",
    "tokenize_trajectory",
]

_MOVED = """
Comparison EvaluationResult EvaluationSummary Panel Rate compare evaluate mcnemar_exact paired_permutation wilson
"""


def __getattr__(name: str) -> object:
    if name in _MOVED.split():  # an AttributeError would not reach the reader of `from turnwise.agents import Panel`
        raise ImportError(f"{name} is in turnwise.evaluation: from turnwise.evaluation import {name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
