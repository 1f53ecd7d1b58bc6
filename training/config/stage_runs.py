"""The stages of a run while it trains: which one it is in, and when the next begins."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Self

from turncredit.training.config.run import Run
from turncredit.training.config.stages import StageSection
from turncredit.training.config.toml import literal
from turncredit.training.errors import ConfigError
from turncredit.training.types import State

__all__ = ["Stages", "check_stages", "run_in_stage", "stage_runs"]


@dataclass(slots=True)
class Stages:
    """Says when a stage is over, from the mean success of its iterations.

    Attributes:
        sections: of all stages; none: the run has one.
        number: of the stage, from 0.
        began: number of finished iterations when it began.
        success: mean success of each of its iterations.
        over: whether it has just ended.
    """

    sections: Sequence[StageSection]
    number: int = 0
    began: int = 0
    success: list[float] = field(default_factory=list)
    over: bool = False

    def after(self, step: int, success: float) -> None:
        """Learn from a finished iteration, and go on to the next stage if this one is over.

        Args:
            step: number of finished iterations.
            success: mean of its episodes.
        """
        self.success.append(success)
        if self.number + 1 < len(self.sections) and self._ends(self.sections[self.number].until, step):
            self.number, self.began, self.success, self.over = self.number + 1, step, [], True

    def _ends(self, until: dict[str, float], step: int) -> bool:
        if "iteration" in until:
            return step >= until["iteration"]
        if "stalled" in until:
            best = self.success.index(max(self.success))
            return len(self.success) - 1 - best >= until["stalled"]
        recent = self.success[-int(until["over"]) :]
        return len(recent) == until["over"] and sum(recent) / len(recent) >= until["success"]

    def state(self) -> State:
        """Return what a checkpoint keeps."""
        return {"number": self.number, "began": self.began, "success": list(self.success)}

    @classmethod
    def of(cls, run: Run, state: State | None) -> Self:
        """Return the stages of a run, where a checkpoint was written."""
        return cls(run.stages, **(state or {}))

    @property
    def numbers(self) -> dict[str, float]:
        """The stage, for metrics; nothing if the run has one."""
        return {"stage": self.number} if self.sections else {}

    @property
    def resets(self) -> list[str]:
        """What begins anew in this stage."""
        return list(self.sections[self.number].reset) if self.sections else []

    def begun(self, state: State) -> State:
        """Return the state of a loop at the beginning of this stage, without what its settings make invalid."""
        changed = self.sections[self.number].set if self.sections else {}

        def sets(prefix: str) -> bool:
            return any(key.startswith(prefix) for key in changed)

        gone = {"coefficients": "objective.", "credit": "credit.", "rewards": "sampling.rewards"}
        state = {name: value for name, value in state.items() if not (name in gone and sets(gone[name]))}
        if sets("sampling.tasks"):
            state["tasks"] = {**state["tasks"], "memory": None, "waiting": []}
        return state


def run_in_stage(run: Run, number: int) -> Run:
    """Return the configuration of a run in one of its stages.

    Raises:
        ConfigError: a key is unknown, or a value is invalid.
    """
    words = [f"{key}={literal(value)}" for stage in run.stages[: number + 1] for key, value in stage.set.items()]
    return Run.parse(run.model_dump(exclude_unset=True), words, source=f"stage {number + 1}") if words else run


def stage_runs(run: Run) -> list[Run]:
    """Return the configuration of a run in each of its stages; none if it has none."""
    return [run_in_stage(run, number) for number in range(len(run.stages))]


def check_stages(run: Run) -> None:
    """Refuse stages that never end, or that begin with nothing new.

    Raises:
        ConfigError: a stage other than the last has no end, or the last has one.
    """
    for number, stage in enumerate(run.stages, start=1):
        if bool(stage.until) != (number < len(run.stages)):
            reason = "lasts to the end of the run, so that `until` has no effect" if stage.until else "needs `until`"
            raise ConfigError(f"stage {number} of {len(run.stages)} {reason}")
