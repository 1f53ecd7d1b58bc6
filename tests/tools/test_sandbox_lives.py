"""Nothing is left behind after many runs, many boxes, and deaths of the processes involved."""

import os
import signal
import subprocess
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest
from toys.processes import processes, read_all
from toys.sandboxes import ALL, LIMITS, LOCAL, box_of, needed
from toys.waiting import eventually

from turncredit.tools.sandbox import BoxLost, SandboxError, start
from turncredit.tools.sandbox.fork_client import ForkServerClient

pytestmark = pytest.mark.waits


def box_processes() -> set[int]:
    """The processes below our fork_server: what runs in boxes, and what lost its parent there."""
    parents = {pid: int(stat.rpartition(b")")[2].split()[1]) for pid, stat in read_all("stat")}
    found = {fork_server()}
    while more := {pid for pid, parent in parents.items() if parent in found} - found:
        found |= more
    return found - {fork_server()}


def traces() -> Counter[str]:
    """What a box could leave behind on this machine: mounts, cgroups, open files here and in the fork_server."""
    mounts = Path("/proc/self/mountinfo").read_text().splitlines()
    return Counter(
        [line for line in mounts if "turncredit" in line or (" /sys rw,nosuid,nodev " in line and "tmpfs" in line)]
        + [
            str(path)
            for top in ("memory", "")
            for path in Path("/sys/fs/cgroup", top).glob(f"turncredit-{fork_server()}-*")
        ]
        + [f"descriptor {what}" for what in open_files("self")]
        + [f"descriptor of the fork_server {what}" for what in open_files(fork_server())]
    )


def open_files(process: int | str) -> list[str]:
    """What a process has open: a pipe and a socket by its number, a file by its path."""
    found = []
    with suppress(PermissionError):
        for path in Path(f"/proc/{process}/fd").iterdir():
            with suppress(FileNotFoundError):  # closed since, as the one that lists them is
                found.append(os.readlink(path))
    return found


def fork_server() -> int:
    return ForkServerClient.get().process.pid


@pytest.mark.parametrize("backend", LOCAL)
def test_a_hundred_runs_leave_nothing(backend: str) -> None:
    box_of(backend).close()
    processes, before = box_processes(), traces()
    with box_of(backend) as box, box.session() as session:
        places = {box.path}  # type: ignore[attr-defined]
        for number in range(80):
            assert box.run(["sh", "-c", f"echo {number} > file; sleep 3000 >/dev/null 2>&1 &"]).code == 0
            session.run(f"x = {number}")
    for number in range(20):
        with box_of(backend) as box:
            places.add(box.path)  # type: ignore[attr-defined]
            assert box.run(["sh", "-c", f"echo {number}"]).stdout == f"{number}\n"
    # the last pipe is closed a moment later; what earlier tests left to be collected may go meanwhile
    assert eventually(lambda: not traces() - before), traces() - before
    assert [place for place in places if place != "/sys" and Path(place).exists()] == []
    assert eventually(lambda: not box_processes() - processes), box_processes() - processes


def test_a_hundred_runs_leave_no_container() -> None:
    from turncredit.tools.sandbox.containers import connect

    needed("docker")
    api = connect().api
    mine = {"label": f"turncredit.sandbox={os.getpid()}"}
    before = {one["Id"] for one in api.containers(all=True, filters=mine)}
    with box_of("docker") as box:
        for _ in range(95):
            assert box.run(["sh", "-c", "sleep 3000 >/dev/null 2>&1 &"]).code == 0
        assert box.counters.read()["processes"] <= 3  # type: ignore[attr-defined]
    for number in range(5):
        with box_of("docker") as box:
            assert box.run(["echo", str(number)]).stdout == f"{number}\n"
    assert eventually(lambda: {one["Id"] for one in api.containers(all=True, filters=mine)} <= before)


