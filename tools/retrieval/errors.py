"""What can go wrong in retrieval, as exceptions whose one sentence says what was wanted and what came.

RetrievalError (ValueError)
├── BadCorpus      a document cannot be indexed, or there is none
├── BadQuery       a query, a number of results or an option makes no sense
├── BadIndex       a folder is no index, is torn, or is of another version
├── BadModel       a model cannot be loaded, or what it gives are no vectors
└── RetrieverDown  a retriever on another machine did not answer in time
    └── NoRetriever  something answers there, but not as a retriever does: asking again does not help
"""


class RetrievalError(ValueError):
    """Anything that retrieval refuses.

    Args:
        sentence: what was wanted and what came.
        at: address of the service that it is about; "" for none.
        why: what is wrong, without the address; "" where the sentence has none.
    """

    def __init__(self, sentence: str = "", *, at: str = "", why: str = "") -> None:
        """Keep the address apart, for whoever must not see it."""
        super().__init__(sentence)
        self.at, self.why = at, why or sentence


class BadCorpus(RetrievalError):
    """A document cannot be indexed, or there is none."""


class BadQuery(RetrievalError):
    """A query, a number of results or an option makes no sense."""


class BadIndex(RetrievalError):
    """A folder is no index, is torn, or is of another version."""


class BadModel(RetrievalError):
    """A model cannot be loaded, or what it gives are no vectors."""


class RetrieverDown(RetrievalError):
    """A retriever on another machine did not answer in time, or not as one does."""


class NoRetriever(RetrieverDown):
    """What answers on another machine does not answer as a retriever does, and will not the next time."""
