"""Agents: prompts and memory, parsing, samplers, rollouts, trajectories on disk, evaluation. Imports no torch."""

from __future__ import annotations

from turnwise.agents.agent import Agent
from turnwise.agents.comparison import Comparison, compare
from turnwise.agents.env_pool import EnvPool
from turnwise.agents.errors import (
    AgentError,
    ContextOverflow,
    EvaluationError,
    Interrupted,
    PromptError,
    SamplerError,
    StoreError,
)
from turnwise.agents.evaluation import Panel, Rate, Result, Row, Summary, evaluate
from turnwise.agents.parse import PARSERS, Parsed, Parser
from turnwise.agents.prompt import (
    PLAIN,
    REACT,
    TEMPLATES,
    Conversation,
    Exchange,
    Piece,
    Template,
    View,
    Window,
)
from turnwise.agents.rollout import RolloutReport, arollout, play, rollout
from turnwise.agents.samplers import (
    Completion,
    Expert,
    FromCallable,
    Random,
    Request,
    Sampler,
    Scripted,
    Tokenizer,
)
from turnwise.agents.statistics import mcnemar_exact, paired_permutation, wilson
from turnwise.agents.store import TornLine, TrajectoryWriter, read_trajectories
from turnwise.agents.tokens import tokenize_trajectory
from turnwise.agents.trajectory import Group, Stop, Trajectory, Turn, grouped

__all__ = [
    "PARSERS",
    "PLAIN",
    "REACT",
    "TEMPLATES",
    "Agent",
    "AgentError",
    "Comparison",
    "Completion",
    "ContextOverflow",
    "Conversation",
    "EnvPool",
    "EvaluationError",
    "Exchange",
    "Expert",
    "FromCallable",
    "Group",
    "Interrupted",
    "Panel",
    "Parsed",
    "Parser",
    "Piece",
    "PromptError",
    "Random",
    "Rate",
    "Request",
    "Result",
    "RolloutReport",
    "Row",
    "Sampler",
    "SamplerError",
    "Scripted",
    "Stop",
    "StoreError",
    "Summary",
    "Template",
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
    "play",
    "read_trajectories",
    "rollout",
    "tokenize_trajectory",
    "wilson",
]
