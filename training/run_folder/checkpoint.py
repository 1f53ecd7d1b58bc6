"""Checkpoints: a Hugging Face folder with the optimizer, the random states and the counters beside it.

    RUN/checkpoints/000012/        model (or adapter) and tokenizer files, trainer.pt, state.json, manifest.json

A checkpoint is written to a temporary folder (".000012.part"), synced and renamed, so that a folder without the suffix
is complete. Its manifest holds the size and SHA-256 of every file, and loading falls back to the last intact
checkpoint. A full disk never destroys an earlier checkpoint.

The optimizer of several ranks lies beside it in parts (`turncredit.training.learner.optimizer_shards`); the model is
whole. Their checkpoints are written by threads while rollouts go on: rank 0 has a copy of the weights that stays as it
is until the next update, and the optimizer's states are copied. A single process trains the only weights that it has,
and writes before it goes on.

Not included: remote checkpoints.
"""

import errno
import hashlib
import os
import random
import re
import shutil
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import torch

from turncredit.agents.files.json_files import write_json
from turncredit.agents.models.model_folder import load_model, load_tokenizer
from turncredit.tools.bounded_input import open_file, read_json
from turncredit.training.errors import CheckpointError
from turncredit.training.learner.policy import (
    require_vocabulary,
    save_policy,
    save_tokenizer,
    save_weights,
    vocabulary_fingerprint,
)
from turncredit.training.learner.untyped import CausalLM, PolicyTokenizer
from turncredit.training.run_folder.warm_start_progress import checkpoint_folders
from turncredit.training.types import State

MANIFEST = "manifest.json"
REQUIRED = ("state.json", "trainer.pt")
"""What every manifest names, beside the weights."""
VERSION = 1


@dataclass(frozen=True, slots=True)
class Restored:
    """What a checkpoint holds.

    Attributes:
        folder: of the checkpoint.
        step: number of finished iterations.
        model: the policy.
        tokenizer: its tokenizer.
        state: counters and the task sampler, as passed to `save`.
        trainer: the learner's state and the random states.
        skipped: sentences about newer checkpoints that were incomplete.
    """

    folder: Path
    step: int
    model: CausalLM
    tokenizer: PolicyTokenizer
    state: State
    trainer: State
    skipped: tuple[str, ...]


SaveShards = Callable[[Path], Callable[[], None]]
"""Begins to write into a folder, and returns what waits for the end of it."""


class Writing:
    """A checkpoint that is being written.

    Args:
        step: number of finished iterations.
        part: folder that everything is written into.
        final: its name once it is whole.
        write_weights: writes the weights.
        wait: for what others write into the folder.

    Attributes:
        weights: set once the weights are written, or never will be.
    """

    def __init__(
        self,
        step: int,
        part: Path,
        final: Path,
        write_weights: Callable[[], None],
        wait: Callable[[], None] | None,
    ) -> None:
        self.step, self.part, self.final = step, part, final
        self.weights = threading.Event()
        self._write_weights, self._wait = write_weights, wait
        self._end: Future[None] = Future()

    def begin(self, *, background: bool) -> None:
        """Write the rest, on a thread or here."""
        if background:
            thread = ThreadPoolExecutor(1, thread_name_prefix="turncredit-checkpoint")
            self._end = thread.submit(self._complete)
            thread.shutdown(wait=False)
        else:
            self._complete()
            self._end.set_result(None)

    @property
    def ended(self) -> bool:
        """Whether nothing is written any more."""
        return self._end.done()

    def result(self) -> None:
        """Return when the checkpoint is whole, or raise what kept it from becoming so."""
        self._end.result()

    def _complete(self) -> None:
        try:
            self._write_weights()
        finally:
            self.weights.set()
            if self._wait is not None:
                self._wait()  # in any case: nobody may write into a folder that is removed
        write_json(self.part / MANIFEST, manifest(self.part), indent=2)
        for path in sorted(self.part.rglob("*")):
            _sync(path)
        _sync(self.part)
        if self.final.exists():
            shutil.rmtree(self.final)
        self.part.rename(self.final)
        _sync(self.final.parent)


