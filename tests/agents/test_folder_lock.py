"""The lock of an output folder: who holds it, where there are no locks, and a folder that is gone."""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
from pathlib import Path

import pytest

from turncredit.agents.errors import FolderInUse, StoreError
from turncredit.agents.files.folder_lock import check_lock, locked


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
