"""Student's t: its p-value and its quantile, in Python."""

from __future__ import annotations

import math

from turncredit.credit.errors import BadOption

__all__ = ["student_p", "student_quantile"]


def student_p(t: float, degrees: int) -> float:
    """Return the two-sided p-value of Student's t.

    With theta = atan(|t| / sqrt(degrees)), and the product of the odd (even) numbers below the even (odd) pairs::

        odd:   P(|T| < |t|) = 2/pi (theta + sin theta (cos theta + 2/3 cos^3 theta + 2*4/(3*5) cos^5 theta + ...))
        even:  P(|T| < |t|) = sin theta (1 + 1/2 cos^2 theta + 1*3/(2*4) cos^4 theta + ...)

    where both sums end with cos^(degrees - 2) theta.

    >>> round(student_p(2.776445, 4), 6)
    0.05

    Args:
        t: the statistic.
        degrees: degrees of freedom, from 1.

    Raises:
        BadOption: there are no degrees of freedom, since a single value has no spread.

    Source: Abramowitz and Stegun, Handbook of Mathematical Functions, 1964, 26.7.3 and 26.7.4.

    """
    if degrees < 1:
        raise BadOption(f"Student's t needs at least 1 degree of freedom, that is two values; got {degrees}")
    theta = math.atan(abs(t) / math.sqrt(degrees))
    cosine, odd = math.cos(theta), degrees % 2
    term = cosine if odd else 1.0
    total = term if degrees > 1 else 0.0
    for power in range(3 if odd else 2, degrees - 1, 2):
        term *= cosine * cosine * (power - 1) / power
        total += term
    inside = 2 / math.pi * (theta + math.sin(theta) * total) if odd else math.sin(theta) * total
    return min(1.0, max(0.0, 1.0 - inside))


def student_quantile(confidence: float, degrees: int) -> float:
    """Return the t for which P(|T| < t) is `confidence`, by bisection of `student_p`.

    >>> round(student_quantile(0.95, 4), 4)
    2.7764

    Args:
        confidence: confidence of the interval, in (0, 1).
        degrees: degrees of freedom, from 1.

    Raises:
        BadOption: the confidence is not in (0, 1), or there are no degrees of freedom.
    """
    if not 0 < confidence < 1:
        raise BadOption(f"confidence must be in (0, 1), got {confidence}")
    low, high = 0.0, 1.0
    while student_p(high, degrees) > 1 - confidence:
        high *= 2
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if student_p(middle, degrees) > 1 - confidence else (low, middle)
    return high
