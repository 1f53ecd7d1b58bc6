"""Gallery: the pictures in /sdcard/DCIM and /sdcard/Pictures, by album, with favourites."""

from __future__ import annotations

import posixpath
from collections.abc import Callable
from datetime import datetime, timedelta
from functools import partial
from typing import Final

from turncredit.phone.toolkit import folders as storage
from turncredit.phone.toolkit.app import App, Context, to_clock, to_datetime
from turncredit.phone.toolkit.drawings import HEIGHT, KINDS, WIDTH, drawing_of, png, scene
from turncredit.phone.toolkit.handlers import do, keeps, opens
from turncredit.phone.toolkit.widgets import (
    Button,
    Dialog,
    Empty,
    Grid,
    IconButton,
    Item,
    Menu,
    Picture,
    Screen,
    Section,
    Shape,
    Spacer,
    Tab,
    Text,
    TextField,
    Widget,
    cancel_or,
)

ROOTS: Final = ("/sdcard/DCIM", "/sdcard/Pictures")
ALBUMS: Final = ("DCIM/Camera", "Pictures/Holidays", "Pictures/Screenshots", "Pictures/Postcards")
_TABS: Final = (("Photos", "image"), ("Albums", "folder"), ("Favourites", "heart"))


def write_pictures(ctx: Context) -> None:
    """Draw some fifteen pictures of the last two months."""
    random = ctx.random
    for n in range(random.between(13, 17)):
        album = random.pick(ALBUMS)
        kind, number = random.pick(KINDS), random.between(0, 30)
        when = ctx.now - timedelta(days=n * 3 + random.between(0, 2), minutes=random.between(0, 600))
        name = f"{'IMG' if 'Camera' in album else kind.replace(' ', '_')}_{when:%Y%m%d_%H%M%S}.png"
        ctx.write_file(f"/sdcard/{album}/{name}", png(kind, number), to_clock(when))


def _pictures(ctx: Context, album: str = "") -> list[str]:
    """Return the paths of all pictures, or of an album, the newest first."""
    folders = (album,) if album else ROOTS
    paths = [path for folder in folders for path in ctx.files(folder) if path.lower().endswith((".png", ".jpg"))]
    return sorted(paths, key=lambda path: (-ctx.phone.files[path].modified, path))


def _albums(ctx: Context) -> list[str]:
    return [path for root in ROOTS for path in storage.folders(ctx.phone, root)]


def _loved(ctx: Context, path: str) -> bool:
    return bool(ctx.db.rows("favourites", **_place(path)))


def _place(path: str) -> dict[str, str]:
    """Return album and name of a picture, as the database has them."""
    album, name = posixpath.split(path.removeprefix("/sdcard/"))
    return {"album": album, "name": name}


def _when(ctx: Context, path: str) -> datetime:
    return to_datetime(ctx.phone.files[path].modified)


def _drawn(ctx: Context, path: str) -> Callable[[], tuple[Shape, ...]]:
    """Return what draws a picture, for screenshots."""
    return partial(_shapes, path, ctx.read_file(path) or b"")


def _shapes(path: str, data: bytes) -> tuple[Shape, ...]:
    drawing = drawing_of(data)
    if drawing:
        return scene(*drawing)
    frame = Shape("box", ((0, 0), (WIDTH, HEIGHT)), "field")
    return (frame, Shape("text", ((WIDTH / 2, HEIGHT / 2),), "muted", 9, posixpath.basename(path)[:16]))


def _thumbnail(ctx: Context, path: str) -> Picture:
    name = posixpath.basename(path)
    return Picture(
        _drawn(ctx, path),
        WIDTH,
        HEIGHT,
        name,
        on_tap=opens(picture, path=path),
        on_long_press=opens(commands, path=path),
    )


def gallery(ctx: Context) -> Screen:
    """All pictures by day, the albums, or the favourites."""
    tab = str(ctx.get("tab", "Photos"))
    if tab == "Albums":
        body: list[Widget] = [Spacer(8), *[_album_row(ctx, path) for path in _albums(ctx)]]
    else:
        paths = [path for path in _pictures(ctx) if tab == "Photos" or _loved(ctx, path)]
        body = _by_month(ctx, paths) or [Empty("image", "No pictures")]
    actions = [IconButton("add", "New album", opens(album_name))] if tab == "Albums" else []
    bar = [Tab(name, keeps("tab", name), name == tab, icon) for name, icon in _TABS]
    return Screen("Gallery" if tab == "Photos" else tab, [*body, Spacer(24)], actions=actions, bar=bar)


def _by_month(ctx: Context, paths: list[str]) -> list[Widget]:
    months: dict[str, list[str]] = {}
    for path in paths:
        months.setdefault(f"{_when(ctx, path):%B %Y}", []).append(path)
    body: list[Widget] = []
    for month, chosen in months.items():
        body += [Section(month), Grid([_thumbnail(ctx, path) for path in chosen], columns=3, gap=6)]
    return body


