"""Objectives with one loss for the episodes of a group: winners against losers, pairs, regression on advantages.

An optimizer step has whole groups for them. Their loss is a mean over groups or episodes and not over tokens, so that
aggregations and corrections have nothing to weigh. Episodes without a token that carries loss are not members.
"""

from typing import Literal, get_args

import torch
from torch import Tensor

from turncredit.registry import suggest
from turncredit.training.errors import ConfigError
from turncredit.training.objectives.clipping import Losses, unclipped
from turncredit.training.objectives.function import objective
from turncredit.training.objectives.group_members import GroupMembers
from turncredit.training.objectives.tokens import Tokens

MEAN = "seq-mean-token-mean"
Score = Literal["logL", "ratio"]
Evidence = Literal["ratio", "likelihood"]


@objective(scope="group", aggregation=MEAN, everywhere=True, signed=("win",), whole=True)
def disco(
    tokens: Tokens,
    *,
    score: str = "logL",
    basic: bool = False,
    tau: float | None = None,
    beta: float = 1e3,
    delta: float = 1e-4,
    win: float = 0.5,
) -> Losses:
    """Return how little the score of a group's winners exceeds that of its losers, and a penalty on the divergence.

    s = mean n ("logL") or mean exp(n - o) ("ratio") over the tokens of an episode; for each group
    l = -(mean of s over winners - tau ln mean of exp(s / tau) over losers), or with `basic` the mean of s over losers.
    A group of one class adds 0 and counts. The penalty is sg[beta max(KL - delta, 0)] KL, with the mean KL of
    exp(n - o) - 1 - (n - o) over all tokens of the optimizer step.

    Args:
        tokens: with `outcome` and `group`; advantages are not used.
        score: "logL" or "ratio".
        basic: weigh all losers alike, as disco_b; else the likeliest ones weigh most.
        tau: temperature of these weights, in units of s; None: 10 for "logL", 1 for "ratio".
        beta: strength of the penalty.
        delta: divergence that is free, nats per token.
        win: least outcome of a winner.

    Raises:
        ConfigError: the score is unknown, or tau is 0.

    Source: Li et al. 2025, arXiv 2505.12366, and its code, whose ratio form with tau cannot run.
    """
    _check("disco", "score", score, Score)
    members = GroupMembers.of(tokens)
    won = members.won(win)
    scores = tokens.sequence_mean(tokens.new if score == "logL" else torch.exp(tokens.log_ratio))[members.index]
    tau = (10.0 if score == "logL" else 1.0) if tau is None else tau
    margin = _margin(members, scores, won, torch.ones_like(won), None if basic else _positive("disco", "tau", tau))
    return unclipped(members.of_groups(tokens, -margin) + _divergence_penalty(tokens, beta, delta))


@objective(scope="group", aggregation=MEAN, everywhere=True, signed=("win",), whole=True)
def drpo(
    tokens: Tokens,
    *,
    longest: float = 1024.0,
    decay: float = 0.1,
    tau: float = 10.0,
    beta: float = 1e3,
    delta: float = 1e-4,
    win: float = 0.5,
) -> Losses:
    """Return DisCO's loss with its log-likelihood score, in which short winners weigh most.

    l = -(sum of w s over winners - tau ln mean of exp(s / tau) over losers), with w the softmax of
    (1 - L / longest) / decay over the group's winners, L the episode's number of tokens; else as disco.

    Args:
        tokens: with `outcome` and `group`; advantages are not used.
        longest: tokens; the limit of an episode.
        decay: share of this limit by which an answer may be longer at 1/e of the weight.
        tau: temperature of the losers' weights, in units of s.
        beta: strength of the penalty on the divergence from the old policy.
        delta: divergence that is free, nats per token.
        win: least outcome of a winner.

    Raises:
        ConfigError: longest, decay or tau is 0.

    Source: Li et al. 2025, arXiv 2510.04474, and its code.
    """
    for name, value in (("longest", longest), ("decay", decay)):
        _positive("drpo", name, value)
    members = GroupMembers.of(tokens)
    won = members.won(win)
    length = tokens.sequence_sum(torch.ones_like(tokens.new))[members.index]
    share = (1.0 - length / longest) / decay
    weight = torch.exp(share - members.log_mean_exp(share, won > 0)[members.code])  # of mean 1, as log_mean_exp divides
    margin = _margin(
        members, tokens.sequence_mean(tokens.new)[members.index], won, weight, _positive("drpo", "tau", tau)
    )
    return unclipped(members.of_groups(tokens, -margin) + _divergence_penalty(tokens, beta, delta))


