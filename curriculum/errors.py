"""Exceptions of `turncredit.curriculum`.

CurriculumError        a rule returned what it may not, or was given what it cannot use
├── BadSetting         there is no such rule, or a setting of it, or of a store, is unknown or impossible
└── BadState           what was remembered cannot be read

An option of a rule that is out of range is a `turncredit.credit.BadOption`, as with credit rules.
"""


class CurriculumError(Exception):
    """Base class of all exceptions of `turncredit.curriculum`."""


class BadSetting(CurriculumError):
    """There is no such rule, or a setting is unknown or impossible."""


class BadState(CurriculumError):
    """What a rule or a table remembered cannot be read."""
