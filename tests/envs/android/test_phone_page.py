"""The phone in a real Chromium: a person's way through tasks, the expert, adb beside it, demonstrations."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from toys.adb_phones import adb, adb_server
from toys.chromium import need_chromium
from toys.waiting import eventually

from turncredit.agents.files.trajectory_files import read_trajectories
from turncredit.cli.serving.phone import saver
from turncredit.envs.android.env import AndroidEnv
from turncredit.envs.android.site.app import create_app
from turncredit.envs.android.site.player import Choice, PhonePlayer
from turncredit.processes.serving import serve_in_thread

pytestmark = pytest.mark.waits

httpx = pytest.importorskip("httpx")
TASK = Choice(template="ClockAddAlarm", seed=1)  # Set an alarm for 23:05.


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    need_chromium()
    from playwright.sync_api import sync_playwright

    from turncredit.tools.browser import find_browser

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=str(find_browser()))
        yield browser
        browser.close()


@pytest.fixture
def player() -> Iterator[PhonePlayer]:
    player = PhonePlayer(TASK, save=saver(None))
    yield player
    player.close()


class Person:
    """Somebody who sees the page and has a mouse and a keyboard."""

    def __init__(self, tab: Any, url: str) -> None:
        self.tab, self.url = tab, url
        tab.goto(url)
        tab.wait_for_selector("#live.on")
        tab.wait_for_selector("#picture[data-shows]")

    def state(self) -> Any:
        return httpx.get(f"{self.url}/state", timeout=60).json()

    def where(self, label: str) -> tuple[float, float]:
        """Where an element of the phone's screen is on the page."""
        state = self.state()
        left, top, right, bottom = next(one for one in state["elements"] if label in one["label"])["bounds"]
        return self.at((left + right) / 2, (top + bottom) / 2)

    def at(self, x: float, y: float) -> tuple[float, float]:
        box, (width, height) = self.tab.locator("#screen").bounding_box(), self.state()["size"]
        return box["x"] + x * box["width"] / width, box["y"] + y * box["height"] / height

    def click(self, label: str) -> None:
        """Click an element of the phone, and wait until the screen has changed."""
        before = self.state()["screen"]
        self.tab.mouse.click(*self.where(label))
        self.until(lambda state: state["screen"] != before)

    def until(self, holds: Callable[[Any], bool]) -> None:
        """Wait for a state, and until the page shows it."""
        assert eventually(lambda: holds(self.state()))
        state = self.state()
        self.tab.wait_for_selector(f"#picture[data-shows='{state['screen']}']")

    def shows(self, label: str) -> Callable[[Any], bool]:
        return lambda state: any(label in one["label"] for one in state["elements"])

    def steps(self) -> list[str]:
        return [text.strip() for text in self.tab.locator("#steps li span").all_inner_texts()]


def wrong(message: Any) -> bool:
    """Whether the console tells an error; that a request was refused is none."""
    return message.type == "error" and "status of 400" not in message.text


@pytest.fixture
def person(browser: Any, player: PhonePlayer) -> Iterator[Person]:
    """A person at a window of 1200 pixels; a script's error or a refused resource fails the test."""
    context = browser.new_context(viewport={"width": 1200, "height": 860})
    tab, errors = context.new_page(), list[str]()
    tab.on("pageerror", lambda error: errors.append(str(error)))
    tab.on("console", lambda message: errors.append(message.text) if wrong(message) else None)
    with serve_in_thread(create_app(player)) as url:
        yield Person(tab, url)
        context.close()
    assert errors == []


def set_the_alarm(person: Person) -> None:
    """Win the task by clicks and typing."""
    for label in ("Clock", "Add alarm", "Time"):
        person.click(label)
    for field, digits in (("Hour, ", "23"), ("Minute, ", "05")):
        person.click(field)
        person.tab.keyboard.press("Backspace")
        person.tab.keyboard.press("Backspace")
        person.tab.keyboard.type(digits)
        person.until(person.shows(f"{field}{digits}"))
    person.click("OK")
    person.click("Save")


def test_a_person_wins_a_task_and_saves_it(person: Person, tmp_path: Path) -> None:
    tab = person.tab
    assert tab.locator("#goal").inner_text() == "Set an alarm for 23:05."
    assert tab.locator("#count").inner_text() == "0 of 14 steps"
    set_the_alarm(person)
    assert tab.locator("#verdict").is_hidden()
    tab.get_by_role("button", name="Done", exact=True).click()
    tab.wait_for_selector("#verdict.won")
    assert tab.locator("#outcome").inner_text() == "Success"
    assert person.steps()[3:5] == ["Type “23” into “Hour”", "Type “05” into “Minute”"]
    assert tab.locator("#count").inner_text() == "8 of 14 steps"
    with tab.expect_download() as download:
        tab.get_by_role("button", name="Save demonstration").click()
    file = tmp_path / download.value.suggested_filename
    download.value.save_as(file)
    [saved] = read_trajectories(file)
    assert (saved.task, saved.won, saved.stop, len(saved.turns)) == ("ClockAddAlarm/1", True, "terminated", 8)
    env = AndroidEnv()
    seen, info = env.reset(options={"task": saved.task})
    for turn in saved.turns:
        assert (turn.observation, turn.state) == (seen, info["state"])
        seen, reward, *_, info = env.step(str(turn.action))
    assert (reward, info["won"]) == (1.0, True)


