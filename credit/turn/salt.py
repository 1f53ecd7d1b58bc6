"""SALT: an outcome advantage, averaged over identical transitions of different episodes."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Literal

import numpy as np

from turncredit.credit.advantages import Advantages
from turncredit.credit.errors import BadOption
from turncredit.credit.numerics import Groups, Unit, compact, groups_of, unit_weights
from turncredit.credit.option_checks import check_choice, check_number
from turncredit.credit.options import without_copies
from turncredit.credit.steps import Ints, Steps, need
from turncredit.credit.transitions import history_keys, next_states, next_turns, previous_turns

Endings = Literal["auto", "marked", "plain"]


def salt(
    steps: Steps,
    *,
    base: str = "grpo",
    base_options: Mapping[str, Any] | None = None,
    merge_history: int = 0,
    unit: Unit = "turn",
    endings: Endings = "auto",
    state: object = None,
    rng: np.random.Generator | None = None,
) -> Advantages:
    """Return each episode's advantage, averaged over turns with the same transition.

        B[i]    = advantage of episode i under the base rule
        A[i, t] = mean of B over the turns of the task with the same (state, action, next state) as turn t of i

    A step shared by successful and failed episodes comes out near zero; a step of one episode only keeps B. Nothing is
    scaled afterwards, so the sum over the turns of a task does not change.

        >>> steps = Steps.from_columns(task=["t"] * 4, trajectory=["a", "a", "b", "b"], turn=[0, 1, 0, 1],
        ...     reward=[0, 1.0, 0, 0], state=["hall", "door", "hall", "door"], action=["go", "open", "go", "wait"])
        >>> salt(steps, base_options={"scale": "none"}).values.tolist()
        [0.0, 0.5, 0.0, -0.5]

    Args:
        steps: the table; needs `state` and `action`. Without `next_state` a turn leads to the state of the next turn.
        base: name of a credit rule. For a rule that scores turns, B is B[i, t].
        base_options: its options.
        merge_history: number of earlier transitions that must be equal too; 0 compares the transition alone. (Our
            reading: our sources do not say whether the paper looks back.)
        unit: "turn" counts every occurrence, which preserves the sum over turns; "trajectory" counts an episode once in
            each mean.
        endings: what the last turn of an episode is merged with. "plain" compares (s, a, s') as everywhere else;
            without the column `next_state` all last turns lead to one end. "marked" merges last turns only with last
            turns, and without `next_state` only with those of equal reward. "auto" is "plain" if the table has
            `next_state`, else "marked".
        state, rng: passed to a base rule that takes them.

    Returns:
        Advantages with the parts "base" and "merged" (the difference to it); `keep`, `weight` and `state` are
        those of the base rule. The report has the share of turns merged with those of another episode.

    Raises:
        BadOption: the base rule does not accept one of its options.
        UnknownRule: there is no rule `base`.

    Source: Li et al. 2025, arXiv 2510.20022, as restated in the appendix of the GRAFT paper; there is no published
    code. Our reading: the count of repeated steps, the endings, and that the mean replaces the base advantage.
    """
    from turncredit.credit.registry import get

    if base_options is not None and not isinstance(base_options, Mapping):
        raise BadOption(f"base_options must be a mapping of options of {base}, got {base_options!r}")
    if base == "salt":
        raise BadOption("base must be another rule than 'salt' itself")
    check_number("merge_history", merge_history, 0, whole=True)
    check_choice("unit", unit, Unit)
    check_choice("endings", endings, Endings)
    method = get(base, **(base_options or {}))
    handed = {name: value for name, value in (("state", state), ("rng", rng)) if name in _takes(method)}
    need(steps, "salt", "state", "action")

    def estimate(table: Steps) -> Advantages:
        result = method(table, **handed)
        key = transitions(table, merge_history, endings)
        weight = unit_weights(key, table.trajectory, unit)
        values = Groups(result.values, key, weight).row_centres()
        company = Groups(result.values, key, unit_weights(key, table.trajectory, "trajectory")).size[key] > 1.0
        report = {**result.report, "transitions": float(groups_of(key))}
        report["merged_turns"] = float(company.mean())
        parts = {"base": result.values, "merged": values - result.values}
        return replace(result, values=values, parts=parts, report=report)

    return without_copies(steps, estimate, state=state)


def _takes(method: Any) -> tuple[str, ...]:
    return (("state",) if method.remembers else ()) + (("rng",) if method.draws else ())


def transitions(steps: Steps, history: int = 0, endings: Endings = "auto") -> Ints:
    """Return the class of each turn's transition, compact int64 [N]: same task, state, action and next state.

    Args:
        steps: a table without copies.
        history: how many earlier transitions must be equal as well.
        endings: see `salt`.
    """
    before = previous_turns(steps)
    after = next_turns(before)
    led = next_states(steps, after) + 1
    if endings == "marked" or (endings == "auto" and "next_state" not in steps):
        last = np.flatnonzero(after < 0)
        end = np.unique(steps.reward[last], return_inverse=True)[1] if "next_state" not in steps else led[last]
        led[last] = end.reshape(-1) + groups_of(led)
    return history_keys(compact(steps.task, steps.column("state"), steps.column("action"), led), before, history)[-1]
