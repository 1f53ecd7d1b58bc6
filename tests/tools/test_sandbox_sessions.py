"""Hostile sessions: false answers, floods, and limits that code ignores; each becomes a result, never an exception."""

import json
import os
import socket
import struct
import time
from collections.abc import Iterator
from threading import Timer

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from toys.sandboxes import ALL, LIMITS, box_of

from turncredit.tools.sandbox import Box, BoxLost, Limits, PythonSession, SessionResult
from turncredit.tools.sandbox.channel import Channel
from turncredit.tools.sandbox.limits import STOPS, Stop
from turncredit.tools.sandbox.pipes import ProgramPipes

pytestmark = pytest.mark.waits


def frame(data: bytes) -> bytes:
    return struct.pack("!I", len(data)) + data


def answer(**changes: object) -> bytes:
    good = {"value": "", "stdout": "", "stderr": "", "error": "", "stop": "exit", "number": 1}
    return frame(json.dumps({**good, **changes}).encode())


# What a session sends in place of the answer to its first call.
ANSWERS = {
    "deep objects": frame(b'{"a":' * 100_000 + b"1" + b"}" * 100_000),
    "deep arrays": frame(b"[" * 1_000_000),
    "a value that grows": frame(b'{"value":[' + b"{}," * 500_000 + b"{}]}"),
    "a list": frame(b"[]"),
    "a number": frame(b"1"),
    "text for text": answer(value=["x"]),
    "an object for output": answer(stdout={}),
    "a number for an error": answer(error=1),
    "nothing for output": answer(stderr=None),
    "an unhashable reason": answer(stop=[]),
    "infinity": frame(b'{"value":"","number":1e999}'),
    "many digits": frame(b'{"number":' + b"9" * 10_000 + b"}"),
    "another call": answer(number=7),
    "true for the first call": answer(number=True),
    "a fraction for the first call": answer(number=1.0),
    "a long value": answer(value="x" * (LIMITS.output + 1000)),
    "not JSON": frame(b"\xff\xfe\0"),
    "nothing": frame(b""),
    "two answers": answer() + answer(),
    "more than an answer": answer() + b"x",
    "a huge length": b"\xff\xff\xff\xff",
    "half an answer": answer()[:-5],
}
SEND = """
import os, stat
data = {data}
for fd in range(3, 30):
    try: pipe = stat.S_ISFIFO(os.fstat(fd).st_mode) or stat.S_ISSOCK(os.fstat(fd).st_mode)
    except OSError: continue
    if pipe:
        try:
            left = data
            while left: left = left[os.write(fd, left):]
        except OSError: pass
os._exit(0)
"""


class Replayed(Channel):
    """An interpreter that says what it is told to."""

    def __init__(self, said: bytes) -> None:
        self.said = frame(b'{"ready":"x"}')
        self.later = said

    def send(self, data: bytes, deadline: float) -> bool:
        self.said = self.later
        return True

    def receive(self, deadline: float) -> bytes | None:
        part, self.said = self.said[:4096], self.said[4096:]
        return part

    def cpu(self) -> float:
        raise BoxLost("unknown")

    def kill(self, why: Stop = "killed") -> None: ...

    def close(self) -> Stop:
        return "killed"


def replayed(said: bytes) -> SessionResult:
    return PythonSession(lambda _: Replayed(said), ["python3"], LIMITS).run("1")


@pytest.mark.parametrize("name", ANSWERS)
def test_a_false_answer_is_a_lost_session(name: str) -> None:
    result = replayed(ANSWERS[name])
    assert result.restarted
    assert result.stop in ("killed", "output")
    assert result.error.startswith("the interpreter")
    assert (result.value, result.stdout, result.stderr) == ("", "", "")


def test_the_answers_harm_a_reader_without_limits() -> None:
    """Control."""
    with pytest.raises(RecursionError):
        json.loads(ANSWERS["deep objects"][4:])
    with pytest.raises(RecursionError):
        json.loads(ANSWERS["deep arrays"][4:])
    with pytest.raises(TypeError, match="unhashable"):
        assert {}.get(json.loads(ANSWERS["an unhashable reason"][4:])["stop"])
    assert not replayed(answer(value="x")).restarted


pieces = st.sampled_from(
    [answer(), answer(value="x")[:40], frame(b"{}"), b"\0\0\0\2", b'{"value":"x"', b"}", b"[", b"\xff"]
)


@settings(max_examples=300)
@given(st.binary(max_size=80) | st.lists(pieces, max_size=6).map(b"".join))
def test_any_answer_is_a_result(said: bytes) -> None:
    result = replayed(said)
    assert result.stop in STOPS
    assert all(isinstance(text, str) for text in (result.value, result.stdout, result.stderr, result.error))


@pytest.fixture(scope="module", params=ALL)
def box(request: pytest.FixtureRequest) -> Iterator[Box]:
    with box_of(request.param, cpu=1) as made:
        yield made


@pytest.mark.parametrize("name", ["deep objects", "a value that grows", "an unhashable reason", "a huge length"])
def test_code_that_writes_the_answer_itself(name: str, box: Box) -> None:
    with box.session() as session:
        box.put("answer", ANSWERS[name])
        result = session.run(SEND.format(data="open('answer', 'rb').read()"))
        assert result.restarted, result
        assert session.run("6 * 7").value == "42"


FLOODS = {
    "of answers": "data = b'\\0\\0\\0\\1x' * 10_000",
    "of one long answer": "data = b'\\0\\3\\0\\0' + b'x' * 5; rest = b'y'",
    "of empty answers": "data = b'\\0' * 100_000",
}
FLOOD = SEND.replace("os._exit(0)", "").replace(
    "        try:\n            left = data", "        try:\n          for _ in range(10**9):\n            left = data"
)


