"""Weights that are sent through a process group: every tensor arrives, whatever its type and size, and failures end."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

torch = pytest.importorskip("torch")

from turnwise.agents.errors import SamplerError  # noqa: E402
from turnwise.agents.models.checkpoint_layout import one_name_each  # noqa: E402
from turnwise.agents.samplers import weight_group  # noqa: E402
from turnwise.agents.samplers.weight_group import WeightReceiver, WeightSender, pieces_of  # noqa: E402

TYPES = [torch.float32, torch.bfloat16, torch.float64, torch.int64]


def received(
    sender: WeightSender, weights: Mapping[str, Any], dtype: Any = None, times: int = 1
) -> list[dict[str, Any]]:
    """Return what each of two workers receives; each of several times."""
    pieces = pieces_of(weights, dtype)

    def work(rank: int) -> list[dict[str, Any]]:
        receiver = WeightReceiver(sender.rendezvous, rank, "cpu")
        return [dict(receiver.tensors(pieces)) for _ in range(times)]

    with ThreadPoolExecutor(2) as pool:
        workers = [pool.submit(work, rank) for rank in (1, 2)]
        for _ in range(times):
            sender.send(weights, pieces)
        return [one for worker in workers for one in worker.result()]


SHAPES = st.lists(st.tuples(st.lists(st.integers(0, 5), max_size=3), st.sampled_from(TYPES)), min_size=1, max_size=8)


@settings(max_examples=15, deadline=None)
@example(shapes=[([0], torch.float32), ([0], torch.float32)], bucket=1)
@given(shapes=SHAPES, bucket=st.sampled_from([1, 64, 2**20]))
def test_every_tensor_arrives(shapes: list[tuple[list[int], Any]], bucket: int) -> None:
    weights = {f"weight {n}": (torch.randn(shape) * 9).to(dtype) for n, (shape, dtype) in enumerate(shapes)}
    sender = WeightSender(2, "gloo")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(weight_group, "BUCKET", bucket)
        found = received(sender, weights, times=2)
    sender.close()
    assert len(found) == 4
    for one in found:
        assert list(one) == list(weights)
        for name, tensor in weights.items():
            assert one[name].dtype == tensor.dtype
            assert torch.equal(one[name], tensor)


def test_floats_are_sent_in_the_type_of_the_engine() -> None:
    weights = {"a": torch.randn(3, 4).t(), "steps": torch.arange(3)}
    sender = WeightSender(2, "gloo")
    for one in received(sender, weights, torch.bfloat16):
        assert torch.equal(one["a"], weights["a"].bfloat16())
        assert torch.equal(one["steps"], weights["steps"])
    sender.close()


def test_a_second_name_is_sent_if_the_engine_has_it() -> None:
    shared = torch.randn(2, 3)
    weights = {"embedding": shared, "head": shared, "norm": torch.ones(3)}
    assert [name for name, _, _ in pieces_of(weights)] == ["embedding", "norm"]
    assert [name for name, _, _ in pieces_of(weights, names={"head"})] == ["embedding", "head", "norm"]
    assert [name for name, _ in one_name_each(weights, {"head"})] == ["embedding", "head", "norm"]


def test_a_worker_that_does_not_come_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    from datetime import timedelta

    monkeypatch.setattr(weight_group, "TIMEOUT", timedelta(seconds=0.5))
    sender, weights = WeightSender(1, "gloo"), {"a": torch.ones(2)}
    folder = Path(sender.rendezvous.file).parent
    with pytest.raises(SamplerError, match="could not be sent to the engine's workers"):
        sender.send(weights, pieces_of(weights))
    assert not folder.exists()
