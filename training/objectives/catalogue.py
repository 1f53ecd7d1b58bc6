"""The objectives by name, with what a reader needs to choose one; one line each.

Left out on purpose: options. `Rule.options` has them, and a function's docstring says what they do.
"""

from dataclasses import dataclass
from typing import Any, Literal

from turnwise.training.errors import ConfigError, near
from turnwise.training.objectives.adaptive import dcpo, etr, hapo
from turnwise.training.objectives.correction import CORRECTIONS
from turnwise.training.objectives.covariance import clip_cov, kl_cov
from turnwise.training.objectives.mixed import dhpo, sspo
from turnwise.training.objectives.plain import (
    a_lol,
    a_lol_ref_free,
    a_lol_seq,
    asymre,
    dro,
    kl_penalty,
    llds,
    opmd,
    reinforce,
)
from turnwise.training.objectives.ppo import decoupled, ppo_clip, self_imitation
from turnwise.training.objectives.rule import Rule
from turnwise.training.objectives.sequence import gmpo, gspo, gspo_token, vespo
from turnwise.training.objectives.soft import cispo, dppo_tv, sapo

Evidence = Literal["reference code", "paper", "our reading"]


@dataclass(frozen=True, slots=True)
class Entry:
    """An objective and what is to be known about it.

    Attributes:
        name: the name in a run's file.
        title: the method's full name.
        arxiv: id of the paper; None for a method without one.
        needs: what it reads beyond log-probabilities, advantages and the mask: "ref", "rollout", "entropy".
        evidence: what the formula was checked against: "reference code", the "paper", or "our reading".
        use: one line, when to take it.
        function: (logprobs, old, advantages, mask, *, ref, rollout, entropy, **options) -> (loss, stats).
    """

    name: str
    title: str
    arxiv: str | None
    needs: tuple[str, ...]
    evidence: Evidence
    use: str
    function: Rule

    def __call__(self, *tensors: Any, **options: Any) -> Any:
        """Give loss and stats; see `Rule.__call__`."""
        return self.function(*tensors, **options)


