"""A fork: where an episode begins in the middle of another.

    Fork(trajectory, 3)              turns 0, 1 and 2 are taken over as they are; from turn 3 on all is played anew
    Fork(trajectory, 3, tokens=5)    and the answer of turn 3 begins with the first five tokens of the parent's

A rollout takes forks where it takes tasks. The environment reaches the state before the turn in one of two ways:

    snapshot   bytes that were saved there, while the episode was played or retraced (`Snapshots`)
    replay     a reset with the trajectory's task and seed, then its recorded actions; after each of them the state key,
               the text and the reward must be those that were recorded

Either way the next prompt has the ids that the parent's prompt had, and a fork whose answers repeat the parent's ends
like it. What differs is refused (`turncredit.agents.errors.ForkRefused`), and ends the episode as ``error``.

Not included: what trajectories do not store, where a fork comes from a file. A replay sees the images of earlier turns
again; messages of a server in its own form become plain ones.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from turncredit.agents.content import ImagePart
from turncredit.agents.errors import AgentError, ForkRefused
from turncredit.agents.json_types import JsonObject
from turncredit.agents.prompts.dialogue import Dialogue
from turncredit.agents.rollouts.env_pool import StepResult
from turncredit.agents.trajectory import Extra, Trajectory, Turn
from turncredit.engines.base import AnswerStart

__all__ = ["Fork", "Moment", "Snapshot", "Snapshots"]

_SHOWN = 60
"""Longest excerpt of a text in a message, in characters."""


@dataclass(frozen=True, slots=True)
class Moment:
    """What an episode has in its hands before a turn, beside its environment and its dialogue."""

    latest: StepResult
    """What the environment returned last."""
    observation: str
    """What the agent sees: the environment's text, or the correction of an answer that could not be parsed."""
    images: tuple[ImagePart, ...] = ()
    valid: bool | None = None
    results: tuple[str, ...] = ()
    tools: tuple[JsonObject, ...] = ()
    extras: dict[str, Extra] = field(default_factory=dict)
    """Columns that every turn of the episode has by default."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Everything that an episode is before a turn, in memory."""

    env: bytes
    """What `turncredit.envs.branch.save` returned."""
    dialogue: Dialogue
    moment: Moment


