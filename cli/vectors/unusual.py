"""Methods of credit.json whose inputs are no columns of a table, or whose figures need a name of their own."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from turnwise.cli.vectors.case import Malformed, Refused
from turnwise.cli.vectors.estimators import Case, Figures, as_figures, by_registry, figures_of, run, table

if TYPE_CHECKING:
    import numpy.typing as npt


def _entry(name: str) -> Any:
    from turnwise.credit import estimators

    return estimators()[name]


def _reinforce_pp(case: Case) -> Figures:
    """Rewards of tokens: a row a token."""
    if "token_rewards" not in case.inputs:
        return by_registry(case)
    rewards = case.inputs["token_rewards"]
    case.hyper.only("whiten", "all tokens of the batch")
    where = [(i, t) for i, row in enumerate(rewards) for t in range(len(row))]
    steps = table(
        case,
        reward=[float(rewards[i][t]) for i, t in where],
        trajectory=[i for i, _ in where],
        turn=[t for _, t in where],
        tokens=[1] * len(where),
    )
    result = run(case, _entry(case.method), steps, case.options("gamma", "ddof", "eps"))
    return {"advantage": lambda: _ragged(result.values, [len(row) for row in rewards])}


def _ragged(values: npt.NDArray[Any], lengths: list[int]) -> list[list[float]]:
    out, begin = [], 0
    for length in lengths:
        out.append([float(value) for value in values[begin : begin + length]])
        begin += length
    return out


def _gdpo(case: Case) -> Figures:
    words = {"tokens": "tokens", "all tokens of the batch": "tokens", "samples": "samples"}
    over = case.hyper.get("whiten", "samples" if case.column("tokens") is None else "tokens")
    if over not in words:
        raise Refused(f"whiten={over!r}; understood are {', '.join(map(repr, words))}")
    steps = table(case)
    options = {"singleton": "raw", **case.options("weights", "eps", "ddof", "singleton"), "over": words[over]}
    result = run(case, _entry("gdpo"), steps, options)
    parts = [part for name, part in result.parts.items() if name.startswith("reward_")]
    return {**figures_of(case, steps, result, options), "summed": lambda: sum(parts)}


def _bnpo(case: Case) -> Figures:
    """The fitted density's mean, variance and moments are figures, too."""
    import numpy as np

    figures = by_registry(case)
    rewards, groups = np.asarray(case.column("reward"), dtype=np.float64), case.column("task")
    names = list(dict.fromkeys(groups or ["all"] * len(rewards)))
    member = [names.index(group) for group in groups or ["all"] * len(rewards)]
    rates = np.bincount(member, weights=rewards) / np.bincount(member)
    mean, variance = float(rates.mean()), float(rates.var(ddof=1)) if len(rates) > 1 else 1.0
    scale = mean * (1 - mean) / variance - 1 if variance > 0 else float("inf")
    own = {"p_mean": mean, "p_var": variance, "a": scale * mean, "b": scale * (1 - mean)}
    return {**figures, **as_figures(own)}


def _spo_single_stream(case: Case) -> Figures:
    """One episode a task, each with its own tracker."""
    import numpy as np

    count = len(case.column("reward") or ())
    alpha, beta = case.inputs.need("alpha"), case.inputs.need("beta")
    if "group" in case.inputs:
        raise Refused("the inputs are read as one episode a task; 'group' is not")
    steps = table(case, task=list(range(count)), metric=[float(d) for d in case.inputs.need("D")])
    names = {"D_half": "half_life", "rho_min": "rho_min", "rho_max": "rho_max", "ddof": "ddof", "eps": "eps"}
    options = {ours: case.hyper[theirs] for theirs, ours in names.items() if theirs in case.hyper}
    state = {task: (float(alpha[task]), float(beta[task])) for task in range(count)}
    found = case.use(_entry("spo_single_stream").function)(steps, state=state, **options)
    after = np.array([found.state[task] for task in range(count)])
    return {
        **figures_of(case, steps, found, options),
        "value": lambda: found.parts["baseline"],
        "alpha_new": lambda: after[:, 0],
        "beta_new": lambda: after[:, 1],
    }


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
    return figures_of(case, steps, run(case, _entry("salt"), steps, options), options)


def _base(case: Case) -> dict[str, Any]:
    """The base of a case as words: `grpo ddof=1 eps=1e-6`."""
    from turnwise.credit import estimators

    words = str(case.hyper.get("base", "grpo")).split() or [""]
    if words[0] not in estimators():
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
    result = run(case, _entry("arpo_hard"), steps, {"key": "action", **base["base_options"]})
    lengths = [len(path) for path in segments]

    def rows() -> list[list[list[object]]]:
        values = _ragged(result.values, lengths)
        return [[[*path[t][:2], values[i][t]] for t in range(len(path))] for i, path in enumerate(segments)]

    out: Figures = {"segments": rows}
    if "episode" in result.parts:
        out["trajectory_advantage"] = lambda: [row[0] for row in _ragged(result.parts["episode"], lengths)]
    return out


