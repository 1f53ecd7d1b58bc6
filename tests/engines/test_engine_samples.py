"""What token engines return is checked before it is trained on, by the same rule for every engine."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from turncredit.agents.errors import RequestFailed
from turncredit.agents.prompts.prompt import View
from turncredit.engines.base import Request
from turncredit.engines.token_requests import check_sample

REQUEST = Request("a#0@0", 0, (1,), (), 5, View(start="", observation="", admissible=None, turn=0), max_tokens=4)
BAD: list[tuple[Any, Any, str]] = [
    ([5, 6], [-0.1, math.nan], "the log-probability nan, expected a finite number that is <= 0"),
    ([5, 6], [-0.1, -math.inf], "the log-probability -inf, expected"),
    ([5, 6], [-0.1, math.inf], "the log-probability inf, expected"),
    ([5, 6], [-0.1, 0.5], r"the log-probability 0\.5, expected"),
    ([5, 6], [-0.1, -(10**400)], "the log-probability -1000"),
    ([5, 6], [-0.1, None], "the log-probability None"),
    ([5, 6], [-0.1, "-0.1"], "the log-probability '-0.1'"),
    ([5, 6], [-0.1, False], "the log-probability False"),
    ([5, 6], [-0.1, [1]], "the log-probability of type list"),
    ([5, 300], [-0.1, -0.1], "the token id 300, expected an integer from 0 to 299"),
    ([5, -1], [-0.1, -0.1], "the token id -1, expected"),
    ([5, 2.0], [-0.1, -0.1], r"the token id 2\.0"),
    ([5, "6"], [-0.1, -0.1], "the token id '6'"),
    ([5, True], [-0.1, -0.1], "the token id True"),
    ([5, None], [-0.1, -0.1], "the token id None"),
    ([5, {}], [-0.1, -0.1], "the token id of type dict"),
    ([5] * 5, [-0.1] * 5, "5 token ids, and at most 4 were asked for"),
    ([5, 6], [-0.1], "2 token ids with 1 log-probabilities"),
    ([], [], "0 token ids with 0 log-probabilities"),
]


@pytest.mark.parametrize(("tokens", "logprobs", "why"), BAD)
def test_a_sample_that_cannot_be_trained_on_is_one_failed_request(tokens: Any, logprobs: Any, why: str) -> None:
    with pytest.raises(RequestFailed, match=f"^episode a#0@0: vLLM returned {why}") as caught:
        check_sample(REQUEST, tokens, logprobs, most=4, vocabulary=300, engine="vLLM")
    assert len(str(caught.value)) < 200


def test_a_sound_sample_comes_back_as_plain_numbers() -> None:
    tokens, logprobs = check_sample(
        REQUEST, [np.int64(5), 299], [np.float32(-0.5), 1e-5], most=2, vocabulary=300, engine="vLLM"
    )
    assert (tokens, logprobs) == ((5, 299), (-0.5, 1e-5))
    assert {type(one) for one in (*tokens, *logprobs)} == {int, float}
    assert check_sample(REQUEST, [10**6], [0], most=1)[0] == (10**6,)  # a vocabulary that nobody knows
