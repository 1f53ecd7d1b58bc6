"""The plan of a run on several GPUs: its arithmetic by hand, and laws that hold for every run."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import Qwen3MoeConfig

from turncredit.training import ConfigError, Run
from turncredit.training.hardware.plan import EpisodeLengths, Gpu, Split, make_plan, rollout_seconds, update_seconds
from turncredit.training.hardware.split_commands import describe_split, start_command
from turncredit.training.learner.memory import cache_bytes
from turncredit.training.learner.policy import policy_config

SIZES = {"vocab": 300, "hidden": 32, "layers": 2, "heads": 2}
CONFIG = policy_config(**SIZES, context=128)
DEVICE = Gpu(memory=8 * 2**30, flops=1e12, bandwidth=1e9, learner_efficiency=1.0, engine_efficiency=1.0)


def make_run(*overrides):
    return Run.parse({"policy": {"new": SIZES, "context": 128}, "imitation": {"episodes": 1}}, list(overrides))


EPISODES = EpisodeLengths(count=64, sampled=6400.0, computed=64000.0, length=100, tail=3.0)


@pytest.mark.parametrize(
    ("overrides", "passes"),
    [
        ([], 6),
        (["policy.recompute_activations=true"], 8),
        (['objective.old_logprobs="recomputed"'], 8),
        (["objective.kl=0.1"], 8),
        (["train.staleness=1"], 8),  # recomputes by default
        (["policy.lora={rank=4}", 'policy.model="x"'], 4),
    ],
)
def test_an_update_by_hand(overrides, passes):
    assert update_seconds(make_run(*overrides), 1_000_000, 2, DEVICE, EPISODES) == pytest.approx(
        passes * 1e6 * 64000 / 2e12
    )


def test_a_rollout_by_hand():
    """64 episodes on 2 GPUs: 32 at once; a step reads the weights and half a full cache of each."""
    cache = cache_bytes(CONFIG, dtype="bfloat16") * 50
    step = max((2e6 + 32 * cache) / 1e9, 2e6 * 32 / 1e12)
    alone = (2e6 + cache) / 1e9
    prompts = 2e6 * (64000 - 6400) / 2e12
    busy = 6400 / 2 / 32 * step + prompts
    half = "policy.dtype=bfloat16"
    assert rollout_seconds(make_run(half), CONFIG, 1_000_000, 2, DEVICE, EPISODES) == pytest.approx(busy + 200 * alone)
    ahead = make_run(half, "train.staleness=2")  # nobody waits for the longest episode
    assert rollout_seconds(ahead, CONFIG, 1_000_000, 2, DEVICE, EPISODES) == pytest.approx(busy)
    whole = make_run("sampler.dtype=float32", half, "train.staleness=2")
    twice = 6400 / 2 / 32 * (4e6 + 32 * 2 * cache) / 1e9 + prompts
    assert rollout_seconds(whole, CONFIG, 1_000_000, 2, DEVICE, EPISODES) == pytest.approx(twice)


def test_an_engine_on_several_gpus_reads_its_weights_from_all_of_them():
    """64 episodes on 4 GPUs: one engine of 4 decodes all of them, reading a quarter of everything from each GPU."""
    cache = cache_bytes(CONFIG, dtype="bfloat16") * 50
    step = max((2e6 + 64 * cache) / 1e9, 2e6 * 64 / 1e12) / 4
    prompts = 2e6 * (64000 - 6400) / 4e12
    parallel = make_run(
        "policy.dtype=bfloat16",
        "train.staleness=1",
        "sampler.options={tensor_parallel_size=2, pipeline_parallel_size=2}",
    )
    expected = pytest.approx(6400 / 64 * step + prompts)
    assert rollout_seconds(parallel, CONFIG, 1_000_000, 4, DEVICE, EPISODES) == expected
    found = make_plan(parallel, CONFIG, 9, DEVICE, EPISODES).splits
    assert [(one.engines, one.learners) for one in found] == [(0, 9), (4, 5), (8, 1)]
    with pytest.raises(ConfigError, match=r"one engine computes on 4 GPUs, as sampler\.options says, and gpus is 3"):
        make_plan(parallel, CONFIG, 3, DEVICE, EPISODES)
    for size in ("0", "-2", '"two"', "1.5"):
        with pytest.raises(ConfigError, match="tensor_parallel_size must be an integer >= 1"):
            make_plan(make_run(f"sampler.options={{tensor_parallel_size={size}}}"), CONFIG, 4, DEVICE, EPISODES)


@pytest.mark.parametrize(
    ("overrides", "at_once"),
    [
        ([], 64),
        (["train.staleness=2"], 192),
        (["train.staleness.spare_groups=3"], 88),
        (["train.staleness=2", "train.staleness.spare_groups=3"], 216),
    ],
)
def test_the_cache_holds_every_episode_that_may_be_in_play(overrides, at_once):
    eager = "sampler.options.graphs=false"
    run = make_run("train.concurrency=200", eager, *overrides)
    engine = make_plan(run, CONFIG, 2, DEVICE, EPISODES).splits[1]
    model = make_plan(make_run("sampler.kv_cache_gib=1e-9", eager), CONFIG, 2, DEVICE, EPISODES).splits[1].engine_bytes
    cache = cache_bytes(CONFIG, dtype="float32") * EPISODES.length
    assert engine.engine_bytes - model == pytest.approx(min(at_once, 200) * cache, abs=2)


def test_the_cache_of_vllm_has_its_size_on_each_gpu_of_an_engine():
    """vLLM's kv_cache_memory_bytes is for each GPU; weights are divided."""
    words = ["sampler.engine=vllm", "sampler.kv_cache_gib=0.5", "policy.dtype=bfloat16"]
    plans = {
        gpus: make_plan(
            make_run(*words, f"sampler.options={{tensor_parallel_size={gpus}, enforce_eager=true}}"),
            CONFIG,
            2 * gpus,
            DEVICE,
            EPISODES,
        )
        for gpus in (1, 2)
    }
    one, two = (plan.splits[1].engine_bytes for plan in plans.values())
    layers = 2 * 2048 * (6 * 32 + 3 * 96)  # bytes, tokens, hidden sizes, widths
    assert one == 2 * plans[1].parameters + 2**29 + layers + 32 * 64 * 300 + 2**30
    assert one - two == plans[1].parameters + layers / 2
    layout = plans[1].splits[0].layout
    assert layout is not None
    assert plans[1].splits[0].engine_bytes == layout.engine.total
    assert plans[1].splits[1].layout is None
    assert make_plan(make_run(), CONFIG, 2, DEVICE, EPISODES).splits[0].layout is None


