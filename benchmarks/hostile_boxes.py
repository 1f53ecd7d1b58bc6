"""Programs that try to make the host hold much memory or compute for long, and what they achieve.

Each case runs a program in a new box with the default limits and then does on the host what an environment does: it
reads the output, and takes a snapshot or calls the session again. Counted is what the process that uses the box and its
fork server spend: the growth of the memory at its peak, and processor time. What the program itself spends is limited
by the box and not counted, and neither is the Docker daemon.
"""

from __future__ import annotations

import ctypes
import gc
import os
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from turncredit.tools.sandbox import Box, Limits, SandboxError
from turncredit.tools.sandbox.fork_client import ForkServerClient

LIMITS: Final = Limits(wall=10)
_FORGE: Final = """
import os, struct
def forge(data):
    for number in range(3, 20):
        try:
            os.write(number, struct.pack("!I", len(data)))
            view = memoryview(data)
            while view:
                view = view[os.write(number, view):]
        except OSError:
            pass
"""


def run(program: str) -> Callable[[Box], None]:
    """Return a case that runs a program and takes a snapshot."""

    def case(box: Box) -> None:
        result = box.run(program, timeout=5)
        _ = result.stdout, result.stderr
        box.restore(box.snapshot())

    return case


def call(program: str) -> Callable[[Box], None]:
    """Return a case that runs a program in a session, and calls the session again."""

    def case(box: Box) -> None:
        with box.session() as session:
            session.run(program, timeout=3)
            session.run("1", timeout=3)

    return case


CASES: Final[dict[str, Callable[[Box], None]]] = {
    "benign run": run("open('a', 'w').write('x' * 1000); print(1)"),
    "benign session": call("x = 1; x"),
    "flood of output": run("import os\nwhile True:\n    os.write(1, b'x' * 65536); os.write(2, b'\\xff' * 65536)"),
    "flood in a session": call("import os\nwhile True:\n    os.write(1, b'x' * 65536)"),
    "flood of answers": call(_FORGE + "while True:\n    forge(b'{\"value\": \"x\"}' * 4000)"),
    "deep answer": call(_FORGE + "forge(b'{\"value\": ' + b'[' * 15_000_000 + b']' * 1_900_000 + b'}')"),
    "wide answer": call(_FORGE + "forge(b'{\"value\": [' + b'{},' * 5_000_000 + b'1]}')"),
    "long value": call("type('V', (), {'__repr__': lambda self: '\\U0001f600' * 10**6})()"),
    "sparse files": run("for n in range(100):\n    open(f'f{n}', 'w').truncate(32 << 20)"),
    "files of holes": run(
        "import os\nfor n in range(50):\n    with open(f'f{n}', 'wb') as file:\n"
        "        for k in range(2000):\n            file.seek(k * 16384); file.write(b'x')"
    ),
    "full disk": run("for n in range(4):\n    open(f'f{n}', 'wb').write(b'x' * (15 << 20))"),
    "hard links": run(
        "import os\nopen('f', 'wb').write(b'x' * (30 << 20))\nfor n in range(3000):\n    os.link('f', f'l{n}')"
    ),
    "many files": run("for n in range(5000):\n    open(f'f{n}', 'w')"),
    "long names": run(
        "import os\nfor n in range(1000):\n    open('\\n' * 200 + f'{n:03}', 'w')\n    os.symlink('y' * 4000, f'l{n}')"
    ),
    "deep folders": run("import os\nfor n in range(3000):\n    os.mkdir('d' * 200); os.chdir('d' * 200)"),
    "times and modes": run(
        "import os\nfor n in range(2000):\n    open(f'f{n}', 'w'); os.chmod(f'f{n}', 0)\n"
        "    try: os.utime(f'f{n}', (-2**62, 2**62))\n    except (OSError, OverflowError): pass"
    ),
    "locks": run(
        "import fcntl, os, struct\nfile = os.open(os.path.realpath('/bin/sh'), os.O_RDONLY)\n"
        "for n in range(200_000):\n    record = struct.pack('hhlliq', fcntl.F_RDLCK, 0, 2 * n, 1, 0, 0)\n"
        "    for command in (fcntl.F_SETLK, 37):\n        try: fcntl.fcntl(file, command, record)\n"
        "        except OSError: pass"
    ),
    "terminals": run("import os, time\nfor n in range(3): os.fork()\nwhile True:\n    try: os.openpty()\n"
                     "    except OSError: time.sleep(0.01)"),
    "timer of a session": call("import signal, time\nsignal.setitimer(signal.ITIMER_REAL, 0); time.sleep(60)"),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class HostCost:
    """What a case cost the host.

    Args:
        memory: growth of the resident memory at its peak, bytes.
        cpu: processor time, seconds.
        wall: seconds.
        outcome: "" or the error that the caller got.
    """

    memory: int
    cpu: float
    wall: float
    outcome: str


def measure(make: Callable[[], Box], case: Callable[[Box], None]) -> HostCost:
    """Return the cost of a case in a new box."""
    make().close()  # the fork server runs, and the back end is known
    server = ForkServerClient.get().process.pid
    gc.collect()
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)
    pids = (os.getpid(), server)
    for pid in pids:
        Path(f"/proc/{pid}/clear_refs").write_text("5")  # resets the peak
    before = [_memory(pid, "VmRSS") for pid in pids]
    cpu, start, outcome = sum(map(_cpu, pids)), time.monotonic(), ""
    with make() as box:
        try:
            case(box)
        except SandboxError as error:
            outcome = type(error).__name__
    growth = sum(max(0, _memory(pid, "VmHWM") - then) for pid, then in zip(pids, before, strict=True))
    return HostCost(growth, sum(map(_cpu, pids)) - cpu, time.monotonic() - start, outcome)


def _memory(pid: int, name: str) -> int:
    lines = Path(f"/proc/{pid}/status").read_text(encoding="ascii", errors="replace").splitlines()
    return 1024 * int(next(line.split()[1] for line in lines if line.startswith(f"{name}:")))


def _cpu(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
