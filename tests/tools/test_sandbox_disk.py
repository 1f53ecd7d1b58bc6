"""Disk limits of boxes without a file system of their own, as under landlock on a machine that does not permit one."""

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from toys.sandboxes import ALL, LIMITS, MB, box_of, needed

from turncredit.tools.sandbox import probe
from turncredit.tools.sandbox.disk_watch import unnamed_usage
from turncredit.tools.sandbox.local import LocalBox

pytestmark = pytest.mark.waits

SMALL = LIMITS.but(disk=2 * MB, file_size=1 * MB, wall=60)
UNNAMED = "import os\nfd = os.open('.', os.O_TMPFILE | os.O_RDWR, 0o600); print('OPEN', os.write(fd, b'x'))"
REMOVED = """
import os, time
kept = []
for n in range(60):
    kept.append(open(f"f{n}", "wb", buffering=0)); kept[-1].write(bytes(1 << 19)); os.remove(f"f{n}")
    time.sleep(0.02)
print("wrote", len(kept))
time.sleep(100)
"""
MAPPED = """
import mmap, os, time
kept = []
for n in range(60):
    with open(f"f{n}", "w+b", buffering=0) as file:
        file.write(bytes(1 << 19))
        kept.append(mmap.mmap(file.fileno(), 4096))
    os.remove(f"f{n}")
    time.sleep(0.02)
time.sleep(100)
"""
MANY = "import time\nfor n in range(100000):\n    open(f'{n}', 'w').close()\n    n % 20 or time.sleep(0.01)"
FAST = "for n in range(3000): open(f'f{n}', 'wb').write(bytes(1 << 20))\nimport time; time.sleep(100)"


@pytest.fixture
def box() -> Iterator[LocalBox]:
    needed("landlock")
    config = next(status.config for status in probe() if status.name == "landlock")
    assert config is not None
    with LocalBox(SMALL, replace(config, own_filesystem=False)) as made:
        yield made


@pytest.mark.parametrize("attack", [REMOVED, MAPPED, MANY, FAST], ids=["removed", "mapped", "many", "fast"])
def test_a_run_is_ended_at_the_limit(attack: str, box: LocalBox) -> None:
    if attack is MAPPED and os.geteuid() != 0:
        pytest.skip("only root can look at what is mapped")
    result = box.run(attack)
    assert result.stop == "disk", result
    box.restore(box_of("landlock").snapshot())
    assert box.run("print(1)").stdout == "1\n"


@pytest.mark.parametrize("attack", [REMOVED, MANY, FAST], ids=["removed", "many", "fast"])
@pytest.mark.parametrize("between", [False, True], ids=["during a call", "between calls"])
def test_a_session_is_ended_at_the_limit(attack: str, between: bool, box: LocalBox) -> None:
    with box.session() as session:
        if between:
            code = f"import threading\nthreading.Thread(target=exec, args=({attack!r}, {{}}), daemon=True).start()"
            assert session.run(code).stop in ("exit", "disk")
            attack = "import time; time.sleep(50)"
        result = session.run(attack, timeout=55)
        assert (result.stop, result.restarted) == ("disk", True), result
        box.restore(box_of("landlock").snapshot())
        assert session.run("6 * 7").value == "42"


def test_unnamed_files_are_refused(box: LocalBox) -> None:
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:  # control
        command = [sys.executable, "-c", UNNAMED]
        assert subprocess.run(command, capture_output=True, text=True, check=True, cwd=folder).stdout == "OPEN 1\n"
    assert "OPEN" not in box.run(UNNAMED).stdout
    assert box.run("import tempfile\nwith tempfile.TemporaryFile() as file: print(file.write(b'x'))").stdout == "1\n"


def test_removed_files_are_counted_once(tmp_path: Path) -> None:
    assert unnamed_usage(str(tmp_path), os.getpid()) == 0
    with open(tmp_path / "file", "wb") as file:
        file.write(bytes(1 << 20))
        file.flush()
        os.fsync(file.fileno())
        second = os.dup(file.fileno())
        os.remove(tmp_path / "file")
        assert sum(path.stat().st_size for path in tmp_path.iterdir()) == 0  # control: a look at the folder misses it
        assert unnamed_usage(str(tmp_path), os.getpid()) >= 1 << 20
        assert unnamed_usage(str(tmp_path), os.getpid()) < 2 << 20
        os.close(second)


@pytest.mark.parametrize("backend", ALL)
def test_where_there_is_a_file_system_the_limit_is_exact(backend: str) -> None:
    with box_of(backend, disk=2 * MB, file_size=1 * MB) as box:
        if not getattr(box, "own_filesystem", True):
            pytest.skip("this machine does not permit one")
        empty = box.snapshot()
        for code in (REMOVED, FAST):
            result = box.run(code.replace("time.sleep(100)", "").replace("time.sleep(0.02)", ""))
            assert result.stop == "disk", result
        box.restore(empty)
        with box.session() as session:
            assert "No space left" in session.run(REMOVED.replace("time.sleep(0.02)", ""), timeout=20).error
