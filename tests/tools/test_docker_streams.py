"""Streams of commands in containers, with a daemon that is played: nothing is lost that arrives with the headers."""

from __future__ import annotations

import socket
import time
from types import SimpleNamespace

import pytest

from turncredit.tools.sandbox.docker_exec import DockerChannel, DockerExec

HEADERS = b"HTTP/1.1 101 UPGRADED\r\nUpgrade: tcp\r\n\r\n"


def frame(stream: int, data: bytes) -> bytes:
    return bytes([stream, 0, 0, 0]) + len(data).to_bytes(4, "big") + data


class Daemon:
    """A daemon whose answer arrives in two pieces: the headers with `early` bytes of the stream, and what remains."""

    def __init__(self, stream: bytes, early: int) -> None:
        self.stream, self.early = stream, early
        self.ours, self.theirs = socket.socketpair()

    def exec_create(self, container: str, argv: list[str], **_: object) -> dict[str, str]:
        return {"Id": "1"}

    def exec_start(self, name: str, socket: bool) -> object:
        self.theirs.sendall(HEADERS + self.stream[: self.early])
        reader = self.ours.makefile("rb")
        while reader.readline().strip():  # as the HTTP client reads the headers
            pass
        self.theirs.sendall(self.stream[self.early :])
        reader.raw._response = SimpleNamespace(raw=SimpleNamespace(_fp=SimpleNamespace(fp=reader)))
        return reader.raw

    def exec_inspect(self, name: str) -> dict[str, int]:
        return {"ExitCode": 0}


STREAM = frame(1, b"12\n") + frame(2, b"warning\n") + frame(1, b"hello ") + frame(1, b"world\n")


@pytest.mark.parametrize("early", range(len(STREAM) + 1))
def test_a_command_has_all_its_output_however_much_comes_with_the_headers(early: int) -> None:
    daemon = Daemon(STREAM, early)
    command = DockerExec(daemon, "c", ["echo"], stdin=False)
    daemon.theirs.close()
    command.run(b"", 1 << 20, time.monotonic() + 60, lambda: None)
    assert (command.text(1), command.text(2)) == (b"12\nhello world\n", b"warning\n")
    command.close()


@pytest.mark.parametrize("early", [0, 3, 8, 10, 11, 12, 40, len(STREAM)])
def test_a_channel_has_all_its_output_however_much_comes_with_the_headers(early: int) -> None:
    daemon = Daemon(STREAM, early)  # which stays open
    channel = DockerChannel(DockerExec(daemon, "c", ["cat"], stdin=True), lambda pid: None, lambda: 0.0)
    assert channel.pid == 12
    text = b""
    while len(text) < len(b"hello world\n"):
        text += channel.receive(time.monotonic() + 60) or b"?" * 100
    assert text == b"hello world\n"
    channel.close()


def test_too_much_output_that_comes_with_the_headers_stops_the_command() -> None:
    daemon = Daemon(frame(1, b"x" * 100), 108)
    command = DockerExec(daemon, "c", ["yes"], stdin=False)
    stopped: list[int] = []
    command.run(b"", 10, time.monotonic() + 60, lambda: stopped.append(1))
    assert (command.stop, command.text(1), stopped) == ("output", b"x" * 10, [1])
