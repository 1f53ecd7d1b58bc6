"""The screens of episodes: the images that were stored with them, or pictures of the episode played again.

An image that the agent saw is stored with its turn, and is shown as it was. An episode without images can be replayed:
an environment with pictures starts the same episode from the same task and seed, so its stored actions lead through the
same screens. This is checked: the text of every replayed observation must equal the stored one, and pictures from the
first difference on are left out, with the reason. Where the environment says which points an action touched, the page
draws them on the screen.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from turncredit.agents.root_errors import ImageError
from turncredit.envs.info import TOUCH
from turncredit.report.errors import ReportError
from turncredit.report.run_report.revisions import Parts

if TYPE_CHECKING:
    import gymnasium
    import numpy as np
    from numpy.typing import NDArray

    from turncredit.agents.content import ImagePart
    from turncredit.agents.trajectory import Trajectory
    from turncredit.report.run_report.iterations import Iteration

Picture = Any
"""What an environment draws: an array or a list of numbers, uint8 [H, W, 3]."""
Touch = Sequence[tuple[float, float]]
"""Points as shares of width and height: none, one, or the start and the end of a swipe."""
TALLEST = 640
"""Pixels of a picture on the page, which is halved until it is not taller."""


@dataclass
class EpisodeScreens:
    """The pictures of an episode before each turn, and after the last one where it was replayed."""

    stored: bool
    """Whether they are the images that were stored with the turns; else the episode was replayed."""
    places: list[int | None] = field(default_factory=list)
    """Positions in the list of pictures, in which each occurs once; None for a turn without one."""
    touches: list[Touch] = field(default_factory=list)
    """Where each turn touched its screen."""
    note: str = ""


class Screens:
    """The screens of the episodes of one file, as the page reads them."""

    def __init__(self) -> None:
        self.groups: dict[str, Parts] = {}
        self.images: list[str] = []
        self.size = 0
        """Characters of all pictures."""
        self._known: dict[str, int] = {}

    def content(self) -> Parts:
        """Return the pictures of each episode, by group and member."""
        return {"groups": self.groups, "images": self.images}

    def holds(self, group: int, member: int) -> bool:
        """Return whether an episode is in it."""
        return str(member) in self.groups.get(str(group), ())

    def add(self, group: int, member: int, screens: EpisodeScreens) -> None:
        """Take over the screens of an episode, whose pictures were placed."""
        self.groups.setdefault(str(group), {})[str(member)] = asdict(screens)

    def add_stored(self, iteration: Iteration, room: float, only: int | None = None) -> None:
        """Add the episodes that have images of their own and are not there yet, until their pictures take all room.

        Args:
            iteration: the episodes.
            room: characters that all pictures may take.
            only: position of the one group that is wanted; None: all.
        """
        for group, member, trajectory in _numbered(iteration):
            if only in (None, group) and not self.holds(group, member) and has_images_of_its_own(trajectory):
                count, size = len(self.images), self.size
                screens = self.stored(trajectory)
                if self.size > room:
                    self._forget(count, size)
                    return
                self.add(group, member, screens)

    def stored(self, trajectory: Trajectory) -> EpisodeScreens:
        """Return the images of an episode; one that is missing or damaged is left out, with a note."""
        screens, missing = EpisodeScreens(True), 0
        for turn in trajectory.turns:
            try:
                screens.places.append(self._image(turn.images[-1]) if turn.images else None)
            except ImageError as error:
                screens.places.append(None)
                missing += 1
                screens.note = f"{missing} of the stored images cannot be read; the last one since {error}."
        return screens

    def picture(self, picture: Picture) -> int:
        """Return the position of a picture of an environment."""
        from turncredit.engines.openai.messages import data_url

        return self._position(data_url(_small(picture)))

    def _image(self, image: ImagePart) -> int:
        position = self._known.get(image.key)
        if position is None:
            if image.size[1] > TALLEST:
                position = self.picture(image.image)
            else:  # as it was stored
                position = self._position(f"data:image/png;base64,{base64.b64encode(image.png).decode('ascii')}")
            self._known[image.key] = position
        return position

    def _position(self, url: str) -> int:
        if url not in self._known:
            self._known[url] = len(self.images)
            self.images.append(url)
            self.size += len(url)
        return self._known[url]

    def _forget(self, count: int, size: int) -> None:
        """Take back the pictures after the first `count`."""
        del self.images[count:]
        self.size = size
        self._known = {name: position for name, position in self._known.items() if position < count}


def has_images_of_its_own(trajectory: Trajectory) -> bool:
    """Return whether images were stored with an episode."""
    return any(turn.images for turn in trajectory.turns)


def _numbered(iteration: Iteration) -> Iterator[tuple[int, int, Trajectory]]:
    """Yield the episodes with the positions of their group and of themselves in it."""
    for number, group in enumerate(iteration.groups):
        for member, trajectory in enumerate(group.trajectories):
            yield number, member, trajectory


class ScreenReplay:
    """Replays episodes of one environment; close it with `close`.

    Args:
        env_id: the environment.
        kwargs: its arguments.

    Raises:
        ReportError: the environment cannot be made, or has no pictures.
    """

    def __init__(self, env_id: str, kwargs: Mapping[str, object]) -> None:
        from turncredit.envs import make

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

    def close(self) -> None:
        """Close the environment."""
        self._env.close()

    def screens(self, iteration: Iteration, most: int) -> tuple[Screens, int]:
        """Return the screens of the first episodes of an iteration, and how many these are."""
        screens, episodes = Screens(), list(_numbered(iteration))
        for group, member, trajectory in episodes[:most]:
            screens.add(group, member, self.replay(trajectory, screens))
        return screens, min(most, len(episodes))

    def replay(self, trajectory: Trajectory, screens: Screens) -> EpisodeScreens:
        """Return the screens of an episode, up to the first observation that is not the stored one.

        An episode that has images of its own keeps them, and gets the touches.
        """
        own = has_images_of_its_own(trajectory)
        episode = screens.stored(trajectory) if own else EpisodeScreens(False)
        left_out = "touches" if own else "screens"
        try:
            for turn, (text, picture, touch) in enumerate(self._steps(trajectory)):
                last = turn == len(trajectory.turns)
                stored = trajectory.final_observation if last else trajectory.turns[turn].observation
                corrected = turn > 0 and trajectory.turns[turn - 1].action is None
                if text != stored and not corrected:
                    episode.note += (
                        f" From turn {turn + 1} on, replaying the episode shows another text than the stored one, so "
                        f"its {left_out} are left out."
                    )
                    break
                if turn:
                    episode.touches.append(touch)
                if not own:
                    episode.places.append(screens.picture(picture))
        except Exception as error:  # an environment of a user may fail in any way
            episode.note += f" Replaying the episode failed after {len(episode.touches)} turns: {error}"
        episode.note = episode.note.strip()
        return episode

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
        from turncredit.agents.content import read_observation

        text, images = read_observation(observation)
        return text, images[0].image if images else self._env.render()


def _has_images(env: gymnasium.Env[Any, Any]) -> bool:
    from turncredit.agents.content import has_images

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
