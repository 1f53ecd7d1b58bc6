"""Agents: prompts and memory, parsers, samplers, rollouts, trajectories on disk, evaluation. Imports no torch."""

from __future__ import annotations

from turnwise.agents.agent import Agent
from turnwise.agents.comparison import Comparison, compare
from turnwise.agents.content import Content, ImagePart, TextPart
from turnwise.agents.demonstration_tokens import tokenize_trajectory
from turnwise.agents.dialogue import Dialogue, Prompt
from turnwise.agents.env_pool import EnvPool
from turnwise.agents.errors import (
    AgentError,
    ContextOverflow,
    EngineFailed,
    EvaluationError,
    Interrupted,
    PromptError,
    RequestFailed,
    SamplerError,
    StoreError,
)
from turnwise.agents.evaluation import EvaluationResult, EvaluationSummary, Panel, Rate, evaluate
from turnwise.agents.parsing import PARSERS, Parsed, Parser
from turnwise.agents.prompt import PROMPTS, Conversation, Exchange, PromptBuilder, View, Window
from turnwise.agents.rollout import RolloutReport, arollout, play, rollout
from turnwise.agents.rollout_stream import stream
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
from turnwise.agents.statistics import mcnemar_exact, paired_permutation, wilson
from turnwise.agents.templates import PLAIN, REACT, TEMPLATES, Template
from turnwise.agents.trajectory import Group, Stop, Trajectory, Turn, grouped
from turnwise.agents.trajectory_files import TornLine, TrajectoryWriter, read_trajectories

__all__ = [
    "PARSERS",
    "PLAIN",
    "PROMPTS",
    "REACT",
    "SAMPLERS",
    "TEMPLATES",
    "Agent",
    "AgentError",
    "Comparison",
    "Completion",
    "Content",
    "ContextOverflow",
    "Conversation",
    "Dialogue",
    "EngineFailed",
    "EnvPool",
    "EvaluationError",
    "EvaluationResult",
    "EvaluationSummary",
    "Exchange",
    "Expert",
    "Group",
    "ImagePart",
    "Interrupted",
    "Panel",
    "Parsed",
    "Parser",
    "PlayerSampler",
    "Prompt",
    "PromptBuilder",
    "PromptError",
    "Random",
    "Rate",
    "Request",
    "RequestFailed",
    "RolloutReport",
    "Sampler",
    "SamplerError",
    "SamplerSettings",
    "Scripted",
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
    "compare",
    "evaluate",
    "grouped",
    "mcnemar_exact",
    "paired_permutation",
    "parse_sampler",
    "play",
    "read_trajectories",
    "rollout",
    "stream",
    "tokenize_trajectory",
    "wilson",
]
