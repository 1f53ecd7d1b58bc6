"""The comparison with the truth in words, and one row for rules that say the same."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from turncredit.credit import Advantages, Steps
from turncredit.credit.truth import Density, Interval, TrueCredit
from turncredit.report.truth_scores import RuleTruth, TruthScores
from turncredit.report.truth_verdict import forks_needed, truth_verdict

STEPS = Steps.from_columns(task=["t"] * 4, trajectory=list("abcd"), turn=[0] * 4, reward=[0.0, 1.0, 0.0, 1.0])
NOTHING = Interval(None, None, None, 4)


@dataclass(frozen=True)
class Said:
    """What is known of a rule: its rank, and its difference to the reference."""

    name: str
    rank: Interval
    difference: Interval | None = None
    same_as: str = ""


def scores(*rules: Said, reliability: float | None = 0.8, spread: float = 1.0, forks: int = 8) -> TruthScores:
    """Scores of rules of which the first is the reference."""
    truth = TrueCredit(
        np.zeros(4), spread * np.arange(4.0), np.full(4, 0.1), np.zeros((2, 4)), np.full(4, forks), max(spread, 1.0)
    )
    made = [
        RuleTruth(
            rule.name,
            {"rank": rule.rank},
            None,
            {} if rule.difference is None else {"rank": rule.difference},
            rule.same_as or rule.name,
            Advantages.of(STEPS, STEPS.reward),
        )
        for rule in rules
    ]
    ranked = sorted(made, key=lambda rule: -(rule.scores["rank"].value or -2.0))
    return TruthScores(
        tuple(ranked), rules[0].name, {}, reliability, Density(0.1, 0.5), 4, 4, 32, False, 1.0, 0.0, truth, STEPS
    )


def at(value: float, half: float | None = 0.05) -> Interval:
    return Interval(value, None, None, 4) if half is None else Interval(value, value - half, value + half, 4)


GRPO = Said("grpo", at(0.2))


def test_the_rule_above_the_reference_is_named_with_its_numbers() -> None:
    found = scores(GRPO, Said("hgpo", at(0.35, 0.07), at(0.15, 0.1)), Said("salt", at(0.3), at(0.1, 0.2)))
    assert truth_verdict(found) == (
        "hgpo is closest to the truth: rank correlation 0.35 [0.28, 0.42], above grpo by 0.15 [0.05, 0.25]."
    )


def test_a_rule_with_a_higher_rank_is_not_named_if_it_may_be_noise() -> None:
    noisy = Said("wild", at(0.6, 0.5), at(0.4, 0.5))
    found = scores(GRPO, noisy, Said("hgpo", at(0.35), at(0.15, 0.1)), Said("rtmc", at(0.3), at(0.1, 0.09)))
    verdict = truth_verdict(found)
    assert verdict.startswith("hgpo is closest")
    assert verdict.endswith("; also above it: rtmc.")
    assert "wild" not in verdict


def test_rules_below_the_reference() -> None:
    below = Said("graft", at(-0.1), at(-0.3, 0.1))
    assert truth_verdict(scores(GRPO, below)) == (
        "No rule is closer to the truth than grpo (grpo: rank correlation 0.20 [0.15, 0.25]). "
        "Below grpo beyond the noise: graft."
    )
    assert truth_verdict(scores(GRPO, below, Said("hgpo", at(0.5), at(0.3, 0.1)))).endswith("beyond the noise: graft.")


def test_within_the_noise() -> None:
    verdict = truth_verdict(scores(GRPO, Said("hgpo", at(0.35), at(0.15, 0.2))))
    assert verdict.startswith("No rule differs from grpo beyond the noise")


@pytest.mark.parametrize(
    ("reliability", "forks", "words"),
    [
        (0.49, 8, "With a reliability of 0.49 the order is unknown; more forks: `--truth 12`."),
        (0.0, 8, "With a reliability of 0.00 the order is unknown; more forks: `--truth 16`."),
        (-0.2, 4, "With a reliability of -0.20 the order is unknown; more forks: `--truth 8`."),
        (None, 2, "With a reliability of unknown the order is unknown; more forks: `--truth 4`."),
    ],
)
def test_too_few_forks(reliability: float | None, forks: int, words: str) -> None:
    found = scores(GRPO, Said("hgpo", at(0.9), at(0.7, 0.1)), reliability=reliability, forks=forks)
    assert truth_verdict(found) == words.replace("a reliability of unknown", "an unknown reliability")


def test_the_advice_reaches_a_reliability_of_a_half() -> None:
    """Spearman and Brown: forks times n turn R into nR / (1 + (n - 1) R)."""
    for reliability in (0.05, 0.2, 0.35, 0.49):
        for forks in (2, 4, 8, 16):
            n = forks_needed(reliability, forks) / forks
            assert n > 1
            assert n * reliability / (1 + (n - 1) * reliability) >= 0.5 - 1e-12


def test_one_rule_and_rules_that_all_say_the_same() -> None:
    assert truth_verdict(scores(GRPO)) == (
        "grpo: rank correlation 0.20 [0.15, 0.25]; `--credit` with several rules compares them."
    )
    assert "the rank is unknown" in truth_verdict(scores(GRPO, reliability=0.1))
    same = truth_verdict(scores(GRPO, Said("rloo", at(0.2), at(0.0), same_as="grpo")))
    assert same == "All rules say the same here: grpo: rank correlation 0.20 [0.15, 0.25]."


def test_no_variance() -> None:
    found = scores(GRPO, Said("hgpo", at(0.35), at(0.15, 0.1)), spread=0.0, reliability=None)
    assert truth_verdict(found).startswith("No turn made a difference in these forks")
    silent = scores(Said("grpo", NOTHING), Said("passk", NOTHING, NOTHING))
    assert truth_verdict(silent) == "No rule tells these turns apart: each says the same of every turn."
    assert "rank correlation" not in truth_verdict(scores(Said("grpo", NOTHING)))
    heard = scores(Said("grpo", NOTHING), Said("hgpo", at(0.3), NOTHING))
    assert truth_verdict(heard) == (
        "grpo says the same of every turn. Of the others, hgpo: rank correlation 0.30 [0.25, 0.35] is the highest."
    )


def test_one_task_gives_no_order() -> None:
    found = scores(Said("grpo", at(0.2, None)), Said("hgpo", at(0.9, None), at(0.7, None)))
    assert truth_verdict(found).startswith("The turns are of one task")


def test_rows_have_the_reference_first_and_equal_rules_once() -> None:
    found = scores(
        Said("grpo", at(0.2)),
        Said("rtmc", at(0.4), at(0.2)),
        Said("rloo", at(0.2), at(0.0), same_as="grpo"),
        Said("graft", at(-0.1), at(-0.3)),
        Said("slea", at(0.4), at(0.2), same_as="rtmc"),
    )
    assert [rule.name for rule in found.rows] == ["grpo", "rtmc", "graft"]
    assert found.same == {"grpo": ["rloo"], "rtmc": ["slea"]}
    content = found.as_dict()
    assert set(content["rules"]) == {"grpo", "rtmc", "rloo", "graft", "slea"}  # type: ignore[call-overload]
    assert content["same_as"]["slea"] == "rtmc"  # type: ignore[index]
    assert content["differences"]["rtmc"]["rank"]["value"] == 0.2  # type: ignore[index]
