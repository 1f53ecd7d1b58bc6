"""Credit rules and options for stored trajectories: what is asked for, else what the run was trained with.

`turncredit show`, `turncredit credit` and reports use this, so they agree on a file. A rule takes those of the run's
options that it has; a rule built on another one (`base_options`) hands it the rest.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from turncredit.registry import Untrusted, choose, is_untrusted, suggest
from turncredit.report.errors import ReportError

if TYPE_CHECKING:
    from turncredit.agents.steps import Anchor
    from turncredit.credit import Advantages, CreditRule, Steps
    from turncredit.training.assign.run_rewards import RunRewards


@dataclass(frozen=True, slots=True)
class CreditSettings:
    """Credit rules with the options of each, what makes two turns comparable, and what the run made of rewards.

    Attributes:
        rules: by name, with their options bound.
        options: of each rule that are not its defaults.
        anchor: what makes two turns comparable.
        source: where the options come from, in words.
        rewards: that the run's credit saw.
        parts: of the run's mixture.
        asked: of a run with stages, the rules, options, anchor and default that `credit_settings` was asked for.
    """

    rules: Mapping[str, CreditRule]
    options: Mapping[str, Mapping[str, object]]
    anchor: Anchor
    source: str
    rewards: RunRewards
    parts: tuple[str, ...] = ()
    asked: tuple[str | Sequence[str] | None, Mapping[str, object], str | None, str] | None = None

    def of_file(self, file: Path) -> CreditSettings:
        """Return the settings for another file of trajectories of the run: of its iteration, and of its stage."""
        if self.asked is not None:
            return credit_settings(file, *self.asked)
        from turncredit.training.assign.run_rewards import finished_before

        return replace(self, rewards=replace(self.rewards, iteration=finished_before(file)))

    def advantages(self, name: str, steps: Steps) -> Advantages:
        """Return the advantages of one of the rules, with the rewards that the run's credit saw.

        A rule that draws random numbers gets the seed 0; one that remembers earlier iterations begins anew.

        Args:
            name: of the rule.
            steps: table of the turns of all groups of an iteration, with the environment's rewards.

        Warns:
            UserWarning: the turns lack what a reward rule of the run reads, so that none is applied.
        """
        import numpy as np

        from turncredit.training.assign.credit_by_part import credit_by_part

        rule = self.rules[name]
        options = {"rng": np.random.default_rng(0)} if rule.draws else {}
        steps = self.rewards(steps)
        return credit_by_part(rule, steps, self.parts, **options)

    def as_dict(self) -> dict[str, object]:
        """Return the settings as plain values for JSON."""
        options = {name: dict(options) for name, options in self.options.items()}
        return {"options": options, "anchor": self.anchor, "source": self.source}

    def describe(self) -> list[str]:
        """Return lines that name every option that is not the rule's default, and where it comes from."""
        by_options: dict[str, list[str]] = {}
        for name, options in self.options.items():
            text = " ".join(f"{key}={value}" for key, value in options.items()) or "defaults"
            by_options.setdefault(text, []).append(name)
        lines = [f"options of {', '.join(names)}: {text}" for text, names in by_options.items()]
        return [f"turns compared by {self.anchor}; settings {self.source}", *lines, *self.rewards.describe()]


