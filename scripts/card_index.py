"""Write docs/cards/README.md: the index of the cards in that folder, and of those that come with the package.

    python scripts/card_index.py

A new card is a JSON file of `turncredit bench` in docs/cards, with the page and the picture that the command wrote.
"""

from __future__ import annotations

from pathlib import Path

from turncredit.evaluation.benchmark_card import Card
from turncredit.evaluation.shipped_suites import SUITES
from turncredit.report.card_index import card_index

CARDS = Path(__file__).resolve().parents[1] / "docs/cards"
HEAD = """# Cards

What players achieve on the suites of [`turncredit bench`](../bench.md). Success is in per cent, the unweighted mean of
the panels that were played; each card has every panel with its interval. Two cards are compared by
`turncredit compare A.json B.json`, paired by task.

To add one, play a suite (`turncredit bench MODEL --suite quick --output NAME-quick`), put `NAME-quick.json`, `.md` and
`.svg` into this folder, run `python scripts/card_index.py`, and open a pull request. A card names its command, its
versions, its machine and the digest of every panel, so anybody can play it again.

"""


def cards() -> dict[str, Card]:
    """Return the cards by the name of their page; those of the baselines come with the package."""
    files = {}
    for page in sorted(path for path in CARDS.glob("*-*.md")):
        player, _, suite = page.stem.rpartition("-")
        beside = page.with_suffix(".json")
        files[page.stem] = beside if beside.is_file() else SUITES / f"{suite}-{player}.json"
    return {name: Card.load(file) for name, file in files.items()}


def text() -> str:
    """Return the page."""
    return HEAD + card_index(cards())


if __name__ == "__main__":
    (CARDS / "README.md").write_text(text(), encoding="utf-8")
