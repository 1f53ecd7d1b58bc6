"""Notes: text files with a little Markdown in /sdcard/Documents/Notes, in folders."""

from __future__ import annotations

import posixpath
from typing import Final

from turncredit.phone.toolkit import folders as storage
from turncredit.phone.toolkit.app import App, Context, to_datetime
from turncredit.phone.toolkit.handlers import do, keeps, opens
from turncredit.phone.toolkit.widgets import (
    Button,
    Chip,
    Dialog,
    Empty,
    Fab,
    Icon,
    IconButton,
    Item,
    List,
    Menu,
    Row,
    Screen,
    Section,
    Spacer,
    Text,
    TextField,
    Widget,
    cancel_or,
)

ROOT: Final = "/sdcard/Documents/Notes"
FOLDERS: Final = ("Home", "Ideas", "Travel", "Work")
NOTES: Final = {
    "Packing list": "# Packing list\n\n- passport\n- rain jacket\n- charger\n- {thing}",
    "Garden plan": "# Garden plan\n\nBeans along the fence, {thing} in the raised bed.\nWater every second day.",
    "Meeting on Monday": "# Meeting on Monday\n\n- figures of the quarter\n- who brings the {thing}\n- summer party",
    "Gift ideas": "- a {thing} for Mum\n- a book of maps\n- two tickets for the ferry",
    "Wifi of the cabin": "Network: pinecone\nPassword: seven-{thing}-under-snow",
    "Reading list": "# Reading list\n\n- The Lighthouse Clock\n- A Short History of the {thing}\n- Salt Roads",
    "Repairs": "- the kitchen tap drips\n- oil the hinges\n- the {thing} needs a new handle",
    "Running log": "Mon 5 km\nWed 7 km\nSat 11 km, lost my {thing}",
    "Questions for the doctor": "- how long until the knee is better\n- is {thing} good for it",
    "Songs to learn": "- Harbour Lights\n- The {thing} Waltz\n- Late Train Home",
    "Wine from the fair": "The red from stall {number} was best, bottle with a {thing} on the label.",
    "Locker": "Locker {number} on the second floor, next to the {thing}.",
    "Budget of the trip": "Ferry {number}\nRooms 240\nMeals 180\nOne {thing} as a present",
    "Workshop attendees": "# Attendees\n\n- Ivo\n- Marta\n- Selma\n- whoever brings the {thing}",
}
_PREVIEW: Final = 44  # characters of the first line that the list shows
_THINGS: Final = ("lantern", "kettle", "umbrella", "ladder", "compass", "basket", "teapot", "bicycle", "violin")


def write_notes(ctx: Context) -> None:
    """Write some ten notes, most of them in folders."""
    random = ctx.random
    for n, title in enumerate(random.shuffled(list(NOTES))[:10]):
        folder = "" if n < 3 else "/" + random.pick(FOLDERS)
        text = NOTES[title].format(thing=random.pick(_THINGS), number=random.between(11, 98))
        when = ctx.phone.state.clock - (n + 1) * 86400 - random.between(0, 80000)
        ctx.write_file(f"{ROOT}{folder}/{title}.md", text.encode(), when)


def title_of(path: str) -> str:
    """Return the name of a note: that of its file without .md."""
    return posixpath.basename(path).removesuffix(".md")


def _text(ctx: Context, path: str) -> str:
    return (ctx.read_file(path) or b"").decode("utf-8", "replace")


def _all_folders(ctx: Context) -> list[str]:
    return [ROOT, *storage.folders(ctx.phone, ROOT)]


def _folder_name(path: str) -> str:
    return "Notes" if path == ROOT else path.removeprefix(ROOT + "/")