def credit_settings(
    file: Path,
    rules: str | Sequence[str] | None = None,
    words: Mapping[str, object] | None = None,
    anchor: str | None = None,
    default: str = "",
) -> CreditSettings:
    """Return the rules to apply to a file.

    What the run's file names and may not name without `--trust`, a rule or an option, is left out with a warning.

    >>> settings = credit_settings(Path("episodes.jsonl"), "gigpo,grpo", {"gamma": 0.9})
    >>> settings.options["gigpo"]
    {'gamma': 0.9}

    Args:
        file: stored trajectories, or anything else in a run folder.
        rules: names, or one text with commas between them; None: the run's rule together with `default`.
        words: options of the rules, which replace those of the run.
        anchor: "state", "observation" or "history"; None: the run's.
        default: names used where none are given; the run's own rule comes before them.

    Raises:
        ReportError: no rule is named, the anchor is unknown, or no rule has one of the given options.
        CreditError: an unknown rule, or an option with an impossible value.
    """
    from turncredit.credit import get
    from turncredit.training.assign.credit_by_part import parts_of_run
    from turncredit.training.assign.run_rewards import RunRewards, run_at

    words = words or {}
    run, iteration = run_at(file)
    trained = {} if run is None else dict(run.credit.options)
    if rules is None:
        own = [] if run is None else _permitted(run.credit.method)
        names = list(dict.fromkeys([*own, *_names(default)])) or ["gigpo"]
    elif not (names := _names(rules)):
        raise ReportError("--credit needs at least one name; `turncredit list credit` shows them")
    chosen = anchor or ("state" if run is None else run.credit.anchor)
    registered = {name: get(name) for name in names}
    _require_known(words, registered)
    bound = {name: _bound(rule, trained, words) for name, rule in registered.items()}
    return CreditSettings(
        {name: rule for name, (rule, _) in bound.items()},
        {name: options for name, (_, options) in bound.items()},
        cast("Anchor", choose("anchor", chosen, ("state", "observation", "history"))),
        "of no run" if run is None else f"of the run {run.name}",
        RunRewards() if run is None else RunRewards.of(run, iteration),
        () if run is None else parts_of_run(run),
        (rules, words, anchor, default) if run is not None and run.stages else None,
    )


def _names(rules: str | Sequence[str]) -> list[str]:
    names = rules.split(",") if isinstance(rules, str) else rules
    for name in names:
        if "=" in name:
            raise ReportError(
                f"--credit takes names of rules, got {name.strip()!r}; an option is a word of its own, such as "
                f"{name.strip().rpartition(':')[2]}, for every rule that has it"
            )
    return list(dict.fromkeys(name.strip() for name in names if name.strip()))


def _permitted(name: str) -> list[str]:
    """Return the name of the run's rule, if its code may be run."""
    from turncredit.credit import CreditError, get

    try:
        get(name)
    except CreditError as error:
        if not is_untrusted(error):
            raise
        warnings.warn(f"left out: {error}", stacklevel=2)
        return []
    return [name]


def _bound(
    rule: CreditRule, trained: Mapping[str, object], words: Mapping[str, object]
) -> tuple[CreditRule, Mapping[str, object]]:
    """Return a rule with those of the run's options, and of those typed, that it has; and these options."""
    from turncredit.credit import CreditError, get
    from turncredit.training.config.file_options import refused_credit_options

    try:
        options = _options_for(rule, {**trained, **words})
        of_run = {key: value for key, value in options.items() if key not in words}
        base = [get(str(options.get("base", rule.options["base"])))] if "base_options" in rule.options else []
        if refused := refused_credit_options([rule, *base], of_run):
            raise Untrusted(f"{rule.name} is of another package, and {', '.join(refused)} may name a file")
        return get(rule.name, **options), options
    except (CreditError, Untrusted) as error:
        if not trained or not is_untrusted(error):
            raise
        warnings.warn(f"the run's options of {rule.name} are left out, which --trust would use: {error}", stacklevel=2)
    options = _options_for(rule, words)
    return get(rule.name, **options), options


def _require_known(words: Mapping[str, object], rules: Mapping[str, CreditRule]) -> None:
    names = {option for rule in rules.values() for option in (*rule.options, *_base_options(rule, words))}
    for option in words:
        if option not in names:
            raise ReportError(f"{', '.join(rules)} has no option {option!r}{suggest(option, names)}")


def _options_for(rule: CreditRule, values: Mapping[str, Any]) -> dict[str, Any]:
    options = {key: value for key, value in values.items() if key in rule.options}
    below = _base_options(rule, options)
    handed = {key: value for key, value in values.items() if key in below and key not in rule.options}
    if handed:
        options["base_options"] = {**handed, **(options.get("base_options") or {})}
    return options


def _base_options(rule: CreditRule, options: Mapping[str, object]) -> Mapping[str, object]:
    """Return the options of the rule that a rule is built on; empty for one that stands alone."""
    from turncredit.credit import get

    if "base_options" not in rule.options:
        return {}
    return get(str(options.get("base", rule.options["base"]))).options
