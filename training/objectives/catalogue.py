"""The objectives by name, with what a reader needs to choose one; one line each.

An installed package adds its own through an entry point in the group `turncredit.objectives`. Options are documented in
the docstring of each function; `ObjectiveFunction.options` lists them with their defaults.
"""

from dataclasses import dataclass, replace
from typing import Any, Literal

from turncredit.registry import CannotLoad, Registry, UnknownName
from turncredit.training.errors import ConfigError
from turncredit.training.objectives.adaptive_bounds import dcpo, etr, hapo
from turncredit.training.objectives.correction import CORRECTIONS
from turncredit.training.objectives.entropy_collapse import aepo, clip_cov, kl_cov, ter
from turncredit.training.objectives.function import ObjectiveFunction
from turncredit.training.objectives.group_losses import disco, drpo, grao, p3o, pacs, reg_grpo
from turncredit.training.objectives.own_objectives import tried
from turncredit.training.objectives.policy_gradient import (
    a_lol,
    a_lol_ref_free,
    a_lol_seq,
    asymre,
    dro,
    kl_penalty,
    llds,
    opmd,
    otr,
    rec,
    reinforce,
    rover,
)
from turncredit.training.objectives.ppo import ampo, decoupled, ppo_clip, rl_plus, self_imitation
from turncredit.training.objectives.sequence_ratios import dhpo, gmpo, gspo, gspo_token, sspo, vespo
from turncredit.training.objectives.soft_clipping import cispo, dppo_tv, sapo

Evidence = Literal["reference code", "paper", "our reading"]
OlderSamples = Literal["ratio", "as fresh", "not"]


@dataclass(frozen=True, slots=True)
class ObjectiveInfo:
    """An objective, with what a reader needs to choose it.

    Attributes:
        name: the name in a run's file.
        title: the method's full name.
        arxiv: id of the paper; None for a method without one.
        needs: further tensors that it reads, or that an option of it reads: "ref", "rollout", "entropy",
            "mean_logprob", "old_mean_logprob", "outcome", "group", "source".
        evidence: what the formula was checked against: "reference code", the "paper", or "our reading" of an abstract.
        use: when to use it, in one line.
        function: (logprobs, old, advantages, mask, *, ref, rollout, entropy, **options) -> (loss, stats).
        older: how it treats samples of an older policy: with a "ratio" to the old policy, "as fresh" by its authors'
            design, or "not" at all: it is only right for samples of the policy that is updated.
    """

    name: str
    title: str
    arxiv: str | None
    needs: tuple[str, ...]
    evidence: Evidence
    use: str
    function: ObjectiveFunction
    older: OlderSamples = "ratio"

    def __call__(self, *tensors: Any, **options: Any) -> Any:
        """Return loss and statistics; see `ObjectiveFunction.__call__`."""
        return self.function(*tensors, **options)


