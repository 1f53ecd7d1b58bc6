"""Which of our objectives a case of the reference vectors is about, and with which options.

The vectors (docs/vectors.md) name cases and hyperparameters as their sources do; here they become the name and options
of `turnwise.training.objectives`:

    name, options = objective_of_case(case["name"], case["hyperparameters"])
    loss, stats = get(name)(new, old, advantages, mask, ref=..., rollout=..., entropy=..., spans=..., **options)

A hyperparameter that nothing here reads is refused by name: it might be of another formula, or change this one. Those
that only describe a formula, in words or as a constant that ours has too, are listed here.

Left out on purpose: reading files and comparing numbers, which is the command's work.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from turnwise.training.errors import ConfigError, near

Options = dict[str, Any]

_MODES = {
    "dr-grpo-const": "seq-mean-token-sum-norm",
    "dr-grpo-trl": "seq-mean-token-sum-norm-counted",
    "seq-mean": "seq-mean-token-mean",
    "seq-mean-token-sum-norm": "seq-mean-token-sum-norm",
    "mean": "seq-mean-token-mean-counted",
    "otm": "seq-sum-token-mean",
    "luspo": "seq-mean-token-sum",
}

_DESCRIBED: dict[tuple[str, str], tuple[object, ...]] = {
    ("cispo", "variant"): ("clamp (verl)", "TRL: clamp(r,max=epsilon_high) where epsilon_high IS the cap"),
    ("cispo_masked", "variant"): ("Trinity-RFT: additionally drops PPO-clipped tokens",),
    ("hapo_full", "adaptive_advantage"): (True,),
    ("kl_k3_loss", "clamp_logdiff"): (20,),
    ("kl_k3_loss", "clamp_value"): (10,),
    ("clip_cov", "selection"): ("all eligible tokens (ratio=1 removes randomness)",),
    ("a_lol", "ratio"): ("full sequence pi/pi_ref",),
    ("a_lol_seq", "ratio"): ("per token",),
    ("dhpo_entropy", "w"): ("minmax-normalised token entropy over batch, sg",),
    ("sspo", "ratio"): ("exp(mean_t in sentence log-ratio), GSPO-token straight-through",),
    ("etr_micro", "bound"): ("eps*(1+alpha*tanh|A_i|)",),
}
"""What a case may say of its formula in words, or as a constant that ours has too."""


class NoObjective(ConfigError):
    """A case of vectors is about a method that nobody here implements."""


class _Noted(Mapping[str, Any]):
    """Hyperparameters that know which of them were read; asking whether one is there is not reading it."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self._values, self.read = values, set[str]()

    def __getitem__(self, name: str) -> Any:
        value = self._values[name]
        self.read.add(name)
        return value

    def __contains__(self, name: object) -> bool:
        return name in self._values

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def unread(self) -> list[str]:
        return [name for name in self._values if name not in self.read]


def _mode(given: Mapping[str, Any]) -> Options:
    """The aggregation and its constant."""
    text = given.get("agg")
    if text is None:
        return {}
    word = str(text).split()[0]
    mode = _MODES.get(word.lower(), word)
    if "norm" not in mode.split("-"):
        return {"aggregation": mode}
    return {"aggregation": mode, **_renamed(given, norm="loss_scale_factor"), **_renamed(given, norm="L")}


def _renamed(given: Mapping[str, Any], **names: str) -> Options:
    """The hyperparameters that are there, by our names."""
    return {ours: given[theirs] for ours, theirs in names.items() if given.get(theirs) is not None}


def _bounds(given: Mapping[str, Any]) -> Options:
    both = {"clip_low": given["eps"], "clip_high": given["eps"]} if "eps" in given else {}
    return both | _renamed(given, clip_low="eps_low", clip_high="eps_high", dual_clip="c")


def _ppo(given: Mapping[str, Any]) -> Options:
    return {"clip_low": 0.2, "clip_high": 0.2} | _bounds(given)


def _corrected(name: str) -> Callable[[Mapping[str, Any]], tuple[str, Options]]:
    """PPO's clip under a correction; the bounds of the clip are 0.2 and 0.28 where a case says none."""

    def translate(given: Mapping[str, Any]) -> tuple[str, Options]:
        options = {"clip_low": 0.2, "clip_high": 0.28} | _bounds(given)
        bounds = _renamed(given, correction_low="lo", correction_high="hi")
        if name == "off_policy":
            bounds = _renamed(given, correction_high="delta")
        return "ppo_clip", {**options, "correction": name, **bounds}

    return translate


def _divergence(estimator: str, corrected: bool = False) -> Callable[[Mapping[str, Any]], tuple[str, Options]]:
    return lambda given: ("kl_penalty", {"estimator": estimator, "corrected": corrected})


def _cispo(given: Mapping[str, Any]) -> tuple[str, Options]:
    if "cap" in given:
        return "cispo", {"clip_low": 1.0, "clip_high": given["cap"] - 1.0}
    return "cispo", _bounds(given)


def _hapo(given: Mapping[str, Any], released: bool) -> tuple[str, Options]:
    own = _renamed(given, pivot="entropy_pivot", alpha="clip_alpha", beta="adv_beta")
    return "hapo", {**_bounds(given), **own, "released": released}


def _dhpo(given: Mapping[str, Any], by_entropy: bool) -> tuple[str, Options]:
    options: Options = {"by_entropy": by_entropy}
    for ours, theirs in (("clip", "eps_tok"), ("sequence", "eps_seq")):
        if theirs in given:
            options |= {f"{ours}_low": given[theirs][0], f"{ours}_high": given[theirs][1]}
    return "dhpo", options if by_entropy else {**options, **_renamed(given, mix="w")}