def test_sixty_four_boxes_at_once() -> None:
    boxes = [box_of("bwrap", wall=300) for _ in range(64)]
    try:
        assert len({box.uid for box in boxes}) == (64 if os.geteuid() == 0 else 1)  # type: ignore[attr-defined]
        with ThreadPoolExecutor(64) as pool:
            said = list(
                pool.map(
                    lambda pair: pair[1].run(["sh", "-c", f"echo {pair[0]} | tee mine"], timeout=300), enumerate(boxes)
                )
            )
        assert [result.stdout for result in said] == [f"{number}\n" for number in range(64)]
        assert [box.get("mine") for box in boxes] == [f"{number}\n".encode() for number in range(64)]
    finally:
        for box in boxes:
            box.close()


@pytest.mark.parametrize("backend", ALL)
def test_a_box_survives_its_neighbours_death(backend: str) -> None:
    with box_of(backend) as box, box.session() as session:
        session.run("x = 1")
        neighbour, long = box_of(backend, wall=600), moment(backend)
        with ThreadPoolExecutor(1) as pool:
            running = pool.submit(neighbour.run, ["sleep", long])
            assert eventually(lambda: bool(sleepers(long)))
            neighbour.close()
            with suppress(BoxLost):  # Docker: the container went under the run
                assert running.result(300).stop == "killed"
        assert session.run("x").value == "1"
        assert box.run(["echo", "here"]).stdout == "here\n"


HELPER = """
import sys, time
from turncredit.tools.sandbox import Limits, start
box, long = start(Limits(wall=600), backend=sys.argv[1]), sys.argv[2]
session = box.session()
session.run(f"import subprocess; p = subprocess.Popen(['sleep', '{long}'])")
print(getattr(box, "path", ""), getattr(box, "id", ""), flush=True)
box.run(["sh", "-c", f"setsid sleep {long} & sleep {long}"])
"""


def moment(backend: str) -> str:
    """A time to sleep that no other test sleeps."""
    return f"97531.{os.getpid()}{ALL.index(backend)}"


def sleepers(long: str) -> list[int]:
    return processes(f"sleep\0{long}\0")


@pytest.mark.parametrize("backend", ALL)
def test_boxes_die_with_their_supervisor(backend: str) -> None:
    needed(backend)
    long = moment(backend)
    helper = subprocess.Popen([sys.executable, "-c", HELPER, backend, long], stdout=subprocess.PIPE, text=True)
    try:
        assert helper.stdout is not None
        folder = helper.stdout.readline().split(" ")[0]
        assert eventually(lambda: len(sleepers(long)) >= 3)
    finally:
        helper.send_signal(signal.SIGKILL)
        helper.wait()
    assert eventually(lambda: not sleepers(long)), sleepers(long)
    assert eventually(lambda: not folder.startswith("/tmp") or not Path(folder).exists())


@pytest.mark.parametrize("backend", LOCAL)
def test_a_dead_fork_server_is_reported_and_replaced(backend: str) -> None:
    box, long = box_of(backend, wall=600), moment(backend)
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(box.run, ["sleep", long])
        assert eventually(lambda: bool(sleepers(long)))
        os.kill(fork_server(), signal.SIGKILL)
        with pytest.raises(BoxLost, match="fork server of the sandbox died"):
            running.result(300)
    assert eventually(lambda: not sleepers(long))
    with pytest.raises(BoxLost, match="gone"):
        box.run(["true"])
    box.close()
    assert box.path == "/sys" or not Path(box.path).exists()  # type: ignore[attr-defined]
    with start(LIMITS, backend=backend) as fresh:
        assert fresh.run(["echo", "again"]).stdout == "again\n"


def test_a_garbage_collected_box_is_closed() -> None:
    import gc

    name = box_of("bwrap").name  # type: ignore[attr-defined]
    gc.collect()
    with pytest.raises(SandboxError, match="KeyError"):
        ForkServerClient.get().ask("close", box=name)
