"""Music: songs, artists, playlists and a queue. Playing is a state; nothing sounds."""

from __future__ import annotations

from typing import Final

from turncredit.phone.toolkit.app import App, Context
from turncredit.phone.toolkit.handlers import do, keeps, opens
from turncredit.phone.toolkit.tables import Columns
from turncredit.phone.toolkit.tables import Row as Record
from turncredit.phone.toolkit.widgets import (
    Avatar,
    Dialog,
    Empty,
    Fab,
    IconButton,
    Item,
    List,
    Menu,
    Row,
    Screen,
    Spacer,
    Tab,
    Text,
    TextField,
    Widget,
    cancel_or,
)

ARTISTS: Final = ("Copper Kites", "Hanna Moor", "Low Tide Trio", "The Paper Boats", "Velvet Ferns", "Night Gardeners")
_FIRST: Final = ("Golden", "Quiet", "Northern", "Broken", "Paper", "Silver", "Slow", "Hidden", "Winter", "Electric")
_SECOND: Final = ("Harbour", "Train", "Garden", "Letters", "Mirror", "Rain", "Bridges", "Fireflies", "Orchard", "Sky")
_LISTS: Final = ("Morning run", "Rainy day", "Kitchen", "Long drive", "Focus")
_TABS: Final = (("Songs", "music"), ("Artists", "person"), ("Playlists", "playlist"), ("Queue", "list"))


def fill(ctx: Context) -> None:
    """Draw some twenty songs and a few playlists."""
    random = ctx.random
    titles = random.shuffled([f"{first} {second}" for first in _FIRST for second in _SECOND])[:22]
    songs = [{"title": title, "artist": random.pick(ARTISTS), "seconds": random.between(125, 430)} for title in titles]
    ctx.db.fill("songs", songs)
    names = random.shuffled(_LISTS)[:3]
    ctx.db.fill("playlists", [{"name": name} for name in names])
    for key in range(1, 4):
        chosen = random.shuffled(range(1, len(songs) + 1))[: random.between(3, 6)]
        ctx.db.fill("entries", [{"playlist": key, "song": song, "position": n} for n, song in enumerate(chosen, 1)])
    ctx.db.fill("player", [{"song": 0, "playing": 0}])


def length_text(seconds: int) -> str:
    """Return a length as minutes and seconds."""
    return f"{seconds // 60}:{seconds % 60:02d}"


def _songs(count: int) -> str:
    return "1 song" if count == 1 else f"{count} songs"


def _player(ctx: Context) -> Record:
    return ctx.db.get("player", 1) or {"song": 0, "playing": 0}


def _now_playing(ctx: Context) -> list[Widget]:
    row = _player(ctx)
    song = ctx.db.get("songs", row["song"])
    if song is None:
        return []
    playing = bool(row["playing"])
    button = IconButton("pause" if playing else "play", "Pause" if playing else "Play", do(play_or_pause), filled=True)
    about = f"{'Playing' if playing else 'Paused'} · {song['artist']}"
    return [Item(song["title"], about, "music", end=button, on_tap=opens(player), id="now_playing")]


def music(ctx: Context) -> Screen:
    """Songs, artists, playlists or the queue."""
    tab, query = str(ctx.get("tab", "Songs")), str(ctx.get("query", "")).casefold().strip()
    parts = {"Songs": _all_songs, "Artists": _artists, "Playlists": _playlists, "Queue": _queue}
    search: list[Widget] = [TextField("query", "Search songs", icon="search"), Spacer(4)] if tab == "Songs" else []
    fab = Fab("add", "New playlist", opens(playlist_name, id=0)) if tab == "Playlists" else None
    actions = [IconButton("delete", "Clear queue", do(clear_queue))] if tab == "Queue" else []
    return Screen(
        "Music" if tab == "Songs" else tab,
        parts[tab](ctx, query),
        actions=actions,
        top=search,
        bottom=_now_playing(ctx),
        bar=[Tab(name, keeps("tab", name), name == tab, icon) for name, icon in _TABS],
        fab=fab,
    )


def _all_songs(ctx: Context, query: str) -> list[Widget]:
    rows = [row for row in ctx.db.rows("songs", "title") if query in f"{row['title']} {row['artist']}".casefold()]
    return [List(rows, _song)] if rows else [Empty("music", "No songs")]


def _song(row: Record) -> Item:
    end = IconButton("more", f"Options of {row['title']}", opens(song_commands, id=row["_id"]))
    about = f"{row['artist']} · {length_text(row['seconds'])}"
    press = opens(song_commands, id=row["_id"])
    return Item(row["title"], about, "music", end=end, on_tap=do(play, id=row["_id"]), on_long_press=press)


