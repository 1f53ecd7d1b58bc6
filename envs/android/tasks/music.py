"""Tasks of Music."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from turncredit.envs.android.tasks.effects import (
    Answer,
    DeleteRow,
    Effect,
    Infeasible,
    InsertRow,
    NewId,
    UpdateRow,
)
from turncredit.envs.android.tasks.hand import Finding, Hand, Script
from turncredit.envs.android.tasks.template import Draw, Params, TaskTemplate

PACKAGE: Final = "org.turncredit.music"
_APPS: Final = ("Music",)
_NAMES: Final = ("Sunday", "Workout", "Dinner guests", "Train rides", "Sleep", "Old friends", "Spring")


def _song(d: Draw) -> Params:
    row = d.random.pick(d.rows(PACKAGE, "songs"))
    return {"song": row["_id"], "title": row["title"], "artist": row["artist"], "seconds": row["seconds"]}


def _list(d: Draw) -> Params:
    row = d.random.pick(d.rows(PACKAGE, "playlists"))
    songs = [entry["song"] for entry in d.rows(PACKAGE, "entries", playlist=row["_id"])]
    return {"list": row["_id"], "name": row["name"], "songs": songs}


def _command(hand: Hand, title: str, command: str) -> Script:
    yield from hand.open("Music")
    yield from hand.tap("Songs", scroll=False)
    yield from hand.fill("Search songs", title)
    yield from hand.tap(f"Options of {title}")
    yield from hand.tap(command, scroll=False)


def _to_list(hand: Hand, title: str, name: str) -> Script:
    yield from _command(hand, title, "Add to playlist")
    yield from hand.tap(name)


def _open_list(hand: Hand, name: str) -> Script:
    yield from hand.open("Music")
    yield from hand.tap("Playlists", scroll=False)
    yield from hand.tap(name)


def _create(hand: Hand, name: str) -> Script:
    yield from hand.open("Music")
    yield from hand.tap("Playlists", scroll=False)
    yield from hand.tap("New playlist", scroll=False)
    yield from hand.fill("Playlist name", name)
    yield from hand.tap("Create")


def _new_draw(d: Draw) -> Params | None:
    return {"name": d.random.pick(_NAMES)}


def _new_solve(hand: Hand, p: Params) -> Iterator[str]:
    yield from _create(hand, p["name"])
    yield from hand.done()


def _filled_draw(d: Draw) -> Params | None:
    rows = d.some(d.rows(PACKAGE, "songs"), 2)
    return {"name": d.random.pick(_NAMES), "titles": [r["title"] for r in rows], "songs": [r["_id"] for r in rows]}


def _filled_effects(p: Params) -> list[Effect]:
    new: Effect = InsertRow(PACKAGE, "playlists", {"name": p["name"]}, name="list")
    entries: list[Effect] = [
        InsertRow(PACKAGE, "entries", {"playlist": NewId("list"), "song": song, "position": n})
        for n, song in enumerate(p["songs"], 1)
    ]
    return [new, *entries]


def _filled_solve(hand: Hand, p: Params) -> Iterator[str]:
    if not hand.met(0):
        yield from _create(hand, p["name"])
    for n, title in enumerate(p["titles"], 1):
        if not hand.met(n):
            yield from _to_list(hand, title, p["name"])
    yield from hand.done()


def _add_draw(d: Draw) -> Params | None:
    p = {**_song(d), **_list(d)}
    return None if p["song"] in p["songs"] else p


def _add_effects(p: Params) -> list[Effect]:
    values = {"playlist": p["list"], "song": p["song"], "position": len(p["songs"]) + 1}
    return [InsertRow(PACKAGE, "entries", values)]


def _add_solve(hand: Hand, p: Params) -> Iterator[str]:
    yield from _to_list(hand, p["title"], p["name"])
    yield from hand.done()


def _queue_draw(d: Draw) -> Params | None:
    rows = d.some(d.rows(PACKAGE, "songs"), 2)
    return {"titles": [row["title"] for row in rows], "songs": [row["_id"] for row in rows]}


def _queue_effects(p: Params) -> list[Effect]:
    return [InsertRow(PACKAGE, "queue", {"song": song, "position": n}) for n, song in enumerate(p["songs"], 1)]


def _queue_solve(hand: Hand, p: Params) -> Iterator[str]:
    for n, title in enumerate(p["titles"]):
        if not hand.met(n):
            yield from _command(hand, title, "Add to queue")
    yield from hand.done()


def _play_solve(hand: Hand, p: Params) -> Iterator[str]:
    yield from hand.open("Music")
    yield from hand.tap("Songs", scroll=False)
    yield from hand.tap(p["title"])
    yield from hand.done()


def _remove_draw(d: Draw) -> Params | None:
    p = _list(d)
    entry = d.random.pick(d.rows(PACKAGE, "entries", playlist=p["list"]))
    song = d.rows(PACKAGE, "songs", _id=entry["song"])[0]
    return {**p, "entry": entry["_id"], "title": song["title"]}


def _remove_solve(hand: Hand, p: Params) -> Iterator[str]:
    yield from _open_list(hand, p["name"])
    yield from hand.tap(f"Remove {p['title']}")
    yield from hand.done()


def _rename_draw(d: Draw) -> Params | None:
    return {**_list(d), "new": d.random.pick(_NAMES)}


def _rename_solve(hand: Hand, p: Params) -> Iterator[str]:
    yield from _open_list(hand, p["name"])
    yield from hand.tap("More options", scroll=False)
    yield from hand.tap("Rename", scroll=False)
    yield from hand.fill("Playlist name", p["new"])
    yield from hand.tap("Rename", where=lambda element: element.kind == "button")
    yield from hand.done()


def _delete_draw(d: Draw) -> Params | None:
    p = _list(d)
    return {**p, "entries": [entry["_id"] for entry in d.rows(PACKAGE, "entries", playlist=p["list"])]}


def _delete_effects(p: Params) -> list[Effect]:
    entries = [DeleteRow(PACKAGE, "entries", key) for key in p["entries"]]
    return [DeleteRow(PACKAGE, "playlists", p["list"]), *entries]


def _delete_solve(hand: Hand, p: Params) -> Iterator[str]:
    yield from _open_list(hand, p["name"])
    yield from hand.tap("More options", scroll=False)
    yield from hand.tap("Delete", scroll=False)
    yield from hand.tap("Delete", where=lambda element: element.kind == "button")
    yield from hand.done()


def _about(hand: Hand, title: str) -> Finding:
    """Return what stands below a song: artist and length; of a row that is cut by the edge it cannot be seen."""
    yield from hand.open("Music")
    yield from hand.tap("Songs", scroll=False)
    yield from hand.fill("Search songs", title)
    row = yield from hand.look_for(title, where=lambda e: len(e.texts) > 1 and " · " in e.texts[1])
    return row.texts[1]


def _seconds_solve(hand: Hand, p: Params) -> Iterator[str]:
    about = yield from _about(hand, p["title"])
    minutes, seconds = about.split(" · ")[1].split(":")
    yield from hand.answer(int(minutes) * 60 + int(seconds))


def _artist_solve(hand: Hand, p: Params) -> Iterator[str]:
    about = yield from _about(hand, p["title"])
    yield from hand.answer(about.split(" · ")[0])


def _count_draw(d: Draw) -> Params | None:
    artist = _song(d)["artist"]
    return {"artist": artist, "count": len(d.rows(PACKAGE, "songs", artist=artist))}


def _count_solve(hand: Hand, p: Params) -> Iterator[str]:
    yield from hand.open("Music")
    yield from hand.tap("Artists", scroll=False)
    row = yield from hand.look_for(p["artist"])
    about = next(text for text in row.texts if text.endswith((" songs", " song")))
    yield from hand.answer(about.split()[0])


def _missing_draw(d: Draw) -> Params | None:
    return {**_song(d), "name": d.random.pick(_NAMES)}


def _missing_solve(hand: Hand, p: Params) -> Iterator[str]:
    yield from hand.open("Music")
    yield from hand.tap("Playlists", scroll=False)
    yield from hand.infeasible()


TEMPLATES: Final = (
    TaskTemplate(
        "MusicCreatePlaylist",
        ("Create an empty playlist called {name} in Music.", "I want a new playlist: {name}. Leave it empty."),
        _new_draw,
        lambda p: [InsertRow(PACKAGE, "playlists", {"name": p["name"]})],
        _new_solve,
        _APPS,
        complexity=1.2,
    ),
    TaskTemplate(
        "MusicCreateFilledPlaylist",
        "Create a playlist called {name} in Music with these songs in this order: {titles}.",
        _filled_draw,
        _filled_effects,
        _filled_solve,
        _APPS,
        complexity=4.0,
        split="held_out",
    ),
    TaskTemplate(
        "MusicAddToPlaylist",
        "Add the song {title} to the playlist {name}.",
        _add_draw,
        _add_effects,
        _add_solve,
        _APPS,
        complexity=1.6,
    ),
    TaskTemplate(
        "MusicQueue",
        "Put these songs into the queue of Music, in this order: {titles}.",
        _queue_draw,
        _queue_effects,
        _queue_solve,
        _APPS,
        complexity=2.8,
    ),
    TaskTemplate(
        "MusicPlay",
        ("Play the song {title}.", "I want to hear {title} by {artist}."),
        lambda d: _song(d),
        lambda p: [UpdateRow(PACKAGE, "player", 1, {"song": p["song"], "playing": 1})],
        _play_solve,
        _APPS,
    ),
    TaskTemplate(
        "MusicRemoveFromPlaylist",
        "Take the song {title} out of the playlist {name}.",
        _remove_draw,
        lambda p: [DeleteRow(PACKAGE, "entries", p["entry"])],
        _remove_solve,
        _APPS,
        complexity=1.2,
    ),
    TaskTemplate(
        "MusicRenamePlaylist",
        "Rename the playlist {name} to {new}.",
        _rename_draw,
        lambda p: [UpdateRow(PACKAGE, "playlists", p["list"], {"name": p["new"]})],
        _rename_solve,
        _APPS,
        complexity=1.6,
        split="held_out",
    ),
    TaskTemplate(
        "MusicDeletePlaylist",
        "Delete the playlist {name}.",
        _delete_draw,
        _delete_effects,
        _delete_solve,
        _APPS,
        complexity=1.6,
    ),
    TaskTemplate(
        "MusicAskLength",
        "How long is the song {title}, in seconds? Answer with a number.",
        lambda d: _song(d),
        lambda p: [Answer("number", p["seconds"])],
        _seconds_solve,
        _APPS,
    ),
    TaskTemplate(
        "MusicAskArtist",
        "Who plays the song {title}?",
        lambda d: _song(d),
        lambda p: [Answer("choice", p["artist"])],
        _artist_solve,
        _APPS,
    ),
    TaskTemplate(
        "MusicCountArtist",
        "How many songs by {artist} are on this phone? Answer with a number.",
        _count_draw,
        lambda p: [Answer("number", p["count"])],
        _count_solve,
        _APPS,
    ),
    TaskTemplate(
        "MusicAddToMissingPlaylist",
        "Add the song {title} to the playlist {name}. Do not create a playlist for it.",
        _missing_draw,
        lambda p: [Infeasible()],
        _missing_solve,
        _APPS,
        tags=("infeasible",),
    ),
)
