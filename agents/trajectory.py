"""Records of episodes: a turn, a trajectory (one episode), a group (the trajectories of one task instance).

All three are frozen. Token ids are stored as given and sampled, and never recomputed from text. Advantages are not
stored, since they belong to a training step; neither is the text of prompts, which follows from the observations and
the prompt builder.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice, pairwise
from typing import Literal, get_args

from turncredit.agents.content import Content, ImagePart, TextPart
from turncredit.agents.token_experts import TurnExperts

_PATH = re.compile(r"[0-9]{1,18}(/[0-9]{1,18}(\+|:[0-9]{1,18})?\.[0-9]{1,18})*", re.ASCII)
"""Member of a group in the id of a trajectory: its number; for a fork, then the turn, perhaps the tokens of its answer,
and its number among the forks."""

Stop = Literal["terminated", "truncated", "turns", "tokens", "answer", "error"]
"""Why an episode ended: the environment ended or truncated it, the agent's limit of turns or the model's context was
reached, the model's answer was one that no model could read again, or the environment or a request to the model failed.
The last one is no doing of the player and leaves every rate; all others count."""

STOPS: tuple[str, ...] = get_args(Stop)

Finish = Literal["stop", "length", "refusal", "empty"]
"""How an answer ended: by an end token or a stop string, cut at a limit, refused by a server, or without any text."""

FINISHES: tuple[str, ...] = get_args(Finish)

Extra = float | int | str | tuple[float | int | str, ...]
"""Value of a column that an environment or a sampler adds to a turn."""


def check_extras(extras: object) -> dict[str, Extra]:
    """Return extra columns of a turn with plain Python values: NumPy scalars and lists are converted.

    Args:
        extras: mapping of column names to numbers, strings, or sequences of these; None means no columns.

    Raises:
        TypeError: not a mapping, a name that is not a string, or a value of another type.
    """
    if extras is None:
        return {}
    if not isinstance(extras, Mapping):
        raise TypeError(f"extras must be a mapping of column names to values, got {type(extras).__name__}")
    return {_column(name): _extra(name, value) for name, value in extras.items()}


def _column(name: object) -> str:
    if not isinstance(name, str):
        raise TypeError(f"the names of extras must be strings, got {name!r}")
    return name


def _extra(name: str, value: object) -> Extra:
    if isinstance(value, list | tuple):
        return tuple(_scalar(name, item) for item in value)
    return _scalar(name, value)


def _scalar(name: str, value: object) -> float | int | str:
    value = value.item() if hasattr(value, "item") and getattr(value, "ndim", 1) == 0 else value
    if not isinstance(value, float | int | str):
        kind = type(value).__name__
        raise TypeError(f"extras[{name!r}] must be a number, a string or a tuple of these, got {kind}")
    return value


@dataclass(frozen=True, slots=True)
class Turn:
    """One call of the model and the environment's answer."""

    prompt: tuple[int, ...]
    """Token ids as given to the model; empty if the sampler has no tokenizer."""
    response: tuple[int, ...]
    """Token ids as sampled, with the end token if it was sampled."""
    logprobs: tuple[float, ...]
    """Log-probability (nats) of every response token under the distribution that it was sampled from."""
    version: int
    """Version of the sampler's weights; of the first token if new weights were loaded in the middle of the answer."""
    observation: str
    """What the agent saw: the environment's text, or the correction of an answer that could not be parsed."""
    text: str
    """The model's answer without the end token."""
    action: str | None
    """The parsed action; None if the answer could not be parsed, and nothing was sent to the environment."""
    state: str
    """The environment's state key before the action."""
    reward: float
    """The environment's reward for this turn; 0.0 for an answer that could not be parsed."""
    valid: bool
    """Whether the answer was parsed and its action was admissible."""
    admissible: tuple[str, ...] | None = None
    """The admissible actions, if the agent's template lists them, so that its prompts can be rebuilt; else None."""
    extras: Mapping[str, Extra] = field(default_factory=dict, hash=False)
    """Further columns for credit rules (`role`, `value`, `tree`, ...), from ``info["extras"]`` and the sampler."""
    finish: Finish = "stop"
    """How the answer ended."""
    switches: tuple[tuple[int, int], ...] = ()
    """(index of a response token, version): the weights that went on with the answer from there."""
    results: tuple[str, ...] = ()
    """The results of the previous action's calls, one for each, as they are in the prompt of a model with native tool
    calls; () if there were none."""
    free: tuple[str, ...] = ()
    """Forms of further actions, such as "search[...]", if the prompt listed the possible actions."""
    images: tuple[ImagePart, ...] = ()
    """The images that the agent saw with the observation."""
    shown: tuple[ImagePart, ...] = ()
    """All images in the prompt, in order: those of earlier turns that it repeats, then this turn's."""

    experts: TurnExperts | None = None
    """Experts of a mixture that computed the prompt and the response without its last token, where the sampler recorded
    them."""

    @property
    def versions(self) -> tuple[int, ...]:
        """The version of the weights that sampled each response token."""
        return token_versions(self.version, self.switches, len(self.response))

    @property
    def content(self) -> Content:
        """What the agent saw, as parts."""
        return (TextPart(self.observation), *self.images)

    def counted(self, column: str, otherwise: int) -> int:
        """Return a number of tokens that the sampler counted by itself, or another count."""
        value = self.extras.get(column, otherwise)
        return int(value) if isinstance(value, int | float) else otherwise


