"""A device over adb and a phone in the same process give the same; what is lost is found again, or said."""

from __future__ import annotations

import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from toys.adb_phones import adb, adb_program, adb_server
from toys.ports import reserved_port

from turncredit.phone import Phone
from turncredit.phone.adb import AdbServer
from turncredit.phone.adb.direct_device import DirectDevice
from turncredit.tools.android import (
    AdbDevice,
    AdbServerClient,
    Device,
    DeviceError,
    DeviceLost,
    smart_socket,
    write_xml,
)

pytestmark = pytest.mark.waits


@pytest.fixture(scope="module")
def server():
    with pytest.MonkeyPatch.context() as patch, adb_server(patch) as port:
        yield port


@pytest.fixture
def port(server) -> Iterator[AdbServer]:
    with AdbServer(Phone(5)) as port:
        yield port
        adb("disconnect", port.serial)


def test_a_device_that_sends_without_end_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(smart_socket, "_MOST_BYTES", 100_000)
    ours, theirs = socket.socketpair()
    stream = smart_socket.DeviceStream(ours, time.monotonic() + 60)

    def flood() -> None:
        with suppress(OSError):
            while True:
                theirs.sendall(bytes(10_000))

    thread = threading.Thread(target=flood, daemon=True)
    thread.start()
    with stream, pytest.raises(DeviceError, match="the device sent more than 100,000 bytes"):
        stream.all()
    thread.join(60)
    theirs.close()


@pytest.fixture
def pair(port) -> Iterator[tuple[DirectDevice, AdbDevice]]:
    with AdbDevice(port.serial, settle_pause=0.0) as device:
        yield DirectDevice(Phone(5)), device


POINTS = st.tuples(st.integers(0, 1079), st.integers(0, 2399))
TEXTS = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=12) | st.sampled_from(
    ['O\'Neil & "co"', "50%s off %", "a\nb", "$HOME `id` \\", "-n", "\U0001f600 ß"]
)
INPUTS = st.one_of(
    st.tuples(st.just("tap"), POINTS),
    st.tuples(st.just("tap_element"), st.integers(0, 60)),
    st.tuples(st.just("tap_element"), st.integers(0, 60)),
    st.tuples(st.just("double_tap"), POINTS),
    st.tuples(st.just("long_press"), POINTS),
    st.tuples(st.just("swipe"), POINTS, POINTS),
    st.tuples(st.just("type_text"), TEXTS),
    st.tuples(st.just("key"), st.sampled_from([3, 4, 66, 67, 187, 83])),
    st.tuples(st.just("launch"), st.sampled_from(["com.android.settings", "org.turncredit.contacts/.MainActivity"])),
    st.tuples(st.just("wait"), st.integers(0, 90)),
)


def play(device: Device, action: tuple) -> None:
    name, *args = action
    if name == "tap_element":
        nodes = [node for node in device.dump().walk() if node.clickable]
        if nodes:
            device.tap(*nodes[args[0] % len(nodes)].center)
    elif name in ("tap", "double_tap", "long_press"):
        getattr(device, name)(*args[0])
    else:
        getattr(device, name)(*args)


