"""Several environments as one: each of its tasks is a task of one part, and is played there.

The ids of tasks and the state keys begin with the name of the part. Everything else is as the part has it: texts,
actions, rewards, ends, turn limits, plans and snapshots. A part is made when one of its tasks is played or listed.

An environment has one observation space: either all parts have observations of text, or all have images of one size.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import gymnasium
from gymnasium.core import RenderFrame
from gymnasium.spaces import Dict

from turncredit.envs.branch import find_method, load, reseed, save
from turncredit.envs.errors import EnvError, NoExpert, NotReset, UnknownOption, UnknownTask
from turncredit.envs.info import (
    KNOWLEDGE_IN_STATE,
    NO_FORKS,
    STATE,
    TASK,
    Environment,
    ResetOptions,
    ResetResult,
    StepResult,
)
from turncredit.envs.parts import MIXTURE, MixturePart
from turncredit.envs.registration import creator_of, find, make, parts_of
from turncredit.envs.snapshot import pack, random_from, random_state, unpack
from turncredit.envs.spaces import Text
from turncredit.registry import suggest
from turncredit.rotation import interleaved
from turncredit.task_ids import part_of, within

__all__ = ["Mixture"]

_FORMAT = ("Mixture", 1)  # name and version of the bytes


class Mixture(gymnasium.Env[object, str]):
    """Play the tasks of several environments, or of several levels of one.

    Without a task, reset() draws a part by the weights, and the part draws a task of its own.

    Args:
        parts: a table for each part, with the keys id, name (default: from the id), weight (default: 1) and kwargs. One
            whose kwargs have `levels` becomes a part for each of them.
        render_mode: of all parts.
        common: arguments of all parts, such as split="held_out".

    Raises:
        EnvError: an environment, an argument or a level does not exist, a weight is not positive, or two parts have one
            name.
    """

    metadata = {"render_modes": ["ansi", "rgb_array"]}  # noqa: RUF012 (Gymnasium's attribute)

    def __init__(
        self, parts: Sequence[Mapping[str, object]] | None = None, render_mode: str | None = None, **common: object
    ) -> None:
        self.parts: dict[str, MixturePart] = {part.name: part for part in parts_of(MIXTURE, parts=parts, **common)}
        """The parts by name."""
        self.action_space = Text()
        self.render_mode = render_mode
        self._made: dict[str, Environment] = {}
        self._playing = ""  # the part of the episode
        self._describe()

    @property
    def observation_space(self) -> gymnasium.Space[object]:  # type: ignore[override] # the first part is made for it
        """The space of the first part; those of the others are like it."""
        return self.part(next(iter(self.parts))).observation_space

    def part(self, name: str) -> Environment:
        """Return the environment of a part, made when it is first asked for.

        Raises:
            EnvError: it cannot be made, or its observations are not like those of the other parts.
        """
        if name not in self._made:
            part = self.parts[name]
            mode = {} if self.render_mode is None else {"render_mode": self.render_mode}
            env = make(part.id, **{**part.kwargs, **mode})
            if not isinstance(env.observation_space, (Text, Dict)):
                env.close()
                raise EnvError(
                    "the parts of a mixture must have observations of text, or of text and images, and those of "
                    f"{part.id} are {env.observation_space}"
                )
            for other, present in self._made.items():
                if not _alike(env.observation_space, present.observation_space):
                    env.close()
                    raise EnvError(
                        f"the parts of a mixture must have observations of one kind: those of {name} are "
                        f"{env.observation_space}, those of {other} {present.observation_space}"
                    )
            self._made[name] = env
        return self._made[name]

    def task_ids(self, count: int | None = None) -> list[str]:
        """Return the ids of the tasks of all parts, in turn by their weights.

        Args:
            count: return only the first `count`. None returns all that the parts list.

        Raises:
            EnvError: a part does not list its tasks.
        """
        if count is not None and (isinstance(count, bool) or not isinstance(count, int) or count < 0):
            raise UnknownOption(f"count must be an integer >= 0, got {count!r}")
        tasks = self._tasks(())
        return tasks[:count] if count is None or count <= len(tasks) else self._tasks((count,))[:count]

    def _tasks(self, count: tuple[int, ...]) -> list[str]:
        """Return the ids of the tasks that the parts list when they are asked for as many."""
        lists = [[f"{name}/{task}" for task in self.list_part(name, *count)] for name in self.parts]
        return list(interleaved(lists, [part.weight for part in self.parts.values()]))

    def list_part(self, name: str, *count: int) -> list[str]:
        """Return the ids of the tasks of a part, as they are in the part.

        Args:
            name: of the part.
            count: how many it is asked for; none for all that it lists.

        Raises:
            EnvError: it does not list its tasks.
        """
        listing = getattr(self.part(name).unwrapped, "task_ids", None)
        if listing is None:
            raise EnvError(f"{self.parts[name].id} does not list its tasks: it has no task_ids()")
        return list(listing(*count))

    def reset(self, *, seed: int | None = None, options: ResetOptions | None = None) -> ResetResult:
        """Start an episode of a part.

        Raises:
            UnknownTask: no part has this task.
        """
        super().reset(seed=seed)
        if options is not None and not isinstance(options, Mapping):
            raise UnknownOption(f"reset options must be a mapping such as {{'task': id}}, got {options!r}")
        task = (options or {}).get(TASK)
        name = self._draw() if task is None else self._part_of(task)
        asked = dict(options or {}) if task is None else {**(options or {}), TASK: within(task, name)}
        return self._start(name, self.part(name).reset(seed=seed, options=asked or None))

    def _draw(self) -> str:
        """Return the name of a random part."""
        names, weights = list(self.parts), [part.weight for part in self.parts.values()]
        if not names[1:]:
            return names[0]
        return names[int(self.np_random.choice(len(names), p=[weight / sum(weights) for weight in weights]))]

    def _part_of(self, task: object) -> str:
        """Return the part of a task.

        Raises:
            UnknownTask: there is none.
        """
        if not isinstance(task, str):
            raise UnknownTask(f"task must be an id (str), got {task!r}")
        if name := part_of(task, self.parts):
            return name
        hint = suggest(task.rpartition("/")[0], list(self.parts), most=len(self.parts))
        raise UnknownTask(f"unknown task {task!r}: ids in a mixture begin with the name of a part{hint}")

    def _start(self, name: str, result: ResetResult) -> ResetResult:
        self._playing = name
        self._describe()
        observation, info = result
        return observation, self._named(info)

    def step(self, action: str) -> StepResult:
        """Take an action in the part that is played.

        Raises:
            NotReset: called before the first reset.
            StepAfterEnd: the episode has ended.
        """
        observation, reward, terminated, truncated, info = self._env.step(action)
        return observation, reward, terminated, truncated, self._named(info)

    def _named(self, info: Mapping[str, object]) -> dict[str, object]:
        """Return `info` with the name of the part before the task and the state."""
        return {**info, **{key: f"{self._playing}/{info[key]}" for key in (TASK, STATE) if key in info}}

    @property
    def _env(self) -> Environment:
        if not self._playing:
            raise NotReset
        return self._made[self._playing]

    def plan(self) -> list[str]:
        """Return actions that lead from the current state to success.

        Raises:
            NotReset: called before the first reset.
            NoExpert: the part has no expert.
            EnvError: success cannot be reached from here.
        """
        env = self._env
        plan = find_method(env, "plan") if env.has_wrapper_attr("plan") else None
        if plan is None:
            raise NoExpert(f"the part {self._playing!r} of the mixture has no plan()")
        return list(plan())

    def snapshot(self) -> bytes:
        """Return the current episode as bytes, for `restore`.

        Raises:
            NotReset: called before the first reset.
            EnvError: the part cannot be saved.
        """
        state = save(self._env).decode("latin-1")
        return pack(*_FORMAT, {}, {"part": self._playing, "state": state, "random": random_state(self)})

    def restore(self, data: bytes, /) -> ResetResult:
        """Resume the episode of a snapshot, in a mixture that has its part with the same arguments.

        Raises:
            BadSnapshot: `data` is not a snapshot of such an episode. The current episode stays as it is.
            EnvError: the part cannot be restored.
        """
        saved = unpack(data, *_FORMAT, {})
        name, state, drawn = saved.get("part", str), saved.get("state", str), random_from(saved)
        if name not in self.parts:
            raise saved.wrong("part", f"one of {', '.join(self.parts)}")
        try:
            inner = state.encode("latin-1")
        except UnicodeEncodeError:
            raise saved.wrong("state", "one character per byte") from None
        result = load(self.part(name), inner)
        self._np_random, self._np_random_seed = drawn
        return self._start(name, result)

    def reseed(self, seed: int) -> None:
        """Give the episode other random numbers from here on (`turncredit.envs.branch.reseed`)."""
        reseed(self._env, seed)

    def render(self) -> RenderFrame | list[RenderFrame] | None:
        """Return what the part renders that is played; None before the first reset."""
        return self._env.render() if self._playing else None

    def close(self) -> None:
        """Close all parts that were made."""
        for env in self._made.values():
            env.close()

    def _describe(self) -> None:
        """Say in `metadata` what is true of the part that is played, before the first reset of any of them."""
        told = [
            self._made[name].metadata if name in self._made else getattr(creator_of(find(part.id)), "metadata", {})
            for name, part in self.parts.items()
        ]
        why = [self._made[self._playing].metadata] if self._playing else told
        shared = set.intersection(*(set(table.get("render_modes") or []) for table in told))
        self.metadata = type(self).metadata | {
            "render_modes": [mode for mode in type(self).metadata["render_modes"] if mode in shared],
            KNOWLEDGE_IN_STATE: any(table.get(KNOWLEDGE_IN_STATE) for table in told),
            NO_FORKS: next((table[NO_FORKS] for table in why if table.get(NO_FORKS)), ""),
        }


def _alike(first: gymnasium.Space[object], second: gymnasium.Space[object]) -> bool:
    """Return whether an agent reads both: texts of any length, or the same texts and images."""
    return first == second or (isinstance(first, Text) and isinstance(second, Text))
