"""Files: the storage under /sdcard, folder by folder, with search, and all that one does to files."""

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

ROOT: Final = "/sdcard"
DOCUMENTS: Final = {
    "Documents": ("lease.txt", "insurance letter.txt", "curriculum.txt", "bicycle invoice.txt", "tax 2022.txt"),
    "Documents/School": ("timetable.txt", "excursion.txt", "essay on rivers.txt"),
    "Download": ("ferry tickets.txt", "manual kettle.txt", "museum map.txt", "recipe cards.txt", "setup log.txt"),
    "Music": ("lyrics harbour.txt", "tour dates.txt"),
}
_LINES: Final = (
    "Please keep this copy for your records.",
    "The second part follows next month.",
    "Questions are answered on weekdays between nine and five.",
    "Changes are marked in the margin.",
    "All amounts are in euros.",
    "Bring this sheet with you.",
)
_KINDS: Final = {"md": "note", "txt": "text", "png": "image", "jpg": "image", "mp3": "music", "zip": "archive"}


def write_documents(ctx: Context) -> None:
    """Write some ten text files."""
    random = ctx.random
    for folder, titles in DOCUMENTS.items():
        for title in random.shuffled(titles)[: max(2, len(titles) - 1)]:
            lines = [title.removesuffix(".txt").capitalize(), f"Number {random.between(1000, 9999)}", ""]
            text = "\n".join([*lines, *random.shuffled(_LINES)[: random.between(2, 5)]])
            when = ctx.phone.state.clock - random.between(1, 200) * 86400 - random.between(0, 80000)
            ctx.write_file(f"{ROOT}/{folder}/{title}", text.encode(), when)


def size_text(size: int) -> str:
    """Return a size as people read it: 812 B, 3.4 kB."""
    return f"{size} B" if size < 1000 else f"{size / 1000:.1f} kB" if size < 1e6 else f"{size / 1e6:.1f} MB"


def _icon(path: str) -> str:
    return _KINDS.get(path.rsplit(".", 1)[-1].lower(), "file")


def _folder_name(path: str) -> str:
    return "Internal storage" if path == ROOT else path.removeprefix(ROOT + "/")


def files(ctx: Context, folder: str = ROOT) -> Screen:
    """What lies in a folder; with a search, all files below it whose name has the words."""
    query, order = str(ctx.get("query", "")).casefold().strip(), str(ctx.get("order", "Name"))
    inside, paths = storage.names(ctx.phone, folder)
    if query:
        inside = [path for path in storage.folders(ctx.phone, folder) if query in posixpath.basename(path).casefold()]
        paths = [path for path in ctx.files(folder) if query in posixpath.basename(path).casefold()]
    stored = ctx.phone.files
    if order == "Size":
        paths.sort(key=lambda path: (-len(stored[path].data), path))
    elif order == "Date":
        paths.sort(key=lambda path: (-stored[path].modified, path))
    rows = [(True, path) for path in inside] + [(False, path) for path in paths]
    chips = [Chip(name, keeps("order", name), name == order) for name in ("Name", "Size", "Date")]
    empty = Empty("search", "Nothing found") if query else Empty("folder", "This folder is empty")
    actions = [IconButton("more", "More options", opens(commands, path=folder))] if folder != ROOT else []
    return Screen(
        "Files" if folder == ROOT else posixpath.basename(folder),
        [List(rows, lambda row: _row(ctx, *row)) if rows else empty],
        actions=actions,
        up=folder != ROOT,
        top=[TextField("query", "Search files", icon="search"), Spacer(6), Row(chips), Spacer(4)],
        fab=Fab("add", "New folder", opens(folder_name, folder=folder)),
    )


def _row(ctx: Context, is_folder: bool, path: str) -> Item:
    end = IconButton("more", f"Options of {posixpath.basename(path)}", opens(commands, path=path))
    name, held = posixpath.basename(path), opens(commands, path=path)
    if is_folder:
        inside, paths = storage.names(ctx.phone, path)
        count = len(inside) + len(paths)
        about = "1 item" if count == 1 else f"{count} items"
        return Item(name, about, "folder", end=end, on_tap=opens(files, folder=path), on_long_press=held)
    content = ctx.phone.files[path]
    when = to_datetime(content.modified)
    about = f"{size_text(len(content.data))}, {when.day} {when:%b %Y}"
    return Item(name, about, _icon(path), end=end, on_tap=opens(file, path=path), on_long_press=held)


def commands(ctx: Context, path: str) -> Menu:
    """Rename, move, copy, details, delete; the folders of every phone stay as they are."""
    details_of = ("Details", opens(details, path=path))
    copy = ("Copy to", opens(choose_folder, path=path, keep=True))
    if path in storage.STANDARD:
        return Menu([copy, details_of])
    change = [("Rename", opens(new_name, path=path)), ("Move to", opens(choose_folder, path=path, keep=False))]
    return Menu([*change, copy, details_of, ("Delete", opens(confirm, path=path))])


