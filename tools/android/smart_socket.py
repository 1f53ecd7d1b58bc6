"""A client of the adb server: requests, streams to a device, its shell and its files.

It speaks the server's own protocol, since starting the adb program for each command takes ten times as long. The
program is only needed to start the server.
"""

from __future__ import annotations

import os
import shutil
import socket
import struct
import subprocess
import threading
import time
from dataclasses import dataclass
from typing import Final

from turncredit.tools.android.device import DeviceError, DeviceLost

__all__ = ["AdbServerClient", "CommandOutput", "DeviceStream", "ServiceRefused"]

_PORT: Final = 5037
_START: Final = 5.0  # seconds in which a server that another process starts must answer
_STARTING: Final = threading.Lock()
_CHUNK: Final = 64 << 10
_MOST_BYTES: Final = 1 << 28  # of one stream; a screen is 10 MB
_FRAME: Final = struct.Struct("<BI")
_HEAD: Final = struct.Struct("<4sI")


class ServiceRefused(DeviceLost):
    """The device closed a stream before it was open: nothing was done."""


@dataclass(frozen=True, slots=True)
class CommandOutput:
    """What a command printed, and its exit code."""

    stdout: bytes
    stderr: bytes
    code: int


class DeviceStream:
    """A connection with a deadline for everything that is done on it."""

    def __init__(self, connection: socket.socket, deadline: float) -> None:
        """Take over a connected socket; `deadline` in seconds of time.monotonic."""
        self._connection = connection
        self._deadline = deadline
        self._received = 0

    def _limit(self) -> None:
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise DeviceLost("the device did not answer in time")
        self._connection.settimeout(left)

    def send(self, data: bytes) -> None:
        """Send bytes.

        Raises:
            DeviceLost: nobody takes them in time.
        """
        self._limit()
        try:
            self._connection.sendall(data)
        except OSError as error:
            raise DeviceLost(f"the connection to the device died: {error}") from None

    def receive(self, most: int = _CHUNK) -> bytes:
        """Return what arrives next, b"" at the end.

        Raises:
            DeviceLost: nothing arrives in time.
            DeviceError: it is more than is read of one stream.
        """
        self._limit()
        try:
            data = self._connection.recv(most)
        except TimeoutError:
            raise DeviceLost("the device did not answer in time") from None
        except OSError as error:
            raise DeviceLost(f"the connection to the device died: {error}") from None
        self._received += len(data)
        if self._received > _MOST_BYTES:
            raise DeviceError(f"the device sent more than {_MOST_BYTES:,} bytes, the most that is read")
        return data

    def exactly(self, count: int) -> bytes:
        """Return exactly `count` bytes.

        Raises:
            DeviceLost: the connection ends before.
        """
        pieces = []
        while count:
            data = self.receive(min(count, 1 << 20))
            if not data:
                raise DeviceLost("the connection to the device died")
            pieces.append(data)
            count -= len(data)
        return b"".join(pieces)

    def all(self) -> bytes:
        """Return everything up to the end."""
        return b"".join(iter(self.receive, b""))

    def close(self) -> None:
        """Hang up."""
        self._connection.close()

    def __enter__(self) -> DeviceStream:
        """Return itself."""
        return self

    def __exit__(self, *exception: object) -> None:
        """Hang up."""
        self.close()


