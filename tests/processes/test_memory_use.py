"""Peaks of memory, with a GPU that is made up."""

import sys
from types import SimpleNamespace

import pytest

from turncredit.processes.memory_use import memory_use


def cards(*, initialized=True, peaks=(), free_and_total=()):
    """What torch says of some GPUs."""
    return SimpleNamespace(
        is_initialized=lambda: initialized,
        device_count=lambda: len(peaks),
        max_memory_allocated=lambda device: peaks[device],
        mem_get_info=lambda device: free_and_total[device],
    )


def test_the_fullest_gpu_counts_and_other_processes_on_it(monkeypatch: pytest.MonkeyPatch) -> None:
    gib = 2**30
    two = cards(peaks=(3 * gib, 7 * gib), free_and_total=((70 * gib, 80 * gib), (10 * gib, 80 * gib)))
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(cuda=two))
    sizes = memory_use()
    assert (sizes["device"], sizes["device_used"]) == (7 * gib, 70 * gib)
    assert 2**20 < sizes["process"] < 2**40


@pytest.mark.parametrize("torch", [None, SimpleNamespace(cuda=cards(initialized=False))])
def test_without_a_gpu_there_is_the_process_alone(monkeypatch: pytest.MonkeyPatch, torch: object) -> None:
    monkeypatch.setitem(sys.modules, "torch", torch)  # type: ignore[arg-type]
    assert set(memory_use()) == {"process"}
