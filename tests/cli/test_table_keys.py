"""Below every table stands what its columns mean: a walk over the columns of what commands print."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from rich.table import Table
from toys.corridor import ID, Corridor
from toys.wanderer import Wanderer

from turncredit.agents.agent import Agent
from turncredit.agents.files.trajectory_files import TrajectoryWriter
from turncredit.agents.rollouts.rollout import rollout
from turncredit.cli.console import VisibleConsole
from turncredit.report.table_columns import TABLES, TableColumn, filled, key_text, markdown_key, page_columns

Call = Any
RULES = {"grpo", "gigpo", "hgpo", "salt", "rtmc"}


class Printed(list[Any]):
    """What was printed, in order: tables, and texts."""

    def unexplained(self) -> list[str]:
        """Return the columns, or rows of rules side by side, whose meaning stands nowhere below their table."""
        missing = []
        for place, shown in enumerate(self):
            if not isinstance(shown, Table):
                continue
            below = " ".join(
                " ".join(str(later) for later in self[place + 1 :] if not isinstance(later, Table)).split()
            )
            heads = [str(column.header) for column in shown.columns]
            if RULES & set(heads):  # a table on its side: its rows are explained
                heads = [heads[0], *(str(cell).strip() for cell in shown.columns[0].cells)]
            names = [head for head in heads if head and head not in RULES]
            missing += [name for name in names if not re.search(rf"(^|; |\. |, ){re.escape(name)}[:,]", below)]
        return missing

    @property
    def tables(self) -> list[Table]:
        return [shown for shown in self if isinstance(shown, Table)]


@pytest.fixture
def printed(monkeypatch: pytest.MonkeyPatch) -> Printed:
    """Everything that is printed through the consoles of the program."""
    found, write = Printed(), VisibleConsole.print

    def record(console: VisibleConsole, *shown: Any, **options: Any) -> None:
        found.extend(shown)
        write(console, *shown, **options)

    monkeypatch.setattr(VisibleConsole, "print", record)
    return found


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Episodes of no run."""
    groups = rollout(Agent(max_turns=8), Wanderer(0.7), ["open-3-1", "fetch-3-1", "open-4-2"], make=Corridor, size=4)
    with TrajectoryWriter(tmp_path / "played.jsonl") as writer:
        for group in groups:
            for trajectory in group.trajectories:
                writer.write(trajectory)
    return tmp_path / "played.jsonl"


@pytest.mark.parametrize("columns", ["60", "80", "200"])
def test_rules_side_by_side(
    turncredit: Call, file: Path, printed: Printed, monkeypatch: pytest.MonkeyPatch, columns: str
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    said = turncredit("credit", file)
    assert said.code == 0, said.err
    assert len(printed.tables) >= 2
    assert printed.unexplained() == []
    text = [line for line in said.out.splitlines() if not line.startswith(("to draw", str(file)))]
    assert max(map(len, text)) <= int(columns)


@pytest.mark.parametrize("columns", ["60", "80", "200"])
def test_rules_against_the_truth(
    turncredit: Call, file: Path, printed: Printed, monkeypatch: pytest.MonkeyPatch, columns: str
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    said = turncredit("credit", file, "--truth", "3", "--policy", "random", f"truth.env={ID}")
    assert said.code == 0, said.err
    assert printed.unexplained() == []
    heads = [str(column.header) for table in printed.tables for column in table.columns]
    assert set(heads) == {"rule", "rank", "true", "vs grpo", "within", "sign", "leak", "error"}
    for table in printed.tables:
        rules = [str(cell) for cell in table.columns[0].cells]
        assert rules[0] == "grpo"
        assert len(rules) == len(set(rules))
    assert "the same as grpo here, but for a positive factor:" in " ".join(said.out.split())
    assert re.search(r"rank correlation|reliability", said.out.splitlines()[-1] + said.out.splitlines()[-2])


def test_rules_with_the_same_numbers_are_one_column(turncredit: Call, file: Path, printed: Printed) -> None:
    said = turncredit("credit", file, "--credit", "grpo,dr_grpo,gigpo", "scale=none")
    assert said.code == 0, said.err
    for table in printed.tables:
        assert [str(column.header) for column in table.columns][1:] == ["grpo", "gigpo"]
    assert "the same numbers as grpo: dr_grpo" in said.out


def test_results_of_players(turncredit: Call, printed: Printed, tmp_path: Path) -> None:
    for name in ("a", "b"):
        out = tmp_path / f"{name}.json"
        assert turncredit("eval", "random", ID, "--episodes", "4", "--output", out, "lengths=[3]").code == 0
    assert turncredit("compare", tmp_path / "a.json", tmp_path / "b.json").code == 0
    assert len(printed.tables) == 3
    assert printed.unexplained() == []


def test_cards(printed: Printed) -> None:
    from turncredit.cli.bench_report import print_card
    from turncredit.cli.compare import print_card_comparison
    from turncredit.evaluation.benchmark_card import compare_cards
    from turncredit.evaluation.shipped_suites import baseline_cards

    cards = [card for card in baseline_cards() if card.suite == "quick"]
    print_card(cards[0], cards)
    names = {card.name for card in cards}
    assert [name for name in printed.unexplained() if name not in names] == []
    printed.clear()
    print_card_comparison(cards[0], cards[1], compare_cards(cards[0], cards[1]))
    assert len(printed.tables) == 1
    assert printed.unexplained() == []


def test_turns(turncredit: Call, file: Path) -> None:
    """Tables of turns are lines of text: each of their heads is explained at the end."""
    for rule in ("gigpo", "hgpo", "salt", "rtmc", "mt_grpo"):
        said = turncredit("show", file, "--credit", rule, "--limit", "1")
        assert said.code == 0, said.err
        header = next(line for line in said.out.splitlines() if line.strip().startswith("turn "))
        key = " ".join(said.out[said.out.rindex("turn: of the episode") :].split())
        explained = re.findall(r"(?:^|; )([\w ]+):", key)
        rest = header
        for name in explained:
            assert name in rest, (rule, name)
            rest = rest.replace(name, "", 1)
        assert not rest.strip(), (rule, rest)


def test_every_column_says_what_it_means() -> None:
    for name, columns in TABLES.items():
        for key, column in columns.items():
            assert column.head, (name, key)
            assert len(column.meaning) > 3, (name, key)
            assert not column.key.endswith("."), (name, key)
    page = page_columns()
    assert {name: set(columns) for name, columns in page.items()} == {
        name: set(columns) for name, columns in TABLES.items()
    }
    assert page["truth"]["rank"] == [TABLES["truth"]["rank"].head, TABLES["truth"]["rank"].key]


def test_keys_as_text() -> None:
    columns = [
        TableColumn("", "nothing"),
        TableColumn("a", "first", "1 is best"),
        TableColumn("b", "second"),
        TableColumn("b", "second"),
    ]
    assert key_text(columns, "More.") == "a: first (1 is best); b: second. More."
    assert markdown_key(columns) == "*a*: first (1 is best); *b*: second.\n"
    assert key_text([], "More.") == "More."
    assert filled({"x": TableColumn("vs {who}", "minus {who}")}, who="grpo")["x"] == TableColumn(
        "vs grpo", "minus grpo"
    )
