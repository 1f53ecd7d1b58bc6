"""The index of published cards: one row a card, by suite and mean success."""

from __future__ import annotations

from collections.abc import Mapping

from turncredit.evaluation.benchmark_card import Card
from turncredit.report.ablation_tables import grid, per_cent

__all__ = ["card_index"]

_HEAD = ("card", "suite", "panels played", "mean success", "95 % interval", "harness", "played on", "command")


def card_index(cards: Mapping[str, Card]) -> str:
    """Return a Markdown table of cards.

    Args:
        cards: by the name of their page, without its suffix.
    """
    order = sorted(cards, key=lambda name: (cards[name].suite, -_mean(cards[name])[0], name))
    return grid(_HEAD, [_row(name, cards[name]) for name in order])


def _row(name: str, card: Card) -> list[str]:
    value, low, high = _mean(card)
    versions, command = card.about.get("versions", {}), card.about.get("command", "")
    return [
        f"[{card.name}]({name}.md)",
        card.suite,
        f"{len(card.played)} of {len(card.panels)}",
        per_cent(value if card.played else None),
        f"{per_cent(low)} to {per_cent(high)}" if card.played else "–",
        f"turncredit {versions.get('turncredit', '?')}",
        str(card.about.get("finished", ""))[:10],
        f"`{command}`",
    ]


def _mean(card: Card) -> tuple[float, float, float]:
    return card.mean() or (-1.0, -1.0, -1.0)
