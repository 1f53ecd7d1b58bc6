"""Engine and learner on one GPU: the runs that we ship start and fit, and those that do not are refused in advance."""

from __future__ import annotations

import re
import tomllib
from functools import cache
from pathlib import Path

import pytest
from toys.gpus import GIB, Card, CardFull, FakeMemory

pytest.importorskip("torch")
from transformers import Qwen2Config, Qwen3Config

from turncredit.training import Run
from turncredit.training.errors import NotEnoughMemory
from turncredit.training.hardware import plan as plans
from turncredit.training.hardware.card_layout import LIBRARIES, shares_card
from turncredit.training.hardware.plan import EpisodeLengths, Gpu, make_plan
from turncredit.training.learner.make_learner import memory_needs
from turncredit.training.learner.memory import MemoryEstimate, MemoryNeeds, estimate
from turncredit.training.preflight import shared_card
from turncredit.training.preflight.effects import set_without_effect
from turncredit.training.preflight.shared_card import lay_out_card

ROOT = Path(__file__).resolve().parents[2]
QWEN = {"num_hidden_layers": 28, "max_position_embeddings": 32768}
SMALL = {"hidden_size": 1536, "intermediate_size": 8960, "num_attention_heads": 12, "num_key_value_heads": 2}
LARGE = {"hidden_size": 3584, "intermediate_size": 18944, "num_attention_heads": 28, "num_key_value_heads": 4}
FOUR = {"hidden_size": 2560, "intermediate_size": 9728, "num_attention_heads": 32, "num_key_value_heads": 8}
CONFIGS = {  # Qwen2.5-1.5B, Qwen2.5-7B and Qwen3-4B
    "1.5B": Qwen2Config(vocab_size=151936, tie_word_embeddings=True, **QWEN, **SMALL),
    "7B": Qwen2Config(vocab_size=152064, tie_word_embeddings=False, **QWEN, **LARGE),
    "4B": Qwen3Config(
        vocab_size=151936,
        tie_word_embeddings=True,
        num_hidden_layers=36,
        head_dim=128,
        max_position_embeddings=40960,
        **FOUR,
    ),
}
PARAMETERS = {"1.5B": 1_543_714_304, "7B": 7_615_616_512, "4B": 4_022_468_096}
"""As Hugging Face counts them."""
CARDS = {24: 23.5 * GIB, 80: 79.1 * GIB}
"""What an RTX 4090 and an H100 have for programs."""
FULL = ("policy.lora={}", "sampler.options={sleep=true}", "train.lr=1e-6")


@pytest.fixture(scope="module", autouse=True)
def each_estimate_once():
    """Let the same model and the same needs be estimated once, since that takes seconds."""
    known: dict[tuple[int, str], MemoryEstimate] = {}

    def once(config: object, needs: MemoryNeeds) -> MemoryEstimate:
        key = id(config), repr(needs)
        if key not in known:
            known[key] = estimate(config, needs)
        return known[key]

    with pytest.MonkeyPatch.context() as patch:
        for module in (plans, shared_card):
            patch.setattr(module, "estimate", once)
        yield


def docs_run() -> dict[str, object]:
    """Return the run of "A 7B model on one GPU"."""
    text = (ROOT / "docs/training.md").read_text(encoding="utf-8")
    block = re.search(r'```toml\n(name = "household-7b".*?)```', text, re.DOTALL)
    assert block is not None
    return tomllib.loads(block[1])


def make_run(source: str, *overrides: str) -> Run:
    if source == "docs":
        return Run.parse(docs_run(), list(overrides))
    return Run.load(ROOT / "examples" / source, list(overrides))


@cache
def plan(source: str, model: str, card: int, overrides: tuple[str, ...] = ()):
    run, device = make_run(source, *overrides), Gpu(CARDS[card], 989e12, 3350e9)
    return run, make_plan(run, CONFIGS[model], 1, device, EpisodeLengths.most(run))