@pytest.mark.parametrize("flood", FLOODS)
def test_a_flood_of_answers_ends_at_the_deadline(flood: str, box: Box) -> None:
    code = FLOOD.replace("data = {data}", FLOODS[flood]).replace(
        "left = data\n", "left = globals().get('rest', data)\n"
    )
    with box.session() as session:
        begin = time.monotonic()
        result = session.run(
            code.replace("for fd in", "import signal\nsignal.pthread_sigmask(0, [14])\nfor fd in"), 0.6
        )
        assert result.restarted, result
        assert time.monotonic() - begin < 60
        assert session.run("6 * 7").value == "42"


@pytest.mark.parametrize("stream", [1, 2])
def test_a_flood_of_output_ends_the_run(stream: int, box: Box) -> None:
    code = f"import os\ndata = b'x' * 65536\nwhile True: os.write({stream}, data)"
    begin = time.monotonic()
    for _ in range(2):
        result = box.run(code, timeout=0.6)
        assert result.stop in ("output", "timeout"), result
    many = "import os\nfor _ in range(4): os.fork()\n" + code.replace("65536", "1")
    assert box.run(many, timeout=0.6).stop in ("output", "timeout")
    assert time.monotonic() - begin < 60
    assert box.run("print(1)").stdout == "1\n"


def test_a_program_that_a_limit_ends_at_the_deadline_gets_time_to_die() -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours, theirs:
        pipes = ProgramPipes(ours, [-1, -1, -1], b"", 1000)
        pipes.kill("output")  # and before the next look at the clock, the deadline has passed
        Timer(0.1, lambda: theirs.send(b'{"code": 137, "survived": false}')).start()
        assert pipes.run(time.monotonic() - 1)["code"] == 137
        assert (pipes.stop, theirs.recv(16)) == ("output", b"kill")


def test_a_pipe_that_others_go_on_writing_is_not_read_forever() -> None:
    """A session receives the output of a run, keeps it and writes to it when the run has ended."""
    with box_of("bwrap") as box, box.session() as session:
        session.run("""
import array, os, socket, threading
server = socket.socket(socket.AF_UNIX); server.bind("s"); server.listen()
def flood():
    connection, _ = server.accept()
    fd = array.array("i", connection.recvmsg(1, 100)[1][0][2])[0]
    connection.send(b"x")
    while True: os.write(fd, b"y" * 65536)
threading.Thread(target=flood, daemon=True).start()
""")
        code = """
import array, socket
with socket.socket(socket.AF_UNIX) as one:
    one.connect("s")
    one.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [1]))])
    one.recv(1)
"""
        begin = time.monotonic()
        assert box.run(code).stop in ("output", "exit")
        assert time.monotonic() - begin < 60


def test_ending_late_is_a_timeout_whatever_the_code_says(box: Box, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("turncredit.tools.sandbox.session._GRACE", 60.0)
    with box.session() as session:
        session.run("import signal, time\nx = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGALRM})")
        result = session.run("time.sleep(1)\n7", timeout=0.3)
        assert (result.value, result.stop, result.restarted) == ("7", "timeout", False)
        assert result.seconds > 0.3
        result = session.run("time.sleep(0.5); 8", timeout=10)  # control: it was within its limit
        assert (result.value, result.stop) == ("8", "exit")


SPIN = """
import resource, signal, time
signal.signal(signal.SIGXCPU, signal.SIG_IGN)
hard = resource.getrlimit(resource.RLIMIT_CPU)[1]
resource.setrlimit(resource.RLIMIT_CPU, (hard, hard))
begin = time.process_time()
while time.process_time() - begin < 8: pass
"ended"
"""


def test_cpu_time_of_a_call_is_limited_from_outside(box: Box) -> None:
    with box.session() as session:
        result = session.run(SPIN, timeout=100)
        assert (result.stop, result.restarted) == ("cpu", True), result
        result = session.run("begin = __import__('time').process_time()\nwhile True: pass", timeout=100)
        assert (result.stop, result.restarted) == ("cpu", False), result


def test_it_could_be_ignored_from_inside(monkeypatch: pytest.MonkeyPatch) -> None:
    """Control: without the look from outside."""
    monkeypatch.setattr("turncredit.tools.sandbox.pipes.PipeChannel.cpu", lambda self: 0.0)
    with box_of("bwrap", cpu=1) as box, box.session() as session:
        assert session.run(SPIN.replace("< 8", "< 3"), timeout=100).value == "'ended'"


def test_short_limits_of_a_call() -> None:
    """The clock outside decides, at every limit."""
    late = PythonSession(lambda _: Slow(answer(value="1")), ["python3"], Limits())
    result = late.run("1", timeout=0.05)
    assert (result.stop, result.value) == ("timeout", "1")


class Slow(Replayed):
    """An interpreter that answers after the limit, and says that all is well."""

    def receive(self, deadline: float) -> bytes | None:
        if self.said is self.later:
            time.sleep(0.2)
        return super().receive(deadline)


def test_a_closed_session_leaves_no_process() -> None:
    from toys.processes import processes

    word = f"turncredit-session-{os.getpid()}"
    for backend in ALL:
        with box_of(backend) as box:
            with box.session() as session:
                code = f"import subprocess, sys\nfor _ in range(3): subprocess.Popen(['sleep', '500', '{word}'][:2])"
                session.run(
                    code.replace("'sleep', '500'", f"'sh', '-c', 'sleep 500; : {word}'").replace("[:2]", "[:3]")
                )
                deadline = time.monotonic() + 30
                while len(processes(word)) < 3 and time.monotonic() < deadline:  # each is a fork before it is a shell
                    time.sleep(0.05)
                assert len(processes(word)) >= 3
            assert box.run("print(1)").stdout == "1\n"
            assert processes(word) == []
