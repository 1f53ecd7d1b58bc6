"""Warnings about a run that does not learn: zero-variance groups, success that falls, samples of another policy."""

from collections.abc import Mapping

from turncredit.training.run_folder.events import Reporter
from turncredit.training.states import State
from turncredit.training.success_falls import Fall, SuccessFalls

SHARED_GAP = {"float32": 0.01, "bfloat16": 0.1}
"""Mean gap in nats above which a sampler that shares the learner's module is warned about, by the type it has."""


class LearningWatch:
    """Reports warnings about the metrics of iterations; each is repeated only after its cause was gone in between."""

    def __init__(self, report: Reporter) -> None:
        self._report = report
        self._falls: dict[str, SuccessFalls] = {}
        self._active: set[str] = set()

    def after(self, step: int, values: Mapping[str, float]) -> None:
        """Warn about a finished iteration where there is something to warn about.

        Args:
            step: number of the iteration.
            values: its metrics: no_variance_groups, signal, success with its standard error, reward, updates and
                skipped; in a mixture,
                success of the parts that were played. Each part is compared with itself alone, or a curriculum that
                goes on to a harder level would look like a fall.
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
        skipped = values.get("skipped", 0)
        self._warn(
            "skipped",
            bool(skipped) and not values["updates"],
            step,
            f"no loss or gradient was finite, so all {skipped} optimizer steps were skipped and the policy is as it "
            "was; look for infinite logits, and at policy.dtype",
        )
        parts = [key.removeprefix("success") for key in values if key.startswith("success/")] or [""]
        for part in parts:
            falls = self._falls.setdefault(part, SuccessFalls())
            fall = falls.after(values[f"success{part}"], values.get(f"success_error{part}", 0.0))
            self._warn(f"fall{part}", fall is not None, step, "" if fall is None else _sentence(fall, part[1:]))

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
            "positions or distributions; `turncredit audit` names the turns",
        )

    def state(self) -> State:
        """Return what a checkpoint keeps."""
        falls = {part: falls.state() for part, falls in self._falls.items()}
        return {"falls": falls, "active": sorted(self._active)}

    def load_state(self, state: State) -> None:
        """Continue where `state` was taken."""
        stored = state.get("falls", {})
        for part, falls in ({"": stored} if "sums" in stored else stored).items():  # an earlier version knew no parts
            self._falls.setdefault(part, SuccessFalls()).load_state(falls)
        self._active = set(state.get("active", ()))

    def _warn(self, name: str, present: bool, step: int, text: str) -> None:
        if present and name not in self._active:
            self._report.event("warning", step, text=text)
        (self._active.add if present else self._active.discard)(name)


def _sentence(fall: Fall, part: str) -> str:
    best, newest = fall.best, fall.newest
    return (
        f"success{f' on {part}' if part else ''} fell from {best.mean:.1%} (mean of {best.size} iterations) to "
        f"{newest.mean:.1%} (the last {newest.size}); a smaller learning rate (train.lr) or fewer steps "
        "(train.optimizer_steps) may help"
    )
