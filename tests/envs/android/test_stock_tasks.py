"""Tasks on stock apps: the simulated phone as a device that nobody knows, over the stock adb and directly."""

from __future__ import annotations

import pickle
import re
import socket
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest
from toys.adb_phones import Plugged, adb, adb_server
from toys.ports import reserved_port
from toys.stock_scripts import SCRIPTS, actions

from turncredit.agents.agent import Agent
from turncredit.agents.rollouts.rollout import rollout
from turncredit.agents.trajectory import Trajectory
from turncredit.engines.scripted import Random
from turncredit.envs import EnvError, EnvironmentDied, UnknownOption, UnknownTask, make
from turncredit.envs.android.env import AndroidEnv
from turncredit.envs.android.stock.observation import PARTS, SETTINGS, add_contact, change_setting, observe, shown_rows
from turncredit.envs.android.stock.source import StockTasks
from turncredit.envs.android.stock.templates import STOCK_TEMPLATES
from turncredit.envs.android.tasks.effects import Answer, Infeasible
from turncredit.envs.android.tasks.template import split_of
from turncredit.phone import Phone
from turncredit.phone.adb import AdbServer
from turncredit.phone.adb.direct_device import DirectDevice

pytestmark = pytest.mark.waits

Params = dict[str, Any]
QUICK = {"recovery": 0.0, "settle_pause": 0.0}


@pytest.fixture(scope="module")
def server():
    with pytest.MonkeyPatch.context() as patch, adb_server(patch) as port:
        yield port


@pytest.fixture
def plugged(server) -> Iterator[Plugged]:
    plugged = Plugged(Phone("a device"))
    yield plugged
    plugged.close()


def first_id(template: str) -> str:
    """The first instance of a template in the split to which its name belongs."""
    one = STOCK_TEMPLATES[template]
    split = "templates" if one.split == "held_out" else "train"
    return next(f"{template}/{number}" for number in range(50) if split_of(one, number) == split)


def direct(template: str, phone: Phone) -> AndroidEnv:
    """An environment on a phone of this process, which it knows as a device alone."""
    held_out = STOCK_TEMPLATES[template].split == "held_out"
    env = AndroidEnv(device=f"direct to {id(phone)}")
    env._source = StockTasks(
        f"direct to {id(phone)}", "templates" if held_out else "train", connect=lambda: DirectDevice(phone)
    )
    return env


def play(env: Any, change: Mapping[str, Any] | None = None) -> tuple[list[Any], dict[str, Any]]:
    """Play the script of the task, with other parameters if some are given; return what was seen, and the last info."""
    seen: list[Any] = []
    info: dict[str, Any] = {}
    for action in actions(env, {**env.unwrapped.episode.params, **(change or {})}):
        observation, reward, terminated, _, info = env.step(action)
        seen.append((action, observation, reward, terminated, info["valid"], info["state"], info.get("reasons")))
        if terminated:
            break
    return seen, info


def everything(phone: Phone) -> Any:
    return observe(DirectDevice(phone), PARTS)


def test_every_template_has_a_script_and_there_are_enough():
    assert set(SCRIPTS) == set(STOCK_TEMPLATES)
    assert len(STOCK_TEMPLATES) >= 15
    assert len({app for template in STOCK_TEMPLATES.values() for app in template.apps}) >= 6


@pytest.mark.parametrize("template", sorted(STOCK_TEMPLATES))
def test_a_template_is_won_through_the_screen_and_undone_afterwards(template):
    phone = Phone(f"stock {template}")
    before = observe(DirectDevice(phone), [part for part in PARTS if part != "alarm"])
    env = direct(template, phone)
    for number in (0, 1, 2):
        task = first_id(template).split("/")[0] + f"/{number}"
        if split_of(STOCK_TEMPLATES[template], number) not in ("train", "templates"):
            continue
        env.reset(options={"task": task})
        seen, info = play(env)
        assert info["won"], (env.episode.goal, info["reasons"])
        assert seen[-1][2] == 1.0
        assert 1 <= len(seen) <= info["step_limit"]
    env.close()
    after = observe(DirectDevice(phone), [part for part in PARTS if part != "alarm"])
    assert (after.settings, after.files) == (before.settings, before.files)
    for table, rows in before.databases["adb"].items():
        assert sorted(map(str, rows.values())) == sorted(map(str, after.databases["adb"][table].values()))