SHIPPED = [
    ("qwen_alfworld.toml", "1.5B", 24, ()),
    ("qwen_webshop.toml", "1.5B", 24, ()),
    ("qwen_alfworld.toml", "4B", 80, ()),
    ("qwen_alfworld.toml", "1.5B", 80, FULL),
    ("docs", "7B", 80, ()),
    ("docs", "7B", 80, ("sampler.kv_cache_gib=0",)),  # the plan's own cache
    ("qwen_alfworld.toml", "1.5B", 24, ("sampler.kv_cache_gib=0",)),
]


@pytest.mark.parametrize(("source", "model", "card", "overrides"), SHIPPED)
def test_what_we_ship_starts_and_goes_round(source, model, card, overrides):
    """Replay an iteration on a card that counts: start beside the learner, sleep, update, weights, KV cache."""
    run, found = plan(source, model, card, overrides)
    layout = found.splits[0].layout
    assert layout.fits(), layout.problem
    engine, card_ = layout.engine, Card(CARDS[card])
    assert engine.weights == 2 * PARAMETERS[model]  # bfloat16
    if run.sampler.kv_cache_gib:
        assert engine.cache == run.sampler.kv_cache_gib * GIB
    assert engine.cache >= engine.sequence
    memory = found.memory
    resting = memory.weights + memory.optimizer + memory.reference
    card_.hold("learner", resting + 0.75 * GIB)
    card_.start_vllm(engine.parts, layout.utilization)
    for _ in range(2):
        card_.hold("learner scores", memory.logits)
        card_.drop("learner scores")
        card_.sleep_vllm()
        card_.hold("learner updates", memory.gradients + memory.activations + memory.logits)
        card_.drop("learner updates")
        card_.hold("vllm: weights", engine.weights)
        card_.hold("vllm: adapters", engine.adapters)
        card_.hold("vllm: cache", engine.cache)
        card_.hold("vllm: activations", engine.activations)
    assert card_.peak <= layout.peak.together <= CARDS[card]


@pytest.mark.parametrize(("source", "model", "card", "overrides"), SHIPPED[:5])
def test_with_vllms_own_utilization_none_of_them_would_start(source, model, card, overrides):
    """The reason for all this: at 0.92, which vLLM wants whatever the size of the KV cache is, nothing starts."""
    _, found = plan(source, model, card, overrides)
    layout, card_ = found.splits[0].layout, Card(CARDS[card])
    card_.hold("learner", layout.learner.resting)
    with pytest.raises(ValueError, match="is less than desired GPU memory utilization"):
        card_.start_vllm(layout.engine.parts, 0.92)
    words = "sampler.options.gpu_memory_utilization=0.92"
    _, asked = plan(source, model, card, (*overrides, words))
    assert "vLLM wants" in asked.splits[0].layout.problem
    assert "gpu_memory_utilization = 0.92" in asked.splits[0].layout.problem


def test_the_utilization_lets_vllm_start_in_what_is_left_and_not_in_less():
    _, found = plan("qwen_alfworld.toml", "1.5B", 24)
    layout = found.splits[0].layout
    engine, total = layout.engine, int(CARDS[24])
    others = total - engine.total
    card = Card(total)
    card.hold("learner", others)
    card.start_vllm(engine.parts, layout.utilization)  # it takes all there is
    assert card.free == 0
    card = Card(total)
    card.hold("learner", others + total * 2e-4)  # more than the rounding of the utilization
    with pytest.raises(ValueError, match="Free memory on device"):
        card.start_vllm(engine.parts, layout.utilization)


def test_an_engine_that_stays_awake_counts_in_the_update():
    over = ("sampler.options={enable_lora=true, max_lora_rank=64}",)
    _, awake = plan("qwen_alfworld.toml", "1.5B", 24, over)
    _, asleep = plan("qwen_alfworld.toml", "1.5B", 24)
    for phase in (0, 1, 2):
        assert awake.splits[0].layout.phases[phase] == asleep.splits[0].layout.phases[phase]
    update, resting = awake.splits[0].layout.phases[3], asleep.splits[0].layout.phases[3]
    engine = awake.splits[0].layout.engine
    gone = engine.weights + engine.adapters + engine.cache + engine.activations
    assert update.together - resting.together == gone
    assert plan("qwen_alfworld.toml", "1.5B", 24, ("train.staleness=1",))[1].splits[0].layout.sleeps is False