class Checkpoints:
    """The checkpoints of one run."""

    def __init__(self, folder: Path, *, keep: int = 2) -> None:
        """Manage the checkpoints in a folder, which is created with the first one.

        Args:
            folder: RUN/checkpoints.
            keep: how many of the newest checkpoints are kept.
        """
        self.folder = folder
        self._keep = keep
        self._writing: Writing | None = None

    def steps(self) -> list[int]:
        """Return the iterations with a checkpoint, oldest first; a checkpoint may still turn out to be incomplete."""
        return [int(path.name) for path in checkpoint_folders(self.folder)]

    def path(self, step: int) -> Path:
        """Return the folder of a checkpoint."""
        return self.folder / f"{step:06d}"

    def save(
        self,
        step: int,
        model: CausalLM,
        tokenizer: PolicyTokenizer,
        learner_state: State | None,
        state: State,
        save_shards: SaveShards | None = None,
    ) -> Path:
        """Write a checkpoint, and return its folder; see `start` and `finish`."""
        self.start(step, model, tokenizer, learner_state, state, save_shards)
        self.finish()
        return self.path(step)

    def start(
        self,
        step: int,
        model: CausalLM,
        tokenizer: PolicyTokenizer,
        learner_state: State | None,
        state: State,
        save_shards: SaveShards | None = None,
        *,
        background: bool = False,
    ) -> None:
        """Begin to write a checkpoint, which counts once it is whole; `finish` says so.

        Args:
            step: number of finished iterations.
            model: a transformers model, which must not change before `wait_for_weights`.
            tokenizer: its tokenizer.
            learner_state: of `Learner.state`; None keeps none.
            state: counters, JSON-serializable.
            save_shards: begins to write what several ranks hold in parts into a folder, and returns what waits for it.
            background: whether the weights are written by a thread, so that the caller goes on.

        Raises:
            CheckpointError: this one or the one before cannot be written; the other checkpoints are intact.
        """
        self.finish()
        part = self.folder / f".{step:06d}.part"
        with self._removed_on_error(step):
            shutil.rmtree(part, ignore_errors=True)
            part.mkdir(parents=True)
            save_tokenizer(tokenizer, part)
            with (part / "trainer.pt").open("wb") as file:
                torch.save({**(learner_state or {}), **random_states()}, file)
            whole = {**state, "version": VERSION, "step": step, "vocabulary": vocabulary_fingerprint(tokenizer)}
            write_json(part / "state.json", whole, indent=2)
            wait = None if save_shards is None else save_shards(part)
            writing = Writing(step, part, self.path(step), partial(save_weights, model, part), wait)
            writing.begin(background=background)  # nobody waits for one that Ctrl-C has cut short here
            self._writing = writing

    def finish(self, *, wait: bool = True) -> Path | None:
        """Return the checkpoint that was begun if it is whole now, and remove the oldest ones beyond `keep`.

        Later checkpoints are removed as well. They were incomplete when the run resumed from an earlier one, and would
        displace intact ones.

        Args:
            wait: until it is whole; else None is returned if it is not.

        Raises:
            CheckpointError: it cannot be written; the other checkpoints are intact.
        """
        writing = self._writing
        if writing is None or not (wait or writing.ended):
            return None
        self._writing = None
        with self._removed_on_error(writing.step):
            writing.result()
        self._drop(writing.step)
        return writing.final

    def wait_for_weights(self) -> None:
        """Return when a checkpoint that was begun needs the model no longer."""
        if self._writing is not None:
            self._writing.weights.wait()

    def close(self) -> None:
        """Wait for a checkpoint that was begun, whether it becomes whole or not."""
        with suppress(Exception):
            self.finish()

    @contextmanager
    def _removed_on_error(self, step: int) -> Iterator[None]:
        try:
            yield
        except Exception as error:
            self._writing = None
            shutil.rmtree(self.folder / f".{step:06d}.part", ignore_errors=True)
            cause = _system_error(error)
            if cause is None:
                raise
            raise CheckpointError(f"checkpoint {step} could not be written: {cause}; {self._last_intact()}") from error

    def _last_intact(self) -> str:
        steps = self.steps()
        return f"the last one is {self.path(steps[-1])}" if steps else "there is no earlier one"

    def _drop(self, newest: int) -> None:
        """Remove all checkpoints but `newest` and the ones before it; later ones are incomplete."""
        steps = [step for step in self.steps() if step <= newest][-self._keep :]
        for step in self.steps():
            if step not in steps:
                shutil.rmtree(self.path(step), ignore_errors=True)
        for path in self.folder.glob(".*.part"):
            shutil.rmtree(path, ignore_errors=True)

    def load(self, *, vocabulary: str | None = None, load: Callable[[Path], CausalLM] = load_model) -> Restored:
        """Return the newest intact checkpoint.

        Args:
            vocabulary: expected fingerprint of the vocabulary; None accepts any.
            load: returns the model of a folder.

        Raises:
            CheckpointError: no checkpoint is intact.
            VocabularyMismatch: it has another vocabulary.
        """
        folder, skipped = self.newest_intact()
        state = read_json(folder / "state.json")
        if state.get("version") != VERSION:
            raise CheckpointError(f"{folder} was written by another version of turncredit ({state.get('version')})")
        model, tokenizer = load(folder), load_tokenizer(folder)
        require_vocabulary(tokenizer, state["vocabulary"] if vocabulary is None else vocabulary, str(folder))
        with open_file(folder / "trainer.pt") as file:
            trainer = torch.load(file, map_location="cpu", weights_only=True)
        return Restored(folder, int(folder.name), model, tokenizer, state, trainer, skipped)

    def newest_intact(self) -> tuple[Path, tuple[str, ...]]:
        """Return the folder of the newest intact checkpoint, and sentences about newer ones that are not.

        Raises:
            CheckpointError: no checkpoint is intact.
        """
        damaged: list[str] = []
        for step in reversed(self.steps()):
            problem = verify(self.path(step))
            if problem is None:
                return self.path(step), tuple(damaged)
            damaged.append(f"checkpoint {self.path(step)} is damaged: {problem}")
        raise CheckpointError("; ".join([f"there is no intact checkpoint in {self.folder}", *damaged]))


