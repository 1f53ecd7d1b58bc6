"""The formats of trajectories: how each is written and read, and what it carries.

A new format is one module with a function that writes, one that reads, or both, and one entry of `FORMATS`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from turncredit.agents.interchange.atif import read_atif, write_atif
from turncredit.agents.interchange.chat_records import read_chat, read_conversations, write_chat
from turncredit.agents.interchange.conversations import Demonstration
from turncredit.agents.interchange.hub_dataset import read_dataset, write_dataset
from turncredit.agents.interchange.inspect_logs import read_logs, write_logs
from turncredit.agents.interchange.records import Exported, Origin
from turncredit.agents.interchange.sts import read_sts, write_sts

__all__ = ["FORMATS", "TrajectoryFormat"]

Write = Callable[[Iterable[Exported], Path, Origin], None]
Read = Callable[[Path], Iterator[Demonstration]]

_TEXTS: Final = "observations, answers with reasoning and tool calls, outcomes, rewards, states, advantages"
_CONVERSATION: Final = "observations, answers with reasoning and tool calls; a score or reward; answers without loss"


@dataclass(frozen=True, slots=True)
class TrajectoryFormat:
    """A format of trajectories.

    Attributes:
        name: as the command line knows it.
        title: what it is.
        write: writes episodes to a new path; None: the format is only read.
        read: yields the episodes of a path; None: the format is only written.
        suffix: of the file that is written; empty: a folder.
        carries: what comes back of a turncredit episode.
        lacks: what does not; empty: nothing is lost.
    """

    name: str
    title: str
    write: Write | None = None
    read: Read | None = None
    suffix: str = ""
    carries: str = ""
    lacks: str = ""


_ALL: Final = (
    TrajectoryFormat(
        "atif",
        "Agent Trajectory Interchange Format of Harbor: a folder of JSON documents, or a Harbor job",
        write_atif,
        read_atif,
        carries=f"{_TEXTS}, token ids, log-probabilities, prices",
    ),
    TrajectoryFormat(
        "sts",
        "session traces, which the Hugging Face Hub renders: a folder of JSON lines",
        write_sts,
        read_sts,
        carries=_TEXTS,
        lacks="token ids and log-probabilities",
    ),
    TrajectoryFormat(
        "hf",
        "a data set for the Hugging Face Hub and `datasets`: Parquet files with a card",
        write_dataset,
        read_dataset,
        carries=f"{_TEXTS}, token ids, log-probabilities",
    ),
    TrajectoryFormat(
        "openai",
        "chat messages as in the OpenAI API: JSON lines",
        write_chat,
        read_chat,
        ".jsonl",
        carries=_TEXTS,
        lacks="token ids and log-probabilities",
    ),
    TrajectoryFormat(
        "inspect",
        "logs of inspect_ai (.eval), for `inspect view`",
        write_logs,
        read_logs,
        carries=_TEXTS,
        lacks="token ids and log-probabilities",
    ),
    TrajectoryFormat(
        "sharegpt",
        "conversations of ShareGPT: JSON lines, a list, or Parquet",
        read=read_conversations,
        carries=_CONVERSATION,
    ),
    TrajectoryFormat(
        "agentgym",
        "conversations of AgentGym: a list of JSON objects, or JSON lines",
        read=read_conversations,
        carries=_CONVERSATION,
    ),
)
FORMATS: Final[dict[str, TrajectoryFormat]] = {entry.name: entry for entry in _ALL}
"""The formats by name."""
