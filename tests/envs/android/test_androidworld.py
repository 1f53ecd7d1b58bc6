"""AndroidWorld's interface: our server and our client, each against the other, over a real socket."""

from __future__ import annotations

import json
import pickle
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from turncredit.envs import EnvError, UnknownOption, UnknownTask, check_env, make
from turncredit.envs.android.actions import ACTION_TYPES
from turncredit.envs.android.androidworld_phones import AndroidWorldPhone, AndroidWorldPhones, Refused
from turncredit.envs.android.androidworld_server import create_app
from turncredit.envs.check import Effort
from turncredit.envs.errors import EnvironmentDied
from turncredit.processes.serving import listen, serve_in_thread, url_of
from turncredit.tools.android.androidworld_client import AndroidWorldClient, RequestRefused
from turncredit.tools.android.device import DeviceError, DeviceLost

for package in ("fastapi", "uvicorn"):
    pytest.importorskip(package, reason="needs the extra `serve`")

ID = "turncredit/AndroidWorld-v0"


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with serve_in_thread(create_app()) as address:
        yield address


@pytest.fixture
def client(url: str) -> Iterator[AndroidWorldClient]:
    with AndroidWorldClient(url) as made:
        yield made


@pytest.fixture
def env(url: str) -> Iterator[Any]:
    made = make(ID, url=url)
    yield made
    made.close()


@pytest.mark.parametrize("format", ["compact", "m3a"])
@pytest.mark.parametrize("kind", ["ContactsAdd", "ClockDeleteAlarm", "ClockCountAlarms"])
def test_an_episode_through_the_server_is_the_direct_environments(url: str, kind: str, format: str) -> None:
    env, direct = make(ID, url=url, format=format), make("turncredit/Android-v0", format=format)
    task = f"{kind}/0"
    shown, info = env.reset(options={"task": task})
    same = AndroidWorldPhone().id_of(kind, 0)
    meant, expected = direct.reset(options={"task": same})
    after = "Your task is to: "
    assert shown.split(after)[1] == meant.split(after)[1]
    for name in ("state", "step_limit", "task_type"):
        assert info[name] == expected[name]
    assert (
        info["admissible_actions"] == expected["admissible_actions"][:-1]
    )  # where Overview is, the server does not say
    assert expected["admissible_actions"][-1].startswith("tap ")
    for action in direct.unwrapped.plan():
        *there, info = env.step(action)
        *here, expected = direct.step(action)
        assert info["valid"], there
        if not here[2]:  # after the end the server's phone is another one
            assert (there, info["state"]) == (here, expected["state"])
    assert there[1:] == [1.0, True, False]
    assert info["won"]
    assert info["score"] == 1.0
    env.close()


def test_done_without_the_work_is_not_won_and_says_why(env: Any) -> None:
    env.reset(options={"task": "ContactsAdd/0"})
    *_, reward, terminated, _, info = env.step("done")
    assert (reward, terminated, info["won"]) == (0.0, True, False)
    assert info["reasons"]


def test_the_environment_keeps_the_contract(url: str) -> None:
    report = check_env(
        ID,
        kwargs={"url": url, "task_types": ["ContactsAdd", "ClockDeleteAlarm"]},
        tasks=1,
        effort=Effort.light(),
        level="runtime",
    )
    assert report.ok, str(report)


