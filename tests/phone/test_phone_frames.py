"""Frames that are kept: they are shown again exactly where what their screen has read is the same."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import product

import pytest

from turncredit.phone import Phone
from turncredit.phone.installed_apps import all_apps
from turncredit.phone.screen import fonts, frames
from turncredit.phone.screen.box import Pen, TextRow, UiBox, clip, shift
from turncredit.phone.screen.containers import place
from turncredit.phone.screen.parts import fixed_height
from turncredit.phone.toolkit.handlers import do
from turncredit.phone.toolkit.identity_cache import identity_cache
from turncredit.phone.toolkit.state import AppPage
from turncredit.phone.toolkit.tables import Database, empty_tables
from turncredit.phone.toolkit.widgets import (
    Checkbox,
    Divider,
    IconButton,
    Item,
    Radio,
    Section,
    Spacer,
    Switch,
    Text,
)
from turncredit.tools.android.node import Node

CALENDAR, CONTACTS = "org.turncredit.calendar", "org.turncredit.contacts"


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


@pytest.mark.parametrize("app", ["com.android.launcher3", CALENDAR, "org.turncredit.files", "org.turncredit.messages"])
def test_a_kept_frame_equals_a_new_one(app: str) -> None:
    phone = shown(app)
    for change in (
        lambda: phone.advance(3600),
        lambda: phone.set_setting("user_rotation", "1"),
        lambda: phone.write_file("/sdcard/Download/new.txt", b"new"),
        lambda: phone.tables("org.turncredit.messages").insert("sms", address="+1 555 200 0001", body="Hi", type=1),
    ):
        change()
        kept = phone.xml()
        frames._frames.clear()
        phone._changed()
        assert phone.xml() == kept


def test_a_kept_frame_keeps_no_phone() -> None:
    phone = shown("org.turncredit.mail")  # a list whose rows hold the context of the screen
    _ = phone.frame
    gone = weakref.ref(phone)
    del phone
    gc.collect()
    assert gone() is None
    assert frames._frames


def test_content_whose_tables_wait_for_their_rows_keeps_no_phone() -> None:
    phone = shown("org.turncredit.maps", "waiting")
    _ = phone.frame
    shared, gone = phone._content, weakref.ref(phone)
    del phone  # without the garbage collector: nothing holds the phone, not even itself
    assert gone() is None
    assert shared.tables["org.turncredit.maps"]["reviews"].rows


def test_boxes_of_a_row_of_texts_are_the_same_whenever_they_are_made() -> None:
    page, act = AppPage("org.example.app", "screen"), do(print)
    end = IconButton("add", "Add", act)
    items = [
        Item("A title", on_tap=act),
        Item("A title", "and more", trailing="12:30", on_tap=act, bold=True),
        Item("A title" * 20, "more " * 30, "add", trailing="long " * 9, end=end, on_long_press=act, selected=True),
        Item("", "all below", avatar="Ana", end=end, on_tap=act, id="person"),
    ]
    changes: list[Callable[[UiBox], object]] = [
        lambda row: shift(row, 40),
        lambda row: clip(row, 0, row.bottom - 60),
        lambda row: clip(row, row.top + 80, 2400),
    ]
    for item, scale, change in product(items, (1.0, 1.3), changes):
        rows = [place(Pen(page, page.package, 1080, scale), item, 10, 100, 900) for _ in range(2)]
        early, late = rows
        assert isinstance(early, TextRow)
        assert early.closed
        inside = list(early.walk())[1:]  # which makes them
        assert not early.closed
        assert [box.text for box in inside if box.text] == early.texts
        assert [box for box in inside if box.clickable or box.long_clickable] == early.buttons
        for row in rows:
            change(row)
        assert [described(box) for box in late.walk()] == [described(box) for box in early.walk()]


def described(box: Node) -> tuple[object, ...]:
    return box.class_name, box.bounds, box.text, box.description, box.resource_id, box.clickable


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


def test_a_screen_without_content_is_shared_by_phones_of_all_seeds() -> None:
    one, other = Phone("one"), Phone("other")
    assert one.frame is other.frame  # the home screen
    other.advance(60)
    assert one.frame is not other.frame
    one.advance(60)
    assert one.frame is other.frame


def test_phones_of_other_apps_share_no_frames() -> None:
    everything = Phone("one")
    fewer = Phone("one", apps=[app for app in all_apps() if app.name != "Music"])
    assert everything.tree().find("Music") is not None
    assert fewer.tree().find("Music") is None


def test_the_seed_that_a_screen_reads_is_one_of_its_values() -> None:
    phones = [Phone(seed) for seed in ("one", "other")]
    for phone in phones:
        phone.launch("org.turncredit.browser", "browser")
        phone.tables("org.turncredit.browser").update("tabs", 1, url="bistro-alma.example/menu")
    assert phones[0].frame is not phones[1].frame


def test_results_are_kept_for_the_same_objects_alone() -> None:
    calls: list[object] = []

    @identity_cache(2)
    def first(values: list[int]) -> int:
        calls.append(values)
        return values[0]

    one, same, third = [1], [1], [3]
    assert [first(one), first(one), first(same), first(third), first(same)] == [1, 1, 1, 3, 1]
    assert [id(values) for values in calls] == [id(one), id(same), id(third)]
    assert first(one) == 1  # the oldest had to make room
    assert len(calls) == 4


def test_a_height_that_is_known_without_the_box_is_that_of_the_box() -> None:
    page = AppPage("org.example.app", "screen")
    widgets = [
        Item("A title"), Item("A title", "and more"), Item("", avatar="A", end=IconButton("add", "Add", None)),
        Switch("Wi-Fi", True), Switch("Wi-Fi", True, subtitle="On"), Checkbox("Milk", False),
        Checkbox("Milk", False, subtitle="2 l"), Radio("One", True), Radio("One", True, subtitle="of three"),
        Section("Today"), Divider(), Spacer(), Spacer(3),
    ]  # fmt: skip
    for scale in (0.85, 1.0, 1.3, 2.0):
        pen = Pen(page, page.package, 1080, scale)
        for widget in widgets:
            box = place(pen, widget, 10, 100, 900)
            assert fixed_height(pen, widget) == box.bottom - box.top, widget
    assert fixed_height(pen, Text("A text")) is None


def test_no_character_is_wider_than_the_font_is_high() -> None:
    for bold in (False, True):
        widest = max(fonts._TABLES[bold].values())
        assert max(widest, fonts._OTHER) <= 1000
    text = "A\u0152W@" * 3
    for width in (10, 200, 12 * 42, 5000):
        assert fonts.fit(text, 42, width) == fonts._fitted(text, 42, width, False)
        assert fonts.wrap(text, 42, width) == fonts._wrapped(text, 42, width, False)
