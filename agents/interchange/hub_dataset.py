"""A data set for the Hugging Face Hub and the package `datasets`: a folder of Parquet files with a card.

    README.md                          what the columns mean, and which files hold the data
    data/train-00000-of-00002.parquet  one row an episode

Rows are written in files of bounded size, so that a run may be larger than memory.
"""

from __future__ import annotations

from base64 import b64encode
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

from turncredit.agents.errors import StoreError
from turncredit.agents.files.image_store import images_of
from turncredit.agents.files.json_files import write_text
from turncredit.agents.interchange.chat_objects import chat_message
from turncredit.agents.interchange.chat_records import read_record
from turncredit.agents.interchange.conversations import Demonstration
from turncredit.agents.interchange.folders import Refuse, files_in, raise_it, records_of
from turncredit.agents.interchange.records import KEY, Exported, Origin, embedded
from turncredit.tools.readers.parquet_process import require_polars, write_parquet
from turncredit.tools.visible_text import json_text

__all__ = ["read_dataset", "write_dataset"]

SHARD: Final = 64 << 20
"""Bytes of rows, as JSON, after which a new file begins."""

_FUNCTION: Final = {"name": "string", "arguments": "string"}
_IMAGE: Final = {"bytes": "binary", "path": "string"}
_MESSAGE: Final = {
    "role": "string",
    "content": "string",
    "reasoning_content": "string",
    "tool_calls": [{"id": "string", "type": "string", "function": _FUNCTION}],
    "tool_call_id": "string",
    "weight": "integer",
}
_COLUMNS: Final[dict[str, tuple[object, str]]] = {
    "id": ("string", "id of the episode"),
    "task": ("string", "id of the task; episodes of one task and seed are a group"),
    "task_type": ("string", "kind of the task"),
    "iteration": ("integer", "of the run"),
    "seed": ("integer", "of the environment's reset"),
    "won": ("boolean", "whether the task was solved"),
    "score": ("number", "of the task, in [0, 1]"),
    "reward": ("number", "sum of the rewards"),
    "stop": ("string", "why the episode ended"),
    "error": ("string", "why it failed"),
    "messages": ([_MESSAGE], "what was seen (user, tool) and answered (assistant)"),
    "tools": (["string"], "definitions of the tools that the chat template described to the model, each as JSON"),
    "images": ([_IMAGE], "the images that the model saw, in their order"),
    "rewards": (["number"], "reward of each answer"),
    "actions": (["string"], "action in each answer; null where none could be read"),
    "states": (["string"], "the environment's state key before each answer"),
    "prompt_ids": ([["integer"]], "token ids of the prompt of each answer"),
    "response_ids": ([["integer"]], "token ids of each answer, as sampled"),
    "logprobs": ([["number"]], "log-probability (nats) of each sampled token"),
}
_TYPES: Final = {"string": "string", "integer": "int64", "number": "float64", "boolean": "bool"}
_ADVANTAGES: Final = "advantage of each answer, by credit rule"
_RECORD: Final = "the rest of the episode as JSON, for `turncredit import`"


def write_dataset(episodes: Iterable[Exported], path: Path, origin: Origin) -> None:
    """Write a folder of Parquet files with a card.

    Raises:
        InputError: polars is not installed.
    """
    require_polars(path)
    (path / "data").mkdir(parents=True)
    counts: Counter[str] = Counter()
    rules: tuple[str, ...] = ()
    for shard in _shards(_counted(episodes, counts)):
        rules = rules or tuple(shard[0].advantages)
        rows = (json_text(_row(exported, origin), compact=True) for exported in shard)
        write_parquet(path / "data" / f"{counts['files']:05d}.parquet", _schema(rules, origin), rows)
        counts["files"] += 1
    for number in range(counts["files"]):
        name = f"train-{number:05d}-of-{counts['files']:05d}.parquet"
        (path / "data" / f"{number:05d}.parquet").rename(path / "data" / name)
    write_text(path / "README.md", _card(counts, rules, origin))


def _counted(episodes: Iterable[Exported], counts: Counter[str]) -> Iterator[Exported]:
    for exported in episodes:
        trajectory = exported.trajectory
        counts.update(episodes=1, won=trajectory.won, turns=len(trajectory.turns))
        yield exported


def _shards(episodes: Iterable[Exported]) -> Iterator[list[Exported]]:
    """Yield the episodes in lists of bounded size."""
    shard: list[Exported] = []
    size = 0
    for exported in episodes:
        shard.append(exported)
        texts = (len(turn.observation) + len(turn.text) for turn in exported.trajectory.turns)
        ids = (len(turn.prompt) + 4 * len(turn.response) for turn in exported.trajectory.turns)
        images = (2 * len(image.png) for image in images_of(exported.trajectory))
        size += 2 * sum(texts) + 8 * sum(ids) + sum(images)
        if size >= SHARD:
            yield shard
            shard, size = [], 0
    if shard:
        yield shard