def test_every_request_of_the_original_is_answered_in_its_form(client: AndroidWorldClient) -> None:
    client.health()
    names = client.task_list()
    assert client._get("/suite/task_list", "task_list", list, max_index=2) == names[:2]
    assert client._get("/suite/task_list", "task_list", list, max_index=len(names) + 1) == names
    name = names[0]
    assert client.task_length(name) == 2
    client.reinitialize(n_task_combinations=3, seed=7)
    assert client.task_length(name) == 3
    assert "{" in client.template("ContactsAdd", 0)
    client.reset(go_home=True)
    client.initialize("ContactsAdd", 0)
    assert client.goal("ContactsAdd", 0) != client.goal("ContactsAdd", 1)
    assert client.score("ContactsAdd", 0)[0] == 0.0
    client.execute({"action_type": "open_app", "app_name": "Contacts"})
    assert "Create contact" in str(client.dump())
    client.execute({"action_type": "unknown"})
    client.reset(go_home=True)
    assert "Create contact" not in str(client.dump())
    client.tear_down("ContactsAdd", 0)
    with pytest.raises(RequestRefused, match="was not started"):
        client.score("ContactsAdd", 0)
    client.reinitialize(task_family="templates")
    assert not set(names) & set(client.task_list())
    assert client._send("POST", "/close") == {"status": "success"}
    assert client.task_list() == names  # a new phone, with the suite of the start


def test_a_screen_comes_as_numbers_and_as_the_environments_image(url: str) -> None:
    pytest.importorskip("PIL")
    env = make(ID, url=url, observation="screen", size=(108, 240))
    first, _ = env.reset(options={"task": "ContactsAdd/0"})
    assert first in env.observation_space
    phone = AndroidWorldPhone()
    phone.initialize("ContactsAdd", 0)
    pixels = phone._device.screenshot()
    start, end = b'{"pixels":[[[', b"]]]}"
    body = phone.screenshot()
    assert body.startswith(start)
    assert body.endswith(end)
    rows = body[len(start) : -len(end)].split(b"]],[[")
    for row, line in set(zip(rows, (line.tobytes() for line in pixels), strict=True)):  # most rows are alike
        assert json.loads(b"[[" + row + b"]]") == np.frombuffer(line, np.uint8).reshape(-1, 3).tolist()
    blocks = pixels.reshape(240, 10, 108, 10, 3).mean(axis=(1, 3))
    assert np.abs(first["image"] - blocks).max() <= 1.0
    env.close()


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({}, "action_type must be one of"),
        ({"action_type": "fly"}, "action_type must be one of"),
        ({"action_type": "click"}, "needs an index, or x and y"),
        ({"action_type": "click", "index": 1, "x": 2, "y": 3}, "not both"),
        ({"action_type": "click", "index": 4000}, "there is no element 4000"),
        ({"action_type": "click", "x": 9000, "y": 5}, "is not on the screen of 1080 x 2400"),
        ({"action_type": "open_app", "app_name": "Nothing"}, "there is no app 'Nothing'"),
        ({"action_type": "input_text", "text": "a", "press_enter": 1}, "press_enter must be true or false"),
        ({"action_type": "answer", "text": "\ud800"}, "surrogate"),
        ({"action_type": "wait", "keycode": "4"}, "KEYCODE_"),
    ],
)
def test_a_bad_action_is_refused_in_a_sentence_and_changes_nothing(client: Any, fields: Any, sentence: str) -> None:
    client.initialize("ContactsAdd", 0)
    before = client.dump()
    with pytest.raises(RequestRefused, match=sentence) as caught:
        client.execute(fields)
    assert caught.value.status == 400
    assert client.dump() == before


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | st.sampled_from(ACTION_TYPES),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=4,
)
NAMES = ("index", "x", "y", "text", "direction", "goal_status", "app_name", "keycode", "clear_text", "press_enter")


@pytest.fixture(scope="module")
def phone() -> AndroidWorldPhone:
    made = AndroidWorldPhone()
    made.initialize("ContactsAdd", 0)
    return made