# Near misses


def wrong_params(params: Params) -> Iterator[Params]:
    """Parameters that lead the script somewhere else: one for each that it follows."""
    if "state" in params:
        yield {"state": "off" if params["state"] == "on" else "on"}
    if "other" in params:
        yield {"one": params["other"], "other": params["one"]}
    if "choice" in params:
        numbers = re.search(r"\d", params["choice"])
        others = ("15 seconds", "30 seconds") if numbers else ("Large", "Largest")
        yield {"choice": next(one for one in others if one != params["choice"])}
    if "number" in params:
        yield {"number": params["number"][:-1] + str((int(params["number"][-1]) + 1) % 10)}
    if "text" in params and "number" in params:
        yield {"text": params["text"] + " now"}
    if "new" in params:
        yield {"new": "very " + params["new"]}
    if "time" in params:
        hour, minute = params["time"].split(":")
        yield {"time": f"{hour}:{(int(minute) + 1) % 60:02d}"}
    if "app" in params:
        yield {"app": "Clock" if params["app"] != "Clock" else "Files"}


def flip_a_setting(device: DirectDevice) -> None:
    now = observe(device, ()).settings["global"]["airplane_mode_on"]
    change_setting(device, "global", "airplane_mode_on", "0" if now == "1" else "1")


def delete_a_message(device: DirectDevice) -> None:
    key = min(shown_rows(device, "messages"))
    device.shell(f"content delete --uri content://sms --where _id={key}")


def change_a_number(device: DirectDevice) -> None:
    key = min(shown_rows(device, "contacts"))
    device.shell(f"content update --uri content://com.android.contacts/contacts/{key} --bind number:s:5550000000")


EXTRAS: dict[str, Callable[[DirectDevice], object]] = {
    "a setting": flip_a_setting,
    "a contact": lambda device: add_contact(device, "Nobody Asked", "5551234567"),
    "another number": change_a_number,
    "a message": delete_a_message,
    "a file": lambda device: device.push(b"x", "/sdcard/Documents/unwanted.txt"),
    "a file that is gone": lambda device: device.shell("rm '/sdcard/Documents/lease.txt'"),
    "a call": lambda device: device.shell("content delete --uri content://call_log/calls --where type=2"),
}


@pytest.mark.parametrize("template", sorted(STOCK_TEMPLATES))
def test_near_misses_fail(template):
    phone, task = Phone("a device"), first_id(template)
    DirectDevice(phone).push(b"lease", "/sdcard/Documents/lease.txt")
    start = phone.snapshot()
    env = direct(template, phone)

    def begin() -> Params:
        phone.restore(start)
        env._source._task = None  # what it did is undone already
        env.reset(options={"task": task})
        return dict(env.episode.params)

    params = begin()
    effects = env.episode.template.effects(params)
    for words in (["done"], ["infeasible"], ["answer nothing of the kind", "done"]):
        begin()
        for action in words:
            *_, info = env.step(action)
        assert info["won"] == (words == ["infeasible"] and isinstance(effects[0], Infeasible)), words
    for wrong in wrong_params(params):
        begin()
        if isinstance(effects[0], Infeasible):
            continue
        seen, info = play(env, wrong)
        assert not info["won"], (wrong, seen)
    for name, extra in EXTRAS.items():
        begin()
        extra(DirectDevice(phone))
        _, info = play(env)
        assert not info["won"], name
    if isinstance(effects[0], Answer):
        begin()
        for action in (f"answer {effects[0].value}", "done"):
            *_, info = env.step(action)
        assert info["won"]
    env.close()