def _margin(members: GroupMembers, scores: Tensor, won: Tensor, weight: Tensor, tau: float | None) -> Tensor:
    """Return by how much winners exceed losers, float [Q]; 0 for a group of one class, NaN for unknown outcomes.

    Args:
        members: the episodes.
        scores: float [P].
        won: float [P], 0 or 1.
        weight: float [P], of mean 1 over the winners of a group.
        tau: temperature of the mean over losers; None: the plain mean.
    """
    good, bad = won > 0, won == 0
    below = members.mean(scores, bad) if tau is None else tau * members.log_mean_exp(scores / tau, bad)
    margin = members.mean(weight * scores, good) - below
    both = (members.sum(good.to(scores.dtype)) > 0) & (members.sum(bad.to(scores.dtype)) > 0)
    return torch.where(both, margin, torch.zeros_like(margin)) + 0.0 * members.sum(won)


def _divergence_penalty(tokens: Tokens, beta: float, delta: float) -> Tensor | float:
    """Return sg[beta max(KL - delta, 0)] KL, 0-dimensional."""
    if not len(tokens):
        return 0.0
    divergence = (torch.exp(tokens.log_ratio) - 1.0 - tokens.log_ratio).mean()
    return (beta * (divergence.detach() - delta).clamp(min=0.0)) * divergence


@objective(scope="group", aggregation=MEAN, everywhere=True, signed=("win",), whole=True)
def pacs(
    tokens: Tokens, *, evidence: str = "ratio", beta: float = 1.0, balanced: bool = True, win: float = 0.5
) -> Losses:
    """Return the cross-entropy of predicting which episodes won from how their log-probabilities have moved.

    rho = beta sum(n - o) ("ratio") or beta mean n ("likelihood") over the episode, psi = rho - mean rho of the
    group's others, l = -c (y ln sigmoid(psi) + (1 - y) ln sigmoid(-psi)) with y = 1 for a win, and
    c = G / (2 number of the group's episodes of that class), 1 where there is one class only. A group of one gives 0.

    Args:
        tokens: with `outcome` and `group`; advantages are not used.
        evidence: "ratio" or "likelihood".
        beta: scale of psi.
        balanced: let winners and losers of a group weigh the same; False: c = 1.
        win: least outcome of a winner.

    Raises:
        ConfigError: the evidence is unknown.

    Source: Li et al. 2025, arXiv 2509.02522, and its code. Group of one: ours, since it has no others.
    """
    _check("pacs", "evidence", evidence, Evidence)
    members = GroupMembers.of(tokens)
    moved = tokens.sequence_sum(tokens.log_ratio) if evidence == "ratio" else tokens.sequence_mean(tokens.new)
    moved, won = beta * moved[members.index], members.won(win)
    size = members.sum(torch.ones_like(won))[members.code]
    others = (members.sum(moved)[members.code] - moved) / (size - 1.0).clamp(min=1.0)
    wins = members.sum(won)[members.code]
    own = torch.where(won > 0, wins, size - wins)
    weight = torch.where(own < size, size / (2.0 * own), torch.ones_like(own)) if balanced else torch.ones_like(own)
    score = moved - others
    losses = weight * (torch.stack([torch.zeros_like(score), score]).logsumexp(0) - won * score)
    return unclipped(members.of_sequences(tokens, torch.where(size > 1, losses, torch.zeros_like(losses))))


@objective(scope="group", aggregation=MEAN, everywhere=True, whole=True)
def p3o(tokens: Tokens, *, clip_low: float = 0.2, clip_high: float = 0.2, joint: bool = False) -> Losses:
    """Return the policy gradient of comparing the episodes of a group pair by pair.

    rho = sum(n - o) over an episode, w = sg[clip(exp(rho_i)) clip(exp(rho_j))], or with `joint`
    sg[clip(exp(rho_i + rho_j))], between 1 - clip_low and 1 + clip_high; l = -w (E_i - E_j) (rho_i - rho_j) / 2, the
    mean over the pairs of each group, then over groups. Adding a constant to the outcomes changes nothing. At the old
    policy, the gradient is G / (G - 1) times that of -mean of (E - mean E) rho. A group of one gives 0.

    Args:
        tokens: with `outcome` and `group`; advantages are not used.
        clip_low: a ratio's lower bound is 1 - clip_low.
        clip_high: its upper bound is 1 + clip_high.
        joint: clip the product of the two ratios, and not each of them.

    Source: Our reading of Wu et al. 2023, arXiv 2310.00212, from memory; that clipped weights keep their gradient is
    ours.
    """
    members = GroupMembers.of(tokens)
    moved = tokens.sequence_sum(tokens.log_ratio)[members.index]
    first, second = members.pairs()

    def bounded(log_ratio: Tensor) -> Tensor:
        return torch.exp(log_ratio.detach()).clamp(1.0 - clip_low, 1.0 + clip_high)

    both = bounded(moved[first] + moved[second]) if joint else bounded(moved[first]) * bounded(moved[second])
    losses = -0.5 * both * (members.outcome[first] - members.outcome[second]) * (moved[first] - moved[second])
    count = losses.new_zeros(members.groups).index_add(0, members.code[first], torch.ones_like(losses))
    total = losses.new_zeros(members.groups).index_add(0, members.code[first], losses)
    return unclipped(members.of_groups(tokens, total / count.clamp(min=1.0) + 0.0 * members.sum(moved)))