@settings(max_examples=80, deadline=None)
@given(st.sampled_from(ACTION_TYPES), st.dictionaries(st.sampled_from(NAMES), VALUES, max_size=4))
def test_any_json_action_is_played_or_refused(phone: AndroidWorldPhone, kind: str, fields: dict[str, Any]) -> None:
    before, refusal = phone.dump(), None
    try:
        phone.execute({"action_type": kind, **fields})
    except Refused as error:
        refusal = error
    assert refusal is None or (refusal.status == 400 and str(refusal) and phone.dump() == before)
    json.dumps(phone.dump())


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("POST", "/reset", b"", 422),
        ("POST", "/reset?go_home=maybe", b"", 422),
        ("GET", "/screenshot", b"", 422),
        ("GET", "/suite/task_list", b"", 422),
        ("GET", "/suite/task_list?max_index=x", b"", 422),
        ("GET", "/suite/task_length?task_type=Nothing", b"", 404),
        ("GET", "/suite/reinitialize?task_family=nothing", b"", 400),
        ("GET", "/suite/reinitialize?n_task_combinations=0", b"", 400),
        ("POST", "/task/initialize?task_type=ContactsAdd&task_idx=9", b"", 404),
        ("POST", "/task/initialize?task_type=ContactsAdd&task_idx=" + "9" * 5000, b"", 422),
        ("POST", "/task/initialize?task_type=ContactsAdd", b"", 422),
        ("POST", "/execute_action", b"", 422),
        ("POST", "/execute_action", b"[]", 422),
        ("POST", "/execute_action", b"[" * 100_000, 422),
        ("POST", "/execute_action", b"\xff\xfe", 422),
        ("POST", "/execute_action", b" " * (1 << 21), 413),
        ("GET", "/nothing", b"", 404),
        ("GET", "/execute_action", b"", 405),
    ],
)
def test_a_bad_request_gets_a_status_and_the_server_goes_on(
    client: Any, method: str, path: str, body: bytes, status: int
) -> None:
    with pytest.raises(DeviceError) as caught:
        client._request(method, path, body or None)
    assert getattr(caught.value, "status", None) == status
    client.health()


@pytest.mark.parametrize("action", ["", "hello", "tap 900", "tap 5000 1", "type 0 text", "open Nothing", "{", "{}"])
def test_invalid_actions_of_an_agent_are_explained(env: Any, action: str) -> None:
    _, before = env.reset(options={"task": "ContactsAdd/0"})
    observation, reward, terminated, _, info = env.step(action)
    assert observation.startswith("Invalid action: ")
    assert (reward, terminated, info["valid"], info["state"]) == (0.0, False, False, before["state"])


def test_clients_at_once_have_phones_of_their_own(url: str) -> None:
    def play(index: int) -> str:
        with AndroidWorldClient(url) as client:
            client.initialize("ContactsAdd", index % 2)
            for _ in range(3):
                client.execute({"action_type": "open_app", "app_name": ["Contacts", "Settings"][index % 2]})
            return str(client.dump()["state"])  # type: ignore[index]

    with ThreadPoolExecutor(6) as pool:
        states = list(pool.map(play, range(6)))
    assert len(set(states)) == 2
    assert states[0::2] == [states[0]] * 3


def test_clients_without_a_session_share_a_phone_and_are_told(url: str) -> None:
    with ExitStack() as stack:
        one, two = (stack.enter_context(AndroidWorldClient(url, session="shared")) for _ in range(2))
        one.initialize("ContactsAdd", 0)
        two.initialize("ContactsAdd", 1)
        with pytest.raises(RequestRefused, match="the phone has the task ContactsAdd 1, not ContactsAdd 0"):
            one.score("ContactsAdd", 0)


def test_no_more_phones_than_allowed_and_the_idle_one_goes_first() -> None:
    now = [0.0]
    phones = AndroidWorldPhones(AndroidWorldPhone, most=2, idle=10, clock=lambda: now[0])
    first, _ = phones.get("a"), phones.get("b")
    with pytest.raises(Refused, match="all 2 phones") as caught:
        phones.get("c")
    assert caught.value.status == 503
    now[0] = 5.0
    assert phones.get("a") is first
    now[0] = 11.0
    phones.get("c")
    assert phones.get("a") is first
    assert len(phones) == 2