def _schema(rules: Iterable[str], origin: Origin) -> dict[str, object]:
    columns: dict[str, object] = {name: kind for name, (kind, _) in _COLUMNS.items()}
    if rules:
        columns["advantages"] = {rule: ["number"] for rule in rules}
    return columns if origin.plain else {**columns, KEY: "string"}


def _features(schema: Mapping[str, object], origin: Origin) -> list[dict[str, object]]:
    """Return what the columns are, as cards say it: `datasets` makes objects of JSON, and images of PNG."""
    return [{"name": name, **_feature(name, kind, schema, origin)} for name, kind in schema.items()]


def _feature(name: str, kind: object, inside: Mapping[str, object], origin: Origin) -> dict[str, object]:
    """Return what a column is, or a key of its objects.

    Args:
        name: name of the column or the key.
        kind: kind of column, as `write_parquet` takes it.
        inside: the object of which it is a key.
        origin: says how arguments are written.
    """
    if kind == _IMAGE:
        return {"dtype": "image"}
    if name == "tools" or (inside == _FUNCTION and name == "arguments" and origin.answers == "parts"):
        return {"list": "json"} if isinstance(kind, list) else {"dtype": "json"}
    if isinstance(kind, list):
        inner = _feature("", kind[0], {}, origin)
        return {"list": inner.get("dtype", inner.get("struct", inner))}
    if isinstance(kind, dict):
        return {"struct": _features(kind, origin)}
    return {"dtype": _TYPES[str(kind)]}


def _row(exported: Exported, origin: Origin) -> dict[str, object]:
    trajectory = exported.trajectory
    turns = trajectory.turns
    names = ("id", "task", "task_type", "seed", "won", "score", "reward", "stop", "error")
    row: dict[str, object] = {name: getattr(trajectory, name) for name in names}
    row |= {
        "iteration": exported.iteration,
        "messages": [chat_message(message, arguments_as_text=True) for message in origin.messages(exported)],
        "tools": [json_text(tool, compact=True) for tool in origin.tools_of(exported)],
        "images": [
            {"bytes": b64encode(image.png).decode(), "path": f"{image.key}.png"} for image in images_of(trajectory)
        ],
        "rewards": [turn.reward for turn in turns],
        "actions": [turn.action for turn in turns],
        "states": [turn.state for turn in turns],
        "prompt_ids": [turn.prompt for turn in turns],
        "response_ids": [turn.response for turn in turns],
        "logprobs": [turn.logprobs for turn in turns],
    }
    if exported.advantages:
        row["advantages"] = {rule: list(values) for rule, values in exported.advantages.items()}
    return row if origin.plain else {**row, KEY: json_text(embedded(exported), compact=True)}


def _card(counts: Counter[str], rules: Iterable[str], origin: Origin) -> str:
    """Return the card: settings for the Hub, then what the data set holds."""
    about = {**{name: text for name, (_, text) in _COLUMNS.items()}, **({"advantages": _ADVANTAGES} if rules else {})}
    about |= {} if origin.plain else {KEY: _RECORD}
    features = json_text(_features(_schema(rules, origin), origin))
    files = "  data_files:\n  - split: train\n    path: data/*.parquet\n" if counts["files"] else ""
    facts = [("run", origin.run), ("environment", origin.environment), ("model", origin.model)]
    lines = [f"- {name}: `{value}`" for name, value in facts if value]
    lines += [f"- {counts['episodes']:,} episodes, {counts['won']:,} won, {counts['turns']:,} answers"]
    rows = [f"| `{name}` | {text} |" for name, text in about.items()]
    return (
        f"---\nconfigs:\n- config_name: default\n{files}dataset_info:\n  features: {features}\n"
        "tags:\n- agent\n- trajectories\n- turncredit\n"
        f"task_categories:\n- text-generation\npretty_name: {json_text(origin.run)}\n---\n\n# {origin.run}\n\n"
        "Episodes of a language-model agent, exported by turncredit.\n\n"
        + "\n".join([*lines, "", "| column | meaning |", "|---|---|", *rows])
        + "\n"
    )


def read_dataset(path: Path, refuse: Refuse = raise_it) -> Iterator[Demonstration]:
    """Yield the episodes of a folder of Parquet files, or of one file.

    Rows that another program wrote need a column of messages, as `turncredit.agents.interchange.chat_records` lists
    them.

    Args:
        path: the folder or the file.
        refuse: called with each row that cannot be read.

    Raises:
        StoreError: there is no file, or it is damaged.
    """
    for file in files_in(path, ".parquet"):
        for record in records_of(file, refuse):
            try:
                yield read_record(file, record)
            except StoreError as error:
                refuse(error)
