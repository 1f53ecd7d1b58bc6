"""Exceptions of retrieval.

RetrievalError (ValueError)
├── BadCorpus        a document that cannot be indexed, or an empty corpus
├── BadQuery         an invalid query, number of results or option
├── BadIndex         a directory that is not an index, is damaged, or has another version
├── BadModel         a model that cannot be loaded, or an encoder that does not return vectors
└── RetrieverDown    a remote retriever does not respond
    └── NoRetriever  the server responds, but is not a retriever; trying again does not help
"""


class RetrievalError(ValueError):
    """Base class of all retrieval errors.

    Args:
        message: one sentence for the user.
        url: address of the server that the error is about; "" if there is none.
        reason: the message without the address; default: the message.
    """

    def __init__(self, message: str = "", *, url: str = "", reason: str = "") -> None:
        super().__init__(message)
        self.url, self.reason = url, reason or message


class BadCorpus(RetrievalError):
    """A document that cannot be indexed, or an empty corpus."""


class BadQuery(RetrievalError):
    """An invalid query, number of results or option."""


class BadIndex(RetrievalError):
    """A directory that is not an index, is damaged, or has another version."""


class BadModel(RetrievalError):
    """A model that cannot be loaded, or an encoder that does not return vectors."""


class RetrieverDown(RetrievalError):
    """A remote retriever does not respond."""


class NoRetriever(RetrieverDown):
    """The server responds, but is not a retriever; trying again does not help."""