def file(ctx: Context, path: str) -> Screen:
    """One file: the text of a text file, and its details."""
    content = ctx.phone.files.get(path)
    if content is None:
        return Screen("", [Empty("file", "This file is gone")])
    try:
        lines = content.data.decode().splitlines() if b"\0" not in content.data else []
    except UnicodeDecodeError:
        lines = []
    body: list[Widget] = [Text(line, selectable=True) if line else Spacer(10) for line in lines[:200]]
    shown = body or [Empty(_icon(path), "No preview of this file")]
    return Screen(
        posixpath.basename(path),
        [Spacer(8), *shown],
        actions=[
            IconButton("info", "Details", opens(details, path=path)),
            IconButton("more", "More options", opens(commands, path=path)),
        ],
    )


def details(ctx: Context, path: str) -> Dialog:
    """Name, place, size and date."""
    file = ctx.phone.files.get(path)
    inside = [path] if file else ctx.files(path)
    size = sum(len(ctx.phone.files[name].data) for name in inside)
    rows = [
        Item(posixpath.basename(path), "Name"),
        Item(_folder_name(posixpath.dirname(path)), "Location"),
        Item(f"{size_text(size)} ({size} bytes)", "Size"),
    ]
    if file:
        when = to_datetime(file.modified)
        rows.append(Item(f"{when.day} {when:%B %Y}, {when:%H:%M}", "Changed"))
    else:
        rows.append(Item(str(len(inside)), "Files"))
    return Dialog("Details", rows, [Button("Close", None, kind="text")])


def _free_path(ctx: Context, folder: str, name: str) -> str:
    """Return the path of a new name in a folder; "" after telling what is wrong with it."""
    clean = name.strip()
    path = f"{folder}/{clean}"
    if not clean or "/" in clean or clean in (".", ".."):
        ctx.snackbar("Enter a name without /")
    elif path in ctx.phone.files or path in storage.folders(ctx.phone):
        ctx.snackbar(f"{clean} exists already")
    else:
        return path
    return ""


def folder_name(ctx: Context, folder: str) -> Dialog:
    """The name of a new folder."""
    buttons = cancel_or("Create", do(make_folder, folder=folder))
    return Dialog("New folder", [TextField("name", "Folder name")], buttons)


def make_folder(ctx: Context, folder: str) -> None:
    """Make a folder."""
    if path := _free_path(ctx, folder, str(ctx.form["name"])):
        storage.make_folder(ctx.phone, path)


def new_name(ctx: Context, path: str) -> Dialog:
    """Another name for a file or folder."""
    buttons = cancel_or("Rename", do(rename, path=path))
    return Dialog("Rename", [TextField("name", "New name", posixpath.basename(path))], buttons)


def rename(ctx: Context, path: str) -> None:
    """Give a file or folder another name."""
    if target := _free_path(ctx, posixpath.dirname(path), str(ctx.form["name"])):
        _move(ctx, path, target)


def _move(ctx: Context, path: str, target: str) -> None:
    storage.move(ctx.phone, path, target)
    page = ctx.phone.page
    if dict(page.params) == {"path": path} and page.screen == "file":
        ctx.replace(file, path=target)
    elif dict(page.params).get("folder") == path:
        ctx.replace(files, folder=target)


def choose_folder(ctx: Context, path: str, keep: bool) -> Screen:
    """The folders that a file or folder can go to."""
    here = posixpath.dirname(path)
    every = [ROOT, *storage.folders(ctx.phone)]
    targets = [f for f in every if f not in (here, path) and not f.startswith(path + "/")]
    rows = [Item(_folder_name(f), icon="folder", on_tap=do(put, path=path, folder=f, keep=keep)) for f in targets]
    return Screen("Copy to" if keep else "Move to", [Section(posixpath.basename(path)), *rows], up_icon="close")


def put(ctx: Context, path: str, folder: str, keep: bool) -> None:
    """Move or copy a file or folder into a folder."""
    ctx.back()
    if target := _free_path(ctx, folder, posixpath.basename(path)):
        if keep:
            storage.copy(ctx.phone, path, target)
        else:
            _move(ctx, path, target)
        ctx.snackbar(f"{'Copied' if keep else 'Moved'} to {_folder_name(folder)}")


def confirm(ctx: Context, path: str) -> Dialog:
    """Ask whether a file or folder is deleted."""
    kind = "file" if path in ctx.phone.files else "folder and everything in it"
    buttons = cancel_or("Delete", do(delete, path=path), kind="danger")
    return Dialog("Delete?", [Text(f"The {kind} “{posixpath.basename(path)}” will be deleted.")], buttons)


def delete(ctx: Context, path: str) -> None:
    """Delete a file or folder."""
    storage.remove(ctx.phone, path)
    params = dict(ctx.phone.page.params)
    if params.get("path") == path or params.get("folder") == path:
        ctx.back()
    ctx.snackbar("Deleted")


APP = App(
    package="org.turncredit.files",
    name="Files",
    icon="folder",
    colour="#1e88e5",
    files=write_documents,
    screens=(files, file, commands, details, folder_name, new_name, choose_folder, confirm),
)