@given(learner=st.floats(0.01, 1.0), engine=st.floats(0.01, 1.0))
def test_a_share_of_the_speed_takes_its_inverse_of_the_time(learner, engine):
    slower = replace(DEVICE, learner_efficiency=learner, engine_efficiency=engine)
    run = make_run()
    update, rollout = (run, 1_000_000, 2), (run, CONFIG, 1_000_000, 2)
    for efficiency, seconds, where in ((learner, update_seconds, update), (engine, rollout_seconds, rollout)):
        assert seconds(*where, slower, EPISODES) * efficiency == pytest.approx(seconds(*where, DEVICE, EPISODES))


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_an_adapter_counts_once(dtype):
    run = make_run("policy.model=model", "policy.lora={rank=4}", f"policy.dtype={dtype}")
    plain = make_plan(make_run(), CONFIG, 1, DEVICE, EPISODES).parameters
    with_adapter = make_plan(run, CONFIG, 1, DEVICE, EPISODES)
    assert with_adapter.parameters - plain == with_adapter.memory.gradients // 4 > 0


@settings(max_examples=20, deadline=None)
@given(gpus=st.integers(1, 9), staleness=st.integers(0, 1))
def test_laws_of_the_splits(gpus, staleness):
    plan = make_plan(make_run(f"train.staleness={staleness}"), CONFIG, gpus, DEVICE, EPISODES)
    assert plan.parameters == sum(
        [300 * 32, 2 * (4 * 32 * 32 + 3 * 32 * 96 + 2 * 32), 32]
    )  # embedding (tied), layers, last norm
    shared, *apart = plan.splits
    assert (shared.engines, shared.learners, len(apart)) == (0, gpus, gpus - 1)
    assert all(split.engines + split.learners == gpus for split in apart)
    assert shared.seconds == pytest.approx(shared.rollout + shared.update + shared.sync)
    for split in apart:
        both = max(split.rollout, split.update) if staleness else split.rollout + split.update
        assert split.seconds == pytest.approx(both + split.sync)
    assert all(0 <= split.idle[1] < 1 for split in plan.splits)
    updates = [split.update for split in apart]
    assert updates == sorted(updates)  # fewer learners take longer
    assert all(split.learner_bytes >= shared.learner_bytes - 1 for split in apart if split.learners > 1)
    assert plan.splits[0].learner_bytes == pytest.approx(learner_bytes(plan, gpus))
    shown = plan.shown(DEVICE)
    assert len(shown) <= 5
    assert {shared, plan.fastest(DEVICE)} <= set(shown) <= set(plan.splits)


