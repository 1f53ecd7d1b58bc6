"""The schema of gigpo.json and hgpo.json: a table of turns, the trainer's parameters, one figure a row.

Figures are the published code's in single precision. They are reached under `compat="verl-agent"`; a difference is
relative to the figure itself, to a tenth of the largest of its kind in the case, or to 0.1, whichever is most.

Left out on purpose: the weights and sizes of HGPO's levels; only their standings are compared.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from turnwise.cli.vectors.case import Difference, Given, Malformed, Measure, Refused, Verdict, compared, judged

if TYPE_CHECKING:
    from turnwise.credit import Advantages, Steps
    from turnwise.credit.steps import Floats

MEASURE = Measure(tolerance=1e-4, least=0.1, share=0.1, kind="max")
Function = Callable[..., Any]
_COLUMNS = {
    "task_group": "task",
    "trajectory": "trajectory",
    "step_index": "turn",
    "anchor_obs": "state",
    "reward": "reward",
    "is_action_valid": "valid",
    "response_tokens": "tokens",
    "duplicate_of_row": "duplicate_of_row",
}
_SCALES = {"mean_norm": "none", "mean_std_norm": "std"}
_BESIDE = ("grpo", "rloo")
_OF_THE_PEER = (
    "discounted_return",
    "step_return_after_penalty",
    "episode_score",
    "step_group",
    "episode_advantage",
    "episode_advantage_per_trajectory_stats",
    "step_advantage",
    "levels_own_formula",
)


def methods(case: Mapping[str, Any]) -> tuple[str, ...]:
    """The methods that a case has figures of; the trainer's GRPO and RLOO on the same rows have lines of their own."""
    expected = case.get("expected", {})
    main = "hgpo" if "history_length" in case.get("params", {}) else "gigpo"
    return (main, *(name for name in _BESIDE if f"{name}_advantage" in expected))


def verify(case: Mapping[str, Any], method: str, function: Function | None) -> Verdict:
    """Return what came of a case for one of its methods.

    Args:
        case: of the file.
        method: one of `methods(case)`.
        function: takes the place of ours: `(steps, **options)`, giving `Advantages` or one number a row.
    """
    noise = case.get("own_formula_agrees", True) is False

    def compute() -> Sequence[Difference]:
        pairs = _Case(case, function).pairs(method)
        if not pairs:
            raise Malformed("it has no expected figures")
        return [compared(figure, ours, theirs, MEASURE) for figure, (ours, theirs) in pairs.items()]

    return judged(
        method, str(case.get("name", "?")), MEASURE, noise=noise, foreign=function is not None, compute=compute
    )


