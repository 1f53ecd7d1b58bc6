"""Search in texts: BM25 and the English analyser of Apache Lucene, in Python and numpy."""

from turnwise.tools.retrieval.bm25 import BM25
from turnwise.tools.retrieval.english import analyse
from turnwise.tools.retrieval.errors import BadCorpus, BadIndex, BadQuery, RetrievalError

__all__ = ["BM25", "BadCorpus", "BadIndex", "BadQuery", "RetrievalError", "analyse"]