def notes(ctx: Context, folder: str = ROOT) -> Screen:
    """Folders and notes of a folder; with a search, all notes below it whose title or text has the words."""
    query, order = str(ctx.get("query", "")).casefold().strip(), str(ctx.get("order", "name"))
    inside, paths = storage.names(ctx.phone, folder)
    if query:
        inside = []
        paths = [path for path in ctx.files(folder) if query in f"{title_of(path)}\n{_text(ctx, path)}".casefold()]
    modified = {path: ctx.phone.files[path].modified for path in paths}
    paths.sort(key=lambda path: (-modified[path], path) if order == "newest" else (0, title_of(path).casefold()))
    rows = [("folder", path) for path in inside] + [("note", path) for path in paths]
    empty = Empty("note", "No notes found" if query else "No notes here yet")
    body: list[Widget] = [List(rows, lambda row: _row(ctx, *row)) if rows else empty]
    chips = [
        Chip("By name", keeps("order", "name"), order == "name"),
        Chip("Newest first", keeps("order", "newest"), order == "newest"),
    ]
    actions = [IconButton("folder", "New folder", opens(folder_name, folder=folder))]
    if folder != ROOT:
        actions.append(IconButton("more", "More options", opens(commands, path=folder)))
    top = [TextField("query", "Search notes", icon="search"), Spacer(6), Row(chips), Spacer(4)]
    return Screen(
        _folder_name(folder).rsplit("/", 1)[-1],
        body,
        actions=actions,
        up=folder != ROOT,
        top=top,
        fab=Fab("pen", "New note", opens(form, path="", folder=folder)),
    )


def _row(ctx: Context, kind: str, path: str) -> Item:
    if kind == "folder":
        count = len(ctx.files(path))
        about = "1 note" if count == 1 else f"{count} notes"
        return Item(
            posixpath.basename(path),
            about,
            "folder",
            on_tap=opens(notes, folder=path),
            on_long_press=opens(commands, path=path),
        )
    when = to_datetime(ctx.phone.files[path].modified)
    first = next((line.lstrip("#- ") for line in _text(ctx, path).splitlines() if line.strip("#- ")), "Empty note")
    about = (
        (first if len(first) <= _PREVIEW else f"{first[: _PREVIEW - 1].rstrip()}\u2026")
        if not ctx.get("query")
        else f"In {_folder_name(posixpath.dirname(path))}"
    )
    shown = f"{when.day} {when:%b}"
    return Item(
        title_of(path),
        about,
        "note",
        trailing=shown,
        on_tap=opens(note, path=path),
        on_long_press=opens(commands, path=path),
    )


def edit(ctx: Context, path: str) -> None:
    """Open a note for writing."""
    ctx.open(form, path=path, folder=posixpath.dirname(path))


def commands(ctx: Context, path: str) -> Menu:
    """Rename, move, delete; copy the text of a note."""
    entries = [("Rename", opens(new_name, path=path)), ("Move", opens(choose_folder, path=path))]
    if path in ctx.phone.files:
        entries.append(("Copy text", do(copy_text, path=path)))
    return Menu([*entries, ("Delete", opens(confirm, path=path))])


def copy_text(ctx: Context, path: str) -> None:
    """Put the text of a note on the clipboard."""
    ctx.copy(_text(ctx, path))
    ctx.snackbar("Copied")


def note(ctx: Context, path: str) -> Screen:
    """One note, with headings and lists drawn as such."""
    if ctx.read_file(path) is None:
        return Screen("", [Empty("note", "This note is gone")])
    lines = _text(ctx, path).splitlines()
    when = to_datetime(ctx.phone.files[path].modified)
    folder = _folder_name(posixpath.dirname(path))
    about = f"{folder}, changed {when.day} {when:%B %Y}"
    return Screen(
        title_of(path),
        [Text(about, style="caption"), Spacer(12), *[_line(line) for line in lines], Spacer(80)],
        actions=[
            IconButton("edit", "Edit note", do(edit, path=path)),
            IconButton("more", "More options", opens(commands, path=path)),
        ],
    )


def _line(line: str) -> Widget:
    if line.startswith("#"):
        return Text(line.lstrip("# "), style="title", selectable=True)
    if line.startswith(("- [ ] ", "- [x] ")):
        done = line.startswith("- [x]")
        return Row([Icon("check" if done else "stop", size=18), Text(line[6:], selectable=True)])
    if line.startswith("- "):
        return Text(f"•  {line[2:]}", selectable=True)
    return Text(line, selectable=True) if line.strip() else Spacer(10)


def form(ctx: Context, path: str = "", folder: str = ROOT) -> Screen:
    """A note for writing; `path` "" is a new one."""
    title = TextField("title", "Title", title_of(path)) if not path else Text(title_of(path), style="title")
    return Screen(
        "Edit note" if path else "New note",
        [title, Spacer(8), TextField("text", "Text", _text(ctx, path), multiline=True)],
        up_icon="close",
        actions=[IconButton("check", "Save", do(save, path=path, folder=folder), colour="primary")],
        on_back=do(leave, path=path),
    )


