"""Checks of arguments: what they accept, and their messages."""

from __future__ import annotations

from typing import Any

import pytest

from turncredit.envs import UnknownOption
from turncredit.envs.validation import choice, flag, integer, number


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
        (lambda: integer("topk", 0, 1), "topk must be an integer >= 1, got 0"),
        (lambda: integer("topk", True), "topk must be an integer >= 0, got True"),
        (lambda: integer("topk", 2.0, 1, 5000), "topk must be an integer from 1 to 5,000, got 2.0"),
        (lambda: integer("topk", 6, 1, 5), "topk must be an integer from 1 to 5, got 6"),
        (lambda: integer("budget", "9", 100, of="signs"), "budget must be an integer >= 100 (signs), got '9'"),
        (lambda: number("seconds", 0, 0.1, 600), "seconds must be a number from 0.1 to 600, got 0"),
        (lambda: number("seconds", float("nan"), 0.1, 600), "seconds must be a number from 0.1 to 600, got nan"),
        (lambda: number("seconds", True, 0, 1), "seconds must be a number from 0 to 1, got True"),
        (lambda: flag("strict", 1), "strict must be True or False, got 1"),
    ],
)
def test_what_makes_none_is_refused_in_one_sentence(call: Any, said: str):
    with pytest.raises(UnknownOption) as caught:
        call()
    assert str(caught.value) == said
