"""The texts of tokens, from a tokenizer on this machine."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from turncredit.tools.bounded_input import read_json

if TYPE_CHECKING:
    from turncredit.report.run_report.iterations import Pieces

_FILE = "tokenizer_config.json"


def pieces_of(path: Path) -> Pieces | None:
    """Return what gives the text of a token of a run; None if no tokenizer is found. Nothing is downloaded.

    The tokenizer is that of the newest checkpoint, else that of the folder in `policy.model`; of a benchmark, that of
    the checkpoint that played it. A token that is a part of
    a character has the text "\\ufffd".
    """
    from turncredit.agents.models.tokenization import codec_of

    tokenizer = next(filter(None, map(_tokenizer_in, _places(path))), None)
    if tokenizer is None:
        return None
    codec = codec_of(tokenizer)

    @cache
    def piece(token: int) -> str:
        try:
            return codec.decode([token])
        except (OverflowError, IndexError, TypeError, ValueError):
            return ""  # a file of trajectories may hold any number

    return piece


def _played_by(folder: Path) -> list[Path]:
    """Return the checkpoint that a benchmark was played by, if it has one."""
    try:
        checkpoint = read_json(folder / "state.json")["identity"]["checkpoint"]
    except (OSError, ValueError, KeyError, TypeError):
        return []
    return [Path(checkpoint)] if isinstance(checkpoint, str) else []


def _places(path: Path) -> list[Path]:
    """Return the folders that may hold the tokenizer, the best first."""
    from turncredit.training.errors import TrainingError
    from turncredit.training.run_folder.paths import run_of

    folder = path if path.is_dir() else path.parent
    places = [*_played_by(folder), *sorted((folder / "checkpoints").glob("[0-9]*"), reverse=True), folder / "final"]
    try:
        run = run_of(path)
    except (TrainingError, OSError):
        run = None
    if run is not None and run.policy.model:
        places.append(Path(run.policy.model).expanduser())
    return [folder_of_tokenizer for folder_of_tokenizer in places if (folder_of_tokenizer / _FILE).is_file()]


def _tokenizer_in(folder: Path) -> Any:
    """Return the tokenizer of a folder; None if it cannot be read, as in half a checkpoint."""
    from turncredit.agents.models.model_folder import quiet, transformers_library

    try:
        library = transformers_library()
        with quiet(library):
            return library.AutoTokenizer.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
    except Exception:  # transformers and tokenizers each raise their own; without a tokenizer, ids are shown
        return None
