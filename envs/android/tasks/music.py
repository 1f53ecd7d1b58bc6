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
from turncredit.envs.android.tasks.hand import Finding, Hand, Script, is_button
from turncredit.envs.android.tasks.steps import call, fill, give_up, start, steps, tap
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


def _queue_draw(d: Draw) -> Params | None:
    rows = d.some(d.rows(PACKAGE, "songs"), 2)
    return {"titles": [row["title"] for row in rows], "songs": [row["_id"] for row in rows]}


def _queue_solve(hand: Hand, p: Params) -> Iterator[str]:
    for n, title in enumerate(p["titles"]):
        if not hand.met(n):
            yield from _command(hand, title, "Add to queue")
    yield from hand.done()


def _remove_draw(d: Draw) -> Params | None:
    p = _list(d)
    entry = d.random.pick(d.rows(PACKAGE, "entries", playlist=p["list"]))
    song = d.rows(PACKAGE, "songs", _id=entry["song"])[0]
    return {**p, "entry": entry["_id"], "title": song["title"]}


def _delete_draw(d: Draw) -> Params | None:
    p = _list(d)
    return {**p, "entries": [entry["_id"] for entry in d.rows(PACKAGE, "entries", playlist=p["list"])]}


def _delete_effects(p: Params) -> list[Effect]:
    entries = [DeleteRow(PACKAGE, "entries", key) for key in p["entries"]]
    return [DeleteRow(PACKAGE, "playlists", p["list"]), *entries]


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


TEMPLATES: Final = (
    TaskTemplate(
        "MusicCreatePlaylist",
        ("Create an empty playlist called {name} in Music.", "I want a new playlist: {name}. Leave it empty."),
        lambda d: {"name": d.random.pick(_NAMES)},
        lambda p: [InsertRow(PACKAGE, "playlists", {"name": p["name"]})],
        steps(call(_create, "{name}")),
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
        steps(call(_to_list, "{title}", "{name}")),
        _APPS,
        complexity=1.6,
    ),
    TaskTemplate(
        "MusicQueue",
        "Put these songs into the queue of Music, in this order: {titles}.",
        _queue_draw,
        lambda p: [InsertRow(PACKAGE, "queue", {"song": song, "position": n}) for n, song in enumerate(p["songs"], 1)],
        _queue_solve,
        _APPS,
        complexity=2.8,
    ),
    TaskTemplate(
        "MusicPlay",
        ("Play the song {title}.", "I want to hear {title} by {artist}."),
        lambda d: _song(d),
        lambda p: [UpdateRow(PACKAGE, "player", 1, {"song": p["song"], "playing": 1})],
        steps(start("Music"), tap("Songs", scroll=False), tap("{title}")),
        _APPS,
    ),
    TaskTemplate(
        "MusicRemoveFromPlaylist",
        "Take the song {title} out of the playlist {name}.",
        _remove_draw,
        lambda p: [DeleteRow(PACKAGE, "entries", p["entry"])],
        steps(call(_open_list, "{name}"), tap("Remove {title}")),
        _APPS,
        complexity=1.2,
    ),
    TaskTemplate(
        "MusicRenamePlaylist",
        "Rename the playlist {name} to {new}.",
        lambda d: {**_list(d), "new": d.random.pick(_NAMES)},
        lambda p: [UpdateRow(PACKAGE, "playlists", p["list"], {"name": p["new"]})],
        steps(
            call(_open_list, "{name}"),
            tap("More options", scroll=False),
            tap("Rename", scroll=False),
            fill("Playlist name", "{new}"),
            tap("Rename", where=is_button),
        ),
        _APPS,
        complexity=1.6,
        split="held_out",
    ),
    TaskTemplate(
        "MusicDeletePlaylist",
        "Delete the playlist {name}.",
        _delete_draw,
        _delete_effects,
        steps(
            call(_open_list, "{name}"),
            tap("More options", scroll=False),
            tap("Delete", scroll=False),
            tap("Delete", where=is_button),
        ),
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
        lambda d: {**_song(d), "name": d.random.pick(_NAMES)},
        lambda p: [Infeasible()],
        steps(start("Music"), tap("Playlists", scroll=False), give_up()),
        _APPS,
        tags=("infeasible",),
    ),
)
