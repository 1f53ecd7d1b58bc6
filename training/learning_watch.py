"""Warnings about a run that does not learn: zero-variance groups, success that falls, samples of another policy."""

from collections.abc import Mapping

from turnwise.training.run_folder.events import Reporter
from turnwise.training.states import State
from turnwise.training.success_falls import SuccessFalls

SHARED_GAP = {"float32": 0.01, "bfloat16": 0.1}
"""Mean gap in nats above which a sampler that shares the learner's module is warned about, by the type it has."""


class LearningWatch:
    """Reports warnings about the metrics of iterations; each is repeated only after its cause was gone in between."""

    def __init__(self, report: Reporter) -> None:
        self._report = report
        self._falls = SuccessFalls()
        self._active: set[str] = set()

    def after(self, step: int, values: Mapping[str, float]) -> None:
        """Warn about a finished iteration where there is something to warn about.

        Args:
            step: number of the iteration.
            values: its metrics: no_variance_groups, signal, success with its standard error, reward.
        """
        flat = values["no_variance_groups"] >= 1.0 and not values["signal"]
        self._warn(
            "flat",
            flat,
            step,
            f"all episodes of every group had the same reward ({values['reward']:.3g} on average), so there was "
            f"nothing to learn from; try {'harder' if values['success'] > 0.5 else 'easier'} tasks or larger groups "
            "(train.group_size)",
        )
        fall = self._falls.after(values["success"], values.get("success_error", 0.0))
        self._warn(
            "fall",
            fall is not None,
            step,
            ""
            if fall is None
            else f"success fell from {fall.best.mean:.1%} (mean of {fall.best.size} iterations) to "
            f"{fall.newest.mean:.1%} (the last {fall.newest.size}); a smaller learning rate (train.lr) or fewer steps "
            "(train.optimizer_steps) may help",
        )

    def after_shared(self, step: int, values: Mapping[str, float], dtype: str) -> None:
        """Warn if sampler and learner differ though they compute with one module, where only rounding may differ.

        Args:
            step: number of the iteration.
            values: its metrics: gap where there is one, clip_fraction.
            dtype: in which they compute.
        """
        gap = values.get("gap", 0.0)
        self._warn(
            "gap",
            gap > SHARED_GAP[dtype],
            step,
            f"the log-probabilities of sampler and learner differ by {gap:.3g} nats on average before the first "
            f"optimizer step ({values.get('clip_fraction', 0.0):.0%} of the tokens were clipped), though both compute "
            f"with the same module and rounding explains {SHARED_GAP[dtype]:g}: one of them computes other tokens, "
            "positions or distributions; `turnwise audit` names the turns",
        )

    def state(self) -> State:
        """Return what a checkpoint keeps."""
        return {"falls": self._falls.state(), "active": sorted(self._active)}

    def load_state(self, state: State) -> None:
        """Continue where `state` was taken."""
        self._falls.load_state(state.get("falls", {}))
        self._active = set(state.get("active", ()))

    def _warn(self, name: str, present: bool, step: int, text: str) -> None:
        if present and name not in self._active:
            self._report.event("warning", step, text=text)
        (self._active.add if present else self._active.discard)(name)