@dataclass(frozen=True, slots=True)
class Fork:
    """A place where an episode begins: before a turn of another one."""

    trajectory: Trajectory
    """The parent; nothing of it changes."""
    turn: int
    """Index of the first turn that is played anew."""
    repeat: bool = False
    """Whether the parent's answer is given once more at this turn, while the environment answers anew."""
    fresh: bool = False
    """Whether the environment gets other random numbers from here on; without effect where it draws none."""
    tokens: int = 0
    """Tokens of the parent's answer at this turn that the new answer begins with."""
    snapshot: Snapshot | None = field(default=None, repr=False, compare=False)
    """The state before the turn; None: it is looked for where the rollout keeps snapshots, else it is replayed."""

    def __post_init__(self) -> None:
        """Check the place.

        Raises:
            AgentError: the trajectory has no such turn, or the turn's answer does not go on after that many tokens.
        """
        if not 0 <= self.turn < len(self.trajectory.turns):
            raise AgentError(
                f"a fork of {self.trajectory.id} begins at one of its turns, 0 to {len(self.trajectory.turns) - 1}; "
                f"got {self.turn}"
            )
        answer = len(self.trajectory.turns[self.turn].response)
        if self.tokens and not 0 < self.tokens < answer:
            raise AgentError(
                f"a fork of {self.trajectory.id} at turn {self.turn} takes over fewer tokens than the {answer} of the "
                f"answer there; got {self.tokens}"
            )
        if self.tokens and self.repeat:
            raise AgentError(f"a fork of {self.trajectory.id} repeats an answer or begins inside it, not both")

    @property
    def origin(self) -> str:
        """What the ids of its episodes begin with: ``task#3/5`` for turn 5 of ``task#3@7``, ``task#3/5:2`` inside it.

        >>> turn = Turn((), (), (), 0, "a door", "open", "open", "closed", 0.0, True)
        >>> parent = Trajectory("hall#3@7", "hall", None, 7, (turn,), "turns", False, 0.0, "open", "", None, 0.0)
        >>> Fork(parent, 0).origin, Fork(parent, 0).name(4)
        ('hall#3/0', 'hall#3/0.4@7')
        """
        path = self.trajectory.id.rpartition("@")[0] or self.trajectory.id
        return f"{path}/{self.turn}{f':{self.tokens}' if self.tokens else '+' if self.repeat else ''}"

    def name(self, member: int) -> str:
        """Return the id of one of its episodes, from which its sampling seed follows; no original episode has it."""
        return f"{self.origin}.{member}@{self.trajectory.seed}"

    @property
    def taken(self) -> tuple[Turn, ...]:
        """The turns that are taken over."""
        return self.trajectory.turns[: self.turn]

    @property
    def start(self) -> AnswerStart:
        """What the answer of its turn begins with."""
        turn = self.trajectory.turns[self.turn]
        return AnswerStart(turn.response[: self.tokens], turn.logprobs[: self.tokens], turn.versions[: self.tokens])

    @property
    def first(self) -> int:
        """Index of the first turn whose answer is sampled."""
        return self.turn + self.repeat

    def check(self, number: int, state: str, observation: str) -> None:
        """Compare the state before a turn with the recorded one.

        Raises:
            ForkRefused: they differ.
        """
        recorded = self.trajectory.turns[number]
        if state != recorded.state:
            self.refuse(number, "the state key", state, recorded.state)
        if observation != recorded.observation:
            self.refuse(number, "the observation", observation, recorded.observation)

    def check_prompt(self, number: int, ids: tuple[int, ...]) -> None:
        """Compare the prompt of a turn, as it is built now, with the recorded one.

        Raises:
            ForkRefused: they differ.
        """
        recorded = self.trajectory.turns[number].prompt
        if ids and recorded and ids != recorded:
            pairs = enumerate(zip(ids, recorded, strict=False))
            at = next((index for index, (token, other) in pairs if token != other), min(len(ids), len(recorded)))
            raise ForkRefused(
                f"{self._subject} is refused: at turn {number} the prompt of {len(ids)} tokens differs from the "
                f"recorded one of {len(recorded)} at token {at}; it was built by another agent or tokenizer"
            )

    def refuse(self, number: int, subject: str, value: object, recorded: object) -> None:
        """Say that something differs at a turn.

        Raises:
            ForkRefused: always.
        """
        raise ForkRefused(
            f"{self._subject} is refused: at turn {number} {subject} is {_short(value)}, but {_short(recorded)} was "
            "recorded; the environment does not repeat its episodes (`turncredit check` says more)"
        )

    @property
    def _subject(self) -> str:
        return f"the fork of {self.trajectory.id} at turn {self.turn}"


class Snapshots:
    """Snapshots by trajectory and turn, which episodes leave here while they are played, and forks begin from."""

    def __init__(self) -> None:
        """Begin with none."""
        self._by_episode: dict[str, dict[int, Snapshot]] = {}

    def put(self, episode: str, turn: int, snapshot: Snapshot) -> None:
        """Keep the snapshot before a turn."""
        self._by_episode.setdefault(episode, {})[turn] = snapshot

    def find(self, fork: Fork) -> Snapshot | None:
        """Return the snapshot that a fork begins from, None if there is none."""
        return fork.snapshot or self._by_episode.get(fork.trajectory.id, {}).get(fork.turn)

    def drop(self, episode: str) -> None:
        """Forget an episode; an unknown one is not an error."""
        self._by_episode.pop(episode, None)

    def __len__(self) -> int:
        """Return the number of snapshots."""
        return sum(map(len, self._by_episode.values()))


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 3]}..."
