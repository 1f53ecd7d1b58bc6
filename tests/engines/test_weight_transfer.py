"""Weights on their way to an engine's workers: tensors of every type and size arrive, and failures end."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from datetime import timedelta
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, ClassVar

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

torch = pytest.importorskip("torch")

from turncredit.agents.errors import EngineFailed, SamplerError  # noqa: E402
from turncredit.agents.models.checkpoint_layout import one_name_each  # noqa: E402
from turncredit.engines import shared_buffer, weight_pieces, weight_transfer  # noqa: E402
from turncredit.engines.shared_buffer import (  # noqa: E402
    plain_handle,
    rebuild_arguments,
    without_expandable_segments,
)
from turncredit.engines.weight_files import on_host  # noqa: E402
from turncredit.engines.weight_pieces import Piece, WeightStream, buckets, pieces_of  # noqa: E402
from turncredit.engines.weight_transfer import (  # noqa: E402
    CheckedClient,
    GlooSender,
    GroupPlace,
    IpcSender,
    NcclSender,
    WeightSender,
    join,
    received,
)

TYPES = [torch.float32, torch.bfloat16, torch.float64, torch.int64]


class FakeEngine:
    """The workers of an engine, as threads; it keeps the phases, and what each worker has at the end of an update."""

    def __init__(self, workers: int, fails: str = "", comes: bool = True) -> None:
        self.workers, self.fails, self.comes = workers, fails, comes
        self.phases: list[str] = []
        self.weights: list[dict[str, Any]] = []
        self._updates: list[dict[str, Any]] = []
        self._groups: list[Any] = []

    def init_weight_transfer_engine(self, init_info: dict[str, Any]) -> None:
        self._enter("init")
        if "file" in init_info and self.comes:
            meeting = GroupPlace(**init_info)
            with ThreadPoolExecutor(self.workers) as pool:
                self._groups = list(pool.map(lambda rank: join(meeting, rank), range(1, self.workers + 1)))

    def start_weight_update(self) -> None:
        self._enter("start")
        self._updates = [{} for _ in range(self.workers)]

    def update_weights(self, update_info: Mapping[str, Any]) -> None:
        pieces = pieces_in(update_info)
        with ThreadPoolExecutor(self.workers) as pool:
            tables = list(pool.map(lambda group: dict(received(group, pieces)), self._groups))
        self._enter("update")
        for update, table in zip(self._updates, tables, strict=True):
            update |= table

    def update_shared_weights(self, update_info: Mapping[str, Any]) -> None:
        self._enter("update")
        json.dumps(update_info)  # it travels as JSON or msgpack
        pieces, sizes = pieces_in(update_info), update_info["tensor_sizes"]
        for update, (uuid, handle) in zip(self._updates, update_info["handles"].items(), strict=True):
            parts = FakeBuffer.of(uuid, handle).split(sizes)
            for piece, part in zip(pieces, parts, strict=True):
                update[piece.name] = part.view(piece.dtype).view(piece.shape).clone()

    def finish_weight_update(self, weight_version: str | None = None) -> None:
        self._enter("finish")
        self.weights = self._updates

    def abandon_weight_update(self) -> None:
        self._enter("abandon")

    def _enter(self, phase: str) -> None:
        self.phases.append(phase)
        if phase == self.fails:
            raise SamplerError(f"{phase} failed")


def pieces_in(update_info: Mapping[str, Any]) -> list[Piece]:
    columns = (update_info[name] for name in ("names", "shapes", "dtype_names"))
    return [Piece(name, tuple(shape), kind) for name, shape, kind in zip(*columns, strict=True)]


class FakeBuffer(shared_buffer.SharedBuffer):
    """Bytes in main memory, in the place of those on a GPU."""

    held: ClassVar[dict[str, FakeBuffer]] = {}
    sizes: ClassVar[list[int]] = []

    def __init__(self, device: str, size: int) -> None:
        self.uuid, self.handle = f"GPU-{device}", [size]
        self._bytes = torch.empty(size, dtype=torch.uint8)
        self.waited = True
        FakeBuffer.held[self.uuid] = self
        FakeBuffer.sizes.append(size)

    @classmethod
    def of(cls, uuid: str, handle: Sequence[object]) -> Any:
        buffer = cls.held[uuid]
        assert handle == buffer.handle
        assert buffer.waited, "the reader would see copies in progress"
        return buffer._bytes[: buffer.end]

    def put(self, tensor: Any, dtype: Any, start: int) -> int:
        self.waited, self.end = False, super().put(tensor, dtype, start)
        return self.end

    def copy(self, other: Any, end: int) -> None:
        self.waited, self.end = False, end
        super().copy(other, end)

    def wait(self) -> None:
        self.waited = True

    def free(self) -> None:
        del FakeBuffer.held[self.uuid]


@pytest.fixture
def fake_buffers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(weight_transfer, "SharedBuffer", FakeBuffer)
    monkeypatch.setattr(FakeBuffer, "held", {})
    monkeypatch.setattr(FakeBuffer, "sizes", [])


def sender_of(way: str, engine: FakeEngine) -> WeightSender:
    if way == "gloo":
        return GlooSender(engine, engine.workers)
    return IpcSender(engine, [f"cuda:{number}" for number in range(engine.workers)])


SHAPES = st.lists(st.tuples(st.lists(st.integers(0, 5), max_size=3), st.sampled_from(TYPES)), min_size=1, max_size=8)


@pytest.mark.parametrize("way", ["gloo", "ipc"])
@settings(max_examples=15, deadline=None)
@example(shapes=[([0], torch.float32), ([0], torch.float32)], bucket=1)
@example(shapes=[([3], torch.bfloat16), ([3], torch.float32), ([3], torch.bfloat16)], bucket=2**20)
@given(shapes=SHAPES, bucket=st.sampled_from([1, 64, 2**20]))
def test_every_tensor_arrives(shapes: list[tuple[list[int], Any]], bucket: int, way: str) -> None:
    weights = {f"weight {n}": (torch.randn(shape) * 9).to(dtype) for n, (shape, dtype) in enumerate(shapes)}
    engine = FakeEngine(2)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(weight_transfer, "SharedBuffer", FakeBuffer)
        patch.setattr(weight_pieces, "BUCKET", bucket)
        sender = sender_of(way, engine)
        for _ in range(2):  # the second time they have met
            sender.send(weights, pieces_of(weights))
            for worker in engine.weights:
                assert list(worker) == list(weights)
                for name, tensor in weights.items():
                    assert worker[name].dtype == tensor.dtype
                    assert torch.equal(worker[name], tensor)
            engine.weights = []
        sender.close()
    assert engine.phases[0] == "init"
    assert engine.phases.count("init") == 1
    assert [phase for phase in engine.phases if phase in ("start", "finish")] == ["start", "finish"] * 2
    assert FakeBuffer.held == {}


@pytest.mark.parametrize("way", ["gloo", "ipc"])
def test_floats_are_sent_in_the_type_of_the_engine(way: str, fake_buffers: None) -> None:
    weights = {"a": torch.randn(3, 4).t(), "steps": torch.arange(3)}
    engine = FakeEngine(2)
    sender = sender_of(way, engine)
    sender.send(weights, pieces_of(weights, torch.bfloat16))
    sender.close()
    for worker in engine.weights:
        assert torch.equal(worker["a"], weights["a"].bfloat16())
        assert torch.equal(worker["steps"], weights["steps"])
    assert set(sender.seconds) == {"init", "start", "gather", "pack", "update", "finish"} | (
        {"send"} if way == "gloo" else set()
    )


def test_a_buffer_is_as_large_as_the_largest_bucket(monkeypatch: pytest.MonkeyPatch, fake_buffers: None) -> None:
    monkeypatch.setattr(weight_pieces, "BUCKET", 40)
    weights = {"a": torch.ones(4), "b": torch.ones(5), "c": torch.ones(20), "d": torch.ones(2)}
    engine = FakeEngine(1)
    IpcSender(engine, ["cuda:0"]).send(weights, pieces_of(weights))
    assert FakeBuffer.sizes == [80]  # of the tensor that is larger than a bucket
    assert engine.phases == ["init", "start", *["update"] * 3, "finish"]
    assert [[piece.name for piece in bucket] for bucket in buckets(pieces_of(weights), 40)] == [
        ["a", "b"],
        ["c"],
        ["d"],
    ]


def test_weights_keep_their_type_unless_another_is_named() -> None:
    floats, numbers = torch.ones(2, dtype=torch.float64), torch.arange(2)
    assert on_host(floats, None).dtype == torch.float64
    assert on_host(floats, torch.bfloat16).dtype == torch.bfloat16
    assert on_host(numbers, torch.bfloat16).dtype == torch.int64


@pytest.mark.parametrize("fails", ["", "update", "finish"])
def test_no_buffer_is_held_after_a_load(fails: str, fake_buffers: None) -> None:
    engine = FakeEngine(2)
    engine.fails = fails
    sender = sender_of("ipc", engine)
    weights = {"w": torch.ones(4)}
    with pytest.raises(SamplerError) if fails else nullcontext():
        sender.send(weights, pieces_of(weights))
    assert FakeBuffer.sizes
    assert not FakeBuffer.held


def test_a_second_name_is_sent_if_the_engine_has_it() -> None:
    shared = torch.randn(2, 3)
    weights = {"embedding": shared, "head": shared, "norm": torch.ones(3)}
    assert [piece.name for piece in pieces_of(weights)] == ["embedding", "norm"]
    assert [piece.name for piece in pieces_of(weights, names={"head"})] == ["embedding", "head", "norm"]
    assert [name for name, _ in one_name_each(weights, {"head"})] == ["embedding", "head", "norm"]


class Failing(Mapping[str, Any]):
    """Named tensors of which one cannot be had."""

    def __init__(self, tensors: Mapping[str, Any], bad: str) -> None:
        self._tensors, self.bad = tensors, bad

    def __getitem__(self, name: str) -> Any:
        if name == self.bad:
            raise RuntimeError("out of memory")
        return self._tensors[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._tensors)

    def __len__(self) -> int:
        return len(self._tensors)

    def values(self) -> Any:
        return self._tensors.values()


@pytest.mark.parametrize("way", ["gloo", "ipc"])
def test_a_tensor_that_cannot_be_had_leaves_nobody_waiting(way: str, fake_buffers: None) -> None:
    tensors = {name: torch.randn(3) for name in "abcd"}
    weights, engine = Failing(tensors, "b"), FakeEngine(2)
    sender = sender_of(way, engine)
    with pytest.raises(SamplerError, match=r"could not be sent to the engine's workers: out of memory"):
        sender.send(weights, pieces_of(tensors))
    assert engine.phases[-1] == "abandon"
    assert "finish" not in engine.phases
    assert FakeBuffer.held == {}
    weights.bad = ""
    sender.send(weights, pieces_of(tensors))
    sender.close()
    assert all(torch.equal(worker[name], tensors[name]) for worker in engine.weights for name in tensors)


@pytest.mark.parametrize("fails", ["start", "update", "finish"])
@pytest.mark.parametrize("way", ["gloo", "ipc"])
def test_workers_that_fail_are_an_error_after_which_weights_can_be_sent_again(
    way: str, fails: str, fake_buffers: None
) -> None:
    weights, engine = {"a": torch.randn(3)}, FakeEngine(2, fails)
    sender = sender_of(way, engine)
    with pytest.raises(SamplerError, match=f"could not be sent to the engine's workers: {fails} failed"):
        sender.send(weights, pieces_of(weights))
    assert engine.phases[-2:] == [fails, "abandon"]
    assert FakeBuffer.held == {}
    engine.fails, engine.phases = "", []
    sender.send(weights, pieces_of(weights))
    sender.close()
    assert engine.phases == ["init", "start", "update", "finish"]


def test_an_update_that_could_not_be_abandoned_is_abandoned_before_the_next(fake_buffers: None) -> None:
    weights, engine = {"a": torch.randn(3)}, FakeEngine(1, "update")
    sender = sender_of("ipc", engine)
    engine._enter = lambda phase: _fail_twice(engine, phase)  # type: ignore[method-assign]
    with pytest.raises(SamplerError, match="update failed"):
        sender.send(weights, pieces_of(weights))
    del engine._enter
    engine.fails, engine.phases = "", []
    sender.send(weights, pieces_of(weights))
    assert engine.phases == ["abandon", "init", "start", "update", "finish"]


def _fail_twice(engine: FakeEngine, phase: str) -> None:
    engine.phases.append(phase)
    if phase in ("update", "abandon"):
        raise SamplerError(f"{phase} failed")


def test_an_engine_that_has_ended_says_so(fake_buffers: None) -> None:
    weights, engine = {"a": torch.ones(2)}, FakeEngine(1)
    engine.start_weight_update = _end  # type: ignore[method-assign]
    with pytest.raises(EngineFailed, match="it has ended"):
        sender_of("ipc", engine).send(weights, pieces_of(weights))
    assert engine.phases == ["init"]  # nobody is asked to abandon anything


def _end() -> None:
    raise EngineFailed("it has ended")


def test_a_worker_that_does_not_come_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(weight_transfer, "TIMEOUT", timedelta(seconds=0.5))
    sender, weights = GlooSender(FakeEngine(1, comes=False), 1), {"a": torch.ones(2)}
    with pytest.raises(SamplerError, match="could not be sent to the engine's workers"):
        sender.send(weights, pieces_of(weights))
    assert isinstance(sender._folder, Path)
    assert not sender._folder.exists()


def test_an_update_with_empty_tensors_is_not_finished() -> None:
    """vLLM's own sender goes through the phases by itself, so its client keeps it from the last one."""
    tensors, engine = {name: torch.ones(2) for name in "ab"}, FakeEngine(1)
    stream = WeightStream(Failing(tensors, "a"), pieces_of(tensors, torch.bfloat16))
    assert [(name, tensor.shape, tensor.dtype) for name, tensor in stream] == [
        ("a", (2,), torch.bfloat16),
        ("b", (2,), torch.bfloat16),
    ]
    with pytest.raises(RuntimeError, match="out of memory"):
        CheckedClient(engine, stream).finish_weight_update()
    assert engine.phases == []
    whole = WeightStream(tensors, pieces_of(tensors))
    assert len(list(whole)) == 2
    CheckedClient(engine, whole).finish_weight_update()
    assert engine.phases == ["finish"]


