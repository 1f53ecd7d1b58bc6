"""Exceptions of `turncredit.credit`.

CreditError(ValueError)
├── BadTable          a row or a column of the table cannot be used
│   └── MissingColumn a rule needs a column that the table does not have
├── BadOption         an option has an unknown name or an impossible value
└── UnknownRule       no credit rule or token transform has that name
"""


class CreditError(ValueError):
    """Base class of all exceptions of `turncredit.credit`."""


class BadTable(CreditError):
    """A row or a column of the table of turns cannot be used."""


class MissingColumn(BadTable):
    """A rule needs a column that the table does not have.

    Attributes:
        column: its name.
    """

    def __init__(self, message: str, column: str = "") -> None:
        """Keep the name of the column beside the message."""
        super().__init__(message)
        self.column = column


class BadOption(CreditError):
    """An option has an unknown name or an impossible value."""


class UnknownRule(CreditError):
    """There is no credit rule or token transform of that name."""