def test_drag_wheel_hold_and_keys(person: Person) -> None:
    tab = person.tab
    person.click("Contacts")
    first = person.state()["elements"][2]["label"]
    tab.mouse.move(*person.at(540, 1600))
    tab.mouse.wheel(0, 300)
    person.until(lambda state: state["elements"][2]["label"] != first)
    assert person.steps()[-1].startswith("Scroll down by")
    start, end = person.at(540, 900), person.at(540, 2200)  # known before: a finger that waits is a long press
    tab.mouse.move(*start)
    tab.mouse.down()
    tab.mouse.move(*end, steps=4)
    tab.mouse.up()
    person.until(person.shows(first))
    tab.locator("#typing").press("ArrowDown")
    person.until(lambda state: state["elements"][2]["label"] != first)
    tab.locator("#typing").press("Escape")
    person.until(person.shows("Clock"))
    start, end = person.at(540, 20), person.at(540, 1500)
    tab.mouse.move(*start)
    tab.mouse.down()
    tab.mouse.move(*end, steps=4)
    tab.mouse.up()  # the notification shade
    person.until(person.shows("Airplane mode"))
    assert person.steps()[-1].startswith("Swipe down")


def test_a_long_press_begins_while_the_finger_is_down(person: Person) -> None:
    person.click("Contacts")
    person.click("Search contacts")
    person.tab.keyboard.type("Zeppelin 🎈")
    person.until(person.shows("Zeppelin 🎈"))
    before = person.state()["screen"]
    person.tab.mouse.move(*person.where("Zeppelin"))
    person.tab.mouse.down()
    person.until(lambda state: state["screen"] != before)
    person.until(person.shows("Copy"))  # the toolbar of a selection
    person.tab.mouse.up()


def test_the_expert_plays_on_request_and_pauses(person: Person, player: PhonePlayer) -> None:
    tab = person.tab
    player.start(Choice(template="CalendarAdd", seed=1))  # twelve steps: time enough to pause
    tab.get_by_text("CalendarAdd · seed 1 · train").wait_for()
    play = tab.get_by_role("button", name="Expert")
    play.click()
    tab.wait_for_selector("#steps li:nth-child(2)")
    tab.get_by_role("button", name="Pause").click()
    tab.get_by_role("button", name="One step").wait_for()
    paused = len(person.state()["steps"])
    tab.wait_for_timeout(1000)  # longer than a pause between two steps
    assert len(person.state()["steps"]) in (paused, paused + 1)  # one may have been under way
    assert tab.locator("#steps small.expert").count() >= 2
    count = len(person.state()["steps"])
    tab.get_by_role("button", name="One step").click()
    person.until(lambda state: len(state["steps"]) == count + 1)
    tab.locator("body").press("e")
    tab.wait_for_selector("#verdict.won", timeout=60_000)
    assert play.is_disabled()


def test_boxes_can_be_gone_through_by_tab(person: Person) -> None:
    tab = person.tab
    assert tab.locator("#boxes button").count() == 0
    tab.locator("body").press("b")
    shown = len(person.state()["elements"])
    assert tab.locator("#boxes button").count() == shown
    tab.locator("#typing").focus()
    for _ in range(shown):
        tab.keyboard.press("Tab")
        if (tab.evaluate("document.activeElement.getAttribute('aria-label')") or "").startswith("Clock,"):
            break
    tab.keyboard.press("Enter")
    person.until(person.shows("Add alarm"))
    assert person.steps() == ["Tap “Clock”"]
    tab.keyboard.press("Escape")  # a box has the focus still
    person.until(person.shows("Contacts"))


def test_every_control_has_a_name_and_is_reached_by_tab(person: Person) -> None:
    tab = person.tab
    tab.get_by_text("Another task").click()
    wanted = set(
        tab.locator("main :is(button, input, select):visible, header button").evaluate_all(
            "all => all.filter(one => !one.disabled).map(one => one.id || one.textContent.trim())"
        )
    )
    reached: set[str] = set()
    tab.locator("body").press("Tab")
    for _ in range(60):
        reached.add(tab.evaluate("document.activeElement.id || document.activeElement.textContent.trim()"))
        tab.keyboard.press("Tab")
    assert wanted <= reached, wanted - reached
    assert "typing" in reached
    nameless = (
        "all => all.filter(one => !(one.getAttribute('aria-label') || one.labels?.length || one.textContent.trim()))"
    )
    assert tab.locator("button, input, select").evaluate_all(f"{nameless.replace('all =>', 'all => ', 1)}") == []
    tab.locator("#help").focus()
    tab.keyboard.press("?")
    tab.wait_for_selector("#keys[open]")
    tab.keyboard.press("Escape")
    assert tab.locator("#keys").is_hidden()