class _Case:
    """A case as a table of turns with its options, and the figures that it can give."""

    def __init__(self, case: Mapping[str, Any], function: Function | None) -> None:
        """Read the parameters that both methods have."""
        self.function = function
        self.params = Given("params", case.get("params"))
        self.expected = Given("expected figures", case.get("expected"))
        rows = case.get("steps")
        self.steps = steps_of_rows(rows)
        self.tokens = [int(row.get("response_tokens", 0)) for row in rows or ()]
        self.longest = int(self.params.get("max_response_length", max(self.tokens, default=0)))
        self.gamma = float(self.params.need("gamma"))
        mode = self.params.need("mode")
        if mode not in _SCALES:
            raise Refused(f"mode={mode!r}; there are {' and '.join(_SCALES)}")
        cost = self.params.get("invalid_action_penalty_coef", 0.1)
        self.options: dict[str, Any] = {
            "scale": _SCALES[mode],
            "eps": self.params.get("epsilon", 1e-6),
            "invalid_penalty": cost if self.params.get("use_invalid_action_penalty", True) else 0.0,
            "normalize_by_length": self.params.get("normalize_by_length", False),
            "compat": "verl-agent",
        }

    def pairs(self, method: str) -> dict[str, tuple[object, object]]:
        """Ours and theirs by name of the figure."""
        if method in _BESIDE:
            own = self._rloo if method == "rloo" else partial(self._run, "grpo", {})
            values, _ = self._run(method, {}) if self.function else own()
            return {f"{method}_advantage": (values, self.expected[f"{method}_advantage"])}
        values, result = self._gigpo() if method == "gigpo" else self._hgpo()
        ours: dict[str, Callable[[], object]] = {
            "advantage": lambda: values,
            "advantage_tokens": lambda: self._on_tokens(values),
        }
        if self.function is None:
            ours |= self._of_inputs(result)
        out = {name: (make(), self._theirs(name)) for name, make in ours.items() if name in self.expected}
        for name in (*(f"{other}_advantage" for other in _BESIDE), *(_OF_THE_PEER if self.function else ())):
            self.expected.get(name)  # on lines of their own, or none of a foreign function's business
        self.params.done()
        self.expected.done()
        return out

    def _run(self, name: str, more: Mapping[str, Any]) -> tuple[Floats, Advantages | None]:
        """The advantages of a method, and all that it gave back if it is an `Advantages`."""
        from turnwise.credit import get

        return values_of((self.function or get(name))(self.steps, **more, **self.options), len(self.steps))

    def _gigpo(self) -> tuple[Floats, Advantages | None]:
        threshold = self.params.get("similarity_thresh", 0.95)
        self.similarity = threshold if self.params.get("enable_similarity", False) else None
        w = self.params.get("step_advantage_w", 1.0)
        return self._run("gigpo", {"gamma": self.gamma, "w": w, "similarity": self.similarity})

    def _hgpo(self) -> tuple[Floats, Advantages | None]:
        self.similarity = None
        more = {
            "history": self.params.need("history_length"),
            "alpha": self.params.get("length_weight_alpha", 1.0),
            "base": self.params.get("base_group", False),
            "gamma": self.gamma,
        }
        return self._run("hgpo", more)

    def _theirs(self, name: str) -> object:
        theirs = self.expected[name]
        if name == "step_group":
            return _by_appearance(theirs)
        if name == "levels_own_formula":
            return [[level.get("advantage") or 0.0 for level in row] for row in theirs]
        return theirs

    def _on_tokens(self, values: Floats) -> list[list[float]]:
        rows = zip(values.tolist(), self.tokens, strict=True)
        return [[value if place < length else 0.0 for place in range(self.longest)] for value, length in rows]

    def _of_inputs(self, result: Advantages | None) -> dict[str, Callable[[], object]]:
        """The figures on the way to the advantage, of our own functions."""
        from turnwise.credit import discounted_returns, grpo
        from turnwise.credit.blocks import penalties
        from turnwise.credit.turn.gigpo import anchors

        late = penalties(self.steps, self.options["invalid_penalty"])
        parts = {} if result is None else result.parts
        return {
            "discounted_return": lambda: discounted_returns(self.steps, self.gamma),
            "step_return_after_penalty": lambda: discounted_returns(self.steps, self.gamma) - late,
            "episode_score": lambda: self._scores() - late,
            "step_group": lambda: _by_appearance(anchors(self.steps, self.similarity, order="rows").tolist()),
            "episode_advantage": lambda: grpo(self.steps, **self.options).values,
            "episode_advantage_per_trajectory_stats": self._first_rows,
            "step_advantage": lambda: parts.get("step", []),
            "levels_own_formula": lambda: self._levels(parts),
        }

    def _levels(self, parts: Mapping[str, Floats]) -> list[list[float]]:
        """The standing of each row at each level that the file names: level k of it is our history k - 1."""
        rows = self.expected["levels_own_formula"]
        names = [["episode" if one["level"] == 0 else f"history {one['level'] - 1}" for one in row] for row in rows]
        unknown = {name for row in names for name in row} - set(parts)
        if unknown:
            raise Refused(f"ours has no part {', '.join(sorted(unknown))}")
        return [[float(parts[name][number]) for name in row] for number, row in enumerate(names)]

    def _scores(self) -> Floats:
        """Each row's episode score before its penalty."""
        import numpy as np

        from turnwise.credit.blocks import trajectory_scores

        scores, _, member = trajectory_scores(self.steps)
        if self.options["normalize_by_length"]:
            scores = scores / np.bincount(member[self.steps.time_order], minlength=len(scores))
        return scores[member]

    def _rloo(self) -> tuple[Floats, None]:
        """The trainer's RLOO: rows are its members, so it is n / (n - 1) times its GRPO without a scale."""
        import numpy as np

        from turnwise.credit import grpo
        from turnwise.credit.blocks import compact

        key = compact(self.steps.task)
        rows = np.bincount(key)[key].astype(np.float64)
        values = grpo(self.steps, **{**self.options, "scale": "none"}).values
        return values * rows / np.maximum(rows - 1.0, 1.0), None

    def _first_rows(self) -> Floats:
        """The trainer's other statistics: of each trajectory its first row as it lies, with that row's penalty."""
        import numpy as np

        from turnwise.credit.blocks import Groups, compact, penalties

        score = self._scores() - penalties(self.steps, self.options["invalid_penalty"])
        first = np.sort(np.unique(self.steps.trajectory, return_index=True)[1])
        task = compact(self.steps.task)
        groups = Groups(score[first], task[first])
        alone = groups.size == 1.0
        away: Floats = score - np.where(alone, 0.0, groups.centre())[task]
        if self.options["scale"] == "std":
            away = away / (np.where(alone, 1.0, groups.deviation(1)) + self.options["eps"])[task]
        return away


def steps_of_rows(rows: object) -> Steps:
    """Return the table of a case's steps.

    Raises:
        Malformed: the steps are no list of objects, or have a key that the schema has not.
        Refused: a row is inactive; the trainer drops those before.
    """
    from turnwise.credit import CreditError, Steps

    if not isinstance(rows, list) or not all(isinstance(row, Mapping) for row in rows):
        raise Malformed("steps must be a list of objects")
    strange = {key for row in rows for key in row} - set(_COLUMNS) - {"active"}
    if strange:
        raise Refused(f"nothing of ours reads {', '.join(map(repr, sorted(strange)))} of the steps")
    if not all(row.get("active", True) for row in rows):
        raise Refused("a row is inactive; such rows are dropped before credit")
    try:
        return Steps.from_rows([{_COLUMNS[key]: row[key] for key in row if key != "active"} for row in rows])
    except CreditError as error:
        raise Malformed(str(error)) from error


def values_of(result: Any, rows: int) -> tuple[Floats, Advantages | None]:
    """Return the advantages that a function gave back, and all that it gave if that is an `Advantages`.

    Raises:
        Refused: there is not one number a row.
    """
    import numpy as np

    from turnwise.credit import Advantages

    if isinstance(result, Advantages):
        return result.values, result
    try:
        values = np.asarray(result, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise Refused(f"the function gave back {type(result).__name__}, not Advantages or numbers") from error
    if values.shape != (rows,):
        raise Refused(f"the function gave back numbers of the shape {values.shape}; there are {rows} rows")
    return values, None


def _by_appearance(groups: Sequence[Any]) -> list[int]:
    """Groups numbered by first appearance, since only who is together matters."""
    known: dict[Any, int] = {}
    return [known.setdefault(group, len(known)) for group in groups]
