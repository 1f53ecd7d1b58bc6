"""Names of evaluation, which were once in `turncredit.agents`: whoever looks for them there is told where they are."""

from __future__ import annotations

import re

import pytest

import turncredit.agents
import turncredit.evaluation


@pytest.mark.parametrize("name", turncredit.evaluation.__all__)
def test_a_name_that_moved_says_where_it_is(name: str) -> None:
    where = re.escape(f"{name} is in turncredit.evaluation: from turncredit.evaluation import {name}")
    with pytest.raises(ImportError, match=where):
        exec(f"from turncredit.agents import {name}")
    with pytest.raises(ImportError, match=where):
        getattr(turncredit.agents, name)


def test_another_name_is_unknown() -> None:
    assert not hasattr(turncredit.agents, "Pannel")
    with pytest.raises(ImportError, match="cannot import name 'Pannel'"):
        exec("from turncredit.agents import Pannel")