def _plus_k3(given: Mapping[str, Any]) -> tuple[str, Options]:
    return "ppo_clip", {**_ppo(given), **_renamed(given, kl="beta"), "kl_estimator": "k3-unbounded"}


def _decoupled(given: Mapping[str, Any]) -> tuple[str, Options]:
    return "decoupled", {**_bounds(given), **_renamed(given, cap="behav_cap", over="mode")}


def _llds(given: Mapping[str, Any]) -> tuple[str, Options]:
    gate = {"gate": str(given["gate"]).split()[0]} if "gate" in given else {}
    return "llds", {**_renamed(given, weight="lam"), **gate}


def _clip_cov(given: Mapping[str, Any]) -> tuple[str, Options]:
    return "clip_cov", {**_bounds(given), **_renamed(given, share="clip_cov_ratio", low="lb", high="ub")}


def _same(name: str, **names: str) -> Callable[[Mapping[str, Any]], tuple[str, Options]]:
    """An objective whose options are those bounds and these renamed hyperparameters."""
    return lambda given: (name, {**_bounds(given), **_renamed(given, **names)})


_CASES: dict[str, Callable[[Mapping[str, Any]], tuple[str, Options]]] = {
    "ppo_clip": lambda given: ("ppo_clip", _ppo(given)),
    "ppo_clip_higher": lambda given: ("ppo_clip", _bounds(given)),
    "dual_clip": lambda given: ("ppo_clip", _bounds(given)),
    "gspo": _same("gspo"),
    "gspo_token": _same("gspo_token"),
    "gmpo": _same("gmpo", clip_low="log_eps_low", clip_high="log_eps_high"),
    "cispo": _cispo,
    "cispo_masked": lambda given: ("cispo", {**_bounds(given), "masked": True}),
    "sapo": _same("sapo", tau_pos="tau_pos", tau_neg="tau_neg"),
    "dcpo": _same("dcpo"),
    "hapo_asym_adaptive_clip": lambda given: _hapo(given, released=True),
    "hapo_full": lambda given: _hapo(given, released=True),
    "hapo_intended_clip": lambda given: _hapo(given, released=False),
    "kl_k1_loss": _divergence("k1"),
    "kl_k2_loss": _divergence("k2"),
    "kl_k3_loss": _divergence("k3"),
    "kl_k3plus_loss": _divergence("k3+"),
    "kl_k3_is_corrected": _divergence("k3-unbounded", corrected=True),
    "ppo_plus_k3": _plus_k3,
    "kl_cov": lambda given: ("kl_cov", _renamed(given, share="kl_cov_ratio", beta="ppo_kl_coef")),
    "clip_cov": _clip_cov,
    "reinforce": _same("reinforce"),
    "asymre": _same("asymre", delta="delta"),
    "opmd": _same("opmd", tau="tau"),
    "dro": _same("dro", beta="beta"),
    "a_lol": _same("a_lol", clip="ppo_clip"),
    "a_lol_seq": _same("a_lol_seq", clip="ppo_clip"),
    "a_lol_ref_free": _same("a_lol_ref_free"),
    "tis_token": _corrected("tis_token"),
    "tis_sequence": _corrected("tis_sequence"),
    "icepop": _corrected("icepop"),
    "mis_sequence": _corrected("mis_sequence"),
    "seq_mask_tis": _corrected("seq_mask_tis"),
    "off_policy_seq_mask": _corrected("off_policy"),
    "decoupled_ppo": _decoupled,
    "dppo_tv": lambda given: ("dppo_tv", _renamed(given, low="delta_low", high="delta_high", cap="c")),
    "llds_regularizer": _llds,
    "vespo": _same("vespo", **{name: name for name in ("k_pos", "lambda_pos", "k_neg", "lambda_neg")}),
    "dhpo_avg": lambda given: _dhpo(given, by_entropy=False),
    "dhpo_entropy": lambda given: _dhpo(given, by_entropy=True),
    "sspo": _same("sspo"),
    "etr_micro": lambda given: ("etr", {**_bounds(given), **_renamed(given, alpha="alpha"), "limits": False}),
}


def objective_of_case(name: str, hyperparameters: Mapping[str, Any]) -> tuple[str, Options]:
    """Give the name and options of the objective that a case of the vectors is about.

    >>> objective_of_case("gspo", {"eps_low": 0.1, "eps_high": 0.2, "agg": "seq-mean"})
    ('gspo', {'clip_low': 0.1, 'clip_high': 0.2, 'aggregation': 'seq-mean-token-mean'})

    Args:
        name: of the case; the ending "_PROPOSAL", which marks what is no one's published formula, is passed over.
        hyperparameters: of the case.

    Returns:
        A name of `objectives()`, and options for it. A case of `sspo` wants its `sentence_id` as `spans`.

    Raises:
        NoObjective: nobody here implements the case.
        ConfigError: a hyperparameter has no counterpart here; the message names it.
    """
    plain = re.sub(r"_PROPOSAL$", "", name, flags=re.IGNORECASE)
    if plain not in _CASES:
        raise NoObjective(f"there is no objective for the case {name!r}{near(plain, _CASES)}")
    given = _Noted(hyperparameters)
    ours, options = _CASES[plain](given)
    options = {**options, **_mode(given)}
    for (method, key), allowed in _DESCRIBED.items():
        if method == plain and key in given and not any(_equal(given[key], one) for one in allowed):
            raise ConfigError(f"{key}={given[key]!r}; ours is {' or '.join(map(repr, allowed))}")
    if given.unread():
        raise ConfigError(f"nothing of ours reads the hyperparameters {', '.join(map(repr, given.unread()))}")
    return ours, options


def _equal(value: object, wanted: object) -> bool:
    """Equal, where 1 and 1.0 are, and 1 and true are not."""
    return value == wanted and isinstance(value, bool) == isinstance(wanted, bool)
