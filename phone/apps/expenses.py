"""Expenses: what was spent, by month and category."""

from __future__ import annotations

from datetime import date, timedelta
from typing import Final

from turncredit.phone.toolkit.app import App, Context
from turncredit.phone.toolkit.handlers import do, opens
from turncredit.phone.toolkit.tables import Columns
from turncredit.phone.toolkit.tables import Row as Record
from turncredit.phone.toolkit.widgets import (
    Card,
    Chip,
    Choice,
    DateField,
    Dialog,
    Empty,
    Fab,
    IconButton,
    Item,
    Row,
    Screen,
    Section,
    Spacer,
    Tab,
    Text,
    TextField,
    Widget,
    cancel_or,
)

CATEGORIES: Final = ("Food", "Home", "Transport", "Health", "Leisure", "Other")
_ICONS: Final = dict(zip(CATEGORIES, ("utensils", "home", "directions", "heart", "music", "label"), strict=True))
NAMES: Final = {
    "Food": ("Bakery", "Groceries", "Farmers market", "Noodle bar", "Coffee beans", "Picnic"),
    "Home": ("Light bulbs", "Water bill", "Curtain rail", "Door mat", "Paint"),
    "Transport": ("Tram pass", "Ferry", "Bike repair", "Taxi", "Petrol"),
    "Health": ("Pharmacy", "Swimming", "Dentist", "Plasters"),
    "Leisure": ("Cinema", "Concert", "Puzzle", "Museum", "Paperback"),
    "Other": ("Haircut", "Stamps", "Flowers", "Donation"),
}
_NOTES: Final = ("", "", "paid in cash", "shared with Nora", "to be refunded", "by card")


def fill(ctx: Context) -> None:
    """Draw some thirty entries of the last six weeks."""
    random = ctx.random
    rows: list[Columns] = []
    for _ in range(random.between(26, 34)):
        category = random.pick(CATEGORIES)
        day = ctx.today - timedelta(days=random.between(0, 44))
        row = {"name": random.pick(NAMES[category]), "amount": random.between(180, 9900), "category": category}
        rows.append({**row, "date": day.isoformat(), "note": random.pick(_NOTES)})
    ctx.db.fill("expenses", sorted(rows, key=lambda row: str(row["date"])))


def money(cents: int) -> str:
    """Return an amount in cents as '12.50 €'."""
    return f"{cents // 100}.{cents % 100:02d} €"


def cents_of(text: str) -> int:
    """Return '12.5' or '12,50' in cents; -1 if it is no amount above zero."""
    whole, _, part = text.strip().replace("€", "").strip().replace(",", ".").partition(".")
    if not (whole or "0").isdecimal() or not (part or "0").isdecimal() or len(part) > 2 or len(whole) > 7:
        return -1
    return int(whole or 0) * 100 + int(part.ljust(2, "0") or 0) or -1


def _months(ctx: Context) -> list[str]:
    return sorted({str(row["date"])[:7] for row in ctx.db.rows("expenses")} | {ctx.today.isoformat()[:7]})


def month_text(month: str) -> str:
    """Return '2023-10' as 'October 2023'."""
    return f"{date.fromisoformat(month + '-01'):%B %Y}"


def expenses(ctx: Context) -> Screen:
    """The entries of a month with its total, or the sums of its categories."""
    tab, chosen = str(ctx.get("tab", "list")), str(ctx.get("category", ""))
    month = str(ctx.get("month", ctx.today.isoformat()[:7]))
    query = str(ctx.get("query", "")).casefold().strip()
    rows = [row for row in ctx.db.rows("expenses") if query or str(row["date"]).startswith(month)]
    if query:
        rows = [row for row in rows if query in f"{row['name']} {row['note']}".casefold()]
    if chosen:
        rows = [row for row in rows if row["category"] == chosen]
    rows.sort(key=lambda row: (row["date"], row["_id"]), reverse=True)
    body = _sums(rows) if tab == "sums" else _entries(rows)
    chips = [Chip(name, do(show_category, name=name), name == chosen) for name in CATEGORIES]
    title = "All months" if query else month_text(month)
    return Screen(
        "Expenses",
        [*body, Spacer(80)],
        top=[
            TextField("query", "Search expenses", icon="search"),
            Spacer(6),
            Row(
                [
                    IconButton("left", "Previous month", do(turn, months=-1)),
                    Text(title, style="title", align="center", id="month"),
                    IconButton("right", "Next month", do(turn, months=1)),
                ]
            ),
            Row([Card([Item(money(sum(row["amount"] for row in rows)), f"{chosen or 'Total'}, {len(rows)} entries")])]),
            *([] if tab == "sums" else [Spacer(6), Row(chips[:3]), Spacer(4), Row(chips[3:])]),
            Spacer(4),
        ],
        bar=[
            Tab("Entries", do(show_tab, tab="list"), tab == "list", "list"),
            Tab("By category", do(show_tab, tab="sums"), tab == "sums", "chart"),
        ],
        fab=Fab("add", "Add expense", opens(form, id=0)),
    )