def learner_bytes(plan, gpus):
    """Each of several GPUs holds its part, and gathers the root, two layers, and their gradients (float32)."""
    parts = plan.memory.parts
    divided = sum(parts[name] for name in ("weights", "gradients", "optimizer", "reference"))
    root, layer = 300 * 32 + 32, 4 * 32 * 32 + 3 * 32 * 96 + 2 * 32
    gathered = 4 * (root + 2 * layer) + 8 * (root + layer) if gpus > 1 else 0
    return divided / gpus + sum(parts.values()) - divided + gathered


SEVEN = {"rollout": 343.0, "update": 378.0, "sync": 0.0, "learner_bytes": 1.0, "engine_bytes": 1.0}


def test_sides_that_take_turns_take_the_sum():
    """7B on 8 GPUs: 2 for the engine and 6 for the learner. Synchronous, 12 min 01 s; the longer side, 6 min 18 s."""
    assert Split(2, 6, **SEVEN, overlap=False).seconds == 721
    assert Split(2, 6, **SEVEN, overlap=True).seconds == 378
    assert Split(0, 8, 150.0, 324.0, 0.0, 1, 1, overlap=False).seconds == 474  # shared GPUs win: 7 min 54 s
    assert Split(2, 6, 343.0, 378.0, 9.0, 1, 1, overlap=True).seconds == 387  # both wait for the weights


@pytest.mark.parametrize("gpus", [1, 8, 64])
@pytest.mark.parametrize("staleness", [0, 1])
def test_a_plan_by_hand(gpus, staleness):
    """The fastest split among all, from the two formulas alone."""
    run = make_run(f"train.staleness={staleness}", "train.concurrency=64")
    device = replace(DEVICE, transfer=1e12)
    plan = make_plan(run, CONFIG, gpus, device, EPISODES)
    parameters, cache = plan.parameters, cache_bytes(CONFIG, dtype="float32") * 50
    passes = 8 if staleness else 6  # asynchronous runs recompute log-probabilities

    def seconds(engines):
        at_once = max(1.0, 64 / (engines or gpus))
        step = max((4 * parameters + at_once * cache) / 1e9, 2 * parameters * at_once / 1e12)
        decoding = 6400 / (engines or gpus) / at_once * step
        alone = 0 if staleness else 2 * 100 * max((4 * parameters + cache) / 1e9, 2 * parameters / 1e12)
        rollout = decoding + alone + 2 * parameters * 57600 / ((engines or gpus) * 1e12)
        update = passes * parameters * 64000 / ((gpus - engines) * 1e12)
        learners = gpus - engines
        both = max(rollout, update) if engines and staleness else rollout + update
        whole = engines or staleness or learners > 1  # else the engine computes with the learner's own weights
        return both + (8 * parameters / 1e12 if whole else 0)

    times = [seconds(engines) for engines in range(gpus)]
    assert [split.seconds for split in plan.splits] == pytest.approx(times)
    assert plan.fastest(device) == plan.splits[times.index(min(times))]


@pytest.mark.parametrize(
    ("overrides", "gpus", "shared", "apart"),
    [
        ([], 1, 0, None),  # the engine computes with the learner's module
        (["train.staleness=1"], 1, 8, None),  # a copy: float32 out and in
        ([], 2, 8, 8),
        (["policy.dtype=bfloat16"], 2, 6, 4),  # gathered in float32 by two ranks, or sent by one in the engine's type
        (['sampler.engine="vllm"', "policy.dtype=bfloat16"], 1, 4, None),
    ],
)
def test_weights_on_their_way_by_hand(overrides, gpus, shared, apart):
    plan = make_plan(make_run(*overrides), CONFIG, gpus, DEVICE, EPISODES)
    bytes_sent = [split.sync * DEVICE.transfer / plan.parameters for split in plan.splits]
    assert bytes_sent == pytest.approx([shared] if apart is None else [shared, apart])


