"""Choice of the back end and its error messages, as root and as an ordinary user."""

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext, suppress
from pathlib import Path

import pytest
from toys.processes import processes
from toys.sandboxes import needed

from turncredit import registry
from turncredit.installation import installation_command
from turncredit.tools import sandbox
from turncredit.tools.sandbox import (
    BACKENDS,
    BackendStatus,
    BadPath,
    Box,
    DockerUnavailable,
    Limits,
    NoSandbox,
    RunResult,
    SandboxError,
    UnknownBackend,
    backends,
    containers,
    probe,
    rootfs,
    start,
)

pytestmark = pytest.mark.waits


def test_every_back_end_has_a_status() -> None:
    statuses = probe()
    assert [status.name for status in statuses] == ["bwrap", "landlock"]
    assert all(status.detail and "\n" not in status.detail for status in statuses)
    assert all(status.works == (status.config is not None) for status in statuses)
    assert probe() is statuses


def test_start_uses_the_first_that_works() -> None:
    holding = [status.name for status in probe() if status.works]
    if not holding:
        pytest.skip("nothing holds here")
    with start(Limits(wall=20)) as box:
        assert box.backend == holding[0]
        assert box.run("print('in')").stdout == "in\n"


def test_without_a_back_end_nothing_is_run(monkeypatch: pytest.MonkeyPatch) -> None:
    reasons = {"bwrap": "bubblewrap is not installed", "landlock": "the kernel has no landlock"}
    statuses = tuple(BackendStatus(name, False, reason) for name, reason in reasons.items())
    monkeypatch.setattr(backends, "probe", lambda: statuses)
    with pytest.raises(NoSandbox, match=r"nothing is run .*bubblewrap is not installed; landlock: the kernel has no"):
        start()
    with pytest.raises(NoSandbox, match="bubblewrap is not installed"):
        start(backend="bwrap")


def test_an_unknown_back_end_is_named() -> None:
    with pytest.raises(UnknownBackend, match="unknown back end 'chroot'; choose one of: auto, bwrap, landlock, docker"):
        start(backend="chroot")
    with pytest.raises(BadPath, match=r"readable must name directories .* got '/etc/passwd'"):
        start(readable=["/etc/passwd"])
    assert BACKENDS == ("bwrap", "landlock", "docker")


def test_unsupported_options_are_refused() -> None:
    for backend in ("auto", "bwrap", "landlock"):
        with pytest.raises(UnknownBackend, match=f"image needs backend='docker', got backend='{backend}'"):
            start(backend=backend, image="python:3.12")
    with pytest.raises(BadPath, match="readable is for 'bwrap' and 'landlock' only"):
        start(backend="docker", readable=["/usr"])


class Sieve(Box):
    """A box that holds nothing back: what the trial must find out."""

    backend, python = "sieve", sys.executable

    def _execute(self, argv: list[str], stdin: bytes, seconds: float) -> RunResult:
        done = subprocess.run(argv, capture_output=True, check=False, cwd="/tmp")
        return RunResult(done.stdout, done.stderr, done.returncode, "exit", 0.0, 0)

    def _nothing(self, *_: object) -> bytes:
        return b"x"

    def _paused(self) -> AbstractContextManager[None]:
        return nullcontext()

    _open_channel = _put = _get = _snapshot = _restore = _kill_programs = _empty_scratch = _close = _nothing  # type: ignore[assignment]


def test_check_isolation_detects_a_missing_sandbox() -> None:
    with pytest.raises(SandboxError, match="not isolated: it can read files of the host"):
        backends.check_isolation(lambda: Sieve(Limits()))
    Path("/tmp/proof").unlink(missing_ok=True)


