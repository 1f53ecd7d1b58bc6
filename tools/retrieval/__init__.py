"""Text search: by words (BM25 as in Apache Lucene), by meaning (vectors), by both, or through a server."""

from turncredit.tools.retrieval.bm25 import BM25
from turncredit.tools.retrieval.client import RemoteRetriever
from turncredit.tools.retrieval.dense import Dense
from turncredit.tools.retrieval.encoder import SentenceModel, packaged_model
from turncredit.tools.retrieval.english import analyse
from turncredit.tools.retrieval.errors import (
    BadCorpus,
    BadIndex,
    BadModel,
    BadQuery,
    NoRetriever,
    RetrievalError,
    RetrieverDown,
)
from turncredit.tools.retrieval.hybrid import Hybrid
from turncredit.tools.retrieval.library import Library, PassageSearch, open_library
from turncredit.tools.retrieval.passages import Passage, Passages
from turncredit.tools.retrieval.retriever import Hits, Retriever

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
