"""Turn-level methods of credit.json: given advantages, segments, returns and memories, which are no columns."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from turnwise.cli.vectors.case import Malformed, Refused
from turnwise.cli.vectors.estimators import (
    Case,
    Figures,
    as_figures,
    by_registry,
    figures_of,
    run,
    table,
    without_penalty,
)
from turnwise.cli.vectors.shapes import entry_of, ragged


def _salt(case: Case) -> Figures:
    """The base's advantages may be given; a base that hands a trajectory's reward on brings them in."""
    if "trajectory_advantage" not in case.inputs:
        return _salt_of_rewards(case)
    given = case.inputs["trajectory_advantage"]
    names = list(dict.fromkeys(case.column("trajectory")))
    _base(case)  # says where the given advantages come from
    members = case.column("trajectory")
    first = [members.index(name) for name in names]
    if len(given) != len(names):
        raise Malformed(f"there are {len(names)} trajectories and {len(given)} advantages of them")
    reward = [0.0] * len(members)
    for row, value in zip(first, given, strict=True):
        reward[row] = float(value)
    return _merged(case, reward, {"base": "remax"})


def _salt_of_rewards(case: Case) -> Figures:
    return _merged(case, case.column("reward"), _base(case))


def _merged(case: Case, reward: list[float], options: dict[str, Any]) -> Figures:
    count = len(reward)
    turn = case.column("turn") or _turns(case.column("trajectory"))
    columns: dict[str, Any] = {"reward": reward, "turn": turn, "value": [0.0] * count}
    if "transition_key" in case.inputs:
        key = case.inputs["transition_key"]
        columns |= {"state": key, "action": key, "next_state": key}
    steps = table(case, **columns)
    for name in ("history", "merge_history"):
        if name in case.hyper:
            options["merge_history"] = case.hyper[name]
    if case.hyper.get("dedup_per_traj", False):
        options["unit"] = "trajectory"
    options["endings"] = "plain"  # the key says what is equal, at an episode's end as before
    return figures_of(case, steps, run(case, entry_of("salt"), steps, options), options)


def _arpo_hard(case: Case) -> Figures:
    """Paths as segments with ids; a segment is a turn."""
    rewards, segments = case.column("reward"), case.inputs.need("segments")
    groups = case.column("task") or ["all"] * len(rewards)
    where = [(i, t) for i, path in enumerate(segments) for t in range(len(path))]
    steps = table(
        case,
        task=[groups[i] for i, _ in where],
        trajectory=[i for i, _ in where],
        turn=[t for _, t in where],
        reward=[float(rewards[i]) if t == len(segments[i]) - 1 else 0.0 for i, t in where],
        action=[segments[i][t][0] for i, t in where],
        tokens=[int(segments[i][t][1]) for i, t in where],
    )
    base = _base(case)
    if base["base"] != "grpo":
        raise Refused(f"base={base['base']!r}; ours stands on grpo")
    result = run(case, entry_of("arpo_hard"), steps, {"key": "action", **base["base_options"]})
    lengths = [len(path) for path in segments]

    def rows() -> list[list[list[object]]]:
        values = ragged(result.values, lengths)
        return [[[*path[t][:2], values[i][t]] for t in range(len(path))] for i, path in enumerate(segments)]

    out: Figures = {"segments": rows}
    if "episode" in result.parts:
        out["trajectory_advantage"] = lambda: [row[0] for row in ragged(result.parts["episode"], lengths)]
    return out


def _mapo_dialogue(case: Case) -> Figures:
    """Both versions; statistics of the batch are over its turns."""
    case.hyper.only("singleton_turn_group", "zero")
    steps = table(case)
    options: dict[str, Any] = {"unit": "turn", **case.options("alpha", "gamma", "ddof", "eps", "unit")}
    if case.name.startswith("mica"):
        options["mode"] = "mica"
        if "weight" in case.hyper:
            options["alpha"] = case.hyper["weight"]
    result = run(case, entry_of("mapo_dialogue"), steps, options)
    renamed = {"turn_z": "turn", "batch_z": "batch", "reward_z": "reward"}
    parts = {ours: result.parts[theirs] for ours, theirs in renamed.items() if theirs in result.parts}
    return {**figures_of(case, steps, result, options), **as_figures(parts)}


def _gigpo(case: Case) -> Figures:
    """`mean_over` is of the episode term; a state's group is a set of turns in any case."""
    steps = table(case)
    given = case.options("gamma", "w", "scale", "unit", "ddof", "eps", "singleton", "similarity")
    options = {"singleton": "raw", "unit": "turn", "step_unit": "turn", **given}
    return figures_of(case, steps, run(case, entry_of("gigpo"), steps, options), options)


