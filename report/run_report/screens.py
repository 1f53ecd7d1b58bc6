"""The screens of episodes, drawn again: the episode is replayed in its environment, and its pictures are kept.

An environment with pictures starts the same episode from the same task and seed, so its stored actions lead through the
same screens. This is checked: the text of every replayed observation must equal the stored one, and pictures from the
first difference on are left out, with the reason. Where the environment says which points an action touched, the page
draws them on the screen. Images that a trajectory holds are shown instead of drawn ones.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from turnwise.envs.info import TOUCH
from turnwise.report.errors import ReportError
from turnwise.report.run_report.revisions import Parts

if TYPE_CHECKING:
    import gymnasium
    import numpy as np
    from numpy.typing import NDArray

    from turnwise.agents.trajectory import Trajectory
    from turnwise.report.run_report.iterations import Iteration

Picture = Any
"""What an environment draws: an array or a list of numbers, uint8 [H, W, 3]."""
Touch = Sequence[tuple[float, float]]
"""Points as shares of width and height: none, one, or the start and the end of a swipe."""
TALLEST = 640
"""Pixels of a stored picture, which is halved until it is not taller."""


@dataclass
class Replay:
    """The pictures before each turn and after the last one, as positions in a list in which each occurs once."""

    places: list[int] = field(default_factory=list)
    touches: list[Touch] = field(default_factory=list)
    """Where each turn touched its screen."""
    note: str = ""


class ScreenReplay:
    """Replays episodes of one environment; close it with `close`.

    Args:
        env_id: the environment.
        kwargs: its arguments.

    Raises:
        ReportError: the environment cannot be made, or has no pictures.
    """

    def __init__(self, env_id: str, kwargs: Mapping[str, object]) -> None:
        from turnwise.envs import make

        try:
            env = make(env_id, **kwargs)
            self._renders = "rgb_array" in (env.metadata.get("render_modes") or ())
            if self._renders:
                env.close()
                env = make(env_id, **{**kwargs, "render_mode": "rgb_array"})
        except Exception as error:  # an environment of a user may fail in any way
            raise ReportError(f"--screens: {env_id} cannot be made to draw its screens: {error}") from error
        self._env: gymnasium.Env[Any, Any] = env
        if not self._renders and not _has_images(env):
            env.close()
            raise ReportError(f"--screens: {env_id} has no pictures; leave out --screens")
        self.images: list[str] = []
        self._known: dict[str, int] = {}

    def close(self) -> None:
        """Close the environment."""
        self._env.close()

    def pictures(self, iteration: Iteration, most: int) -> tuple[Parts, int]:
        """Return the pictures of the first episodes of an iteration, by group and member, and how many these are."""
        self.images, self._known = [], {}
        groups: dict[str, Parts] = {}
        numbered = [
            (number, member, trajectory)
            for number, group in enumerate(iteration.groups)
            for member, trajectory in enumerate(group.trajectories)
        ]
        for number, member, trajectory in numbered[:most]:
            groups.setdefault(str(number), {})[str(member)] = asdict(self.replay(trajectory))
        return {"groups": groups, "images": self.images}, min(most, len(numbered))

    def replay(self, trajectory: Trajectory) -> Replay:
        """Return the pictures of an episode, up to the first observation that is not the stored one."""
        replay = Replay()
        try:
            for turn, (text, picture, touch) in enumerate(self._steps(trajectory)):
                stored = (
                    trajectory.turns[turn].observation if turn < len(trajectory.turns) else trajectory.final_observation
                )
                corrected = turn > 0 and trajectory.turns[turn - 1].action is None
                if text != stored and not corrected:
                    replay.note = (
                        f"From turn {turn + 1} on, replaying the episode shows another text than the stored one, so "
                        "its screens are left out."
                    )
                    break
                if turn:
                    replay.touches.append(touch)
                images = trajectory.turns[turn].images if turn < len(trajectory.turns) else ()
                replay.places.append(self._place(images[-1].image if images else picture))
        except Exception as error:  # an environment of a user may fail in any way
            replay.note = f"Replaying the episode failed after {len(replay.places)} screens: {error}"
        return replay

    def _steps(self, trajectory: Trajectory) -> Iterator[tuple[str, Picture, Touch]]:
        """Yield text and picture before each turn, then after the last one, with the touch that led there."""
        observation, _ = self._env.reset(seed=trajectory.seed, options={"task": trajectory.task})
        yield *self._look(observation), ()
        for turn in trajectory.turns:
            touch: Touch = ()
            if turn.action is not None:  # else nothing was sent to the environment
                observation, _, _, _, info = self._env.step(turn.action)
                touch = info.get(TOUCH) or ()
            yield *self._look(observation), touch

    def _look(self, observation: object) -> tuple[str, Picture]:
        from turnwise.agents.content import read_observation

        text, images = read_observation(observation)
        return text, images[0].image if images else self._env.render()

    def _place(self, picture: Picture) -> int:
        from turnwise.agents.samplers.openai.messages import data_url

        url = data_url(_small(picture))
        if url not in self._known:
            self._known[url] = len(self.images)
            self.images.append(url)
        return self._known[url]


def _has_images(env: gymnasium.Env[Any, Any]) -> bool:
    from turnwise.agents.content import has_images

    return has_images(env.observation_space)


def _small(picture: Picture) -> NDArray[np.uint8]:
    """Return a picture that is halved, by the mean of four pixels, until it is at most `TALLEST` pixels high."""
    import numpy as np

    image = np.asarray(picture, np.uint8)
    while image.shape[0] > TALLEST:
        high, wide = image.shape[0] // 2 * 2, image.shape[1] // 2 * 2
        blocks = image[:high, :wide].reshape(high // 2, 2, wide // 2, 2, 3)
        image = blocks.mean(axis=(1, 3)).astype(np.uint8)
    return image
