"""Frames that are kept: they are shown again exactly where what their screen has read is the same."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from turnwise.phone import Phone
from turnwise.phone.screen import frames
from turnwise.phone.toolkit.tables import Database, empty_tables

CALENDAR, CONTACTS = "org.turnwise.calendar", "org.turnwise.contacts"


@pytest.fixture(autouse=True)
def nothing_kept() -> Iterator[None]:
    frames._frames.clear()
    yield
    frames._frames.clear()


def shown(app: str, seed: str = "frames") -> Phone:
    phone = Phone(seed)
    phone.launch(app)
    return phone


def test_phones_of_one_content_share_frames() -> None:
    assert shown(CONTACTS).frame is shown(CONTACTS).frame
    assert shown(CONTACTS).frame is not shown(CONTACTS, "other").frame


def test_what_a_screen_has_not_read_may_change() -> None:
    phone = shown(CONTACTS)
    before = phone.frame
    phone.advance(60)
    phone.set_setting("volume_music", "1")
    phone.tables(CALENDAR).insert("events", title="New")
    assert phone.frame is before


def test_what_a_screen_has_read_builds_it_again() -> None:
    phone = shown(CONTACTS)
    before = phone.frame
    phone.tables(CONTACTS).insert("contacts", first="Aaa", last="Aab")
    assert phone.tree().find("Aaa Aab") is not None
    assert before.root.find("Aaa Aab") is None
    large = phone.frame
    phone.set_setting("font_scale", "1.3")
    assert phone.frame is not large


def test_the_day_is_read_apart_from_the_time() -> None:
    phone = shown(CALENDAR)
    before = phone.frame
    phone.change(clock=phone.state.clock + 60)
    assert phone.frame is before
    phone.change(clock=phone.state.clock + 86_400)
    assert phone.frame is not before


@pytest.mark.parametrize("app", ["com.android.launcher3", CALENDAR, "org.turnwise.files", "org.turnwise.messages"])
def test_a_kept_frame_equals_a_new_one(app: str) -> None:
    phone = shown(app)
    for change in (
        lambda: phone.advance(3600),
        lambda: phone.set_setting("user_rotation", "1"),
        lambda: phone.write_file("/sdcard/Download/new.txt", b"new"),
        lambda: phone.tables("org.turnwise.messages").insert("sms", address="+1 555 200 0001", body="Hi", type=1),
    ):
        change()
        kept = phone.xml()
        frames._frames.clear()
        phone._changed()
        assert phone.xml() == kept


def test_a_kept_frame_keeps_no_phone() -> None:
    phone = shown("org.turnwise.mail")  # a list whose rows hold the context of the screen
    _ = phone.frame
    gone = weakref.ref(phone)
    del phone
    gc.collect()
    assert gone() is None
    assert frames._frames


def test_only_so_many_frames_are_kept() -> None:
    for n in range(frames.KEPT + 5):
        _ = shown(CONTACTS, f"many {n}").frame
    assert len(frames._frames) == frames.KEPT


def test_the_last_frames_of_a_page_are_kept() -> None:
    phone = shown(CONTACTS)
    scales = [str(1 + 0.1 * n) for n in range(frames.VERSIONS + 1)]
    built = []
    for scale in scales:
        phone.set_setting("font_scale", scale)
        built.append(phone.frame)
    for scale, frame in reversed(list(zip(scales[1:], built[1:], strict=True))):
        phone.set_setting("font_scale", scale)
        assert phone.frame is frame
    phone.set_setting("font_scale", scales[0])  # the oldest one had to make room
    assert phone.frame is not built[0]


def test_phones_in_threads_show_what_each_shows_alone() -> None:
    def play(n: int) -> list[str]:
        phone = shown(CONTACTS, "threads")
        screens = []
        for k in range(40):
            phone.set_setting("font_scale", str(1 + 0.1 * ((n + k) % 7)))
            phone.swipe(540, 1600, 540, 800 + 50 * (k % 9))
            screens.append(phone.xml())
        return screens

    with ThreadPoolExecutor(8) as pool:
        together = list(pool.map(play, range(8)))
    for n, screens in enumerate(together):
        frames._frames.clear()
        assert play(n) == screens


def test_a_table_filled_later_is_made_once_and_equals_one_filled_now() -> None:
    schema = {"words": {"text": str, "known": bool}}
    rows = [{"text": "a", "known": 1}, {"text": "b", "known": 0}]
    asked: list[int] = []

    def make() -> list[dict[str, object]]:
        asked.append(1)
        return rows

    now, later = Database("now", schema, empty_tables(schema)), Database("later", schema, empty_tables(schema))
    now.fill("words", rows)
    later.fill("words", make)
    assert not asked
    assert later.rows("words") == now.rows("words")
    assert later.tables["words"].digest == now.tables["words"].digest
    assert later.insert("words", text="c") == 3
    assert asked == [1]