@pytest.mark.parametrize("width", [320, 390, 768, 1200])
def test_windows_of_all_sizes_light_and_dark(person: Person, width: int) -> None:
    tab = person.tab
    tab.set_viewport_size({"width": width, "height": 800})
    assert tab.evaluate("document.documentElement.scrollWidth") <= width
    box = tab.locator("#screen").bounding_box()
    assert box["width"] >= 200
    assert abs(box["width"] / box["height"] - 0.45) < 0.01
    colours = []
    for scheme in ("light", "dark"):
        tab.emulate_media(color_scheme=scheme, reduced_motion="reduce")
        colours.append(tab.evaluate("getComputedStyle(document.querySelector('.card')).backgroundColor"))
    assert colours[0] == "rgb(255, 255, 255)"
    assert colours[1] != colours[0]
    assert tab.evaluate("getComputedStyle(document.querySelector('#progress i')).transitionDuration") in ("0s", "")
    tab.locator("body").press("t")
    assert tab.evaluate("getComputedStyle(document.querySelector('.card')).backgroundColor") == colours[0]


def test_another_task_a_refused_one_and_a_phone_without(person: Person) -> None:
    tab = person.tab
    tab.get_by_text("Another task").click()
    tab.locator("#split").select_option("apps")
    tab.locator("#app").select_option("Recipes")
    tab.locator("#template").select_option(index=1)
    chosen = tab.locator("#template").input_value()
    tab.locator("#seed").fill("4")
    tab.get_by_role("button", name="Start").click()
    person.until(lambda state: state["task"]["id"] == f"{chosen}/4")
    tab.locator("#seed").fill("4000000000")
    tab.get_by_role("button", name="Start").click()
    tab.get_by_text("The seed must be a whole number from 0 to 1,000,000,000, got 4,000,000,000.").wait_for()
    assert person.state()["task"]["id"] == f"{chosen}/4"
    tab.locator("#seed").fill("7")
    tab.get_by_role("button", name="Phone without a task").click()
    tab.get_by_text("A phone to look around in").wait_for()
    assert tab.locator("#done").is_hidden()
    person.click("Settings")
    assert person.steps() == ["Tap “Settings”"]


def test_a_failure_is_told_with_its_reasons(person: Person) -> None:
    tab = person.tab
    person.click("Clock")
    tab.locator("#answer").fill("<b>five</b>")
    tab.get_by_role("button", name="Answer").click()
    tab.get_by_text("Answer “<b>five</b>”").wait_for()
    tab.get_by_role("button", name="Cannot be done").click()
    tab.get_by_text("The agent gave up on a task that can be done").wait_for()
    assert tab.locator("#outcome").inner_text() == "Not solved"
    tab.get_by_role("button", name="Play again").click()
    tab.wait_for_selector("#verdict", state="hidden")
    assert person.state()["steps"] == []


def test_one_phone_and_two_views(person: Person, player: PhonePlayer, monkeypatch: pytest.MonkeyPatch) -> None:
    tab, serial = person.tab, player.adb.serial
    assert tab.locator("#command").inner_text() == f"adb connect {serial}"
    with adb_server(monkeypatch):
        adb("connect", serial)
        tab.get_by_text("connected", exact=True).wait_for()
        adb("-s", serial, "shell", "am start -n com.android.settings/.Settings")
        person.until(person.shows("Bluetooth"))
        tab.get_by_text("Changes over adb").wait_for()
        person.tab.mouse.click(*person.where("Bluetooth"))
        person.until(lambda state: len(state["steps"]) == 2)
        dump = adb("-s", serial, "exec-out", "uiautomator dump /dev/tty").stdout.decode()
        assert all(one["label"].split(",")[0] in dump for one in person.state()["elements"][:3])
        tab.get_by_role("button", name="Done", exact=True).click()
        tab.get_by_text("Cannot be saved: the phone was also changed").wait_for()
        tab.get_by_role("button", name="Next task").click()
        person.until(lambda state: not state["steps"])
        dump = adb("-s", serial, "exec-out", "uiautomator dump /dev/tty").stdout.decode()
        assert 'text="Recipes"' in dump  # the new phone, without connecting again


def test_a_page_that_connects_again_shows_the_present_state(browser: Any, player: PhonePlayer) -> None:
    context = browser.new_context()
    with serve_in_thread(create_app(player)) as url:
        person = Person(context.new_page(), url)
        person.click("Clock")
    port = int(url.rpartition(":")[2])
    held = socket.socket()  # so that nobody else takes the port, at which nobody answers
    held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    held.bind(("127.0.0.1", port))
    person.tab.wait_for_selector("#live:not(.on)", timeout=60_000)
    player.start(Choice(free=True, seed=3))
    with serve_in_thread(create_app(player), port=port):
        held.close()
        person.tab.get_by_text("A phone to look around in").wait_for(timeout=60_000)
        person.tab.wait_for_selector("#live.on")
        person.click("Contacts")
        context.close()
