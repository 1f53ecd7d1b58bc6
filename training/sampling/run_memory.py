"""What a run remembers beyond its tasks' records: episodes, lessons in words, and what models said of its turns.

Group rules see the memory as it was when their group was drawn, so a group that is asked for again, by another process
or after a restart, gets the same answer. A moment of the memory is kept as long as groups of that time may be in play.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Self

import numpy as np
from numpy.random import default_rng

from turncredit.agents.trajectory import Group, Trajectory
from turncredit.credit.advantages import Advantages
from turncredit.credit.steps import Steps
from turncredit.curriculum.annotation import Notes, annotated
from turncredit.curriculum.lessons import Lesson, LessonLibrary
from turncredit.curriculum.replay import ReplayRule
from turncredit.curriculum.stored_episodes import Index, StoredEpisode
from turncredit.training.config.run import Run
from turncredit.training.config.seeds import Seeds
from turncredit.training.run_folder.state_json import from_json, to_json
from turncredit.training.sampling.asking import Annotations, run_annotations
from turncredit.training.sampling.experience import Experience
from turncredit.training.sampling.replayed import Replayed, replayed
from turncredit.training.sampling.sampling_rules import SamplingRules
from turncredit.training.types import State

__all__ = ["MemoryMoment", "RunMemory"]


@dataclass(frozen=True, slots=True)
class MemoryMoment:
    """What group rules saw after a number of finished iterations."""

    lessons: tuple[Lesson, ...] = ()
    stored: Index = field(default_factory=Index)


@dataclass(slots=True, kw_only=True)
class RunMemory:
    """Remembers.

    Attributes:
        experience: stored episodes; None: none are stored.
        lessons: what was learned in words.
        annotations: asks models about the episodes of an iteration; None: nobody is asked.
        replay: chooses stored episodes to train on; None: none are.
        seeds: of the replay rule.
        total: iterations of the whole run.
        moments: number of moments that are kept.
    """

    experience: Experience | None = None
    lessons: LessonLibrary = field(default_factory=LessonLibrary)
    annotations: Annotations | None = None
    replay: ReplayRule | None = None
    seeds: Seeds = field(default_factory=lambda: Seeds(0))
    total: int = 1
    moments: int = 1
    costs: dict[str, float] = field(default_factory=dict)
    """What the annotators of the last iteration cost."""
    _replay_state: object = None
    _past: dict[int, MemoryMoment] = field(default_factory=dict)

    @classmethod
    def of(cls, run: Run, rules: SamplingRules, seeds: Seeds) -> Self:
        """Return the memory of a run before its first iteration."""
        return cls(
            experience=None if rules.admission is None else Experience(run.folder / "experience", rules.admission),
            lessons=rules.lessons,
            annotations=run_annotations(run, rules.annotators),
            replay=rules.replay,
            seeds=seeds,
            total=run.train.iterations,
            moments=2 + run.train.oldest,
        )

    def at(self, iteration: int) -> MemoryMoment:
        """Return what group rules see in a group that was drawn after a number of finished iterations."""
        if iteration in self._past or not self._past:
            return self._past.get(iteration, MemoryMoment())
        return self._past[min(self._past, key=lambda moment: (abs(moment - iteration), moment))]

    def begin(self, iteration: int) -> None:
        """Keep the moment after a number of finished iterations, and forget those that no group can ask for."""
        index = Index() if self.experience is None else self.experience.index
        self._past[iteration] = MemoryMoment(self.lessons.lessons, index)
        self._past = {moment: self._past[moment] for moment in sorted(self._past)[-self.moments :]}
        if self.experience is not None:
            self.experience.hold(name for past in self._past.values() for name in past.stored.ids)

    def stored(self, ids: Sequence[str]) -> list[Trajectory]:
        """Return stored episodes."""
        return [] if self.experience is None else self.experience.read(ids)

    def annotate(self, steps: Steps, groups: Sequence[Group]) -> tuple[Steps, list[Notes]]:
        """Return the table with the columns that the annotators fill in, and all that they noted.

        Args:
            steps: table of the turns.
            groups: the trajectories that they belong to.
        """
        self.costs = {}
        if self.annotations is None:
            return steps, []
        notes, self.costs = self.annotations.of(groups, self.lessons.lessons)
        return annotated(steps, notes), notes

    def learn(self, groups: Sequence[Group], advantages: Advantages, notes: Sequence[Notes], iteration: int) -> None:
        """Remember what an iteration has taught.

        Args:
            groups: that credit saw.
            advantages: of their turns.
            notes: of the annotators.
            iteration: number of finished iterations before it.
        """
        self.lessons.apply([edit for note in notes for edit in note.edits], iteration)
        if self.experience is not None:
            fresh = [_without(group, self.experience.index.ids) for group in groups]
            self.experience.add(fresh, advantages, iteration)

    def replayed(self, groups: Sequence[Group], iteration: int) -> Replayed | None:
        """Return stored episodes that are trained on beside an iteration; None for none.

        Args:
            groups: of the iteration.
            iteration: number of finished iterations, this one included.
        """
        if self.replay is None or self.experience is None:
            return None
        chosen = self.replay(
            self.experience.index,
            iteration=iteration,
            total=self.total,
            rng=default_rng(self.seeds.of("replay", iteration)),
            scores=tuple(_mean_reward(group) for group in groups if group.finished),
            state=self._replay_state,
        )
        self._replay_state = chosen.state
        if not chosen.ids:
            return None
        ages = [iteration - 1 - row.iteration for row in self.experience.index.episodes if row.id in set(chosen.ids)]
        played = replayed(self.experience.read(chosen.ids), chosen, float(np.mean(ages)))
        self.experience.use(chosen.ids)
        if chosen.empty:
            self.experience.clear()
        return played

    def metrics(self) -> dict[str, float]:
        """Return how much is remembered, and what the annotators of the last iteration cost."""
        stored = {} if self.experience is None else {"stored": float(len(self.experience.index))}
        words = {"lessons": float(len(self.lessons.lessons))} if self.lessons.lessons else {}
        return {**stored, **words, **self.costs}

    def saved(self, step: int) -> None:
        """Remove the files that nothing refers to, unless the checkpoint is of an earlier iteration than the last.

        Args:
            step: finished iterations that the checkpoint holds.
        """
        if self.experience is not None and step == max(self._past, default=0) + 1:
            self.experience.saved()

    def close(self) -> None:
        """Close the model that annotators ask."""
        if self.annotations is not None:
            self.annotations.close()

    def state(self) -> State:
        """Return what a checkpoint keeps."""
        past = [
            [moment, [asdict(lesson) for lesson in past.lessons], [asdict(row) for row in past.stored.episodes]]
            for moment, past in self._past.items()
        ]
        return {
            "lessons": self.lessons.state(),
            "experience": None if self.experience is None else self.experience.state(),
            "replay": to_json(self._replay_state),
            "past": past,
        }

    def load_state(self, state: State | None) -> None:
        """Continue with what `state` returned; a checkpoint of an earlier version has nothing."""
        if state is None:
            return
        self.lessons.load_state(state["lessons"])
        if self.experience is not None and state["experience"] is not None:
            self.experience.load_state(state["experience"])
        self._replay_state = from_json(state["replay"])
        self._past = {
            moment: MemoryMoment(
                tuple(Lesson(**lesson) for lesson in lessons), Index(tuple(StoredEpisode(**row) for row in rows))
            )
            for moment, lessons, rows in state["past"]
        }


def _without(group: Group, ids: frozenset[str]) -> Group:
    """Return a group without the members that are stored already, and those of teachers."""
    members = tuple(member for member in group.trajectories if member.id not in ids and not member.teacher)
    return group if len(members) == len(group.trajectories) else replace(group, trajectories=members)


def _mean_reward(group: Group) -> float:
    return sum(member.reward for member in group.finished) / len(group.finished)
