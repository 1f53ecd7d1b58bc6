"""ATIF, the Agent Trajectory Interchange Format of Harbor: one JSON document an episode, version 1.7.

    {"schema_version": "ATIF-v1.7", "trajectory_id": ..., "agent": {...}, "steps": [...], "final_metrics": {...}}

A step of the agent holds its answer, what the environment returned, token ids and log-probabilities. State, reward,
advantages and what else a turn has stand in `extra`. Of a Harbor job's folder, tasks and rewards are read as well. A
document that is continued in another file is one episode with it; the documents of subagents are left out.

Source: Harbor, "Agent Trajectory Interchange Format", versions 1.0 to 1.8.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Final

from turncredit.agents.errors import StoreError
from turncredit.agents.interchange.atif_references import CONTINUED, continued, has_subagents, referenced_files
from turncredit.agents.interchange.conversations import (
    ChatMessage,
    Demonstration,
    conversation_trajectory,
    messages_of,
    role_of,
)
from turncredit.agents.interchange.folders import episode_file, files_in
from turncredit.agents.interchange.harbor_trials import Trial, trial_of
from turncredit.agents.interchange.records import KEY, Exported, Origin, TurnTokens, embedded, record_in, restored
from turncredit.agents.json_types import JsonObject
from turncredit.agents.trajectory import Trajectory, Turn
from turncredit.tools.bounded_input import MAX_LINE, InputError, read_json
from turncredit.tools.functions import Call
from turncredit.tools.readers import read_records
from turncredit.tools.visible_text import json_text

__all__ = ["atif_document", "read_atif", "write_atif"]

VERSION: Final = "ATIF-v1.7"
_FAMILY: Final = "ATIF-v1."


def write_atif(episodes: Iterable[Exported], path: Path, origin: Origin) -> None:
    """Write a folder with one document for each episode."""
    path.mkdir()
    for number, exported in enumerate(episodes):
        file = episode_file(path, number, exported.trajectory.id, ".json")
        file.write_bytes(json_text(atif_document(exported, origin), compact=True).encode("ascii") + b"\n")


def atif_document(exported: Exported, origin: Origin) -> dict[str, object]:
    """Return an episode as an ATIF document."""
    trajectory = exported.trajectory
    record = embedded(exported)
    turns = record.pop("turns")
    assert isinstance(turns, list)
    extras: list[JsonObject] = [{} if origin.plain else {"extra": {KEY: entry}} for entry in turns]
    steps = list(_steps(trajectory, extras)) or [{"source": "system", "message": trajectory.error or ""}]
    agent = {"name": "turncredit", "version": origin.version or "unknown"}
    return {
        "schema_version": VERSION,
        "session_id": origin.run,
        "trajectory_id": trajectory.id,
        "agent": agent | ({"model_name": origin.model} if origin.model else {}),
        "steps": [{"step_id": number, **step} for number, step in enumerate(steps, 1)],
        "final_metrics": _totals(trajectory, len(steps)),
        **({} if origin.plain else {"extra": {KEY: record}}),
    }


def _steps(trajectory: Trajectory, extras: Sequence[JsonObject]) -> Iterator[dict[str, object]]:
    """Yield the steps: what is shown before the first answer, then each answer with what follows it."""
    answers = 0
    step: dict[str, object] | None = None
    results: list[dict[str, object]] = []
    for message in messages_of(trajectory):
        if message.role == "assistant":
            if step is not None:
                yield _with_results(step, results)
            step, results = {**_answer(message, trajectory, answers), **extras[answers]}, []
            answers += 1
        elif step is None:
            yield {"source": "user", "message": message.content}
        else:
            call: dict[str, object] = {"source_call_id": message.call} if message.call else {}
            results.append({**call, "content": message.content})
    if step is not None:
        yield _with_results(step, results)


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
    metrics = _metrics(trajectory.turns[number])
    return {**step, **({"metrics": metrics} if metrics else {}), "llm_call_count": 1}


def _metrics(turn: Turn) -> dict[str, object]:
    """Return counts, token ids and log-probabilities of a turn; nothing is written that is unknown."""
    metrics: dict[str, object] = {}
    if turn.response or turn.prompt or "prompt_tokens" in turn.extras:
        metrics["prompt_tokens"] = turn.counted("prompt_tokens", len(turn.prompt))
        metrics["completion_tokens"] = turn.counted("response_tokens", len(turn.response))
    cost = turn.extras.get("request_cost")
    if isinstance(cost, int | float):
        metrics["cost_usd"] = float(cost)
    if turn.response or turn.prompt:
        metrics |= {"prompt_token_ids": turn.prompt, "completion_token_ids": turn.response, "logprobs": turn.logprobs}
    return metrics


def _totals(trajectory: Trajectory, steps: int) -> dict[str, object]:
    totals: dict[str, object] = {"total_steps": steps}
    if trajectory.counted_answers:
        totals["total_prompt_tokens"] = trajectory.prompt_tokens
        totals["total_completion_tokens"] = trajectory.response_tokens
    if trajectory.cost is not None:
        totals["total_cost_usd"] = trajectory.cost
    return totals


def read_atif(path: Path) -> Iterator[Demonstration]:
    """Yield the episodes of a document, of a file with one a line, or of a folder of documents.

    Raises:
        StoreError: a document is damaged, or there is none.
    """
    count = 0
    files = files_in(path, ".json", ".jsonl")
    parts = referenced_files(files) if path.is_dir() else frozenset()
    for file in files:
        if file in parts:
            continue  # it is read with the document that refers to it, or left out
        for name, document in _documents(file):
            if path.is_dir() and not _is_atif(document):
                continue  # a job's folder holds other JSON as well
            count += 1
            try:
                yield _episode(continued(document, file), name, trial_of(file))
            except InputError as error:
                raise StoreError(f"{name}: {error}") from error
    if not count:
        raise StoreError(f"{path} holds no ATIF document: none has a schema_version such as {VERSION}")


def _documents(file: Path) -> Iterator[tuple[str, object]]:
    """Yield the documents of a file, each with its name for messages."""
    try:
        if file.suffix != ".jsonl":
            yield str(file), read_json(file, max_bytes=MAX_LINE)
            return
        for record in read_records(file, max_bytes=None):
            if record.problem:
                raise StoreError(f"{file}, line {record.number}: {record.problem}")
            yield f"{file}, line {record.number}", record.fields
    except InputError as error:
        raise StoreError(str(error)) from error


def _is_atif(document: object) -> bool:
    return isinstance(document, Mapping) and str(document.get("schema_version", "")).startswith(_FAMILY)


def _episode(document: object, name: str, trial: Trial | None) -> Demonstration:
    if not isinstance(document, Mapping):
        raise InputError(f"an ATIF document is an object, got {type(document).__name__}")
    if not _is_atif(document):
        version = document.get("schema_version")
        raise InputError(f"schema_version must be {_FAMILY}0 to {_FAMILY}8, got {version!r}")
    steps = document.get("steps")
    if not isinstance(steps, list) or not all(isinstance(step, dict) for step in steps):
        raise InputError(f"steps must be a list of objects, got {str(steps)[:80]}")
    record = _extra(document)
    id = str(document.get("trajectory_id") or (trial and trial.name) or document.get("session_id") or Path(name).stem)
    episode = conversation_trajectory(
        chain.from_iterable(map(_said, steps)),
        id,
        task=trial.task if trial else "",
        score=_score(document, trial),
        error=trial.error if trial else None,
        empty=isinstance(record, dict),
    )
    agents = [step for step in steps if step.get("source") == "agent"]
    tokens = [_tokens(step) for step in agents]
    left_out = _left_out(document, steps, tokens)
    if isinstance(record, dict):
        entries = {**record, "turns": [_extra(step) for step in agents]}
        return replace(restored(entries, episode, [ids or TurnTokens() for ids in tokens]), left_out=left_out)
    return replace(_with_tokens(episode, tokens), left_out=left_out)


def _extra(entry: JsonObject) -> object:
    """Return what an object holds of ours."""
    extra = entry.get("extra")
    return record_in(extra) if isinstance(extra, Mapping) else None


def _score(document: JsonObject, trial: Trial | None) -> float | None:
    """Return the reward of a trial, or the one that a document states beside its metrics."""
    if trial is not None and trial.reward is not None:
        return trial.reward
    metrics = document.get("final_metrics")
    beside = [document.get("extra"), metrics.get("extra") if isinstance(metrics, Mapping) else None]
    values = [extra.get(name) for extra in beside if isinstance(extra, Mapping) for name in ("reward", "score")]
    return next((float(value) for value in values if isinstance(value, int | float)), None)


def _said(step: JsonObject) -> Iterator[ChatMessage]:
    """Yield the messages of a step: what was said, and what the environment returned."""
    source, text = step.get("source"), _text(step.get("message"))
    if source == "agent":
        calls = step.get("tool_calls")
        reasoning = step.get("reasoning_content")
        by_model = step.get("llm_call_count") != 0 and not step.get("is_copied_context")
        yield ChatMessage(
            "assistant",
            text,
            reasoning if isinstance(reasoning, str) else "",
            tuple(map(_call, calls)) if isinstance(calls, list) else (),
            imitated=by_model,
        )
    else:
        yield ChatMessage(role_of(source), text)
    observation = step.get("observation")
    results = observation.get("results") if isinstance(observation, Mapping) else None
    for result in results if isinstance(results, list) else []:
        if isinstance(result, Mapping):
            call = result.get("source_call_id")
            yield ChatMessage("tool" if call else "user", _text(result.get("content")), call=str(call or ""))


def _text(content: object) -> str:
    """Return the text of a message; of one with several parts, that of its text parts."""
    if isinstance(content, list):
        return "".join(str(part["text"]) for part in content if isinstance(part, Mapping) and part.get("text"))
    if content is not None and not isinstance(content, str):
        raise InputError(f"a message must be a text or a list of parts, got {type(content).__name__}")
    return content or ""


def _call(entry: object) -> Call:
    name = entry.get("function_name") if isinstance(entry, Mapping) else None
    if not isinstance(entry, Mapping) or not isinstance(name, str):
        raise InputError(f"a tool call must have a function_name and arguments, got {str(entry)[:80]}")
    arguments = entry.get("arguments") or {}
    if not isinstance(arguments, Mapping):
        raise InputError(f"the arguments of {name} must be an object, got {str(arguments)[:80]}")
    return Call(name, arguments, str(entry.get("tool_call_id", "")))


def _tokens(step: JsonObject) -> TurnTokens | None:
    """Return the ids of a step with their log-probabilities; None if one of them is missing."""
    metrics = step.get("metrics")
    if not isinstance(metrics, Mapping):
        return None
    lists = [metrics.get(name) for name in ("prompt_token_ids", "completion_token_ids", "logprobs")]
    if not all(isinstance(numbers, list) and set(map(type, numbers)) <= {int, float} for numbers in lists):
        return None
    ids = TurnTokens(*(tuple(numbers or ()) for numbers in lists))
    return ids if len(ids.response) == len(ids.logprobs) else None


def _with_tokens(episode: Demonstration, tokens: Sequence[TurnTokens | None]) -> Demonstration:
    """Return an episode with token ids, if every turn has them."""
    trajectory = episode.trajectory
    ids = [own for own in tokens if own is not None and own.prompt and own.response]
    if len(ids) != len(trajectory.turns):
        return episode
    turns = tuple(
        replace(turn, prompt=own.prompt, response=own.response, logprobs=own.logprobs)
        for turn, own in zip(trajectory.turns, ids, strict=True)
    )
    return replace(episode, trajectory=replace(trajectory, turns=turns))


def _left_out(
    document: JsonObject, steps: Sequence[JsonObject], tokens: Sequence[TurnTokens | None]
) -> tuple[str, ...]:
    """Return what of a document a trajectory cannot hold."""
    text = json_text(steps)
    metrics = [metrics for step in steps if isinstance(metrics := step.get("metrics"), Mapping)]
    ids = any("completion_token_ids" in own for own in metrics)
    reasons = {
        "trajectories of subagents": bool(document.get("subagent_trajectories")) or any(map(has_subagents, steps)),
        "continuations that do not lie beside": bool(document.get(CONTINUED)),
        "images and audio": '"media_type"' in text,
        "token ids that lack a prompt, an answer or a log-probability": ids and None in tokens,
        "tool definitions": "tool_definitions" in (document.get("agent") or {}),
        "times": any("timestamp" in step for step in steps),
    }
    return tuple(name for name, applies in reasons.items() if applies)
