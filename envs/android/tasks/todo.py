"""Tasks of the app Tasks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import date, timedelta
from typing import Final

from turncredit.envs.android.tasks.effects import Answer, DeleteRow, Effect, InsertRow, UpdateRow
from turncredit.envs.android.tasks.hand import Finding, Hand, Script
from turncredit.envs.android.tasks.steps import call, fill, start, steps, tap
from turncredit.envs.android.tasks.template import Draw, EffectsFunction, Params, TaskTemplate
from turncredit.phone.apps.tasks import LISTS, PRIORITIES
from turncredit.phone.toolkit.tables import Value

PACKAGE: Final = "org.turncredit.tasks"
_APPS: Final = ("Tasks",)
_NEW: Final = (
    "Mend the bicycle tyre",
    "Collect the dry cleaning",
    "Write to the landlord",
    "Renew the library card",
    "Bake for the fair",
    "Oil the door",
    "Pay the deposit",
)


def _day(d: Draw, ahead: int) -> str:
    return (d.phone.now.date() + timedelta(days=ahead)).isoformat()


def _known(d: Draw, **equal: Value) -> Params | None:
    row = d.pick(d.rows(PACKAGE, "tasks", **equal))
    steps = [step["_id"] for step in d.rows(PACKAGE, "subtasks", task=row["_id"])] if row else []
    return {"id": row["_id"], "title": row["title"], "steps": steps, "row": dict(row)} if row else None


def _add_draw(d: Draw) -> Params | None:
    number = d.random.between(1, len(LISTS))
    return {
        "title": d.random.pick(_NEW),
        "due": _day(d, d.random.between(1, 40)),
        "priority": d.random.pick(PRIORITIES[:3]),
        "list": LISTS[number - 1],
        "number": number,
    }


def _simple_effects(p: Params) -> list[Effect]:
    return [InsertRow(PACKAGE, "tasks", {"title": p["title"], "due": p["due"], "priority": "None"}, free=("list",))]


def _full_effects(p: Params) -> list[Effect]:
    values = {"title": p["title"], "due": p["due"], "priority": p["priority"], "list": p["number"]}
    return [InsertRow(PACKAGE, "tasks", values)]


def _fill_form(hand: Hand, p: Params) -> Script:
    yield from hand.open("Tasks")
    yield from hand.tap("New task", scroll=False)
    yield from hand.fill("Title", p["title"])
    yield from hand.pick_date("Due date", p["due"])


def _save(hand: Hand) -> Script:
    yield from hand.tap("Save", scroll=False)
    yield from hand.done()


def _add_solve(hand: Hand, p: Params) -> Iterator[str]:
    yield from _fill_form(hand, p)
    yield from _save(hand)


def _add_full_solve(hand: Hand, p: Params) -> Iterator[str]:
    yield from _fill_form(hand, p)
    yield from hand.choose("Priority", p["priority"])
    yield from hand.choose("List", p["list"])
    yield from _save(hand)


def open_task(hand: Hand, title: str) -> Script:
    """Show the page of a task that is to be done, by way of the search."""
    yield from hand.open("Tasks")
    yield from hand.fill("Search tasks", title)
    yield from hand.tap(title, where=lambda e: e.kind != "field" and len(e.texts) > 1)  # the box completes it


def _open_draw(d: Draw) -> Params | None:
    return _known(d, done=0)


def _edit_draw(d: Draw) -> Params | None:
    p = _known(d, done=0)
    if p is None:
        return None
    due = d.pick([day for day in (_day(d, n) for n in range(3, 30)) if day != p["row"]["due"]])
    priority = d.pick([name for name in PRIORITIES[:3] if name != p["row"]["priority"]])
    return {**p, "due": due, "priority": priority, "step": d.random.pick(_NEW)}


def _set(column: str) -> EffectsFunction:
    return lambda p: [UpdateRow(PACKAGE, "tasks", p["id"], {column: p[column]})]


def _due_solve(hand: Hand, p: Params) -> Iterator[str]:
    yield from open_task(hand, p["title"])
    yield from hand.tap("Edit task", scroll=False)
    yield from hand.pick_date("Due date", p["due"])
    yield from _save(hand)


def _priority_solve(hand: Hand, p: Params) -> Iterator[str]:
    yield from open_task(hand, p["title"])
    yield from hand.tap("Edit task", scroll=False)
    yield from hand.choose("Priority", p["priority"])
    yield from _save(hand)


def _delete_effects(p: Params) -> list[Effect]:
    steps = [DeleteRow(PACKAGE, "subtasks", key) for key in p["steps"]]
    return [DeleteRow(PACKAGE, "tasks", p["id"]), *steps]


# Questions


def _ask_due_draw(d: Draw) -> Params | None:
    p = _known(d, done=0)
    return p if p and p["row"]["due"] else None


def _ask_due_solve(hand: Hand, p: Params) -> Iterator[str]:
    yield from open_task(hand, p["title"])
    yield from hand.look_for("Due")
    texts = hand.texts()
    yield from hand.answer(texts[texts.index("Due") - 1])


def _titles(d: Draw, **equal: Value) -> list[str]:
    return [row["title"] for row in d.rows(PACKAGE, "tasks", **equal)]


def _due_on_draw(d: Draw) -> Params | None:
    due = d.pick(sorted({row["due"] for row in d.rows(PACKAGE, "tasks", done=0) if row["due"]}))
    return {"day": due, "titles": _titles(d, done=0, due=due)} if due else None


def _rows(hand: Hand, fits: Callable[[str], bool]) -> Finding:
    titles = yield from hand.read_all(
        lambda e: e.texts[0] if len(e.texts) == 2 and e.kind != "field" and fits(e.texts[1]) else None
    )
    return titles


def _written(day: str) -> list[str]:
    """Return how the app writes a day that is not near, of this year or another."""
    when = date.fromisoformat(day)
    return [f"{when:%a}, {when.day} {when:%b}", f"{when:%a}, {when.day} {when:%b} {when.year}"]


def _near(texts: list[str], day: date) -> list[str]:
    """Return how the app writes a day that is near, given the home screen, which shows today."""
    names = {"Yesterday": 1, "Today": 0, "Tomorrow": -1}
    moments = {name: day + timedelta(days=days) for name, days in names.items()}
    return [name for name, today in moments.items() if f"{today:%A}, {today.day} {today:%B}" in texts]


def _due_on_solve(hand: Hand, p: Params) -> Iterator[str]:
    yield "home"
    endings = _written(p["day"]) + _near(hand.texts(), date.fromisoformat(p["day"]))
    yield from hand.open("Tasks")
    titles = yield from _rows(hand, lambda about: any(about.endswith(f"due {text}") for text in endings))
    yield from hand.answer(", ".join(titles))


def _priority_of_draw(d: Draw) -> Params | None:
    priority = d.random.pick(PRIORITIES[:3])
    titles = _titles(d, done=0, priority=priority)
    return {"titles": titles, "priority": priority.lower()} if titles else None


def _priority_of_solve(hand: Hand, p: Params) -> Iterator[str]:
    yield from hand.open("Tasks")
    titles = yield from _rows(hand, lambda about: f"{p['priority']} priority" in about.casefold())
    yield from hand.answer(", ".join(titles))


def _urgent_draw(d: Draw) -> Params | None:
    rows = [row for row in d.rows(PACKAGE, "tasks", done=0) if row["due"] and row["priority"] in PRIORITIES[:3]]
    row = d.pick(rows)
    if row is None:
        return None
    titles = _titles(d, done=0, due=row["due"], priority=row["priority"])
    return {"titles": titles, "day": row["due"], "priority": str(row["priority"]).lower()}


def _urgent_solve(hand: Hand, p: Params) -> Iterator[str]:
    yield "home"
    endings = _written(p["day"]) + _near(hand.texts(), date.fromisoformat(p["day"]))
    yield from hand.open("Tasks")

    def fits(about: str) -> bool:
        due = any(about.endswith(f"due {text}") for text in endings)
        return due and f"{p['priority']} priority" in about.casefold()

    titles = yield from _rows(hand, fits)
    yield from hand.answer(", ".join(titles))


def _count_draw(d: Draw) -> Params | None:
    name = d.random.pick(LISTS)
    return {"name": name, "count": len(_titles(d, done=0, list=LISTS.index(name) + 1))}


def _count_solve(hand: Hand, p: Params) -> Iterator[str]:
    yield from hand.open("Tasks")
    yield from hand.tap("Manage lists", scroll=False)
    row = yield from hand.look_for(p["name"])
    yield from hand.answer(row.texts[1].split()[0])


def _completed_draw(d: Draw) -> Params | None:
    titles = _titles(d, done=1, list=d.random.between(1, 4))
    row = d.rows(PACKAGE, "tasks", title=titles[0])[0] if titles else None
    name = LISTS[row["list"] - 1] if row else ""
    return {"name": name, "titles": titles} if row else None


def _completed_solve(hand: Hand, p: Params) -> Iterator[str]:
    yield from hand.open("Tasks")
    yield from hand.tap("Completed", scroll=False)
    titles = yield from _rows(hand, lambda about: about.split(" · ")[0] == p["name"])
    yield from hand.answer(", ".join(titles))


def _answers(p: Params) -> list[Effect]:
    return [Answer("list", p["titles"])]


TEMPLATES: Final = (
    TaskTemplate(
        "TasksAdd",
        (
            "Add a task to Tasks: {title}, due on {due}. Leave its priority at None.",
            "Remind me with a new task of priority None: {title}. It is due on {due}.",
        ),
        _add_draw,
        _simple_effects,
        _add_solve,
        _APPS,
        complexity=1.6,
    ),
    TaskTemplate(
        "TasksAddFull",
        "Create a task {title} in the list {list}, due on {due}, with {priority} priority.",
        _add_draw,
        _full_effects,
        _add_full_solve,
        _APPS,
        complexity=2.2,
    ),
    TaskTemplate(
        "TasksComplete",
        ("I have done this: {title}. Tick it off in Tasks.", "Mark the task {title} as done."),
        _open_draw,
        lambda p: [UpdateRow(PACKAGE, "tasks", p["id"], {"done": 1}, free=("completed",))],
        steps(call(open_task, "{title}"), tap("Mark as done")),
        _APPS,
        complexity=1.2,
    ),
    TaskTemplate(
        "TasksReschedule",
        "Move the due date of the task {title} to {due}.",
        _edit_draw,
        _set("due"),
        _due_solve,
        _APPS,
        complexity=1.8,
    ),
    TaskTemplate(
        "TasksSetPriority",
        "Give the task {title} {priority} priority.",
        _edit_draw,
        _set("priority"),
        _priority_solve,
        _APPS,
        complexity=1.6,
        split="held_out",
    ),
    TaskTemplate(
        "TasksAddSubtask",
        "Add a subtask to the task {title}: {step}",
        _edit_draw,
        lambda p: [InsertRow(PACKAGE, "subtasks", {"task": p["id"], "title": p["step"]})],
        steps(call(open_task, "{title}"), tap("Add subtask"), fill("Subtask", "{step}"), tap("Add")),
        _APPS,
        complexity=1.4,
        split="held_out",
    ),
    TaskTemplate(
        "TasksDelete",
        ("Delete the task {title}.", "Remove {title} from Tasks altogether."),
        _open_draw,
        _delete_effects,
        steps(call(open_task, "{title}"), tap("Delete task", scroll=False), tap("Delete", scroll=False)),
        _APPS,
        complexity=1.2,
    ),
    TaskTemplate(
        "TasksCreateList",
        "Create a list called {name} in Tasks.",
        lambda d: {"name": d.random.pick(("Holiday", "Garden", "Family", "Club", "Move", "Wedding"))},
        lambda p: [InsertRow(PACKAGE, "lists", {"name": p["name"]})],
        steps(
            start("Tasks"),
            tap("Manage lists", scroll=False),
            tap("New list", scroll=False),
            fill("List name", "{name}"),
            tap("Create"),
        ),
        _APPS,
        complexity=1.2,
    ),
    TaskTemplate(
        "TasksAskDue",
        "When is the task {title} due? Answer with the date.",
        _ask_due_draw,
        lambda p: [Answer("date", p["row"]["due"])],
        _ask_due_solve,
        _APPS,
    ),
    TaskTemplate(
        "TasksAskDueOn",
        "Which tasks that are not done are due on {day}? Answer with the titles, separated by commas.",
        _due_on_draw,
        _answers,
        _due_on_solve,
        _APPS,
        complexity=1.6,
    ),
    TaskTemplate(
        "TasksAskPriorityDueOn",
        "Which tasks with {priority} priority that are not done are due on {day}? Answer with the titles, separated "
        "by commas.",
        _urgent_draw,
        _answers,
        _urgent_solve,
        _APPS,
        complexity=1.6,
    ),
    TaskTemplate(
        "TasksAskPriority",
        "Which tasks with {priority} priority are still to be done? Answer with the titles, separated by commas.",
        _priority_of_draw,
        _answers,
        _priority_of_solve,
        _APPS,
        complexity=1.6,
    ),
    TaskTemplate(
        "TasksCountList",
        "How many tasks are to be done in the list {name}? Answer with a number.",
        _count_draw,
        lambda p: [Answer("number", p["count"])],
        _count_solve,
        _APPS,
    ),
    TaskTemplate(
        "TasksAskCompleted",
        "Which tasks of the list {name} are completed? Answer with the titles, separated by commas.",
        _completed_draw,
        _answers,
        _completed_solve,
        _APPS,
        complexity=1.6,
        split="held_out",
    ),
)