def test_a_server_that_dies_ends_the_episode_and_others_go_on(url: str) -> None:
    with serve_in_thread(create_app()) as dying:
        env, other = make(ID, url=dying, timeout=20.0), make(ID, url=url)
        env.unwrapped._client.backoff = 0.0
        for one in (env, other):
            one.reset(options={"task": "ContactsAdd/0"})
            one.step("open Contacts")
    with pytest.raises(EnvironmentDied, match=r"the AndroidWorld server at .* did not answer"):
        env.step("back")
    with pytest.raises(EnvironmentDied):
        env.reset()
    *_, info = other.step("back")
    assert info["valid"]
    env.close()
    other.close()


def test_an_absent_server_is_named_after_several_attempts() -> None:
    opened = listen()
    address = url_of(opened)
    opened.close()
    slept: list[float] = []
    client = AndroidWorldClient(address, backoff=1.0, sleep=slept.append)
    with pytest.raises(DeviceLost, match="after 4 attempts"):
        client.execute({"action_type": "wait"})  # never arrived, so it may be sent again
    assert len(slept) == 3
    assert all(0.5 * 2**i <= seconds <= 2**i for i, seconds in enumerate(slept))


class _Original(BaseHTTPRequestHandler):
    """Answers as a server without /dump would; what it says is `answers`, and `asked` is what it was asked."""

    answers: dict[str, tuple[int, bytes]]
    asked: list[str]

    def _answer(self) -> None:
        path = self.path.partition("?")[0]
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.asked.append(f"{self.command} {path}")
        status, body = self.answers.get(path, (404, b'{"detail":"Not Found"}'))
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_GET = do_POST = do_DELETE = _answer

    def log_message(self, format: str, *args: object) -> None:
        pass


GOOD = {
    "/suite/task_list": (200, b'{"task_list": ["AddNote"]}'),
    "/suite/task_length": (200, b'{"length": 1}'),
    "/reset": (200, b'{"status": "success", "message": ""}'),
    "/task/initialize": (200, b'{"status": "success", "message": ""}'),
    "/task/tear_down": (200, b'{"status": "success", "message": ""}'),
    "/task/goal": (200, b'{"goal": "Write a note."}'),
    "/task/score": (200, b'{"score": 1.0}'),
    "/screenshot": (200, b'{"pixels": [[[1, 2, 3], [4, 5, 6]], [[7, 8, 9], [0, 0, 255]]]}'),
    "/execute_action": (200, b'{"status": "success", "message": ""}'),
}


@pytest.fixture
def original() -> Iterator[tuple[str, type[_Original]]]:
    handler = type("Handler", (_Original,), {"answers": dict(GOOD), "asked": []})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}", handler
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_a_server_with_screenshots_only_is_operated_by_coordinates(original: Any) -> None:
    pytest.importorskip("PIL")
    address, handler = original
    env = make(ID, url=address, observation="screen", size=(16, 16), step_limit=7)
    observation, info = env.reset(seed=1)
    assert "Write a note." in observation["text"]
    assert "2 x 2 pixels" in observation["text"]
    assert observation["image"][0, 0].tolist() == [1, 2, 3]
    assert info["step_limit"] == 7
    assert "admissible_actions" not in info
    observation, *_, info = env.step("tap 3")
    assert "does not list elements" in observation["text"]
    assert not info["valid"]
    assert env.step("tap 1 1")[4]["valid"]
    handler.answers["/execute_action"] = (500, b"Internal Server Error")
    assert not env.step("open Nothing")[4]["valid"]
    handler.answers["/execute_action"] = GOOD["/execute_action"]
    _, reward, terminated, _, info = env.step("done")
    assert (reward, terminated, info["won"]) == (1.0, True, True)
    assert handler.asked.count("POST /task/tear_down") == 1
    assert "POST /close" not in handler.asked
    with pytest.raises(EnvError, match="screenshots only"):
        make(ID, url=address).reset()


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/suite/task_list", b"<html>"),
        ("/suite/task_list", b'{"task_list": [1]}'),
        ("/suite/task_length", b'{"length": "two"}'),
        ("/task/goal", b'{"goal": null}'),
        ("/task/score", b'{"score": 3}'),
        ("/task/score", b'{"score": NaN}'),
        ("/screenshot", b'{"pixels": [[[1, 2]]]}'),
        ("/screenshot", b'{"pixels": [[[1, 2, 300]]]}'),
        ("/screenshot", b'{"pixels": []}'),
        ("/dump", b'{"xml": 5}'),
        ("/dump", b'{"xml": "<hierarchy></hierarchy>", "size": [1, 1], "apps": [], "state": ""}'),
    ],
)
def test_nonsense_ends_the_episode_with_one_sentence(original: Any, path: str, body: bytes) -> None:
    address, handler = original
    handler.answers[path] = (200, body)
    env = make(ID, url=address, observation="screen", size=(16, 16))
    with pytest.raises(EnvError) as caught:
        _play_to_the_end(env)
    assert path in str(caught.value)
    assert "\n" not in str(caught.value)


