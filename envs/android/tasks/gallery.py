"""Tasks of Gallery."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator
from datetime import timedelta
from typing import Final

from turncredit.envs.android.tasks.effects import Answer, DeleteRow, FileGone, FileIs, Infeasible, InsertRow
from turncredit.envs.android.tasks.hand import Hand, Script
from turncredit.envs.android.tasks.steps import fill, start, steps, tap
from turncredit.envs.android.tasks.template import Draw, Params, TaskTemplate
from turncredit.phone.apps.gallery import ALBUMS, ROOTS
from turncredit.phone.toolkit.app import to_datetime

PACKAGE: Final = "org.turncredit.gallery"
_APPS: Final = ("Gallery",)
_NAMES: Final = ("Garden", "Family", "Mountains", "Best of", "Birds", "Kitchen")


def _paths(d: Draw) -> list[str]:
    paths = [path for path in d.phone.files if path.startswith(ROOTS) and path.endswith(".png")]
    return sorted(paths, key=lambda path: -d.phone.files[path].modified)


def _place(path: str) -> Params:
    album, name = posixpath.split(path.removeprefix("/sdcard/"))
    return {"path": path, "album": album, "name": name}


def _known(d: Draw) -> Params:
    return _place(d.random.pick(_paths(d)))


def _loved_draw(d: Draw) -> Params | None:
    p = _known(d)
    return {**p, "id": d.insert(PACKAGE, "favourites", album=p["album"], name=p["name"])}


def _open(hand: Hand, p: Params) -> Script:
    yield from hand.open("Gallery")
    yield from hand.tap(p["name"])


def _star_solve(label: str, hand: Hand, p: Params) -> Iterator[str]:
    yield from _open(hand, p)
    yield from hand.tap(label, scroll=False)
    yield from hand.done()


def _delete_solve(hand: Hand, p: Params) -> Iterator[str]:
    yield from _open(hand, p)
    yield from _delete_shown(hand)


def _delete_shown(hand: Hand) -> Script:
    yield from hand.tap("Delete picture", scroll=False)
    yield from hand.tap("Delete", scroll=False)
    yield from hand.done()


def _move_draw(d: Draw) -> Params | None:
    p = _known(d)
    albums = sorted({_place(path)["album"] for path in _paths(d)} - {p["album"]})
    target = d.pick(albums)
    return {**p, "target": target, "into": posixpath.basename(target)} if target else None


def _moved(d: Draw) -> Params | None:
    p = _move_draw(d)
    return {**p, "data": d.phone.files[p["path"]].data.hex()} if p else None


def _count_draw(d: Draw) -> Params | None:
    album = d.random.pick(ALBUMS)
    count = sum(_place(path)["album"] == album for path in _paths(d))
    return {"album": posixpath.basename(album), "count": count} if count else None


def _count_solve(hand: Hand, p: Params) -> Iterator[str]:
    yield from hand.open("Gallery")
    yield from hand.tap("Albums", scroll=False)
    row = yield from hand.look_for(p["album"])
    yield from hand.answer(row.texts[1].split()[0])


def _time_draw(d: Draw) -> Params | None:
    p = _known(d)
    when = to_datetime(d.phone.files[p["path"]].modified)
    odd = f"picture_{d.random.between(100, 999)}.png"
    path = f"/sdcard/{p['album']}/{odd}"
    if path in d.phone.files:
        return None
    d.phone.write_file(path, d.phone.files[p["path"]].data, d.phone.files[p["path"]].modified)
    return {"name": odd, "time": f"{when:%H:%M}", "date": when.date().isoformat()}


def _time_solve(hand: Hand, p: Params) -> Iterator[str]:
    yield from _open(hand, p)
    yield from hand.tap("Details", scroll=False)
    texts = hand.texts()
    yield from hand.answer(texts[texts.index("Taken") - 1].split(", ")[1])


def _day_solve(hand: Hand, p: Params) -> Iterator[str]:
    yield from _open(hand, p)
    yield from hand.tap("Details", scroll=False)
    texts = hand.texts()
    yield from hand.answer(texts[texts.index("Taken") - 1].split(", ")[0])


def _newest_draw(d: Draw) -> Params | None:
    album = d.random.pick(ALBUMS)
    paths = [path for path in _paths(d) if _place(path)["album"] == album]
    return {"path": paths[0], "album": posixpath.basename(album)} if len(paths) > 1 else None


def _newest_solve(hand: Hand, p: Params) -> Iterator[str]:
    yield from hand.open("Gallery")
    yield from hand.tap("Albums", scroll=False)
    yield from hand.tap(p["album"])
    first = next(element for element in hand.screen if any(text.endswith(".png") for text in element.texts))
    yield from hand.tap_element(first)
    yield from _delete_shown(hand)


def _missing_draw(d: Draw) -> Params | None:
    when = d.phone.now - timedelta(days=d.random.between(400, 900))
    return {"name": f"IMG_{when:%Y%m%d_%H%M%S}.png"}


def _missing_solve(hand: Hand, p: Params) -> Iterator[str]:
    yield from hand.open("Gallery")
    yield from hand.read_all(lambda element: element.texts or None)
    yield from hand.infeasible()


TEMPLATES: Final = (
    TaskTemplate(
        "GalleryAddFavourite",
        (
            "Make the picture {name} in {album} a favourite.",
            "Add {name} of the album {album} to my favourite pictures.",
        ),
        _known,
        lambda p: [InsertRow(PACKAGE, "favourites", {"album": p["album"], "name": p["name"]})],
        lambda hand, p: _star_solve("Add to favourites", hand, p),
        _APPS,
        complexity=1.2,
    ),
    TaskTemplate(
        "GalleryRemoveFavourite",
        "The picture {name} in {album} is a favourite. Take it out of the favourites, and keep the picture.",
        _loved_draw,
        lambda p: [DeleteRow(PACKAGE, "favourites", p["id"])],
        lambda hand, p: _star_solve("Remove from favourites", hand, p),
        _APPS,
        complexity=1.2,
        split="held_out",
    ),
    TaskTemplate(
        "GalleryDelete",
        ("Delete the picture {name}.", "Remove {name} from Gallery."),
        _known,
        lambda p: [FileGone(p["path"])],
        _delete_solve,
        _APPS,
        complexity=1.2,
    ),
    TaskTemplate(
        "GalleryDeleteNewest",
        "Delete the newest picture of the album {album}.",
        _newest_draw,
        lambda p: [FileGone(p["path"])],
        _newest_solve,
        _APPS,
        complexity=1.4,
        split="held_out",
    ),
    TaskTemplate(
        "GalleryMove",
        "Move the picture {name} into the album {into}.",
        _moved,
        lambda p: [FileGone(p["path"]), FileIs(f"/sdcard/{p['target']}/{p['name']}", bytes.fromhex(p["data"]))],
        steps(_open, tap("More options", scroll=False), tap("Move to album", scroll=False), tap("{into}")),
        _APPS,
        complexity=1.4,
    ),
    TaskTemplate(
        "GalleryCreateAlbum",
        "Create an album called {name} in Gallery.",
        lambda d: {"name": d.random.pick(_NAMES)},
        lambda p: [FileIs(f"/sdcard/Pictures/{p['name']}/", "")],
        steps(
            start("Gallery"),
            tap("Albums", scroll=False),
            tap("New album", scroll=False),
            fill("Album name", "{name}"),
            tap("Create"),
        ),
        _APPS,
        complexity=1.2,
    ),
    TaskTemplate(
        "GalleryCountAlbum",
        "How many pictures are in the album {album}? Answer with a number.",
        _count_draw,
        lambda p: [Answer("number", p["count"])],
        _count_solve,
        _APPS,
    ),
    TaskTemplate(
        "GalleryAskTime",
        "At what time of day was the picture {name} taken?",
        _time_draw,
        lambda p: [Answer("time", p["time"])],
        _time_solve,
        _APPS,
        complexity=1.2,
    ),
    TaskTemplate(
        "GalleryAskDate",
        "On which day was the picture {name} taken? Answer with the date.",
        _time_draw,
        lambda p: [Answer("date", p["date"])],
        _day_solve,
        _APPS,
        complexity=1.2,
    ),
    TaskTemplate(
        "GalleryDeleteMissing",
        "Delete the picture {name}.",
        _missing_draw,
        lambda p: [Infeasible()],
        _missing_solve,
        _APPS,
        complexity=1.2,
        split="held_out",
        tags=("infeasible",),
    ),
)
