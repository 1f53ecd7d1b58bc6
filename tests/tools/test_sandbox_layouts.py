"""Boxes whose folder lies at a path of its own, with scratch folders beside it."""

from __future__ import annotations

import pytest
from toys.sandboxes import LIMITS, needed

from turncredit.tools.sandbox import BadPath, Box, Layout, UnknownBackend, start

APP = Layout("/app", ("/logs", "/srv/tests"))


def box_at(backend: str, layout: Layout = APP) -> Box:
    needed(backend)
    return start(LIMITS, backend=backend, layout=layout)


@pytest.mark.waits
@pytest.mark.parametrize("backend", ["bwrap", "docker"])
def test_programs_start_in_the_folder_and_write_to_scratch(backend: str) -> None:
    with box_at(backend) as box:
        assert box.folder == "/app"
        box.put("a/in.txt", "in")
        script = "pwd; cat a/in.txt; echo $HOME; mkdir /logs/x; echo out > /logs/x/f; cat /srv/tests/none /logs/x/f"
        result = box.run(["sh", "-c", script])
        assert result.stdout.split() == ["/app", "in/app", "out"]
        assert box.run(["sh", "-c", "cat /logs/x/f"]).stdout == "out\n"  # files persist from run to run
        assert box.run(["sh", "-c", "echo x > /srv/other || echo x > /opt/x"]).code != 0
        assert box.run(["sh", "-c", "echo x > /app/made"]).ok
        assert box.get("made") == b"x\n"


@pytest.mark.waits
@pytest.mark.parametrize("backend", ["bwrap", "docker"])
def test_restoring_empties_scratch_and_keeps_it_out_of_snapshots(backend: str) -> None:
    with box_at(backend) as box:
        box.run(
            ["sh", "-c", "echo a > f; chmod 000 f; mkdir -p /logs/deep/er; echo b > /logs/deep/er/g; echo c > /tmp/h"]
        )
        saved = box.snapshot()
        box.run(["sh", "-c", "rm -f f; echo d > new; chmod 500 /logs/deep"])
        box.restore(saved)
        assert box.run(["sh", "-c", "ls -A . /logs /srv/tests /tmp; echo e > /logs/again"]).stdout.split() == [
            *(".:", "f", "/logs:", "/srv/tests:", "/tmp:"),
        ]
        assert box.snapshot() == saved
    with start(LIMITS, backend="bwrap") as plain:  # snapshots are the same in boxes with another layout
        plain.restore(saved)
        assert plain.run(["sh", "-c", "pwd; ls"]).stdout.split() == ["/work", "f"]


@pytest.mark.parametrize(
    ("folder", "scratch", "sentence"),
    [
        ("app", (), "must be an absolute path"),
        ("/app/", (), "must be an absolute path"),
        ("/", (), "must be an absolute path"),
        ("/app/../etc", (), "must be an absolute path"),
        ("/usr/src/app", (), "/usr is the system's"),
        ("/etc", (), "/etc is the system's"),
        ("/app", ("/app/logs",), "'/app/logs' lies in '/app'"),
        ("/app/work", ("/app",), "'/app/work' lies in '/app'"),
        ("/app", ("/app",), "lies in"),
    ],
)
def test_paths_that_no_box_has_are_refused(folder: str, scratch: tuple[str, ...], sentence: str) -> None:
    with pytest.raises(BadPath) as caught:
        Layout(folder, scratch)
    assert sentence in str(caught.value)


def test_landlock_has_no_layout() -> None:
    with pytest.raises(UnknownBackend, match="landlock mounts nothing"):
        start(LIMITS, backend="landlock", layout=APP)


@pytest.mark.waits
def test_a_folder_that_hides_the_interpreter_is_refused() -> None:
    needed("bwrap")
    with start(LIMITS, backend="bwrap") as box:
        readable = box.config.readable
    for path in readable:
        if not path.startswith("/usr"):
            with pytest.raises(BadPath, match=r"cannot be a folder of a box here|is the system's"):
                start(LIMITS, backend="bwrap", layout=Layout(path.rpartition("/")[0]))
