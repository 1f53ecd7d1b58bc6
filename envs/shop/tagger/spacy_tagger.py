"""spaCy's tagger, which the original uses, where the user has installed it and a model.

Left out on purpose: downloading a model.
"""

from __future__ import annotations

from typing import Any, Final

from turnwise.envs.errors import UnknownOption

__all__ = ["MODEL", "SpacyTagger"]

MODEL: Final = "en_core_web_sm"
"""The model that the original loads."""

_NOUNS: Final = frozenset({"NOUN", "PROPN"})


class SpacyTagger:
    """spaCy's pipeline; the parts that no tag depends on are left out."""

    name = "spacy"

    def __init__(self, model: str = MODEL) -> None:
        """Load a model.

        Args:
            model: name of an installed model, or path of one.

        Raises:
            UnknownOption: spaCy or the model is not installed.
        """
        try:
            import spacy
        except ImportError:
            raise UnknownOption('the tagger "spacy" needs spaCy: pip install spacy') from None
        try:
            self._pipeline: Any = spacy.load(model, exclude=["ner", "lemmatizer"])
        except OSError:
            raise UnknownOption(f"spaCy has no model {model!r}: python -m spacy download {model}") from None

    def nouns(self, title: str) -> list[str]:
        """Return the nouns of a title in small letters, in its order, repeated where they repeat."""
        return [token.text.lower() for token in self._pipeline(title) if token.pos_ in _NOUNS]