BUILTIN = (
    # Clipped ratios of tokens.
    ObjectiveInfo("ppo_clip", "Proximal Policy Optimization, clipped", "1707.06347", (), "reference code",
          "The default; clip_high above clip_low is DAPO's clip-higher, dual_clip caps bad actions.", ppo_clip),
    ObjectiveInfo("decoupled", "Decoupled PPO (AReaL)", "2505.24298", ("rollout",), "reference code",
          "For samples of an older policy than the one that is updated.", decoupled),
    ObjectiveInfo("self_imitation", "Self-imitation (SPEAR)", "2509.22601", (), "paper",
          "Only actions that went better than expected, for replayed trajectories.", self_imitation),
    ObjectiveInfo("dcpo", "Dynamic Clipping Policy Optimization", "2509.02333", (), "reference code",
          "Wider bounds for rare tokens; use it with the credit rule dcpo_sas.", dcpo),
    ObjectiveInfo("hapo", "Heterogeneous Adaptive Policy Optimization", "2509.16591", ("entropy",), "reference code",
          "Bounds by entropy: a wider upper one where the policy is uncertain, else a wider lower one.", hapo),
    ObjectiveInfo("etr", "Outcome-guided Elastic Trust Regions", "2601.03723", (), "our reading",
          "Bounds that grow with the advantage.", etr),
    # Ratios of sequences.
    ObjectiveInfo("gspo", "Group Sequence Policy Optimization", "2507.18071", (), "paper",
          "One ratio per sequence; more stable for mixture-of-experts models.", gspo),
    ObjectiveInfo("gspo_token", "Group Sequence Policy Optimization, token form", "2507.18071", (), "reference code",
          "The same for advantages that differ within a sequence, as those of step-level credit do.", gspo_token),
    ObjectiveInfo("gmpo", "Geometric-Mean Policy Optimization", "2507.20673", (), "reference code",
          "Ratios are clipped one by one and then averaged geometrically.", gmpo),
    ObjectiveInfo("sspo", "Sub-Sentence Policy Optimization", "2511.04256", (), "our reading",
          "One ratio per sentence; for an agent, per turn.", sspo),
    ObjectiveInfo("dhpo", "Dynamic Hybrid Policy Optimization", "2601.05607", ("entropy",), "our reading",
          "A mixture of token ratio and sequence ratio.", dhpo),
    ObjectiveInfo("vespo", "Variational Sequence-level Soft Policy Optimization", "2602.10693", (), "paper",
          "A smooth weight of the sequence's product ratio.", vespo),
    # Weights instead of a clip.
    ObjectiveInfo("cispo", "Clipped IS-weight Policy Optimization (MiniMax-M1)", "2506.13585", (), "reference code",
          "No token loses its gradient; its weight is bounded.", cispo),
    ObjectiveInfo("sapo", "Soft Adaptive Policy Optimization", "2511.20347", (), "reference code",
          "A soft gate instead of the clip.", sapo),
    ObjectiveInfo("dppo_tv", "Divergence PPO, total variation", "2602.04879", (), "reference code",
          "Bounds on probabilities instead of ratios; rare tokens can change freely.", dppo_tv),
    # Against the collapse of entropy.
    ObjectiveInfo("kl_cov", "KL-Cov", "2505.22617", (), "reference code",
          "A penalty on the tokens with the highest covariance of log-probability and advantage.", kl_cov),
    ObjectiveInfo("clip_cov", "Clip-Cov", "2505.22617", (), "reference code",
          "Some of those tokens lose their gradient.", clip_cov),
    ObjectiveInfo("ter", "Targeted Entropy Regularization (Confucius3-Math)", "2506.18330", ("entropy",), "paper",
          "Keeps the mean entropy near a target, from above and below.", ter),
    ObjectiveInfo("aepo", "Agentic Entropy-Balanced Policy Optimization, its loss", "2510.14545", ("entropy",),
          "our reading", "Good tokens above the clip keep a bounded gradient; uncertain tokens weigh more.", aepo),
    # Without a trust region.
    ObjectiveInfo("reinforce", "REINFORCE", None, (), "reference code",
          "The plain policy gradient; use one optimizer step per batch.", reinforce, older="not"),
    ObjectiveInfo("asymre", "Asymmetric REINFORCE", "2506.20520", (), "paper",
          "A lower baseline: good actions weigh more than bad ones; made for older samples.", asymre, older="as fresh"),
    ObjectiveInfo("opmd", "Online Policy Mirror Descent", "2505.17826", (), "paper",
          "A damped policy gradient that does not use the old policy; made for older samples.", opmd,
          older="as fresh"),
    ObjectiveInfo("dro", "Direct Reward Optimization", "2405.19107", (), "reference code",
          "A quadratic penalty on the distance from the old policy.", dro),
    ObjectiveInfo("a_lol", "Advantage-Leftover Lunch", "2305.14718", ("ref",), "paper",
          "Offline: increases the likelihood of what was better than the reference.", a_lol, older="as fresh"),
    ObjectiveInfo("a_lol_seq", "Advantage-Leftover Lunch, token ratios", "2305.14718", ("ref",), "paper",
          "The same with one ratio per token.", a_lol_seq, older="as fresh"),
    ObjectiveInfo("a_lol_ref_free", "Advantage-Leftover Lunch, no ratio", "2305.14718", (), "paper",
          "The same without a reference.", a_lol_ref_free, older="as fresh"),
    ObjectiveInfo("rec", "Group-relative REINFORCE with clipping (REC)", "2509.24203", (), "our reading",
          "The policy gradient with the clip as a mask, without a ratio; made for older samples.", rec,
          older="as fresh"),
    ObjectiveInfo("rover", "Random Policy Valuation (ROVER)", "2509.24981", ("mean_logprob", "old_mean_logprob"),
          "paper", 'Regresses token values without a clip; needs dr_grpo and objective.old_logprobs = "recomputed".',
          rover, older="as fresh"),
    # Whole groups: winners against losers.
    ObjectiveInfo("disco", "Discriminative Constrained Optimization", "2505.12366", ("outcome", "group"), "paper",
          "Separates winners from losers without a clip; tasks of every difficulty count alike.", disco),
    ObjectiveInfo("drpo", "Decoupled Reward Policy Optimization", "2510.04474", ("outcome", "group"), "paper",
          "The same for short answers: a long winner weighs less, and never counts as a loser.", drpo),
    ObjectiveInfo("pacs", "imPlicit Actor Critic coupling via Supervised learning", "2509.02522", ("outcome", "group"),
          "paper", "Learns to predict which episodes win; bounded gradients.", pacs),
    ObjectiveInfo("p3o", "Pairwise Proximal Policy Optimization", "2310.00212", ("outcome", "group"), "our reading",
          "Compares episodes in pairs; a constant added to all rewards changes nothing.", p3o),
    ObjectiveInfo("reg_grpo", "Regressive GRPO (DeepVideo-R1)", "2506.07464", ("group",), "our reading",
          "Regresses relative log-ratios on the advantages; no clip.", reg_grpo),
    # Episodes of a teacher.
    ObjectiveInfo("ampo", "Adaptive Multi-Guidance Policy Optimization", "2510.02227", ("source",), "paper",
          "For groups to which answers of teachers were added where all had lost.", ampo),
    ObjectiveInfo("rl_plus", "RL-PLUS, hybrid-policy optimization", "2508.00222", ("source",), "paper",
          'For groups with an external answer each; needs objective.old_logprobs = "recomputed".', rl_plus),
    ObjectiveInfo("grao", "Group Relative Alignment Optimization", "2508.07750", ("outcome", "group", "source"),
          "paper", "Imitates a reference answer as long as it is better than the group.", grao, older="as fresh"),
    ObjectiveInfo("otr", "One-Token Rollout", "2509.26313", (), "our reading",
          "Imitation that spares unlikely tokens; in the warm start, set imitation.loss.", otr, older="as fresh"),
    # Single terms.
    ObjectiveInfo("kl_penalty", "Divergence from the reference", None, ("ref",), "reference code",
          "The divergence alone; to add it to another objective, set objective.kl.", kl_penalty),
    ObjectiveInfo("llds", "Lazy Likelihood Displacement penalty", "2512.04220", (), "reference code",
          "The penalty alone; to add it to another objective, set objective.llds.", llds),
)  # fmt: skip