PLAIN_USER = '''
import io, os, sys, tarfile
sys.path.insert(0, sys.argv[1])
from turncredit.tools.sandbox import Limits, probe, start

BOMB = """
import os, time
n = 0
while True:
    if os.fork() == 0: time.sleep(60)
    n += 1
    print(n, flush=True)
"""
DAEMON = """
import os, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0: os.execlp("sleep", "sleep", "86421")
"""
NEST = """
import os
if os.fork() == 0:
    while True:
        try: os.mkdir("d"); os.chdir("d")
        except OSError: os.chdir(os.environ["HOME"])
"""
FILL = """
import time
for n in range(100):
    open(f"{n}", "wb").write(bytes(1 << 20))
    time.sleep(0.02)
time.sleep(600)
"""
SHUT = """
import os
os.umask(0)
with os.fdopen(os.open("shut", os.O_CREAT | os.O_WRONLY, 0), "w") as file: file.write("kept")
os.mkdir("empty", 0)
os.mkdir("blind", 0o300)
os.mkdir("blind/in", 0o300)
with os.fdopen(os.open("blind/in/file", os.O_CREAT | os.O_WRONLY, 0o200), "w") as file: file.write("seen")
"""
for status in probe():
    if not status.works:
        print("NOT", status.name, status.detail)
        continue
    assert any("as you" in line for line in status.caveats), status
    with start(Limits(wall=20, processes=12, disk=4 << 20), backend=status.name) as box:
        assert box.uid == os.getuid()
        assert box.run("print(1)").stdout == "1\\n"
        box.put("a/b", "x")
        assert box.run("open('c', 'w').write(open('a/b').read())").ok and box.get("c") == b"x"
        home, pid = sys.argv[1], os.getpid()
        for code in (
            f"open('{home}/secret').read()",
            f"open('{home}/new', 'w')",
            f"import os; os.chmod('{home}/secret', 0o777)",
            f"import os; os.kill({pid}, 9)",
            "import socket; socket.create_connection(('127.0.0.1', 9))",
            f"import resource; resource.prlimit({pid}, resource.RLIMIT_CPU, (1, 1))",
        ):
            result = box.run(code)
            assert result.code == 1 and "Error" in result.stderr, (status.name, code, result)
        result = box.run(BOMB)
        assert result.stop == "processes" and int(result.stdout.split()[-1]) < 20, (status.name, result)
        assert box.run(DAEMON).ok
        with box.session() as session:
            assert session.run("6 * 7").value == "42"
        box.restore(box.snapshot())
        before = box.snapshot()
        with box.session() as session:
            assert session.run(NEST).error == ""
            box.restore(before)
        box.restore(before)
        assert box.snapshot() == before
        assert box.run(SHUT).ok
        snapshot = box.snapshot()
        with tarfile.open(fileobj=io.BytesIO(snapshot)) as archive:
            found = {one.name: oct(one.mode) for one in archive}
            assert archive.extractfile("shut").read() == b"kept"
            assert archive.extractfile("blind/in/file").read() == b"seen"
        assert found["shut"] == found["empty"] == "0o0" and found["blind/in/file"] == "0o200", found
        assert found["blind"] == found["blind/in"] == "0o300", found
        for wanted in (snapshot, before, snapshot):
            box.restore(wanted)
            assert box.snapshot() == wanted, status.name
        stop = box.run("import os; os.chdir('blind')" + FILL).stop
        assert stop == "disk", (status.name, stop)
        box.restore(before)
        stop = box.run(FILL).stop
        assert stop == "disk", (status.name, stop)
        box.restore(snapshot)
    assert box.path == "/sys" or not os.path.exists(box.path), box.path
    left = os.popen("ps -u $(id -u) -o args").read()
    assert "86421" not in left, left
    print("HELD", status.name)
'''


def test_boxes_without_root() -> None:
    """As a user who is not root: in a copy that this user can read, with a Python that it can run."""
    import tempfile

    needed("bwrap")
    if os.geteuid() != 0:
        pytest.skip("this is a plain user already: the other tests say it")
    python = next((path for path in ("/usr/bin/python3", sys.executable) if _runs(path)), None)
    if python is None:
        pytest.skip("no Python 3.11 or newer that another user could run")
    with tempfile.TemporaryDirectory() as name:
        shutil.copytree(Path(sandbox.__file__).parent.parent, Path(name, "turncredit", "tools"))
        shutil.copy(registry.__file__, Path(name, "turncredit"))
        Path(name, "secret").write_text("secret")
        for path in [Path(name), *Path(name).rglob("*")]:
            os.chown(path, 4242, 4242)
            path.chmod(0o755 if path.is_dir() else 0o644)
        done = _as_user([python, "-c", PLAIN_USER, name])
        assert Path(name, "secret").read_text() == "secret"
    assert done.returncode == 0, done.stdout + done.stderr
    assert "HELD bwrap" in done.stdout or "NOT bwrap" in done.stdout
    assert done.stdout.count("HELD") >= 1, done.stdout


