"""The judge by hand-made cases: what a legitimate way may differ in, and what must not pass."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import pytest

from turncredit.envs import make
from turncredit.envs.android.elements import folded
from turncredit.envs.android.tasks.answers import is_right
from turncredit.envs.android.tasks.effects import Answer, FileIs, InsertRow
from turncredit.envs.android.tasks.judge import content, judge
from turncredit.envs.android.tasks.near_misses import Outcome, apply
from turncredit.envs.android.tasks.template import make_task
from turncredit.phone import Phone
from turncredit.phone.shell import run


class Player:
    """Somebody who plays a task by what the elements on the screen say."""

    def __init__(self, task: str, **options: Any) -> None:
        self.env = make("turncredit/Android-v0", max_episode_steps=-1, **options)
        self.env.reset(options={"task": task})
        self.episode = self.env.unwrapped.episode
        self.params: dict[str, Any] = self.episode.task.params

    def find(self, text: str, kind: str = "") -> int:
        """Return the number of the first element that mentions a text; fail with what is there instead."""
        elements = folded(self.episode.device.dump(), self.episode.device.size())
        named = [e for e in elements if e.mentions(text) or e.node.description == text]
        found = [e.index for e in named if not kind or e.kind == kind]
        assert found, (text, [e.texts for e in elements])
        return found[0]

    def step(self, action: str) -> dict[str, Any]:
        observation, *_, info = self.env.step(action)
        assert info["valid"], observation
        return info

    def tap(self, *texts: str, kind: str = "") -> None:
        for text in texts:
            self.step(f"tap {self.find(text, kind)}")

    def type(self, field: str, text: str) -> None:
        self.step(f"type {self.find(field, 'field')} {text}")

    def plan(self) -> list[str]:
        return self.env.unwrapped.plan()

    def expert(self, change: Any = lambda action: action) -> dict[str, Any]:
        """Let the expert play from here, with its actions changed, and return the last `info`."""
        for action in self.plan():
            info = self.step(change(action))
        return info

    def done(self) -> tuple[bool, tuple[str, ...]]:
        info = self.step("done")
        return info["won"], info["reasons"]


# The form of a new contact


def fill_draft(player: Player) -> None:
    for field, name in (("First name", "first"), ("Last name", "last"), ("Phone", "phone")):
        player.type(field, player.params[name])
    player.tap("Phone label", player.params["label"])


def test_the_form_of_an_existing_contact_is_not_that_of_a_new_one() -> None:
    player = Player("ContactsDraft/1")
    player.step("open Contacts")
    player.step("tap 3")
    player.tap("Edit contact")
    fill_draft(player)
    for field in ("Email", "Company", "Address", "Notes"):
        player.type(field, "")
    won, reasons = player.done()
    assert not won
    assert "parameters {'id': " in reasons[0]


@pytest.mark.parametrize("field", ["Email", "Company", "Address", "Notes"])
def test_a_draft_has_nothing_but_what_the_goal_says(field: str) -> None:
    player = Player("ContactsDraft/1")
    player.step("open Contacts")
    player.tap("Create contact")
    fill_draft(player)
    player.type(field, "x")
    assert not player.done()[0]


# Copies are copies to the letter; what the agent types freely is not


def spaced(text: str) -> str:
    return text.replace(" ", "  ", 1)


def verdict_on(task: str, change: Any) -> bool:
    """Return the verdict on the right outcome with its last text changed."""
    drawn = make_task(task.split("/")[0], int(task.split("/")[1]))
    first = drawn.phone.snapshot()
    apply(drawn.phone, Outcome("changed", tuple(map(change, drawn.effects))))
    after = content(drawn.phone)
    drawn.phone.restore(first)
    return judge(content(drawn.phone, list(after.databases)), after, drawn.effects).won


def body(change: Any) -> Any:
    def changed(effect: Any) -> Any:
        if isinstance(effect, InsertRow):
            return replace(effect, values={**effect.values, "body": change(effect.values["body"])})
        return replace(effect, content=change(effect.content)) if isinstance(effect, FileIs) else effect

    return changed


COPIES = ("MessagesForward", "MessagesResend", "CrossForward", "MailForward", "NotesMove", "NotesRename", "NotesMerge")


@pytest.mark.parametrize("name", [*COPIES, "FilesMove", "FilesCopy", "FilesRename"])
def test_a_copy_is_the_same_to_the_letter(name: str) -> None:
    assert verdict_on(f"{name}/1", body(lambda text: text))
    assert verdict_on(f"{name}/1", body(lambda text: f"{text}\n"))
    for change in (str.upper, spaced, lambda text: f" {text}", lambda text: f"\n{text}"):
        assert not verdict_on(f"{name}/1", body(change))


@pytest.mark.parametrize("name", ["MessagesSend", "MailSend", "NotesCreate", "NotesReplaceText"])
def test_case_and_spacing_of_typed_text_do_not_count(name: str) -> None:
    for change in (str.upper, spaced):
        assert verdict_on(f"{name}/1", body(change))


@pytest.mark.parametrize("name", ["NotesAddAtEnd", "NotesAddOnTop"])
def test_a_new_line_is_typed_freely_and_the_rest_of_the_note_stays_to_the_letter(name: str) -> None:
    line = make_task(name, 1).params["line"]
    assert verdict_on(f"{name}/1", body(lambda text: text.replace(line, spaced(line.upper()))))
    assert not verdict_on(f"{name}/1", body(lambda text: text.lower().replace(line.lower(), line)))
    assert not verdict_on(f"{name}/1", body(lambda text: spaced(text) if name == "NotesAddAtEnd" else f"{text} "))


# A row that goes and comes again

ALARMS, MAPS, MUSIC, MESSAGES = (
    ("com.android.deskclock", "alarms"),
    ("org.turncredit.maps", "saved"),
    "org.turncredit.music",
    ("org.turncredit.messages", "sms"),
)


def played(name: str, change: Any) -> Any:
    """Return the verdict after a change of the phone that `change(phone, params)` makes."""
    task = make_task(name, 1)
    first = task.phone.snapshot()
    change(task.phone, task.params)
    after = content(task.phone)
    task.phone.restore(first)
    return judge(content(task.phone, list(after.databases)), after, task.effects)


def again(phone: Any, package: str, table: str, key: int, **changed: Any) -> int:
    """Delete a row and insert it anew, with some columns changed; return its new id."""
    row = {name: value for name, value in phone.tables(package).get(table, key).items() if name != "_id"}
    phone.tables(package).delete(table, key)
    return phone.tables(package).insert(table, **{**row, **changed})


def test_a_place_can_be_removed_and_saved_anew_in_the_other_list() -> None:
    assert played("MapsMoveToList", lambda phone, p: again(phone, *MAPS, p["saved"], list=p["other"])).won
    assert not played("MapsMoveToList", lambda phone, p: again(phone, *MAPS, p["saved"], place=1, list=p["other"])).won
    assert not played("MapsMoveToList", lambda phone, p: again(phone, *MAPS, p["saved"])).won


def test_an_alarm_can_be_deleted_and_added_at_another_time() -> None:
    def move(**more: Any) -> Any:
        return lambda phone, p: again(phone, *ALARMS, p["id"], time=p["new"], enabled=1, **more)

    assert played("ClockMoveAlarm", move()).won
    assert not played("ClockMoveAlarm", move(label="another")).won
    assert not played("ClockMoveAlarm", move(days="Sun Mon")).won


def test_another_alarm_that_was_deleted_and_added_again_is_no_side_effect() -> None:
    def twice(phone: Any, p: Any, **changed: Any) -> None:
        other = next(row["_id"] for row in phone.tables(ALARMS[0]).rows("alarms") if row["_id"] != p["id"])
        phone.tables(ALARMS[0]).update("alarms", p["id"], time=p["new"], enabled=1)
        again(phone, *ALARMS, other, **changed)

    assert played("ClockMoveAlarm", twice).won
    assert not played("ClockMoveAlarm", lambda phone, p: twice(phone, p, label="another")).won


def test_a_message_that_was_sent_anew_at_another_time_is_another_message() -> None:
    def send(phone: Any, p: Any, **changed: Any) -> None:
        phone.tables(MESSAGES[0]).insert("sms", address=p["phone"], body=p["text"], type=2, date=1)
        again(phone, *MESSAGES, 1, **changed)

    assert played("MessagesSend", send).won
    assert not played("MessagesSend", lambda phone, p: send(phone, p, date=2)).won


def rebuilt(phone: Any, key: int, **changed: Any) -> tuple[int, int]:
    """Delete a playlist and make it anew with its entries; return its new id and that of its last entry."""
    new = again(phone, MUSIC, "playlists", key, **changed)
    last = 0
    for entry in phone.tables(MUSIC).rows("entries", playlist=key):
        last = again(phone, MUSIC, "entries", entry["_id"], playlist=new)
    return new, last


def test_a_playlist_can_be_made_anew_with_its_songs() -> None:
    def rename(phone: Any, p: Any) -> tuple[int, int]:
        return rebuilt(phone, p["list"], name=p["new"])

    assert played("MusicRenamePlaylist", rename).won

    def without_a_song(phone: Any, p: Any) -> None:
        phone.tables(MUSIC).delete("entries", rename(phone, p)[1])

    assert not played("MusicRenamePlaylist", without_a_song).won

    def left_behind(phone: Any, p: Any) -> None:
        again(phone, MUSIC, "playlists", p["list"], name=p["new"])

    assert not played("MusicRenamePlaylist", left_behind).won


def test_a_row_that_moves_with_the_one_it_names_has_not_changed() -> None:
    """A playlist is made anew, and its entries are given to it."""

    def give(phone: Any, p: Any) -> None:
        new = again(phone, MUSIC, "playlists", p["list"], name=p["new"])
        for entry in phone.tables(MUSIC).rows("entries", playlist=p["list"]):
            phone.tables(MUSIC).update("entries", entry["_id"], playlist=new)

    assert played("MusicRenamePlaylist", give).won


@pytest.mark.parametrize(
    ("name", "package", "table", "column"),
    [
        ("MusicAddToPlaylist", MUSIC, "playlists", "playlist"),
        ("TasksAddSubtask", "org.turncredit.tasks", "tasks", "task"),
    ],
)
def test_what_is_new_may_belong_to_what_was_made_anew(name: str, package: str, table: str, column: str) -> None:
    """The owner is deleted and made again with all that it held, and gets what the task asks for."""

    def play(phone: Any, p: dict[str, Any]) -> None:
        (effect,) = effects = make_task(name, 1).effects
        apply(phone, Outcome("as asked", tuple(effects)))
        assert isinstance(effect, InsertRow)
        owner, tables = effect.values[column], phone.tables(package)
        new = again(phone, package, table, owner)
        for row in tables.rows(effect.table, **{column: owner}):
            tables.update(effect.table, row["_id"], **{column: new})

    assert played(name, play).won


def test_a_row_deleted_and_added_again_is_not_deleted() -> None:
    assert not played("ClockDeleteAlarm", lambda phone, p: again(phone, *ALARMS, p["id"])).won


def test_the_keyboard_of_a_client_is_no_side_effect() -> None:
    """A client over adb chooses the keyboard with which it types."""
    phone, keyboard = Phone(3), "com.github.uiautomator/.AdbKeyboard"
    before = content(phone)
    for command in (f"ime enable {keyboard}", f"ime set {keyboard}"):
        assert run(phone, command).code == 0
    assert phone.setting("default_input_method", "secure") == keyboard
    assert judge(before, content(phone), []).won
    phone.set_setting("location_mode", "0", "secure")
    assert not judge(before, content(phone), []).won


# Answers

MANY = tuple(f"item {number:02}" for number in range(40))
WRITTEN = [
    ("time", "17:30", "It is 17:30."),
    ("time", "17:30", "at 5.30 pm"),
    ("date", "2023-10-26", "It is on 2023-10-26"),
    ("date", "2023-10-26", "Oct 26"),
    ("date", "2023-10-26", "Thursday the 26th of October"),
    ("list", ("Milk", "Tea", "Fish and chips"), "Milk, Tea and Fish and chips"),
    ("list", ("Milk", "Tea", "Jam"), "Milk, Tea, and Jam."),
    ("list", ("Milk", "Tea", "Jam"), "Milk AND tea AND jam"),
    ("list", ("Milk", "Tea and jam", "Bread"), "Milk and Tea and jam and Bread"),
    ("list", ("Milk", "Tea", "Jam"), "- Jam\n- Tea\n- Milk"),
    ("list", ("Milk", "Tea", "Jam"), "1. Milk\n2. Tea\n3. Jam"),
    ("number", 7.02, "7,02"),
    ("number", 1250, "EUR 1,250"),
    ("number", 12000, "12 000 m"),
    ("number", 1234567.5, "1,234,567.50"),
    ("number", 1250.5, "1 250,5"),
    ("number", -0.5, "-.5"),
    ("number", 150000, "1,50,000"),
    ("list", MANY, " and ".join(MANY)),
    ("list", MANY, " and ".join(reversed(MANY))),
    ("list", ("a and b", "a", "b", "b and a"), "a and b and a and b and a and b"),
    ("number", 6, "There are six."),
    ("number", 0, "Zero"),
    ("text", "Ana Berg", "The answer is: Ana Berg"),
    ("text", "At home", "It is at home"),
    ("time", "17:30", "5.30pm"),
    ("choice", "Market Street", "It's Market Street."),
]


@pytest.mark.parametrize(("kind", "value", "given"), WRITTEN)
def test_answers_are_read_as_people_write_them(kind: str, value: Any, given: str) -> None:
    assert is_right(Answer(kind, value), given)


@pytest.mark.parametrize(
    ("kind", "value", "given"),
    [
        ("time", "17:30", "It is 5:30"),
        ("time", "17:30", "17:30 or 17:31"),
        ("date", "2023-10-26", "Oct 27"),
        ("date", "2023-10-26", "Oct 26, 2024"),
        ("date", "2023-10-26", "October"),
        ("list", ("Milk", "Tea"), "Milk, Tea and Jam"),
        ("list", ("Milk and Tea",), "Milk, Tea"),
        ("list", ("Milk", "Tea"), "milk and " * 20_000),
        ("list", MANY, " and ".join((*MANY[:-1], "other"))),
        ("list", ("a and b", "a", "b"), "a and b and a and a"),
        ("number", 12, "1 2"),
        ("number", 12, "1, 2"),
        ("number", 1.2, "1, 2"),
        ("number", 123, "1,2,3"),
        ("number", 345, "3 4 5"),
        ("number", 12345, "1,2345"),
        ("number", 12345, "12 34 5"),
        ("number", 12000, "12 000 7"),
        ("number", 1, "1,00" * 30_000),
        ("number", 6, "six or seven"),
        ("number", 1, "one hundred"),
        ("number", 1, "thirty-one"),
        ("number", 1, "No one."),
        ("number", 1, "One moment, I could not find it"),
        ("number", 6, "half past six"),
        ("number", 702, "7,02"),
        ("text", "Ana Berg", "It is Ana Bergman"),
        ("text", "17", "It is"),
    ],
)
def test_other_answers_are_wrong(kind: str, value: Any, given: str) -> None:
    assert not is_right(Answer(kind, value), given)


def test_a_long_list_is_read_in_a_moment() -> None:
    """Each "and" may be a part of an item: trying all ways takes twice as long with each further one."""
    items = tuple(f"{number} and {number}" for number in range(30))
    begin = time.process_time()
    for given in (" and ".join(items), " and ".join([*items[1:], "other"]), "0 and " * 20_000, "and " * 20_000):
        assert is_right(Answer("list", items), given) == (given == " and ".join(items))
    assert time.process_time() - begin < 2


@pytest.mark.parametrize("waits", [0, 3])
def test_a_time_that_goes_on_is_one_that_the_phone_has_shown(waits: int) -> None:
    effect = make_task("ClockAskCity", 3).effects[0]
    hours, minutes = map(int, effect.value.split(":"))
    for later in range(-1, 5):
        player = Player("ClockAskCity/3", split="templates")
        for _ in range(waits):
            player.step("wait")
        total = (60 * hours + minutes + later) % 1440
        player.step(f"answer {total // 60:02d}:{total % 60:02d}")
        assert player.done()[0] == (0 <= later <= waits), later


def test_the_expert_reads_the_time_after_waiting() -> None:
    player = Player("ClockAskCity/3", split="templates")
    for _ in range(3):
        player.step("wait")
    assert player.expert()["won"]
