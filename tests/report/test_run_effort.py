"""What a run cost, from its events."""

from turncredit.cli.printing.progress import line
from turncredit.report.run_effort import effort_rows

GIB = 2**30


def iteration(number: int, **changes: object) -> dict[str, object]:
    return {
        "phase": "train",
        "iteration": number,
        "tokens": 600,
        "rollout_seconds": 10.0,
        "prompt_tokens_per_second": 300.0,
        "update_tokens": 4000,
        "update_seconds": 5.0,
        "load_seconds": 0.25,
        "process_memory": number * GIB,
        "mfu": 0.2,
        "hfu": 0.3,
        **changes,
    }


def test_totals_and_speeds_are_those_of_all_iterations() -> None:
    model = {"phase": "model", "iteration": 0, "parameters": 139_400_000, "trained": 4_884_480}
    last = iteration(2, update_seconds=15.0, mfu=0.4, device_memory=7 * GIB, device_used_memory=70 * GIB)
    assert dict(effort_rows([model, iteration(1), last, {"phase": "note", "text": "x"}])) == {
        "parameters": "139.4M, 4.9M of them trained",
        "tokens": "1200 sampled (60/s), 6000 of prompts (300/s), 8000 in updates (400/s)",
        "time": "rollouts 20 s, updates 20 s, loading weights 0.50 s",
        "updates": "MFU 35.0 %, with repeated passes 30.0 %",  # (5 x 0.2 + 15 x 0.4) / 20
        "memory": "process 2.0 GiB, GPU 7.0 GiB, GPU, all processes 70.0 GiB",
    }


def test_rollouts_say_what_their_time_went_to() -> None:
    parts = [iteration(number, pass_seconds=3.25, environment_seconds=0.5) for number in (1, 2)]
    time = dict(effort_rows(parts))["time"]
    assert time == "rollouts 20 s (6.50 s in passes, 1.00 s in environments), updates 10 s, loading weights 0.50 s"


def test_what_is_not_known_is_left_out() -> None:
    bare = iteration(1)
    for key in ("mfu", "hfu", "process_memory"):
        del bare[key]
    assert [label for label, _ in effort_rows([bare])] == ["tokens", "time"]
    assert list(effort_rows([])) == []


def test_the_line_of_the_warm_start_says_what_an_adapter_trains() -> None:
    told = {"demonstrations": 4, "won": 4, "tokens": 900, "parameters": 139_400_000, "vocabulary": 49_152}
    whole = line({"phase": "imitation", "iteration": 0, **told, "trained": 139_400_000}, 1)
    assert "a model of 139.4M parameters and 49152 tokens" in whole
    adapter = line({"phase": "imitation", "iteration": 0, **told, "trained": 4_884_480}, 1)
    assert "a model of 139.4M parameters, 4.9M of them trained and 49152 tokens" in adapter