def test_parked_states_of_the_optimizer_are_missing_between_updates_alone():
    _, plain = plan("qwen_alfworld.toml", "1.5B", 80, FULL)
    _, parked = plan("qwen_alfworld.toml", "1.5B", 80, (*FULL, "train.optimizer.offload=true"))
    before, after = plain.splits[0].layout.phases, parked.splits[0].layout.phases
    for one, other in zip(before[:3], after[:3], strict=True):
        assert one.together - other.together == plain.memory.optimizer == 8 * PARAMETERS["1.5B"]
    assert before[3] == after[3]


def test_parked_weights_leave_the_gpu_to_the_engine():
    words = (*FULL, "objective.kl=0.1")
    _, plain = plan("qwen_alfworld.toml", "1.5B", 80, words)
    _, parked = plan("qwen_alfworld.toml", "1.5B", 80, (*words, "train.optimizer.offload=all"))
    learner = parked.splits[0].layout.learner
    assert learner.resting == learner.scoring == LIBRARIES
    assert plain.splits[0].layout.learner.resting - LIBRARIES == (8 + 4 + 4) * PARAMETERS["1.5B"]
    assert plain.splits[0].layout.phases[3] == parked.splits[0].layout.phases[3]
    assert parked.splits[0].layout.phases[2].learner == LIBRARIES


def test_both_sides_have_the_buffer_of_whole_models_while_weights_are_sent():
    """The embedding of Qwen2.5-1.5B has 151,936 rows of 1,536 numbers, more than 256 MiB in bfloat16."""
    buffer = 2 * 151_936 * 1_536
    layouts = {
        transfer: plan("qwen_alfworld.toml", "1.5B", 80, (*FULL, f"sampler.options.transfer={transfer}"))[1]
        .splits[0]
        .layout
        for transfer in ("auto", "ipc", "files")
    }
    assert layouts["auto"] == layouts["ipc"]
    assert (layouts["ipc"].buffer, layouts["files"].buffer) == (buffer, 0)
    sent, read = layouts["ipc"].phases[1], layouts["files"].phases[1]
    assert sent.engine - read.engine == buffer
    resting = layouts["files"].learner.resting
    assert (sent.learner, read.learner) == (max(read.learner, resting + buffer), layouts["files"].learner.scoring)
    assert [layouts["ipc"].phases[number] for number in (0, 2, 3)] == [
        layouts["files"].phases[number] for number in (0, 2, 3)
    ]
    assert plan("qwen_alfworld.toml", "1.5B", 80)[1].splits[0].layout.buffer == 0, "an adapter is a message"


# -- before a run --


def needs_of(run: Run) -> MemoryNeeds:
    return memory_needs(run.policy, run.train, engine_dtype="bfloat16", here=False, reference=False, ranks=1)


def lay_out(monkeypatch, model: str, gib: float, *overrides: str, source: str = "qwen_alfworld.toml", name="cuda"):
    monkeypatch.setattr(shared_card, "model_configuration", lambda section: CONFIGS[model])
    run = make_run(source, *overrides)
    return lay_out_card(run, needs_of(run), FakeMemory(name, free=gib * GIB, total=gib * GIB))


def test_a_run_has_the_layout_that_the_plan_shows(monkeypatch):
    run, found = plan("qwen_alfworld.toml", "1.5B", 24)
    layout = lay_out(monkeypatch, "1.5B", 23.5)
    assert layout == found.splits[0].layout
    assert layout.cache_gib == run.sampler.kv_cache_gib


