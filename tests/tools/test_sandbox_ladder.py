"""What is chosen, what is refused, and what is said about it; as root and as a plain user."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from toys.sandboxes import needed

from turnwise.tools import sandbox
from turnwise.tools.sandbox import (
    BACKENDS,
    BadPath,
    Box,
    DockerUnavailable,
    Limits,
    NoSandbox,
    Result,
    Rung,
    SandboxError,
    UnknownBackend,
    containers,
    ladder,
    probe,
    start,
)


def test_every_back_end_is_told_about_in_words() -> None:
    rungs = probe()
    assert [rung.name for rung in rungs] == ["bwrap", "landlock"]
    assert all(rung.words and "\n" not in rung.words for rung in rungs)
    assert all(rung.holds == (rung.setup is not None) for rung in rungs)
    assert probe() is rungs


def test_the_first_that_holds_is_taken() -> None:
    holding = [rung.name for rung in probe() if rung.holds]
    if not holding:
        pytest.skip("nothing holds here")
    with start(Limits(wall=20)) as box:
        assert box.backend == holding[0]
        assert box.run("print('in')").stdout == "in\n"


def test_where_nothing_holds_nothing_is_run(monkeypatch: pytest.MonkeyPatch) -> None:
    rungs = (Rung("bwrap", False, "bubblewrap is not installed"), Rung("landlock", False, "the kernel has no landlock"))
    monkeypatch.setattr(ladder, "probe", lambda: rungs)
    with pytest.raises(NoSandbox, match=r"nothing is run .*bubblewrap is not installed; landlock: the kernel has no"):
        start()
    with pytest.raises(NoSandbox, match="bubblewrap is not installed"):
        start(backend="bwrap")


def test_an_unknown_back_end_is_named() -> None:
    with pytest.raises(UnknownBackend, match="'chroot'; the choices are 'auto', 'bwrap', 'landlock', 'docker'"):
        start(backend="chroot")
    with pytest.raises(BadPath, match=r"readable names folders .* '/etc/passwd' is none"):
        start(readable=["/etc/passwd"])
    assert BACKENDS == ("bwrap", "landlock", "docker")


class Sieve(Box):
    """A box that holds nothing back: what the trial must find out."""

    backend, python = "sieve", sys.executable

    def _execute(self, argv: list[str], stdin: bytes, seconds: float) -> Result:
        done = subprocess.run(argv, capture_output=True, check=False, cwd="/tmp")
        return Result(done.stdout, done.stderr, done.returncode, "exit", 0.0, 0)

    def _nothing(self, *_: object) -> bytes:
        return b"x"

    _converse = _put = _get = _snapshot = _restore = _close = _nothing  # type: ignore[assignment]


def test_a_trial_finds_out_what_does_not_hold() -> None:
    with pytest.raises(SandboxError, match="not held: it can read files of the host"):
        ladder.trial(lambda: Sieve(Limits()))
    Path("/tmp/proof").unlink(missing_ok=True)


PLAIN_USER = '''
import os, sys
sys.path.insert(0, sys.argv[1])
from turnwise.tools.sandbox import Limits, probe, start

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
FILL = """
import time
for n in range(100):
    open(f"{n}", "wb").write(bytes(1 << 20))
    time.sleep(0.02)
"""
for rung in probe():
    if not rung.holds:
        print("NOT", rung.name, rung.words)
        continue
    assert any("as you" in line for line in rung.weaker), rung
    with start(Limits(wall=20, processes=12, disk=4 << 20), backend=rung.name) as box:
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
            assert result.code == 1 and "Error" in result.stderr, (rung.name, code, result)
        result = box.run(BOMB)
        assert result.stop == "processes" and int(result.stdout.split()[-1]) < 20, (rung.name, result)
        assert box.run(DAEMON).ok
        with box.session() as session:
            assert session.run("6 * 7").value == "42"
        box.restore(box.snapshot())
        stop = box.run(FILL).stop
        assert stop == "disk", (rung.name, stop)
    left = os.popen("ps -u $(id -u) -o args").read()
    assert "86421" not in left, left
    print("HELD", rung.name)
'''


def test_a_plain_user_has_boxes_too() -> None:
    """As a user who is not root: in a copy that this user can read, with a Python that it can run."""
    import tempfile

    needed("bwrap")
    if os.geteuid() != 0:
        pytest.skip("this is a plain user already: the other tests say it")
    python = next((path for path in ("/usr/bin/python3", sys.executable) if _runs(path)), None)
    if python is None:
        pytest.skip("no Python 3.11 or newer that another user could run")
    with tempfile.TemporaryDirectory() as name:
        shutil.copytree(Path(sandbox.__file__).parent.parent, Path(name, "turnwise", "tools"))
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
        timeout=120,
    )


def _runs(python: str) -> bool:
    try:
        return _as_user([python, "-c", "import sys; sys.exit(sys.version_info < (3, 11))"]).returncode == 0
    except OSError:
        return False


def test_docker_without_a_daemon_is_one_sentence(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    pytest.importorskip("docker")
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/no.sock")
    containers.shared.cache_clear()
    with pytest.raises(
        DockerUnavailable, match=r"Docker does not answer at unix://.*no\.sock: start it, or set DOCKER_HOST"
    ):
        start(backend="docker")


def test_docker_without_the_right_or_the_package_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    words = containers._unreachable("('Connection aborted.', PermissionError(13, 'Permission denied'))")
    assert "no right to use it" in words
    monkeypatch.setitem(sys.modules, "docker", None)
    with pytest.raises(DockerUnavailable, match=r"pip install turnwise\[docker\]"):
        containers.sdk()


def test_docker_knows_images_by_name_and_from_folders(tmp_path: Path) -> None:
    needed("docker")
    with pytest.raises(DockerUnavailable, match="no image 'nobody/has-this:1'"):
        start(backend="docker", image="nobody/has-this:1")
    busybox = shutil.which("busybox")
    if busybox is None:
        pytest.skip("busybox is not installed")
    (tmp_path / "bin").mkdir()
    shutil.copy(busybox, tmp_path / "bin" / "busybox")
    for name in ("sh", "cat", "timeout", "tar", "find", "rm", "mkdir", "echo", "kill", "sleep"):
        (tmp_path / "bin" / name).symlink_to("busybox")
    docker = containers.Docker(str(tmp_path), warm=1)
    try:
        docker.fill(Limits(wall=20))
        with docker.start(Limits(wall=20)) as box:
            box.put("a", "from a folder")
            assert box.run(["cat", "a"]).stdout == "from a folder"
            assert box.run("print(1)").code == 127
            name = docker.image
        with containers.Docker(name).start(Limits(wall=20)) as box:
            assert box.run(["echo", "by name"]).stdout == "by name\n"
    finally:
        docker.close()
        docker.client.images.remove(docker.image, force=True)


def test_a_container_that_dies_under_a_run_is_one_sentence() -> None:
    from concurrent.futures import ThreadPoolExecutor

    needed("docker")
    with start(Limits(wall=20), backend="docker") as box, ThreadPoolExecutor(1) as pool:
        running = pool.submit(box.run, "import time\nopen('up', 'w')\ntime.sleep(60)")
        import time

        time.sleep(1)
        box.api.remove_container(box.id, force=True)  # type: ignore[attr-defined]
        with pytest.raises(sandbox.BoxLost, match="container"):
            running.result(30)
        with pytest.raises(sandbox.BoxLost, match=r"container is gone|Docker stopped"):
            box.run("pass")
