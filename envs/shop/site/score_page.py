"""The explanation of a reward as the rows and bars of the end page."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from turncredit.envs.shop.explanation import AttributePart, OptionPart, PricePart, RewardExplanation, TypePart, explain
from turncredit.envs.shop.session import ShopSession

__all__ = ["ScoreExplanation", "ScoreGroup", "ScoreRow", "explain_score"]


@dataclass(frozen=True, slots=True)
class ScoreRow:
    """One requirement of the goal.

    Attributes:
        requirement: the requirement.
        met: whether it is satisfied.
        note: where it was found, or why it does not count.
    """

    requirement: str
    met: bool
    note: str


@dataclass(frozen=True, slots=True)
class ScoreGroup:
    """Requirements of one kind."""

    name: str
    rows: tuple[ScoreRow, ...]

    @property
    def met(self) -> int:
        """Number of satisfied requirements."""
        return sum(row.met for row in self.rows)


@dataclass(frozen=True, slots=True)
class ScoreExplanation:
    """What the end page says.

    Attributes:
        explanation: the explained reward.
        headline: the score in a sentence.
        kind: the reason for the factor of the kind of product.
        groups: attributes, options and price, as far as the goal has them.
    """

    explanation: RewardExplanation
    headline: str
    kind: str
    groups: tuple[ScoreGroup, ...]


def explain_score(session: ShopSession) -> ScoreExplanation:
    """Return the explanation of a session's purchase."""
    page = session.page
    product = session.shop.product(page.asin)
    explanation = explain(
        session.shop.reward_function, product, session.goal, session.price(page.asin), dict(page.options)
    )
    groups = (
        ScoreGroup("Attributes", tuple(map(_attribute, explanation.attributes))),
        ScoreGroup("Options", tuple(map(_option, explanation.options))),
        ScoreGroup("Price", (_price(explanation.price),)),
    )
    return ScoreExplanation(
        explanation, _headline(explanation), _kind(explanation.type), tuple(group for group in groups if group.rows)
    )


def _headline(explanation: RewardExplanation) -> str:
    if explanation.reward.total == 1.0:
        return "Exactly what was asked for."
    if explanation.reward.type == 0.0:
        return "This is another kind of product, so nothing counts."
    lost = explanation.possible - explanation.points
    parts = [f"{lost} of {explanation.possible} requirements not satisfied"] if lost else []
    if explanation.type.value < 1.0:
        parts.append("another kind of product than requested")
    sentence = ", and ".join(parts)
    return f"{sentence[:1].upper()}{sentence[1:]}."


def _kind(part: TypePart) -> str:
    shared = f"; both titles have {_listed(part.shared)}" if part.shared else ""
    return f"{part.reason[:1].upper()}{part.reason[1:]}{shared}"


def _attribute(part: AttributePart) -> ScoreRow:
    if not part.matched:
        return ScoreRow(part.attribute, False, "not found in title, features, description or attributes")
    note = f"in its {part.where}" if part.where != "attributes" else f"one of its attributes: {part.text}"
    return ScoreRow(part.attribute, True, note)


def _option(part: OptionPart) -> ScoreRow:
    label = f"{part.name}: {part.value}" if part.name else part.value
    return ScoreRow(label, part.matched, ", ".join(_about(part)))


def _about(part: OptionPart) -> Iterator[str]:
    if part.matched:
        yield "selected" if part.chosen == part.value else f"satisfied by {part.chosen}"
        return
    if part.defect:
        yield "selected, but WebShop's rule does not count it"
        return
    yield f"{part.chosen} was selected" if part.chosen is not None else "nothing was selected"
    if not part.offered:
        yield "and this product does not offer it"


def _price(part: PricePart) -> ScoreRow:
    if part.bound is None:
        return ScoreRow("at any price", part.matched, f"it cost ${part.paid:,.2f}")
    return ScoreRow(f"at most ${part.bound:,.2f}", part.matched, f"it cost ${part.paid:,.2f}")


def _listed(names: tuple[str, ...]) -> str:
    shown = ", ".join(names[:6])
    return f"{shown} and {len(names) - 6} more" if len(names) > 6 else shown
