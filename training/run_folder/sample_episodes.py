"""Episodes of an iteration that loggers show beside its numbers: what was seen and answered, and each turn's advantage.

Texts are cut, since a logger keeps them for every iteration; the trajectories of the run have them whole.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain, islice, zip_longest

from turncredit.agents.interchange.chat_objects import chat_message
from turncredit.agents.interchange.conversations import messages_of
from turncredit.agents.trajectory import Group, Trajectory
from turncredit.credit.advantages import Advantages

LONGEST = 4000
"""Characters of a text."""


@dataclass(frozen=True, slots=True)
class SampleEpisode:
    """An episode to show.

    Attributes:
        trajectory: the episode.
        advantages: of its turns; None where credit gave none.
    """

    trajectory: Trajectory
    advantages: tuple[float | None, ...]

    @property
    def facts(self) -> dict[str, str | float | bool]:
        """What is known of the episode, by name."""
        played = self.trajectory
        return {
            "id": played.id,
            "task": played.task,
            "won": played.won,
            "score": float(played.score),
            "reward": float(played.reward),
            "turns": len(played.turns),
            "stop": played.stop,
        }

    @property
    def messages(self) -> list[dict[str, object]]:
        """The conversation as messages of the OpenAI API, with cut texts."""
        messages = [chat_message(message, arguments_as_text=True) for message in messages_of(self.trajectory)]
        return [{**message, "content": _cut(str(message["content"]))} for message in messages]

    @property
    def text(self) -> str:
        """The conversation as one text, with the reward and the advantage of every turn."""
        lines = []
        for number, (turn, advantage) in enumerate(zip(self.trajectory.turns, self.advantages, strict=True), 1):
            credit = "" if advantage is None else f", advantage {advantage:+.3f}"
            lines += [_cut(turn.observation), f"[{number}] {_cut(turn.text)}", f"(reward {turn.reward:g}{credit})", ""]
        return "\n".join([*lines, _cut(self.trajectory.final_observation)])


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[:LONGEST]} ... ({len(text):,} characters)"


def sample_episodes(groups: Sequence[Group], advantages: Advantages, count: int) -> list[SampleEpisode]:
    """Return some episodes, won and lost ones in turn while there are both, each with its advantages.

    Args:
        groups: of an iteration.
        advantages: of their turns.
        count: maximum number of episodes.
    """
    played = [trajectory for group in groups for trajectory in group.finished if trajectory.turns]
    won, lost = ([item for item in played if item.won is outcome] for outcome in (True, False))
    chosen = list(islice((item for item in chain(*zip_longest(won, lost)) if item is not None), count))
    names = {trajectory.id for trajectory in chosen}
    rows = zip(advantages.trajectory.tolist(), advantages.turn.tolist(), advantages.values.tolist(), strict=True)
    values = {(name, turn): value for name, turn, value in rows if name in names}
    return [
        SampleEpisode(trajectory, tuple(values.get((trajectory.id, turn)) for turn in range(len(trajectory.turns))))
        for trajectory in chosen
    ]