def save(ctx: Context, path: str, folder: str) -> None:
    """Write the note."""
    text = str(ctx.form["text"])
    if path:
        ctx.write_file(path, text.encode())
        ctx.back()
    elif target := _free_path(ctx, folder, str(ctx.form["title"]), ".md"):
        ctx.write_file(target, text.encode())
        ctx.replace(note, path=target)


def _free_path(ctx: Context, folder: str, name: str, ending: str) -> str:
    """Return the path of a new name in a folder; "" after telling what is wrong with it."""
    clean = name.strip().removesuffix(".md").strip()
    path = f"{folder}/{clean}{ending}"
    if not clean or "/" in clean or clean in (".", ".."):
        ctx.snackbar("Enter a name without /")
    elif path in ctx.phone.files or path in _all_folders(ctx):
        ctx.snackbar(f"{clean} exists already")
    else:
        return path
    return ""


def leave(ctx: Context, path: str) -> None:
    """Close the form; if it was changed, ask first."""
    if ctx.form["text"] != _text(ctx, path) or ctx.form.get("title"):
        ctx.open(discard)
    else:
        ctx.back()


def discard(ctx: Context) -> Dialog:
    """Ask whether the changes of the note are lost."""
    buttons = [Button("Keep editing", None, kind="text"), Button("Discard", do(close), kind="text")]
    return Dialog("Discard your changes?", buttons=buttons)


def close(ctx: Context) -> None:
    """Close the page."""
    ctx.back()


def folder_name(ctx: Context, folder: str) -> Dialog:
    """The name of a new folder."""
    buttons = cancel_or("Create", do(make_folder, folder=folder))
    return Dialog("New folder", [TextField("name", "Folder name")], buttons)


def make_folder(ctx: Context, folder: str) -> None:
    """Make a folder."""
    if path := _free_path(ctx, folder, str(ctx.form["name"]), ""):
        storage.make_folder(ctx.phone, path)


def new_name(ctx: Context, path: str) -> Dialog:
    """Another name for a note or folder."""
    buttons = cancel_or("Rename", do(rename, path=path))
    return Dialog("Rename", [TextField("name", "New name", title_of(path))], buttons)


def rename(ctx: Context, path: str) -> None:
    """Give a note or folder another name."""
    ending = ".md" if path in ctx.phone.files else ""
    if target := _free_path(ctx, posixpath.dirname(path), str(ctx.form["name"]), ending):
        _move(ctx, path, target)


def _move(ctx: Context, path: str, target: str) -> None:
    storage.move(ctx.phone, path, target)
    page = ctx.phone.page
    if page.screen == "note":
        ctx.replace(note, path=target)
    elif dict(page.params).get("folder") == path:
        ctx.replace(notes, folder=target)


def choose_folder(ctx: Context, path: str) -> Screen:
    """The folders that a note or folder can move to."""
    here = posixpath.dirname(path)
    targets = [f for f in _all_folders(ctx) if f != here and f != path and not f.startswith(path + "/")]
    rows = [Item(_folder_name(f), icon="folder", on_tap=do(move_to, path=path, folder=f)) for f in targets]
    return Screen("Move to", [Section(title_of(path)), *rows], up_icon="close")


def move_to(ctx: Context, path: str, folder: str) -> None:
    """Move a note or folder."""
    ctx.back()
    if target := _free_path(ctx, folder, title_of(path), ".md" if path in ctx.phone.files else ""):
        _move(ctx, path, target)
        ctx.snackbar(f"Moved to {_folder_name(folder)}")


def confirm(ctx: Context, path: str) -> Dialog:
    """Ask whether a note or folder is deleted."""
    kind = "note" if path in ctx.phone.files else "folder and all notes in it"
    buttons = cancel_or("Delete", do(delete, path=path), kind="danger")
    return Dialog("Delete?", [Text(f"The {kind} “{title_of(path)}” will be deleted.")], buttons)


def delete(ctx: Context, path: str) -> None:
    """Delete a note or folder."""
    storage.remove(ctx.phone, path)
    if ctx.phone.page.screen == "note" or dict(ctx.phone.page.params).get("folder") == path:
        ctx.back()
    ctx.snackbar("Deleted")


APP = App(
    package="org.turncredit.notes",
    name="Notes",
    icon="note",
    colour="#f9ab00",
    files=write_notes,
    screens=(notes, note, commands, form, discard, folder_name, new_name, choose_folder, confirm),
)
