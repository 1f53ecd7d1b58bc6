"""Tasks of Notes."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from typing import Final

from turncredit.envs.android.tasks.effects import Answer, Effect, FileGone, FileIs, Infeasible
from turncredit.envs.android.tasks.hand import Hand, Script, is_button, is_item
from turncredit.envs.android.tasks.steps import Step, answer, call, fill, give_up, start, steps, tap
from turncredit.envs.android.tasks.template import Draw, Params, TaskTemplate
from turncredit.phone.apps.notes import FOLDERS, NOTES, ROOT, title_of

_APPS: Final = ("Notes",)
_TITLES: Final = (
    "Keys",
    "Choir",
    "Cabin trip",
    "Bread",
    "Bus times",
    "Book club",
    "Plants",
    "Neighbours",
    "Car",
    "Tea",
)
_LINES: Final = (
    "Ask Marta about the spare room.",
    "The green folder is in the car.",
    "Six o'clock at the north gate.",
    "Do not forget the blue tickets.",
    "Two jars, one lid, no label.",
    "The bell rings twice.",
)
_FOLDERS: Final = ("Archive", "Family", "Music", "Recipes", "Letters", "Projects")


def _paths(d: Draw) -> list[str]:
    return sorted(path for path in d.phone.files if path.startswith(ROOT + "/"))


def _known(d: Draw) -> Params:
    path = d.random.pick(_paths(d))
    text = d.phone.files[path].data.decode()
    return {"path": path, "title": title_of(path), "text": text, "folder": posixpath.dirname(path)}


def open_note(hand: Hand, title: str) -> Script:
    """Show a note, by way of the search."""
    yield from hand.open("Notes")
    yield from hand.fill("Search notes", title)
    yield from hand.tap(title, where=is_item)


def _create_draw(d: Draw) -> Params | None:
    title, text = d.random.pick(_TITLES), d.random.pick(_LINES)
    return {"title": title, "text": text, "folder": d.random.pick(FOLDERS)}


_write = steps(tap("New note", scroll=False), fill("Title", "{title}"), fill("Text", "{text}"), tap("Save"))


def _create_solve(hand: Hand, p: Params) -> Iterator[str]:
    yield from hand.open("Notes")
    yield from _write(hand, p)


def _in_folder_draw(d: Draw) -> Params | None:
    p = _create_draw(d) or {}
    return p if any(path.startswith(f"{ROOT}/{p['folder']}/") for path in _paths(d)) else None


def _in_folder_solve(hand: Hand, p: Params) -> Iterator[str]:
    yield from hand.open("Notes")
    yield from hand.tap(p["folder"])
    yield from _write(hand, p)


def _line_draw(d: Draw) -> Params | None:
    return {**_known(d), "line": d.random.pick(_LINES)}


def _edit(hand: Hand, p: Params, text: str) -> Script:
    yield from open_note(hand, p["title"])
    yield from hand.tap("Edit note", scroll=False)
    yield from hand.fill("Text", text)
    yield from hand.tap("Save", scroll=False)
    yield from hand.done()


def _line_solve(first: bool) -> Step:
    def solve(hand: Hand, p: Params) -> Iterator[str]:
        yield from open_note(hand, p["title"])
        yield from hand.tap("Edit note", scroll=False)
        text = hand.field("Text").value
        if p["line"] not in text:
            yield from hand.fill("Text", f"{p['line']}\n{text}" if first else f"{text}\n{p['line']}")
        yield from hand.tap("Save", scroll=False)
        yield from hand.done()

    return solve


def _command(hand: Hand, title: str, name: str) -> Script:
    yield from open_note(hand, title)
    yield from hand.tap("More options", scroll=False)
    yield from hand.tap(name, scroll=False)


def _move_draw(d: Draw) -> Params | None:
    p = _known(d)
    names = sorted({posixpath.basename(posixpath.dirname(path)) for path in _paths(d)} - {"Notes"})
    target = d.pick([name for name in names if f"{ROOT}/{name}" != p["folder"]])
    return {**p, "target": target} if target else None


def _moved(p: Params) -> list[Effect]:
    target = f"{ROOT}/{p['target']}/{p['title']}.md"
    return [FileGone(p["path"]), FileIs(target, p["text"], p["text"])]


def _newest_draw(d: Draw) -> Params | None:
    loose = [path for path in _paths(d) if posixpath.dirname(path) == ROOT]
    newest = max(loose, key=lambda path: d.phone.files[path].modified)
    return {"path": newest, "note": "note"}


def _newest_solve(hand: Hand, p: Params) -> Iterator[str]:
    yield from hand.open("Notes")
    yield from hand.tap("Newest first", scroll=False)
    rows = [
        element for element in hand.screen if element.texts and re.fullmatch(r"\d+ [A-Z][a-z]{2}", element.texts[-1])
    ]
    yield from hand.tap_element(rows[0])
    yield from hand.tap("More options", scroll=False)
    yield from hand.tap("Delete", scroll=False)
    yield from hand.tap("Delete", where=is_button)
    yield from hand.done()


def _where_draw(d: Draw) -> Params | None:
    p = _known(d)
    return None if p["folder"] == ROOT else {"title": p["title"], "answer": posixpath.basename(p["folder"])}


def _where_solve(hand: Hand, p: Params) -> Iterator[str]:
    yield from hand.open("Notes")
    yield from hand.fill("Search notes", p["title"])
    row = yield from hand.look_for(p["title"], True, lambda element: element.kind == "item")
    yield from hand.answer(row.texts[1].removeprefix("In "))


def _count_draw(d: Draw) -> Params | None:
    folder = d.random.pick(FOLDERS)
    count = sum(path.startswith(f"{ROOT}/{folder}/") for path in _paths(d))
    return {"folder": folder, "count": count} if count else None


def _count_solve(hand: Hand, p: Params) -> Iterator[str]:
    yield from hand.open("Notes")
    row = yield from hand.look_for(p["folder"])
    yield from hand.answer(row.texts[1].split()[0])


def _items(text: str) -> int:
    return sum(line.startswith("- ") for line in text.splitlines())


def _items_draw(d: Draw) -> Params | None:
    lists = {path: _items(d.phone.files[path].data.decode()) for path in _paths(d)}
    path = d.pick([path for path, count in lists.items() if count > 1])
    return {"title": title_of(path), "count": lists[path]} if path else None


def _merge_draw(d: Draw) -> Params | None:
    paths = d.some(_paths(d), 2)
    texts = [d.phone.files[path].data.decode() for path in paths]
    if max(map(len, texts)) > 120:
        return None
    first, two = map(title_of, paths)
    return {"one": first, "two": two, "title": d.random.pick(_TITLES), "text": f"{texts[0]}\n{texts[1]}"}


def _merge_solve(hand: Hand, p: Params) -> Iterator[str]:
    for key in ("one", "two"):
        if key not in hand.memory:
            yield from open_note(hand, p[key])
            yield from hand.tap("Edit note", scroll=False)
            hand.memory[key] = hand.field("Text").value
            yield from hand.leave()
    yield from hand.open("Notes")
    yield from hand.first_screen()
    yield from hand.fill("Search notes", "")
    yield from _write(hand, {"title": p["title"], "text": f"{hand.memory['one']}\n{hand.memory['two']}"})


def _missing_draw(d: Draw) -> Params | None:
    have = {title_of(path) for path in _paths(d)}
    absent = d.pick([title for title in NOTES if title not in have])
    return {"title": absent, "line": d.random.pick(_LINES)}


TEMPLATES: Final = (
    TaskTemplate(
        "NotesCreate",
        (
            "Create a note called {title} in Notes with this text: {text}",
            "Write a new note in Notes, outside of the folders. Title: {title}. Text: {text}",
        ),
        _create_draw,
        lambda p: [FileIs(f"{ROOT}/{p['title']}.md", p["text"])],
        _create_solve,
        _APPS,
    ),
    TaskTemplate(
        "NotesCreateInFolder",
        "In the folder {folder} of Notes, create a note called {title} that says: {text}",
        _in_folder_draw,
        lambda p: [FileIs(f"{ROOT}/{p['folder']}/{p['title']}.md", p["text"])],
        _in_folder_solve,
        _APPS,
        complexity=1.2,
        split="held_out",
    ),
    TaskTemplate(
        "NotesAddOnTop",
        "Put this line above the text of the note {title}: {line}",
        _line_draw,
        lambda p: [FileIs(p["path"], f"{p['line']}\n{p['text']}", p["text"])],
        _line_solve(True),
        _APPS,
        complexity=1.4,
    ),
    TaskTemplate(
        "NotesAddAtEnd",
        ("Add this line at the end of the note {title}: {line}", "The note {title} needs one more last line: {line}"),
        _line_draw,
        lambda p: [FileIs(p["path"], f"{p['text']}\n{p['line']}", p["text"])],
        _line_solve(False),
        _APPS,
        complexity=1.4,
    ),
    TaskTemplate(
        "NotesReplaceText",
        "Replace the whole text of the note {title} with: {line}",
        _line_draw,
        lambda p: [FileIs(p["path"], p["line"])],
        lambda hand, p: _edit(hand, p, p["line"]),
        _APPS,
        complexity=1.4,
    ),
    TaskTemplate(
        "NotesRename",
        ("Rename the note {title} to {new}.", "The note {title} shall be called {new} from now on."),
        lambda d: {**_known(d), "new": d.random.pick(_TITLES)},
        lambda p: [FileGone(p["path"]), FileIs(f"{p['folder']}/{p['new']}.md", p["text"], p["text"])],
        steps(call(_command, "{title}", "Rename"), fill("New name", "{new}"), tap("Rename", where=is_button)),
        _APPS,
        complexity=1.4,
    ),
    TaskTemplate(
        "NotesMove",
        "Move the note {title} into the folder {target}.",
        _move_draw,
        _moved,
        steps(call(_command, "{title}", "Move"), tap("{target}")),
        _APPS,
        complexity=1.4,
    ),
    TaskTemplate(
        "NotesDelete",
        ("Delete the note {title}.", "I no longer need the note {title}. Remove it."),
        _known,
        lambda p: [FileGone(p["path"])],
        steps(call(_command, "{title}", "Delete"), tap("Delete", where=is_button)),
        _APPS,
        complexity=1.4,
    ),
    TaskTemplate(
        "NotesDeleteNewest",
        "Of the notes that lie in no folder, delete the one that was changed last.",
        _newest_draw,
        lambda p: [FileGone(p["path"])],
        _newest_solve,
        _APPS,
        complexity=1.4,
        split="held_out",
    ),
    TaskTemplate(
        "NotesCreateFolder",
        ("Make a folder called {name} in Notes.", "I want a new folder {name} for my notes."),
        lambda d: {"name": d.random.pick(_FOLDERS)},
        lambda p: [FileIs(f"{ROOT}/{p['name']}/", "")],
        steps(start("Notes"), tap("New folder", scroll=False), fill("Folder name", "{name}"), tap("Create")),
        _APPS,
    ),
    TaskTemplate(
        "NotesAskFolder",
        "In which folder of Notes is the note {title}?",
        _where_draw,
        lambda p: [Answer("choice", p["answer"])],
        _where_solve,
        _APPS,
    ),
    TaskTemplate(
        "NotesCountFolder",
        "How many notes are in the folder {folder}? Answer with a number.",
        _count_draw,
        lambda p: [Answer("number", p["count"])],
        _count_solve,
        _APPS,
    ),
    TaskTemplate(
        "NotesCountItems",
        "How many items does the list in my note {title} have? Answer with a number.",
        _items_draw,
        lambda p: [Answer("number", p["count"])],
        steps(
            call(open_note, "{title}"),
            tap("Edit note", scroll=False),
            answer(lambda hand, p: _items(hand.field("Text").value)),
        ),
        _APPS,
        complexity=1.2,
    ),
    TaskTemplate(
        "NotesMerge",
        "Create a note called {title} that holds the text of the note {one} and, from the next line on, the "
        "text of the note {two}. Put it outside of the folders, and leave the two notes as they are.",
        _merge_draw,
        lambda p: [FileIs(f"{ROOT}/{p['title']}.md", p["text"], p["text"])],
        _merge_solve,
        _APPS,
        complexity=5.0,
        split="held_out",
    ),
    TaskTemplate(
        "NotesEditMissing",
        "Add this line to the note {title}: {line}",
        _missing_draw,
        lambda p: [Infeasible()],
        steps(start("Notes"), fill("Search notes", "{title}"), give_up()),
        _APPS,
        tags=("infeasible",),
    ),
)