def test_main_memory_by_hand():
    """Two ranks: a whole copy in float32, the object store in the engine's type, and for vLLM a folder in memory."""
    for engine, copies in (("transformers", 1), ("vllm", 2)):
        run = make_run(f'sampler.engine="{engine}"', "policy.dtype=bfloat16")
        plan = make_plan(run, CONFIG, 2, DEVICE, EPISODES)
        moments = 8  # their copy, while a checkpoint is written
        assert plan.host_memory == (4 + 2 * copies + moments) * plan.parameters
        assert make_plan(run, CONFIG, 1, DEVICE, EPISODES).host_memory == 0


def test_recorded_experts_lie_in_main_memory_twice():
    """A token has 3 layers of 2 experts, a byte each: in the turns, and in the batch."""
    sizes = {"vocab_size": 64, "hidden_size": 32, "num_hidden_layers": 3, "moe_intermediate_size": 16}
    sizes |= {"num_attention_heads": 2, "num_key_value_heads": 2, "head_dim": 16, "num_experts_per_tok": 2}
    config = Qwen3MoeConfig(num_experts=4, **sizes)
    adapter = ["policy.dtype=bfloat16", 'policy.lora={rank=2,targets=["q_proj"]}']
    replaying, plain = (
        make_plan(make_run(*adapter, f"train.routing_replay={choice}"), config, 1, DEVICE, EPISODES)
        for choice in ("true", "false")
    )
    assert replaying.host_memory - plain.host_memory == 2 * EPISODES.computed * 6


def test_main_memory_of_what_is_parked_by_hand():
    words = ["sampler.engine=vllm", "objective.kl=0.1"]
    for offload, parked in (("true", 8), ("all", 8 + 4 + 4)):  # moments; weights, and those of the reference
        run = make_run(*words, f"train.optimizer.offload={offload}")
        plan = make_plan(run, CONFIG, 1, DEVICE, EPISODES)
        assert plan.host_memory == parked * plan.parameters
        # 16 ranks divide one copy over two machines: each machine has half of what is parked and copied
        plain, wide = (
            make_plan(make_run(*words, "policy.shards=16", *more), CONFIG, 16, DEVICE, EPISODES, machine=8)
            for more in ([], [f"train.optimizer.offload={offload}"])
        )
        assert wide.host_memory - plain.host_memory == parked * plan.parameters / 2


def test_captured_passes_by_hand():
    """5 episodes on one GPU: captures for 1, 2, 4 and 8 tokens, and for 16 to 4,096, of which at most 8 have logits."""
    words = ["train.groups=1", "train.group_size=5", "policy.dtype=bfloat16"]
    captured, eager = (
        make_plan(make_run(*words, f"sampler.options.graphs={on}"), CONFIG, 2, DEVICE, EPISODES).splits[1].engine_bytes
        for on in ("true", "false")
    )
    passes = 4096 * (6 * 32 + 3 * 96) + 8 * 300
    results = (1 + 2 + 4 + 8 + 9 * 8) * 300
    assert captured - eager == 2 * (passes + results) + 32 * 2**20


@pytest.mark.parametrize(
    ("words", "learners", "shards"),
    [([], 8, 8), ([], 16, 8), ([], 12, 12), (["policy.shards=16"], 16, 16), (["policy.shards=2"], 8, 2)],
)
def test_a_machine_of_the_learner_holds_a_copy_of_the_weights(words, learners, shards):
    split = make_plan(make_run(*words), CONFIG, learners, DEVICE, EPISODES, machine=8).splits[0]
    assert (split.learners, split.shards) == (learners, shards)
    whole = make_plan(make_run(*words, "policy.shards=1"), CONFIG, learners, DEVICE, EPISODES, machine=8).splits[0]
    trained = (4 + 4 + 8) * make_plan(make_run(), CONFIG, 1, DEVICE, EPISODES).parameters
    assert whole.learner_bytes - split.learner_bytes == pytest.approx(trained * (1 - 1 / shards))


TORCHRUN = "torchrun --nproc-per-node {} -m turncredit.cli.main train RUN.toml"


