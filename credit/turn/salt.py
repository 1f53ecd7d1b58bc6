"""SALT: the advantage of the episode, averaged where episodes took the same step and kept where they parted.

Left out on purpose: an advantage of its own. It stands on any method that values whole episodes.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Literal

import numpy as np

from turnwise.credit.advantages import Advantages
from turnwise.credit.blocks import Groups, Unit, check_choice, check_number, compact, groups_of, unit_weights
from turnwise.credit.errors import BadOption
from turnwise.credit.options import without_copies
from turnwise.credit.steps import Ints, Steps, need
from turnwise.credit.transitions import history_keys, next_states, next_turns, previous_turns

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
    """Return each episode's advantage with the turns that are the same transition brought to their common mean.

        B[i]    = advantage of episode i by the base method
        A[i, t] = mean of B over the turns of the task with the same (state, action, next state) as turn t of i

    A step that won and lost episodes share comes out near zero; a step that one episode alone took keeps its B. Nothing
    is scaled afterwards, so the sum over the turns of a task stays what it was.

        >>> steps = Steps.from_columns(task=["t"] * 4, trajectory=["a", "a", "b", "b"], turn=[0, 1, 0, 1],
        ...     reward=[0, 1.0, 0, 0], state=["hall", "door", "hall", "door"], action=["go", "open", "go", "wait"])
        >>> salt(steps, base_options={"scale": "none"}).values.tolist()
        [0.0, 0.5, 0.0, -0.5]

    Args:
        steps: the table; needs `state` and `action`. Without `next_state` a turn leads to the state of the next turn.
        base: name of a registered estimator. One that values turns and not episodes works too: B is then B[i, t].
        base_options: its options.
        merge_history: how many earlier transitions must be equal as well; 0 merges by the transition alone. (Our
            reading: the sources that we have do not say whether the paper looks back.)
        unit: "turn" counts every occurrence, which keeps the sum over turns; "trajectory" counts an episode once in
            each mean, however often it took the step.
        endings: what the last turn of an episode merges with. "plain" compares (s, a, s') as everywhere else, and
            without the column `next_state` takes the last turn to lead nowhere. "marked" adds an end to its next state,
            so that it merges with last turns only, and without the column only with those of equal reward, since that
            is all the table says of where it led. "auto" is "plain" where the table has `next_state`, else "marked".
        state, rng: handed to a base that remembers or draws.

    Returns:
        Advantages with the parts "base" and "merged" (the difference to it); `keep`, `weight` and `state` are the
        base's. The report has the share of turns that merged with another episode's.

    Raises:
        MissingColumn: there is no `state` or no `action`.
        BadOption: an option has an impossible value, or the base refuses one of its own.
        UnknownRule: nobody offers the base.

    Source: Li et al. 2025, arXiv 2510.20022, as the appendix of the GRAFT paper restates it: there is no published
    code. Our reading: the count of repeated steps, the endings, and that the mean replaces the base's advantage.
    """
    from turnwise.credit.registry import get  # the registry's catalogue imports this module

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
        report["merged_turns"] = float(company.mean()) if len(company) else 0.0
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
