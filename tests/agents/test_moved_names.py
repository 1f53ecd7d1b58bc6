"""Names of evaluation, which were once in `turnwise.agents`: whoever looks for them there is told where they are."""

from __future__ import annotations

import re

import pytest

import turnwise.agents
import turnwise.evaluation


@pytest.mark.parametrize("name", turnwise.evaluation.__all__)
def test_a_name_that_moved_says_where_it_is(name: str) -> None:
    where = re.escape(f"{name} is in turnwise.evaluation: from turnwise.evaluation import {name}")
    with pytest.raises(ImportError, match=where):
        exec(f"from turnwise.agents import {name}")
    with pytest.raises(ImportError, match=where):
        getattr(turnwise.agents, name)


def test_another_name_is_unknown() -> None:
    assert not hasattr(turnwise.agents, "Pannel")
    with pytest.raises(ImportError, match="cannot import name 'Pannel'"):
        exec("from turnwise.agents import Pannel")
