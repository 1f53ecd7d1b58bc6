"""docs/sampling.md: its tables are those of the code, and its rule from outside is short and a rule."""

import re
from pathlib import Path

import pytest

from turncredit.credit import BadOption
from turncredit.curriculum.draws import TASK_RULES
from turncredit.curriculum.rule_registry import bound
from turncredit.curriculum.tables import tables
from turncredit.curriculum.task_rules.catalogue import CATALOGUE

PAGE = (Path(__file__).resolve().parents[2] / "docs/sampling.md").read_text(encoding="utf-8")


def test_the_tables_are_those_of_the_code():
    for name, table in tables().items():
        (printed,) = re.findall(rf"<!-- {name} -->\n(.*?)\n?<!-- end -->", PAGE, flags=re.DOTALL)
        assert printed == table, f"write the table of {name} anew, from turncredit.curriculum.tables"


def test_every_task_rule_has_one_line_and_is_spoken_of():
    table, text = tables()["task rules"], PAGE.partition("<!-- end -->")[2]
    for rule in CATALOGUE:
        assert table.count(f"| `{rule.name}` | {rule.title}") == 1
        assert f"`{rule.name}`" in text
        for option in rule.options:
            assert f"`{option}=" in table


def test_the_rule_from_outside(tmp_path, monkeypatch):
    """It is under 40 lines, loads as "module:function", and its options are checked as those of ours are."""
    (code,) = [block for block in re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL) if "def forgotten" in block]
    assert len(code.splitlines()) < 40
    (tmp_path / "outside_rule.py").write_text(code, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    assert bound(TASK_RULES, "outside_rule:forgotten", {"loss": 0.5}).options["loss"] == 0.5
    with pytest.raises(BadOption, match="loss must be a number in"):
        bound(TASK_RULES, "outside_rule:forgotten", {"loss": 0})
