"""Rows by the agent that acted, for methods that treat one role apart from the others.

Left out on purpose: what a role means. The column `role` holds the caller's own names.
"""

import numpy as np

from turnwise.credit.errors import BadTable
from turnwise.credit.keys import freeze
from turnwise.credit.steps import Bools, Steps


def rows_of_role(steps: Steps, role: object) -> Bools:
    """Return which rows one role acted in, bool [N]; none of a table that has no such role.

        >>> rows = [dict(task=0, trajectory=0, turn=t, reward=0.0, role=r) for t, r in enumerate(["plan", "act"])]
        >>> rows_of_role(Steps.from_rows(rows), "plan").tolist()
        [True, False]

    Args:
        steps: the table, with `role` unless it is empty.
        role: the role as the caller's rows have it; its code where the table has codes without names.
    """
    wanted = freeze(role)
    return np.asarray([freeze(one) == wanted for one in steps.ids("role").tolist()], dtype=np.bool_)


def need_role(steps: Steps, method: str, role: object) -> None:
    """Make sure that a role acts somewhere in the table, whatever it is that the method does with it.

    Args:
        steps: the table, with `role` unless it is empty.
        method: name of the estimator, for the message.
        role: the role that an option of the method names.

    Raises:
        BadTable: nobody has the role, so that the option must be a slip.
    """
    if len(steps) and not rows_of_role(steps, role).any():
        known = dict.fromkeys(map(repr, steps.ids("role").tolist()))
        raise BadTable(f"{method} expects rows of the role {role!r}, but there are none; roles: {', '.join(known)}")