def token_versions(version: int, switches: Iterable[tuple[int, int]], tokens: int) -> tuple[int, ...]:
    """Return the version of each token of an answer.

    >>> token_versions(3, [(2, 4)], 5)
    (3, 3, 4, 4, 4)

    Args:
        version: version of the first token.
        switches: (index of a token, version from there on), in order.
        tokens: number of tokens.
    """
    starts = [(0, version), *switches, (tokens, 0)]
    return tuple(current for (start, current), (end, _) in pairwise(starts) for _ in range(start, end))


def version_switches(versions: Sequence[int]) -> tuple[tuple[int, int], ...]:
    """Return where the version changes, as (index of a token, version from there on): the inverse of `token_versions`.

    >>> version_switches([3, 3, 4, 4, 4])
    ((2, 4),)
    """
    pairs = enumerate(pairwise(versions), start=1)
    return tuple((at, version) for at, (before, version) in pairs if version != before)


@dataclass(frozen=True, slots=True)
class Trajectory:
    """One episode."""

    id: str
    task: str
    task_type: str | None
    seed: int
    """Seed of the environment's reset."""
    turns: tuple[Turn, ...]
    stop: Stop
    won: bool
    score: float
    final_state: str
    final_observation: str
    error: str | None
    """Message of an episode that ended as ``error`` or ``tokens``; else None."""
    seconds: float
    """Wall-clock time from reset to the end."""
    fork_of: str | None = None
    """Id of the trajectory in whose middle it began; None for an episode that began with a reset."""
    fork_turn: int | None = None
    """Index of the first turn that was sampled for this trajectory; those before it are the parent's. None as above."""
    fork_tokens: int = 0
    """Tokens of that turn's answer that are the parent's as well."""
    round: int = 0
    """The round of its group in which it was asked for."""
    hint: str = ""
    """Help that its prompts showed with the task."""
    notes: bool = False
    """Whether its prompts showed notes turn by turn."""
    temperature: float | None = None
    """Temperature that its answers were sampled at, if it was not that of the run."""
    teacher: str = ""
    """The model that played it in the place of the policy; empty: the policy did."""
    trial: int = 0
    """Number of the trial of its task in an evaluation; its seed is that of the group plus this."""

    @property
    def plain(self) -> bool:
        """Whether it shows what the policy achieves by itself: it began with a reset, without help and as any other."""
        return self.fork_of is None and not (self.hint or self.notes or self.teacher) and self.temperature is None

    @property
    def sampled(self) -> tuple[Turn, ...]:
        """The turns that were sampled for this trajectory: all, or for a fork those after what it took over."""
        return self.turns[self.fork_turn or 0 :]

    @property
    def sampled_tokens(self) -> int:
        """Number of tokens that were sampled for this trajectory."""
        return sum(len(turn.response) for turn in self.sampled) - (self.fork_tokens if self.sampled else 0)

    @property
    def sampled_logprobs(self) -> tuple[float, ...]:
        """Log-probabilities of the tokens that were sampled for this trajectory, nats."""
        values = chain.from_iterable(turn.logprobs for turn in self.sampled)
        return tuple(islice(values, self.fork_tokens, None))

    @property
    def reward(self) -> float:
        """Sum of the rewards of all turns (undiscounted)."""
        return sum(turn.reward for turn in self.turns)

    @property
    def unparsable(self) -> int:
        """Number of turns whose answer could not be parsed."""
        return sum(turn.action is None for turn in self.turns)

    @property
    def inadmissible(self) -> int:
        """Number of turns with a parsed but inadmissible action."""
        return sum(turn.action is not None and not turn.valid for turn in self.turns)

    @property
    def harm(self) -> bool | None:
        """Whether the agent obeyed instructions of an attacker (column `harm`); None if the episode had none."""
        return bool(self.turns[-1].extras["harm"]) if self.turns and "harm" in self.turns[-1].extras else None

    @property
    def truncated_answers(self) -> int:
        """Number of turns whose answer was cut at its limit of tokens."""
        return sum(turn.finish == "length" for turn in self.turns)

    @property
    def prompt_tokens(self) -> int:
        """Tokens of the prompts of all turns, as the sampler counted them or as they were given."""
        return sum(turn.counted("prompt_tokens", len(turn.prompt)) for turn in self.turns)

    @property
    def response_tokens(self) -> int:
        """Tokens of the answers of all turns, as the sampler counted them or as they were sampled."""
        return sum(turn.counted("response_tokens", len(turn.response)) for turn in self.turns)

    @property
    def counted_answers(self) -> int:
        """Number of turns whose tokens are known: from their ids, or because a server counted them."""
        return sum(bool(turn.prompt or turn.response or "prompt_tokens" in turn.extras) for turn in self.turns)

    @property
    def priced_answers(self) -> int:
        """Number of turns whose price is known."""
        return sum("request_cost" in turn.extras for turn in self.turns)

    @property
    def cost(self) -> float | None:
        """Price of the turns whose price is known, None if there are none."""
        costs = [cost for turn in self.turns if isinstance(cost := turn.extras.get("request_cost"), int | float)]
        return float(sum(costs)) if costs else None

    @property
    def refused_answers(self) -> int:
        """Number of turns whose answer the model or its server refused."""
        return sum(turn.finish == "refusal" for turn in self.turns)

    @property
    def empty_answers(self) -> int:
        """Number of turns for which a server answered without any text."""
        return sum(turn.finish == "empty" for turn in self.turns)

    @property
    def finished(self) -> bool:
        """Whether the episode ended without an error."""
        return self.stop != "error"