def _tempo(case: Case) -> Figures:
    """Token ids of one group's sequences, or of several groups."""
    import numpy as np

    from turnwise.credit.tokens.tempo import tempo_tokens

    if "sequences" not in case.inputs:
        return by_registry(case)
    sequences = case.inputs["sequences"]
    lengths = [len(row) for row in sequences]
    mask = np.arange(max(lengths, default=0))[None, :] < np.array(lengths)[:, None]
    ids = np.zeros(mask.shape, dtype=np.int64)
    ids[mask] = [token for row in sequences for token in row]
    case.hyper.only("gamma", 1)
    options = {"singleton": "raw", **case.options("scale", "ddof", "eps", "singleton")}
    group = case.column("task") or ["all"] * len(sequences)
    values = case.use(tempo_tokens)(ids, mask, np.asarray(case.column("reward"), dtype=np.float64), group, **options)
    return {
        name: (lambda: [list(row[:n]) for row, n in zip(np.asarray(values).tolist(), lengths, strict=True)])
        for name in ("token_advantage", "advantage")
    }


def _mapo_dialogue(case: Case) -> Figures:
    """Both versions; statistics of the batch are over its turns."""
    case.hyper.only("singleton_turn_group", "zero")
    steps = table(case)
    options: dict[str, Any] = {"unit": "turn", **case.options("alpha", "gamma", "ddof", "eps", "unit")}
    if case.name.startswith("mica"):
        options["mode"] = "mica"
        if "weight" in case.hyper:
            options["alpha"] = case.hyper["weight"]
    result = run(case, _entry("mapo_dialogue"), steps, options)
    renamed = {"turn_z": "turn", "batch_z": "batch", "reward_z": "reward"}
    parts = {ours: result.parts[theirs] for ours, theirs in renamed.items() if theirs in result.parts}
    return {**figures_of(case, steps, result, options), **as_figures(parts)}


def _gae(case: Case) -> Figures:
    """Along the tokens of one sequence or of several; with ends of turns on two levels; else turn by turn."""
    import numpy as np

    from turnwise.credit.tokens.gae import bilevel_gae, gae_tokens

    if "mask" not in case.inputs and "turn_end" not in case.inputs:
        return by_registry(case)
    names = ("rewards", "values", "mask", "turn_end")
    arrays = {name: np.asarray(case.inputs[name], dtype=np.float64) for name in names if name in case.inputs}
    arrays.setdefault("mask", np.ones_like(arrays["rewards"]))
    flat = arrays["rewards"].ndim == 1
    batch = {name: array[None] if flat else array for name, array in arrays.items()}
    words = {"gamma_high": "gamma_turn", "gamma_turn": "gamma_turn", "gamma_h": "gamma_turn"}
    rates = {words.get(key, key): case.hyper[key] for key in case.hyper if key in (*words, "gamma", "lam")}
    options = {**rates, "whitening": bool(case.hyper.get("whiten", False)), "outside": "ignore"}
    if "turn_end" in batch:
        found = case.use(bilevel_gae)(batch["rewards"], batch["values"], batch["mask"], batch["turn_end"], **options)
    else:
        found = case.use(gae_tokens)(batch["rewards"], batch["values"], batch["mask"], **options)
    advantages, returns = (array[0] if flat else array for array in found)
    return {"advantage": lambda: advantages, "returns": lambda: returns}


def _whiten(case: Case) -> Figures:
    import numpy as np

    from turnwise.credit.blocks import whiten

    values = np.asarray(case.inputs.need("x"), dtype=np.float64)
    mask = np.asarray(case.inputs["mask"], dtype=np.float64) if "mask" in case.inputs else None
    options = case.options("ddof", "eps")
    flat = case.use(whiten)(values.reshape(-1), None if mask is None else mask.reshape(-1), **options)
    return {"out": lambda: np.asarray(flat).reshape(values.shape)}


def _gigpo(case: Case) -> Figures:
    """`mean_over` is of the episode term; a state's group is a set of turns in any case."""
    steps = table(case)
    given = case.options("gamma", "w", "scale", "unit", "ddof", "eps", "singleton", "similarity")
    options = {"singleton": "raw", "unit": "turn", "step_unit": "turn", **given}
    return figures_of(case, steps, run(case, _entry("gigpo"), steps, options), options)


