"""The formats of trajectories: how each is written and read, and what it carries.

A new format is one module with a function that writes, one that reads, or both, and one entry of `FORMATS`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from turncredit.agents.interchange import chat_records, inspect_logs, openhands, sts, swe_agent, tau_results
from turncredit.agents.interchange.atif import write_atif
from turncredit.agents.interchange.atif_reader import read_atif
from turncredit.agents.interchange.conversations import Demonstration
from turncredit.agents.interchange.folders import Refuse
from turncredit.agents.interchange.hub_dataset import read_dataset, write_dataset
from turncredit.agents.interchange.records import Exported, Origin

__all__ = ["FORMATS", "TrajectoryFormat"]

Write = Callable[[Iterable[Exported], Path, Origin], None]


class Read(Protocol):
    """Reads the episodes of a path."""

    def __call__(self, path: Path, refuse: Refuse = ...) -> Iterator[Demonstration]:
        """Yield the episodes, and call `refuse` with each that cannot be read; by default it raises."""


_TEXTS: Final = "observations, answers with reasoning and tool calls, outcomes, rewards, states, advantages"
_CONVERSATION: Final = "observations, answers with reasoning and tool calls; an outcome; answers without loss"


@dataclass(frozen=True, slots=True)
class TrajectoryFormat:
    """A format of trajectories.

    Attributes:
        name: as the command line knows it.
        title: what it is.
        write: writes episodes to a new path; None: the format is only read.
        read: yields the episodes of a path; None: the format is only written.
        suffix: suffix of the file that is written or read; empty: a folder.
        carries: what comes back of a turncredit episode.
        lacks: what does not: some of `TOKENS`, `IMAGES` and `TOOLS`.
        trains: whether trainers render its messages with chat templates.
        example: what a file of a format that is only read may hold.
    """

    name: str
    title: str
    write: Write | None = None
    read: Read | None = None
    suffix: str = ""
    carries: str = ""
    lacks: tuple[str, ...] = ()
    trains: bool = False
    example: object = None


_ALL: Final = (
    TrajectoryFormat(
        "atif",
        "Agent Trajectory Interchange Format of Harbor: a folder of JSON documents, or a Harbor job",
        write_atif,
        read_atif,
        carries=f"{_TEXTS}, token ids, log-probabilities, prices, images, tool definitions",
    ),
    TrajectoryFormat(
        "sts",
        "session traces, which the Hugging Face Hub renders: a folder of JSON lines",
        sts.write_sts,
        sts.read_sts,
        carries=_TEXTS,
        lacks=sts.LACKS,
    ),
    TrajectoryFormat(
        "hf",
        "a data set for the Hugging Face Hub and `datasets`: Parquet files with a card",
        write_dataset,
        read_dataset,
        carries=f"{_TEXTS}, token ids, log-probabilities, images, tool definitions",
        trains=True,
    ),
    TrajectoryFormat(
        "openai",
        "chat messages for trainers, or as in the OpenAI API: JSON lines",
        chat_records.write_chat,
        chat_records.read_chat,
        ".jsonl",
        carries=f"{_TEXTS}, tool definitions",
        lacks=chat_records.LACKS,
        trains=True,
    ),
    TrajectoryFormat(
        "inspect",
        "logs of inspect_ai (.eval), for `inspect view`",
        inspect_logs.write_logs,
        inspect_logs.read_logs,
        carries=_TEXTS,
        lacks=inspect_logs.LACKS,
    ),
    TrajectoryFormat(
        "sharegpt",
        "conversations of ShareGPT: JSON lines, a list, or Parquet",
        read=chat_records.read_conversations,
        suffix=".jsonl",
        carries=_CONVERSATION,
        example=chat_records.SHAREGPT_EXAMPLE,
    ),
    TrajectoryFormat(
        "agentgym",
        "conversations of AgentGym: a list of JSON objects, or JSON lines",
        read=chat_records.read_conversations,
        suffix=".jsonl",
        carries=_CONVERSATION,
        example=chat_records.SHAREGPT_EXAMPLE,
    ),
    TrajectoryFormat(
        "completions",
        "prompts with completions, as TRL and verifiers have them: JSON lines, a list, or Parquet",
        read=chat_records.read_completions,
        suffix=".jsonl",
        carries=_CONVERSATION,
        example=chat_records.COMPLETION_EXAMPLE,
    ),
    TrajectoryFormat(
        "swe-agent",
        "trajectories of SWE-agent (.traj): a document, or a folder of them",
        read=swe_agent.read_swe_agent,
        suffix=".traj",
        carries=_CONVERSATION,
        example=swe_agent.EXAMPLE,
    ),
    TrajectoryFormat(
        "mini-swe-agent",
        "trajectories of mini-SWE-agent (.traj.json): a document, or a folder of them",
        read=swe_agent.read_mini_swe_agent,
        suffix=".traj.json",
        carries=_CONVERSATION,
        example=swe_agent.MINI_EXAMPLE,
    ),
    TrajectoryFormat(
        "openhands",
        "results of OpenHands (output.jsonl), of its old events and of its agent SDK",
        read=openhands.read_openhands,
        suffix="output.jsonl",
        carries=_CONVERSATION,
        example=openhands.EXAMPLE,
    ),
    TrajectoryFormat(
        "tau",
        "results of tau-bench and tau2: a JSON document, or a folder of them",
        read=tau_results.read_tau,
        suffix=".json",
        carries=_CONVERSATION,
        example=tau_results.EXAMPLE,
    ),
)
FORMATS: Final[dict[str, TrajectoryFormat]] = {entry.name: entry for entry in _ALL}
"""The formats by name."""