@objective(scope="group", aggregation=MEAN, everywhere=True, whole=True)
def reg_grpo(tokens: Tokens, *, eps: float = 0.1) -> Losses:
    """Return the squared distance of advantages from how far, relative to its group, each episode has moved.

    rho = sum(n - o) over an episode, l = (A - (rho - mean) / (std + eps))^2 with the mean and std (ddof 1) of rho over
    the group, and the mean A of the episode's tokens. At the old policy the slope is 1 / eps.

    Args:
        tokens: with `group`; advantages divided by the group's spread, as of grpo.
        eps: nats; how far episodes must move before only their order counts.

    Raises:
        ConfigError: eps is 0.

    Source: Our reading of a note of Park et al. 2025, arXiv 2506.07464. eps 0.1 is ours: at 1e-6 the first step would
    be a million times as large.
    """
    _positive("reg_grpo", "eps", eps)
    members = GroupMembers.of(tokens)
    moved = tokens.sequence_sum(tokens.log_ratio)[members.index]
    size = members.sum(torch.ones_like(moved))
    distance = moved - members.mean(moved)[members.code]
    variance = members.sum(distance.square()) / (size - 1.0).clamp(min=1.0)
    some = variance > 0  # the root has no slope at zero
    spread = torch.where(some, torch.where(some, variance, torch.ones_like(variance)).sqrt(), 0.0 * variance)
    expected = tokens.sequence_mean(tokens.advantages)[members.index]
    return unclipped(members.of_sequences(tokens, (expected - distance / (spread[members.code] + eps)).square()))


@objective(scope="group", aggregation=MEAN, everywhere=True, whole=True)
def grao(tokens: Tokens, *, beta: float = 0.5, gap: float = 0.6) -> Losses:
    """Return the likelihood of episodes and of a teacher's answer, each times its advantage, and of their difference.

    s = mean n over an episode, A = (E - mean) / std (ddof 0) over the policy's episodes of the group, A_y and s_y the
    same of the teacher's answer (their means where there are several), and for each group
    l = -(mean A s + beta A_y s_y + gap mean A (s - s_y)). Without spread A and A_y are 0.

    Args:
        tokens: with `outcome`, `group` and `source`; advantages are not used. A group without an answer of a teacher
            has the first and the last term only, since mean A is 0.
        beta: weight of imitation.
        gap: weight of the difference; since mean A = 0, it adds gap mean A s.

    Source: arXiv 2508.07750. Its text leaves open whether the mean and std include the teacher's answer; here they do
    not.
    """
    tokens.need("source")
    members = GroupMembers.of(tokens)
    scores = tokens.sequence_mean(tokens.new)[members.index]
    advantages = members.normalised(~members.teacher)
    own = members.mean(advantages * scores, ~members.teacher)
    balance = members.mean(advantages, ~members.teacher)
    taught = members.mean(advantages * scores, members.teacher)
    answer = members.mean(scores, members.teacher)
    return unclipped(members.of_groups(tokens, -(own + beta * taught + gap * (own - balance * answer))))


def _check(name: str, option: str, value: str, kind: object) -> None:
    """Raise ConfigError for a value that the option does not have."""
    if value not in get_args(kind):
        raise ConfigError(f"{name}: unknown option {option}={value!r}{suggest(value, get_args(kind))}")


def _positive(name: str, option: str, value: float) -> float:
    """Return an option, or raise ConfigError if it is 0."""
    if value <= 0:
        raise ConfigError(f"{name}: option {option!r} must be > 0, got {value}")
    return value