class FakeTrainer:
    """vLLM's own sender, as far as it calls its client and its source; the tensors arrive by themselves."""

    def __init__(self, info: Any, client: Any, source: Any) -> None:
        self.info, self.client, self.source, self.left = info, client, source, False
        self._read()
        client.init_weight_transfer_engine({"world_size": info.world_size})

    def send_weights(self) -> None:
        described, tensors = self._read()
        pieces = [(entry.name, entry.dtype, tuple(entry.shape)) for entry in described]
        self.client.start_weight_update()
        assert [(name, tensor.dtype, tuple(tensor.shape)) for name, tensor in tensors] == pieces
        self.client.finish_weight_update()

    def _read(self) -> tuple[Any, Any]:
        return self.source.metadata(), iter(self.source)

    def shutdown(self) -> None:
        self.left = True


class FakeLaterTrainer(FakeTrainer):
    """The sender of vLLM 0.33, which reads descriptions as an attribute, and sends only what rank 0 has."""

    def _read(self) -> tuple[Any, Any]:
        assert self.source.implements_iter_full()
        assert all(entry.owners is None or entry.owners[0] == 0 for entry in self.source.metadata)
        return self.source.metadata, self.source.iter_full()


@pytest.mark.parametrize(
    ("trainer_class", "source_class"),
    [(FakeTrainer, SimpleNamespace()), (FakeLaterTrainer, SimpleNamespace(iter_full=None))],
    ids=["0.32", "0.33"],
)
def test_with_nccl_vllms_own_sender_goes_through_the_phases(
    monkeypatch: pytest.MonkeyPatch, trainer_class: type, source_class: object
) -> None:
    package, engine_module = ModuleType("weight_transfer"), ModuleType("nccl_engine")
    package.WeightTransferTrainerFactory = SimpleNamespace(trainer_init=trainer_class)  # type: ignore[attr-defined]
    package.WeightSource = source_class  # type: ignore[attr-defined]
    engine_module.NCCLTrainerInitInfo = SimpleNamespace  # type: ignore[attr-defined]
    path = "vllm.distributed.weight_transfer"
    for name, module in (("vllm", ModuleType("vllm")), ("vllm.distributed", ModuleType("distributed"))):
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.setitem(sys.modules, path, package)
    monkeypatch.setitem(sys.modules, f"{path}.nccl_engine", engine_module)
    monkeypatch.setattr(torch.cuda, "device", lambda name: nullcontext())
    tensors, engine = {name: torch.ones(2) for name in "ab"}, FakeEngine(3)
    weights = Failing(tensors, "")
    sender = NcclSender(engine, 3, "cpu")
    for _ in range(2):
        sender.send(weights, pieces_of(tensors, torch.bfloat16))
    assert engine.phases == ["init", "start", "finish", "start", "finish"]
    trainer: Any = sender._trainer
    assert (trainer.info.rank, trainer.info.world_size) == (0, 4)
    weights.bad = "b"
    with pytest.raises(SamplerError, match="could not be sent to the engine's workers: out of memory"):
        sender.send(weights, pieces_of(tensors, torch.bfloat16))
    assert engine.phases[5:] == ["start", "abandon"]
    assert trainer.left  # the next weights meet the workers again


