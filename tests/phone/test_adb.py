"""A phone as the stock adb program sees it, and what its port does with those who are not adb."""

from __future__ import annotations

import concurrent.futures
import io
import socket
import struct

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from toys.adb_phones import Plugged, adb, adb_program, adb_server

from turncredit.phone import App, Context, Phone
from turncredit.phone.adb import AdbServer
from turncredit.phone.adb.console import run_console_line
from turncredit.phone.toolkit.widgets import Screen
from turncredit.processes.serving import PortInUse
from turncredit.tools.android import parse_xml

pytestmark = pytest.mark.waits


@pytest.fixture(scope="module")
def server():
    with pytest.MonkeyPatch.context() as patch, adb_server(patch) as port:
        yield port


@pytest.fixture
def plugged(server):
    found = Plugged(Phone(3))
    yield found
    found.close()


def test_it_is_listed_as_a_device(plugged):
    assert f"{plugged.serial}\tdevice" in adb("devices").stdout.decode()
    assert b"model:Turncredit_One" in adb("devices", "-l").stdout


def test_exit_codes_and_streams_are_kept_apart(plugged):
    done = plugged.adb("shell", "echo out; echo err >&2; exit 7")
    assert (done.stdout, done.stderr, done.returncode) == (b"out\n", b"err\n", 7)
    assert plugged.adb("shell", "-x", "echo one; exit 3").stdout == b"one\n"
    assert plugged.adb("shell", "nope").returncode == 127


def test_standard_input_reaches_a_command(plugged):
    data = bytes(range(256)) * 300
    assert plugged.adb("shell", "cat", data=data).stdout == data
    assert plugged.adb("exec-in", "cat > /sdcard/in", data=data).returncode == 0
    assert plugged.adb("exec-out", "cat /sdcard/in").stdout == data


def test_an_interactive_shell_runs_line_after_line(plugged):
    assert plugged.adb("shell", data=b"cd /sdcard\npwd\nX=5\necho $X\nexit\n").stdout == b"/sdcard\n5\n"


def test_a_dump_a_tap_and_a_text_change_what_is_shown(plugged):
    plugged.shell("am start -W -n org.turncredit.contacts/.MainActivity")

    def tap(text: str) -> None:
        root, _ = parse_xml(plugged.shell("uiautomator dump /dev/tty"))
        x, y = root.find(text).center
        assert plugged.adb("shell", "input", "tap", str(x), str(y)).returncode == 0

    tap("Create contact")
    tap("First name")
    plugged.shell('input text "Grace%sO\'Neil"')
    tap("Save")
    with plugged.server.paused() as phone:
        assert phone.tables("org.turncredit.contacts").get("contacts", 43)["first"] == "Grace O'Neil"


def test_a_screenshot_is_the_screen(plugged):
    image = pytest.importorskip("PIL.Image")
    shown = image.open(io.BytesIO(plugged.adb("exec-out", "screencap -p").stdout))
    assert shown.tobytes() == Phone(3).screenshot().tobytes()


@settings(
    max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
@given(st.binary(max_size=300), st.sampled_from([1, 700, 4000]))
@example(b"", 1)
def test_files_are_pushed_and_pulled_byte_for_byte(plugged, tmp_path, data, times):
    data *= times
    (tmp_path / "there").write_bytes(data)
    target = "/sdcard/new folder/it's a file.bin"
    assert plugged.adb("push", str(tmp_path / "there"), target).returncode == 0
    assert plugged.adb("pull", target, str(tmp_path / "back")).returncode == 0
    assert (tmp_path / "back").read_bytes() == data


def test_folders_are_pushed_listed_and_pulled(plugged, tmp_path):
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "one.txt").write_text("1")
    (tmp_path / "a" / "b" / "two.txt").write_text("2")
    assert plugged.adb("push", str(tmp_path / "a"), "/sdcard/Download/").returncode == 0
    assert (
        plugged.shell("find /sdcard/Download/a -type f") == "/sdcard/Download/a/b/two.txt\n/sdcard/Download/a/one.txt\n"
    )
    assert plugged.adb("pull", "/sdcard/Download/a", str(tmp_path / "c")).returncode == 0
    assert (tmp_path / "c" / "b" / "two.txt").read_text() == "2"
    assert b"one.txt" in plugged.adb("ls", "/sdcard/Download/a").stdout


def test_what_cannot_be_done_is_refused_in_words(plugged, tmp_path):
    (tmp_path / "game.apk").write_bytes(b"PK" * 100_000)
    for flag in ([], ["--no-streaming"]):
        done = plugged.adb("install", *flag, str(tmp_path / "game.apk"))
        assert done.returncode != 0
        assert b"this phone is simulated and cannot run APKs" in done.stdout + done.stderr
    assert b"cannot be removed" in plugged.adb("uninstall", "org.turncredit.contacts").stdout
    assert b"does not reboot" in plugged.adb("reboot").stdout
    missing = plugged.adb("pull", "/sdcard/none", str(tmp_path))
    assert b"No such file or directory" in missing.stdout + missing.stderr
    (tmp_path / "file").write_text("x")
    refused = plugged.adb("push", str(tmp_path / "file"), "/system/file")
    assert b"Read-only file system" in refused.stdout + refused.stderr


def test_ten_phones_are_driven_at_once(server):
    phones = [Plugged(Phone(seed)) for seed in range(10)]
    try:

        def play(plugged: Plugged) -> str:
            plugged.shell("input swipe 540 1800 540 600")
            plugged.shell(f"echo {plugged.serial} > /sdcard/name")
            return plugged.shell(
                "cat /sdcard/name; sqlite3 /data/data/*contacts/databases/contacts.db 'SELECT phone FROM contacts'"
            )

        with concurrent.futures.ThreadPoolExecutor(10) as pool:
            answers = list(pool.map(play, phones))
        for plugged, answer in zip(phones, answers, strict=True):
            assert answer.startswith(plugged.serial + "\n")
        assert len(set(answers)) == 10
    finally:
        for plugged in phones:
            plugged.close()


