"""The tests of a file-system task that was written as a Harbor folder: compares the files at the end, and the answer.

Runs in the container of the task, beside `file_rules`, with nothing but Python. Beside it lie task.json and the
archives before.tar and after.tar.

    python3 /tests/file_judge.py /work
"""

from __future__ import annotations

import gzip
import io
import json
import os
import stat
import sys
import tarfile
import zlib
from pathlib import Path
from typing import NamedTuple

from turncredit.envs.bash.file_rules import path_is_right, same_answer

MOST = 16 << 20  # bytes of the contents of an archive


class JudgedNode(NamedTuple):
    """A file, folder or symbolic link."""

    kind: str
    mode: int
    data: bytes


def read_folder(root: str) -> dict[str, JudgedNode]:
    """Return the files in a folder by relative path; pipes, sockets and devices are left out."""
    tree = {}
    for folder, folders, names in os.walk(root):
        for name in (*folders, *names):
            path = os.path.join(folder, name)
            about = os.lstat(path)
            key = os.path.relpath(path, root)
            if stat.S_ISLNK(about.st_mode):
                tree[key] = JudgedNode("link", 0o777, os.fsencode(os.readlink(path)))
            elif stat.S_ISDIR(about.st_mode):
                tree[key] = JudgedNode("folder", about.st_mode & 0o777 | 0o700, b"")
            elif stat.S_ISREG(about.st_mode):
                tree[key] = JudgedNode("file", about.st_mode & 0o777, Path(path).read_bytes())
    return tree


def read_tar(data: bytes) -> dict[str, JudgedNode]:
    """Return the files in an archive by path."""
    tree = {}
    with tarfile.open(fileobj=io.BytesIO(data), mode="r:") as archive:
        for member in archive:
            path = member.name.removeprefix("./").rstrip("/")
            if member.isdir():
                tree[path] = JudgedNode("folder", member.mode & 0o777 | 0o700, b"")
            elif member.issym():
                tree[path] = JudgedNode("link", member.mode & 0o777, os.fsencode(member.linkname))
            elif member.isfile() and (file := archive.extractfile(member)):
                tree[path] = JudgedNode("file", member.mode & 0o777, file.read())
    tree.pop(".", None)
    return tree


def archive_files(data: bytes) -> dict[str, bytes] | None:
    """Return the files in a tar archive, gzipped or not; None if the data is not one or holds links."""
    try:
        if data[:2] == b"\x1f\x8b":
            with gzip.open(io.BytesIO(data)) as stream:
                data = stream.read(MOST)
        tree = read_tar(data)
    except (tarfile.TarError, OSError, EOFError, zlib.error):
        return None
    if any(entry.kind == "link" for entry in tree.values()):
        return None
    return {path: entry.data for path, entry in tree.items() if entry.kind == "file"}


def judge(root: str, tests: Path) -> tuple[list[str], bool]:
    """Return the paths that are wrong, and whether the answer is right."""
    task = json.loads((tests / "task.json").read_text(encoding="utf-8"))
    before, after = (read_tar((tests / f"{name}.tar").read_bytes()) for name in ("before", "after"))
    tree = read_folder(root)
    answer_file = task["answer_file"]
    answer = tree.pop(answer_file, None)
    wrong = [
        path
        for path in sorted({*before, *after, *tree})
        if not path_is_right(
            tree.get(path),
            after.get(path),
            before.get(path),
            modes=task["modes"],
            contents=archive_files if path in task["archives"] else None,
        )
    ]
    text = answer.data.decode("utf-8", "replace") if answer is not None else ""
    return wrong, not task["answer"] or same_answer(text, task["answer"])


def main() -> None:
    """Judge the folder that the command names, and write the reward."""
    wrong, answered = judge(sys.argv[1], Path(__file__).resolve().parent)
    sys.stdout.write(
        "".join(f"wrong: {path}\n" for path in wrong) + f"the answer is {'right' if answered else 'wrong'}\n"
    )
    Path("/logs/verifier/reward.txt").write_text("1\n" if answered and not wrong else "0\n", encoding="utf-8")


if __name__ == "__main__":
    main()
