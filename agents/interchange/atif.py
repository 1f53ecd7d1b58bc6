"""ATIF, the Agent Trajectory Interchange Format of Harbor: one JSON document an episode, written as version 1.7.

    {"schema_version": "ATIF-v1.7", "trajectory_id": ..., "agent": {...}, "steps": [...], "final_metrics": {...}}

A step of the agent holds its answer, what the environment returned, token ids and log-probabilities. State, reward,
advantages and what else a turn has stand in `extra`. Steps that a fork took over have no metrics, so that nothing is
counted twice; their ids stand in `extra` too. Images lie in a folder beside the documents, which name them.

Source: Harbor, "Agent Trajectory Interchange Format", versions 1.0 to 1.8.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

from turncredit.agents.files.image_store import ImageStore, images_of
from turncredit.agents.interchange.chat_message import ChatMessage
from turncredit.agents.interchange.folders import episode_file
from turncredit.agents.interchange.records import KEY, Exported, Origin, embedded
from turncredit.agents.interchange.usage import turn_usage, usage_of
from turncredit.agents.json_types import JsonObject
from turncredit.agents.trajectory import Trajectory, Turn
from turncredit.tools.visible_text import json_text

__all__ = ["FAMILY", "IMAGE_FOLDER", "METRICS", "NEWEST", "VERSION", "atif_document", "write_atif"]

VERSION: Final = "ATIF-v1.7"
FAMILY: Final = "ATIF-v1."
NEWEST: Final = 8
"""Minor version that is read."""
IMAGE_FOLDER: Final = "images"
METRICS: Final = "metrics"
"""Key of the token ids of a step that a fork took over, in what a step holds of ours."""


def write_atif(episodes: Iterable[Exported], path: Path, origin: Origin) -> None:
    """Write a folder with one document for each episode, and one of images if there are any."""
    path.mkdir()
    images = ImageStore(path / IMAGE_FOLDER)
    for number, exported in enumerate(episodes):
        images.add(images_of(exported.trajectory))
        file = episode_file(path, number, exported.trajectory.id, ".json")
        file.write_bytes(json_text(atif_document(exported, origin), compact=True).encode("ascii") + b"\n")


def atif_document(exported: Exported, origin: Origin) -> dict[str, object]:
    """Return an episode as an ATIF document."""
    trajectory = exported.trajectory
    record = embedded(exported)
    turns = record.pop("turns")
    assert isinstance(turns, list)
    extras = [{} if origin.plain else _extra(trajectory, number, entry) for number, entry in enumerate(turns)]
    steps = list(_steps(exported, origin, extras)) or [{"source": "system", "message": trajectory.error or ""}]
    agent: dict[str, object] = {"name": "turncredit", "version": origin.version or "unknown"}
    if origin.model:
        agent["model_name"] = origin.model
    if tools := origin.tools_of(exported):
        agent["tool_definitions"] = tools
    return {
        "schema_version": VERSION,
        "session_id": origin.run,
        "trajectory_id": trajectory.id,
        "agent": agent,
        "steps": [{"step_id": number, **step} for number, step in enumerate(steps, 1)],
        "final_metrics": _totals(trajectory, len(steps)),
        **({} if origin.plain else {"extra": {KEY: record}}),
    }


def _extra(trajectory: Trajectory, number: int, entry: JsonObject) -> dict[str, object]:
    """Return what a step holds of ours."""
    ids = _ids(trajectory.turns[number]) if number < (trajectory.fork_turn or 0) else {}
    return {"extra": {KEY: {**entry, METRICS: ids} if ids else entry}}


def _steps(exported: Exported, origin: Origin, extras: Sequence[JsonObject]) -> Iterator[dict[str, object]]:
    """Yield the steps: what is shown before the first answer, then each answer with what follows it."""
    answers = 0
    step: dict[str, object] | None = None
    results: list[dict[str, object]] = []
    for message in origin.messages(exported):
        if message.role == "assistant":
            if step is not None:
                yield _with_results(step, results)
            step, results = {**_answer(message, exported.trajectory, answers), **extras[answers]}, []
            answers += 1
        elif step is None:
            yield {"source": "user", "message": _content(message)}
        else:
            call: dict[str, object] = {"source_call_id": message.call} if message.call else {}
            results.append({**call, "content": _content(message)})
    if step is not None:
        yield _with_results(step, results)


def _content(message: ChatMessage) -> object:
    """Return the text of a message, or its text and its images."""
    if not message.images:
        return message.content
    text = [{"type": "text", "text": message.content}] if message.content else []
    paths = [f"{IMAGE_FOLDER}/{image.key[:2]}/{image.key}.png" for image in message.images]
    return [*text, *({"type": "image", "source": {"media_type": "image/png", "path": path}} for path in paths)]


def _with_results(step: dict[str, object], results: Sequence[JsonObject]) -> dict[str, object]:
    return {**step, "observation": {"results": list(results)}} if results else step


def _answer(message: ChatMessage, trajectory: Trajectory, number: int) -> dict[str, object]:
    """Return a step of the agent without its observation."""
    step: dict[str, object] = {"source": "agent", "message": message.content}
    if message.reasoning:
        step["reasoning_content"] = message.reasoning
    if message.calls:
        step["tool_calls"] = [
            {"tool_call_id": call.id, "function_name": call.name, "arguments": dict(call.arguments)}
            for call in message.calls
        ]
    if number < (trajectory.fork_turn or 0):
        step["is_copied_context"] = True
        return {**step, "llm_call_count": 1}
    taken_over = trajectory.fork_tokens if number == trajectory.fork_turn else 0
    metrics = _metrics(trajectory.turns[number], taken_over)
    return {**step, **({"metrics": metrics} if metrics else {}), "llm_call_count": 1}


def _metrics(turn: Turn, taken_over: int) -> dict[str, object]:
    """Return counts, token ids and log-probabilities of a turn; nothing is written that is unknown."""
    metrics: dict[str, object] = {}
    used = turn_usage(turn, taken_over)
    if used.answers:
        metrics |= {"prompt_tokens": used.prompt, "completion_tokens": used.response}
    if used.cost is not None:
        metrics["cost_usd"] = used.cost
    return metrics | _ids(turn)


def _ids(turn: Turn) -> dict[str, object]:
    if not (turn.response or turn.prompt):
        return {}
    return {"prompt_token_ids": turn.prompt, "completion_token_ids": turn.response, "logprobs": turn.logprobs}


def _totals(trajectory: Trajectory, steps: int) -> dict[str, object]:
    """Return what was used for the steps that were sampled for this episode."""
    totals: dict[str, object] = {"total_steps": steps}
    used = usage_of(trajectory)
    if used.answers:
        totals |= {"total_prompt_tokens": used.prompt, "total_completion_tokens": used.response}
    if used.cost is not None:
        totals["total_cost_usd"] = used.cost
    return totals
