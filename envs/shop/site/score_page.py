"""A verdict as the rows and bars of the end page for people."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from turnwise.envs.shop.explanation import AttributePart, OptionPart, PricePart, RewardExplanation, TypePart, explain
from turnwise.envs.shop.session import ShopSession

__all__ = ["ScoreExplanation", "ScoreGroup", "ScoreRow", "account"]


@dataclass(frozen=True, slots=True)
class ScoreRow:
    """One thing that was asked for.

    Attributes:
        wanted: what.
        met: whether it was bought.
        note: where it was found, or why it does not count.
    """

    wanted: str
    met: bool
    note: str


@dataclass(frozen=True, slots=True)
class ScoreGroup:
    """Things of one kind that were asked for; each counts alike."""

    name: str
    rows: tuple[ScoreRow, ...]

    @property
    def met(self) -> int:
        """How many of them were bought."""
        return sum(row.met for row in self.rows)


@dataclass(frozen=True, slots=True)
class ScoreExplanation:
    """All that the end page says.

    Attributes:
        verdict: what it is made of.
        headline: the score in a sentence.
        kind: why the factor for the kind of product is what it is.
        groups: attributes, options and price, those that the goal has.
    """

    verdict: RewardExplanation
    headline: str
    kind: str
    groups: tuple[ScoreGroup, ...]


def account(session: ShopSession) -> ScoreExplanation:
    """Return the account of a purchase.

    Args:
        session: one in which something was bought.
    """
    page = session.page
    product = session.shop.product(page.asin)
    verdict = explain(session.shop.reward_function, product, session.goal, session.price(page.asin), dict(page.options))
    groups = (
        ScoreGroup("Attributes", tuple(map(_attribute, verdict.attributes))),
        ScoreGroup("Options", tuple(map(_option, verdict.options))),
        ScoreGroup("Price", (_price(verdict.price),)),
    )
    return ScoreExplanation(
        verdict, _headline(verdict), _kind(verdict.type), tuple(group for group in groups if group.rows)
    )


def _headline(verdict: RewardExplanation) -> str:
    if verdict.reward.total == 1.0:
        return "Exactly what was asked for."
    if verdict.reward.type == 0.0:
        return "Another kind of thing than what was asked for, so that nothing counts."
    lost = verdict.possible - verdict.points
    parts = [f"{lost} of {verdict.possible} wishes not met"] if lost else []
    if verdict.type.value < 1.0:
        parts.append("another kind of thing than what was asked for")
    sentence = ", and ".join(parts)
    return f"{sentence[:1].upper()}{sentence[1:]}."


def _kind(part: TypePart) -> str:
    shared = f"; both titles have {_listed(part.shared)}" if part.shared else ""
    return f"{part.reason[:1].upper()}{part.reason[1:]}{shared}"


def _attribute(part: AttributePart) -> ScoreRow:
    if not part.matched:
        return ScoreRow(part.wanted, False, "not found in title, features, description or attributes")
    note = f"in its {part.where}" if part.where != "attributes" else f"one of its attributes: {part.found}"
    return ScoreRow(part.wanted, True, note)


def _option(part: OptionPart) -> ScoreRow:
    wanted = f"{part.name}: {part.wanted}" if part.name else part.wanted
    return ScoreRow(wanted, part.matched, ", ".join(_about(part)))


def _about(part: OptionPart) -> Iterator[str]:
    if part.matched:
        yield "chosen" if part.chosen == part.wanted else f"fulfilled by {part.chosen}"
        return
    if part.defect:
        yield "chosen, but the rule of the original does not count it"
        return
    yield f"{part.chosen} was chosen" if part.chosen is not None else "nothing was chosen"
    if not part.offered:
        yield "and this product does not offer it"


def _price(part: PricePart) -> ScoreRow:
    if part.bound is None:
        return ScoreRow("at any price", part.matched, f"it cost ${part.paid:,.2f}")
    return ScoreRow(f"at most ${part.bound:,.2f}", part.matched, f"it cost ${part.paid:,.2f}")


def _listed(names: tuple[str, ...]) -> str:
    shown = ", ".join(names[:6])
    return f"{shown} and {len(names) - 6} more" if len(names) > 6 else shown
