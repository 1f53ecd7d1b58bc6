"""The door of an output folder: its lock, file systems without locks, a folder that is gone, and links in it."""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
from pathlib import Path

import pytest

from turncredit.agents.errors import FolderInUse, StoreError
from turncredit.agents.files.folder_lock import check_lock, locked, require_plain_files


@pytest.mark.parametrize("number", [errno.ENOLCK, errno.EOPNOTSUPP, errno.EIO])
def test_a_file_system_without_locks_is_not_another_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(fcntl, "flock", refuse)
    with pytest.raises(StoreError, match=rf"cannot be locked: {os.strerror(number)}; .* local disk") as raised:
        locked(tmp_path / "run", "training in").__enter__()
    assert not isinstance(raised.value, FolderInUse)


@pytest.mark.parametrize("harm", ["deleted", "moved", "replaced"])
def test_a_folder_that_is_gone_is_noticed(tmp_path: Path, harm: str) -> None:
    folder = tmp_path / "run"
    with locked(folder, "training in"):
        check_lock(folder)
        if harm == "deleted":
            shutil.rmtree(folder)
        else:
            folder.rename(tmp_path / "elsewhere")
        if harm == "replaced":
            shutil.copytree(tmp_path / "elsewhere", folder)
        with pytest.raises(StoreError, match="was deleted, moved or replaced while this process wrote into it"):
            check_lock(folder)
    check_lock(folder)  # it is not locked any more


def test_a_folder_of_another_name_is_the_same_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with locked(Path("run"), "training in"):
        shutil.rmtree("run")
        with pytest.raises(StoreError, match="was deleted"):
            check_lock(tmp_path / "run")


PLACES = [
    "metrics.jsonl",
    ".lock",
    "commands.txt",
    "after.json",
    ".after.json.part",
    "trajectories",
    "checkpoints/000001",
]


@pytest.mark.parametrize("place", PLACES)
def test_nothing_is_written_into_a_folder_with_a_link(tmp_path: Path, place: str) -> None:
    outside, folder = tmp_path / "mine", tmp_path / "run"
    outside.write_text("mine\n", encoding="utf-8")
    (folder / place).parent.mkdir(parents=True)
    (folder / place).symlink_to(outside)
    with pytest.raises(StoreError, match=rf"{place} is a link; the files of an output folder are files"):
        locked(folder, "training in").__enter__()
    assert outside.read_text(encoding="utf-8") == "mine\n"
    (folder / place).unlink()
    with locked(folder, "training in"):
        pass


def test_a_link_to_a_folder_and_one_to_nothing_are_refused(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    for target in (tmp_path / "elsewhere", tmp_path / "nothing"):
        folder = tmp_path / target.name / "run"
        folder.mkdir(parents=True)
        (folder / "trajectories").symlink_to(target)
        with pytest.raises(StoreError, match="trajectories is a link"):
            require_plain_files(folder)


def test_a_pipe_is_refused_without_waiting_for_a_writer(tmp_path: Path) -> None:
    for place in (".lock", "metrics.jsonl"):
        folder = tmp_path / place.strip(".")
        folder.mkdir()
        os.mkfifo(folder / place)
        with pytest.raises(StoreError, match=rf"{place} is a pipe"):
            locked(folder, "training in").__enter__()


def test_the_folder_itself_may_be_a_link_and_loggers_may_make_some_inside(tmp_path: Path) -> None:
    (tmp_path / "disk" / "wandb" / "run-1").mkdir(parents=True)
    (tmp_path / "disk" / "wandb" / "latest-run").symlink_to("run-1")
    (tmp_path / "run").symlink_to(tmp_path / "disk")
    with locked(tmp_path / "run", "training in"):
        pass
    (tmp_path / "disk" / "wandb" / "debug.log").symlink_to(tmp_path / "mine")
    with pytest.raises(StoreError, match=r"debug\.log is a link"):
        locked(tmp_path / "run", "training in").__enter__()