class AdbServerClient:
    """The adb server of this machine: $ADB_SERVER_SOCKET (tcp:HOST:PORT), $ANDROID_ADB_SERVER_PORT, or port 5037."""

    def __init__(self, host: str = "", port: int = 0, timeout: float = 30.0) -> None:
        """Remember where it listens; `timeout` in seconds is the deadline of a request."""
        kind, _, where = os.environ.get("ADB_SERVER_SOCKET", "").partition(":")
        set_host, _, set_port = where.rpartition(":") if kind == "tcp" else ("", "", "")
        text = set_port or os.environ.get("ANDROID_ADB_SERVER_PORT", "") or str(_PORT)
        if not text.isdecimal():
            raise DeviceError(f"the port of the adb server must be a number, got {text!r}")
        self.host = host or set_host or "127.0.0.1"
        self.port = port or int(text)
        self.timeout = timeout

    def request(self, service: str) -> str:
        """Return what the server answers, such as the list of `host:devices`."""
        with self._connect() as stream:
            self._ask(stream, service)
            return stream.exactly(self._length(stream)).decode("utf-8", "replace")

    def devices(self) -> dict[str, str]:
        """Return the state of every device that adb lists, by serial: device, offline, unauthorized, ..."""
        lines = self.request("host:devices").splitlines()
        return dict(line.split("\t", 1) for line in lines if "\t" in line)

    def connect_device(self, serial: str) -> str:
        """Let the server connect to HOST:PORT, and return what it says."""
        return self.request(f"host:connect:{serial}")

    def disconnect_device(self, serial: str) -> None:
        """Let the server forget HOST:PORT, if it knows it."""
        try:
            self.request(f"host:disconnect:{serial}")
        except DeviceLost:
            return

    def features(self, serial: str) -> set[str]:
        """Return what a device can do, such as shell_v2."""
        return set(self.request(f"host-serial:{serial}:features").split(","))

    def open(self, serial: str, service: str) -> DeviceStream:
        """Return a stream to a service of a device.

        Raises:
            DeviceLost: the device is not there.
            ServiceRefused: it does not offer the service, or went away at that moment.
        """
        stream = self._connect()
        try:
            self._ask(stream, f"host:transport:{serial}")
            try:
                self._ask(stream, service)
            except DeviceLost as error:
                if "closed" in str(error):
                    raise ServiceRefused(f"{serial} does not offer {service[:60]!r}") from None
                raise
        except BaseException:
            stream.close()
            raise
        return stream

    def _connect(self) -> DeviceStream:
        deadline = time.monotonic() + self.timeout
        for attempt in (1, 2):
            try:
                connection = socket.create_connection((self.host, self.port), self.timeout)
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                return DeviceStream(connection, deadline)
            except OSError as error:
                if attempt == 2 or self.host not in ("127.0.0.1", "localhost"):
                    raise DeviceLost(f"no adb server answers at {self.host}:{self.port}: {error}") from None
                self._start_server()
        raise AssertionError

    def _start_server(self) -> None:
        """Start the server, unless somebody else is doing so: of programs that start at once, all but one fail."""
        program = shutil.which("adb")
        if program is None:
            raise DeviceLost("the adb program is missing: install the package adb, or start an adb server elsewhere")
        with _STARTING:
            if self._answers():
                return
            try:
                subprocess.run(
                    [program, "-P", str(self.port), "start-server"],
                    capture_output=True,
                    timeout=self.timeout,
                    check=True,
                )
            except (subprocess.SubprocessError, OSError) as error:
                deadline = time.monotonic() + min(self.timeout, _START)
                while not self._answers():
                    if time.monotonic() > deadline:
                        raise DeviceLost(f"adb cannot start its server at port {self.port}: {error}") from None
                    time.sleep(0.05)

    def _answers(self) -> bool:
        """Return whether a server listens."""
        try:
            socket.create_connection((self.host, self.port), 1.0).close()
        except OSError:
            return False
        return True

    def _ask(self, stream: DeviceStream, service: str) -> None:
        """Send a request.

        Raises:
            DeviceLost: the server refuses it; the message is the server's.
        """
        data = service.encode("utf-8", "surrogateescape")
        if len(data) > 0xFFFF:
            raise DeviceError(f"a request to adb has at most 65535 bytes, got {len(data)}")
        stream.send(f"{len(data):04x}".encode() + data)
        answer = stream.exactly(4)
        if answer == b"OKAY":
            return
        if answer != b"FAIL":
            raise DeviceError(f"the adb server must answer OKAY or FAIL, got {answer!r}")
        raise DeviceLost(stream.exactly(self._length(stream)).decode("utf-8", "replace"))

    def _length(self, stream: DeviceStream) -> int:
        text = stream.exactly(4)
        try:
            return int(text, 16)
        except ValueError:
            raise DeviceError(f"the adb server must send a length in hex, got {text!r}") from None

    # Services of a device

    def shell(self, serial: str, command: str) -> CommandOutput:
        """Return what a shell command gives, by the second version of the protocol."""
        parts: dict[int, list[bytes]] = {1: [], 2: []}
        with self.open(serial, f"shell,v2,raw:{command}") as stream:
            while True:
                kind, length = _FRAME.unpack(stream.exactly(_FRAME.size))
                data = stream.exactly(length)
                if kind == 3:
                    return CommandOutput(b"".join(parts[1]), b"".join(parts[2]), data[0] if data else 0)
                if kind in parts:
                    parts[kind].append(data)

    def old_shell(self, serial: str, command: str) -> CommandOutput:
        """Return what a shell command gives on a device without the second version: errors are in the output."""
        with self.open(serial, f"shell:{command}\necho :$?") as stream:
            text, _, code = stream.all().replace(b"\r\n", b"\n").rpartition(b":")
        return CommandOutput(text, b"", int(code) if code.strip().isdigit() else 1)

    def output(self, serial: str, command: str) -> bytes:
        """Return the bytes that a command prints, as they are."""
        with self.open(serial, f"exec:{command}") as stream:
            return stream.all()

    def push(self, serial: str, data: bytes, path: str, modified: int) -> None:
        """Write a file; `modified` in seconds since 1970."""
        target = f"{path},33188".encode()
        parts = [_HEAD.pack(b"SEND", len(target)), target]
        for at in range(0, len(data), _CHUNK):
            piece = data[at : at + _CHUNK]
            parts += [_HEAD.pack(b"DATA", len(piece)), piece]
        with self.open(serial, "sync:") as stream:
            stream.send(b"".join(parts) + _HEAD.pack(b"DONE", modified))
            kind, length = _HEAD.unpack(stream.exactly(_HEAD.size))
            if kind != b"OKAY":
                raise DeviceError(f"{path}: {stream.exactly(length).decode('utf-8', 'replace')}")
            stream.send(_HEAD.pack(b"QUIT", 0))

    def pull(self, serial: str, path: str) -> bytes:
        """Return a file."""
        target = path.encode()
        parts: list[bytes] = []
        with self.open(serial, "sync:") as stream:
            stream.send(_HEAD.pack(b"RECV", len(target)) + target)
            while True:
                kind, length = _HEAD.unpack(stream.exactly(_HEAD.size))
                if kind == b"DONE":
                    stream.send(_HEAD.pack(b"QUIT", 0))
                    return b"".join(parts)
                data = stream.exactly(length)
                if kind != b"DATA":
                    raise DeviceError(f"{path}: {data.decode('utf-8', 'replace')}")
                parts.append(data)
