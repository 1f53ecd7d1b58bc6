"""Notes, Files, Tasks, Expenses, Recipes, Music and Gallery as a person uses them, judged by databases and files."""

from __future__ import annotations

import struct
import zlib

import pytest

from turncredit.phone import Phone
from turncredit.phone.apps.expenses import cents_of, money
from turncredit.phone.shell import run_text
from turncredit.phone.toolkit import folders
from turncredit.phone.toolkit.drawings import HEIGHT, KINDS, WIDTH, drawing_of, png

NOTES = "/sdcard/Documents/Notes"
TASKS, EXPENSES, RECIPES = "org.turncredit.tasks", "org.turncredit.expenses", "org.turncredit.recipes"
MUSIC, GALLERY = "org.turncredit.music", "org.turncredit.gallery"


def rows(phone: Phone, package: str, table: str) -> list[dict]:
    return [dict(row) for row in phone.tables(package).rows(table)]


def files(phone: Phone) -> dict[str, bytes]:
    return {path: file.data for path, file in phone.files.items()}


def new(phone: Phone, package: str, table: str, before: list[dict]) -> list[dict]:
    return [row for row in rows(phone, package, table) if row not in before]


def test_a_note_is_written_renamed_and_deleted(phone, user):
    before = files(phone)
    phone.launch("Notes")
    user.tap("New note")
    user.type("Title", "Ferry")
    user.type("Text", "# Times\n- 9:15\n- 17:40")
    user.tap("Save")
    assert files(phone) == {**before, f"{NOTES}/Ferry.md": b"# Times\n- 9:15\n- 17:40"}
    assert user.see("Times")
    user.tap("More options")
    user.tap("Rename")
    user.type("New name", "Boat")
    button = [node for node in phone.tree().walk() if node.text == "Rename"][-1]
    phone.tap(*button.center)
    assert set(files(phone)) - set(before) == {f"{NOTES}/Boat.md"}
    user.tap("More options")
    user.tap("Delete")
    user.tap("Delete")
    assert files(phone) == before


@pytest.mark.parametrize("name", ["", "  ", "a/b", "..", "Packing list"])
def test_a_note_needs_a_name_of_its_own(name):
    phone = Phone(3)
    phone.write_file(f"{NOTES}/Packing list.md", b"x")
    before = files(phone)
    phone.launch("org.turncredit.notes", "form")
    phone.change_page(phone.page.with_value("title", name))
    phone.tap(*phone.tree().find("Save").center)
    assert files(phone) == before
    assert phone.state.snackbar is not None


def test_an_edited_note_is_not_lost_without_a_question(phone, user):
    path = next(path for path in files(phone) if path.startswith(NOTES))
    before = files(phone)
    phone.launch("org.turncredit.notes", "note", path=path)
    user.tap("Edit note")
    user.type("Text", "other")
    phone.back()
    phone.back()
    user.tap("Discard")
    assert files(phone) == before


def test_a_folder_is_made_filled_moved_and_removed(phone, user):
    before = files(phone)
    phone.launch("Files")
    user.tap("Download")
    user.tap("New folder")
    user.type("Folder name", "Plans")
    user.tap("Create")
    assert phone.state.directories == {"/sdcard/Download/Plans"}
    name = next(path for path in before if path.startswith("/sdcard/Download/")).rsplit("/", 1)[1]
    user.tap(f"Options of {name}")
    user.tap("Move to")
    user.tap("Download/Plans")
    moved = {path: data for path, data in files(phone).items() if path not in before}
    assert moved == {f"/sdcard/Download/Plans/{name}": before[f"/sdcard/Download/{name}"]}
    assert phone.state.directories == frozenset()
    user.tap("Options of Plans")
    user.tap("Delete")
    user.tap("Delete")
    assert set(before) - set(files(phone)) == {f"/sdcard/Download/{name}"}


def test_a_folder_stays_when_its_last_file_goes(phone):
    phone.write_file("/sdcard/Download/one/two/a.txt", b"a")
    folders.remove(phone, "/sdcard/Download/one/two/a.txt")
    assert phone.state.directories == {"/sdcard/Download/one/two"}
    folders.move(phone, "/sdcard/Download/one", "/sdcard/Music/uno")
    assert phone.state.directories == {"/sdcard/Music/uno/two"}
    assert "/sdcard/Download/one" not in folders.folders(phone)
    folders.copy(phone, "/sdcard/Music/uno", "/sdcard/Music/due")
    assert phone.state.directories == {"/sdcard/Music/uno/two", "/sdcard/Music/due/two"}


def test_a_task_is_added_completed_and_deleted_with_its_subtasks(phone, user):
    before, steps = rows(phone, TASKS, "tasks"), rows(phone, TASKS, "subtasks")
    phone.launch("Tasks")
    user.tap("New task")
    user.type("Title", "Paint the shed")
    phone.back()
    user.tap("Priority")
    user.tap("High")
    user.tap("Save")
    (added,) = new(phone, TASKS, "tasks", before)
    assert (added["title"], added["priority"], added["list"], added["done"]) == ("Paint the shed", "High", 1, 0)
    phone.launch(TASKS, "task", id=added["_id"])
    user.tap("Add subtask")
    user.type("Subtask", "Buy a brush")
    user.tap("Add")
    assert [row["title"] for row in new(phone, TASKS, "subtasks", steps)] == ["Buy a brush"]
    user.tap("Mark as done")
    row = phone.tables(TASKS).get("tasks", added["_id"])
    assert (row["done"], row["completed"]) == (1, "2023-10-15")
    user.tap("Delete task")
    user.tap("Delete")
    assert (rows(phone, TASKS, "tasks"), rows(phone, TASKS, "subtasks")) == (before, steps)


