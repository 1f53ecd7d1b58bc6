"""`turnwise verify` on tiny files of each schema, made by hand: right ones, wrong ones, and unreadable ones."""

from __future__ import annotations

import copy
import json
import math
import os
import sys
from pathlib import Path
from typing import Any

import pytest
from commands import one_sentence

Call = Any
Vectors = Any

# Two trajectories that start in the same state: R = (0.5, 1) and (0, 0), E = 1 and 0; statistics over the four rows.
GIGPO = {
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


def hgpo() -> Vectors:
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


# GRPO: mean 1/2, std sqrt(1/3); TEMPO as in its docstring; HICRA 1 + 0.2.
CREDIT = [
    {
        "name": "dr_grpo_two",
        "inputs": {"rewards": [1, 0], "group": ["a", "a"]},
        "hyperparameters": {"norm_by_std": False},
        "expected": {"advantage": [0.5, -0.5]},
    },
    {
        "name": "tempo_no_std",
        "inputs": {"sequences": [[1, 2], [1, 3]], "rewards": [1, 0]},
        "hyperparameters": {"norm_by_std": False, "gamma": 1},
        "expected": {"token_advantage": [[0.5, 1.0], [-0.5, -1.0]]},
    },
    {
        "name": "hicra",
        "inputs": {"advantage": [1.0, -1.0], "planning": [1, 0]},
        "hyperparameters": {"alpha": 0.2},
        "expected": {"advantage": [1.2, -1.0]},
    },
]

# One token with ratio e^0.5, clipped at 1.2, and one at ratio 1: -(1.2 * 1 + 1 * 2) / 2.
LOSSES = {
    "batches": [
        {"id": 7, "name": "two tokens", "logp_new": [[-0.5, -1.0]], "logp_old": [[-1.0, -1.0]],
         "advantages": [[1.0, 2.0]], "mask": [[1, 1]]}
    ],
    "cases": [
        {"name": "ppo_clip", "hyperparameters": {"eps_low": 0.2, "eps_high": 0.2, "agg": "token-mean"}, "batch_id": 7,
         "expected_loss": -1.6, "expected_grad": [[0.0, -1.0]], "source": "by hand", "peer_checked": False}
    ],
}  # fmt: skip


def write(path: Path, content: Vectors) -> Path:
    path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return path


@pytest.fixture
def files(tmp_path: Path) -> list[Path]:
    pytest.importorskip("torch")
    contents = {"g.json": GIGPO, "h.json": hgpo(), "c.json": CREDIT, "l.json": LOSSES}
    return [write(tmp_path / name, content) for name, content in contents.items()]


def test_right_files_agree(turnwise: Call, files: list[Path]) -> None:
    said = turnwise("verify", *files)
    assert said.code == 0, said.out + said.err
    for line in ("gigpo    1/1", "grpo     1/1", "rloo     1/1", "hgpo     1/1", "tempo    1/1", "ppo_clip     1/1"):
        assert " ".join(line.split()) in " ".join(said.out.split()), said.out
    assert "worst" in said.out


def test_json_counts_the_same(turnwise: Call, files: list[Path]) -> None:
    data = json.loads(turnwise("verify", *files, "--json").out)
    assert [sum(m["total"] for m in one["methods"]) for one in data] == [3, 1, 3, 1]
    assert all(m["agree"] == m["total"] and m["worst"] < 1e-6 for one in data for m in one["methods"])


@pytest.mark.parametrize("figure", list(GIGPO["cases"][0]["expected"]))
def test_every_figure_of_rows_counts(turnwise: Call, tmp_path: Path, figure: str) -> None:
    wrong = copy.deepcopy(GIGPO)
    values = wrong["cases"][0]["expected"][figure]
    values[0] = [2.0, 0.0] if figure == "advantage_tokens" else values[0] + 4
    said = turnwise("verify", write(tmp_path / "g.json", wrong))
    assert said.code == 1
    assert "0/1" in said.out
    assert f"differs  two: {figure}" in said.out


def test_wrong_figures_of_the_others(turnwise: Call, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    level, credit, loss, gradient = hgpo(), copy.deepcopy(CREDIT), copy.deepcopy(LOSSES), copy.deepcopy(LOSSES)
    level["cases"][0]["expected"]["levels_own_formula"][0][0]["advantage"] = 0.3
    credit[1]["expected"]["token_advantage"][1][1] = -1.00001
    loss["cases"][0]["expected_loss"] = -1.60001
    gradient["cases"][0]["expected_grad"][0][0] = 1e-6
    for name, content, part in (
        ("h", level, "levels_own_formula[0][0]: ours 0.25, theirs 0.3"),
        ("c", credit, "tempo_no_std: token_advantage[1][1]: ours -1, theirs -1.00001"),
        ("l", loss, "loss: ours -1.6, theirs -1.60001"),
        ("d", gradient, "gradient[0][0]"),
    ):
        said = turnwise("verify", write(tmp_path / f"{name}.json", content))
        assert said.code == 1, name
        assert part in said.out, said.out


def test_lists_of_another_length_differ(turnwise: Call, tmp_path: Path) -> None:
    short = copy.deepcopy(CREDIT)
    short[0]["expected"]["advantage"] = [0.5]
    said = turnwise("verify", write(tmp_path / "c.json", short))
    assert said.code == 1
    assert "ours 2 values, theirs 1 values" in said.out


def test_what_nobody_implements_is_a_line_and_a_failure(turnwise: Call, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    unknown = [*CREDIT, {**CREDIT[0], "name": "frobnicate"}]
    said = turnwise("verify", write(tmp_path / "c.json", unknown))
    assert said.code == 1
    assert "frobnicate        0/1" in said.out
    assert "nobody here implements 'frobnicate'" in said.out
    assert "3 of 4 agree" in said.out
    loss = copy.deepcopy(LOSSES)
    loss["cases"].append({**loss["cases"][0], "name": "frobnicate_PROPOSAL"})
    said = turnwise("verify", write(tmp_path / "l.json", loss))
    assert said.code == 1
    assert "frobnicate_PROPOSAL        0/1" in said.out


@pytest.mark.parametrize(
    ("content", "place", "value", "part"),
    [
        (GIGPO, ("cases", 0, "params", "moon_phase"), 1, "params 'moon_phase'"),
        (GIGPO, ("cases", 0, "params", "mode"), "mad_norm", "mode='mad_norm'"),
        (GIGPO, ("cases", 0, "expected", "aura"), [1], "expected figures 'aura'"),
        (GIGPO, ("cases", 0, "steps", 1, "aura"), 1, "'aura' of the steps"),
        (GIGPO, ("cases", 0, "steps", 1, "active"), False, "inactive"),
        (GIGPO, ("cases", 0, "params", "gamma"), 1.5, "gamma must be"),
        (CREDIT, (0, "hyperparameters", "moon_phase"), 1, "no option for 'moon_phase'"),
        (CREDIT, (0, "hyperparameters", "norm_by_std"), True, "norm_by_std=True; ours is False"),
        (CREDIT, (0, "inputs", "aura"), [1, 2], "inputs 'aura'"),
        (CREDIT, (0, "expected", "aura"), [1, 2], "nothing of ours gives 'aura'"),
        (CREDIT, (1, "hyperparameters", "gamma"), 0.9, "gamma=0.9; ours is 1"),
        (CREDIT, (2, "hyperparameters", "moon_phase"), 1, "hyperparameters 'moon_phase'"),
        (LOSSES, ("cases", 0, "hyperparameters", "moon_phase"), 1, "hyperparameters 'moon_phase'"),
        (LOSSES, ("cases", 0, "hyperparameters", "agg"), "by-moon", "by-moon"),
        (LOSSES, ("cases", 0, "aura"), 1, "'aura' of the case"),
        (LOSSES, ("batches", 0, "aura"), 1, "'aura' of the batch"),
    ],
)  # fmt: skip
def test_what_ours_does_not_have_is_refused_by_name(
    turnwise: Call, tmp_path: Path, content: Vectors, place: tuple[Any, ...], value: object, part: str
) -> None:
    pytest.importorskip("torch")
    changed = at = copy.deepcopy(content)
    for key in place[:-1]:
        at = at[key]
    at[place[-1]] = value
    said = turnwise("verify", write(tmp_path / "x.json", changed))
    assert said.code == 1
    assert "refused" in said.out
    assert part in said.out, said.out


NUMBERS: Vectors = [
    # Four rows of two turns' trajectories each: over turns 1, 1, 0, 0; over trajectories 1, 0. Both have mean 1/2.
    {"name": "flow_grpo_turn_rows_again", "inputs": {"final_reward": [1, 0, 0], "turns": [2, 1, 1], "group": [0, 0, 0]},
     "hyperparameters": {"norm_by_std": False}, "expected": {"row_advantage": [0.5, 0.5, -0.5, -0.5]}},
    {"name": "flow_grpo_traj", "inputs": {"final_reward": [1, 0, 0], "turns": [2, 1, 1], "group": [0, 0, 0]},
     "hyperparameters": {"norm_by_std": False}, "expected": {"row_advantage": [2 / 3, 2 / 3, -1 / 3, -1 / 3]}},
    # Eleven equal scores: the first row is the median that is left out, though "10" sorts before "2".
    {"name": "mc_grpo_many", "inputs": {"rewards": [1] + [0] * 10, "group": ["a"] * 11}, "hyperparameters": {},
     "expected": {"keep": [True, False] + [True] * 9}},
    {"name": "evol_rl_another_name", "inputs": {"correct": [1, 1, 0], "novelty": [0.1, 0.3, 0.2]},
     "hyperparameters": {}, "expected": {"reward": [0.5, 1.0, -0.5]}},
]  # fmt: skip


def test_what_a_case_is_called_beyond_its_method_does_not_matter(turnwise: Call, tmp_path: Path) -> None:
    said = turnwise("verify", write(tmp_path / "c.json", NUMBERS))
    assert said.code == 0, said.out


def test_a_case_that_trips_is_a_failure_and_the_others_count(turnwise: Call, tmp_path: Path) -> None:
    odd = {"name": "hicra_odd", "inputs": {"advantage": 3, "planning": [1]}, "hyperparameters": {},
           "expected": {"advantage": [1.0]}}  # fmt: skip
    base = {"name": "salt", "inputs": {"traj": [0], "transition_key": ["x"], "trajectory_advantage": [1.0]},
            "hyperparameters": {"base": "nothing eps=1"}, "expected": {"advantage": [1.0]}}  # fmt: skip
    said = turnwise("verify", write(tmp_path / "c.json", [odd, base, *CREDIT]))
    assert said.code == 1
    assert "refused  hicra_odd: TypeError" in said.out
    assert "base='nothing eps=1' names no estimator of ours" in said.out
    assert "3 of 5 agree" in said.out


def test_rounding_noise_is_apart_and_no_disagreement(turnwise: Call, tmp_path: Path) -> None:
    noisy = copy.deepcopy(GIGPO)
    noisy["cases"].append({**copy.deepcopy(noisy["cases"][0]), "name": "noise", "own_formula_agrees": False})
    noisy["cases"][1]["expected"]["advantage"][0] = 1.0625
    said = turnwise("verify", write(tmp_path / "g.json", noisy))
    assert said.code == 0
    assert "gigpo        1/1" in said.out
    assert "and 1 of rounding noise" in said.out
    assert "noise: advantage[0]: ours 1, theirs 1.0625" in said.out


@pytest.mark.parametrize(
    ("content", "part"),
    [
        ("{", "is not JSON"),
        ("3", "holds no vectors"),
        ([], "holds no case"),
        ([1], "has none of the schemas"),
        ([{"name": "grpo"}], "has none of the schemas"),
        ({"batches": 3, "cases": [LOSSES["cases"][0]]}, "batches must be a list"),
    ],
)
def test_files_that_cannot_be_read(turnwise: Call, tmp_path: Path, content: Vectors, part: str) -> None:
    pytest.importorskip("torch")
    one_sentence(turnwise("verify", write(tmp_path / "x.json", content)), part, "x.json")


@pytest.mark.parametrize(
    ("content", "part"),
    [
        ([{"name": "grpo", "inputs": {}, "hyperparameters": {}, "expected": {"advantage": [1]}}], "no 'rewards'"),
        ([{"name": "grpo", "inputs": {"rewards": ["a"]}, "expected": {"advantage": [1]}}], "cannot be read"),
        ([{"name": "grpo", "inputs": {"rewards": [1]}, "hyperparameters": {}, "expected": {}}], "no expected figures"),
        ([{"inputs": {"rewards": [1]}}], "case 0: it cannot be read: it is not an object with a name"),
        ({"cases": [{"name": "x", "params": 1, "steps": []}]}, "must be objects"),
        ({"batches": [], "cases": [LOSSES["cases"][0]]}, "there is no batch 7"),
    ],
)
def test_a_case_that_cannot_be_read_is_named_and_hides_no_other(
    turnwise: Call, tmp_path: Path, content: Vectors, part: str
) -> None:
    pytest.importorskip("torch")
    bad = write(tmp_path / "x.json", content)
    said = turnwise("verify", bad)
    assert said.code == 2
    assert "malformed" in said.out
    assert part in said.out
    if isinstance(content, list):
        said = turnwise("verify", write(tmp_path / "y.json", [*content, *CREDIT]))
        assert said.code == 2
        assert part in said.out
        assert f"{len(CREDIT)} of {len(CREDIT) + 1} agree" in said.out


def test_what_cannot_be_read_hides_no_other_file_and_no_disagreement(turnwise: Call, tmp_path: Path) -> None:
    wrong = copy.deepcopy(CREDIT)
    wrong[0]["expected"]["advantage"][0] = 3.0
    torn, bad = write(tmp_path / "t.json", '[{"name": '), {**CREDIT[0], "inputs": {}}
    good, differs = write(tmp_path / "g.json", CREDIT), write(tmp_path / "w.json", [bad, *wrong])
    said = turnwise("verify", torn, tmp_path / "none.json", good)
    assert said.code == 2
    assert "3 of 3 agree" in said.out
    assert "t.json is not JSON" in said.out + said.err
    assert turnwise("verify", torn, differs).code == 1
    data = json.loads(turnwise("verify", torn, differs, "--json").out)
    assert [set(one) & {"methods", "error"} for one in data] == [{"methods"}, {"error"}]
    worst = {one["method"]: one["worst"] for one in data[0]["methods"]}
    assert worst["dr_grpo"] == pytest.approx(2.5 / 4.0)  # of the case that was computed; the other has none


DESCRIBED = {"proposal": True, "tags": ["a", "b"], "description": "words", "origin": {"by": "hand", "page": None}}


def test_keys_that_only_describe_are_no_inputs(turnwise: Call, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    told = copy.deepcopy(LOSSES)
    told["cases"][0] |= DESCRIBED
    told["batches"][0] |= DESCRIBED
    assert turnwise("verify", write(tmp_path / "l.json", told)).code == 0


SPELT: Vectors = [
    {**CREDIT[0], "name": "DR_GRPO_two"},
    {"name": "pass_k", "inputs": {"rewards": [1, 0]}, "hyperparameters": {"norm_by_std": False},
     "expected": {"advantage": [1.0, 0.0]}},
    {"name": "turn_gae", "inputs": {"rewards": [1.0], "values": [0.25]}, "hyperparameters": {"gamma": 1, "lambda": 1},
     "expected": {"advantage": [0.75]}},
    {"name": "archer", "inputs": {"q1": [1.0, 2.0], "q2": [0.5, 3.0], "v1": [0.25, 1.0], "v2": [0.5, 0.5]},
     "expected": {"advantage": [0.25, 1.5]}},
    {"name": "flow_grpo", "inputs": {"rewards": [1, 0], "valid": [True, False]},
     "hyperparameters": {"mean_over": "traj", "norm_by_std": False}, "expected": {"advantage": [0.5, -0.5]}},
]  # fmt: skip


@pytest.mark.parametrize("case", SPELT, ids=lambda case: case["name"])
def test_names_are_understood_however_they_are_spelt(turnwise: Call, tmp_path: Path, case: Vectors) -> None:
    said = turnwise("verify", write(tmp_path / "c.json", [case]))
    assert said.code == 0, said.out


def test_ends_of_turns_by_another_name_are_refused(turnwise: Call, tmp_path: Path) -> None:
    case = {"name": "bilevel_gae", "inputs": {"rewards": [1.0], "values": [0.0], "turn_ends": [0]},
            "hyperparameters": {"gamma": 1.0, "lam": 1.0}, "expected": {"advantage": [1.0]}}  # fmt: skip
    said = turnwise("verify", write(tmp_path / "c.json", [case]))
    assert said.code == 1
    assert "wants the input 'turn_end'" in said.out


def test_missing_files_and_unknown_methods(turnwise: Call, tmp_path: Path, files: list[Path]) -> None:
    one_sentence(turnwise("verify", tmp_path / "no.json"), "No such file")
    one_sentence(turnwise("verify", *files, "--method", "gigpoo"), "Did you mean 'gigpo'?")


def test_an_extra_that_is_missing_is_one_sentence_and_no_verdict(
    turnwise: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    numbers = [[-1.0, -2.0]]
    batch = {"id": 0, "logp_new": numbers, "logp_old": numbers, "advantages": [[1.0, 1.0]], "mask": [[1, 1]]}
    case = {"name": "reinforce", "hyperparameters": {"agg": "token-mean"}, "batch_id": 0}
    file = tmp_path / "losses.json"
    figures = {"expected_loss": 1.5, "expected_grad": [[-0.5, -0.5]]}
    file.write_text(json.dumps({"schema": {}, "batches": [batch], "cases": [{**case, **figures}]}))
    assert turnwise("verify", file).code == 0
    for name in [name for name in sys.modules if name.startswith("turnwise.training.objectives")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "torch", None)
    one_sentence(turnwise("verify", file), "pip install turnwise[train]")


# ---- somebody else's function ----

THEIRS = """
import numpy as np
from turnwise.credit import gigpo

def right(steps, **options):
    return gigpo(steps, **options).values

def whole(steps, **options):
    return gigpo(steps, **options)

def wrong(steps, **options):
    return gigpo(steps, **options).values + 0.01

def strange(steps, **options):
    return "no numbers"

def broken(steps, **options):
    return steps.nothing

def leaving(steps, **options):
    raise SystemExit(0)

def centred(steps, *, singleton="zero"):
    return steps.reward - steps.reward.mean()

def ppo(logprobs, old, advantages, mask, *, clip_low, clip_high, aggregation, factor=1.0, **_):
    ratio = (logprobs - old).exp()
    gain = (ratio * advantages).minimum(ratio.clamp(1 - clip_low, 1 + clip_high) * advantages)
    return -(gain * mask).sum() / mask.sum()

NUMBER = 3
"""


@pytest.fixture
def theirs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "their_port.py").write_text(THEIRS, encoding="utf-8")
    (tmp_path / "leaves.py").write_text("raise SystemExit(0)", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, "their_port", raising=False)


@pytest.mark.usefixtures("theirs")
@pytest.mark.parametrize(
    ("name", "code", "part"),
    [
        ("right", 0, "gigpo        1/1"),
        ("whole", 0, "gigpo        1/1"),
        ("wrong", 1, "advantage"),
        ("strange", 1, "gave back str"),
        ("broken", 1, "AttributeError"),
        ("leaving", 1, "SystemExit"),
        ("centred", 1, "TypeError"),
    ],
)
def test_a_function_of_somebody_else(turnwise: Call, files: list[Path], name: str, code: int, part: str) -> None:
    said = turnwise("verify", files[0], "--function", f"their_port:{name}")
    assert said.code == code, said.out + said.err
    assert part in said.out
    assert "rloo" not in said.out


@pytest.mark.usefixtures("theirs")
def test_a_function_for_one_method_of_many(turnwise: Call, files: list[Path]) -> None:
    one_sentence(turnwise("verify", files[2], "--function", "their_port:centred"), "--method says which")
    said = turnwise("verify", files[2], "--function", "their_port:centred", "--method", "dr_grpo")
    assert said.code == 0, said.out
    assert "dr_grpo        1/1" in said.out
    assert "tempo" not in said.out
    said = turnwise("verify", files[3], "--function", "their_port:ppo")
    assert said.code == 0, said.out


@pytest.mark.usefixtures("theirs")
@pytest.mark.parametrize(
    ("path", "part"),
    [
        ("their_port", "wants module:name"),
        ("their_port:nothing", "nothing"),
        ("no_such_module:f", "no_such_module"),
        ("their_port:NUMBER", "not a function but int"),
        ("leaves:f", "SystemExit while it was imported"),
    ],
)
def test_functions_that_are_none(turnwise: Call, files: list[Path], path: str, part: str) -> None:
    one_sentence(turnwise("verify", files[0], "--function", path), part)


def test_differences_are_relative() -> None:
    from turnwise.cli.vectors import estimators, losses, rows
    from turnwise.cli.vectors.case import compared

    assert compared("x", [1.0, 2.0], [1, 2], estimators.MEASURE).worst == 0.0
    assert compared("x", 1.0 + 3e-6, 1.0, estimators.MEASURE).worst == pytest.approx(1.5e-6)
    assert compared("x", 100.0 + 1e-4, 100.0, losses.MEASURE).worst == pytest.approx(1e-6, rel=1e-3)
    assert compared("x", [10.0, 1e-3], [10.0, 0.0], rows.MEASURE).worst == pytest.approx(1e-3)
    assert compared("x", math.nan, 1.0, rows.MEASURE).worst == math.inf
    assert compared("x", True, 1, rows.MEASURE).worst == math.inf
    assert compared("x", [[1.0]], [1.0], rows.MEASURE).worst == math.inf


@pytest.mark.skipif("TURNWISE_DATA" not in os.environ, reason="the published figures lie beside the data")
def test_the_published_figures_agree(turnwise: Call) -> None:
    pytest.importorskip("torch")
    folder = Path(os.environ["TURNWISE_DATA"]).parent / "vectors"
    found = [folder / f"{name}.json" for name in ("gigpo", "hgpo", "credit", "losses")]
    if not all(path.is_file() for path in found):
        pytest.skip("they are not there")
    said = turnwise("verify", *found)
    assert said.code == 0, said.out
    assert said.out.count(" agree") >= 4