@pytest.mark.parametrize(
    ("words", "split", "command"),
    [
        (["sampler.engine=vllm"], (0, 1), "turncredit train RUN.toml sampler.options.sleep=true"),
        (
            ["sampler.engine=vllm"],
            (0, 8),
            f"{TORCHRUN.format(8)} sampler.options.data_parallel_size=8 sampler.options.sleep=true",
        ),
        (
            ["sampler.engine=vllm", "sampler.options={tensor_parallel_size=2, data_parallel_size=2}"],
            (4, 4),
            f"""{TORCHRUN.format(4)} 'sampler.options.devices="4,5,6,7"'""",
        ),
        (
            ["sampler.engine=vllm", "sampler.options={tensor_parallel_size=2}", "train.staleness=1"],
            (6, 1),
            "turncredit train RUN.toml sampler.options.data_parallel_size=3 "
            """'sampler.options.devices="1,2,3,4,5,6"'""",
        ),
        (
            ["sampler.engine=vllm"],
            (8, 8),
            "turncredit train RUN.toml cluster.address=auto cluster.engines=8 cluster.learners=8",
        ),
        ([], (0, 1), "turncredit train RUN.toml"),
        ([], (3, 1), "turncredit train RUN.toml cluster.address=auto cluster.engines=3"),
        ([], (0, 2), ""),
        (["sampler.engine=vllm"], (0, 16), ""),
    ],
)
def test_a_way_to_divide_the_gpus_has_a_command(words, split, command):
    assert start_command(make_run(*words), *split, 8) == command


@pytest.mark.parametrize(
    ("split", "text"),
    [
        ((0, 1, 1), "one process trains; one engine, on the same GPUs"),
        ((4, 4, 4), "4 ranks hold one copy of the weights; 4 copies of the engine, on GPUs of their own"),
        ((0, 16, 8), "16 ranks hold 2 copies of the weights, 8 ranks each; 16 copies of the engine, on the same GPUs"),
    ],
)
def test_a_way_to_divide_the_gpus_in_words(split, text):
    assert describe_split(make_run(), *split) == text


def test_who_waits():
    turns, overlap = {"overlap": False}, {"overlap": True}
    assert Split(2, 2, 10.0, 4.0, 0.0, 1, 1, **overlap).idle == ("learner", pytest.approx(0.6))
    assert Split(2, 2, 4.0, 10.0, 0.0, 1, 1, **overlap).idle == ("engine", pytest.approx(0.6))
    assert Split(2, 2, 6.0, 4.0, 0.0, 1, 1, **turns).idle == ("learner", pytest.approx(0.6))
    assert Split(0, 4, 6.0, 2.0, 2.0, 1, 1, **turns).idle == ("", pytest.approx(0.2))
    assert Split(0, 4, 1, 1, 0, 3.0, 6.0, **turns).fits(Gpu(9.0, 1, 1))
    assert not Split(0, 4, 1, 1, 0, 3.0, 6.1, **turns).fits(Gpu(9.0, 1, 1))
    assert Split(2, 2, 1, 1, 0, 9.0, 9.0, **turns).fits(Gpu(9.0, 1, 1))


def test_episodes_of_a_run_and_the_longest():
    events = [
        {"phase": "train", "episodes": 10, "tokens": 100, "sequence_tokens": 500},
        {"phase": "train", "episodes": 10, "tokens": 300, "sequence_tokens": 700},
        {"phase": "evaluation"},
    ]
    run = make_run("train.groups=2", "train.group_size=3")
    found = EpisodeLengths.of_events(run, events, 2.0)
    assert (found.count, found.sampled, found.computed, found.tail) == (6, 120.0, 360.0, 2.0)
    with pytest.raises(ConfigError, match="no finished iteration"):
        EpisodeLengths.of_events(run, events[2:], 1.0)
    most = EpisodeLengths.most(
        make_run("agent.max_turns=3", "agent.max_tokens=10", "train.groups=2", "train.group_size=3")
    )
    assert (most.sampled, most.computed) == (6 * 30, 6 * 128)
    words = ["agent.max_turns=50", "agent.max_tokens=10", "train.groups=2", "train.group_size=3"]
    long = EpisodeLengths.most(make_run(*words))
    assert (long.sampled, long.computed) == (6 * 128, 6 * 128)  # one sequence, as long as the context
    window = EpisodeLengths.most(make_run(*words, "agent.prompt={name='window', history=2}"))
    assert (window.sampled, window.computed) == (6 * 50 * 10, 6 * 50 * 128)  # a sequence for every turn
    with pytest.raises(ConfigError, match="gpus must be >= 1"):
        make_plan(run, CONFIG, 0, DEVICE, found)