def _artists(ctx: Context, query: str) -> list[Widget]:
    counts: dict[str, int] = {}
    for row in ctx.db.rows("songs"):
        counts[row["artist"]] = counts.get(row["artist"], 0) + 1
    return [Item(name, _songs(counts[name]), avatar=name, on_tap=opens(artist, name=name)) for name in sorted(counts)]


def _playlists(ctx: Context, query: str) -> list[Widget]:
    rows = []
    for row in ctx.db.rows("playlists", "name"):
        songs = _songs_of(ctx, row["_id"])
        about = f"{_songs(len(songs))} · {length_text(sum(song['seconds'] for _, song in songs))}"
        rows.append(Item(row["name"], about, "playlist", on_tap=opens(playlist, id=row["_id"])))
    return [*rows, Spacer(80)] if rows else [Empty("playlist", "No playlists")]


def _queue(ctx: Context, query: str) -> list[Widget]:
    rows: list[Widget] = []
    for entry in ctx.db.rows("queue", "position"):
        song = ctx.db.get("songs", entry["song"])
        if song:
            out = IconButton("close", f"Remove {song['title']}", do(unqueue, id=entry["_id"]))
            rows.append(Item(song["title"], song["artist"], "music", end=out, on_tap=do(play, id=song["_id"])))
    return rows or [Empty("list", "The queue is empty")]


def play(ctx: Context, id: int) -> None:
    """Play a song."""
    ctx.db.update("player", 1, song=id, playing=1)


def play_or_pause(ctx: Context) -> None:
    """Stop for a while, or go on."""
    ctx.db.update("player", 1, playing=not _player(ctx)["playing"])


def player(ctx: Context) -> Screen:
    """The song that is played, large."""
    row = _player(ctx)
    song = ctx.db.get("songs", row["song"])
    if song is None:
        return Screen("Now playing", [Empty("music", "Nothing is playing")])
    playing = bool(row["playing"])
    return Screen(
        "Now playing",
        [
            Spacer(64),
            Row([Spacer(), Avatar(song["title"], icon="music", size=200), Spacer()]),
            Spacer(40),
            Text(song["title"], style="headline", align="center"),
            Text(song["artist"], style="subtitle", align="center"),
            Text(length_text(song["seconds"]), style="caption", align="center"),
            Spacer(32),
            Row(
                [
                    Spacer(),
                    IconButton("previous", "Previous song", do(step, by=-1)),
                    IconButton(
                        "pause" if playing else "play", "Pause" if playing else "Play", do(play_or_pause), filled=True
                    ),
                    IconButton("next", "Next song", do(step, by=1)),
                    Spacer(),
                ],
                gap=16,
            ),
        ],
        actions=[IconButton("more", "More options", opens(song_commands, id=song["_id"]))],
    )


def step(ctx: Context, by: int) -> None:
    """Play the song after or before this one: in the queue if it has songs, else by title."""
    keys = [row["song"] for row in ctx.db.rows("queue", "position")] or [
        row["_id"] for row in ctx.db.rows("songs", "title")
    ]
    current = _player(ctx)["song"]
    where = keys.index(current) + by if current in keys else 0
    play(ctx, keys[where % len(keys)])


def artist(ctx: Context, name: str) -> Screen:
    """The songs of an artist."""
    rows = [_song(row) for row in ctx.db.rows("songs", "title", artist=name)]
    return Screen(name, rows, bottom=_now_playing(ctx))


def _songs_of(ctx: Context, id: int) -> list[tuple[Record, Record]]:
    pairs = [(entry, ctx.db.get("songs", entry["song"])) for entry in ctx.db.rows("entries", "position", playlist=id)]
    return [(entry, song) for entry, song in pairs if song is not None]


def playlist(ctx: Context, id: int) -> Screen:
    """The songs of a playlist in order."""
    row = ctx.db.get("playlists", id)
    if row is None:
        return Screen("", [Empty("playlist", "This playlist was deleted")])
    songs: list[Widget] = []
    for entry, song in _songs_of(ctx, id):
        out = IconButton("close", f"Remove {song['title']}", do(take_out, id=entry["_id"]))
        about = f"{song['artist']} · {length_text(song['seconds'])}"
        songs.append(Item(song["title"], about, "music", end=out, on_tap=do(play, id=song["_id"])))
    return Screen(
        row["name"],
        songs or [Empty("playlist", "No songs in this playlist")],
        actions=[
            IconButton("play", "Play all", do(play_all, id=id)),
            IconButton("more", "More options", opens(playlist_commands, id=id)),
        ],
        bottom=_now_playing(ctx),
    )


