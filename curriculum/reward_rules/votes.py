"""Rewards without a label: what the other answers of the group say."""

from __future__ import annotations

import numpy as np

from turncredit.credit.numerics import compact, group_sums
from turncredit.credit.option_checks import check_number
from turncredit.credit.outcome.answers import answer_entropy
from turncredit.credit.outcome.answers import majority as majority_of
from turncredit.credit.steps import Bools, Floats, Ints, Steps, need
from turncredit.curriculum.reward_rules.outcomes import Outcomes


def majority(steps: Steps) -> Steps:
    """Return the table in which an episode earns 1 if its answer is the most frequent one of its group, else 0.

    Equally frequent answers all count. An episode whose last turn is not valid has no answer and no vote.

    Args:
        steps: the table; needs `label`, one answer a trajectory.

    Source: Zuo et al. 2025 (TTRL), arXiv 2504.16084, where the first of equally frequent answers counts alone.
    """
    episodes, label, answered = _answers("majority", steps)
    return episodes.paid(majority_of(episodes.task, label, answered).astype(np.float64))


def frequency(steps: Steps, *, weight: float = 0.75) -> Steps:
    """Return the table in which an episode earns the share of its group that gave its answer, less for a torn group.

        r = n(answer) / n - weight * H / ln(number of answers)        H = -sum over answers of q ln q

    The second term is 0 for a single answer; an episode without an answer earns only it.

    Args:
        steps: the table; needs `label`, one answer a trajectory.
        weight: of the entropy.

    Source: TTRV, arXiv 2510.06783, as a fork of its code has it.
    """
    check_number("weight", weight, 0.0)
    episodes, label, answered = _answers("frequency", steps)
    return episodes.paid(frequencies(episodes.task, label, answered, weight))


def frequencies(task: Ints, label: Ints, answered: Bools, weight: float) -> Floats:
    """Return the reward of each answer, float64 [J].

    >>> votes = np.zeros(4, dtype=int), np.array([0, 0, 1, 2]), np.ones(4, dtype=bool)
    >>> frequencies(*votes, 0.75).round(4).tolist()
    [-0.2098, -0.2098, -0.4598, -0.4598]

    Args:
        task: compact int64 [J], the group of each answer.
        label: int64 [J], code of the answer.
        answered: bool [J]; answers that do not count are False.
        weight: of the entropy.
    """
    reward = np.zeros(len(task))
    rows = np.flatnonzero(answered)
    if not rows.size:
        return reward
    group = compact(task[rows])
    answer = compact(task[rows], label[rows])
    votes, size = np.bincount(answer), np.bincount(group)
    kinds = np.bincount(group[np.unique(answer, return_index=True)[1]], minlength=len(size))
    torn = answer_entropy(group, label[rows]) / np.where(kinds > 1, np.log(np.maximum(kinds, 2)), np.inf)[group]
    reward[rows] = votes[answer] / size[group] - weight * torn
    penalty = np.zeros(int(task.max()) + 1)
    penalty[task[rows]] = -weight * torn
    return np.where(answered, reward, penalty[task])


def con_rag(steps: Steps, *, others: int = 3, order: int = 2) -> Steps:
    """Return the table in which an episode earns how much its answer agrees with those to other wordings.

        r = mean over other wordings, and their answers, of BLEU(answer, their answer)

    Args:
        steps: the table; needs `answer` (text), `wording` and `question`: the same for all wordings of one question.
        others: how many other wordings are compared, in the order of their names; 0: all.
        order: longest n-gram of BLEU.

    Source: Con-RAG (PS-GRPO), arXiv 2510.04392; our reading of a detailed note. Rewards are compared within a wording
    by any rule that compares within tasks. A question with one wording gives no reward.
    """
    check_number("others", others, 0, whole=True)
    check_number("order", order, 1, 4, whole=True)
    need(steps, "con_rag", "answer", "wording", "question")
    episodes = Outcomes("con_rag", steps)
    texts, wordings, questions = (_texts(episodes, name) for name in ("answer", "wording", "question"))
    reward = np.zeros(len(texts))
    for row, (text, wording, question) in enumerate(zip(texts, wordings, questions, strict=True)):
        names = sorted({w for w, q in zip(wordings, questions, strict=True) if q == question and w != wording})
        chosen = names[: others or None]
        scores = [
            bleu(text, other, order)
            for other, w, q in zip(texts, wordings, questions, strict=True)
            if q == question and w in chosen
        ]
        reward[row] = float(np.mean(scores)) if scores else 0.0
    return episodes.paid(reward)


def bleu(text: str, reference: str, order: int = 2) -> float:
    """Return the BLEU score of a text against one reference, with n-grams of at most `order` words.

    >>> bleu("a red cup", "a red cup"), bleu("a red cup", "on the shelf")
    (1.0, 0.0)
    """
    words, others = text.split(), reference.split()
    highest = min(order, len(words), len(others))
    if not highest:
        return float(words == others)
    logs = 0.0
    for n in range(1, highest + 1):
        mine, theirs = _ngrams(words, n), _ngrams(others, n)
        common = sum(min(count, theirs.get(gram, 0)) for gram, count in mine.items())
        if not common:
            return 0.0
        logs += float(np.log(common / sum(mine.values())))
    brevity = min(0.0, 1.0 - len(others) / len(words))
    return float(np.exp(logs / highest + brevity))


def _ngrams(words: list[str], n: int) -> dict[tuple[str, ...], int]:
    counts: dict[tuple[str, ...], int] = {}
    for start in range(len(words) - n + 1):
        gram = tuple(words[start : start + n])
        counts[gram] = counts.get(gram, 0) + 1
    return counts


def diversity(steps: Steps, *, weight: float = 0.1, win: float = 0.5) -> Steps:
    """Return the table with a bonus for winners that are unlike the other winners of their group.

        r + weight * (1 - mean cosine to the other winners)        0 for a single winner

    Args:
        steps: the table; needs `metric`, an embedding of each trajectory.
        weight: of the bonus.
        win: outcome from which an episode counts as won.

    Source: MultiRole-R1, arXiv 2507.20187; our reading of the abstract.
    """
    check_number("weight", weight, 0.0)
    check_number("win", win)
    need(steps, "diversity", "metric")
    episodes = Outcomes("diversity", steps, win)
    vectors = np.asarray(episodes.episodes.of_trajectory("diversity", "metric"), dtype=np.float64)
    if not vectors.size:
        return steps
    vectors = vectors.reshape(len(vectors), -1)
    unit = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
    winners = episodes.won
    total = np.zeros((episodes.groups, unit.shape[1]))
    for column in range(total.shape[1]):
        total[:, column] = group_sums(episodes.task[winners], unit[winners, column], episodes.groups)
    others = episodes.wins() - 1
    near = ((total[episodes.task] - unit) * unit).sum(axis=1) / np.maximum(others, 1)
    return episodes.with_last(np.where(winners & (others > 0), weight * (1.0 - near), 0.0))


def _answers(rule: str, steps: Steps) -> tuple[Outcomes, Ints, Bools]:
    need(steps, rule, "label")
    episodes = Outcomes(rule, steps)
    label = np.asarray(episodes.episodes.of_trajectory(rule, "label"), dtype=np.int64)
    answered = np.ones(len(label), dtype=np.bool_)
    if "valid" in steps:
        answered = np.asarray(episodes.at_last("valid"), dtype=np.bool_)
    return episodes, label, answered


def _texts(episodes: Outcomes, column: str) -> list[str]:
    return [str(text) for text in episodes.at_last(column)]