def test_weights_that_change_on_the_way_are_an_error() -> None:
    stream = WeightStream({"a": torch.ones(3)}, [Piece("a", (2,), "float32")])
    assert [tensor.shape for tensor in stream.tensors()] == [(2,)]
    with pytest.raises(SamplerError, match=r"a was to follow, got a \[3\]"):
        stream.check()


def test_a_handle_travels_as_plain_values() -> None:
    handle = (
        torch.Tensor,
        torch.Size([80]),
        (1,),
        0,
        torch.storage.TypedStorage,
        torch.uint8,
        3,
        b"\x00\xffhandle",
        80,
        512,
        False,
        b"/torch_1_2",
        7,
        b"event",
        True,
    )
    plain = json.loads(json.dumps(plain_handle(handle)))
    assert rebuild_arguments(plain, 3) == handle
    assert rebuild_arguments(plain, 0)[6] == 0  # the reader has a number of its own for the GPU
    assert isinstance(rebuild_arguments(plain, 0)[1], torch.Size)


@pytest.mark.parametrize(
    ("before", "inside"),
    [
        ("", []),
        ("max_split_size_mb:512", []),
        (
            "expandable_segments:True,max_split_size_mb:512",
            [
                "max_split_size_mb:512,expandable_segments:False",
                "expandable_segments:True,max_split_size_mb:512",
            ],
        ),
    ],
)
def test_a_buffer_lies_in_no_expandable_segment(
    monkeypatch: pytest.MonkeyPatch, before: str, inside: list[str]
) -> None:
    written: list[str] = []
    monkeypatch.setattr(torch._C, "_accelerator_setAllocatorSettings", written.append, raising=False)
    monkeypatch.delenv("PYTORCH_ALLOC_CONF", raising=False)
    monkeypatch.setenv("PYTORCH_CUDA_ALLOC_CONF", before)
    with without_expandable_segments():
        assert written == inside[:1]
    assert written == inside


@pytest.mark.gpu
def test_another_process_reads_what_a_shared_buffer_has(tmp_path: Path) -> None:
    """The reader is a process of its own, as vLLM's worker is; it answers with the sum of what it reads."""
    import subprocess

    buffer = shared_buffer.SharedBuffer("cuda:0", 4096)
    end = buffer.put(torch.arange(1000, dtype=torch.float32), torch.bfloat16, 0)
    buffer.wait()
    script = (
        "import json, sys, torch\n"
        "from torch.multiprocessing.reductions import rebuild_cuda_tensor\n"
        "from turncredit.engines.shared_buffer import rebuild_arguments\n"
        "handle, end = json.loads(sys.argv[1])\n"
        "view = rebuild_cuda_tensor(*rebuild_arguments(handle, 0))\n"
        "print(float(view[:end].view(torch.bfloat16).double().sum()))\n"
    )
    command = [sys.executable, "-c", script, json.dumps([buffer.handle, end])]
    output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert float(output) == float(torch.arange(1000, dtype=torch.float32).bfloat16().double().sum())
    buffer.free()
