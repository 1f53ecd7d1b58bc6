"""What a caller of the credit functions can get wrong, as exceptions.

    CreditError(ValueError)
    ├── BadTable          a row or a column of the table cannot be used
    │   └── MissingColumn a method needs a column that the table does not have
    ├── BadOption         an option has an unknown name or an impossible value
    └── UnknownEstimator  no estimator has that name

Left out on purpose: anything about numerical warnings. A result that is not finite is an error, never a warning.
"""

import difflib
from collections.abc import Iterable


class CreditError(ValueError):
    """Root of everything that a user of `turnwise.credit` can cause."""


class BadTable(CreditError):
    """A row or a column of the table of turns cannot be used; the message says which and why."""


class MissingColumn(BadTable):
    """A method needs a column that the table does not have; the message names both."""


class BadOption(CreditError):
    """An option of an estimator has an unknown name or an impossible value."""


class UnknownEstimator(CreditError):
    """No estimator, ours or of an installed package, has the name that was asked for."""


def near(name: object, choices: Iterable[str]) -> str:
    """Return the tail of an error message: the near name, if there is one, and the choices.

    Args:
        name: what came.
        choices: what would have been understood.
    """
    known = sorted(choices)
    close = difflib.get_close_matches(str(name), known, n=1, cutoff=0.6)
    hint = f"did you mean {close[0]!r}? " if close else ""
    return f"{hint}choices: {', '.join(known)}" if known else f"{hint}there are no choices"
