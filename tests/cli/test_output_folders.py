"""A law of all commands that write a folder: nothing is written through a link that lies in it.

Each command writes its folder once, while every file and folder that it makes is noted, temporary ones too. Then each
of them is replaced by a link in turn, and the command is called again.
"""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import typer
from toys import corridor
from toys.benchmarks import SUITE
from toys.commands import one_sentence, run_command
from toys.warm_processes import WarmPopen

from turncredit.ablation import process_pool
from turncredit.cli.main import app

FOLDERS = ("DIR", "FOLDER", "OUT", "RUN")
"""Names of values that are folders."""
OPTIONS = ("--output", "--folder")


@dataclass(frozen=True)
class Writer:
    """How a command writes its folder, and how it would write into it again.

    Attributes:
        words: the command with its shortest settings; {folder} and what `files` gives are filled in.
        again: the command that goes on with the folder; empty: the same one.
        needs: a package without which it does not run.
        refusal: part of the message of the second call; commands that take new folders alone say so.
    """

    words: tuple[str, ...]
    again: tuple[str, ...] = ()
    needs: str = "numpy"
    refusal: str = "is a link"


TRAINING = (
    "train.iterations=1",
    "loggers=['tensorboard']",
    "sampling.experience.keep=all",
    "sampling.replay=successes",
)
WRITERS = {
    "demo": Writer(("demo", "--config", "{run}", "--output", "{folder}", "train.iterations=1"), needs="torch"),
    "train": Writer(
        ("train", "{run}", "--output", "{folder}", *TRAINING), ("train", "{folder}", "--resume"), needs="torch"
    ),
    "bench": Writer(("bench", "random", "--suite", "{suite}", "--output", "{folder}")),
    "bench, nothing to play": Writer(("bench", "rule", "--suite", "{suite}", "--output", "{folder}")),
    "ablate": Writer(
        ("ablate", "{gated}", "credit=grpo", "train.iterations=1", "--output", "{folder}"),
        ("ablate", "{folder}", "--trust"),
        needs="torch",
    ),
    "data generate": Writer(("data", "generate", "{folder}", "--count", "1", "--level", "tiny")),
    "data shop": Writer(("data", "shop", "{folder}", "--level", "tiny")),
    "data harbor": Writer(("data", "harbor", "turncredit/Bash-v0", "--count", "1", "--output", "{folder}")),
    "package": Writer(
        ("package", "turncredit/Bash-v0", "--requirement", "turncredit", "--folder", "{folder}"),
        refusal="not an empty folder",
    ),
    "import": Writer(("import", "{chat}", "--from", "sharegpt", "--output", "{folder}"), refusal="exists already"),
    "export": Writer(("export", "{imported}", "--to", "atif", "--output", "{folder}"), refusal="exists already"),
}
"""Commands by name; what follows a comma is another way of the same command."""
NOT_RUN = {"model get"}
"""Commands that download (`test_what_is_downloaded_goes_into_no_folder_with_a_link`)."""
SINGLE_FILES = {
    "data pack": ("data", "pack", "{games}", "{folder}/games.jsonl"),
    "rollout": ("rollout", "random", corridor.ID, "--tasks", "1", "--size", "1", "--output", "{folder}/g.jsonl"),
    "eval": (
        *("eval", "random", corridor.ID, "--episodes", "1", "--output", "{folder}/r.json"),
        *("--panel", "{folder}/p.json", "--trajectories", "{folder}/t.jsonl"),
    ),
    "report": ("report", "{imported}", "--output", "{folder}/page.html"),
}
"""Commands that write files which the user names, and others beside them, temporary ones too."""


def targets() -> set[str]:
    """Return the names of all commands that write a folder, which an option or an argument names."""

    def below(command: Any, name: str) -> set[str]:
        if commands := getattr(command, "commands", None):
            return {key for word, inner in commands.items() for key in below(inner, f"{name} {word}".strip())}
        for parameter in command.params:
            option = next((option for option in parameter.opts if option in OPTIONS), None)
            argument = parameter.param_type_name == "argument" and parameter.metavar == "OUT"
            if option == "--folder" or (parameter.metavar in FOLDERS and option) or argument:
                return {name}
        return set()

    return below(typer.main.get_command(app), "")


def test_every_command_that_writes_a_folder_is_tried() -> None:
    assert targets() == {name.partition(",")[0] for name in WRITERS} | NOT_RUN | {"data pack"}


class Notes:
    """What this process makes in a folder: an audit hook, which Python keeps for ever."""

    def __init__(self) -> None:
        self.folder: str | None = None
        self.paths: set[Path] = set()
        sys.addaudithook(self._hear)

    def _hear(self, event: str, values: tuple[Any, ...]) -> None:
        if self.folder is None or event not in ("open", "os.mkdir") or not isinstance(values[0], str | os.PathLike):
            return
        path = os.path.realpath(os.path.abspath(values[0]))
        writes = event != "open" or values[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)
        if writes and path.startswith(f"{self.folder}/"):
            self.paths.add(Path(path).relative_to(self.folder))

    @contextmanager
    def of(self, folder: Path) -> Iterator[set[Path]]:
        """Note what is made in a folder during the block."""
        self.folder, self.paths = os.path.realpath(folder), set()
        try:
            yield self.paths
        finally:
            self.folder = None
        self.paths.update(path.relative_to(folder) for path in folder.rglob("*"))


@pytest.fixture(scope="module")
def notes() -> Notes:
    return Notes()


