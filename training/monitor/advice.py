"""Advice for a run that does not learn: the keys to change, each with its present value in the run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from turncredit.credit.registry import get as get_credit_rule
from turncredit.envs.registration import default_level, level_names
from turncredit.training.config.run import Run
from turncredit.training.config.sections import chosen
from turncredit.training.config.toml import literal

__all__ = ["RunAdvice", "listed"]

MANY_UNREAD = 0.3
"""Share of turns without an action above which the form of the answers comes first."""


@dataclass(frozen=True, slots=True)
class RunAdvice:
    """What can be changed in a run.

    Attributes:
        run: its configuration, in its stage.
    """

    run: Run

    def easier(self) -> list[str]:
        """Return ways to make the tasks easier."""
        levels = self._levels()
        return [*levels, f"more turns ({self._now('agent.max_turns', self.run.agent.max_turns)})"]

    def _levels(self) -> list[str]:
        """Return ways to easier levels; none where the environment has none, or its tasks come from elsewhere."""
        env, rule = self.run.env, chosen(self.run.sampling.tasks, "sampling.tasks")[0]
        if env.mix:
            return []
        if "levels" in env.kwargs:
            ways = f'the easiest level first ({self._now("sampling.tasks", self.run.sampling.tasks)}: "levels")'
            return [] if rule == "levels" else [ways]
        names = level_names(env.id)
        if not names or not ("level" in env.kwargs or env.kwargs.keys() <= {"split"}):
            return []
        level = str(env.kwargs.get("level") or default_level(env.id))
        below = names[: names.index(level.partition("+")[0])] if level.partition("+")[0] in names else ()
        if not below:
            return []
        pool = ", ".join(map(literal, [*below, level]))
        return [
            f"an easier level ({self._now('env.kwargs.level', level)}: {literal(below[-1])}), or several, the easiest "
            f'first (env.kwargs.levels = [{pool}] and sampling.tasks = "levels")'
        ]

    def warm_start(self, unparsable: float = 0.0) -> list[str]:
        """Return ways to begin with a better policy.

        Args:
            unparsable: share of its turns without an action.
        """
        run, words = self.run, []
        imitation, new = run.imitation, run.policy.new
        if unparsable >= MANY_UNREAD:
            words.append(
                f"answers that can be read, since {unparsable:.0%} of them had no action "
                f"({self._now('agent.max_tokens', run.agent.max_tokens)}; "
                f"{self._now('agent.template', run.agent.template)})"
            )
        if not imitation.episodes:
            return [*words, f"a warm start ({self._now('imitation.episodes', 0)})"]
        words += [
            f"more demonstrations ({self._now('imitation.episodes', imitation.episodes)})",
            f"more passes over them ({self._now('imitation.epochs', imitation.epochs)})",
        ]
        if imitation.target_loss:
            words.append(f"a lower {self._now('imitation.target_loss', imitation.target_loss)}")
        if not run.policy.model:
            layers, hidden = (self._now(f"policy.new.{name}", getattr(new, name)) for name in ("layers", "hidden"))
            words.append(f"a larger model ({layers}; {hidden})")
        return words

    def groups(self) -> list[str]:
        """Return ways to get groups in which episodes differ."""
        return [f"larger groups ({self._now('train.group_size', self.run.train.group_size)})"]

    def without_outcomes(self, values: Mapping[str, float]) -> tuple[str, list[str]]:
        """Return what gives turns an advantage in groups whose episodes earned the same, and what to do about it.

        Args:
            values: metrics of an iteration.
        """
        penalty, scale = self._option("invalid_penalty"), self._option("scale")
        reshaped = values["no_variance_groups"] < values.get("no_outcome_variance", values["no_variance_groups"])
        invalid = values.get("unparsable", 0.0) + values.get("inadmissible", 0.0)
        sources, remedies = [], []
        if reshaped:
            names = [chosen(rule, "sampling.rewards")[0] for rule in self.run.sampling.rewards]
            sources.append(f"what the reward rules make of it (sampling.rewards: {', '.join(names)})")
        if isinstance(penalty, int | float) and penalty > 0 and invalid:
            sources.append(f"the penalty for invalid actions ({self._now('credit.options.invalid_penalty', penalty)})")
            if isinstance(scale, str) and scale != "none":
                key = self._now("credit.options.scale", scale)
                remedies.append(f'a penalty that never counts as much as a win ({key}: "none")')
        kl = self.run.objective.kl
        if kl.coefficient and kl.where == "reward":
            sources.append(f"the KL term in the rewards ({self._now('objective.kl.coefficient', kl.coefficient)})")
        if not sources:
            sources.append(f"what {self._now('credit.method', self.run.credit.method)} adds to the outcome")
        return " and ".join(sources), remedies

    def _option(self, name: str) -> object:
        """Return the value of an option of the credit rule; None if it has none of this name."""
        rule = get_credit_rule(self.run.credit.method, **self.run.credit.options)
        return rule.options.get(name)

    @staticmethod
    def _now(key: str, value: object) -> str:
        return f"{key}, now {literal(value)}"


def listed(ways: Iterable[str]) -> str:
    """Return ways as one clause.

    >>> listed(["a", "b", "c"])
    'a; b; or c'
    """
    *before, last = ways
    return f"{'; '.join(before)}; or {last}" if before else last
