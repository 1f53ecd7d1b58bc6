"""Options and counts of a rollout."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace
from typing import Final, Protocol, TypedDict

from turncredit.agents.agent import Agent
from turncredit.agents.errors import AgentError
from turncredit.agents.rollouts.forks import Snapshots
from turncredit.agents.trajectory import Trajectory
from turncredit.engines.base import Sampler

__all__ = ["RolloutOptions", "RolloutReport", "Teachers", "with_defaults"]

OnFinish = Callable[[Trajectory], None]


class Teachers(Protocol):
    """Other models that play for groups whose rounds ask for some."""

    def player(self, name: str) -> tuple[Agent, Sampler]:
        """Return a model of this name, and its agent."""

    def told(self, trajectory: Trajectory, agent: Agent, sampler: Sampler) -> Trajectory:
        """Return an episode of one of them as if the policy had played it, of which agent and sampler are given."""


@dataclass(slots=True)
class RolloutReport:
    """Counts of a rollout."""

    episodes: int = 0
    turns: int = 0
    unparsable: int = 0
    inadmissible: int = 0
    errors: int = 0
    restarts: int = 0
    """Environments that were closed after a failure."""
    replaced: int = 0
    """Processes of environments that were replaced: they had died, hung, or grown."""
    repaired: int = 0
    """Episodes that were played in place of one whose environment failed."""
    lost: int = 0
    """Times that an episode was begun again because another one ended the process of its environment."""
    skipped: int = 0
    """Episodes that were not played because their task was in quarantine."""
    prompt_tokens: int = 0
    response_tokens: int = 0
    """Tokens as sampled, or as a server counted them; without those of teachers."""
    seconds: float = 0.0
    environment_seconds: float = 0.0
    """Seconds, of these, in environments that are called on the event loop."""
    quarantined: list[str] = field(default_factory=list)
    reasons: Counter[str] = field(default_factory=Counter)
    """How often each failure message occurred."""

    def count(self, trajectory: Trajectory) -> None:
        """Add a finished episode; what a fork took over is counted with its parent."""
        played = replace(trajectory, turns=trajectory.sampled)
        self.episodes += 1
        self.turns += len(played.turns)
        self.unparsable += played.unparsable
        self.inadmissible += played.inadmissible
        if not trajectory.teacher:  # whose tokens another sampler has computed
            self.prompt_tokens += played.prompt_tokens
            self.response_tokens += played.response_tokens - (trajectory.fork_tokens if played.turns else 0)
        if trajectory.stop == "error":
            self.errors += 1
            self.reasons[str(trajectory.error)] += 1

    def include(self, other: RolloutReport) -> None:
        """Add the counts of a rollout that went on at the same time."""
        for count in fields(self):
            mine, theirs = getattr(self, count.name), getattr(other, count.name)
            setattr(self, count.name, max(mine, theirs) if "seconds" in count.name else mine + theirs)

    def sentence(self) -> str:
        """Return the report in one line, with the most frequent failure."""
        text = f"{self.episodes} episodes, {self.turns} turns in {self.seconds:.1f} s"
        if self.errors:
            reason, times = self.reasons.most_common(1)[0]
            text += f"; {self.errors} errors ({times} x {reason}), {self.restarts} environments restarted"
        if self.repaired:
            text += f", {self.repaired} episodes played again"
        if self.lost:
            text += f"; {self.lost} episodes begun again after another ended their process"
        if self.replaced:
            text += f"; {self.replaced} processes of environments replaced"
        if self.quarantined:
            text += f"; in quarantine: {', '.join(self.quarantined)} ({self.skipped} episodes not played)"
        return text


class RolloutOptions(TypedDict, total=False):
    """Options of a rollout."""

    concurrency: int
    """Maximum number of environments, and so of episodes, at once; 64 by default."""
    deadline: float | None
    """Seconds for each reset and step; environments then run on threads. None (the default): no limit, no threads."""
    processes: int
    """How many processes play at once, each its share of the groups: this one and forks of it
    (`turncredit.processes.forks`); 1 by default. Sampler and environments must work in this process, on the CPU and
    without threads."""
    replacements: int
    """How many episodes of a group whose environment failed are replaced by another one; 0 by default. Failed episodes
    stay in the group. Those that were lost because another one ended the process are begun again, and not counted."""
    on_finish: OnFinish | None
    """Called with every trajectory as it finishes, for example to store it."""
    report: RolloutReport | None
    """Receives the counts."""
    snapshots: Snapshots | None
    """Receives the state before every turn, where the environment can be saved, and gives it to forks. With several
    processes, each has its own."""
    teachers: Teachers | None
    """Other models that play, for groups whose rounds ask for some; None: there are none."""


_DEFAULTS: Final[RolloutOptions] = {
    "concurrency": 64,
    "deadline": None,
    "processes": 1,
    "replacements": 0,
    "on_finish": None,
    "report": None,
    "snapshots": None,
    "teachers": None,
}


def with_defaults(options: RolloutOptions) -> RolloutOptions:
    """Return all options, those that are absent with their defaults.

    Raises:
        AgentError: a number is out of range.
        TypeError: there is no such option.
    """
    if unknown := options.keys() - _DEFAULTS.keys():
        raise TypeError(f"a rollout has no option {min(unknown)!r}; it has {', '.join(_DEFAULTS)}")
    options = {**_DEFAULTS, **options}
    if options["concurrency"] < 1:
        raise AgentError(f"concurrency must be >= 1, got {options['concurrency']}")
    if options["processes"] < 1:
        raise AgentError(f"processes must be >= 1, got {options['processes']}")
    if options["replacements"] < 0:
        raise AgentError(f"replacements must be >= 0, got {options['replacements']}")
    return options
