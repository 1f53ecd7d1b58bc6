"""Search in texts: by words (BM25 as in Apache Lucene), by meaning (vectors), by both, or on another machine."""

from turnwise.tools.retrieval.bm25 import BM25
from turnwise.tools.retrieval.dense import Dense
from turnwise.tools.retrieval.encoder import SentenceModel, packaged
from turnwise.tools.retrieval.english import analyse
from turnwise.tools.retrieval.errors import (
    BadCorpus,
    BadIndex,
    BadModel,
    BadQuery,
    NoRetriever,
    RetrievalError,
    RetrieverDown,
)
from turnwise.tools.retrieval.hybrid import Hybrid
from turnwise.tools.retrieval.library import Finder, Library
from turnwise.tools.retrieval.open import open_library
from turnwise.tools.retrieval.passages import Passage, Passages
from turnwise.tools.retrieval.remote import Remote
from turnwise.tools.retrieval.retriever import Hits, Retriever

__all__ = [
    "BM25",
    "BadCorpus",
    "BadIndex",
    "BadModel",
    "BadQuery",
    "Dense",
    "Finder",
    "Hits",
    "Hybrid",
    "Library",
    "NoRetriever",
    "Passage",
    "Passages",
    "Remote",
    "RetrievalError",
    "Retriever",
    "RetrieverDown",
    "SentenceModel",
    "analyse",
    "open_library",
    "packaged",
]
