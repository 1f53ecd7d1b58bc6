"""The converter of reference files of the older forms, on small files of each form made by hand."""

from __future__ import annotations

import copy
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from turncredit.cli.errors import UserError
from turncredit.cli.reference.cases import check_case, read_cases

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "scripts"))

from convert_reference_cases.program import convert, main  # noqa: E402

Old = Any

# Two trajectories that start in the same state: R = (0.5, 1) and (0, 0), E = 1 and 0; statistics over the four rows.
GIGPO: Old = {
    "source": "by hand",
    "cases": [
        {
            "name": "two",
            "note": "",
            "params": {
                "gamma": 0.5,
                "mode": "mean_norm",
                "epsilon": 1e-6,
                "use_invalid_action_penalty": True,
                "invalid_action_penalty_coef": 0.1,
                "normalize_by_length": False,
                "max_response_length": 2,
                "step_advantage_w": 2.0,
                "enable_similarity": False,
                "similarity_thresh": 0.95,
            },
            "steps": [
                {"task_group": "g", "trajectory": t, "step_index": k, "anchor_obs": s, "reward": r,
                 "is_action_valid": True, "active": True, "response_tokens": 1}
                for t, k, s, r in (("a", 0, "x", 0.0), ("a", 1, "y", 1.0), ("b", 0, "x", 0.0), ("b", 1, "z", 0.0))
            ],
            "expected": {
                "discounted_return": [0.5, 1.0, 0.0, 0.0],
                "step_return_after_penalty": [0.5, 1.0, 0.0, 0.0],
                "episode_score": [1.0, 1.0, 0.0, 0.0],
                "step_group": [5, 2, 5, 9],
                "episode_advantage": [0.5, 0.5, -0.5, -0.5],
                "episode_advantage_per_trajectory_stats": [0.5, 0.5, -0.5, -0.5],
                "step_advantage": [0.25, 0.0, -0.25, 0.0],
                "advantage": [1.0, 0.5, -1.0, -0.5],
                "advantage_tokens": [[1.0, 0.0], [0.5, 0.0], [-1.0, 0.0], [-0.5, 0.0]],
                "grpo_advantage": [0.5, 0.5, -0.5, -0.5],
                "rloo_advantage": [0.5 * 4 / 3, 0.5 * 4 / 3, -0.5 * 4 / 3, -0.5 * 4 / 3],
            },
            "own_formula_agrees": True,
        }
    ],
}  # fmt: skip


def hgpo() -> Old:
    """The same rows under HGPO with one state of history: only the first state is shared, and alone counts."""
    data = copy.deepcopy(GIGPO)
    case = data["cases"][0]
    for name in ("step_advantage_w", "enable_similarity", "similarity_thresh"):
        del case["params"][name]
    case["params"] |= {"history_length": 1, "length_weight_alpha": 1.0, "base_group": False}
    kept = {key: case["expected"][key] for key in ("discounted_return", "episode_score", "episode_advantage")}
    first = 0.25 * 2 / (2 + 1e-6)
    levels = [[{"level": 1, "group_size": 2, "advantage": 0.25, "used": True, "weight": 1.0}], [], [], []]
    case["expected"] = {**kept, "advantage": [first, 0.0, -first, 0.0], "levels_own_formula": levels}
    return data


# One token with ratio e^0.5, clipped at 1.2, and one at ratio 1: -(1.2 * 1 + 1 * 2) / 2.
LOSSES: Old = {
    "batches": [
        {"id": 7, "name": "two tokens", "logp_new": [[-0.5, -1.0]], "logp_old": [[-1.0, -1.0]],
         "advantages": [[1.0, 2.0]], "mask": [[1, 1]]}
    ],
    "cases": [
        {"name": "ppo_clip", "hyperparameters": {"eps_low": 0.2, "eps_high": 0.2, "agg": "token-mean"}, "batch_id": 7,
         "expected_loss": -1.6, "expected_grad": [[0.0, -1.0]], "source": "by hand", "peer_checked": False}
    ],
}  # fmt: skip

