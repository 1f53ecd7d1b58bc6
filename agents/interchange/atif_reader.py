"""Reads ATIF: documents of any program, and the folders of Harbor's jobs, with their tasks and rewards.

A document that is continued in another file is one episode with it; the documents of subagents are left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Final

from turncredit.agents.errors import StoreError
from turncredit.agents.files.image_store import ImageStore, images_of
from turncredit.agents.interchange.atif import FAMILY, IMAGE_FOLDER, METRICS, NEWEST, VERSION
from turncredit.agents.interchange.atif_references import CONTINUED, continued, has_subagents, referenced_files
from turncredit.agents.interchange.chat_message import ChatMessage, role_of
from turncredit.agents.interchange.chat_objects import text_of_parts
from turncredit.agents.interchange.conversations import Demonstration, conversation_trajectory
from turncredit.agents.interchange.folders import Refuse, files_in, raise_it, records_of
from turncredit.agents.interchange.harbor_trials import Trial, trial_of
from turncredit.agents.interchange.outcomes import StatedOutcome, outcome_in
from turncredit.agents.interchange.records import IMAGES, TOOLS, TurnTokens, record_in, restored
from turncredit.agents.json_types import JsonObject
from turncredit.tools.bounded_input import MAX_LINE, InputError, read_json
from turncredit.tools.functions import Call

__all__ = ["read_atif"]

_KNOWN: Final = re.compile(rf"{re.escape(FAMILY)}[0-{NEWEST}]")


def read_atif(path: Path, refuse: Refuse = raise_it) -> Iterator[Demonstration]:
    """Yield the episodes of a document, of a file with one a line, or of a folder of documents.

    Args:
        path: the file or the folder.
        refuse: called with each document that cannot be read.

    Raises:
        StoreError: there is no document.
    """
    count = 0
    files = files_in(path, ".json", ".jsonl")
    parts = referenced_files(files) if path.is_dir() else frozenset()
    for file in files:
        if file in parts:
            continue  # it is read with the document that refers to it, or left out
        for name, document in _documents(file, refuse):
            if path.is_dir() and not _is_atif(document):
                continue  # a job's folder holds other JSON as well
            count += 1
            try:
                yield _episode(document, file, name)
            except InputError as error:
                refuse(StoreError(f"{name}: {error}"))
    if not count:
        raise StoreError(f"{path} holds no ATIF document: none has a schema_version such as {VERSION}")


def _documents(file: Path, refuse: Refuse) -> Iterator[tuple[str, object]]:
    """Yield the documents of a file, each with its name for messages."""
    if file.suffix == ".jsonl":
        for record in records_of(file, refuse):
            yield f"{file}, line {record.number}", record.fields
        return
    try:
        yield str(file), read_json(file, max_bytes=MAX_LINE)
    except InputError as error:
        refuse(StoreError(str(error)))


def _is_atif(document: object) -> bool:
    return isinstance(document, Mapping) and str(document.get("schema_version", "")).startswith("ATIF-")


def _check(document: object) -> Sequence[JsonObject]:
    """Return the steps of a document.

    Raises:
        InputError: it has another version, its steps run backwards, or one has metrics of another form.
    """
    if not isinstance(document, Mapping):
        raise InputError(f"an ATIF document is an object, got {type(document).__name__}")
    version = document.get("schema_version")
    if not isinstance(version, str) or not _KNOWN.fullmatch(version):
        raise InputError(f"schema_version must be {FAMILY}0 to {FAMILY}{NEWEST}, got {version!r}")
    steps = document.get("steps")
    if not isinstance(steps, list) or not all(isinstance(step, dict) for step in steps):
        raise InputError(f"steps must be a list of objects, got {str(steps)[:80]}")
    before = 0
    for position, step in enumerate(steps, 1):
        number = step.get("step_id")
        if number is not None and (type(number) is not int or number <= before):
            raise InputError(f"the ids of steps must grow from 1, got {number!r:.40} after {before}")
        metrics = step.get("metrics")
        if metrics is not None and not isinstance(metrics, Mapping):
            raise InputError(f"the metrics of step {position} must be an object, got {type(metrics).__name__}")
        before = before if number is None else number
    return steps


def _episode(document: object, file: Path, name: str) -> Demonstration:
    _check(document)
    document, trial = continued(document, file, _check), trial_of(file)
    assert isinstance(document, Mapping)
    steps: Sequence[JsonObject] = document["steps"]
    record = _extra(document)
    id = str(document.get("trajectory_id") or (trial and trial.name) or document.get("session_id") or Path(name).stem)
    left_out: set[str] = set()
    episode = conversation_trajectory(
        chain.from_iterable(_said(step, left_out) for step in steps),
        id,
        task=trial.task if trial else "",
        score=_outcome(document, trial),
        error=trial.error if trial else None,
        empty=isinstance(record, dict),
    )
    agents = [step for step in steps if step.get("source") == "agent"]
    tokens = [_tokens(step) for step in agents]
    left_out |= _left_out(document, steps, tokens)
    if isinstance(record, dict):
        entries = {**record, "turns": [_extra(step) for step in agents]}
        images = ImageStore(file.parent / IMAGE_FOLDER)
        carried = replace(episode, left_out=tuple(sorted(left_out - {IMAGES})))
        ids = [own or TurnTokens() for own in tokens]
        whole = restored(entries, carried, ids, images)
        complete = all(images.holds(image.key) for image in images_of(whole.trajectory))
        return whole if complete else restored(entries, carried, ids)
    return replace(_with_tokens(episode, tokens), left_out=tuple(sorted(left_out)))


def _extra(entry: JsonObject) -> object:
    """Return what an object holds of ours."""
    extra = entry.get("extra")
    return record_in(extra) if isinstance(extra, Mapping) else None


def _outcome(document: JsonObject, trial: Trial | None) -> StatedOutcome:
    """Return the reward of a trial, or the outcome that a document states beside its metrics."""
    if trial is not None and trial.reward is not None:
        return StatedOutcome(reward=trial.reward)
    return outcome_in({name: document.get(name) for name in ("extra", "final_metrics")})


def _said(step: JsonObject, left_out: set[str]) -> Iterator[ChatMessage]:
    """Yield the messages of a step: what was said, and what the environment returned."""
    source, text = step.get("source"), text_of_parts(step.get("message"), left_out)
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
            call = str(result.get("source_call_id") or "")
            yield ChatMessage("tool" if call else "user", text_of_parts(result.get("content"), left_out), call=call)


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
    own = _extra(step)
    held = own.get(METRICS) if isinstance(own, Mapping) else None
    metrics = step.get("metrics") or held
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


def _left_out(document: JsonObject, steps: Sequence[JsonObject], tokens: Sequence[TurnTokens | None]) -> set[str]:
    """Return what of a document a trajectory cannot hold, beside parts of its messages."""
    metrics = [metrics for step in steps if isinstance(metrics := step.get("metrics"), Mapping)]
    ids = any("completion_token_ids" in own for own in metrics)
    agent = document.get("agent")
    reasons = {
        "trajectories of subagents": bool(document.get("subagent_trajectories")) or any(map(has_subagents, steps)),
        "continuations that do not lie beside": bool(document.get(CONTINUED)),
        "token ids that lack a prompt, an answer or a log-probability": ids and None in tokens,
        TOOLS: isinstance(agent, Mapping) and bool(agent.get("tool_definitions")),
        "times": any("timestamp" in step for step in steps),
    }
    return {name for name, applies in reasons.items() if applies}
