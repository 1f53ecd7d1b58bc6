"""The formats of trajectories: how each is written and read, and what it carries.

A new format is one module with a function that writes, one that reads, or both, and one entry of `FORMATS`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Final, cast

from turnwise.agents.interchange.conversations import Demonstration
from turnwise.agents.interchange.records import Exported, Origin

__all__ = ["FORMATS", "TrajectoryFormat"]

Write = Callable[[Iterable[Exported], Path, Origin], None]
Read = Callable[[Path], Iterator[Demonstration]]

_PACKAGE: Final = "turnwise.agents.interchange"
_TEXTS: Final = "observations, answers with reasoning and tool calls, outcomes, rewards, states, advantages"
_CONVERSATION: Final = "observations, answers with reasoning and tool calls; a score or reward; answers without loss"


@dataclass(frozen=True, slots=True)
class TrajectoryFormat:
    """A format of trajectories.

    Attributes:
        name: as the command line knows it.
        title: what it is.
        module: of this folder.
        writer: name of the function that writes a new path; empty: the format is only read.
        reader: name of the function that yields the episodes of a path; empty: the format is only written.
        suffix: of the file that is written; empty: a folder.
        carries: what comes back of a turnwise episode.
        lacks: what does not; empty: nothing is lost.
    """

    name: str
    title: str
    module: str
    writer: str = ""
    reader: str = ""
    suffix: str = ""
    carries: str = ""
    lacks: str = ""

    @property
    def write(self) -> Write:
        """The function that writes it."""
        return cast("Write", getattr(import_module(f"{_PACKAGE}.{self.module}"), self.writer))

    @property
    def read(self) -> Read:
        """The function that reads it."""
        return cast("Read", getattr(import_module(f"{_PACKAGE}.{self.module}"), self.reader))


_ALL: Final = (
    TrajectoryFormat(
        "atif",
        "Agent Trajectory Interchange Format of Harbor: a folder of JSON documents, or a Harbor job",
        "atif",
        "write_atif",
        "read_atif",
        carries=f"{_TEXTS}, token ids, log-probabilities, prices",
    ),
    TrajectoryFormat(
        "sts",
        "session traces, which the Hugging Face Hub renders: a folder of JSON lines",
        "sts",
        "write_sts",
        "read_sts",
        carries=_TEXTS,
        lacks="token ids and log-probabilities",
    ),
    TrajectoryFormat(
        "hf",
        "a data set for the Hugging Face Hub and `datasets`: Parquet files with a card",
        "hub_dataset",
        "write_dataset",
        "read_dataset",
        carries=f"{_TEXTS}, token ids, log-probabilities",
    ),
    TrajectoryFormat(
        "openai",
        "chat messages as in the OpenAI API: JSON lines",
        "chat_records",
        "write_chat",
        "read_chat",
        ".jsonl",
        carries=_TEXTS,
        lacks="token ids and log-probabilities",
    ),
    TrajectoryFormat(
        "inspect",
        "logs of inspect_ai (.eval), for `inspect view`",
        "inspect_logs",
        "write_logs",
        "read_logs",
        carries=_TEXTS,
        lacks="token ids and log-probabilities",
    ),
    TrajectoryFormat(
        "sharegpt",
        "conversations of ShareGPT: JSON lines, a list, or Parquet",
        "chat_records",
        reader="read_conversations",
        carries=_CONVERSATION,
    ),
    TrajectoryFormat(
        "agentgym",
        "conversations of AgentGym: a list of JSON objects, or JSON lines",
        "chat_records",
        reader="read_conversations",
        carries=_CONVERSATION,
    ),
)
FORMATS: Final[dict[str, TrajectoryFormat]] = {known.name: known for known in _ALL}
"""The formats by name."""