def _play_to_the_end(env: Any) -> None:
    env.reset()
    env.step("done")


def test_a_lost_answer_is_asked_for_again_but_an_action_is_not_repeated(original: Any) -> None:
    address, handler = original
    client = AndroidWorldClient(address, backoff=0.0)
    handler.answers["/task/goal"] = handler.answers["/execute_action"] = (502, b"")
    with pytest.raises(DeviceLost, match="after 4 attempts: status 502"):
        client.goal("AddNote", 0)
    with pytest.raises(DeviceLost, match="after 1 attempt: status 502"):
        client.execute({"action_type": "wait"})
    assert handler.asked.count("POST /execute_action") == 1


def test_wrong_arguments_and_tasks_are_named(url: str, env: Any) -> None:
    wrong: tuple[dict[str, Any], ...] = (
        {},
        {"url": "phone"},
        {"url": url, "observation": "pixels"},
        {"url": url, "size": 5},
        {"url": url, "timeout": 0},
        {"url": url, "suite": {"sed": 1}},
        {"url": url, "step_limit": 0},
    )
    for arguments in wrong:
        with pytest.raises(UnknownOption):
            make(ID, **arguments)
    for task in ("ContactsAdd/2", "ContactsAdd/-1", "ContactsAdd", "Nothing/0", "ContactsAdd/00"):
        with pytest.raises(UnknownTask):
            env.reset(options={"task": task})
    with pytest.raises(UnknownOption, match="did you mean 'ContactsAdd'"):
        make(ID, url=url, task_types="ContactsAd").reset()
    with pytest.raises(EnvError, match="cannot be copied"):
        pickle.dumps(env.unwrapped)


@pytest.mark.parametrize("points", ["0..1000", {"scale": "0..999", "snap": True}])
@pytest.mark.parametrize("kind", ["ContactsAdd", "ClockAddAlarm", "SettingsSwitch"])
def test_points_lead_through_the_server_as_they_do_directly(url: str, kind: str, points: Any) -> None:
    env, direct = make(ID, url=url, points=points), make("turncredit/Android-v0", points=points)
    shown, info = env.reset(options={"task": f"{kind}/0"})
    assert "X goes from 0 at the left edge to" in shown
    _, expected = direct.reset(options={"task": AndroidWorldPhone().id_of(kind, 0)})
    assert info["admissible_actions"] == expected["admissible_actions"][:-1]
    plan = direct.unwrapped.plan()
    assert len(plan) <= info["step_limit"]
    for action in plan:
        *there, info = env.step(action)
        *here, expected = direct.step(action)
        assert info["valid"], there
        if not here[2]:  # after the end the server's phone is another one
            assert (there, info["state"]) == (here, expected["state"])
    assert info["won"]
    env.close()


def test_a_point_beside_the_scale_is_refused(url: str) -> None:
    env = make(ID, url=url, points="0..1000")
    env.reset(options={"task": "ContactsAdd/0"})
    shown, *_, info = env.step("tap 500 1001")
    assert not info["valid"]
    assert "from 0 to 1000" in shown
    shown, *_, info = env.step("swipe 500 700 500 300")
    assert info["valid"], shown
    with pytest.raises(UnknownOption, match="points"):
        make(ID, url=url, points="0..7")
    env.close()