def _as_user(command: list[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command,
        user=4242,
        group=4242,
        extra_groups=[],
        capture_output=True,
        text=True,
        check=False,
        cwd="/",
        timeout=600,
    )


def _runs(python: str) -> bool:
    try:
        return _as_user([python, "-c", "import sys; sys.exit(sys.version_info < (3, 11))"]).returncode == 0
    except OSError:
        return False


def test_docker_without_a_daemon_is_one_sentence(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    pytest.importorskip("docker")
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/no.sock")
    containers._shared.cache_clear()
    with pytest.raises(
        DockerUnavailable, match=r"Docker does not respond at unix://.*no\.sock; start it, or set DOCKER_HOST"
    ):
        start(backend="docker")


WITHOUT_RIGHTS = """
import os, sys
from turncredit.tools.sandbox import DockerUnavailable, containers
host = os.environ["DOCKER_HOST"]
for name in (host + ".none", host):
    if name == host and os.geteuid() == 0:  # only now: another user may not be able to read this Python
        os.setgroups([])
        os.setresgid(4242, 4242, 4242)
        os.setresuid(4242, 4242, 4242)
    os.environ["DOCKER_HOST"] = name
    try:
        containers.connect()
    except DockerUnavailable as error:
        print(error)
"""


def test_docker_without_permission_is_one_sentence() -> None:
    """A socket that listens, and that a plain user may not open."""
    import socket
    import tempfile

    pytest.importorskip("docker")
    with tempfile.TemporaryDirectory() as name, socket.socket(socket.AF_UNIX) as daemon:
        Path(name).chmod(0o755)
        daemon.bind(f"{name}/sock")
        daemon.listen()
        Path(name, "sock").chmod(0)
        done = subprocess.run(
            [sys.executable, "-c", WITHOUT_RIGHTS],
            env={**os.environ, "DOCKER_HOST": f"unix://{name}/sock"},
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )
        missing, refused = done.stdout.splitlines()
        assert missing == f"Docker does not respond at unix://{name}/sock.none; start it, or set DOCKER_HOST"
        where = f"unix://{name}/sock"
        assert refused == (f"you have no permission to use Docker at {where}; join its group, or ask the administrator")


def test_docker_without_the_package_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "docker", None)
    with pytest.raises(DockerUnavailable, match=re.escape(installation_command("docker"))):
        containers.sdk()


def small_root(folder: Path) -> None:
    """Put into a folder what a container needs at least."""
    busybox = shutil.which("busybox")
    if busybox is None:
        pytest.skip("busybox is not installed")
    (folder / "bin").mkdir()
    shutil.copy(busybox, folder / "bin" / "busybox")
    for name in ("sh", "cat", "timeout", "tar", "find", "rm", "mkdir", "echo", "kill", "sleep"):
        (folder / "bin" / name).symlink_to("busybox")


def test_a_directory_has_the_same_image_in_every_process(tmp_path: Path) -> None:
    needed("docker")
    small_root(tmp_path)
    code = "import sys; from turncredit.tools.sandbox import containers as c; print(c.DockerBackend(sys.argv[1]).image)"

    def named(path: str, seed: str, cwd: str = "/") -> str:
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        command = [sys.executable, "-c", code, path]
        return subprocess.run(command, env=environment, cwd=cwd, capture_output=True, text=True, check=True).stdout

    images = containers.connect().images
    first = named(str(tmp_path), "1").strip()
    try:
        assert named(".", "2", str(tmp_path)).strip() == first
        (tmp_path / "bin" / "new").write_text("x")
        second = containers.DockerBackend(str(tmp_path)).image
        assert second != first
        images.remove(second, force=True)
    finally:
        images.remove(first, force=True)


def test_the_digest_of_a_directory_changes_with_its_content(tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    file = tmp_path / "a" / "b" / "c"
    file.write_text("x")
    os.utime(file, ns=(1, 1))
    seen = [rootfs.digest(tmp_path)]
    assert rootfs.digest(tmp_path) == seen[0]
    for change in (
        lambda: os.utime(file, ns=(1, 2)),
        lambda: (file.write_text("xy"), os.utime(file, ns=(1, 2))),
        lambda: file.chmod(0o700),
        lambda: file.rename(file.with_name("d")),
        lambda: (tmp_path / "a" / "empty").mkdir(),
    ):
        change()
        seen.append(rootfs.digest(tmp_path))
    assert len(set(seen)) == 6
    assert rootfs.digest(tmp_path / "a" / "b" / "d") != rootfs.digest(tmp_path / "a")


def test_docker_images_by_name_and_from_directories(tmp_path: Path) -> None:
    needed("docker")
    with pytest.raises(DockerUnavailable, match="no Docker image, directory or tar file 'nobody/has-this:1'"):
        start(backend="docker", image="nobody/has-this:1")
    small_root(tmp_path)
    docker = containers.DockerBackend(str(tmp_path))
    try:
        with docker.start(Limits(wall=20)) as box:
            box.put("a", "from a folder")
            assert box.run(["cat", "a"]).stdout == "from a folder"
            assert box.run("print(1)").code == 127
            name = docker.image
        with containers.DockerBackend(name).start(Limits(wall=20)) as box:
            assert box.run(["echo", "by name"]).stdout == "by name\n"
    finally:
        docker.client.images.remove(docker.image, force=True)


DAEMON = """
dockerd --data-root $D/data --exec-root $D/exec -p $D/pid -H unix://$D/sock --storage-driver overlay2 \\
    --iptables=false --ip6tables=false --bridge=none >$D/log 2>&1 &
cat >/dev/null
"""


@pytest.fixture
def daemon() -> Iterator[Path]:
    """A daemon of our own, in namespaces that end with their first process, and all of its containers with them."""
    import tempfile

    if os.geteuid() != 0 or not (shutil.which("dockerd") and shutil.which("unshare")):
        pytest.skip("a Docker daemon of our own needs root, dockerd and unshare")
    pytest.importorskip("docker")
    with tempfile.TemporaryDirectory(prefix="turncredit-dockerd-", ignore_cleanup_errors=True) as name:
        shell = subprocess.Popen(
            ["unshare", "-m", "-p", "--fork", "--mount-proc", "--kill-child", "sh", "-c", DAEMON],
            env={**os.environ, "D": name},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        try:
            yield Path(name)
        finally:
            shell.kill()
            shell.communicate()
            for container in Path(name, "data", "containers").glob("*"):  # what the daemon can no longer take away
                for group in list(Path("/sys/fs/cgroup").glob(f"**/docker/{container.name}")):
                    _unmade(group)


def test_a_daemon_that_dies_under_a_run_is_one_sentence(
    daemon: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small_root(tmp_path)
    monkeypatch.setenv("DOCKER_HOST", f"unix://{daemon}/sock")
    until = time.monotonic() + 30
    while True:
        try:
            docker = containers.DockerBackend(str(tmp_path))
            box = docker.start(Limits(wall=600))
            break
        except DockerUnavailable as error:
            if time.monotonic() > until:
                pytest.skip(f"no daemon of our own can be started here: {error}")
            time.sleep(0.1)
    number = (daemon / "pid").read_text()  # as its own namespace counts
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(box.run, ["sh", "-c", "echo up > up; sleep 600"])
        while not running.done() and _lacks(box, "up"):
            time.sleep(0.05)
        os.kill(_outside(number, daemon), signal.SIGKILL)
        begin = time.monotonic()
        with pytest.raises(sandbox.BoxLost, match=r"the container died during the run, or Docker did"):
            running.result(300)
    assert time.monotonic() - begin < 300
    for call in (lambda: box.run(["true"]), lambda: box.put("a", "b"), box.snapshot):
        with pytest.raises(sandbox.BoxLost, match="Docker stopped responding"):
            call()
    box.close()
    with pytest.raises(DockerUnavailable, match="Docker does not respond at unix://"):
        docker.start()


def _unmade(group: Path, seconds: float = 3.0) -> None:
    """Remove a control group as soon as its last process is gone."""
    until = time.monotonic() + seconds
    while group.exists() and time.monotonic() < until:
        with suppress(OSError):
            group.rmdir()
        time.sleep(0.02)


def _lacks(box: Box, path: str) -> bool:
    try:
        box.get(path)
    except BadPath:
        return True
    return False


def _outside(number: str, folder: Path) -> int:
    """Return the process number, here, of the daemon of a folder, which has another one in its own namespace."""
    for pid in processes(f"{folder}/data"):
        with suppress(OSError):
            ids = Path(f"/proc/{pid}/status").read_text().partition("NSpid:")[2].partition("\nNS")[0]
            if f"\t{number}\n" in ids + "\n":
                return pid
    raise AssertionError("the daemon is not there")


def test_a_container_that_dies_under_a_run_is_one_sentence() -> None:
    needed("docker")
    with start(Limits(wall=600), backend="docker") as box, ThreadPoolExecutor(1) as pool:
        running = pool.submit(box.run, "import time\nopen('up', 'w')\ntime.sleep(600)")
        while not running.done() and _lacks(box, "up"):
            time.sleep(0.05)
        box.api.remove_container(box.id, force=True)  # type: ignore[attr-defined]
        with pytest.raises(sandbox.BoxLost, match="container"):
            running.result(300)
        with pytest.raises(sandbox.BoxLost, match=r"container is gone|Docker stopped"):
            box.run("pass")