@pytest.mark.parametrize(
    ("model", "gib", "overrides", "message"),
    [
        ("7B", 79.1, FULL, r"phase 'update' needs 1\d\d\.\d GiB, and 79\.1 GiB are free.*policy\.lora"),
        (
            "1.5B",
            23.5,
            ("sampler.kv_cache_gib=16",),
            r"phase 'rollouts'.*a smaller sampler\.kv_cache_gib \(it has 16\.0",
        ),
        (
            "7B",
            39.5,
            ("sampler.options={enable_lora=true, max_lora_rank=64}",),
            r"phase 'update'.*consider sampler\.options\.sleep = true",
        ),
        ("1.5B", 23.5, ("sampler.options.gpu_memory_utilization=0.9",), r"vLLM wants 21\.\d GiB .* are free"),
        ("1.5B", 23.5, ("sampler.kv_cache_gib=0.01",), r"the longest sequence needs a KV cache of 0\.07 GiB"),
    ],
)
def test_what_does_not_fit_is_refused_with_numbers_and_choices(monkeypatch, model, gib, overrides, message):
    with pytest.raises(NotEnoughMemory, match=f"do not fit on the GPU cuda: .*{message}"):
        lay_out(monkeypatch, model, gib, *overrides)


def test_an_update_that_fits_with_smaller_micro_batches_is_a_remark(monkeypatch):
    words = ("train.micro_batch=400000", "policy.recompute_activations=false")
    layout = lay_out(monkeypatch, "1.5B", 23.5, *words)
    assert not layout.fits()
    assert re.match(r"the phase 'update' takes \d{3,}% of the GPU's free memory: the engine takes", layout.remark)
    assert lay_out(monkeypatch, "1.5B", 23.5).remark == ""


def test_the_cache_of_a_run_that_sets_none_leaves_room_for_everything(monkeypatch):
    small, large = (lay_out(monkeypatch, "1.5B", gib, "sampler.kv_cache_gib=0") for gib in (13.0, 79.1))
    assert small.engine.cache < large.engine.cache
    assert 0.94 * 13 * GIB < small.peak.together <= 0.95 * 13 * GIB
    blocks = 2560 * 2 * 28 * 2 * 128 * 2  # tokens of a sequence, keys and values, layers, heads, entries, bytes
    assert large.engine.cache == 64 * blocks  # train.concurrency episodes, each as long as the run allows
    assert small.engine.cache >= small.engine.sequence == blocks


def test_memory_of_others_is_not_available(monkeypatch):
    monkeypatch.setattr(shared_card, "model_configuration", lambda section: CONFIGS["1.5B"])
    run = make_run("qwen_alfworld.toml")
    with pytest.raises(NotEnoughMemory, match=r"and 12\.0 GiB are free"):
        lay_out_card(run, needs_of(run), FakeMemory(free=12 * GIB, total=79 * GIB))


@pytest.mark.parametrize(
    ("device", "overrides", "shares"),
    [
        ("cuda", [], True),
        ("cuda:0", [], True),
        ("cuda:1", [], False),
        ("cuda:1", ["sampler.options.tensor_parallel_size=2"], True),
        ("cpu", [], False),
        ("cuda", ["cluster.address=local"], False),
        ("cuda", ["sampler={engine='transformers'}"], False),
    ],
)
def test_who_shares_a_gpu(device, overrides, shares):
    run = make_run("qwen_alfworld.toml", *overrides)
    assert shares_card(run, device) is shares
    if not shares:
        assert lay_out_card(run, needs_of(run), FakeMemory(device, free=GIB, total=GIB)) is None


def test_parking_needs_an_engine_that_takes_turns():
    word = "train.optimizer.offload=true"
    assert not set_without_effect(make_run("qwen_alfworld.toml", word))
    for other in ("train.staleness=1", "sampler={engine='transformers'}", "policy.device=cpu"):
        keys = set_without_effect(make_run("qwen_alfworld.toml", word, other))
        assert ["train.optimizer.offload"] in keys.values()


def test_a_card_that_is_full_is_an_error():
    card = Card(10.0)
    card.hold("a", 8)
    with pytest.raises(CardFull):
        card.hold("b", 3)