@dataclass(frozen=True, slots=True)
class Group:
    """The trajectories of one task instance: same task and environment seed, different sampling seeds.

    Only the trials of an evaluation have environments with different seeds, so that chance and simulated users differ.
    """

    task: str
    trajectories: tuple[Trajectory, ...]

    @property
    def finished(self) -> tuple[Trajectory, ...]:
        """The trajectories without an error, which are those that statistics count."""
        return tuple(trajectory for trajectory in self.trajectories if trajectory.finished)


def grouped(trajectories: Iterable[Trajectory]) -> list[Group]:
    """Return the groups of a sequence of trajectories, by task and seed of the group, in order of appearance.

    Files hold trajectories in the order in which they finished; within a group they are sorted by trial and member.
    """
    members: dict[tuple[str, int], list[Trajectory]] = {}
    for trajectory in trajectories:
        members.setdefault((trajectory.task, trajectory.seed - trajectory.trial), []).append(trajectory)
    return [Group(task, tuple(sorted(group, key=member_order))) for (task, _), group in members.items()]


def member_order(trajectory: Trajectory) -> tuple[tuple[int, ...], str]:
    """Return what members of a group are sorted by: trial and numbers; a fork, ``task#9/2.0@7``, follows its parent."""
    path = trajectory.id.rpartition("#")[2].partition("@")[0]
    numbers = (
        tuple(map(int, re.split(r"[/.:]", path.replace("+", ""))))
        if len(path) < 999 and _PATH.fullmatch(path)
        else (-1,)
    )
    return ((trajectory.trial, *numbers), trajectory.id)


def sampling_seed(episode_id: str) -> int:
    """Return the sampling seed of an episode, 63 bits: a hash of its id that is the same in every process."""
    name = episode_id.encode("utf-8", errors="surrogatepass")
    return int.from_bytes(hashlib.blake2b(name, digest_size=8).digest(), "big") >> 1
