"""Numbers as people read them: shares, durations, sizes in memory, amounts."""

from __future__ import annotations


def percent(share: float) -> str:
    """Return a share in [0, 1] as a percentage: `12.5 %`."""
    return f"{100 * share:.1f} %"


def duration(seconds: float) -> str:
    """Return a time in seconds in readable form: `42 s`, `3 min 05 s`, `2 h 10 min`."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"


def short_duration(seconds: float) -> str:
    """Return a time in seconds, of which short ones matter as well: `0.04 s`, `2.50 s`, `3 min 05 s`."""
    return duration(seconds) if seconds >= 10 else f"{seconds:.2f} s"


def memory(size: float) -> str:
    """Return bytes in readable form: `350 MiB`, `12.3 GiB`."""
    return f"{size / 2**30:.1f} GiB" if size >= 2**30 else f"{size / 2**20:.0f} MiB"


def count(number: float) -> str:
    """Return a rate or an amount with few digits: `950`, `12.3k`, `4.5M`."""
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e4, "k")):
        if abs(number) >= size:
            return f"{number / (1e3 if unit == 'k' else size):.1f}{unit}"
    return f"{number:.0f}"