def _hgpo(case: Case) -> Figures:
    """Returns instead of rewards: with gamma 0 the one are the other. The base's advantages may be given."""
    import numpy as np

    from turnwise.credit.turn.hgpo import Mean

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
        return figures_of(case, steps, run(case, _entry("hgpo"), steps, options), options)
    base = np.asarray(case.inputs["base"], dtype=np.float64)
    if not options.pop("base", True):
        return figures_of(case, steps, run(case, _entry("hgpo"), steps, options), options)
    result = run(case, _entry("hgpo"), steps, options)
    mean = Mean(len(steps), "zero", options.get("eps", 1e-6))
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
    values = run(case, _entry("mt_grpo"), steps, options).values
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
    return figures_of(case, steps, run(case, _entry("flow_grpo"), steps, options), options)


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
    options = {"scale": "std" if scaled else "none", **case.options("percentile", "eps")}
    result = case.use(spear_replay)(steps, state=state, **options)
    return figures_of(case, steps, result, options)


def _unlikely(case: Case) -> Figures:
    from turnwise.credit.blocks import compact
    from turnwise.credit.outcome.unlikely import reshaped

    figures = by_registry(case)
    steps = table(case)

    def lowered() -> object:
        assert steps.logprob is not None
        return reshaped(steps.reward, steps.logprob, compact(steps.task), case.hyper.get("beta", 0.25))

    return {**figures, "reshaped": lowered}


def _psr_nsr(case: Case) -> Figures:
    """All three forms."""
    steps = table(case)
    entry, lam = _entry("psr_nsr"), case.hyper.get("lam", 0.1)
    forms = ("psr", "nsr", "weighted")
    return as_figures({form: run(case, entry, steps, {"form": form, "lam": lam}).values for form in forms})


def _hicra(case: Case) -> Figures:
    from turnwise.credit.tokens.hicra import hicra

    values, plans = case.inputs.need("advantage"), case.inputs.need("planning")
    found = case.use(hicra)([values], [[1] * len(values)], planning=[plans], **case.options("alpha"))
    return {"advantage": lambda: found.values[0]}


def _ace(case: Case) -> Figures:
    """A row a response, of which the whole log-ratio is given."""
    from turnwise.credit.tokens.ace import ace

    ratio = [[float(c)] for c in case.inputs.need("log_ratio_to_reference")]
    values = [[float(a)] for a in case.inputs.need("advantage")]
    nothing, ones = [[0.0] for _ in values], [[1] for _ in values]
    found = case.use(ace)(values, ones, logprobs=ratio, ref=nothing, **case.options("alpha"))
    return {"advantage": lambda: found.values[:, 0]}


def _xrpo_novelty(case: Case) -> Figures:
    """The bonus on advantages that are given."""
    import numpy as np

    from turnwise.credit.blocks import compact
    from turnwise.credit.keys import Coder
    from turnwise.credit.outcome.xrpo_novelty import novelty_bonus, relative_likelihood

    if "advantage" not in case.inputs:
        return by_registry(case)
    advantage = np.asarray(case.inputs["advantage"], dtype=np.float64)
    logprob = np.asarray(case.inputs.need("mean_logprob"), dtype=np.float64)
    right = np.asarray(case.inputs.need("correct"), dtype=np.bool_)
    task = compact(Coder().encode(case.column("task") or ["all"] * len(advantage)))
    bonus = case.use(novelty_bonus)(advantage, logprob, task, right, **case.options("lam", "kappa"))
    return {"advantage": lambda: advantage + bonus, "eta": lambda: relative_likelihood(logprob, task)}


def _evol(case: Case) -> Figures:
    import numpy as np

    from turnwise.credit.outcome.evol import novelty_rewards

    if "reward" not in case.expected:
        return by_registry(case)
    right = np.asarray(case.inputs.need("correct"), dtype=np.bool_)
    new = np.asarray(case.inputs.need("novelty"), dtype=np.float64)
    found = case.use(novelty_rewards)(right, new)
    return {"reward": lambda: found}


UNUSUAL: dict[str, Callable[[Case], Figures]] = {
    "reinforce_pp": _reinforce_pp,
    "gdpo": _gdpo,
    "bnpo": _bnpo,
    "spo_single_stream": _spo_single_stream,
    "salt": _salt,
    "arpo_hard": _arpo_hard,
    "tempo": _tempo,
    "mapo_dialogue": _mapo_dialogue,
    "gae": _gae,
    "bilevel_gae": _gae,
    "whiten": _whiten,
    "gigpo": _gigpo,
    "hgpo": _hgpo,
    "mt_grpo": _mt_grpo,
    "flow_grpo": _flow_grpo,
    "spear": _spear,
    "unlikely": _unlikely,
    "psr_nsr": _psr_nsr,
    "hicra": _hicra,
    "ace": _ace,
    "xrpo_novelty": _xrpo_novelty,
    "evol": _evol,
}
"""Functions from a case to its figures, by our name of the method."""
