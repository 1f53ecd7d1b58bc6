"""A case of a file of vectors: what is given, what is expected, and how two sets of figures are compared.

Nothing of a case may be passed over: whoever computes it reads the inputs and hyperparameters through `Given`, which
knows what was read; what was not is refused by name, since a hyperparameter that nothing read changes nothing.

Left out on purpose: any method. `rows`, `estimators` and `losses` have them, one module a schema.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from turnwise.cli.errors import debugging, sentence_of

Outcome = Literal["agrees", "differs", "noise", "refused", "unimplemented", "malformed"]


class Refused(Exception):
    """A case asks for what our function cannot do; the message names it."""


class Unimplemented(Exception):
    """Nobody implements the method of a case."""


class Malformed(Exception):
    """A case does not have the form of its schema."""


class Given(Mapping[str, Any]):
    """A mapping of a case that knows what was read.

    Args:
        what: what it holds, for messages.
        values: the mapping of the file.
    """

    def __init__(self, what: str, values: object) -> None:
        """Take the values of a file."""
        if not isinstance(values, Mapping):
            raise Malformed(f"{what} must be an object, not {type(values).__name__}")
        self.what, self._values, self._read = what, dict(values), set[str]()

    def __getitem__(self, name: str) -> Any:
        """The value, which counts as read."""
        if name in self._values:
            self._read.add(name)
        return self._values[name]

    def __contains__(self, name: object) -> bool:
        """Whether it is there; asking is not reading."""
        return name in self._values

    def __iter__(self) -> Iterator[str]:
        """The names."""
        return iter(self._values)

    def __len__(self) -> int:
        """How many there are."""
        return len(self._values)

    def need(self, name: str) -> Any:
        """The value, which counts as read.

        Raises:
            Malformed: it is not there.
        """
        if name not in self._values:
            raise Malformed(f"{self.what} have no {name!r}")
        return self[name]

    def only(self, name: str, *allowed: object) -> None:
        """Read a value that our function has fixed, if it is there.

        Raises:
            Refused: the case has another one.
        """
        if name in self and not any(_same(self[name], one) for one in allowed):
            raise Refused(f"{name}={self[name]!r}; ours is {' or '.join(map(repr, allowed))}")

    def done(self) -> None:
        """Make sure that everything was read.

        Raises:
            Refused: it names what was not.
        """
        unread = [name for name in self._values if name not in self._read]
        if unread:
            raise Refused(f"nothing of ours reads the {self.what} {', '.join(map(repr, unread))}")


@dataclass(frozen=True, slots=True)
class Measure:
    """How far two numbers are apart, and how far they may be.

        difference = |ours - theirs| / max(|theirs|, share * largest |theirs| of the figure, least)   kind "max"
        difference = |ours - theirs| / (|theirs| + least)                                             kind "sum"

    `tolerance` is the largest difference that agrees.
    """

    tolerance: float
    least: float
    share: float = 0.0
    kind: Literal["max", "sum"] = "sum"

    def __str__(self) -> str:
        """For people: the quotient."""
        size = f"({self.least:g} + |theirs|)"
        if self.kind == "max":
            size = f"max(|theirs|, {self.share:g} of the figure's largest, {self.least:g})"
        return f"|ours - theirs| / {size}"

    def difference(self, ours: float, theirs: float, largest: float) -> float:
        """Return the difference; infinite where one of the two is no number and the other is one."""
        if math.isnan(theirs) or math.isnan(ours) or math.isinf(theirs) or math.isinf(ours):
            return 0.0 if ours == theirs or (math.isnan(ours) and math.isnan(theirs)) else math.inf
        if self.kind == "max":
            return abs(ours - theirs) / max(abs(theirs), self.share * largest, self.least)
        return abs(ours - theirs) / (abs(theirs) + self.least)


@dataclass(frozen=True, slots=True)
class Difference:
    """The figure of a case in which ours and theirs are furthest apart, and where."""

    worst: float
    figure: str = ""
    place: str = ""
    ours: object = None
    theirs: object = None

    def __str__(self) -> str:
        """For people: which figure, where, and both values."""
        return f"{self.figure}{self.place}: ours {_short(self.ours)}, theirs {_short(self.theirs)}"


@dataclass(frozen=True, slots=True)
class Verdict:
    """What came of one case."""

    method: str
    case: str
    outcome: Outcome
    difference: Difference = Difference(0.0)
    reason: str = ""

    @property
    def counts(self) -> bool:
        """Whether the case is to be agreed upon: all but the rounding noise of the published code."""
        return self.outcome != "noise"

    def __str__(self) -> str:
        """For people: one line."""
        return f"{self.case}: {self.reason or self.difference}"


def judged(
    method: str, case: str, measure: Measure, *, noise: bool, foreign: bool, compute: Callable[[], Sequence[Difference]]
) -> Verdict:
    """Return what came of a case.

    Args:
        method: whose line it counts in.
        case: name of the case.
        measure: whose tolerance decides.
        noise: the file says that its own formula does not reach these figures.
        foreign: a function of somebody else is examined; whatever it raises is its answer to the case.
        compute: gives the differences, figure by figure.
    """
    try:
        found = compute()
    except Malformed as error:
        return Verdict(method, case, "malformed", Difference(math.inf), f"it cannot be read: {error}")
    except ImportError as error:
        if not foreign:
            raise  # an extra is not installed: that is no answer to a case
        return Verdict(method, case, "refused", Difference(math.inf), f"{type(error).__name__}: {error}")
    except Unimplemented as error:
        return Verdict(method, case, "unimplemented", Difference(math.inf), str(error))
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        if not foreign and not isinstance(error, Exception):
            raise  # sys.exit in a foreign function is its answer to a case, and no way out
        reason = str(error) if isinstance(error, Refused) else sentence_of(error)
        unread = isinstance(error, TypeError | ValueError | KeyError | IndexError | AttributeError) and not debugging()
        if reason is None and not foreign and not unread:
            raise
        return Verdict(method, case, "refused", Difference(math.inf), reason or f"{type(error).__name__}: {error}")
    worst = max(found, key=lambda difference: difference.worst, default=Difference(0.0))
    if noise:
        return Verdict(method, case, "noise", worst)
    return Verdict(method, case, "agrees" if worst.worst <= measure.tolerance else "differs", worst)


def describes(value: object) -> bool:
    """Whether a key of a case that no method reads may be there all the same: words about it, and nothing to compute.

    A text, a truth value, null, a list of texts, or a table of these.
    """
    if isinstance(value, Mapping):
        return all(describes(item) for item in value.values())
    if isinstance(value, list):
        return all(isinstance(item, str) for item in value)
    return value is None or isinstance(value, str | bool)


def compared(figure: str, ours: object, theirs: object, measure: Measure) -> Difference:
    """Return the largest difference between two sets of figures of one shape: numbers in lists in lists.

    Truth values, texts and null must be equal; a number of the file may be written as a whole one.
    """
    pairs = list(_pairs(_plain(ours), theirs, ""))
    largest = max((abs(b) for _, _, b in pairs if _number(b) and math.isfinite(b)), default=0.0)
    worst = Difference(-1.0, figure)
    for place, a, b in pairs:
        if _number(a) and _number(b):
            distance = measure.difference(float(a), float(b), largest)
        else:
            distance = 0.0 if type(a) is type(b) and a == b else math.inf
        if distance > worst.worst:
            worst = Difference(distance, figure, place, a, b)
    return worst if worst.worst >= 0.0 else Difference(0.0, figure)


def _same(value: object, wanted: object) -> bool:
    """Equal, where 1 and 1.0 are, and 1 and true are not."""
    return value == wanted and isinstance(value, bool) == isinstance(wanted, bool)


def _number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _plain(value: Any) -> object:
    """Arrays and numpy numbers as lists and numbers."""
    if hasattr(value, "tolist"):
        return value.tolist()
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value


def _pairs(ours: Any, theirs: Any, place: str) -> Iterator[tuple[str, Any, Any]]:
    if isinstance(ours, list) and isinstance(theirs, list) and len(ours) == len(theirs):
        for number, (a, b) in enumerate(zip(ours, theirs, strict=True)):
            yield from _pairs(a, b, f"{place}[{number}]")
    elif isinstance(ours, list) or isinstance(theirs, list):
        yield place, _shape(ours), _shape(theirs)
    else:
        yield place, ours, theirs


def _shape(value: object) -> str:
    return f"{len(value)} values" if isinstance(value, list) else repr(value)


def _short(value: object) -> str:
    return f"{value:.8g}" if isinstance(value, float) else str(value)
