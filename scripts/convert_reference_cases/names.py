"""The names that older files of reference cases use, and turncredit's own: as tables."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Values = dict[str, Any]

COLUMNS = {
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
ROWS = {
    "task_group": "task",
    "step_index": "turn",
    "anchor_obs": "state",
    "is_action_valid": "valid",
    "response_tokens": "tokens",
}
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
"""Beginnings of the names of cases, where they differ from the name of our credit rule."""
_UNITS = {
    **dict.fromkeys(("step rows", "rows", "steps", "step", "turn rows", "turns", "turn"), "turn"),
    **dict.fromkeys(("trajectories", "trajectory", "distinct trajectories", "traj"), "trajectory"),
}
SCALES = {True: "std", False: "none", "mean_std_norm": "std", "mean_norm": "none"}
OPTIONS: dict[str, tuple[str, Mapping[Any, Any] | None]] = {
    "norm_by_std": ("scale", SCALES),
    "mode": ("scale", SCALES),
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
    "D_half": ("half_life", None),
}
"""Hyperparameters of named cases: our option, and our words for their values."""
FIXED: dict[tuple[str, str], tuple[Any, ...]] = {
    ("dr_grpo", "norm_by_std"): (False,),
    ("rloo", "norm_by_std"): (False,),
    ("opo", "norm_by_std"): (False,),
    ("bnpo", "var_ddof"): (1,),
    ("mc_grpo", "median"): ("lower",),
    ("gdpo", "eps_in_sqrt"): (1e-8,),
    ("tempo", "gamma"): (1,),
    ("mapo_dialogue", "singleton_turn_group"): ("zero",),
    ("reinforce_pp", "whiten"): ("all tokens of the batch",),
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
"""Hyperparameters by method that say what our function does anyway, with the values that say so."""
_RAW = ("grpo", "dr_grpo", "tree_grpo", "trloo", "adora", "a_grae", "unlikely", "gdpo", "gigpo", "flow_grpo", "tempo")
DEFAULTS: dict[str, Values] = {
    **{name: {"singleton": "raw"} for name in _RAW},
    "gigpo": {"singleton": "raw", "unit": "turn", "step_unit": "turn"},
    "mapo_dialogue": {"unit": "turn"},
    "mc_grpo": {"clip": 1e308},
    "bnpo": {"low": 0.0, "high": 1.0},
}
"""What the sources do where a case says nothing and our defaults differ."""
FIGURES = {
    **dict.fromkeys(("advantages", "row_advantage", "step_advantage", "token_advantage", "out"), "advantage"),
    **{"step_adv": "step", "number_dropped": "rows_dropped", "value": "baseline", "trajectory_advantage": "episode"},
    **{"turn_z": "turn", "batch_z": "batch", "reward_z": "reward"},
}
INTERMEDIATE = {"bnpo": ("p_mean", "p_var", "a", "b")}
"""Figures on the way to others that are compared, which our function does not return."""
AGGREGATIONS = {
    "dr-grpo-const": "seq-mean-token-sum-norm",
    "dr-grpo-trl": "seq-mean-token-sum-norm-counted",
    "seq-mean": "seq-mean-token-mean",
    "mean": "seq-mean-token-mean-counted",
    "otm": "seq-sum-token-mean",
    "luspo": "seq-mean-token-sum",
}
_CLIP = {"clip_low": 0.2, "clip_high": 0.2}
_BOUNDS = {"lo": "correction_low", "hi": "correction_high"}
_HAPO = {"entropy_pivot": "pivot", "clip_alpha": "alpha", "adv_beta": "beta"}


def _corrected(name: str, bounds: Mapping[str, str] = _BOUNDS) -> tuple[str, Values, Mapping[str, str]]:
    return "ppo_clip", {"clip_low": 0.2, "clip_high": 0.28, "correction": name}, bounds


def _divergence(estimator: str, corrected: bool = False) -> tuple[str, Values, Mapping[str, str]]:
    return "kl_penalty", {"estimator": estimator, "corrected": corrected}, {}


OBJECTIVES: dict[str, tuple[str, Values, Mapping[str, str]]] = {
    "ppo_clip": ("ppo_clip", _CLIP, {}),
    "ppo_clip_higher": ("ppo_clip", {}, {}),
    "dual_clip": ("ppo_clip", {}, {}),
    "ppo_plus_k3": ("ppo_clip", {**_CLIP, "kl_estimator": "k3-unbounded"}, {"beta": "kl"}),
    "gmpo": ("gmpo", {}, {"log_eps_low": "clip_low", "log_eps_high": "clip_high"}),
    "cispo_masked": ("cispo", {"masked": True}, {}),
    "hapo_asym_adaptive_clip": ("hapo", {"released": True}, _HAPO),
    "hapo_full": ("hapo", {"released": True}, _HAPO),
    "hapo_intended_clip": ("hapo", {"released": False}, _HAPO),
    "kl_k1_loss": _divergence("k1"),
    "kl_k2_loss": _divergence("k2"),
    "kl_k3_loss": _divergence("k3"),
    "kl_k3plus_loss": _divergence("k3+"),
    "kl_k3_is_corrected": _divergence("k3-unbounded", corrected=True),
    "kl_cov": ("kl_cov", {}, {"kl_cov_ratio": "share", "ppo_kl_coef": "beta"}),
    "clip_cov": ("clip_cov", {}, {"clip_cov_ratio": "share", "lb": "low", "ub": "high"}),
    "a_lol": ("a_lol", {}, {"ppo_clip": "clip"}),
    "a_lol_seq": ("a_lol_seq", {}, {"ppo_clip": "clip"}),
    "tis_token": _corrected("tis_token"),
    "tis_sequence": _corrected("tis_sequence"),
    "icepop": _corrected("icepop"),
    "mis_sequence": _corrected("mis_sequence"),
    "seq_mask_tis": _corrected("seq_mask_tis"),
    "off_policy_seq_mask": _corrected("off_policy", {"delta": "correction_high"}),
    "decoupled_ppo": ("decoupled", {}, {"behav_cap": "cap", "mode": "over"}),
    "dppo_tv": ("dppo_tv", {}, {"delta_low": "low", "delta_high": "high", "c": "cap"}),
    "llds_regularizer": ("llds", {}, {"lam": "weight"}),
    "dhpo_avg": ("dhpo", {"by_entropy": False}, {"w": "mix"}),
    "dhpo_entropy": ("dhpo", {"by_entropy": True}, {}),
    "etr_micro": ("etr", {"limits": False}, {}),
}
"""Cases of losses whose name or hyperparameters are not our objective's: objective, options, renamed hyperparameters.

All others are of the objective of their own name.
"""
CLIPS = {"eps_low": ("clip_low",), "eps_high": ("clip_high",), "eps": ("clip_low", "clip_high"), "c": ("dual_clip",)}
PAIRS = {"eps_tok": "clip", "eps_seq": "sequence"}
TENSORS = {
    **{"logp_new": "logprobs", "logp_old": "old", "logp_ref": "ref", "logp_rollout": "rollout"},
    **{"entropy": "entropy", "advantages": "advantages", "mask": "mask", "sentence_id": "spans"},
}
HGPO = {"history_length": "history", "length_weight_alpha": "alpha", "base_group": "base"}
"""Parameters of the trainer for HGPO alone."""
ABOUT = {
    *("name", "note", "source", "basis", "params", "steps", "inputs", "hyperparameters", "expected", "batch_id"),
    *(
        "expected_loss",
        "expected_grad",
        "peer_checked",
        "own_formula_agrees",
        "max_rel_diff_to_own_formula",
        "peer_abs_diff",
    ),
}
"""The keys that a case may have, beside those that only describe it."""
