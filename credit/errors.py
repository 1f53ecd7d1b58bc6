"""What a caller of the credit functions can get wrong, as exceptions.

    CreditError(ValueError)
    ├── BadTable          a row or a column of the table cannot be used
    │   └── MissingColumn a method needs a column that the table does not have
    ├── BadOption         an option has an unknown name or an impossible value
    └── UnknownRule       no credit rule or token transform has that name

Left out on purpose: anything about numerical warnings. A result that is not finite is an error, never a warning.
"""


class CreditError(ValueError):
    """Root of everything that a user of `turnwise.credit` can cause."""


class BadTable(CreditError):
    """A row or a column of the table of turns cannot be used; the message says which and why."""


class MissingColumn(BadTable):
    """A method needs a column that the table does not have; the message names both."""


class BadOption(CreditError):
    """An option of an estimator has an unknown name or an impossible value."""


class UnknownRule(CreditError):
    """There is no credit rule or token transform of that name."""