NAMED: list[Old] = [
    {"name": "DR_GRPO_two", "inputs": {"rewards": [1, 0], "group": ["a", "a"]},
     "hyperparameters": {"norm_by_std": False}, "expected": {"advantage": [0.5, -0.5]}},
    {"name": "tempo_no_std", "inputs": {"sequences": [[1, 2], [1, 3]], "rewards": [1, 0]},
     "hyperparameters": {"norm_by_std": False, "gamma": 1.0},
     "expected": {"token_advantage": [[0.5, 1.0], [-0.5, -1.0]]}},
    {"name": "hicra", "inputs": {"advantage": [1.0, -1.0], "planning": [1, 0]}, "hyperparameters": {"alpha": 0.2},
     "expected": {"advantage": [1.2, -1.0]}},
    {"name": "pass_k", "inputs": {"rewards": [1, 0]}, "hyperparameters": {"norm_by_std": False},
     "expected": {"advantage": [1.0, 0.0]}},
    {"name": "turn_gae", "inputs": {"rewards": [1.0], "values": [0.25]}, "hyperparameters": {"gamma": 1, "lambda": 1},
     "expected": {"advantage": [0.75]}},
    {"name": "archer", "inputs": {"q1": [1.0, 2.0], "q2": [0.5, 3.0], "v1": [0.25, 1.0], "v2": [0.5, 0.5]},
     "expected": {"advantage": [0.25, 1.5]}},
    {"name": "bilevel_gae", "inputs": {"rewards": [0, 1.0], "values": [0.1, 0.6], "turn_end": [0, 1]},
     "hyperparameters": {"gamma_high": 1.0, "lam": 1.0}, "expected": {"advantage": [0.9, 0.4]}},
    {"name": "flow_grpo", "inputs": {"rewards": [1, 0], "valid": [True, False]},
     "hyperparameters": {"mean_over": "traj", "norm_by_std": False}, "expected": {"advantage": [0.5, -0.5]}},
    # Three trajectories of 2, 1 and 1 turns: the mean score over turns is 1/2, over trajectories 1/3.
    {"name": "flow_grpo_turn_rows", "inputs": {"final_reward": [1, 0, 0], "turns": [2, 1, 1], "group": [0, 0, 0]},
     "hyperparameters": {"norm_by_std": False}, "expected": {"row_advantage": [0.5, 0.5, -0.5, -0.5]}},
    {"name": "flow_grpo_traj", "inputs": {"final_reward": [1, 0, 0], "turns": [2, 1, 1], "group": [0, 0, 0]},
     "hyperparameters": {"norm_by_std": False}, "expected": {"row_advantage": [2 / 3, 2 / 3, -1 / 3, -1 / 3]}},
    # Eleven equal scores: the first row is the median that is left out, although "10" sorts before "2".
    {"name": "mc_grpo_many", "inputs": {"rewards": [1] + [0] * 10, "group": ["a"] * 11},
     "expected": {"keep": [True, False] + [True] * 9}},
    {"name": "evol_rl_other", "inputs": {"correct": [1, 1, 0], "novelty": [0.1, 0.3, 0.2]},
     "expected": {"reward": [0.5, 1.0, -0.5]}},
    {"name": "whiten", "inputs": {"x": [[1.0, 3.0]]}, "hyperparameters": {"ddof": 0, "eps": 0.0},
     "expected": {"out": [[-1.0, 1.0]]}},
    {"name": "trloo", "inputs": {"rewards": [0.0, 1.0, 1.0], "traj": [0, 0, 1], "turn": [0, 1, 0]},
     "hyperparameters": {"gamma": 0.5, "singleton": "raw_return"}, "expected": {"returns": [0.5, 1.0, 1.0]}},
]  # fmt: skip