def _hgpo(case: Case) -> Figures:
    """Returns instead of rewards: with gamma 0 the one are the other. The base's advantages may be given."""
    import numpy as np

    from turnwise.credit.turn.hgpo import LevelMean

    returned = "returns" in case.inputs
    steps = table(case, reward=case.inputs["returns"]) if returned else table(case)
    options = {"weights": "code", **case.options("history", "alpha", "scale", "ddof", "eps", "base", "gamma")}
    options = {**options, "unit": "turn", "drop": "zero", "singleton": "raw", "penalty_in": "return"}
    options |= {"gamma": 0.0} if returned else {}
    if options.get("ddof", 0) == 0:  # the preset also adds eps to the sum of weights
        options = {name: options[name] for name in options if name not in ("unit", "drop", "weights", "singleton")}
        options |= {"compat": "verl-agent", "ddof": 1}
    outside = "base" in case.inputs
    if not outside:
        return figures_of(case, steps, run(case, entry_of("hgpo"), steps, options), options)
    base = np.asarray(case.inputs["base"], dtype=np.float64)
    if not options.pop("base", True):
        return figures_of(case, steps, run(case, entry_of("hgpo"), steps, options), options)
    result = run(case, entry_of("hgpo"), steps, options)
    mean = LevelMean(len(steps), "zero", options.get("eps", 1e-6))
    mean.add("episode", base, np.ones(len(steps), dtype=np.bool_), 1.0)
    for k, part in enumerate(part for name, part in result.parts.items() if name.startswith("history ")):
        mean.add(f"history {k}", part, part != 0.0, float(k + 2) ** options.get("alpha", 1.0))
    return {"advantage": lambda: mean.values}


def _mt_grpo(case: Case) -> Figures:
    """A turn with a tool, and the rest."""
    if "turn_reward" not in case.inputs:
        return by_registry(case)
    tool, outcome = case.inputs["turn_reward"], case.inputs.need("outcome_reward")
    count = len(tool)
    groups = case.column("task") or ["all"] * count
    steps = table(
        case,
        task=[*groups, *groups],
        trajectory=[*range(count), *range(count)],
        turn=[0] * count + [1] * count,
        reward=[float(r) for r in (*tool, *outcome)],
    )
    options = {"form": "segments", **case.options("coef", "ddof", "eps", "scale", "singleton")}
    values = run(case, entry_of("mt_grpo"), steps, options).values
    return {"tokens_up_to_tool_result": lambda: values[:count], "tokens_after": lambda: values[count:]}


def _flow_grpo(case: Case) -> Figures:
    """A number of turns for each trajectory, and a final reward."""
    if "turns" not in case.inputs:
        return by_registry(case)
    turns, final = case.inputs["turns"], case.column("reward")
    groups = case.column("task") or ["all"] * len(turns)
    where = [(i, t) for i, count in enumerate(turns) for t in range(int(count))]
    steps = table(
        case,
        task=[groups[i] for i, _ in where],
        trajectory=[i for i, _ in where],
        turn=[t for _, t in where],
        reward=[float(final[i]) if t == int(turns[i]) - 1 else 0.0 for i, t in where],
    )
    unit = "trajectory" if "traj" in case.name.removeprefix("flow_grpo") else "turn"  # the code counts turns
    options = {"unit": unit, "singleton": "raw", **case.options("unit", "ddof", "eps", "scale", "singleton")}
    return figures_of(case, steps, run(case, entry_of("flow_grpo"), steps, options), options)