def test_a_connection_that_dies_leaves_the_phone_as_it_was(plugged):
    plugged.shell("echo kept > /sdcard/kept")
    plugged.server.drop_connections()
    adb("disconnect", plugged.serial)
    adb("connect", plugged.serial)
    assert plugged.shell("cat /sdcard/kept") == "kept\n"


def test_the_console_sends_messages_and_calls():
    heard = []

    def home(ctx: Context) -> Screen:
        return Screen("Messages", [])

    def on_message(ctx: Context, address: str, body: str) -> None:
        heard.append((address, body))

    app = App("test.sms", "Messages", "chat", "#888888", (home,))
    app = App(
        **{name: getattr(app, name) for name in ("package", "name", "icon", "colour", "screens")},
        receivers={"android.provider.Telephony.SMS_RECEIVED": on_message},
    )
    program = adb_program()
    assert program
    with AdbServer(Phone(apps=[app]), console_port=0) as server:
        emulator = f"emulator-{server.console_port}"
        assert adb("-s", emulator, "emu", "sms", "send", "5550142", "see you", "at 5").returncode == 0
        assert b"KO: unknown command" in adb("-s", emulator, "emu", "fold").stdout
        adb("-s", emulator, "emu", "gsm", "call", "5550199")
        with server.paused() as phone:
            assert phone.state.settings["property"]["gsm.call.number"] == "5550199"
    assert heard == [("5550142", "see you at 5")]


@given(st.text(max_size=60))
def test_the_console_answers_whatever_it_is_told(text):
    assert not text.strip() or run_console_line(Phone(1), text.strip()).splitlines()[-1].startswith(("OK", "KO"))


def test_a_port_in_use_is_named():
    with (
        AdbServer(Phone(1)) as server,
        pytest.raises(PortInUse, match=rf"cannot listen on 127.0.0.1 port {server.port}"),
    ):
        AdbServer(Phone(1), server.port)


def test_nothing_is_left_after_closing():
    server = AdbServer(Phone(1), console_port=0)
    server.close()
    server.close()
    for port in (server.port, server.console_port):
        with pytest.raises(OSError):  # noqa: PT011
            socket.create_connection(("127.0.0.1", port), 5).close()


def message(command: bytes, first: int, second: int, data: bytes = b"") -> bytes:
    magic = int.from_bytes(command, "little") ^ 0xFFFFFFFF
    return struct.pack("<4sIIIII", command, first, second, len(data), 0, magic) + data


HELLO = message(b"CNXN", 0x01000001, 1 << 20, b"host::\0")
SERVICES = st.sampled_from(
    [b"shell:id\0", b"shell,v2,raw:cat\0", b"sync:\0", b"tcp:9008\0", b"exec:ls\0", b"shell:\0", b"x"]
)
IDS = st.sampled_from([0, 1, 2, 3, 0xFFFFFFFF])
FILE_REQUESTS = st.tuples(
    st.sampled_from([b"STAT", b"SEND", b"RECV", b"LIST", b"DATA", b"DONE", b"STA2", b"QUIT", b"what"]),
    st.sampled_from([0, 3, 8, 0x7FFFFFFF]),
).map(lambda one: struct.pack("<4sI", *one))
DATA = st.one_of(
    st.binary(max_size=40),
    st.lists(FILE_REQUESTS | st.just(b"/sdcard,33188"), max_size=4).map(b"".join),
    st.just(b"POST /jsonrpc/0 HTTP/1.1\r\nContent-Length: 9\r\n\r\n[1, 2, 3]"),
    st.just(b'POST /jsonrpc/0 HTTP/1.1\r\nContent-Length: 34\r\n\r\n{"method":"objInfo","params":[5]}  '),
)
MESSAGES = st.one_of(
    st.binary(max_size=60),
    st.builds(message, st.just(b"OPEN"), IDS, IDS, SERVICES | DATA),
    st.builds(message, st.just(b"WRTE"), IDS, IDS, DATA),
    st.builds(message, st.sampled_from([b"OKAY", b"CLSE", b"AUTH", b"SYNC", b"CNXN"]), IDS, IDS, DATA),
)


@pytest.fixture(scope="module")
def open_port():
    with AdbServer(Phone(1), console_port=0) as server:
        yield server


@settings(max_examples=150, deadline=None)
@given(st.booleans(), st.lists(MESSAGES, max_size=8))
def test_garbage_on_the_port_harms_nobody(open_port, hello, messages):
    with socket.create_connection(("127.0.0.1", open_port.port), 30) as client:
        client.sendall((HELLO if hello else b"") + b"".join(messages))
    with socket.create_connection(("127.0.0.1", open_port.port), 30) as client:
        client.settimeout(30)
        client.sendall(HELLO + message(b"OPEN", 7, 0, b"shell:echo alive\0"))
        answer = b""
        while b"alive\n" not in answer:
            data = client.recv(65536)
            assert data, answer
            answer += data


@settings(max_examples=30, deadline=None)
@given(st.binary(max_size=100))
def test_garbage_on_the_console_harms_nobody(open_port, data):
    with socket.create_connection(("127.0.0.1", open_port.console_port), 30) as client:
        client.sendall(data)
    with socket.create_connection(("127.0.0.1", open_port.console_port), 30) as client:
        client.settimeout(30)
        client.sendall(b"gsm list\nquit\n")
        assert b"OK" in client.recv(4096)
