"""What environments and samplers report of a turn: whatever passes the door, credit assignment takes."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turncredit.agents.reported_values import FILLED, check_columns, check_number
from turncredit.agents.trajectory import check_extras
from turncredit.credit import Steps
from turncredit.credit.columns import COLUMNS

NUMBERS = st.one_of(st.floats(), st.integers(), st.sampled_from([1e100, -1e100, 1.1e100, 1e308, 2.0**62, 10**400]))
VALUES = st.one_of(NUMBERS, st.booleans(), st.text(max_size=3), st.lists(NUMBERS, max_size=3))
NAMES = st.one_of(st.sampled_from([*COLUMNS, "vaild", "valeu", "states", "mine"]), st.text(max_size=5))


@given(st.dictionaries(NAMES, VALUES, max_size=3), NUMBERS)
def test_what_passes_the_door_fits_into_a_table_of_turns(extras: dict[str, Any], reward: float) -> None:
    try:
        columns = check_columns(check_extras(extras))
        check_number("the reward", reward)
    except (ValueError, TypeError, OverflowError):
        return
    row = dict.fromkeys(FILLED, 0) | {"reward": float(reward), "valid": True, "logprob": -1.0} | columns
    columns_of_one = {name: [value] for name, value in row.items() if name != "duplicate_of_row"}
    assert len(Steps.from_columns(**columns_of_one)) == 1


@pytest.mark.parametrize("value", [math.inf, math.nan, 1.1e100])
def test_numbers_out_of_range_are_refused(value: float) -> None:
    with pytest.raises(ValueError, match="the reward must be"):
        check_number("the reward", value)