def state(folder: Path) -> dict[str, tuple[int, ...]]:
    """Return mode, size and time of what lies in a folder, but for the lock; of folders only that they are there."""
    statuses = {str(path.relative_to(folder)): path.lstat() for path in folder.rglob("*") if path.name != ".lock"}
    return {
        name: (status.st_mode, *((status.st_size, status.st_mtime_ns) if stat.S_ISREG(status.st_mode) else ()))
        for name, status in statuses.items()
    }


@contextmanager
def linked(place: Path, aside: Path, *, dangling: bool) -> Iterator[None]:
    """Put a link at a place: to what lay there, or to another file, or to nothing."""
    exists, parent = place.exists(), next(parent for parent in place.parents if parent.exists())
    place.parent.mkdir(parents=True, exist_ok=True)
    if exists:
        place.rename(aside)
    else:
        aside.write_text("mine", encoding="utf-8")
    place.symlink_to(aside.with_name("nothing") if dangling else aside)
    try:
        yield
    finally:
        place.unlink()
        if exists:
            aside.rename(place)
        else:
            aside.unlink()
        for made in place.parents:
            if made == parent:
                break
            made.rmdir()


@pytest.fixture(scope="module")
def inputs(run_file: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What commands read: a run, a suite, a conversation, a folder of imported episodes, and games."""
    folder = tmp_path_factory.mktemp("inputs")
    suite, chat = folder / "suite.toml", folder / "chat.jsonl"
    suite.write_text(SUITE, encoding="utf-8")
    chat.write_text('{"conversations": [{"from": "human", "value": "a"}, {"from": "gpt", "value": "b"}]}\n')
    gated = folder / "gated.toml"  # under a name that another process can find as well
    gated.write_text(run_file.read_text(encoding="utf-8").replace(f'"{corridor.ID}"', '"toys.gated:toys/Gated-v0"'))
    imported, games = folder / "imported", folder / "games"
    assert run_command("import", chat, "--from", "sharegpt", "--output", imported).code == 0
    assert run_command("data", "generate", games, "--count", 1, "--level", "tiny").code == 0
    named = {"run": run_file, "gated": gated, "suite": suite, "chat": chat, "imported": imported, "games": games}
    return {name: str(path) for name, path in named.items()}


@pytest.mark.waits  # the runs of an ablation are processes
@pytest.mark.parametrize("name", WRITERS)
def test_nothing_is_written_through_a_link(
    name: str, inputs: dict[str, str], notes: Notes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = WRITERS[name]
    pytest.importorskip(writer.needs)
    monkeypatch.setattr(process_pool, "subprocess", SimpleNamespace(Popen=WarmPopen, PIPE=subprocess.PIPE))
    folder, outside, disk = tmp_path / "folder", tmp_path / "outside", tmp_path / "disk"
    outside.mkdir()
    first = [word.format(**inputs, folder=folder) for word in writer.words]
    again = [word.format(**inputs, folder=folder) for word in writer.again] or first

    folder.symlink_to(outside / "nothing")
    refused = run_command(*first)
    assert refused.code == 2, refused.err
    assert not (outside / "nothing").exists()
    folder.unlink()
    if writer.refusal == "is a link":  # the user names a folder that is one
        disk.mkdir()
        folder.symlink_to(disk)
    with notes.of(folder) as paths:
        done = run_command(*first)
    assert done.code == 0, done.err
    assert paths
    faults = []
    for path in sorted(paths):
        for dangling in (False, True):
            with linked(folder / path, outside / "mine", dangling=dangling):
                before = state(folder), state(outside)
                refused = run_command(*again)
                if (state(folder), state(outside)) != before:
                    faults.append(f"{path}: written through a link: {refused}")
                elif refused.code != 2 or (not dangling and writer.refusal not in refused.err):
                    faults.append(f"{path}: not refused: {refused}")
    assert not faults, "\n".join(faults)


@pytest.mark.parametrize("name", SINGLE_FILES)
def test_files_beside_a_named_one_are_no_links(name: str, inputs: dict[str, str], notes: Notes, tmp_path: Path) -> None:
    folder, outside = tmp_path / "folder", tmp_path / "outside"
    outside.mkdir()
    words = [word.format(**inputs, folder=folder) for word in SINGLE_FILES[name]]
    folder.mkdir()
    with notes.of(folder) as paths:
        done = run_command(*words)
    assert done.code == 0, done.err
    faults = []
    for path in sorted(paths):
        if str(folder / path) in words:
            continue  # the user names it
        for dangling in (False, True):
            shutil.rmtree(folder)
            (folder / path).parent.mkdir(parents=True)
            (outside / "mine").write_text("mine", encoding="utf-8")
            (folder / path).symlink_to(outside / ("nothing" if dangling else "mine"))
            said = run_command(*words)
            if (outside / "nothing").exists() or (outside / "mine").read_text(encoding="utf-8") != "mine":
                faults.append(f"{path}: {said}")
                (outside / "nothing").unlink(missing_ok=True)
    assert not faults, "\n".join(faults)


@pytest.mark.parametrize("name", ["model/config.json", ".model.part", ".model.part/gguf/model.gguf"])
def test_what_is_downloaded_goes_into_no_folder_with_a_link(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.symlink_to(tmp_path / "nothing")
    refused = run_command("model", "get", "smollm2", "--output", tmp_path / "model")
    one_sentence(refused, f"{path} is a link")
    assert not (tmp_path / "nothing").exists()