def _album_row(ctx: Context, path: str) -> Item:
    count = len(_pictures(ctx, path))
    about = "1 picture" if count == 1 else f"{count} pictures"
    return Item(posixpath.basename(path), about, "folder", on_tap=opens(album, path=path))


def album(ctx: Context, path: str) -> Screen:
    """The pictures of an album."""
    paths = _pictures(ctx, path)
    return Screen(posixpath.basename(path), _by_month(ctx, paths) or [Empty("image", "No pictures")])


def commands(ctx: Context, path: str) -> Menu:
    """Details, move, delete."""
    entries = [("Details", opens(details, path=path)), ("Move to album", opens(choose_album, path=path))]
    return Menu([*entries, ("Delete", opens(confirm, path=path))])


def picture(ctx: Context, path: str) -> Screen:
    """One picture, as large as the screen is wide."""
    if path not in ctx.phone.files:
        return Screen("", [Empty("image", "This picture is gone")])
    loved = _loved(ctx, path)
    star = "Remove from favourites" if loved else "Add to favourites"
    when = _when(ctx, path)
    return Screen(
        f"{when.day} {when:%B %Y}",
        [
            Spacer(64),
            Picture(_drawn(ctx, path), WIDTH, HEIGHT, posixpath.basename(path)),
            Spacer(16),
            Text(posixpath.basename(path), align="center"),
            Text(posixpath.basename(posixpath.dirname(path)), style="caption", align="center"),
        ],
        actions=[
            IconButton("heart_full" if loved else "heart", star, do(flip, path=path)),
            IconButton("info", "Details", opens(details, path=path)),
            IconButton("delete", "Delete picture", opens(confirm, path=path)),
            IconButton("more", "More options", opens(commands, path=path)),
        ],
    )


def flip(ctx: Context, path: str) -> None:
    """Add the picture to the favourites, or remove it."""
    favourites = ctx.db.rows("favourites", **_place(path))
    if favourites:
        ctx.db.delete("favourites", favourites[0]["_id"])
    else:
        ctx.db.insert("favourites", **_place(path))


def details(ctx: Context, path: str) -> Dialog:
    """Name, album, date and size."""
    when, data = _when(ctx, path), ctx.read_file(path) or b""
    rows: list[Widget] = [
        Item(posixpath.basename(path), "Name"),
        Item(posixpath.basename(posixpath.dirname(path)), "Album"),
        Item(f"{when.day} {when:%B %Y}, {when:%H:%M}", "Taken"),
        Item(f"{len(data)} bytes", "Size"),
    ]
    return Dialog("Details", rows, [Button("Close", None, kind="text")])


def choose_album(ctx: Context, path: str) -> Screen:
    """The other albums."""
    targets = [a for a in _albums(ctx) if a != posixpath.dirname(path)]
    rows = [Item(posixpath.basename(a), icon="folder", on_tap=do(move_to, path=path, album=a)) for a in targets]
    return Screen("Move to album", rows, up_icon="close")


def move_to(ctx: Context, path: str, album: str) -> None:
    """Move a picture into an album."""
    ctx.back()
    target = f"{album}/{posixpath.basename(path)}"
    if target in ctx.phone.files:
        ctx.snackbar("The album has a picture of this name")
        return
    storage.move(ctx.phone, path, target)
    for row in ctx.db.rows("favourites", **_place(path)):
        ctx.db.update("favourites", row["_id"], **_place(target))
    if ctx.phone.page.screen == "picture":
        ctx.replace(picture, path=target)
    ctx.snackbar(f"Moved to {posixpath.basename(album)}")


def album_name(ctx: Context) -> Dialog:
    """The name of a new album."""
    buttons = cancel_or("Create", do(add_album))
    return Dialog("New album", [TextField("name", "Album name")], buttons)


def add_album(ctx: Context) -> None:
    """Make a folder in Pictures."""
    name = str(ctx.form["name"]).strip()
    path = f"/sdcard/Pictures/{name}"
    if not name or "/" in name or path in _albums(ctx):
        ctx.snackbar("Enter a new name without /")
    else:
        storage.make_folder(ctx.phone, path)


def confirm(ctx: Context, path: str) -> Dialog:
    """Ask whether a picture is deleted."""
    buttons = cancel_or("Delete", do(delete, path=path), kind="danger")
    return Dialog("Delete this picture?", [Text(posixpath.basename(path))], buttons)


def delete(ctx: Context, path: str) -> None:
    """Delete a picture."""
    storage.remove(ctx.phone, path)
    for row in ctx.db.rows("favourites", **_place(path)):
        ctx.db.delete("favourites", row["_id"])
    if ctx.phone.page.screen == "picture":
        ctx.back()
    ctx.snackbar("Picture deleted")


APP = App(
    package="org.turncredit.gallery",
    name="Gallery",
    icon="image",
    colour="#7b1fa2",
    schema={"favourites": {"album": str, "name": str}},
    files=write_pictures,
    screens=(gallery, album, picture, commands, details, choose_album, album_name, confirm),
)