def play_all(ctx: Context, id: int) -> None:
    """Put a playlist into the queue, and play its first song."""
    clear_queue(ctx)
    songs = [song["_id"] for _, song in _songs_of(ctx, id)]
    for song in songs:
        add_to_queue(ctx, song)
    if songs:
        play(ctx, songs[0])


def take_out(ctx: Context, id: int) -> None:
    """Remove a song from a playlist."""
    ctx.db.delete("entries", id)


def playlist_commands(ctx: Context, id: int) -> Menu:
    """Rename, delete."""
    return Menu([("Rename", opens(playlist_name, id=id)), ("Delete", opens(confirm, id=id))])


def song_commands(ctx: Context, id: int) -> Menu:
    """Add a song to the queue or to a playlist."""
    return Menu([("Add to queue", do(add_to_queue, id=id)), ("Add to playlist", opens(choose_playlist, id=id))])


def add_to_queue(ctx: Context, id: int) -> None:
    """Add a song at the end of the queue."""
    last = max((row["position"] for row in ctx.db.rows("queue")), default=0)
    ctx.db.insert("queue", song=id, position=last + 1)
    ctx.snackbar("Added to the queue")


def unqueue(ctx: Context, id: int) -> None:
    """Remove an entry of the queue."""
    ctx.db.delete("queue", id)


def clear_queue(ctx: Context) -> None:
    """Empty the queue."""
    for row in ctx.db.rows("queue"):
        ctx.db.delete("queue", row["_id"])


def choose_playlist(ctx: Context, id: int) -> Screen:
    """The playlists."""
    rows = [
        Item(r["name"], icon="playlist", on_tap=do(add, id=id, to=r["_id"])) for r in ctx.db.rows("playlists", "name")
    ]
    return Screen("Add to playlist", rows or [Empty("playlist", "No playlists")], up_icon="close")


def add(ctx: Context, id: int, to: int) -> None:
    """Add a song at the end of a playlist."""
    last = max((row["position"] for row in ctx.db.rows("entries", playlist=to)), default=0)
    ctx.db.insert("entries", playlist=to, song=id, position=last + 1)
    ctx.back()
    ctx.snackbar("Added to the playlist")


def playlist_name(ctx: Context, id: int) -> Dialog:
    """The name of a playlist; `id` 0 is a new one."""
    row = ctx.db.get("playlists", id)
    label = "Rename" if row else "Create"
    buttons = cancel_or(label, do(name_playlist, id=id))
    title = "Rename playlist" if row else "New playlist"
    return Dialog(title, [TextField("name", "Playlist name", row["name"] if row else "")], buttons)


def name_playlist(ctx: Context, id: int) -> None:
    """Make or rename a playlist, unless one has this name."""
    name = str(ctx.form["name"]).strip()
    if not name or ctx.db.rows("playlists", name=name):
        ctx.snackbar("Enter a new name")
    elif id:
        ctx.db.update("playlists", id, name=name)
    else:
        ctx.db.insert("playlists", name=name)


def confirm(ctx: Context, id: int) -> Dialog:
    """Ask whether a playlist is deleted."""
    buttons = cancel_or("Delete", do(delete, id=id), kind="danger")
    return Dialog("Delete this playlist?", [Text("Its songs stay on the phone.")], buttons)


def delete(ctx: Context, id: int) -> None:
    """Delete a playlist."""
    ctx.db.delete("playlists", id)
    for entry in ctx.db.rows("entries", playlist=id):
        ctx.db.delete("entries", entry["_id"])
    ctx.back()
    ctx.snackbar("Playlist deleted")


_SCHEMA: Final[dict[str, Columns]] = {
    "songs": {"title": str, "artist": str, "seconds": int},
    "playlists": {"name": str},
    "entries": {"playlist": int, "song": int, "position": int},
    "queue": {"song": int, "position": int},
    "player": {"song": int, "playing": bool},
}

APP = App(
    package="org.turncredit.music",
    name="Music",
    icon="music",
    colour="#d01884",
    schema=_SCHEMA,
    fill=fill,
    screens=(
        music,
        player,
        artist,
        playlist,
        playlist_commands,
        song_commands,
        choose_playlist,
        playlist_name,
        confirm,
    ),
)