OURS = (
    # Clipped ratios of tokens.
    Entry("ppo_clip", "Proximal Policy Optimization, clipped", "1707.06347", (), "reference code",
          "The default; clip_high above clip_low is DAPO's clip-higher, dual_clip caps bad actions.", ppo_clip),
    Entry("decoupled", "Decoupled PPO (AReaL)", "2505.24298", ("rollout",), "reference code",
          "Samples of an older policy than the one that is updated.", decoupled),
    Entry("self_imitation", "Self-imitation (SPEAR)", "2509.22601", (), "paper",
          "Only what went better than expected, for replayed trajectories.", self_imitation),
    Entry("dcpo", "Dynamic Clipping Policy Optimization", "2509.02333", (), "reference code",
          "Wider bounds for rare tokens; the credit rule dcpo_sas belongs to it.", dcpo),
    Entry("hapo", "Heterogeneous Adaptive Policy Optimization", "2509.16591", ("entropy",), "reference code",
          "Bounds by entropy: wider above where the policy is uncertain, wider below where it is sure.", hapo),
    Entry("etr", "Outcome-guided Elastic Trust Regions", "2601.03723", (), "our reading",
          "Bounds that grow with the advantage.", etr),
    # Ratios of sequences.
    Entry("gspo", "Group Sequence Policy Optimization", "2507.18071", (), "paper",
          "One ratio a sequence; steadier for mixtures of experts.", gspo),
    Entry("gspo_token", "Group Sequence Policy Optimization, token form", "2507.18071", (), "reference code",
          "The same where advantages differ within a sequence, as step-level credit makes them.", gspo_token),
    Entry("gmpo", "Geometric-Mean Policy Optimization", "2507.20673", (), "reference code",
          "Ratios are clipped one by one and then averaged geometrically.", gmpo),
    Entry("sspo", "Sub-Sentence Policy Optimization", "2511.04256", (), "our reading",
          "One ratio a sentence; for an agent, a turn.", sspo),
    Entry("dhpo", "Dynamic Hybrid Policy Optimization", "2601.05607", ("entropy",), "our reading",
          "A mixture of the token's ratio and the sequence's.", dhpo),
    Entry("vespo", "Variational Sequence-level Soft Policy Optimization", "2602.10693", (), "paper",
          "A smooth weight of the whole sequence's ratio.", vespo),
    # Weights in place of a clip.
    Entry("cispo", "Clipped IS-weight Policy Optimization (MiniMax-M1)", "2506.13585", (), "reference code",
          "No token loses its gradient, its weight is bounded.", cispo),
    Entry("sapo", "Soft Adaptive Policy Optimization", "2511.20347", (), "reference code",
          "A soft gate in place of the clip.", sapo),
    Entry("dppo_tv", "Divergence PPO, total variation", "2602.04879", (), "reference code",
          "Bounds on probabilities in place of ratios; rare tokens move freely.", dppo_tv),
    # Against the collapse of entropy.
    Entry("kl_cov", "KL-Cov", "2505.22617", (), "reference code",
          "A penalty on the tokens where log-probability and advantage go together most.", kl_cov),
    Entry("clip_cov", "Clip-Cov", "2505.22617", (), "reference code",
          "Some of those tokens lose their gradient.", clip_cov),
    # Without a region of trust.
    Entry("reinforce", "REINFORCE", None, (), "reference code",
          "The plain policy gradient; one optimiser step a batch.", reinforce),
    Entry("asymre", "Asymmetric REINFORCE", "2506.20520", (), "paper",
          "A lower baseline, so that good actions weigh more than bad ones.", asymre),
    Entry("opmd", "Online Policy Mirror Descent", "2505.17826", (), "paper",
          "A damped policy gradient that never looks at the old policy.", opmd),
    Entry("dro", "Direct Reward Optimization", "2405.19107", (), "reference code",
          "A quadratic pull towards the old policy.", dro),
    Entry("a_lol", "Advantage-Leftover Lunch", "2305.14718", ("ref",), "paper",
          "Offline: raise what was better than the reference.", a_lol),
    Entry("a_lol_seq", "Advantage-Leftover Lunch, token ratios", "2305.14718", ("ref",), "paper",
          "The same with a ratio a token.", a_lol_seq),
    Entry("a_lol_ref_free", "Advantage-Leftover Lunch, no ratio", "2305.14718", (), "paper",
          "The same without a reference.", a_lol_ref_free),
    # Terms taken alone.
    Entry("kl_penalty", "Divergence from the reference", None, ("ref",), "reference code",
          "The divergence alone; beside another objective, take the key kl.", kl_penalty),
    Entry("llds", "Lazy Likelihood Displacement penalty", "2512.04220", (), "reference code",
          "The penalty alone; beside another objective, take the key llds.", llds),
)  # fmt: skip

_BY_NAME = {entry.name: entry for entry in OURS}


def objectives() -> dict[str, Entry]:
    """Give every objective by name, sorted."""
    return dict(sorted(_BY_NAME.items()))


def get(name: str) -> Entry:
    """Give an objective by its name.

    >>> get("gspo").function.options
    {'clip_low': 0.0003, 'clip_high': 0.0004}

    Raises:
        ConfigError: there is none; the message has the near one, or says that it is a correction.
    """
    meant = [one for one in CORRECTIONS if name == one or one.startswith(f"{name}_")]
    if name not in _BY_NAME and meant:
        words = " or ".join(f'correction="{one}"' for one in meant)
        raise ConfigError(f"there is no objective {name!r}, but a correction, which joins any objective: {words}")
    if name not in _BY_NAME:
        raise ConfigError(f"there is no objective {name!r}{near(name, _BY_NAME)}")
    return _BY_NAME[name]