def _adapt(name: str, loaded: Any) -> ObjectiveInfo:
    """Return the entry of an objective from outside: an ObjectiveInfo, or a function from tokens to losses."""
    if isinstance(loaded, ObjectiveInfo):
        function, needs = tried(loaded.function, loaded.needs)
        return replace(loaded, name=name, function=function, needs=needs)
    if not callable(loaded):
        raise TypeError(f"{name!r} must be an ObjectiveInfo, or a function from tokens to losses; got {loaded!r}")
    function, needs = tried(loaded)
    title = (function.__doc__ or name).strip().splitlines()[0]
    return ObjectiveInfo(name, title, None, needs, "our reading", f"from {function.__module__}", function)


REGISTRY: Registry[ObjectiveInfo] = Registry("objective", group="turncredit.objectives", adapt=_adapt)
for _info in BUILTIN:
    REGISTRY.register(_info.name, _info)


def objectives() -> dict[str, ObjectiveInfo]:
    """Return every objective by name, sorted."""
    return REGISTRY.items()


def get(name: str) -> ObjectiveInfo:
    """Return an objective by its name: a registered one, one of an installed package, or "module:function".

    >>> get("gspo").function.options
    {'clip_low': 0.0003, 'clip_high': 0.0004}

    Raises:
        ConfigError: the name is unknown, belongs to a correction, or cannot be loaded.
    """
    try:
        return REGISTRY.get(name)
    except UnknownName as error:
        corrections = [
            correction for correction in CORRECTIONS if name == correction or correction.startswith(f"{name}_")
        ]
        if corrections:
            keys = " or ".join(f'objective.correction = "{correction}"' for correction in corrections)
            raise ConfigError(f"{name!r} is not an objective but a correction; set {keys}") from None
        raise ConfigError(str(error)) from None
    except (CannotLoad, TypeError) as error:
        raise ConfigError(str(error)) from error
