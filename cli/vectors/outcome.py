"""Outcome-level methods of credit.json: inputs that are no columns of a table, or figures with names of their own."""

from __future__ import annotations

from collections.abc import Callable

from turnwise.cli.vectors.case import Refused
from turnwise.cli.vectors.estimators import Case, Figures, as_figures, by_registry, figures_of, run, table
from turnwise.cli.vectors.shapes import entry_of, ragged


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
    result = run(case, entry_of(case.method), steps, case.options("gamma", "ddof", "eps"))
    return {"advantage": lambda: ragged(result.values, [len(row) for row in rewards])}


def _gdpo(case: Case) -> Figures:
    words = {"tokens": "tokens", "all tokens of the batch": "tokens", "samples": "samples"}
    over = case.hyper.get("whiten", "samples" if case.column("tokens") is None else "tokens")
    if over not in words:
        raise Refused(f"whiten={over!r}; understood are {', '.join(map(repr, words))}")
    steps = table(case)
    options = {"singleton": "raw", **case.options("weights", "eps", "ddof", "singleton"), "over": words[over]}
    result = run(case, entry_of("gdpo"), steps, options)
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
    found = case.use(entry_of("spo_single_stream").function)(steps, state=state, **options)
    after = np.array([found.state[task] for task in range(count)])
    return {
        **figures_of(case, steps, found, options),
        "value": lambda: found.parts["baseline"],
        "alpha_new": lambda: after[:, 0],
        "beta_new": lambda: after[:, 1],
    }


def _unlikely(case: Case) -> Figures:
    from turnwise.credit.blocks import compact
    from turnwise.credit.outcome.unlikely import reshaped

    figures = by_registry(case)
    steps = table(case)

    def lowered() -> object:
        return reshaped(steps.reward, steps.column("logprob"), compact(steps.task), case.hyper.get("beta", 0.25))

    return {**figures, "reshaped": lowered}


def _psr_nsr(case: Case) -> Figures:
    """All three forms."""
    steps = table(case)
    entry, lam = entry_of("psr_nsr"), case.hyper.get("lam", 0.1)
    forms = ("psr", "nsr", "weighted")
    return as_figures({form: run(case, entry, steps, {"form": form, "lam": lam}).values for form in forms})


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


METHODS: dict[str, Callable[[Case], Figures]] = {
    "reinforce_pp": _reinforce_pp,
    "gdpo": _gdpo,
    "bnpo": _bnpo,
    "spo_single_stream": _spo_single_stream,
    "unlikely": _unlikely,
    "psr_nsr": _psr_nsr,
    "xrpo_novelty": _xrpo_novelty,
    "evol": _evol,
}
"""Functions from a case to its figures, by our name of the method."""
