"""The schema of credit.json: named cases of an estimator, a transform or a building block, with inputs and figures.

A case's method is the longest known name that its own begins with: "tempo_no_std" is a case of `tempo`. Methods whose
inputs are not simply columns of a table have a function in `unusual`; all others go by the registry: inputs become
columns, hyperparameters become options, the figures are the result's values, its parts, or what it keeps.

Left out on purpose: guesses. An input, a hyperparameter or a figure that nothing here knows is refused by name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from turnwise.cli.vectors.case import (
    Difference,
    Given,
    Malformed,
    Measure,
    Refused,
    Unimplemented,
    Verdict,
    compared,
    judged,
)
from turnwise.cli.vectors.rows import values_of

if TYPE_CHECKING:
    from turnwise.credit import Advantages, CreditRule, Steps

MEASURE = Measure(tolerance=1e-6, least=1.0)
Function = Callable[..., Any]
Figures = dict[str, Callable[[], object]]

ALIASES = {
    "rewarding_unlikely": "unlikely",
    "spear_recalibrate": "spear",
    "psr_nsr_weighted": "psr_nsr",
    "evol_rl": "evol",
    "mica": "mapo_dialogue",
    "reinforce_plus_plus": "reinforce_pp",
    "spo": "spo_segment",
    "turn_gae": "gae",
}
"""Names of cases whose beginning is not the name that we have."""
_COLUMNS = {
    "reward": ("rewards", "reward", "final_reward", "outcome", "outcomes", "scores"),
    "task": ("group", "groups", "task"),
    "trajectory": ("traj", "trajectory"),
    "turn": ("turn", "step"),
    "state": ("anchor", "anchors", "state", "states"),
    "action": ("action", "actions"),
    "next_state": ("next_state", "next_states", "next_anchor"),
    "tokens": ("lengths", "token_counts", "tokens"),
    "value": ("value", "values", "greedy_reward"),
    "logprob": ("mean_logprob", "logprob"),
    "entropy": ("entropy",),
    "valid": ("valid",),
    "role": ("role", "roles", "agent"),
    "tree": ("tree", "trees"),
    "parent": ("parent", "parents"),
    "label": ("label", "labels", "answers", "answer", "clusters", "cluster"),
    "metric": ("metric", "novelty", "embedding"),
    "multi": ("multi",),
}
_UNITS = {
    **dict.fromkeys(("step rows", "rows", "steps", "step", "turn rows", "turns", "turn"), "turn"),
    **dict.fromkeys(("trajectories", "trajectory", "distinct trajectories", "traj"), "trajectory"),
}
_OPTIONS: dict[str, tuple[str, Mapping[Any, object] | None]] = {
    "norm_by_std": ("scale", {True: "std", False: "none"}),
    "mode": ("scale", {"mean_std_norm": "std", "mean_norm": "none"}),
    "singleton": ("singleton", {"raw_reward": "raw", "raw_return": "raw", "raw": "raw", "zero": "zero"}),
    "mean_over": ("unit", _UNITS),
    "unit": ("unit", _UNITS),
    "epsilon": ("eps", None),
    "eps_in_sqrt": ("eps", None),
    "mad_add": ("eps", None),
    "rescale_nonzero": ("rescale", None),
    "lambda": ("lam", None),
    "base_group": ("base", None),
    "step_advantage_w": ("w", None),
}
"""Hyperparameters that we call otherwise, with our words for theirs."""
_FIXED: dict[tuple[str, str], tuple[object, ...]] = {
    ("dr_grpo", "norm_by_std"): (False,),
    ("rloo", "norm_by_std"): (False,),
    ("bnpo", "var_ddof"): (1,),
    ("mc_grpo", "median"): ("lower",),
    ("opo", "norm_by_std"): (False,),
    ("gdpo", "eps_in_sqrt"): (1e-8,),
}
"""Hyperparameters that ours has fixed."""
_PARITY: dict[str, dict[str, object]] = {
    **{name: {"singleton": "raw"} for name in ("grpo", "dr_grpo", "tree_grpo", "trloo", "adora", "a_grae", "unlikely")},
    "mc_grpo": {"clip": float("inf")},
    "bnpo": {"low": 0.0, "high": 1.0},
}
"""What the sources do where a case says nothing; our own defaults differ there."""


class Case:
    """A case of the file, and what is put in the place of our function, if anything.

    Args:
        case: of the file.
        method: our name of its method.
        function: takes the place of ours.
    """

    def __init__(self, case: Mapping[str, Any], method: str, function: Function | None) -> None:
        """Read nothing yet."""
        self.name, self.method, self.function = str(case.get("name", "?")), method, function
        self.plain = False  # whether the function gave back numbers alone
        self.inputs = Given("inputs", case.get("inputs"))
        self.hyper = Given("hyperparameters", case.get("hyperparameters", {}))
        self.expected = Given("expected figures", case.get("expected"))

    def use(self, ours: Function) -> Function:
        """The function that is examined: the one that was given, or ours."""
        return self.function or ours

    def column(self, name: str) -> Any:
        """The input that is a column of our table, by any of its names; None if there is none."""
        found = [alias for alias in _COLUMNS[name] if alias in self.inputs]
        if len(found) > 1:
            raise Refused(f"the inputs {' and '.join(map(repr, found))} are the same column of ours")
        return self.inputs[found[0]] if found else None

    def options(self, *names: str) -> dict[str, Any]:
        """Options of ours that the hyperparameters set, those named or all that are left."""
        out = dict(_PARITY.get(self.method, {})) if not names else {}
        sources: dict[str, str] = {}
        for key in list(self.hyper):
            if (self.method, key) in _FIXED:
                self.hyper.only(key, *_FIXED[self.method, key])
                continue
            option, words = _OPTIONS.get(key, (key, None))
            if names and option not in names:
                continue
            value = self.hyper[key]
            if words is not None:
                if not isinstance(value, str | bool) or value not in words:
                    raise Refused(f"{key}={value!r}; understood are {', '.join(map(repr, words))}")
                value = words[value]
            if sources.setdefault(option, key) != key:
                raise Refused(f"{sources[option]!r} and {key!r} are the same option of ours, {option!r}")
            out[option] = value
        return out


def method_of(name: str) -> str:
    """Return our name of a case's method: the longest that its own begins with, whatever the case and underscores.

    >>> method_of("GRPO_zero_variance"), method_of("pass_k")
    ('grpo', 'passk')

    Raises:
        Unimplemented: nothing of ours has a name that the case's begins with.
    """
    from turnwise.cli.vectors.unusual import UNUSUAL
    from turnwise.credit import rules

    names = {**{known: known for known in (*rules(), *UNUSUAL)}, **ALIASES}
    joined = {known.replace("_", ""): ours for known, ours in names.items()}
    words = name.lower().split("_")
    for count in range(len(words), 0, -1):
        if (beginning := "".join(words[:count])) in joined:
            return joined[beginning]
    raise Unimplemented(f"nobody here implements {name!r}")


def verify(case: Mapping[str, Any], function: Function | None) -> Verdict:
    """Return what came of a case.

    Args:
        case: of the file.
        function: takes the place of ours, called as ours is called.
    """
    name = str(case.get("name", "?"))
    try:
        method = method_of(name)
    except Unimplemented as error:
        return Verdict(name, name, "unimplemented", Difference(float("inf")), str(error))
    noise = case.get("own_formula_agrees", True) is False
    return judged(
        method,
        name,
        MEASURE,
        noise=noise,
        foreign=function is not None,
        compute=lambda: _differences(Case(case, method, function)),
    )


def _differences(case: Case) -> Sequence[Difference]:
    from turnwise.cli.vectors.unusual import UNUSUAL

    figures = UNUSUAL.get(case.method, by_registry)(case)
    if not case.expected:
        raise Malformed("it has no expected figures")
    unknown = [name for name in case.expected if name not in figures]
    if unknown and (case.function is None or len(unknown) == len(case.expected)):
        raise Refused(f"nothing of ours gives {', '.join(map(repr, unknown))}; there are {', '.join(figures)}")
    case.inputs.done()
    case.hyper.done()
    shared = [name for name in case.expected if name in figures]
    return [compared(name, figures[name](), case.expected[name], MEASURE) for name in shared]


def by_registry(case: Case) -> Figures:
    """Return the figures of a method whose inputs are columns of the table of turns."""
    from turnwise.credit import rules

    entry = rules()[case.method]
    steps = table(case)
    options = case.options()
    if "threshold" in entry.options and "correct" in case.inputs:
        options["threshold"] = threshold_between(steps, case.inputs["correct"])
    return figures_of(case, steps, run(case, entry, steps, options), options)


def table(case: Case, **columns: Any) -> Steps:
    """Return the table of a case: its inputs under our names, and what else is given here.

    Without `traj` every row is a trajectory of one turn; without `group` all rows are of one task.

    Args:
        case: the case.
        **columns: columns that stand for inputs of another form.
    """
    from turnwise.credit import CreditError, Steps

    found = {**{name: case.column(name) for name in _COLUMNS if name not in columns}, **columns}
    if found["reward"] is None and "correct" in case.inputs:
        found["reward"] = case.inputs["correct"]
    if found["reward"] is None:
        raise Malformed("inputs have no 'rewards'")
    count = len(found["reward"])
    if found["trajectory"] is None:
        names = [f"{row:09d}" for row in range(count)]  # as texts in the order of rows, which breaks ties
        found |= {"trajectory": names, "turn": [0] * count}
    if found["turn"] is None:
        raise Malformed("inputs have 'traj' but neither 'turn' nor 'step'")
    if found["task"] is None:
        found["task"] = ["all"] * count
    if found["reward"] and isinstance(found["reward"][0], list):
        found |= {"multi": found["reward"], "reward": [0.0] * count}
    try:
        return Steps.from_columns(**found)
    except CreditError as error:
        raise Malformed(str(error)) from error


def threshold_between(steps: Steps, correct: Sequence[Any]) -> float:
    """Return a score between those of the wrong and those of the right trajectories of one turn each.

    Raises:
        Refused: no score tells them apart.
    """
    right: list[float] = [score for score, flag in zip(steps.reward.tolist(), correct, strict=True) if flag]
    wrong: list[float] = [score for score, flag in zip(steps.reward.tolist(), correct, strict=True) if not flag]
    if not right or not wrong:
        return min(right) - 1.0 if right else max(wrong, default=0.0)
    if max(wrong) >= min(right):
        raise Refused("ours tells right from wrong by the score, and some that are wrong score no less")
    return (max(wrong) + min(right)) / 2


def run(case: Case, entry: CreditRule, steps: Steps, options: Mapping[str, Any]) -> Advantages:
    """Return what the function that is examined says of a table.

    Raises:
        Refused: ours has no such option.
    """
    from turnwise.credit import Advantages

    strange = [name for name in options if name not in entry.options]
    if strange:
        raise Refused(f"{entry.name} has no option for {', '.join(map(repr, strange))}")
    result = case.use(entry)(steps, **{**without_penalty(entry.options, steps), **options})
    values, whole = values_of(result, len(steps))
    case.plain = whole is None
    return Advantages.of(steps, values) if whole is None else whole


def without_penalty(options: Mapping[str, Any], steps: Steps) -> dict[str, float]:
    """Return the options by which invalid actions cost nothing, as they do not where a case names no penalty.

    Args:
        options: of our function.
        steps: the table; without `valid` there is nothing to say, and a function need not have the option.
    """
    return {"invalid_penalty": 0.0} if "invalid_penalty" in options and "valid" in steps else {}


def figures_of(case: Case, steps: Steps, result: Advantages, options: Mapping[str, Any]) -> Figures:
    """Return what a result can be asked for by name."""
    from turnwise.credit import discounted_returns

    gamma = options.get("gamma", 1.0)
    figures: Figures = {
        **as_figures(dict.fromkeys(("advantage", "advantages", "row_advantage", "step_advantage"), result.values)),
        "returns": lambda: discounted_returns(steps, gamma),
    }
    if case.plain:
        return figures
    figures |= {
        "keep": lambda: result.keep,
        "weight": lambda: result.weight,
        "number_dropped": lambda: _dropped(steps, result),
        **as_figures(result.parts),
        **as_figures(result.report),
    }
    if "step" in result.parts:
        figures["step_adv"] = lambda: result.parts["step"]
    return figures


def as_figures(values: Mapping[str, object]) -> Figures:
    """Return values that are there already as figures to be asked for."""

    def figure(value: object) -> Callable[[], object]:
        return lambda: value

    return {name: figure(value) for name, value in values.items()}


def _dropped(steps: Steps, result: Advantages) -> int:
    import numpy as np

    return len(np.unique(steps.trajectory[~result.keep]))