def _entries(rows: list[Record]) -> list[Widget]:
    body: list[Widget] = []
    day = ""
    for row in rows:
        if row["date"] != day:
            day = str(row["date"])
            when = date.fromisoformat(day)
            body.append(Section(f"{when:%A}, {when.day} {when:%B}"))
        about = " · ".join(part for part in (row["category"], row["note"]) if part)
        icon = _ICONS.get(row["category"], "label")
        body.append(Item(row["name"], about, icon, trailing=money(row["amount"]), on_tap=opens(expense, id=row["_id"])))
    return body or [Empty("money", "No expenses")]


def _sums(rows: list[Record]) -> list[Widget]:
    body: list[Widget] = []
    for category in CATEGORIES:
        amounts = [row["amount"] for row in rows if row["category"] == category]
        if amounts:
            about = "1 entry" if len(amounts) == 1 else f"{len(amounts)} entries"
            body.append(Item(category, about, _ICONS[category], trailing=money(sum(amounts))))
    return body or [Empty("money", "No expenses")]


def show_tab(ctx: Context, tab: str) -> None:
    """Change between entries and sums."""
    ctx.set("tab", tab)
    ctx.set("category", "")


def show_category(ctx: Context, name: str) -> None:
    """Show one category, or all if it is shown already."""
    ctx.set("category", "" if ctx.get("category") == name else name)


def turn(ctx: Context, months: int) -> None:
    """Show another month."""
    month = str(ctx.get("month", ctx.today.isoformat()[:7]))
    number = int(month[:4]) * 12 + int(month[5:]) - 1 + months
    ctx.set("month", f"{number // 12:04d}-{number % 12 + 1:02d}")


def expense(ctx: Context, id: int) -> Screen:
    """One entry."""
    row = ctx.db.get("expenses", id)
    if row is None:
        return Screen("", [Empty("money", "This expense was deleted")])
    when = date.fromisoformat(row["date"])
    details = [
        Item(row["category"], "Category", _ICONS.get(row["category"], "label")),
        Item(f"{when:%A}, {when.day} {when:%B %Y}", "Date", "calendar"),
    ]
    if row["note"]:
        details.append(Item(row["note"], "Note", "note"))
    return Screen(
        "Expense",
        [
            Spacer(16),
            Text(money(row["amount"]), style="display", align="center", id="amount"),
            Text(row["name"], style="title", align="center", id="name"),
            Spacer(16),
            *details,
        ],
        actions=[
            IconButton("edit", "Edit expense", opens(form, id=id)),
            IconButton("delete", "Delete expense", opens(confirm, id=id)),
        ],
    )


def form(ctx: Context, id: int = 0) -> Screen:
    """The form of an entry; `id` 0 is a new one."""
    empty: Record = {"name": "", "amount": 0, "category": CATEGORIES[0], "date": ctx.today.isoformat(), "note": ""}
    row = ctx.db.get("expenses", id) or empty
    amount = money(row["amount"])[:-2] if row["amount"] else ""
    return Screen(
        "Edit expense" if id else "Add expense",
        [
            TextField("name", "Name", row["name"], icon="cart"),
            TextField("amount", "Amount", amount, keyboard="number", icon="money"),
            Choice("category", "Category", CATEGORIES, ctx.get("category", row["category"])),
            DateField("date", "Date", row["date"]),
            TextField("note", "Note", row["note"], icon="note"),
        ],
        up_icon="close",
        actions=[IconButton("check", "Save", do(save, id=id), colour="primary")],
    )


def save(ctx: Context, id: int) -> None:
    """Write the form into the database, unless name or amount is missing."""
    values: Columns = {key: str(ctx.form[key]).strip() for key in ("name", "category", "date", "note")}
    values["amount"] = cents_of(str(ctx.form["amount"]))
    if not values["name"] or values["amount"] < 0:
        ctx.snackbar("Enter a name and an amount such as 12.50")
        return
    if id:
        ctx.db.update("expenses", id, **values)
    else:
        ctx.db.insert("expenses", **values)
    ctx.back()


def confirm(ctx: Context, id: int) -> Dialog:
    """Ask whether an entry is deleted."""
    row = ctx.db.get("expenses", id)
    label = f"{row['name']}, {money(row['amount'])}" if row else "The entry"
    buttons = cancel_or("Delete", do(delete, id=id), kind="danger")
    return Dialog("Delete this expense?", [Text(label)], buttons)


def delete(ctx: Context, id: int) -> None:
    """Delete an entry and leave its page."""
    ctx.db.delete("expenses", id)
    ctx.back()
    ctx.snackbar("Expense deleted")


APP = App(
    package="org.turncredit.expenses",
    name="Expenses",
    icon="money",
    colour="#0f9d58",
    schema={"expenses": {"name": str, "amount": int, "category": str, "date": str, "note": str}},
    fill=fill,
    screens=(expenses, expense, form, confirm),
)
