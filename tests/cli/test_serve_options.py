"""`turncredit serve shop` and `serve phone`: what cannot be served is refused in one sentence."""

import json
import os
import signal
import socket
import subprocess
import sys
from http.client import HTTPConnection

import pytest

from turncredit.cli.main import app
from turncredit.installation import installation_command

pytestmark = pytest.mark.waits

for package in ("fastapi", "jinja2", "uvicorn"):
    pytest.importorskip(package, reason="needs the extra `serve`")

FILES = "products.json", "attributes.json"


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ((*FILES, "--level", "tiny"), "--level applies to a generated catalogue, but product files are given"),
        ((*FILES, "--split", "train"), "--split applies to a generated catalogue, but product files are given"),
        (("--goals", "human"), "--goals applies to product files, but product files are not given"),
        (FILES, "products.json"),
        ((*FILES, "people.json", "more.json"), "expected at most three files (products, attributes, human), got 4"),
    ],
)
def test_options_without_a_use_are_refused(arguments, sentence, capsys):
    assert app(["serve", "shop", *arguments, "--port", "0"], standalone_mode=False) == 2
    said = capsys.readouterr()
    assert sentence in said.err
    assert said.out == ""
    assert len(said.err.strip().splitlines()) == 1


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("--template", "ClockAddAlram"), "did you mean 'ClockAddAlarm'"),
        (("--app", "Clok"), "unknown app 'Clok'; did you mean 'Clock'"),
        (("--split", "test"), "choose one of: train, instances, templates, apps"),
        (("--template", "ClockAddAlarm", "--split", "apps"), "fits split='apps', task_types=['ClockAddAlarm']; "),
        (("--template", "ClockAddAlarm", "--app", "Browser"), "ClockAddAlarm needs apps=['Clock'] and has tasks in"),
        (("--template", "ClockAddAlarm", "--seed", "5", "--split", "instances"), "belongs to the split 'train'"),
        (("--seed", "-3"), "greater than or equal to 0"),
        (("--seed", "4000000000"), "less than or equal to 1000000000"),
        (("--save", "mine.txt"), "must end in .jsonl"),
        (("--save", "no/such/folder/x.jsonl"), "no/such/folder does not exist"),
        (("--free", "--app", "Clock"), "--app applies to a task, but --free asks for a phone without one"),
        (("--sessions", "3"), "--sessions applies to AndroidWorld's interface: add --androidworld"),
        (("--androidworld", "--adb-port", "5555"), "--adb-port applies to the page"),
        (("--androidworld", "--split", "test"), "choose one of: train, instances, templates, apps"),
    ],
)
def test_a_phone_that_cannot_be_served_is_refused(arguments, sentence, capsys):
    assert app(["serve", "phone", *arguments, "--port", "0"], standalone_mode=False) == 2
    said = capsys.readouterr()
    assert sentence in said.err
    assert said.out == ""
    assert len(said.err.strip().splitlines()) == 1


@pytest.mark.parametrize("option", ["--port", "--adb-port"])
def test_a_port_in_use_is_named(option, capsys):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        words = {"--port": "0", "--adb-port": "0", option: str(taken.getsockname()[1])}
        assert app(["serve", "phone", *(word for pair in words.items() for word in pair)], standalone_mode=False) == 2
        said = capsys.readouterr().err
        assert f"cannot listen on 127.0.0.1 port {words[option]}: Address already in use" in said


@pytest.mark.parametrize("arguments", [("--free",), ("--androidworld",)])
def test_a_phone_is_served_until_ctrl_c(arguments):
    words = [sys.executable, "-m", "turncredit.cli.main", "serve", "phone", "--port", "0", *arguments]
    with subprocess.Popen(
        words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env={**os.environ, "COLUMNS": "200"}
    ) as running:
        assert running.stdout is not None
        port = next(int(line.partition(b"127.0.0.1:")[2].split()[0]) for line in running.stdout if b"http://" in line)
        page = HTTPConnection("127.0.0.1", port, timeout=60)
        page.request("GET", "/events" if "--free" in arguments else "/health")
        answer = page.getresponse()
        first = answer.readline() if "--free" in arguments else answer.read()
        state = json.loads(first.removeprefix(b"data: "))
        assert state.get("task", "none") is None or state["status"] == "success"
        running.send_signal(signal.SIGINT)  # while the page still listens
        out, err = running.communicate(timeout=120)
        page.close()
    assert (running.returncode, err) == (0, b"")
    assert b"closed" in out


def test_a_missing_extra_is_named(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "PIL", None)
    assert app(["serve", "phone", "--free", "--port", "0"], standalone_mode=False) == 2
    assert installation_command("phone") in capsys.readouterr().err
