"""Tasks: things to do in lists, with due date, priority, notes and subtasks."""

from __future__ import annotations

from datetime import date, timedelta
from functools import lru_cache
from typing import Final

from turncredit.phone.toolkit.app import App, Context
from turncredit.phone.toolkit.handlers import do, keeps, opens
from turncredit.phone.toolkit.tables import Columns
from turncredit.phone.toolkit.tables import Row as Record
from turncredit.phone.toolkit.widgets import (
    Button,
    Checkbox,
    Chip,
    Choice,
    DateField,
    Dialog,
    Divider,
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

LISTS: Final = ("Home", "Work", "Shopping", "Studies")
PRIORITIES: Final = ("High", "Medium", "Low", "None")
_PRIORITY_RANKS: Final = {name: rank for rank, name in enumerate(PRIORITIES)}
TITLES: Final = {
    "Home": (
        "Descale the kettle",
        "Call the plumber",
        "Clean the windows",
        "Water the ferns",
        "Sort old photos",
        "Fix the garden gate",
        "Wash the curtains",
        "Change the smoke alarm battery",
        "Return the drill to Marek",
        "Book the chimney sweep",
    ),
    "Work": (
        "Send the invoice",
        "Prepare slides",
        "Review the contract",
        "Plan the offsite",
        "Order printer paper",
        "Answer the survey",
        "Update the price list",
        "Test the new scanner",
    ),
    "Shopping": ("Buy light bulbs", "Buy oat milk", "Get stamps", "Pick up the parcel", "Buy a birthday card"),
    "Studies": ("Read chapter four", "Hand in the essay", "Learn twenty words", "Print the timetable", "Form a group"),
}
_NOTES: Final = ("Ask for a receipt.", "Before noon.", "Takes about an hour.", "The code is on the fridge.", "")
_STEPS: Final = ("Make a plan", "Ask for help", "Check the result", "Tidy up", "Write it down")


def fill(ctx: Context) -> None:
    """Draw some twenty tasks, a few of them done."""
    random = ctx.random
    ctx.db.fill("lists", [{"name": name} for name in LISTS])
    rows: list[Columns] = []
    for number, name in enumerate(LISTS, 1):
        for title in random.shuffled(TITLES[name])[: random.between(4, 7)]:
            done = random.chance(0.25)
            ahead = random.between(-6, 0) if done else random.between(-2, 12)
            due = (ctx.today + timedelta(days=ahead)).isoformat() if random.chance(0.8) else ""
            finished = (ctx.today - timedelta(days=random.between(0, 5))).isoformat() if done else ""
            priority = random.pick(PRIORITIES)
            note = random.pick(_NOTES)
            row = {"title": title, "list": number, "due": due, "priority": priority, "note": note}
            rows.append({**row, "done": int(done), "completed": finished})
    ctx.db.fill("tasks", rows)
    parents = random.shuffled(range(1, len(rows) + 1))[:5]
    steps = [{"task": key, "title": step} for key in parents for step in random.shuffled(_STEPS)[:2]]
    ctx.db.fill("subtasks", steps)


@lru_cache(maxsize=1024)
def day_text(day: str, today: date) -> str:
    """Return a due date as people read it."""
    if not day:
        return ""
    when = date.fromisoformat(day)
    near = {-1: "Yesterday", 0: "Today", 1: "Tomorrow"}.get((when - today).days)
    return near or f"{when:%a}, {when.day} {when:%b}" + (f" {when.year}" if when.year != today.year else "")


def tasks(ctx: Context) -> Screen:
    """Open or completed tasks, of all lists or one, by due date."""
    tab, chosen = str(ctx.get("tab", "open")), int(ctx.get("list", 0))
    query = str(ctx.get("query", "")).casefold().strip()
    rows = [row for row in ctx.db.rows("tasks") if bool(row["done"]) == (tab == "done")]
    rows = [row for row in rows if chosen in (0, row["list"]) and query in f"{row['title']} {row['note']}".casefold()]
    rows.sort(key=lambda row: (row["due"] or "9999", _PRIORITY_RANKS.get(row["priority"], 3), row["title"]))
    if tab == "done":
        rows.sort(key=lambda row: (row["completed"], row["title"]), reverse=True)
    every = [("All", 0), *((row["name"], row["_id"]) for row in ctx.db.rows("lists"))]
    chips = [Chip(name, keeps("list", key), key == chosen) for name, key in every]
    body = _sections(ctx, rows, tab) or [Empty("task", "Nothing to do here" if tab == "open" else "Nothing completed")]
    return Screen(
        "Tasks",
        [*body, Spacer(80)],
        actions=[IconButton("list", "Manage lists", opens(lists))],
        top=[
            TextField("query", "Search tasks", icon="search"),
            Spacer(6),
            Row(chips[:3]),
            *([Row(chips[n : n + 3]) for n in range(3, len(chips), 3)]),
            Spacer(4),
        ],
        bar=[
            Tab("To do", keeps("tab", "open"), tab == "open", "task"),
            Tab("Completed", keeps("tab", "done"), tab == "done", "check"),
        ],
        fab=Fab("add", "New task", do(create)),
    )


def _sections(ctx: Context, rows: list[Record], tab: str) -> list[Widget]:
    body: list[Widget] = []
    heading = ""
    for row in rows:
        new = _heading(row, ctx.today, tab)
        if new != heading:
            body.append(Section(new))
            heading = new
        body.append(_task_row(ctx, row))
    return body


def _heading(row: Record, today: date, tab: str) -> str:
    if tab == "done":
        return f"Completed: {day_text(row['completed'], today)}" if row["completed"] else "Completed"
    if not row["due"]:
        return "No date"
    return "Overdue" if row["due"] < today.isoformat() else day_text(row["due"], today)


def _task_row(ctx: Context, row: Record) -> Checkbox:
    owner = ctx.db.get("lists", row["list"])
    priority = f"{row['priority']} priority" if row["priority"] not in ("", "None") else ""
    due = f"due {day_text(row['due'], ctx.today)}" if row["due"] else ""
    about = " · ".join(part for part in (owner["name"] if owner else "", priority, due) if part)
    return Checkbox(
        row["title"],
        bool(row["done"]),
        do(check, id=row["_id"]),
        subtitle=about,
        on_tap=opens(task, id=row["_id"]),
        struck=bool(row["done"]),
    )


def check(ctx: Context, id: int) -> None:
    """Complete a task, or open it again."""
    row = ctx.db.get("tasks", id)
    if row:
        done = not row["done"]
        ctx.db.update("tasks", id, done=done, completed=ctx.today.isoformat() if done else "")
        ctx.snackbar("Task completed" if done else "Task opened again")


def create(ctx: Context) -> None:
    """Open an empty form, in the list that is shown."""
    ctx.open(form, id=0, list=int(ctx.get("list", 0)) or 1)


def task(ctx: Context, id: int) -> Screen:
    """One task with its subtasks."""
    row = ctx.db.get("tasks", id)
    if row is None:
        return Screen("", [Empty("task", "This task was deleted")])
    owner = ctx.db.get("lists", row["list"])
    due = date.fromisoformat(row["due"]) if row["due"] else None
    details: list[Widget] = [
        Item(owner["name"] if owner else "None", "List", "list"),
        Item(f"{due:%A}, {due.day} {due:%B %Y}" if due else "No due date", "Due", "calendar"),
        Item(row["priority"] or "None", "Priority", "flag"),
    ]
    if row["done"] and row["completed"]:
        when = date.fromisoformat(row["completed"])
        details.append(Item(f"{when.day} {when:%B %Y}", "Completed", "check"))
    if row["note"]:
        details.append(Item(row["note"], "Note", "note"))
    steps: list[Widget] = [
        Checkbox(step["title"], bool(step["done"]), do(check_step, id=step["_id"]), struck=bool(step["done"]))
        for step in ctx.db.rows("subtasks", task=id)
    ]
    flip = Button("Mark as not done" if row["done"] else "Mark as done", do(check, id=id), wide=True)
    return Screen(
        "Task",
        [
            Spacer(8),
            Text(row["title"], style="headline", selectable=True),
            Spacer(8),
            *details,
            Divider(),
            Section("Subtasks"),
            *steps,
            Item("Add subtask", icon="add", on_tap=opens(step_title, id=id)),
            Spacer(16),
            Row([flip]),
            Spacer(24),
        ],
        actions=[
            IconButton("edit", "Edit task", opens(form, id=id)),
            IconButton("delete", "Delete task", opens(confirm, id=id)),
        ],
    )


def check_step(ctx: Context, id: int) -> None:
    """Complete a subtask, or open it again."""
    ctx.db.update("subtasks", id, done=bool(ctx.value))


def step_title(ctx: Context, id: int) -> Dialog:
    """The title of a new subtask."""
    buttons = cancel_or("Add", do(add_step, id=id))
    return Dialog("New subtask", [TextField("title", "Subtask")], buttons)


def add_step(ctx: Context, id: int) -> None:
    """Add a subtask."""
    if title := str(ctx.form["title"]).strip():
        ctx.db.insert("subtasks", task=id, title=title)


_EMPTY: Final = {"title": "", "due": "", "priority": "None", "note": ""}


def form(ctx: Context, id: int = 0, list: int = 1) -> Screen:
    """The form of a task; `id` 0 is a new one."""
    row = ctx.db.get("tasks", id) or {**_EMPTY, "list": list}
    names = {entry["_id"]: entry["name"] for entry in ctx.db.rows("lists")}
    return Screen(
        "Edit task" if id else "New task",
        [
            TextField("title", "Title", row["title"], icon="task"),
            DateField("due", "Due date", row["due"]),
            Choice("priority", "Priority", PRIORITIES, ctx.get("priority", row["priority"])),
            Choice("list", "List", tuple(names.values()), ctx.get("list", names.get(row["list"], ""))),
            TextField("note", "Note", row["note"], multiline=True, icon="note"),
        ],
        up_icon="close",
        actions=[IconButton("check", "Save", do(save, id=id), colour="primary")],
    )


def save(ctx: Context, id: int) -> None:
    """Write the form into the database, unless it has no title."""
    values: Columns = {name: str(ctx.form[name]).strip() for name in _EMPTY}
    owner = ctx.db.rows("lists", name=ctx.form["list"])
    values["list"] = owner[0]["_id"] if owner else 1
    if not values["title"]:
        ctx.snackbar("Enter a title")
        return
    if id:
        ctx.db.update("tasks", id, **values)
    else:
        ctx.db.insert("tasks", **values)
    ctx.back()


def confirm(ctx: Context, id: int) -> Dialog:
    """Ask whether a task is deleted."""
    buttons = cancel_or("Delete", do(delete, id=id), kind="danger")
    return Dialog("Delete this task?", [Text("Its subtasks are deleted with it.")], buttons)


def delete(ctx: Context, id: int) -> None:
    """Delete a task and its subtasks."""
    ctx.db.delete("tasks", id)
    for step in ctx.db.rows("subtasks", task=id):
        ctx.db.delete("subtasks", step["_id"])
    ctx.back()
    ctx.snackbar("Task deleted")


def lists(ctx: Context) -> Screen:
    """All lists with the number of open tasks."""
    rows = []
    for row in ctx.db.rows("lists"):
        left = len(ctx.db.rows("tasks", list=row["_id"], done=0))
        rows.append(Item(row["name"], f"{left} to do", "list", on_tap=do(open_list, key=row["_id"])))
    return Screen("Lists", rows, fab=Fab("add", "New list", opens(list_name)))


def open_list(ctx: Context, key: int) -> None:
    """Show a list on the first page."""
    ctx.back()
    ctx.set("list", key)


def list_name(ctx: Context) -> Dialog:
    """The name of a new list."""
    buttons = cancel_or("Create", do(add_list))
    return Dialog("New list", [TextField("name", "List name")], buttons)


def add_list(ctx: Context) -> None:
    """Add a list, unless one has this name."""
    name = str(ctx.form["name"]).strip()
    if not name or ctx.db.rows("lists", name=name):
        ctx.snackbar("Enter a new name")
    else:
        ctx.db.insert("lists", name=name)


APP = App(
    package="org.turncredit.tasks",
    name="Tasks",
    icon="task",
    colour="#3367d6",
    schema={
        "lists": {"name": str},
        "tasks": {
            "title": str,
            "list": int,
            "due": str,
            "priority": str,
            "note": str,
            "done": bool,
            "completed": str,
        },
        "subtasks": {"task": int, "title": str, "done": bool},
    },
    fill=fill,
    screens=(tasks, task, form, lists, step_title, confirm, list_name),
)
