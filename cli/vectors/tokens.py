"""Methods of credit.json that work on token ids, masks, or values of tokens."""

from __future__ import annotations

from collections.abc import Callable

from turnwise.cli.vectors.case import Refused
from turnwise.cli.vectors.estimators import Case, Figures, by_registry


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


def _gae(case: Case) -> Figures:
    """Along the tokens of one sequence or of several; with ends of turns on two levels; else turn by turn."""
    import numpy as np

    from turnwise.credit.tokens.gae import bilevel_gae, gae_tokens

    if case.method == "bilevel_gae" and "turn_end" not in case.inputs:
        also = ", not where turns end" if "turn_ends" in case.inputs else ""
        raise Refused(f"bilevel_gae wants the input 'turn_end': 1 at the last token of a turn, else 0{also}")
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


METHODS: dict[str, Callable[[Case], Figures]] = {
    "tempo": _tempo,
    "gae": _gae,
    "bilevel_gae": _gae,
    "whiten": _whiten,
    "hicra": _hicra,
    "ace": _ace,
}
"""Functions from a case to its figures, by our name of the method."""
