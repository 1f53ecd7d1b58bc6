"""Tasks of Files."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator
from typing import Final

from turncredit.envs.android.tasks.effects import Answer, FileGone, FileIs, Infeasible
from turncredit.envs.android.tasks.hand import Hand, Script, is_button
from turncredit.envs.android.tasks.steps import call, fill, give_up, start, steps, tap
from turncredit.envs.android.tasks.template import Draw, Params, TaskTemplate
from turncredit.phone.apps.files import DOCUMENTS, ROOT

_APPS: Final = ("Files",)
_NAMES: Final = ("Archive", "Receipts", "Plans", "Scans", "Letters", "Backup", "Shared")
_TARGETS: Final = ("Documents", "Download", "Movies", "Music", "Pictures")


def _known(d: Draw) -> Params:
    paths = [path for path in d.phone.files if posixpath.dirname(path).removeprefix(ROOT + "/") in DOCUMENTS]
    path = d.random.pick(sorted(path for path in paths if path.endswith(".txt")))
    folder = posixpath.dirname(path).removeprefix(ROOT + "/")
    return {"path": path, "name": posixpath.basename(path), "folder": folder, "text": d.phone.files[path].data.decode()}


def _elsewhere(d: Draw) -> Params | None:
    p = _known(d)
    return {**p, "target": d.random.pick([name for name in _TARGETS if name != p["folder"]])}


def _go(hand: Hand, folder: str) -> Script:
    yield from hand.open("Files")
    for name in folder.split("/"):
        yield from hand.tap(name)


def _command(hand: Hand, folder: str, file: str, name: str) -> Script:
    yield from _go(hand, folder)
    yield from hand.tap(f"Options of {file}")
    yield from hand.tap(name, scroll=False)


def _target(p: Params) -> str:
    return f"{ROOT}/{p['target']}/{p['name']}"


def _size_draw(d: Draw) -> Params | None:
    p = _known(d)
    return {**p, "size": len(p["text"].encode())}


def _size_solve(hand: Hand, p: Params) -> Iterator[str]:
    yield from _command(hand, p["folder"], p["name"], "Details")
    size = next(text for text in hand.texts() if text.endswith(" bytes)"))
    yield from hand.answer(size.split("(")[1].split()[0])


def _count_draw(d: Draw) -> Params | None:
    folder = d.random.pick(list(DOCUMENTS))
    count = sum(posixpath.dirname(path) == f"{ROOT}/{folder}" for path in d.phone.files)
    return {"folder": folder, "count": count} if count else None


def _count_solve(hand: Hand, p: Params) -> Iterator[str]:
    yield from _go(hand, p["folder"])
    names = yield from hand.read_all(lambda e: e.texts[:1] if len(e.texts) == 2 and "B, " in e.texts[1] else None)
    yield from hand.answer(len(names))


def _number_draw(d: Draw) -> Params | None:
    p = _known(d)
    return {**p, "number": p["text"].splitlines()[1].removeprefix("Number ")}


def _number_solve(hand: Hand, p: Params) -> Iterator[str]:
    yield from _go(hand, p["folder"])
    yield from hand.tap(p["name"])
    line = next(text for text in hand.texts() if text.startswith("Number "))
    yield from hand.answer(line.removeprefix("Number "))


def _largest_draw(d: Draw) -> Params | None:
    folder = d.random.pick(list(DOCUMENTS))
    paths = [path for path in d.phone.files if posixpath.dirname(path) == f"{ROOT}/{folder}"]
    paths.sort(key=lambda path: len(d.phone.files[path].data), reverse=True)
    if len(paths) < 2 or len(d.phone.files[paths[0]].data) == len(d.phone.files[paths[1]].data):
        return None
    return {"folder": folder, "answer": posixpath.basename(paths[0])}


def _largest_solve(hand: Hand, p: Params) -> Iterator[str]:
    yield from _go(hand, p["folder"])
    yield from hand.tap("Size", scroll=False)
    row = next(e for e in hand.screen if len(e.texts) == 2 and "B, " in e.texts[1])
    yield from hand.answer(row.texts[0])


def _where_draw(d: Draw) -> Params | None:
    p = _known(d)
    return {"name": p["name"], "folder": p["folder"]}


def _where_solve(hand: Hand, p: Params) -> Iterator[str]:
    yield from hand.open("Files")
    yield from hand.fill("Search files", p["name"])
    yield from hand.tap(f"Options of {p['name']}")
    yield from hand.tap("Details", scroll=False)
    texts = hand.texts()
    yield from hand.answer(texts[texts.index("Location") - 1])


def _missing_draw(d: Draw) -> Params | None:
    absent = [
        (folder, name)
        for folder, names in DOCUMENTS.items()
        for name in names
        if not any(posixpath.basename(path) == name for path in d.phone.files)
    ]
    folder, name = d.random.pick(absent)
    return {"folder": folder, "name": name}


TEMPLATES: Final = (
    TaskTemplate(
        "FilesDelete",
        ("Delete the file {name} in the folder {folder}.", "Remove {name} from the folder {folder} of this phone."),
        _known,
        lambda p: [FileGone(p["path"])],
        steps(call(_command, "{folder}", "{name}", "Delete"), tap("Delete", where=is_button)),
        _APPS,
        complexity=1.4,
    ),
    TaskTemplate(
        "FilesMove",
        "Move the file {name} from the folder {folder} to the folder {target}.",
        _elsewhere,
        lambda p: [FileGone(p["path"]), FileIs(_target(p), p["text"], p["text"])],
        steps(call(_command, "{folder}", "{name}", "Move to"), tap("{target}")),
        _APPS,
        complexity=1.4,
    ),
    TaskTemplate(
        "FilesCopy",
        "Put a copy of {name}, which is in {folder}, into the folder {target}.",
        _elsewhere,
        lambda p: [FileIs(_target(p), p["text"], p["text"])],
        steps(call(_command, "{folder}", "{name}", "Copy to"), tap("{target}")),
        _APPS,
        complexity=1.4,
        split="held_out",
    ),
    TaskTemplate(
        "FilesRename",
        "Rename the file {name} in the folder {folder} to {new}.",
        lambda d: {**_known(d), "new": f"{d.random.pick(_NAMES).lower()} {d.random.between(10, 99)}.txt"},
        lambda p: [FileGone(p["path"]), FileIs(f"{ROOT}/{p['folder']}/{p['new']}", p["text"], p["text"])],
        steps(
            call(_command, "{folder}", "{name}", "Rename"), fill("New name", "{new}"), tap("Rename", where=is_button)
        ),
        _APPS,
        complexity=1.6,
    ),
    TaskTemplate(
        "FilesCreateFolder",
        ("Create a folder called {name} in the folder {folder}.", "In {folder}, make a new folder: {name}."),
        lambda d: {"name": d.random.pick(_NAMES), "folder": d.random.pick(_TARGETS)},
        lambda p: [FileIs(f"{ROOT}/{p['folder']}/{p['name']}/", "")],
        steps(call(_go, "{folder}"), tap("New folder", scroll=False), fill("Folder name", "{name}"), tap("Create")),
        _APPS,
        complexity=1.2,
    ),
    TaskTemplate(
        "FilesAskSize",
        "How many bytes has the file {name} in the folder {folder}? Answer with a number.",
        _size_draw,
        lambda p: [Answer("number", p["size"])],
        _size_solve,
        _APPS,
        complexity=1.2,
    ),
    TaskTemplate(
        "FilesCountFolder",
        "How many files lie directly in the folder {folder}, folders not counted? Answer with a number.",
        _count_draw,
        lambda p: [Answer("number", p["count"])],
        _count_solve,
        _APPS,
        complexity=1.2,
    ),
    TaskTemplate(
        "FilesAskNumber",
        "Open the file {name} in the folder {folder}. Which number stands in its second line?",
        _number_draw,
        lambda p: [Answer("number", int(p["number"]))],
        _number_solve,
        _APPS,
        complexity=1.2,
    ),
    TaskTemplate(
        "FilesAskLargest",
        "Which is the largest file in the folder {folder}? Answer with its full name.",
        _largest_draw,
        lambda p: [Answer("text", p["answer"])],
        _largest_solve,
        _APPS,
        complexity=1.2,
        split="held_out",
    ),
    TaskTemplate(
        "FilesAskFolder",
        "Where on this phone is the file {name}? Answer with the location that its details show.",
        _where_draw,
        lambda p: [Answer("text", p["folder"])],
        _where_solve,
        _APPS,
        complexity=1.2,
    ),
    TaskTemplate(
        "FilesDeleteMissing",
        "Delete the file {name} in the folder {folder}.",
        _missing_draw,
        lambda p: [Infeasible()],
        steps(start("Files"), fill("Search files", "{name}"), give_up()),
        _APPS,
        split="held_out",
        tags=("infeasible",),
    ),
)