def test_an_expense_is_added_and_counts_in_its_month(phone, user):
    before = rows(phone, EXPENSES, "expenses")
    total = sum(row["amount"] for row in before if row["date"].startswith("2023-10"))
    phone.launch("Expenses")
    assert user.see(money(total))
    user.tap("Add expense")
    user.type("Name", "Tent")
    user.type("Amount", "80,5")
    user.tap("Save")
    (added,) = new(phone, EXPENSES, "expenses", before)
    assert (added["name"], added["amount"], added["category"], added["date"]) == ("Tent", 8050, "Food", "2023-10-15")
    assert user.see(money(total + 8050))


@pytest.mark.parametrize(
    ("text", "cents"),
    [("12", 1200), ("12.5", 1250), ("0,07", 7), (".5", 50), ("3 €", 300)]
    + [(text, -1) for text in ("", "0", "-3", "1.234", "1.2.3", "two", "12345678", "²")],
)
def test_amounts(text, cents):
    assert cents_of(text) == cents


def test_a_recipe_is_starred_changed_and_deleted(phone, user):
    before = rows(phone, RECIPES, "recipes")
    plain = next(row for row in before if not row["favourite"])
    phone.launch("Recipes")
    user.type("Search recipes and ingredients", plain["title"])
    phone.back()
    found = [
        node for node in phone.tree().walk() if node.text == plain["title"] and not node.class_name.endswith("EditText")
    ]
    phone.tap(*found[0].center)
    user.tap("Add to favourites")
    assert phone.tables(RECIPES).get("recipes", plain["_id"]) == {**plain, "favourite": 1}
    user.tap("Edit recipe")
    user.tap("Servings")
    user.tap("8")
    user.tap("Save")
    assert phone.tables(RECIPES).get("recipes", plain["_id"]) == {**plain, "favourite": 1, "servings": "8"}
    user.tap("Delete recipe")
    user.tap("Delete")
    assert rows(phone, RECIPES, "recipes") == [row for row in before if row is not plain]


def test_songs_are_played_queued_and_put_into_a_playlist(phone, user):
    song = min(rows(phone, MUSIC, "songs"), key=lambda row: row["title"])
    before = rows(phone, MUSIC, "entries")
    phone.launch("Music")
    user.tap(song["title"])
    assert rows(phone, MUSIC, "player") == [{"_id": 1, "song": song["_id"], "playing": 1}]
    user.tap("Pause")
    assert rows(phone, MUSIC, "player")[0]["playing"] == 0
    user.tap(f"Options of {song['title']}")
    user.tap("Add to queue")
    assert rows(phone, MUSIC, "queue") == [{"_id": 1, "song": song["_id"], "position": 1}]
    first = phone.tables(MUSIC).get("playlists", 1)
    user.tap(f"Options of {song['title']}")
    user.tap("Add to playlist")
    user.tap(first["name"])
    (added,) = new(phone, MUSIC, "entries", before)
    assert (added["playlist"], added["song"]) == (1, song["_id"])
    assert added["position"] == 1 + sum(row["playlist"] == 1 for row in before)


def test_a_picture_is_loved_moved_and_deleted(phone, user):
    before = files(phone)
    path = max((p for p in before if p.endswith(".png")), key=lambda p: phone.files[p].modified)
    name = path.rsplit("/", 1)[1]
    phone.launch("Gallery")
    user.tap(name)
    user.tap("Add to favourites")
    assert [row["name"] for row in rows(phone, GALLERY, "favourites")] == [name]
    user.tap("More options")
    user.tap("Move to album")
    album = next(text for text in ("Holidays", "Postcards", "Screenshots") if text in user.texts())
    user.tap(album)
    assert files(phone)[f"/sdcard/Pictures/{album}/{name}"] == before[path]
    assert path not in files(phone)
    assert [row["album"] for row in rows(phone, GALLERY, "favourites")] == [f"Pictures/{album}"]
    user.tap("Delete picture")
    user.tap("Delete")
    assert files(phone) == {kept: data for kept, data in before.items() if kept != path}
    assert rows(phone, GALLERY, "favourites") == []


@pytest.mark.parametrize("kind", KINDS)
def test_a_drawing_is_a_picture_that_others_can_read(kind):
    data = png(kind, 7)
    assert drawing_of(data) == (kind, 7)
    assert struct.unpack(">II", data[16:24]) == (WIDTH, HEIGHT)
    start = data.index(b"IDAT")
    size = int.from_bytes(data[start - 4 : start], "big")
    pixels = zlib.decompress(data[start + 4 : start + 4 + size])
    assert len(pixels) == HEIGHT * (WIDTH + 1)
    assert drawing_of(data.replace(kind.encode(), b"?" * len(kind))) is None


def test_an_album_shows_pictures_that_are_not_drawings(phone, user):
    phone.write_file("/sdcard/Pictures/Holidays/other.png", b"\x89PNG\r\n\x1a\nnot ours")
    phone.launch("Gallery")
    assert user.see("other.png")
    phone.screenshot((270, 600))


def test_cities_are_counted_from_the_zone_of_the_phone(phone, user):
    assert run_text(phone, "date '+%H:%M %Z'; getprop persist.sys.timezone")[0] == "15:34 UTC\nUTC\n"
    cities = phone.tables("com.android.deskclock")
    for row in cities.rows("cities"):
        cities.delete("cities", row["_id"])
    for name in ("London", "Berlin", "Tokyo"):
        cities.insert("cities", name=name)
    phone.launch("Clock")
    user.tap("Clock")
    for shown in ("15:34, Sunday", "16:34, Sunday", "00:34, Monday"):
        user.see(shown)
