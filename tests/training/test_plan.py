"""The plan of a run on several GPUs: its arithmetic by hand, and laws that hold for every run."""

import math
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from turnwise.training import ConfigError, Run
from turnwise.training.memory import cache_bytes
from turnwise.training.plan import EpisodeLengths, Gpu, Split, make_plan, rollout_seconds, update_seconds
from turnwise.training.policy import policy_config

SIZES = {"vocab": 300, "hidden": 32, "layers": 2, "heads": 2, "context": 128}
CONFIG = policy_config(**SIZES)
DEVICE = Gpu(memory=8 * 2**30, flops=1e12, bandwidth=1e9, learner_efficiency=1.0, engine_efficiency=1.0)


def make_run(*overrides):
    return Run.parse({"policy": SIZES, "imitation": {"episodes": 1}}, list(overrides))


EPISODES = EpisodeLengths(count=64, sampled=6400.0, computed=64000.0, length=100, tail=3.0)


@pytest.mark.parametrize(
    ("overrides", "passes"),
    [
        ([], 6),
        (["policy.checkpointing=true"], 8),
        (['objective.old="recomputed"'], 8),
        (["objective.kl=0.1"], 8),
        (["train.staleness=1"], 8),  # recomputes by default
        (["policy.lora={rank=4}", 'policy.path="x"'], 4),
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
    [([], 64), (["train.staleness=2"], 192), (["train.spare=3"], 88), (["train.staleness=2", "train.spare=3"], 216)],
)
def test_the_cache_holds_every_episode_that_may_be_in_play(overrides, at_once):
    run = make_run("train.concurrency=200", *overrides)
    engine = make_plan(run, CONFIG, 2, DEVICE, EPISODES).splits[1]
    model = make_plan(make_run("sampler.memory=1e-9"), CONFIG, 2, DEVICE, EPISODES).splits[1].engine_bytes
    cache = cache_bytes(CONFIG, dtype="float32") * EPISODES.length
    assert engine.engine_bytes - model == pytest.approx(min(at_once, 200) * cache, abs=2)


@given(learner=st.floats(0.01, 1.0), engine=st.floats(0.01, 1.0))
def test_a_share_of_the_speed_takes_its_inverse_of_the_time(learner, engine):
    slower = replace(DEVICE, learner_efficiency=learner, engine_efficiency=engine)
    run = make_run()
    update, rollout = (run, 1_000_000, 2), (run, CONFIG, 1_000_000, 2)
    for efficiency, seconds, where in ((learner, update_seconds, update), (engine, rollout_seconds, rollout)):
        assert seconds(*where, slower, EPISODES) * efficiency == pytest.approx(seconds(*where, DEVICE, EPISODES))


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_an_adapter_counts_once(dtype):
    run = make_run("policy.path=model", "policy.lora={rank=4}", f"policy.dtype={dtype}")
    plain = make_plan(make_run(), CONFIG, 1, DEVICE, EPISODES).parameters
    with_adapter = make_plan(run, CONFIG, 1, DEVICE, EPISODES)
    assert with_adapter.parameters - plain == with_adapter.memory.gradients // 4 > 0


@settings(max_examples=20)
@given(gpus=st.integers(1, 9))
def test_laws_of_the_splits(gpus):
    plan = make_plan(make_run(), CONFIG, gpus, DEVICE, EPISODES)
    assert plan.parameters == sum(
        [300 * 32, 2 * (4 * 32 * 32 + 3 * 32 * 96 + 2 * 32), 32]
    )  # embedding (tied), layers, last norm
    shared, *apart = plan.splits
    assert (shared.engines, shared.learners, len(apart)) == (0, gpus, gpus - 1)
    assert all(one.engines + one.learners == gpus for one in apart)
    assert shared.seconds == pytest.approx(shared.rollout + shared.update)
    assert all(one.seconds == max(one.rollout, one.update) for one in apart)
    assert all(0 <= one.idle[1] < 1 for one in plan.splits)
    updates = [one.update for one in apart]
    assert updates == sorted(updates)  # fewer learners take longer
    assert all(one.learner_bytes >= shared.learner_bytes - 1 for one in apart)  # and hold larger shards
    assert math.isclose(plan.splits[0].learner_bytes * 1.0, sum_of_parts(plan, gpus))


def sum_of_parts(plan, gpus):
    parts = plan.memory.parts
    divided = sum(parts[name] for name in ("weights", "gradients", "optimizer", "reference"))
    return divided / gpus + sum(parts.values()) - divided


def test_who_waits():
    assert Split(2, 2, 10.0, 4.0, 1, 1).idle == ("learner", pytest.approx(0.6))
    assert Split(2, 2, 4.0, 10.0, 1, 1).idle == ("engine", pytest.approx(0.6))
    assert Split(0, 4, 6.0, 2.0, 1, 1).idle == ("engine", pytest.approx(0.25))
    assert Split(0, 4, 1, 1, 3.0, 6.0).fits(Gpu(9.0, 1, 1))
    assert not Split(0, 4, 1, 1, 3.0, 6.1).fits(Gpu(9.0, 1, 1))
    assert Split(2, 2, 1, 1, 9.0, 9.0).fits(Gpu(9.0, 1, 1))


def test_episodes_of_a_run_and_the_longest():
    events = [
        {"phase": "train", "episodes": 10, "tokens": 100, "sequence_tokens": 500},
        {"phase": "train", "episodes": 10, "tokens": 300, "sequence_tokens": 700},
        {"phase": "evaluation"},
    ]
    run = make_run("train.tasks=2", "train.group=3")
    found = EpisodeLengths.of_events(run, events, 2.0)
    assert (found.count, found.sampled, found.computed, found.tail) == (6, 120.0, 360.0, 2.0)
    with pytest.raises(ConfigError, match="no finished iteration"):
        EpisodeLengths.of_events(run, events[2:], 1.0)
    most = EpisodeLengths.most(make_run("agent.max_turns=3", "agent.max_tokens=10", "train.tasks=2", "train.group=3"))
    assert (most.sampled, most.computed) == (6 * 30, 6 * 128)
    words = ["agent.max_turns=50", "agent.max_tokens=10", "train.tasks=2", "train.group=3"]
    long = EpisodeLengths.most(make_run(*words))
    assert (long.sampled, long.computed) == (6 * 128, 6 * 128)  # one sequence, as long as the context
    window = EpisodeLengths.most(make_run(*words, "agent.prompt={name='window', history=2}"))
    assert (window.sampled, window.computed) == (6 * 50 * 10, 6 * 50 * 128)  # a sequence for every turn
    with pytest.raises(ConfigError, match="gpus must be >= 1"):
        make_plan(run, CONFIG, 0, DEVICE, found)
