"""The cards in docs/cards are what the command writes from their JSON."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

from turncredit.cli.bench_report import markdown
from turncredit.evaluation.benchmark_card import Card
from turncredit.evaluation.shipped_suites import SUITES, baseline_cards

ROOT = Path(__file__).resolve().parents[2]
PLAYERS = ("random", "rule", "expert")
PAGES = sorted((ROOT / "docs/cards").glob("*-*.md"))


def card_of(page: Path) -> Card:
    """The card beside the page; those of the baselines come with the package."""
    beside = page.with_suffix(".json")
    player, _, suite = page.stem.rpartition("-")
    return Card.load(beside if beside.is_file() else SUITES / f"{suite}-{player}.json")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_is_written_from_its_card(page: Path) -> None:
    card = card_of(page)
    assert page.read_text(encoding="utf-8") == markdown(card, baseline_cards(), f"{page.stem}.svg")
    assert page.with_suffix(".svg").is_file()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_card_has_the_panels_of_its_suite_and_no_path_of_a_machine(page: Path) -> None:
    from turncredit.evaluation.shipped_suites import load_suite

    card = card_of(page)
    names = [panel.name for panel in load_suite(card.suite).panels]
    assert [panel.name for panel in card.panels] == [
        name for name in names if name in {one.name for one in card.panels}
    ]
    text = page.read_text(encoding="utf-8")
    assert "/home/" not in text
    assert "/tmp/" not in text


def test_the_index_lists_every_card() -> None:
    """`python scripts/card_index.py` writes it."""
    script = runpy.run_path(str(ROOT / "scripts/card_index.py"))
    assert (ROOT / "docs/cards/README.md").read_text(encoding="utf-8") == script["text"]()
    assert set(script["cards"]()) == {page.stem for page in PAGES}


def test_the_table_of_the_baselines_has_the_numbers_of_their_cards() -> None:
    text = (ROOT / "docs/bench.md").read_text(encoding="utf-8")
    cards = [next(card for card in baseline_cards() if (card.name, card.suite) == (who, "standard")) for who in PLAYERS]
    compared = 0
    for line in text.partition("| panel of `standard` |")[2].partition("| panel of `quick` |")[0].splitlines():
        cells = [cell.strip(" `") for cell in line.split("|")[1:-1]]
        panels = [panel for card in cards for panel in card.panels if cells and panel.name == cells[0]]
        if not panels:
            continue
        rates = [None if panel.result is None else panel.result.summary().success for panel in panels]
        shown = [
            "-"
            if rate is None or rate.value is None
            else f"{100 * rate.value:.1f} [{100 * rate.low:.1f}, {100 * rate.high:.1f}]"
            for rate in rates
        ]
        assert cells[2:5] == shown, cells[0]
        compared += 1
    assert compared == 15
