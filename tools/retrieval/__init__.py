"""Text search: by words (BM25 as in Apache Lucene), by meaning (vectors), by both, or through a server."""

from turnwise.tools.retrieval.bm25 import BM25
from turnwise.tools.retrieval.client import RemoteRetriever
from turnwise.tools.retrieval.dense import Dense
from turnwise.tools.retrieval.encoder import SentenceModel, packaged_model
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
from turnwise.tools.retrieval.library import Library, PassageSearch, open_library
from turnwise.tools.retrieval.passages import Passage, Passages
from turnwise.tools.retrieval.retriever import Hits, Retriever

__all__ = [
    "BM25",
    "BadCorpus",
    "BadIndex",
    "BadModel",
    "BadQuery",
    "Dense",
    "Hits",
    "Hybrid",
    "Library",
    "NoRetriever",
    "Passage",
    "PassageSearch",
    "Passages",
    "RemoteRetriever",
    "RetrievalError",
    "Retriever",
    "RetrieverDown",
    "SentenceModel",
    "analyse",
    "open_library",
    "packaged_model",
]
