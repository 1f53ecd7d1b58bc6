"""Warnings about a run that does not learn: nothing to learn from, success that falls, samples of another policy."""

from __future__ import annotations

import math
from collections.abc import Mapping

from turncredit.evaluation.results import EvaluationSummary, Rate
from turncredit.training.monitor.advice import RunAdvice, listed
from turncredit.training.monitor.success_falls import Fall, SuccessFalls
from turncredit.training.run_folder.events import Reporter
from turncredit.training.types import State

SHARED_GAP = {"float32": 0.01, "bfloat16": 0.1}
"""Mean gap in nats above which a sampler that shares the learner's module is warned about, by the type it has."""

WEAK = 0.1
"""Success before training that is next to nothing, if the upper end of its interval is not above it."""
NEWEST = 3
"""Iterations that are judged together; single ones play few tasks."""
ALIKE = 0.7
"""Mean share of groups without a difference in outcome from which these iterations teach little about winning."""
LOST = 0.1
"""Mean success up to which nearly all of their episodes are lost."""
_KEPT = ("no_variance_groups", "no_outcome_variance", "success", "unparsable", "inadmissible")
"""Metrics whose means over the newest iterations are judged."""


class LearningWatch:
    """Reports warnings about the metrics of iterations; each is repeated only after its cause was gone in between.

    Whether groups have something to compare is judged by what the environment paid. The penalty for invalid actions and
    what reward rules make of the rewards also give turns an advantage, and teach something else than winning.

    Args:
        report: receives the warnings.
        advice: the keys of the run that can be changed.
    """

    def __init__(self, report: Reporter, advice: RunAdvice) -> None:
        self._report, self._advice = report, advice
        self._falls: dict[str, SuccessFalls] = {}
        self._active: set[str] = set()
        self._recent: list[dict[str, float]] = []

    def before(self, summary: EvaluationSummary) -> None:
        """Warn about a policy that wins next to nothing before training.

        Args:
            summary: its evaluation.
        """
        rate, unparsable = summary.success, summary.unparsable or 0.0
        if rate.n:
            self._weak(0, f"{rate.k} of {rate.n} held-out tasks", rate.high, unparsable)

    def after(self, step: int, values: Mapping[str, float]) -> None:
        """Warn about a finished iteration where there is something to warn about.

        Args:
            step: number of the iteration.
            values: its metrics: no_variance_groups, with reward rules also no_outcome_variance, signal, success with
                its standard error, reward, unparsable, inadmissible, updates and skipped; in a mixture,
                success of the parts that were played. Each part is compared with itself alone, or a curriculum that
                goes on to a harder level would look like a fall.
        """
        run = self._advice.run
        if step == 1 and not run.evaluation.episodes:
            share, groups = values["success"], run.train.groups
            high = Rate.of(round(share * groups), groups).high  # episodes of a group are alike
            self._weak(1, f"{share:.1%} of the first iteration's episodes", high, values.get("unparsable", 0.0))
        self._outcomes(step, values)
        skipped = values.get("skipped", 0)
        self._warn(
            "skipped",
            bool(skipped) and not values["updates"],
            step,
            f"no loss or gradient was finite, so all {skipped} optimizer steps were skipped and the policy is as it "
            "was; look for infinite logits, and at policy.dtype",
        )
        self._one_part(step, values)
        parts = [key.removeprefix("success") for key in values if key.startswith("success/")] or [""]
        for part in parts:
            falls = self._falls.setdefault(part, SuccessFalls())
            fall = falls.after(values[f"success{part}"], values.get(f"success_error{part}", math.nan))
            self._warn(f"fall{part}", fall is not None, step, "" if fall is None else _of_fall(fall, part[1:]))

    def _one_part(self, step: int, values: Mapping[str, float]) -> None:
        """Warn about groups that were dropped until a single part of a mixture was left to train on."""
        key = "trained_episodes/"
        trained = {name.removeprefix(key): number for name, number in values.items() if name.startswith(key)}
        left = [part for part, number in trained.items() if number > 0]
        dropped = {part: values[f"groups_dropped/{part}"] for part in trained if part not in left}
        numbers = ", ".join(f"{number:.0f} of {part}" for part, number in dropped.items())
        self._warn(
            "one part",
            len(left) == 1 and bool(dropped) and all(dropped.values()),
            step,
            f"all that was trained on is of {left[0] if left else ''}: every group of the other parts was dropped "
            f"({numbers}), and the weights of parts hold among the groups that are played, not among these; try tasks "
            "of the other parts that are sometimes won and sometimes lost",
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
            "positions or distributions; `turncredit audit` names the turns",
        )

    def state(self) -> State:
        """Return what a checkpoint keeps."""
        falls = {part: falls.state() for part, falls in self._falls.items()}
        return {"falls": falls, "active": sorted(self._active), "recent": self._recent}

    def load_state(self, state: State) -> None:
        """Continue where `state` was taken."""
        stored = state.get("falls", {})
        for part, falls in ({"": stored} if "sums" in stored else stored).items():  # an earlier version knew no parts
            self._falls.setdefault(part, SuccessFalls()).load_state(falls)
        self._active = set(state.get("active", ()))
        self._recent = list(state.get("recent", ()))

    def _weak(self, step: int, won: str, high: float, unparsable: float) -> None:
        """Warn about a policy that wins next to nothing, by the upper end of the interval of its success."""
        if not self._due("weak", high <= WEAK):
            return
        policy = "the warm start" if self._advice.run.imitation.episodes else "the policy"
        ways = [*self._advice.warm_start(unparsable), *self._advice.easier()]
        self._say(
            step,
            f"{policy} wins next to nothing: {won} (95 % interval up to {high:.1%}), so most groups will be lost as a "
            f"whole and teach little about winning; try {listed(ways)}",
        )

    def _outcomes(self, step: int, values: Mapping[str, float]) -> None:
        """Warn where the outcomes of episodes gave nothing, or next to nothing, to compare."""
        self._recent = [*self._recent, {name: values[name] for name in _KEPT if name in values}][-NEWEST:]
        means = {name: sum(past.get(name, 0.0) for past in self._recent) / len(self._recent) for name in _KEPT}
        if not any("no_outcome_variance" in past for past in self._recent):
            means["no_outcome_variance"] = means["no_variance_groups"]
        nothing = values["no_variance_groups"] >= 1.0 and not values["signal"]
        if self._due("flat", nothing):
            tasks = ["harder tasks"] if values["success"] > 0.5 else self._advice.easier()
            self._say(
                step,
                f"all episodes of every group had the same reward ({values['reward']:.3g} on average), so there was "
                f"nothing to learn from; try {listed([*tasks, *self._advice.groups()])}",
            )
        lost = len(self._recent) == NEWEST and means["success"] <= LOST and means["no_outcome_variance"] >= ALIKE
        if self._due("lost", lost and not nothing):
            self._say(step, self._sentence(means))

    def _sentence(self, means: Mapping[str, float]) -> str:
        """Return what to do about iterations that are lost, from the means of their metrics."""
        advice = self._advice
        source, remedies = advice.without_outcomes(means)
        begin = [] if "weak" in self._active else advice.warm_start(means["unparsable"])  # or it was said already
        return (
            f"{1 - means['success']:.0%} of the episodes of the last {NEWEST} iterations were lost, and in "
            f"{means['no_outcome_variance']:.0%} of the groups all earned the same from the environment; there, the "
            f"only signal is {source}, which does not teach to win; try "
            f"{listed([*remedies, *begin, *advice.easier(), *advice.groups()])}"
        )

    def _due(self, name: str, present: bool) -> bool:
        """Return whether a cause is to be warned about: it is there, and was not before."""
        due = present and name not in self._active
        (self._active.add if present else self._active.discard)(name)
        return due

    def _say(self, step: int, text: str) -> None:
        self._report.event("warning", step, text=text)

    def _warn(self, name: str, present: bool, step: int, text: str) -> None:
        if self._due(name, present):
            self._say(step, text)


def _of_fall(fall: Fall, part: str) -> str:
    best, newest = fall.best, fall.newest
    return (
        f"success{f' on {part}' if part else ''} fell from {best.mean:.1%} (mean of {best.size} iterations) to "
        f"{newest.mean:.1%} (the last {newest.size}); a smaller learning rate (train.lr) or fewer steps "
        "(train.optimizer_steps) may help"
    )