@pytest.mark.parametrize("template", ["StockDeleteContact", "StockChangeNumber", "StockDeleteFile", "StockMoveFile"])
def test_the_right_deed_on_the_wrong_row_fails(template):
    phone = Phone("a device")
    device = DirectDevice(phone)
    add_contact(device, "Quentin Wrongly", "5559998877")
    device.push(b"wrong", "/sdcard/Download/wrong.txt")
    env = direct(template, phone)
    env.reset(options={"task": first_id(template)})
    name = "wrong.txt" if "File" in template else "Quentin Wrongly"
    _, info = play(env, {"name": name})
    assert not info["won"]
    assert info["reasons"]
    env.close()


# Over adb


@pytest.mark.parametrize(
    "template", ["StockBluetooth", "StockAddContact", "StockFindCode", "StockMoveFile", "StockAlarm"]
)
def test_an_episode_is_the_same_over_adb_and_directly(server, template):
    phones = Phone("twin"), Phone("twin")
    plugged = Plugged(phones[1])
    split = "templates" if STOCK_TEMPLATES[template].split == "held_out" else "train"
    envs = [
        direct(template, phones[0]),
        make("turncredit/Android-v0", device=plugged.serial, split=split, connection=QUICK),
    ]
    try:
        starts = [env.reset(options={"task": first_id(template)}) for env in envs]
        assert starts[0] == starts[1]
        runs = [play(env) for env in envs]
        assert runs[0] == runs[1]
        assert runs[0][1]["won"]
    finally:
        for env in envs:
            env.close()
        plugged.close()


def test_a_device_is_listed_seeded_and_seen(plugged):
    env = make("turncredit/Android-v0", device=plugged.serial, connection=QUICK, observation="screen", size=(90, 200))
    names = {task.split("/")[0] for task in env.unwrapped.task_ids(60)}
    assert names == {name for name, one in STOCK_TEMPLATES.items() if one.split == "train"}
    observation, info = env.reset(seed=4)
    assert observation in env.observation_space
    again, info_again = env.reset(seed=4)
    assert again["text"] == observation["text"]
    assert (info["task"], info["state"]) == (info_again["task"], info_again["state"])
    with pytest.raises(EnvError, match="no expert"):
        env.unwrapped.plan()
    with pytest.raises(EnvError, match="cannot be saved"):
        env.unwrapped.snapshot()
    with pytest.raises(EnvError, match="cannot be copied"):
        pickle.dumps(env.unwrapped)
    with pytest.raises(UnknownTask, match="unknown task 'StockNothing/0'"):
        env.reset(options={"task": "StockNothing/0"})
    env.close()


def test_the_state_is_the_screen_and_the_watched_settings(plugged):
    env = make("turncredit/Android-v0", device=plugged.serial, connection=QUICK)
    _, first = env.reset(options={"task": first_id("StockMissingApp")})
    *_, away = env.step("open Settings")
    *_, back = env.step("home")
    assert first["state"] == back["state"] != away["state"]
    with plugged.server.paused() as phone:
        phone.set_setting("airplane_mode_on", "1", "global")
    *_, changed = env.step("home")
    assert changed["state"] != back["state"]
    env.close()


def test_one_environment_at_a_time_drives_a_device(plugged):
    one, other = (make("turncredit/Android-v0", device=plugged.serial, connection=QUICK) for _ in range(2))
    one.reset(seed=0)
    with pytest.raises(EnvError, match="driven by another environment"):
        other.reset(seed=0)
    one.close()
    other.reset(seed=0)
    other.close()


# What goes wrong


