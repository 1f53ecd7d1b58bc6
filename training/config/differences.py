"""Runs as flat tables of dotted keys, and the keys in which two runs differ."""

from collections.abc import Mapping

from turncredit.training.config.run import Run


def differences(run: Run, other: Run) -> list[str]:
    """Return the dotted names of the keys in which two runs differ."""
    mine, yours = flat(run.model_dump()), flat(other.model_dump())
    return sorted(key for key in mine.keys() | yours.keys() if mine.get(key) != yours.get(key))


def flat(table: Mapping[str, object], prefix: str = "") -> dict[str, object]:
    """Return a nested table as one of dotted names."""
    pairs: dict[str, object] = {}
    for key, value in table.items():
        pairs |= flat(value, f"{prefix}{key}.") if isinstance(value, dict) else {f"{prefix}{key}": value}
    return pairs
