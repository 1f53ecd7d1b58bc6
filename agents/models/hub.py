"""Models of the Hugging Face Hub: found in the local cache, or downloaded into it.

Only the files of a causal language model are downloaded: configuration, tokenizer, chat template, and the weights in
one format (safetensors where the model has them). Every reason why a model cannot be had is one sentence.

Not included: uploads, data sets, remote code, and weights for other libraries (GGUF, ONNX).
"""

from __future__ import annotations

import errno
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from turncredit.agents.errors import ModelError
from turncredit.installation import needs
from turncredit.tools.bounded_input import read_json

TEXTS = (".json", ".jinja", ".txt", ".model", ".tiktoken")
"""Endings of the files beside the weights."""
WEIGHTS = (("model", ".safetensors"), ("pytorch_model", ".bin"))
"""How the names of weight files begin and end; the first form that a model has is used."""


def cached(repo: str, revision: str, *, weights: bool = True) -> Path | None:
    """Return the complete snapshot of a model in the local cache; None if there is none. Nothing is downloaded.

    Args:
        repo: "organisation/name".
        revision: a branch, a tag, or a commit hash.
        weights: whether a snapshot needs weights, or configuration and tokenizer are enough.
    """
    hub = _library()
    file = hub.try_to_load_from_cache(repo, "config.json", revision=revision)
    folder = Path(file).parent if isinstance(file, str) else None
    if folder is None or not (_has_weights(folder) if weights else any(folder.glob("tokenizer*"))):
        return None
    return folder


def download(repo: str, revision: str, *, weights: bool = True) -> Path:
    """Download a model into the local cache with progress bars on standard error, and return its snapshot folder.

    Args:
        repo: "organisation/name".
        revision: a branch, a tag, or a commit hash.
        weights: whether to download the weights, or configuration and tokenizer only.

    Raises:
        ModelError: the model or the revision does not exist, its terms must be accepted first, the Hub cannot be
            reached or must not be (HF_HUB_OFFLINE), the model has no weights that transformers reads, or the disk is
            too small.
    """
    hub = _library()
    try:
        info = hub.HfApi().model_info(repo, revision=revision, files_metadata=True)
        sizes = {sibling.rfilename: sibling.size or 0 for sibling in info.siblings or ()}
        names = needed_files(sizes)
        if not names:
            raise ModelError(f"{repo} has no weights that transformers reads (model*.safetensors, pytorch_model*.bin)")
        if not weights:
            names = [name for name in names if name.endswith(TEXTS)]
        _require_space(repo, {name: sizes[name] for name in names if not _is_cached(hub, repo, name, info.sha)})
        return Path(hub.snapshot_download(repo, revision=revision, allow_patterns=names))
    except ModelError:
        raise
    except Exception as error:  # of the Hub's client, and of the HTTP library that it happens to use
        raise ModelError(_explain(repo, revision, error)) from error


def needed_files(names: Iterable[str]) -> list[str]:
    """Return the files of a repository that a causal language model needs, sorted; none if there are no weights.

    >>> needed_files(["README.md", "config.json", "model.safetensors", "pytorch_model.bin", "onnx/model.onnx"])
    ['config.json', 'model.safetensors']
    """
    top = sorted(name for name in names if "/" not in name)
    for start, end in WEIGHTS:
        if weights := [name for name in top if name.startswith(start) and name.endswith(end)]:
            return sorted({*weights, *(name for name in top if name.endswith(TEXTS))})
    return []


def _library() -> Any:
    try:
        import huggingface_hub
    except ImportError as error:
        raise ModelError(needs("models of the Hugging Face Hub need huggingface_hub", "train")) from error
    return huggingface_hub


def _has_weights(folder: Path) -> bool:
    """Return whether a snapshot has all weight files, those that its index names included."""
    for start, end in WEIGHTS:
        index = folder / f"{start}{end}.index.json"
        if index.exists():
            shards = set(read_json(index)["weight_map"].values())
            return all((folder / name).exists() for name in shards)
        if (folder / f"{start}{end}").exists():
            return True
    return False


def _is_cached(hub: Any, repo: str, name: str, commit: str) -> bool:
    return isinstance(hub.try_to_load_from_cache(repo, name, revision=commit), str)


def _require_space(repo: str, sizes: Mapping[str, int]) -> None:
    from huggingface_hub import constants

    folder = Path(constants.HF_HUB_CACHE).expanduser().absolute()
    existing = next(parent for parent in (folder, *folder.parents) if parent.exists())
    needed, free = sum(sizes.values()), shutil.disk_usage(existing).free
    if needed > free:
        raise ModelError(
            f"{repo} takes {_gigabytes(needed)} to download, and {folder} has {_gigabytes(free)} left; free some "
            "space, or set HF_HOME to a folder on another disk"
        )


def _gigabytes(size: int) -> str:
    return f"{size / 1e9:.2f} GB"


def _explain(repo: str, revision: str, error: BaseException) -> str:
    """Return why a model could not be downloaded, in one sentence."""
    from huggingface_hub import constants, errors

    if isinstance(error, errors.GatedRepoError):
        return (
            f"{repo} is gated: accept its terms at {constants.ENDPOINT}/{repo}, then log in with `hf auth login` or "
            "set HF_TOKEN"
        )
    if isinstance(error, errors.RevisionNotFoundError):
        return f"{repo} has no revision {revision!r}; expected a branch, a tag, or a commit hash"
    if isinstance(error, errors.RepositoryNotFoundError | errors.HFValidationError):
        return f"{constants.ENDPOINT} has no model {repo}; if the model is private, log in with `hf auth login`"
    if isinstance(error, errors.OfflineModeIsEnabled):
        return f"{repo} (revision {revision}) is not in the local cache, and HF_HUB_OFFLINE forbids downloads"
    if isinstance(error, OSError) and error.errno == errno.ENOSPC:
        return f"the disk became full while {repo} was downloaded; what was downloaded is kept for the next attempt"
    reason = f"{type(error).__name__}: {' '.join(str(error).split()) or 'no further word'}"
    if isinstance(error, errors.HfHubHTTPError):
        return f"{constants.ENDPOINT} could not deliver {repo} ({reason})"
    return f"{repo} is not in the local cache, and {constants.ENDPOINT} could not be reached ({reason})"
