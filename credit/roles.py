"""Rows by the agent that acted, for rules that treat one role separately."""

import numpy as np

from turncredit.credit.errors import BadTable
from turncredit.credit.key_codes import freeze
from turncredit.credit.steps import Bools, Steps


def rows_of_role(steps: Steps, role: object) -> Bools:
    """Return the rows in which a role acted, bool [N].

        >>> rows = [dict(task=0, trajectory=0, turn=t, reward=0.0, role=r) for t, r in enumerate(["plan", "act"])]
        >>> rows_of_role(Steps.from_rows(rows), "plan").tolist()
        [True, False]

    Args:
        steps: the table; needs `role`.
        role: the role as given in the rows; its code if the table has no names.
    """
    wanted = freeze(role)
    return np.asarray([freeze(one) == wanted for one in steps.ids("role").tolist()], dtype=np.bool_)


def need_role(steps: Steps, method: str, role: object) -> None:
    """Check that a role acts somewhere in the table.

    Args:
        steps: the table; needs `role`.
        method: name of the rule, for the message.
        role: the role that an option names.

    Raises:
        BadTable: no row has the role.
    """
    if len(steps) and not rows_of_role(steps, role).any():
        known = dict.fromkeys(map(repr, steps.ids("role").tolist()))
        raise BadTable(f"{method} expects rows of the role {role!r}, but there are none; roles: {', '.join(known)}")
