"""What a run cost, from its metrics: parameters, tokens and their speed, time, utilisation of the device, memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from turncredit.report.number_text import count, duration, memory, percent, short_duration

if TYPE_CHECKING:
    from turncredit.training.run_folder.metrics import Event

OWNERS = {"process": "process", "device": "GPU", "device_used": "GPU, all processes"}
"""Whose memory the keys of `memory_use` tell, for people."""


def effort_rows(events: Sequence[Event]) -> Iterator[tuple[str, str]]:
    """Yield what is known of a run's cost, as (label, text).

    Args:
        events: of metrics.jsonl, or of the progress; those of several sessions add up.
    """
    trained = [event for event in events if event.get("phase") == "train"]
    model = next((event for event in reversed(events) if event.get("phase") == "model"), None)
    if model is not None:
        yield "parameters", f"{count(model['parameters'])}, {count(model['trained'])} of them trained"
    if not trained:
        return
    rollout, update = _total(trained, "rollout_seconds"), _total(trained, "update_seconds")
    prompts = sum(event.get("prompt_tokens_per_second", 0) * event.get("rollout_seconds", 0) for event in trained)
    amounts = [
        (_total(trained, "tokens"), rollout, "sampled"),
        (prompts, rollout, "of prompts"),
        (_total(trained, "update_tokens"), update, "in updates"),
    ]
    yield "tokens", ", ".join(f"{count(n)} {name}{_speed(n, time)}" for n, time, name in amounts)
    keys = {"in passes": "pass_seconds", "in environments": "environment_seconds"}
    parts = [f"{short_duration(time)} {where}" for where, key in keys.items() if (time := _total(trained, key))]
    within = f" ({', '.join(parts)})" if parts else ""
    yield "time", ", ".join([
        f"rollouts {duration(rollout)}{within}",
        f"updates {duration(update)}",
        f"loading weights {short_duration(_total(trained, 'load_seconds'))}",
    ])  # fmt: skip
    shares = [(name, _utilisation(trained, key)) for key, name in (("mfu", "MFU"), ("hfu", "with repeated passes"))]
    if any(share for _, share in shares):
        yield "updates", ", ".join(f"{name} {percent(share)}" for name, share in shares)
    peaks = {owner: max(event.get(f"{owner}_memory") or 0 for event in trained) for owner in OWNERS}
    if any(peaks.values()):
        yield "memory", memory_text({owner: size for owner, size in peaks.items() if size})


def memory_text(sizes: Mapping[str, float]) -> str:
    """Return bytes by the keys of `memory_use` in one line."""
    return ", ".join(f"{OWNERS.get(owner, owner)} {memory(size)}" for owner, size in sizes.items())


def _total(events: Sequence[Event], key: str) -> float:
    return sum(event.get(key) or 0 for event in events)


def _speed(amount: float, seconds: float) -> str:
    return f" ({count(amount / seconds)}/s)" if seconds else ""


def _utilisation(events: Sequence[Event], key: str) -> float:
    """Return the mean share of the device's peak, weighted by the time of the updates."""
    measured = [event for event in events if event.get(key) is not None]
    total = _total(measured, "update_seconds")
    return sum(event[key] * event["update_seconds"] for event in measured) / total if total else 0.0
