"""Home screen, drawer, recent apps, shade, permissions, clock, rotation, pickers."""

from __future__ import annotations

from pathlib import Path

import pytest

from turncredit.phone import App, BrokenApp, Context, Phone, UnknownApp
from turncredit.phone.installed_apps import all_apps
from turncredit.phone.toolkit import state
from turncredit.phone.toolkit.app import Provider
from turncredit.phone.toolkit.handlers import do
from turncredit.phone.toolkit.widgets import Button, Dialog, Item, Menu, Row, Screen, Text


def test_an_app_opens_from_the_drawer(phone, user):
    phone.swipe(540, 1800, 540, 600)
    user.tap("Clock")
    assert phone.activity == "com.android.deskclock/.DeskClock"


def test_recent_apps_come_back_where_they_were_left(phone, user):
    phone.launch("Settings")
    user.tap("Display")
    phone.launch("Contacts")
    phone.recents()
    user.tap("Settings")
    assert phone.page.screen == "display"


def test_a_closed_app_is_gone_from_recent_apps(phone, user):
    phone.launch("Settings")
    phone.recents()
    user.tap("Close Settings")
    assert [task.package for task in phone.state.tasks] == ["com.android.launcher3"]


def test_quick_settings_are_the_settings(phone, user):
    phone.swipe(540, 10, 540, 900)
    user.tap("Internet")
    assert phone.setting("wifi_on", "global") == "0"
    phone.back()
    assert phone.page.screen == "home"


def test_an_unknown_app_is_named_with_those_that_exist(phone):
    with pytest.raises(UnknownApp, match=r"no app is called 'Chess'; the phone has .*Clock.*Contacts"):
        phone.launch("Chess")


def test_rotation_turns_the_screen(phone):
    phone.set_setting("user_rotation", "1")
    assert phone.size == (2400, 1080)
    assert 'rotation="1"' in phone.xml()


def test_a_larger_font_makes_rows_taller(phone, user):
    phone.launch("Settings")
    before = user.see("Display").top
    phone.set_setting("font_scale", "1.3")
    assert user.see("Display").top > before


def test_a_screen_that_is_off_takes_no_touch(phone):
    phone.key(26)
    key = phone.state_key()
    phone.tap(540, 2000)
    assert phone.state_key() == key
    phone.key(26)
    assert phone.state.screen_on


def camera(ctx: Context) -> Screen:
    said = "Ready" if ctx.allowed("android.permission.CAMERA") else "Not allowed"
    return Screen("Camera", [Text(said), Button("Use camera", do(use))])


def use(ctx: Context) -> None:
    ctx.ask("android.permission.CAMERA", do(used))


def used(ctx: Context) -> None:
    ctx.snackbar("Photo taken")


CAMERA = App("test.camera", "Camera", "camera", "#888888", (camera,), permissions=("android.permission.CAMERA",))


@pytest.mark.parametrize(("answer", "seen"), [("Allow", "Ready"), ("Don't allow", "Not allowed")])
def test_a_permission_is_asked_for(answer, seen):
    phone = Phone(apps=[*all_apps(), CAMERA])
    phone.launch("Camera")
    phone.tap(*phone.tree().find("Use camera").center)
    assert phone.page.screen == "permission"
    phone.tap(*phone.tree().find(answer).center)
    assert phone.tree().find(seen)
    assert bool(phone.tree().find("Photo taken")) == (answer == "Allow")


def broken(ctx: Context) -> Screen:
    raise ValueError("no such thing")


def wrong(ctx: Context) -> str:
    return "text"


def not_widgets(ctx: Context) -> Screen:
    return Screen("Bad", ["text"])


@pytest.mark.parametrize(
    ("screen", "message"),
    [
        (broken, r"test.bad: broken\(\) failed with ValueError: no such thing"),
        (wrong, "screen 'wrong' must return a window, got str"),
        (not_widgets, "a screen holds widgets, got str"),
    ],
)
def test_a_broken_app_says_what_is_wrong(screen, message):
    phone = Phone(apps=[App("test.bad", "Bad", "info", "#888888", (screen,))])
    phone.launch("Bad")
    with pytest.raises(BrokenApp, match=message):
        phone.xml()


WATER = {"package": "org.example.water", "name": "Water", "icon": "cup", "colour": "#1a73a8", "screens": (not_widgets,)}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"package": "Bad Package"}, "a package is a name such as org.example.water, got 'Bad Package'"),
        ({"package": ""}, "a package is a name such as org.example.water, got ''"),
        ({"name": " "}, "name must be a text that is not empty, got ' '"),
        ({"icon": "cups"}, "icon must be one of `phone.icons.ICONS`, such as cup.*, got 'cups'"),
        ({"colour": "blue"}, "colour must be like '#1a73a8', got 'blue'"),
        (
            {"schema": {"glasses": {"time": list}}},
            "column glasses.time must be one of str, int, float, bool, got .*list",
        ),
        ({"schema": {"glasses": {"time": str}}, "volatile": ("uses",)}, "has no table 'uses'; its tables: glasses"),
        ({"providers": {"content://water": Provider("uses", {})}}, "has no table 'uses'; its tables: none"),
        ({"screens": ()}, "has no screens"),
        ({"intents": {"android.intent.action.VIEW": "glass"}}, "opens 'glass'; its screens: not_widgets"),
    ],
)
def test_a_wrong_declaration_is_one_sentence(change, message):
    with pytest.raises(BrokenApp, match=message):
        App(**{**WATER, **change})


def test_two_apps_of_one_name_are_refused():
    with pytest.raises(BrokenApp, match=r"two apps have the name Water: org\.example\.water and org\.example\.other"):
        Phone(apps=[App(**WATER), App(**{**WATER, "package": "org.example.other"})])


@pytest.mark.parametrize(
    ("window", "message"),
    [
        (Screen("Page", [Item(5)]), r"Item\.title must be str, got 5"),
        (Screen("Page", [Item("A", 5, on_tap=do(print))]), r"Item\.subtitle must be str, got 5"),
        (Screen("Page", [Row([Text(None)])]), r"Text\.text must be str, got None"),
        (Screen(7, []), r"screen 'page': Screen\.title must be str, got 7"),
        (Dialog("Page", [Text("x")], 5), "screen 'page': it cannot be laid out: TypeError"),
    ],
)
def test_a_widget_with_a_wrong_value_says_which(window, message):
    def page(ctx: Context) -> Screen:
        return window

    phone = Phone(apps=[App("test.bad", "Bad", "info", "#888888", (page,))])
    phone.launch("Bad")
    with pytest.raises(BrokenApp, match=message):
        phone.xml()


def test_a_menu_closes_when_an_entry_is_tapped_and_when_not():
    def page(ctx: Context) -> Screen:
        return Screen("Page", [Text(str(ctx.get("chosen", "none")))], actions=[])

    def menu(ctx: Context) -> Menu:
        return Menu([("One", do(choose))])

    def choose(ctx: Context) -> None:
        ctx.set("chosen", "one")

    phone = Phone(apps=[App("test.menu", "Menus", "menu", "#888888", (page, menu))])
    phone.launch("Menus", "menu")
    phone.tap(5, 1200)
    assert phone.tree().find("none")
    phone.launch("Menus", "menu")
    phone.tap(*phone.tree().find("One").center)
    assert phone.tree().find("one")


def test_the_package_of_the_home_screen_is_written_in_one_module():
    folder = Path(state.__file__).parent.parent
    modules = list(folder.rglob("*.py"))
    assert len(modules) > 90
    assert [path.name for path in modules if state.HOME in path.read_text()] == ["state.py"]
