"""`turncredit plan`: the table for a new model, for a run's own episodes, and what cannot be planned."""

import re
from pathlib import Path

import pytest
from toys.commands import Call

PHASES = ("start", "new weights", "rollouts", "update")
EXAMPLE = Path(__file__).parents[2] / "examples/demo.toml"


def test_a_plan_names_the_fastest_way_that_fits(turncredit: Call) -> None:
    said = turncredit("plan", EXAMPLE, "--gpus", "4", "--tflops", "1", "--bandwidth", "100")
    assert said.code == 0, said.err
    for words in (
        "128 episodes per iteration",
        "fastest",
        "shared",
        "1 + 3",
        "3 + 1",
        "optimizer",
        "idle",
        "GPU hours",
        "The fastest way: ",
    ):
        assert words in said.out


def test_a_plan_says_how_ranks_and_copies_of_an_engine_are_started(turncredit: Call) -> None:
    words = ["sampler={engine='vllm', kv_cache_gib=2, options={sleep=true}}", "--gpus", "4", "--tflops", "0.1"]
    said = turncredit("plan", EXAMPLE, *words)
    assert said.code == 0, said.err
    told = " ".join(said.out.split())
    assert "4 ranks hold one copy of the weights; 4 copies of the engine, on the same GPUs." in told
    assert (
        "torchrun --nproc-per-node 4 -m turncredit.cli.main train RUN.toml sampler.options.data_parallel_size=4" in told
    )


def test_what_is_too_large_is_marked(turncredit: Call) -> None:
    said = turncredit("plan", EXAMPLE, "policy.new.hidden=512", "policy.new.layers=8", "--gpus", "2", "--memory", "0.2")
    assert said.code == 0, said.err
    assert "too big" in said.out
    assert "fastest" not in said.out


def test_a_plan_shows_how_vllm_and_the_learner_share_a_gpu(turncredit: Call) -> None:
    words = ["sampler={engine='vllm', kv_cache_gib=2, options={sleep=true}}", "--memory", "8"]
    said = turncredit("plan", EXAMPLE, *words)
    assert said.code == 0, said.err
    found = {phase: re.search(rf"^{phase} +([\d.]+) ", said.out, re.MULTILINE) for phase in PHASES}
    engine = {phase: float(match[1]) for phase, match in found.items() if match is not None}
    assert list(engine) == [*PHASES]
    assert engine["start"] == engine["rollouts"] > engine["new weights"] == engine["update"] == 2.0
    share = re.search(r"gpu_memory_utilization = (0\.\d+)\.", said.out)
    assert share is not None
    assert 3 / 8 < float(share[1]) < 3.2 / 8  # the cache and the graphs; the model is tiny
    assert "Of the engine: weights 0.0, cache 2.0" in said.out
    small = turncredit("plan", EXAMPLE, *words[:-1], "4")
    assert "They do not share a GPU: the phase 'rollouts' needs" in " ".join(small.out.split())
    assert "too big" in small.out
    assert "vLLM starts" not in turncredit("plan", EXAMPLE).out


def test_long_runs_have_readable_costs(turncredit: Call) -> None:
    said = turncredit("plan", EXAMPLE, "train.iterations=100000", "--tflops", "0.001", "--bandwidth", "0.1")
    assert said.code == 0, said.err
    assert re.search(r"[\d,]{4,} GPU hours", said.out)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["missing.toml"], "missing.toml does not exist"),
        ([EXAMPLE, "--gpus", "0"], "--gpus"),
        ([EXAMPLE, "--like", "missing"], "expected the folder of a run with metrics.jsonl, but missing is none"),
        ([EXAMPLE, "policy.new.hiden=3"], "policy.new.hidden"),
    ],
)
def test_what_cannot_be_planned(turncredit: Call, words: list[object], message: str) -> None:
    said = turncredit("plan", *words)
    assert said.code != 0
    assert message in " ".join(said.err.split())