def write_merged(model: CausalLM, tokenizer: PolicyTokenizer, folder: Path) -> None:
    """Write a peft model as an ordinary Hugging Face folder, with its adapter added to the weights.

    Args:
        model: a peft model; it does not change.
        tokenizer: its tokenizer.
        folder: it is replaced once everything is written.

    Raises:
        CheckpointError: it cannot be written.
    """
    part = folder.with_name(f".{folder.name}.part")
    try:
        shutil.rmtree(part, ignore_errors=True)
        save_policy(model, tokenizer, part, merged=True)
        shutil.rmtree(folder, ignore_errors=True)
        part.rename(folder)
    except Exception as error:
        shutil.rmtree(part, ignore_errors=True)
        cause = _system_error(error)
        if cause is None:
            raise
        raise CheckpointError(f"{folder} could not be written: {cause}; the checkpoints are intact") from error


def manifest(folder: Path) -> dict[str, State]:
    """Return the size and SHA-256 of every file in a folder except the manifest, by name."""
    return {
        path.relative_to(folder).as_posix(): {"size": path.stat().st_size, "sha256": _digest(path)}
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name != MANIFEST
    }


def verify(folder: Path) -> str | None:
    """Return what is wrong with a checkpoint; None if every file matches the manifest."""
    try:
        manifest = read_json(folder / MANIFEST)
        for name, entry in manifest.items():
            path = folder / name
            if not path.is_file():
                return f"{name} is missing"
            if path.stat().st_size != entry["size"]:
                return f"{name} has {path.stat().st_size} bytes instead of {entry['size']}"
            if _digest(path) != entry["sha256"]:
                return f"{name} has changed"
        lacking = [name for name in REQUIRED if name not in manifest]
        if lacking or not any(name.endswith(".safetensors") for name in manifest):
            return f"its manifest does not name {lacking[0] if lacking else 'the weights'}"
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        return f"its manifest cannot be read ({error})"
    return None


def require_whole(folder: Path) -> None:
    """Check a checkpoint against its manifest; a folder without a manifest comes from elsewhere and is accepted.

    Raises:
        CheckpointError: a file is missing or has changed.
    """
    problem = verify(folder) if (folder / MANIFEST).exists() else None
    if problem is not None:
        raise CheckpointError(f"checkpoint {folder} is damaged: {problem}")


def random_states() -> State:
    """Return the states of the global generators of Python, numpy and torch, in a form that torch.save accepts."""
    version, internal, gauss = random.getstate()
    kind, keys, position, has_gauss, cached = np.random.get_state(legacy=True)
    return {
        "python": [version, list(internal), gauss],
        "numpy": [str(kind), [int(key) for key in np.asarray(keys)], int(position), int(has_gauss), float(cached)],
        "torch": torch.get_rng_state(),
        "cuda": torch.cuda.get_rng_state_all() if torch.cuda.is_available() else [],
    }


def restore_random_states(states: State) -> None:
    """Restore the global generators to what `random_states` returned."""
    version, internal, gauss = states["python"]
    random.setstate((version, tuple(internal), gauss))
    kind, keys, position, has_gauss, cached = states["numpy"]
    np.random.set_state((kind, np.array(keys, dtype=np.uint32), position, has_gauss, cached))
    torch.set_rng_state(states["torch"])
    if states["cuda"] and torch.cuda.is_available():
        torch.cuda.set_rng_state_all(states["cuda"])


def _digest(path: Path) -> str:
    with open_file(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _sync(path: Path) -> None:
    """Flush a file or a folder to disk."""
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
    """Return the system error behind an exception in words; None if there is none.

    The writers in Rust (safetensors, tokenizers) raise their own exceptions, which mention the number in their text
    only.
    """
    for cause in _causes(error):
        number = cause.errno if isinstance(cause, OSError) else None
        if number is None:
            match = re.search(r"os error (\d+)", str(cause))
            number = int(match[1]) if match else None
        if number is not None:
            return "the disk is full" if number == errno.ENOSPC else os.strerror(number)
    return None
