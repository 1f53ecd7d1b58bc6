"""The checks of what is given: what they let through, and what their sentences say."""

from __future__ import annotations

from typing import Any

import pytest

from turnwise.envs import UnknownOption
from turnwise.envs.validation import choice, flag, integer, number


def test_what_makes_sense_is_returned():
    assert choice("split", "train", ("train", "held_out")) == "train"
    assert (integer("k", 0), integer("k", 3, 1), integer("k", 9, 1, 9)) == (0, 3, 9)
    assert (number("s", 2, 0, 2), flag("f", True)) == (2.0, True)
    assert isinstance(number("s", 2, 0, 2), float)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: choice("split", "trian", ("train", "test")), "unknown split 'trian'; did you mean 'train'?"),
        (lambda: choice("split", 3, ("train", "test")), "unknown split 3; choose one of: train, test"),
        (lambda: choice("split", [], {"train": 1}), "unknown split []; choose one of: train"),
        (lambda: integer("topk", 0, 1), "topk is 0; it is a whole number, 1 or more"),
        (lambda: integer("topk", True), "topk is True; it is a whole number, 0 or more"),
        (lambda: integer("topk", 2.0, 1, 5000), "topk is 2.0; it is a whole number from 1 to 5,000"),
        (lambda: integer("topk", 6, 1, 5), "topk is 6; it is a whole number from 1 to 5"),
        (lambda: integer("budget", "9", 100, of="signs"), "budget is '9'; it is a whole number of signs, 100 or more"),
        (lambda: number("seconds", 0, 0.1, 600), "seconds is 0; it is a number from 0.1 to 600"),
        (lambda: number("seconds", float("nan"), 0.1, 600), "seconds is nan; it is a number from 0.1 to 600"),
        (lambda: number("seconds", True, 0, 1), "seconds is True; it is a number from 0 to 1"),
        (lambda: flag("strict", 1), "strict is 1; it is True or False"),
    ],
)
def test_what_makes_none_is_refused_in_one_sentence(call: Any, said: str):
    with pytest.raises(UnknownOption) as caught:
        call()
    assert str(caught.value) == said
