"""Checkpoints: a Hugging Face folder with the optimiser, the random states and the counters beside it.

    RUN/checkpoints/000012/        model and tokenizer files, trainer.pt, state.json, manifest.json

A checkpoint is written beside (".000012.part"), synced and renamed, so that a name that stands is whole; its manifest
holds the size and SHA-256 of every file, and reading falls back to the last good one. A full disk costs nothing that
was written before.

Left out on purpose: sharded and remote checkpoints, and single files inside a checkpoint that could be exchanged.
"""

import errno
import hashlib
import json
import os
import random
import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from turnwise.training.errors import CheckpointError
from turnwise.training.policy import load_policy, require_vocabulary, save_policy, vocabulary_fingerprint

MANIFEST = "manifest.json"
VERSION = 1


@dataclass(frozen=True, slots=True)
class Restored:
    """What a checkpoint holds.

    Attributes:
        folder: where it stands.
        step: finished iterations.
        model: the policy.
        tokenizer: its tokenizer.
        state: counters and the sampler of tasks, as they were given to save.
        trainer: optimiser state and random states.
        skipped: sentences about newer checkpoints that were incomplete.
    """

    folder: Path
    step: int
    model: Any
    tokenizer: Any
    state: dict[str, Any]
    trainer: dict[str, Any]
    skipped: tuple[str, ...]


class Checkpoints:
    """The checkpoints of one run."""

    def __init__(self, folder: Path, *, keep: int = 2) -> None:
        """Look at a folder; it is made with the first checkpoint.

        Args:
            folder: RUN/checkpoints.
            keep: how many are kept, the newest ones.
        """
        self.folder = folder
        self._keep = keep

    def steps(self) -> list[int]:
        """Give the iterations at which a checkpoint stands, oldest first; they may yet turn out torn."""
        if not self.folder.is_dir():
            return []
        return sorted(int(path.name) for path in self.folder.iterdir() if re.fullmatch(r"\d{6,}", path.name))

    def path(self, step: int) -> Path:
        """Give the folder of one checkpoint."""
        return self.folder / f"{step:06d}"

    def save(
        self, step: int, model: Any, tokenizer: Any, learner_state: dict[str, Any] | None, state: dict[str, Any]
    ) -> Path:
        """Write a checkpoint beside the others, then drop the oldest beyond `keep`, and later ones.

        Where a later one stands, a run went on from before it because it was torn: kept, it would crowd good ones out.

        Args:
            step: finished iterations.
            model: a transformers model.
            tokenizer: its tokenizer.
            learner_state: of `Learner.state`; None keeps none.
            state: counters, as JSON can hold them.

        Returns:
            The checkpoint's folder.

        Raises:
            CheckpointError: it cannot be written; the others still stand.
        """
        part = self.folder / f".{step:06d}.part"
        final = self.path(step)
        try:
            self._write(part, model, tokenizer, learner_state, {**state, "version": VERSION, "step": step})
            if final.exists():
                shutil.rmtree(final)
            part.rename(final)
            _sync(self.folder)
        except Exception as error:
            shutil.rmtree(part, ignore_errors=True)
            cause = _system_error(error)
            if cause is None:
                raise
            raise CheckpointError(f"checkpoint {step} was not written: {cause}; {self._standing()}") from error
        self._drop(step)
        return final

    def _write(
        self, part: Path, model: Any, tokenizer: Any, learner_state: dict[str, Any] | None, state: dict[str, Any]
    ) -> None:
        shutil.rmtree(part, ignore_errors=True)
        part.mkdir(parents=True)
        save_policy(model, tokenizer, part)
        with (part / "trainer.pt").open("wb") as file:
            torch.save({**(learner_state or {}), **random_states()}, file)
        whole = {**state, "vocabulary": vocabulary_fingerprint(tokenizer)}
        (part / "state.json").write_text(json.dumps(whole, indent=2) + "\n", encoding="utf-8")
        (part / MANIFEST).write_text(json.dumps(manifest(part), indent=2) + "\n", encoding="utf-8")
        for path in sorted(part.rglob("*")):
            _sync(path)
        _sync(part)

    def _standing(self) -> str:
        steps = self.steps()
        return f"the last good one is {self.path(steps[-1])}" if steps else "there is none before it"

    def _drop(self, newest: int) -> None:
        """Keep `newest` and the ones before it; what bears a later number is a torn one that was passed over."""
        kept = [step for step in self.steps() if step <= newest][-self._keep :]
        for step in self.steps():
            if step not in kept:
                shutil.rmtree(self.path(step), ignore_errors=True)
        for path in self.folder.glob(".*.part"):
            shutil.rmtree(path, ignore_errors=True)

    def load(self, *, vocabulary: str | None = None) -> Restored:
        """Read the newest checkpoint that is whole.

        Args:
            vocabulary: fingerprint that the checkpoint's vocabulary must have; None takes any.

        Returns:
            What it holds.

        Raises:
            CheckpointError: none is whole.
            VocabularyMismatch: it speaks another vocabulary.
        """
        torn: list[str] = []
        for step in reversed(self.steps()):
            problem = verify(self.path(step))
            if problem is None:
                return self._read(step, vocabulary, tuple(torn))
            torn.append(f"checkpoint {self.path(step)} is not whole: {problem}")
        raise CheckpointError("; ".join([f"there is no whole checkpoint in {self.folder}", *torn]))

    def _read(self, step: int, vocabulary: str | None, torn: tuple[str, ...]) -> Restored:
        folder = self.path(step)
        state = json.loads((folder / "state.json").read_text(encoding="utf-8"))
        if state.get("version") != VERSION:
            raise CheckpointError(f"{folder} was written by another version of turnwise ({state.get('version')})")
        model, tokenizer = load_policy(folder)
        require_vocabulary(tokenizer, state["vocabulary"] if vocabulary is None else vocabulary, str(folder))
        trainer = torch.load(folder / "trainer.pt", map_location="cpu", weights_only=True)
        return Restored(folder, step, model, tokenizer, state, trainer, torn)