def outcomes(tmp_path: Path, content: Old) -> tuple[int, list[str]]:
    """Return the converter's exit code, and one line about each converted case that does not agree."""
    old, new = tmp_path / "old.json", tmp_path / "new.json"
    old.write_text(json.dumps(content), encoding="utf-8")
    code = main([str(old), str(new)])
    results = [check_case(case) for case in read_cases(new)]
    return code, [f"{one.outcome} {one.case.function} {one.detail}" for one in results if one.outcome != "agrees"]


@pytest.mark.parametrize("content", [GIGPO, hgpo(), LOSSES, NAMED], ids=["gigpo", "hgpo", "losses", "named"])
def test_every_form_is_converted_and_agrees(tmp_path: Path, content: Old) -> None:
    pytest.importorskip("torch")
    assert outcomes(tmp_path, content) == (0, [])


@pytest.mark.parametrize("result", list(GIGPO["cases"][0]["expected"]))
def test_every_result_of_rows_counts(tmp_path: Path, result: str) -> None:
    wrong = copy.deepcopy(GIGPO)
    values = wrong["cases"][0]["expected"][result]
    values[0] = [2.0, 0.0] if result == "advantage_tokens" else values[0] + 4
    code, failed = outcomes(tmp_path, wrong)
    assert code == 0
    assert failed


def test_levels_and_named_results_count(tmp_path: Path) -> None:
    level = hgpo()
    level["cases"][0]["expected"]["levels_own_formula"][0][0]["advantage"] = 0.3
    assert "history 0[0]: ours 0.25, expected 0.3" in outcomes(tmp_path, level)[1][0]
    for number, case in enumerate(NAMED):
        wrong = copy.deepcopy(case)
        ((name, values),) = wrong["expected"].items()
        wrong["expected"][name] = json.loads(json.dumps(values).replace("true", "false", 1)) if name == "keep" else [
            [5.0, *row[1:]] if isinstance(row, list) else row + 5.0 for row in values
        ]  # fmt: skip
        assert outcomes(tmp_path, [wrong])[1], number


@pytest.mark.parametrize(
    ("content", "place", "value", "part"),
    [
        (GIGPO, ("cases", 0, "params", "moon_phase"), 1, "'moon_phase'"),
        (GIGPO, ("cases", 0, "params", "mode"), "mad_norm", "mad_norm"),
        (GIGPO, ("cases", 0, "expected", "aura"), [1], "'aura'"),
        (GIGPO, ("cases", 0, "steps", 1, "is_action_valid"), None, "some rows have no 'valid'"),
        (GIGPO, ("cases", 0, "steps", 1, "active"), False, "inactive"),
        (NAMED, (0, "hyperparameters", "moon_phase"), 1, "'moon_phase'"),
        (NAMED, (0, "hyperparameters", "norm_by_std"), True, "'scale'"),
        (NAMED, (7, "hyperparameters", "mean_over"), "moons", "'mean_over'"),
        (NAMED, (0, "inputs", "aura"), [1, 2], "'aura'"),
        (NAMED, (0, "expected", "aura"), [1, 2], "'aura'"),
        (NAMED, (0, "name"), "frobnicate", "'frobnicate'"),
        (NAMED, (1, "hyperparameters", "gamma"), 0.9, "'gamma'"),
        (NAMED, (2, "hyperparameters", "moon_phase"), 1, "'moon_phase'"),
        (NAMED, (2, "inputs", "aura"), 1, "'aura'"),
        (NAMED, (6, "inputs", "turn_ends"), [0, 1], "'turn_ends'"),
        (LOSSES, ("cases", 0, "hyperparameters", "moon_phase"), 1, "moon_phase"),
        (LOSSES, ("cases", 0, "hyperparameters", "L"), 16, "'L'"),
        (LOSSES, ("cases", 0, "hyperparameters", "agg"), "by-moon", "by-moon"),
        (LOSSES, ("cases", 0, "name"), "frobnicate", "'frobnicate'"),
        (LOSSES, ("cases", 0, "aura"), 1, "aura"),
        (LOSSES, ("cases", 0, "batch_id"), 8, "there is no batch 8"),
        (LOSSES, ("batches", 0, "aura"), 1, "aura"),
    ],
)  # fmt: skip
def test_what_has_no_counterpart_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: Old, place: tuple[Any, ...], value: object, part: str
) -> None:
    pytest.importorskip("torch")
    at = whole = copy.deepcopy(content)
    for key in place[:-1]:
        at = at[key]
    at[place[-1]] = value
    _, reports = convert(whole)
    if reports:
        assert part in reports[0]
    else:
        _, failed = outcomes(tmp_path, whole)
        assert any(part in line for line in failed), failed


