"""Agents: prompts and memory, parsers, samplers, rollouts, trajectories on disk. Imports no torch."""

from __future__ import annotations

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
from turncredit.agents.samplers import (
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
from turncredit.agents.steps import steps_of
from turncredit.agents.trajectory import Group, Stop, Trajectory, Turn, grouped

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
    "UnreadableAnswer",
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
    if name in _MOVED.split():  # an AttributeError would not reach the reader of `from turncredit.agents import Panel`
        raise ImportError(f"{name} is in turncredit.evaluation: from turncredit.evaluation import {name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
