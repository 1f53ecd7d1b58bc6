"""Spans of an episode by OpenTelemetry's conventions for generative AI: the episode, its turns, their calls.

    invoke_agent MODEL
      turn 0
        chat MODEL
        execute_tool NAME

Without a collector nothing is done here; see `turncredit.processes.tracing`. Texts are not recorded.

Source: OpenTelemetry, semantic conventions for generative AI (gen_ai.*, in development); what they have no name for
begins with "turncredit.".
"""

from __future__ import annotations

import re
from contextlib import AbstractContextManager

from turncredit.agents.trajectory import Trajectory, Turn
from turncredit.engines.base import Completion, Request, Sampler
from turncredit.processes import tracing
from turncredit.processes.tracing import Parent, Span, Value

__all__ = [
    "Parent",
    "Span",
    "call_of_model",
    "call_of_tool",
    "note_answer",
    "note_episode",
    "note_turn",
    "span_of_episode",
    "span_of_turn",
]

STEP = "step"
"""The tool's name where an action calls no function: the environment's own method."""
LONGEST_NAME = 64
"""Characters of a tool's name, which a model has written."""
_CALLED = re.compile(r'"(?:tool_name|name|action_type)"\s*:\s*"([^"]+)"|^\s*([A-Za-z_][\w.-]*)\s*[(\[]')


def span_of_episode(sampler: Sampler, episode: str, task: str, parent: Parent) -> AbstractContextManager[Span]:
    """Return the span of an episode.

    Args:
        sampler: the model.
        episode: its id.
        task: id of its task.
        parent: place of the rollout or of the iteration that plays it.
    """
    if not tracing.active():
        return tracing.span("")
    name = sampler.model_name or sampler.provider
    attributes: dict[str, Value] = {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.agent.name": name,
        "gen_ai.conversation.id": episode,
        "turncredit.task": task,
    }
    return tracing.span(f"invoke_agent {name}", attributes | _model(sampler), parent=parent)


def note_episode(span: Span, trajectory: Trajectory) -> None:
    """Record how an episode ended."""
    if trajectory.counted_answers:
        span.set(_usage(trajectory.prompt_tokens, trajectory.response_tokens))
    span.set(
        {
            "turncredit.turns": len(trajectory.turns),
            "turncredit.stop": trajectory.stop,
            "turncredit.won": trajectory.won,
            "turncredit.score": trajectory.score,
        }
    )


def span_of_turn(episode: str, turn: int) -> AbstractContextManager[Span]:
    """Return the span of a turn: a call of the model, and the environment's answer."""
    if not tracing.active():
        return tracing.span("")
    return tracing.span(f"turn {turn}", {"gen_ai.conversation.id": episode, "turncredit.turn": turn})


def note_turn(span: Span, turn: Turn) -> None:
    """Record what came of a turn."""
    span.set({"turncredit.reward": turn.reward, "turncredit.valid": turn.valid, "turncredit.parsed": bool(turn.action)})


def call_of_model(sampler: Sampler, request: Request) -> AbstractContextManager[Span]:
    """Return the span of a call of the model."""
    if not tracing.active():
        return tracing.span("")
    attributes: dict[str, Value] = {
        "gen_ai.operation.name": "chat",
        "gen_ai.output.type": "text",
        "gen_ai.conversation.id": request.episode,
        "gen_ai.request.temperature": request.temperature,
        "gen_ai.request.top_p": request.top_p,
        "gen_ai.request.max_tokens": request.max_tokens,
        "gen_ai.request.seed": request.seed,
    }
    if request.top_k:
        attributes["gen_ai.request.top_k"] = request.top_k
    if request.stop:
        attributes["gen_ai.request.stop_sequences"] = request.stop
    name = f"chat {sampler.model_name or sampler.provider}"
    return tracing.span(name, attributes | _model(sampler), client=sampler.module is None)


def note_answer(span: Span, request: Request, completion: Completion) -> None:
    """Record the size of an answer, as the episode's trajectory counts it."""
    if not tracing.active():
        return
    counted = [
        completion.extras.get(column, size)
        for column, size in (("prompt_tokens", len(request.prompt)), ("response_tokens", len(completion.tokens)))
    ]
    prompted, sampled = (int(value) if isinstance(value, int | float) else 0 for value in counted)
    if prompted or sampled:
        span.set(_usage(prompted, sampled))
    span.set({"gen_ai.response.finish_reasons": (completion.finish,), "turncredit.version": completion.version})


def call_of_tool(episode: str, action: str) -> AbstractContextManager[Span]:
    """Return the span of an action in the environment, which is a call of a tool or the environment's step."""
    if not tracing.active():
        return tracing.span("")
    called = _CALLED.search(action)
    name = STEP if called is None else (called[1] or called[2])[:LONGEST_NAME]
    attributes = {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": name,
        "gen_ai.tool.type": "function",
        "gen_ai.conversation.id": episode,
    }
    return tracing.span(f"execute_tool {name}", attributes)


def _usage(prompted: int, sampled: int) -> dict[str, Value]:
    return {"gen_ai.usage.input_tokens": prompted, "gen_ai.usage.output_tokens": sampled}


def _model(sampler: Sampler) -> dict[str, Value]:
    """Who answers."""
    model: dict[str, Value] = {"gen_ai.request.model": sampler.model_name} if sampler.model_name else {}
    return {"gen_ai.provider.name": sampler.provider} | model