@settings(
    max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
@given(st.lists(INPUTS, max_size=6))
def test_the_same_inputs_give_the_same_dumps_both_ways(pair, port, actions):
    pair[0].phone.reset()
    with port.paused() as phone:
        phone.reset()
    for action in actions:
        for device in pair:
            play(device, action)
        direct, over_adb = (write_xml(device.dump()) for device in pair)
        assert direct == over_adb
    assert pair[0].size() == pair[1].size()
    assert pair[0].activity() == pair[1].activity()


def test_screenshots_are_equal_pixel_by_pixel(pair):
    pytest.importorskip("PIL")
    for device in pair:
        device.launch("com.android.settings")
    assert np.array_equal(pair[0].screenshot(), pair[1].screenshot())
    assert pair[1].screenshot((270, 600)).shape == (600, 270, 3)


def test_shell_and_files_are_the_same_both_ways(pair):
    for device in pair:
        device.push(b"\0data\xff", "/sdcard/new/file.bin")
        assert device.pull("/sdcard/new/file.bin") == b"\0data\xff"
        assert device.shell("wc -c < /sdcard/new/file.bin; settings get global wifi_on") == "6\n1\n"
        with pytest.raises(DeviceError, match=r"'ls /none' ended with exit code 1: ls: /none: No such file"):
            device.shell("ls /none")
        with pytest.raises(DeviceError, match=r"/sdcard/none: No such file or directory"):
            device.pull("/sdcard/none")
        with pytest.raises(DeviceError, match=r"no\.such"):
            device.launch("no.such.app")
        with pytest.raises(DeviceError, match=r"/system/x: .*Read-only file system"):
            device.push(b"", "/system/x")


def test_settle_waits_until_dumps_are_equal(pair):
    pair[1].settle()
    assert pair[1].dump().find("Clock")


def test_a_device_that_is_lost_comes_back(server):
    with AdbServer(Phone(5)) as port:
        device = AdbDevice(port.serial)
        device.launch("com.android.settings")
        for lose in (port.drop_connections, lambda: adb("disconnect", port.serial)):
            lose()
            assert device.activity() == "com.android.settings/.Settings"
        adb("disconnect", port.serial)


def test_an_input_that_may_have_been_taken_is_not_sent_twice(server):
    """A server that accepts the command and dies before it answers."""
    asked: list[bytes] = []
    listener = socket.create_server(("127.0.0.1", 0))

    def answer() -> None:
        while True:
            try:
                client, _ = listener.accept()
            except OSError:
                return
            with client:
                while size := client.recv(4):
                    service = client.recv(int(size, 16))
                    asked.append(service)
                    if service == b"host:devices":
                        client.sendall(b"OKAY0009x\tdevice\n"[:17])
                        break
                    if service.endswith(b":features"):
                        client.sendall(b"OKAY0008shell_v2")
                        break
                    client.sendall(b"OKAY")
                    if service.startswith(b"shell"):
                        break

    thread = threading.Thread(target=answer, daemon=True)
    thread.start()
    try:
        device = AdbDevice("x", AdbServerClient("127.0.0.1", listener.getsockname()[1]), recovery=0.5)
        with pytest.raises(DeviceLost, match="died"):
            device.tap(1, 2)
        assert [service for service in asked if service.startswith(b"shell")] == [b"shell,v2,raw:input tap 1 2"]
        asked.clear()
        with pytest.raises(DeviceLost, match="died"):
            device.activity()
        assert len([service for service in asked if service.startswith(b"shell")]) > 1
    finally:
        listener.close()


def test_a_device_that_is_absent_is_named_with_what_to_do(server):
    with pytest.raises(DeviceLost, match=r"device 'emulator-9999' is not found: `adb devices` lists what is there"):
        AdbDevice("emulator-9999", recovery=0.0)
    with reserved_port() as port, pytest.raises(DeviceLost, match=r"is not found: .*(failed|cannot|unable)"):
        AdbDevice(f"127.0.0.1:{port}", recovery=0.0)


def test_without_the_program_the_server_cannot_be_started(monkeypatch):
    monkeypatch.setenv("PATH", "")
    missing = "the adb program is missing: install the package adb"
    with reserved_port() as port, pytest.raises(DeviceLost, match=missing):
        AdbDevice("emulator-5554", AdbServerClient(port=port))


@pytest.mark.parametrize(
    ("variable", "port"), [("ADB_SERVER_SOCKET", "tcp:localhost:4999"), ("ANDROID_ADB_SERVER_PORT", "4999")]
)
def test_the_server_is_the_one_that_the_environment_names(monkeypatch, variable, port):
    monkeypatch.delenv("ADB_SERVER_SOCKET", raising=False)
    monkeypatch.setenv(variable, port)
    assert AdbServerClient().port == 4999
    monkeypatch.setenv("ADB_SERVER_SOCKET", "tcp:localhost:http")
    with pytest.raises(DeviceError, match="must be a number, got 'http'"):
        AdbServerClient()


def test_clients_that_start_at_once_start_one_server(monkeypatch, tmp_path):
    monkeypatch.delenv("ADB_SERVER_SOCKET", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    program = adb_program()
    with reserved_port() as port:
        try:
            with ThreadPoolExecutor(16) as pool:
                found = [pool.submit(AdbServerClient(port=port).devices) for _ in range(16)]
                assert all(isinstance(one.result(), dict) for one in found)
        finally:
            subprocess.run([program, "-P", str(port), "kill-server"], capture_output=True, timeout=120, check=False)