def manifest(folder: Path) -> dict[str, dict[str, Any]]:
    """Give size and SHA-256 of every file in a folder but the manifest, by name."""
    return {
        path.relative_to(folder).as_posix(): {"size": path.stat().st_size, "sha256": _digest(path)}
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name != MANIFEST
    }


def verify(folder: Path) -> str | None:
    """Say what is wrong with a checkpoint; None when every file is as its manifest says."""
    try:
        wanted = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
        for name, entry in wanted.items():
            path = folder / name
            if not path.is_file():
                return f"{name} is missing"
            if path.stat().st_size != entry["size"]:
                return f"{name} has {path.stat().st_size} bytes instead of {entry['size']}"
            if _digest(path) != entry["sha256"]:
                return f"{name} has changed"
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        return f"its manifest cannot be read ({error})"
    return None


def require_whole(folder: Path) -> None:
    """Make sure that a checkpoint of ours is as its manifest says; a folder without a manifest is somebody else's.

    Raises:
        CheckpointError: a file is missing or has changed: a tokenizer of another vocabulary, say.
    """
    problem = verify(folder) if (folder / MANIFEST).exists() else None
    if problem is not None:
        raise CheckpointError(f"checkpoint {folder} is not whole: {problem}")


def random_states() -> dict[str, Any]:
    """Give the states of Python's, numpy's and torch's global generators, as torch.save can hold them."""
    version, internal, gauss = random.getstate()
    kind, keys, position, has_gauss, cached = np.random.get_state(legacy=True)
    return {
        "python": [version, list(internal), gauss],
        "numpy": [str(kind), [int(key) for key in np.asarray(keys)], int(position), int(has_gauss), float(cached)],
        "torch": torch.get_rng_state(),
        "cuda": torch.cuda.get_rng_state_all() if torch.cuda.is_available() else [],
    }


def restore_random_states(states: dict[str, Any]) -> None:
    """Set the global generators back to what random_states gave."""
    version, internal, gauss = states["python"]
    random.setstate((version, tuple(internal), gauss))
    kind, keys, position, has_gauss, cached = states["numpy"]
    np.random.set_state((kind, np.array(keys, dtype=np.uint32), position, has_gauss, cached))
    torch.set_rng_state(states["torch"])
    if states["cuda"] and torch.cuda.is_available():
        torch.cuda.set_rng_state_all(states["cuda"])


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _sync(path: Path) -> None:
    """Push a file or a folder to the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def _system_error(error: BaseException) -> str | None:
    """Say in words which error of the system lies under an exception; None when there is none.

    The writers in Rust (safetensors, tokenizers) raise exceptions of their own, in which only the text has the number.
    """
    for cause in _causes(error):
        number = cause.errno if isinstance(cause, OSError) else None
        if number is None:
            match = re.search(r"os error (\d+)", str(cause))
            number = int(match[1]) if match else None
        if number is not None:
            return "the disk is full" if number == errno.ENOSPC else os.strerror(number)
    return None