def test_a_device_that_is_absent_offline_or_unauthorised_is_named(server):
    with reserved_port() as port:
        for serial, words in (
            ("emulator-9998", "device 'emulator-9998' is not found: `adb devices` lists what is there"),
            (f"127.0.0.1:{port}", "is not found"),
        ):
            env = make("turncredit/Android-v0", device=serial, connection=QUICK)
            with pytest.raises(EnvironmentDied, match=words):
                env.reset(seed=0)
            env.close()


@pytest.mark.parametrize(("state", "hint"), [("unauthorized", "accept the question"), ("offline", "reconnect it")])
def test_a_device_that_is_there_but_not_ready_says_what_to_do(monkeypatch, state, hint):
    from turncredit.tools.android import AdbServerClient

    monkeypatch.setattr(AdbServerClient, "devices", lambda self: {"SER1AL": state})
    env = make("turncredit/Android-v0", device="SER1AL", connection=QUICK)
    with pytest.raises(EnvironmentDied, match=f"device 'SER1AL' is {state}: .*{hint}"):
        env.reset(seed=0)


def test_a_server_that_says_nothing_is_given_up_after_the_timeout(monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        monkeypatch.delenv("ADB_SERVER_SOCKET", raising=False)
        monkeypatch.setenv("ANDROID_ADB_SERVER_PORT", str(silent.getsockname()[1]))
        env = make("turncredit/Android-v0", device="emulator-5554", connection={"timeout": 0.2, "recovery": 0.0})
        with pytest.raises(EnvironmentDied, match="did not answer in time"):
            env.reset(seed=0)


def test_without_adb_the_error_names_the_package(monkeypatch):
    monkeypatch.setenv("PATH", "")
    env = make("turncredit/Android-v0", device="emulator-5554", connection=QUICK)
    with reserved_port() as port:
        monkeypatch.setenv("ANDROID_ADB_SERVER_PORT", str(port))
        with pytest.raises(EnvironmentDied, match="install the package adb"):
            env.reset(seed=0)


def test_an_episode_on_a_lost_device_ends_and_others_go_on(server):
    lost, kept = Plugged(Phone(1)), Plugged(Phone(2))
    envs = [make("turncredit/Android-v0", device=one.serial, connection=QUICK) for one in (lost, kept)]
    for env in envs:
        env.reset(options={"task": first_id("StockBluetooth")})
        env.step("open Settings")
    port, phone = lost.server.port, lost.phone
    lost.close()
    with pytest.raises(EnvironmentDied, match="device"):
        envs[0].step("back")
    with pytest.raises(EnvironmentDied, match="device"):
        envs[0].reset(seed=0)
    _, info = play(envs[1])
    assert info["won"]
    with AdbServer(phone, port) as again:  # it comes back, and the environment with it
        adb("connect", again.serial)
        envs[0].reset(options={"task": first_id("StockBluetooth")})
        assert play(envs[0])[1]["won"]
        envs[0].close()
        adb("disconnect", again.serial)
    envs[1].close()
    kept.close()


def test_a_rollout_keeps_the_error_of_a_lost_device_and_plays_on(server):
    lost, kept = Plugged(Phone(1)), Plugged(Phone(2))
    serials = iter([lost.serial, kept.serial])
    serial = ""

    def make_next() -> Any:
        nonlocal serial
        serial = next(serials, kept.serial)
        return make("turncredit/Android-v0", device=serial, connection=QUICK, task_types=["StockBluetooth"])

    def lose(trajectory: Trajectory) -> None:
        if serial == lost.serial:
            lost.close()

    tasks = [f"StockBluetooth/{i}" for i in range(40) if split_of(STOCK_TEMPLATES["StockBluetooth"], i) == "train"][:4]
    try:
        groups = rollout(Agent(), Random(), tasks, make=make_next, concurrency=1, on_finish=lose)
        stops = [trajectory.stop for group in groups for trajectory in group.trajectories]
        errors = [str(one.error) for group in groups for one in group.trajectories if one.stop == "error"]
        assert 1 <= len(errors) < len(stops)
        assert all("device" in error for error in errors)
        assert stops[-1] != "error"
    finally:
        kept.close()


def test_a_device_that_refuses_a_text_goes_on(monkeypatch, plugged):
    from turncredit.tools.android import AdbDevice, DeviceError

    def refuse(self: AdbDevice, text: str) -> None:
        raise DeviceError(f"{self.serial} cannot type\n{text!r}")

    env = make("turncredit/Android-v0", device=plugged.serial, connection=QUICK)
    env.reset(options={"task": first_id("StockAddContact")})
    env.step("open Contacts")
    monkeypatch.setattr(AdbDevice, "type_text", refuse)
    observation, _, terminated, _, info = env.step("type 1 \U0001f600")
    assert observation.startswith("Invalid action: ")
    assert "cannot type" in observation.splitlines()[0]
    assert (info["valid"], terminated) == (False, False)
    env.close()


def test_a_device_that_shows_less_does_less():
    class Closed(DirectDevice):
        """A device that shows neither contacts nor messages, and takes no calls into its log."""

        def shell(self, command: str) -> str:
            if "content://com.android.contacts" in command or "content://sms" in command:
                return "Error while accessing provider: java.lang.SecurityException: Permission Denial"
            return "" if "content insert" in command else super().shell(command)

    phone = Phone("closed")
    env = AndroidEnv(device="closed")
    env._source = StockTasks("closed", connect=lambda: Closed(phone))
    names = {task.split("/")[0] for task in env.task_ids(80)}
    assert "StockBluetooth" in names
    assert not any(set(STOCK_TEMPLATES[name].needs) & {"contacts", "messages"} for name in names)
    with pytest.raises(UnknownTask, match="cannot do 'StockAddContact/0', which needs contacts"):
        env.reset(options={"task": first_id("StockAddContact")})
    with pytest.raises(EnvError, match=r"cannot be prepared: .* does not take new calls without root"):
        env.reset(options={"task": first_id("StockMissedCall")})
    assert "StockMissedCall" in names
    assert not any(task.startswith("StockMissedCall") for task in env.task_ids(80))
    env.reset(options={"task": first_id("StockBluetooth")})
    env.close()


def test_wrong_arguments_are_named():
    for bad, words in (
        ({"device": ""}, "serial"),
        ({"device": 5}, "serial"),
        ({"device": "x", "injections": 0.5}, "simulated phones alone"),
        ({"device": "x", "split": "apps"}, "no task template of a device fits"),
        ({"device": "x", "apps": ["Music"]}, "app of a device"),
        ({"device": "x", "task_types": ["ContactsAdd"]}, "task type of a device"),
        ({"device": "x", "connection": {"settle": 1}}, "option of a connection"),
        ({"device": "x", "connection": {"recovery": "soon"}}, "must be a number"),
        ({"connection": {"recovery": 1}}, "goes with a device"),
    ):
        with pytest.raises(UnknownOption, match=words):
            make("turncredit/Android-v0", **bad)


def test_every_watched_setting_is_read_and_restored():
    device = DirectDevice(Phone(0))
    shown = observe(device, ()).settings
    assert {(one.namespace, one.name) for one in SETTINGS} == {(a, b) for a, names in shown.items() for b in names}
    assert all(value for names in shown.values() for value in names.values())


def test_texts_of_any_kind_are_read_as_one_row():
    phone = Phone(0)
    device = DirectDevice(phone)
    body = "Hi, body=x, type=2\nRow: next, address=1\n\nlast \U0001f600"
    phone.tables("org.turncredit.messages").insert("sms", address="+1 555 0100", body=body, date=1, type=1)
    rows = shown_rows(device, "messages").values()
    assert {"address": "+1 555 0100", "body": body, "type": "1"} in [dict(row) for row in rows]
    assert len(rows) == len(phone.tables("org.turncredit.messages").rows("sms"))