def _spear(case: Case) -> Figures:
    """Stored episodes measured by the memory of group means."""
    import numpy as np

    from turnwise.credit.turn.spear import spear_replay

    if "group_mean_history" not in case.inputs:
        return by_registry(case)
    means = np.asarray(case.inputs["group_mean_history"], dtype=np.float64)
    stds = (
        np.asarray(case.inputs["group_std_history"], dtype=np.float64) if "group_std_history" in case.inputs else None
    )
    scaled = bool(case.hyper.get("norm_std", False))
    if scaled and stds is None:
        raise Malformed("inputs have no 'group_std_history', which norm_std needs")
    state = {"means": means, "stds": np.zeros(len(means)) if stds is None else stds, "calls": 0}
    steps = table(case)
    options = {"scale": "std" if scaled else "none", **case.options("percentile", "eps", "invalid_penalty")}
    options = {**without_penalty({"invalid_penalty": None}, steps), **options}
    result = case.use(spear_replay)(steps, state=state, **options)
    return figures_of(case, steps, result, options)


def _archer(case: Case) -> Figures:
    """Critics by their names: q1 and q2 of the action, v1 and v2 of the state."""
    import numpy as np

    names = [name for name in ("q1", "q2", "v1", "v2") if name in case.inputs]
    if not names:
        return by_registry(case)
    critics = {name: np.asarray(case.inputs[name], dtype=np.float64) for name in names}
    q, v = ([critics[name] for name in names if name[0] == kind] for kind in "qv")
    if not q or not v:
        raise Malformed("inputs need estimates of both kinds: q1 (and q2), v1 (and v2)")
    count = len(q[0])
    if any(estimate.shape != (count,) for estimate in critics.values()):
        raise Malformed(f"{', '.join(names)} must be lists of one number a row")
    rewards = case.column("reward") or [0.0] * count
    steps = table(case, reward=rewards, metric=np.stack(q, axis=1), value=np.minimum.reduce(v))
    return figures_of(case, steps, run(case, entry_of("archer"), steps, case.options()), {})


def _base(case: Case) -> dict[str, Any]:
    """The base of a case as words: `grpo ddof=1 eps=1e-6`."""
    from turnwise.credit import rules

    words = str(case.hyper.get("base", "grpo")).split() or [""]
    if words[0] not in rules():
        raise Refused(f"base={case.hyper['base']!r} names no estimator of ours")
    options: dict[str, Any] = {"singleton": "raw"} if words[0] in ("grpo", "dr_grpo") else {}
    for word in words[1:]:
        name, equals, value = word.partition("=")
        if not equals:
            raise Refused(f"base={case.hyper['base']!r} is not of the form 'name option=value ...'")
        options[name] = int(value) if re.fullmatch(r"-?\d+", value) else float(value)
    return {"base": words[0], "base_options": options}


def _turns(members: list[Any]) -> list[int]:
    """Each row's place within its trajectory, in the order of rows."""
    seen: dict[Any, int] = {}
    out = []
    for member in members:
        out.append(seen.get(member, 0))
        seen[member] = out[-1] + 1
    return out


METHODS: dict[str, Callable[[Case], Figures]] = {
    "salt": _salt,
    "arpo_hard": _arpo_hard,
    "mapo_dialogue": _mapo_dialogue,
    "gigpo": _gigpo,
    "hgpo": _hgpo,
    "mt_grpo": _mt_grpo,
    "flow_grpo": _flow_grpo,
    "spear": _spear,
    "archer": _archer,
}
"""Functions from a case to its figures, by our name of the method."""
