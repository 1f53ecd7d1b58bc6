"""Schemas, actions and observations of OpenEnv servers as text: tables, and laws over what may be sent."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turncredit.envs import UnknownOption, UnknownTask, make
from turncredit.envs.errors import EnvError, EnvironmentDied
from turncredit.envs.openenv import connection
from turncredit.envs.openenv.actions import ActionForm, UnreadableAction
from turncredit.envs.openenv.connection import OpenEnvConnection
from turncredit.envs.openenv.observations import read
from turncredit.envs.openenv.tasks import ServerTasks


def schema(required: list[str], /, **fields: Any) -> dict[str, Any]:
    return {"title": "SomeAction", "properties": {"metadata": {"type": "object"}, **fields}, "required": required}


TEXT = {"type": "string"}
ECHO = ActionForm.of(schema(["message"], message=TEXT))
COLUMN = ActionForm.of(schema(["column"], column={"type": "integer"}))
MOVE = ActionForm.of(
    schema(["move"], move={"$ref": "#/$defs/Move"}) | {"$defs": {"Move": {"enum": ["UP", "DOWN"], "type": "string"}}}
)
PAIR = ActionForm.of(schema(["row", "column"], row={"type": "integer"}, column={"type": "integer"}))
CODE = ActionForm.of(schema(["code"], code=TEXT, seconds={"anyOf": [{"type": "number"}, {"type": "null"}]}))
TOOLS = ActionForm.of(
    {"title": "Action"}, [{"name": "add", "input_schema": {"properties": {"a": {"type": "integer"}}}}]
)


CALL = {"type": "call_tool", "tool_name": "add"}


@pytest.mark.parametrize(
    ("form", "text", "action"),
    [
        (ECHO, "hello", {"message": "hello"}),
        (ECHO, '{"message": "hello"}', {"message": "hello"}),
        (ECHO, '```json\n{"message": "hello"}\n```', {"message": "hello"}),
        (ECHO, '{"other": 1}', {"message": '{"other": 1}'}),
        (ECHO, "7", {"message": "7"}),
        (COLUMN, " 3 ", {"column": 3}),
        (COLUMN, '{"column": 9}', {"column": 9}),
        (MOVE, "UP", {"move": "UP"}),
        (PAIR, '{"row": 1, "column": 2}', {"row": 1, "column": 2}),
        (CODE, "print(1)", {"code": "print(1)"}),
        (CODE, '{"code": "1", "seconds": 2}', {"code": "1", "seconds": 2}),
        (TOOLS, '{"tool_name": "add", "arguments": {"a": 1}}', CALL | {"arguments": {"a": 1}}),
        (TOOLS, '{"name": "add"}', CALL | {"arguments": {}}),
    ],
)  # fmt: skip
def test_a_text_stands_for_an_action(form: ActionForm, text: str, action: dict[str, Any]):
    assert form.parse(text) == action


@pytest.mark.parametrize(
    ("form", "text", "reason"),
    [
        (COLUMN, "left", "column must be of the type integer, got 'left'"),
        (COLUMN, "true", "column must be of the type integer"),
        (PAIR, "3", "An action is a JSON object with these fields"),
        (PAIR, '{"row": 1, "colum": 2}', "no field 'colum'"),
        (TOOLS, "add 1", "the tools are add"),
        (TOOLS, '{"tool_name": "sub"}', "the tools are add"),
    ],
)
def test_a_text_that_is_no_action_says_what_is_expected(form: ActionForm, text: str, reason: str):
    with pytest.raises(UnreadableAction, match=reason):
        form.parse(text)


def test_the_description_names_fields_types_choices_and_tools():
    assert MOVE.choices == ["UP", "DOWN"]
    assert MOVE.describe() == "An action is one of: UP, DOWN."
    assert COLUMN.describe() == "An action is the text of column (integer)."
    assert "- seconds (number, optional)" in CODE.describe()
    assert "add(a: integer)" in TOOLS.describe()


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


@given(value=JSON, text=st.text())
def test_no_schema_and_no_text_raises_anything_but_a_bad_action(value: Any, text: str):
    form = ActionForm.of(value)
    assert isinstance(form.describe(), str)
    for action in (text, json.dumps(value)):
        with suppress(UnreadableAction):
            assert isinstance(form.parse(action), dict)


@given(text=st.text(min_size=1).filter(lambda text: text == text.strip() and not text.startswith("```")))
def test_every_text_without_an_object_reaches_a_server_with_one_text_field(text: str):
    try:
        value = json.loads(text)
    except ValueError:
        value = None
    if not isinstance(value, dict):
        assert ECHO.parse(text) == {"message": text}


@given(data=st.dictionaries(st.sampled_from(["observation", "reward", "done"]), JSON))
def test_every_answer_can_be_read(data: dict[str, Any]):
    reading = read(data)
    assert isinstance(reading.text, str)
    assert isinstance(reading.reward, float)


def test_the_fields_of_an_observation_become_text():
    assert read({"observation": {"stdout": "1\n", "metadata": {}}, "reward": None, "done": False}).text == "1\n"
    both = read({"observation": {"x": 1, "message": "hi", "metadata": {}}, "reward": 0.5, "done": True})
    assert (both.text, both.reward, both.done) == ("x: 1\nmessage: hi", 0.5, True)
    assert read({"observation": {"metadata": {"status": "ready"}}}).text == '{"status": "ready"}'
    board = read({"observation": {"board": [0, 1], "legal_actions": [0, 2]}}, admissible="legal_actions")
    assert (board.text, board.admissible) == ("[0, 1]", ("0", "2"))
    assert read({"observation": {"board": [0], "message": "go"}}, "message").text == "go"
    assert read({"observation": {"stdout": "", "exit_code": 0}}).text == "exit_code: 0"  # a number alone says nothing


def test_tasks_of_tables_and_of_seeds():
    import numpy as np

    tables = ServerTasks(OpenEnvConnection("http://127.0.0.1:9", 1.0), [{"task": "a"}, {"level": 2}], None)
    assert tables.ids(None) == ["a", "reset/000001"]
    assert (tables.arguments("a"), tables.arguments("reset/000001")) == ({"task": "a"}, {"level": 2})
    assert tables.draw(np.random.default_rng(0)) in tables.ids(None)
    with pytest.raises(UnknownTask, match="did you mean"):
        tables.arguments("reset/000002")


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ({}, "needs the url of a server"),
        ({"url": "8000"}, "must be the address of"),
        ({"url": "http://me:secret@127.0.0.1"}, "must not contain a password"),
        ({"url": "http://127.0.0.1:9", "tasks": "a"}, "tasks must be a list of tables"),
        ({"url": "http://127.0.0.1:9", "score": "mean"}, "unknown score 'mean'"),
    ],
)
def test_wrong_arguments_say_what_is_wanted(arguments: dict[str, Any], reason: str):
    with pytest.raises(UnknownOption, match=reason):
        make("turncredit/OpenEnv-v0", **arguments)


def test_a_server_that_is_not_there_is_named():
    env = make("turncredit/OpenEnv-v0", url="http://127.0.0.1:9")
    with pytest.raises(EnvironmentDied, match=r"the OpenEnv server at http://127.0.0.1:9 cannot be reached"):
        env.reset(seed=0)


@contextmanager
def http_server() -> Iterator[tuple[str, list[str]]]:
    """Give the address of a server that answers by path, and the paths that it was asked for."""
    asked: list[str] = []
    over = threading.Event()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            if self.path.startswith("/to/"):
                self.send_response(307)
                self.send_header("Location", {"/to/here": "/schema", "/to/itself": "/to/itself"}.get(
                    self.path, "http://127.0.0.2:1/secret"))  # fmt: skip
                self.end_headers()
                return
            if self.path == "/missing":
                self.send_error(404)
                return
            with suppress(OSError):
                if self.path == "/slow-headers":
                    self.wfile.write(b"HTTP/1.0 200 OK\r\n")
                else:
                    self.send_response(200)
                    self.end_headers()
                if self.path.startswith("/slow"):
                    while not over.wait(0.02):
                        self.wfile.write(b"x")
                elif self.path == "/large":
                    self.wfile.write(b"[" + b" " * 2_000 + b"]")
                else:
                    self.wfile.write(b'{"of": "the schema"}')

        def log_message(self, *_: object) -> None:
            """Keep the terminal quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", asked
    finally:
        over.set()
        server.shutdown()
        server.server_close()


@pytest.mark.waits
def test_the_limits_of_an_answer_hold_for_the_whole_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "_MAX_BYTES", 1_000)
    with http_server() as (url, _):
        client = OpenEnvConnection(url, 0.5)  # a byte comes every 0.02 seconds
        for path in ("slow", "slow-headers"):
            with pytest.raises(EnvError, match=f"did not answer {url}/{path} within 0.5 seconds"):
                client.fetch(path)
        client = OpenEnvConnection(url, 60.0)
        with pytest.raises(EnvError, match="more than 1,000 bytes"):
            client.fetch("large")
        assert client.fetch("missing") is None


@pytest.mark.waits
def test_redirects_stay_on_the_server() -> None:
    with http_server() as (url, asked):
        client = OpenEnvConnection(url, 60.0)
        assert client.fetch("to/here") == {"of": "the schema"}
        with pytest.raises(EnvError, match=r"redirects .*/to/elsewhere to 'http://127\.0\.0\.2:1/secret'; only"):
            client.fetch("to/elsewhere")
        with pytest.raises(EnvError, match="status 307"):
            client.fetch("to/itself")
        assert asked.count("/to/itself") == 4