def test_optional_parts_may_be_missing_and_descriptions_are_no_inputs(tmp_path: Path) -> None:
    bare: Old = copy.deepcopy(GIGPO)
    case = bare["cases"][0]
    case["params"] = {"gamma": 0.5, "mode": "mean_norm", "step_advantage_w": 2.0}
    for row in case["steps"]:
        for name in ("is_action_valid", "active", "response_tokens"):
            del row[name]
    del case["expected"]["advantage_tokens"], case["own_formula_agrees"]
    case |= {"proposal": True, "tags": ["a", "b"], "origin": {"by": "hand", "page": None}}
    assert outcomes(tmp_path, bare) == (0, [])


def test_noise_and_proposals_keep_their_status() -> None:
    noisy, losses = copy.deepcopy(GIGPO), copy.deepcopy(LOSSES)
    noisy["cases"][0]["own_formula_agrees"] = False
    losses["cases"][0]["name"] = "ppo_clip_PROPOSAL"
    status = {case["function"]: case.get("status") for case in convert(noisy)[0]["cases"]}
    assert status["credit/gigpo"] == status["credit/rloo"] == "noise"
    assert status["helper/returns"] is None
    assert convert(losses)[0]["cases"][0]["status"] == "proposal"


@pytest.mark.parametrize(
    ("case", "part"),
    [
        ({"name": "grpo", "inputs": {}, "expected": {"advantage": [1]}}, "no 'rewards'"),
        ({"name": "grpo", "inputs": {"rewards": [1]}, "expected": {}}, "no expected results"),
        ({"inputs": {"rewards": [1]}}, "not an object with a name"),
        ({"name": "hicra", "inputs": {"advantage": 3, "planning": 1}, "expected": {"advantage": [1]}}, "TypeError"),
        ({"name": "salt", "inputs": {"traj": [0], "trajectory_advantage": [1.0, 2.0]}, "expected": {"x": 1}}, "zip"),
    ],
)
def test_a_case_that_cannot_be_read_is_reported_and_hides_no_other(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], case: Old, part: str
) -> None:
    assert outcomes(tmp_path, [case, *NAMED[:3]]) == (1, [])
    said = capsys.readouterr().err
    assert "left out: case 0" in said
    assert part in said
    assert "3 cases in" in said


@pytest.mark.parametrize("content", [3, [], [1], [{"name": "grpo"}], {"batches": 3, "cases": [LOSSES["cases"][0]]}])
def test_files_of_no_known_form(content: Old) -> None:
    with pytest.raises(UserError, match="expected cases with 'params' and 'steps'"):
        convert(content)


def test_the_program_says_what_it_wants(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    (tmp_path / "old.json").write_text("{")
    assert main([str(tmp_path / "old.json"), str(tmp_path / "new.json")]) == 2
    assert "usage: python scripts/convert_reference_cases" in capsys.readouterr().err


def test_the_folder_is_the_program(tmp_path: Path) -> None:
    (tmp_path / "old.json").write_text(json.dumps(GIGPO))
    words = [sys.executable, ROOT / "scripts/convert_reference_cases", tmp_path / "old.json", tmp_path / "new.json"]
    done = subprocess.run(words, capture_output=True, text=True, cwd=tmp_path, check=False)
    count = len(read_cases(tmp_path / "new.json"))
    assert (done.returncode, done.stderr.strip()) == (0, f"{count} cases in {words[3]}")
