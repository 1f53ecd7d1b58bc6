"""Logs of inspect_ai, `.eval`, written and read by inspect_ai itself: a sample is an episode.

A folder gets one log for each iteration, or several where it is long, so that a run may be larger than memory. `inspect
view --log-dir FOLDER` shows it.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from operator import itemgetter
from pathlib import Path
from types import ModuleType
from typing import Final

from turncredit.agents.errors import StoreError
from turncredit.agents.interchange.chat_message import ChatMessage, role_of
from turncredit.agents.interchange.conversations import Demonstration, conversation_trajectory
from turncredit.agents.interchange.folders import Refuse, files_in, raise_it
from turncredit.agents.interchange.records import (
    IMAGES,
    KEY,
    TOKENS,
    TOOLS,
    Exported,
    Origin,
    embedded,
    record_in,
    restored,
)
from turncredit.agents.interchange.usage import usage_of
from turncredit.agents.json_types import JsonObject
from turncredit.agents.trajectory import Trajectory
from turncredit.tools.bounded_input import InputError
from turncredit.tools.functions import Call
from turncredit.tools.visible_text import encodable, encodable_values

__all__ = ["LACKS", "read_logs", "write_logs"]

LACKS: Final = (TOKENS, IMAGES, TOOLS)
"""What the samples of a log have no room for."""

_ORDER: Final = "order"
"""Key of the number of a sample in its log."""

SAMPLES: Final = 500
"""Samples of a log at most."""

_MISSING: Final = "logs of inspect need the package inspect_ai: pip install inspect-ai"
_NOT_READ: Final = {"events", "events_data", "timelines", "store"}
"""Fields of a sample that are not read: they repeat its messages."""


def _library() -> ModuleType:
    try:
        import inspect_ai.log
        import inspect_ai.model
        import inspect_ai.scorer
        import inspect_ai.tool
    except ImportError as missing:
        raise StoreError(_MISSING) from missing
    library: ModuleType = inspect_ai
    return library


def write_logs(episodes: Iterable[Exported], path: Path, origin: Origin) -> None:
    """Write a folder of logs.

    Raises:
        StoreError: inspect_ai is not installed.
    """
    library = _library()
    path.mkdir()
    for number, part in enumerate(_parts(episodes)):
        file = path / f"{number:06d}-iteration-{part[0].iteration}.eval"
        library.log.write_eval_log(_log(library, part, origin), str(file), format="eval")


def _parts(episodes: Iterable[Exported]) -> Iterator[list[Exported]]:
    """Yield the episodes of each log."""
    part: list[Exported] = []
    for exported in episodes:
        if part and (exported.iteration != part[0].iteration or len(part) >= SAMPLES):
            yield part
            part = []
        part.append(exported)
    if part:
        yield part


def _log(library: ModuleType, part: Sequence[Exported], origin: Origin) -> object:
    log = library.log
    epochs: Counter[str] = Counter()
    samples: list[object] = []
    for exported in part:
        epochs[exported.trajectory.task] += 1
        samples.append(_sample(library, exported, epochs[exported.trajectory.task], len(samples), origin))
    iteration, written = part[0].iteration, datetime.now(UTC)
    longest = timedelta(seconds=max(exported.trajectory.seconds for exported in part))  # they were played together
    spec = log.EvalSpec(
        run_id=origin.run,
        task_id=f"{origin.run}-{iteration}",
        created=written.isoformat(),
        task=origin.environment or origin.run,
        model=f"turncredit/{origin.model or 'unknown'}",
        dataset=log.EvalDataset(name=origin.run, samples=len(epochs), sample_ids=list(epochs)),
        config=log.EvalConfig(epochs=max(epochs.values())),
        packages={"turncredit": origin.version} if origin.version else {},
        metadata={"run": origin.run, "iteration": iteration},
    )
    finished = [exported.trajectory for exported in part if exported.trajectory.finished]
    counted = [trajectory.won for trajectory in finished if trajectory.plain]
    rate = sum(counted) / len(counted) if counted else math.nan
    success = log.EvalScore(
        name="success",
        scorer="success",
        metrics={"accuracy": log.EvalMetric(name="accuracy", value=rate)},
        scored_samples=len(counted),
        unscored_samples=len(part) - len(counted),
    )
    results = log.EvalResults(total_samples=len(part), completed_samples=len(finished), scores=[success])
    spec.metadata |= {"failed": len(part) - len(finished), "not_counted": len(finished) - len(counted)}
    stats = log.EvalStats(started_at=(written - longest).isoformat(), completed_at=written.isoformat())
    return log.EvalLog(status="success", eval=spec, results=results, stats=stats, samples=samples)


def _sample(library: ModuleType, exported: Exported, epoch: int, order: int, origin: Origin) -> object:
    trajectory = exported.trajectory
    messages = [_message(library, message) for message in origin.messages(exported)]
    last = trajectory.turns[-1].action if trajectory.turns else None
    failure = {}
    if trajectory.error is not None:
        text = encodable(trajectory.error)
        failure = {"error": library.log.EvalError(message=text, traceback=text, traceback_ansi=text)}
    model = f"turncredit/{origin.model or 'unknown'}"
    used = usage_of(trajectory)
    usage = library.model.ModelUsage(
        input_tokens=used.prompt, output_tokens=used.response, total_tokens=used.prompt + used.response
    )
    return library.log.EvalSample(
        id=encodable(trajectory.task),
        epoch=epoch,
        input=encodable(trajectory.turns[0].observation if trajectory.turns else trajectory.final_observation),
        target="",
        messages=messages,
        scores=_scores(library.scorer.Score, trajectory, None if last is None else encodable(last)),
        metadata={} if origin.plain else {KEY: encodable_values({**embedded(exported, LACKS), _ORDER: order})},
        model_usage={model: usage} if used.answers else {},
        total_time=trajectory.seconds,
        **failure,
    )


def _scores(score: Callable[..., object], trajectory: Trajectory, answer: str | None) -> dict[str, object]:
    """Return the scores of a sample; `success` alone counts in the accuracy, so it has none where the run has none."""
    won = float(trajectory.won) if trajectory.finished and trajectory.plain else math.nan
    return {
        "success": score(value=won, answer=answer),
        "score": score(value=trajectory.score),
        "reward": score(value=trajectory.reward),
    }


def _message(library: ModuleType, message: ChatMessage) -> object:
    """Return a message of inspect."""
    model, content = library.model, encodable(message.content)
    if message.role == "tool":
        return model.ChatMessageTool(content=content, tool_call_id=message.call)
    if message.role == "system":
        return model.ChatMessageSystem(content=content)
    if message.role == "user":
        return model.ChatMessageUser(content=content)
    parts = [model.ContentReasoning(reasoning=encodable(message.reasoning)), model.ContentText(text=content)]
    make = library.tool.ToolCall
    calls = [make(id=call.id, function=call.name, arguments=dict(call.arguments)) for call in message.calls]
    return model.ChatMessageAssistant(content=parts if message.reasoning else content, tool_calls=calls or None)


def read_logs(path: Path, refuse: Refuse = raise_it) -> Iterator[Demonstration]:
    """Yield the samples of a log, or of all logs of a folder.

    Args:
        path: the log or the folder.
        refuse: called with each log and each sample that cannot be read.

    Raises:
        StoreError: inspect_ai is not installed, or the folder holds no log.
    """
    library = _library()
    for file in files_in(path, ".eval", ".json"):
        try:
            samples = library.log.read_eval_log_samples(
                str(file), all_samples_required=False, resolve_attachments=True, exclude_fields=_NOT_READ
            )
            yield from _in_order(library, (sample.model_dump() for sample in samples), file, refuse)
        except StoreError:
            raise
        except Exception as error:  # inspect_ai, pydantic and the ZIP library have their own
            reason = " ".join(str(error).split())[:200]
            refuse(StoreError(f"{file} cannot be read as a log of inspect: {reason}"))


def _in_order(
    library: ModuleType, samples: Iterable[JsonObject], file: Path, refuse: Refuse
) -> Iterator[Demonstration]:
    """Yield the episodes of a log; those of a run in its order, since inspect sorts samples by epoch and id."""
    own: list[tuple[int, Demonstration]] = []
    for sample in samples:
        try:
            episode = _episode(library, sample)
        except InputError as error:
            refuse(StoreError(f"{file}, sample {sample['id']}: {error}"))
            continue
        record = record_in(sample["metadata"])
        order = record.get(_ORDER) if episode.stored and isinstance(record, Mapping) else None
        if isinstance(order, int):
            own.append((order, episode))
        else:
            yield episode
    for _, episode in sorted(own, key=itemgetter(0)):
        yield episode


def _episode(library: ModuleType, sample: JsonObject) -> Demonstration:
    record = record_in(sample["metadata"])
    error = None if sample["error"] is None else str(sample["error"]["message"])
    episode = conversation_trajectory(
        map(_said, sample["messages"]),
        f"{sample['id']}#{sample['epoch'] - 1}@0",
        task=str(sample["id"]),
        score=_score(library, sample["scores"] or {}),
        error=error,
        empty=record is not None,
    )
    episode = replace(episode, left_out=_left_out(sample))
    if record is not None:
        return restored(record, episode)
    trajectory = replace(episode.trajectory, seconds=float(sample["total_time"] or 0.0))
    if sample["limit"] is not None and error is None:
        trajectory = replace(trajectory, stop="truncated")
    return replace(episode, trajectory=trajectory)


def _score(library: ModuleType, scores: JsonObject) -> float | None:
    """Return the value of the first score as a number; None if there is none, it is unscored or has several values."""
    value = next((score["value"] for score in scores.values()), None)
    if value is None or isinstance(value, Mapping | list):
        return None
    number = float(library.scorer.value_to_float()(value))
    return number if math.isfinite(number) else None


def _said(message: JsonObject) -> ChatMessage:
    content = message["content"]
    parts: list[JsonObject] = content if isinstance(content, list) else [{"type": "text", "text": content}]
    text = "".join(part["text"] for part in parts if part["type"] == "text")
    if message["role"] != "assistant":
        return ChatMessage(role_of(message["role"]), text, call=str(message.get("tool_call_id") or ""))
    reasoning = "".join(part["reasoning"] for part in parts if part["type"] == "reasoning")
    calls = tuple(Call(call["function"], call["arguments"], call["id"]) for call in message["tool_calls"] or ())
    return ChatMessage("assistant", text, reasoning, calls)


def _left_out(sample: JsonObject) -> tuple[str, ...]:
    contents = [message["content"] for message in sample["messages"] if isinstance(message["content"], list)]
    kinds = {part["type"] for content in contents for part in content}
    return tuple(sorted(f"parts of messages of the kind {kind}" for kind in kinds - {"text", "reasoning"}))
