"""Tasks of Expenses."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Final

from turncredit.envs.android.tasks.effects import Answer, DeleteRow, Effect, InsertRow, UpdateRow
from turncredit.envs.android.tasks.hand import Finding, Hand, Script, is_item
from turncredit.envs.android.tasks.steps import call, choose, fill, steps, tap
from turncredit.envs.android.tasks.template import Draw, Params, TaskTemplate
from turncredit.phone.apps.expenses import CATEGORIES
from turncredit.phone.toolkit.tables import Row

PACKAGE: Final = "org.turncredit.expenses"
_APPS: Final = ("Expenses",)
_NEW: Final = ("Umbrella", "Theatre", "Oranges", "Key copy", "Bus ticket", "Notebook", "Bandages", "Parking", "Honey")


def _amount(cents: int) -> str:
    return f"{cents // 100}.{cents % 100:02d}"


def _draw_new(d: Draw, name: str) -> Params:
    day = d.phone.now.date() - timedelta(days=d.random.between(0, 20))
    cents = d.random.between(150, 9900)
    category = d.random.pick(CATEGORIES)
    return {"name": name, "cents": cents, "amount": _amount(cents), "category": category, "date": day.isoformat()}


def _two_draw(d: Draw) -> Params | None:
    first, two = (_draw_new(d, name) for name in d.some(_NEW, 2))
    return {"one": first, "two": two, "text": [f"{_told(first)}; {_told(two)}"]}


def _told(p: Params) -> str:
    return f"{p['name']}, {p['amount']} €, category {p['category']}, on {p['date']}"


def _inserted(p: Params) -> Effect:
    values = {name: p[name] for name in ("name", "category", "date")}
    return InsertRow(PACKAGE, "expenses", {**values, "amount": p["cents"]})


def _add(hand: Hand, p: Params) -> Script:
    yield from hand.open("Expenses")
    yield from hand.tap("Add expense", scroll=False)
    yield from hand.fill("Name", p["name"])
    yield from hand.fill("Amount", p["amount"])
    yield from hand.choose("Category", p["category"])
    yield from hand.pick_date("Date", p["date"])
    yield from hand.tap("Save", scroll=False)


def _two_solve(hand: Hand, p: Params) -> Iterator[str]:
    for n, key in enumerate(("one", "two")):
        if not hand.met(n):
            yield from _add(hand, p[key])
    yield from hand.done()


def _unique(d: Draw) -> list[Row]:
    rows = d.rows(PACKAGE, "expenses")
    names = [row["name"] for row in rows]
    return [row for row in rows if names.count(row["name"]) == 1]


def _known(d: Draw) -> Params | None:
    row = d.pick(_unique(d))
    return {"id": row["_id"], "name": row["name"], "row": dict(row)} if row else None


def _find(hand: Hand, name: str) -> Script:
    yield from hand.open("Expenses")
    yield from hand.fill("Search expenses", name)
    yield from hand.tap(name, where=is_item)


def _delete(hand: Hand, name: str) -> Script:
    yield from _find(hand, name)
    yield from hand.tap("Delete expense", scroll=False)
    yield from hand.tap("Delete", scroll=False)


_delete_solve = steps(call(_delete, "{name}"))


def _several_draw(d: Draw) -> Params | None:
    rows = d.some(_unique(d), 3)
    return {"names": [row["name"] for row in rows], "ids": [row["_id"] for row in rows]} if len(rows) == 3 else None


def _several_solve(hand: Hand, p: Params) -> Iterator[str]:
    for n, name in enumerate(p["names"]):
        if not hand.met(n):
            yield from _delete(hand, name)
    yield from hand.done()


def _twice_draw(d: Draw) -> Params | None:
    row = d.pick(_unique(d))
    if row is None:
        return None
    copy = d.insert(PACKAGE, "expenses", **{name: value for name, value in row.items() if name != "_id"})
    return {"id": copy, "first": row["_id"], "name": row["name"]}


def _change_draw(d: Draw) -> Params | None:
    p = _known(d)
    if p is None:
        return None
    cents = d.random.between(150, 9900)
    category = d.pick([name for name in CATEGORIES if name != p["row"]["category"]])
    return {**p, "cents": cents, "amount": _amount(cents), "category": category}


def _number(text: str) -> str:
    return text.removesuffix(" €")


def _ask_amount_solve(hand: Hand, p: Params) -> Iterator[str]:
    yield from hand.open("Expenses")
    yield from hand.fill("Search expenses", p["name"])
    row = yield from hand.look_for(p["name"], True, lambda element: element.kind == "item")
    yield from hand.answer(_number(row.texts[-1]))


def _month(d: Draw) -> list[Row]:
    month = d.phone.now.strftime("%Y-%m")
    return [row for row in d.rows(PACKAGE, "expenses") if row["date"].startswith(month)]


def _sum_draw(d: Draw) -> Params | None:
    category = d.random.pick(CATEGORIES)
    rows = [row for row in _month(d) if row["category"] == category]
    return {"category": category, "cents": sum(row["amount"] for row in rows), "count": len(rows)} if rows else None


def _sums(hand: Hand) -> Finding:
    """Return number of entries and sum of each category, as the second tab shows them."""
    yield from hand.open("Expenses")
    yield from hand.tap("By category", scroll=False)
    texts = hand.texts()
    return {
        texts[i]: (text.split()[0], _number(texts[i + 2]))
        for i, text in enumerate(texts[1:-1])
        if texts[i] in CATEGORIES and text.endswith(("entry", "entries"))
    }


def _sum_solve(hand: Hand, p: Params) -> Iterator[str]:
    sums = yield from _sums(hand)
    yield from hand.answer(sums[p["category"]][1])


def _count_solve(hand: Hand, p: Params) -> Iterator[str]:
    sums = yield from _sums(hand)
    yield from hand.answer(sums[p["category"]][0])


def _most_draw(d: Draw) -> Params | None:
    sums = {name: sum(row["amount"] for row in _month(d) if row["category"] == name) for name in CATEGORIES}
    best = max(sums, key=lambda name: sums[name])
    return {"best": best} if list(sums.values()).count(sums[best]) == 1 else None


def _most_solve(hand: Hand, p: Params) -> Iterator[str]:
    sums = yield from _sums(hand)
    yield from hand.answer(max(sums, key=lambda name: float(sums[name][1])))


TEMPLATES: Final = (
    TaskTemplate(
        "ExpensesAdd",
        (
            "Add an expense: {name}, {amount} €, category {category}, on {date}.",
            "I paid {amount} € for this on {date}: {name}. Enter it in Expenses, category {category}.",
        ),
        lambda d: _draw_new(d, d.random.pick(_NEW)),
        lambda p: [_inserted(p)],
        steps(_add),
        _APPS,
        complexity=2.4,
    ),
    TaskTemplate(
        "ExpensesAddTwo",
        "Enter these two expenses: {text}.",
        _two_draw,
        lambda p: [_inserted(p["one"]), _inserted(p["two"])],
        _two_solve,
        _APPS,
        complexity=5.0,
    ),
    TaskTemplate(
        "ExpensesDelete",
        ("Delete the expense {name}.", "Remove {name} from my expenses."),
        _known,
        lambda p: [DeleteRow(PACKAGE, "expenses", p["id"])],
        _delete_solve,
        _APPS,
        complexity=1.2,
    ),
    TaskTemplate(
        "ExpensesDeleteSeveral",
        "Delete these expenses: {names}.",
        _several_draw,
        lambda p: [DeleteRow(PACKAGE, "expenses", key) for key in p["ids"]],
        _several_solve,
        _APPS,
        complexity=4.0,
        split="held_out",
    ),
    TaskTemplate(
        "ExpensesDeleteDuplicate",
        "The expense {name} was entered twice. Delete one of the two.",
        _twice_draw,
        lambda p: [DeleteRow(PACKAGE, "expenses", p["id"], instead=(p["first"],))],
        _delete_solve,
        _APPS,
        complexity=1.2,
    ),
    TaskTemplate(
        "ExpensesSetAmount",
        "The amount of the expense {name} is wrong: it was {amount} €. Correct it.",
        _change_draw,
        lambda p: [UpdateRow(PACKAGE, "expenses", p["id"], {"amount": p["cents"]})],
        steps(
            call(_find, "{name}"),
            tap("Edit expense", scroll=False),
            fill("Amount", "{amount}"),
            tap("Save", scroll=False),
        ),
        _APPS,
        complexity=1.4,
    ),
    TaskTemplate(
        "ExpensesSetCategory",
        "Put the expense {name} into the category {category}.",
        _change_draw,
        lambda p: [UpdateRow(PACKAGE, "expenses", p["id"], {"category": p["category"]})],
        steps(
            call(_find, "{name}"),
            tap("Edit expense", scroll=False),
            choose("Category", "{category}"),
            tap("Save", scroll=False),
        ),
        _APPS,
        complexity=1.6,
        split="held_out",
    ),
    TaskTemplate(
        "ExpensesAskAmount",
        "How much was the expense {name}, in euros? Answer with a number.",
        _known,
        lambda p: [Answer("number", p["row"]["amount"] / 100)],
        _ask_amount_solve,
        _APPS,
    ),
    TaskTemplate(
        "ExpensesAskCategorySum",
        "How much have I spent in the category {category} this month, in euros? Answer with a number.",
        _sum_draw,
        lambda p: [Answer("number", p["cents"] / 100)],
        _sum_solve,
        _APPS,
    ),
    TaskTemplate(
        "ExpensesCountCategory",
        "How many expenses are there in the category {category} this month? Answer with a number.",
        _sum_draw,
        lambda p: [Answer("number", p["count"])],
        _count_solve,
        _APPS,
    ),
    TaskTemplate(
        "ExpensesAskLargestCategory",
        "In which category have I spent most in this month? Answer with its name.",
        _most_draw,
        lambda p: [Answer("choice", p["best"])],
        _most_solve,
        _APPS,
        split="held_out",
    ),
)
