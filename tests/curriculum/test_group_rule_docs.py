"""docs/sampling.md, "Which episodes": its table is that of the code, and its rule from outside is short and a rule."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from toys.open_groups import Player

from turncredit.credit import BadOption
from turncredit.curriculum.group_rules.catalogue import CATALOGUE, get_group_rule

PAGE = (Path(__file__).resolve().parents[2] / "docs/sampling.md").read_text(encoding="utf-8")


def short(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        return f"[{', '.join(map(short, value))}]"
    return "none" if value is None else str(value)


def table() -> str:
    """One line a rule, by name, with its options and their defaults."""
    lines = ["| name | method | when | options | checked against |", "|---|---|---|---|---|"]
    for rule in sorted(CATALOGUE, key=lambda rule: rule.name):
        link = f" ([{rule.arxiv}](https://arxiv.org/abs/{rule.arxiv}))" if rule.arxiv else ""
        options = ", ".join(f"`{name}={short(value)}`" for name, value in rule.options.items())
        lines.append(f"| `{rule.name}` | {rule.title}{link} | {rule.use} | {options} | {rule.evidence} |")
    return "\n".join(lines)


def test_the_table_of_group_rules_is_that_of_the_code() -> None:
    (printed,) = re.findall(r"<!-- group rules -->\n(.*?)\n?<!-- end -->", PAGE, flags=re.DOTALL)
    assert printed == table(), "write the table of group rules anew"


def test_every_group_rule_is_spoken_of() -> None:
    text = PAGE.partition("<!-- group rules -->")[2].partition("<!-- end -->")[2]
    assert [rule.name for rule in CATALOGUE if f"`{rule.name}`" not in text] == []


def test_the_group_rule_from_outside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is under 40 lines, loads as "module:function", has checked options, and groups stop growing."""
    (code,) = [block for block in re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL) if "def warmer" in block]
    assert len(code.splitlines()) < 40
    (tmp_path / "outside_group_rule.py").write_text(code, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    rule = get_group_rule("outside_group_rule:warmer", episodes=2)
    assert rule.options["episodes"] == 2
    with pytest.raises(BadOption, match="temperature must be a number"):
        get_group_rule("outside_group_rule:warmer", temperature=0)
    for seed in range(10):
        played = Player(win=0.3, seed=seed).grow(rule, 4)
        assert played.episodes in (4, 6)
        assert played.end.drop == (played.groups[-1].round == 2 and played.groups[-1].even)
