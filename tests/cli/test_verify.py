"""`turncredit verify` on the cases that it ships, and on small files made by hand: right, wrong and unreadable."""

from __future__ import annotations

import copy
import json
import math
import sys
from pathlib import Path
from typing import Any

import pytest
from toys.commands import one_sentence

from turncredit.cli.reference.cases import FORMAT, check_case, difference, read_cases
from turncredit.installation import installation_command

Call = Any
File = dict[str, Any]
REFERENCE = Path(sys.modules["turncredit.cli.reference.cases"].__file__ or "").parent

# Two episodes; the mean is 1/2. One token with ratio e^0.5, clipped at 1.2, and one at ratio 1: -(1.2 + 2) / 2.
CASES: File = {
    "format": FORMAT,
    "tolerance": {"relative": 1e-6, "absolute": 1e-6},
    "tables": {"two": {"task": ["a", "a"], "trajectory": [0, 1], "turn": [0, 0], "reward": [1.0, 0.0]}},
    "cases": [
        {"name": "centred", "function": "credit/dr_grpo", "columns": "two", "options": {"singleton": "raw"},
         "expected": {"advantage": [0.5, -0.5], "keep": [True, None]}, "source": "by hand", "note": "a note"},
        {"name": "returns", "function": "helper/returns", "columns": "two", "options": {"gamma": 0.5},
         "expected": {"advantage": [1.0, 0.0]}},
        {"name": "plans", "function": "transform/hicra", "options": {"alpha": 0.2},
         "expected": {"advantage": [[1.2, -1.0]]},
         "columns": {"advantages": [[1.0, -1.0]], "mask": [[1, 1]], "planning": [[1, 0]]}},
        {"name": "two tokens", "function": "objective/ppo_clip", "tolerance": {"relative": 1e-6, "absolute": 1e-8},
         "options": {"clip_low": 0.2, "clip_high": 0.2, "aggregation": "token-mean"}, "status": "proposal",
         "columns": {"logprobs": [[-0.5, -1.0]], "old": [[-1.0, -1.0]], "advantages": [[1.0, 2.0]], "mask": [[1, 1]]},
         "expected": {"loss": -1.6, "gradient": [[0.0, -1.0]]}},
    ],
}  # fmt: skip


def write(path: Path, content: object) -> Path:
    path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return path


def changed(location: tuple[Any, ...], value: object) -> File:
    """Return the file with one value replaced."""
    at = content = copy.deepcopy(CASES)
    for key in location[:-1]:
        at = at[key]
    at[location[-1]] = value
    return content


@pytest.fixture
def file(tmp_path: Path) -> Path:
    pytest.importorskip("torch")
    return write(tmp_path / "cases.json", CASES)


@pytest.mark.parametrize("path", sorted(REFERENCE.glob("*.json")), ids=lambda path: path.stem)
def test_the_cases_that_turncredit_ships_agree(path: Path) -> None:
    if path.stem == "losses":
        pytest.importorskip("torch")
    results = [check_case(case) for case in read_cases(path)]
    assert [
        f"{result.case.name}: {result.detail}" for result in results if result.outcome not in ("agrees", "noise")
    ] == []
    counted = {"credit": 46, "gigpo": 268, "hgpo": 131, "losses": 204}
    assert sum(result.outcome == "agrees" for result in results) == counted[path.stem]


def test_without_files_the_shipped_cases_are_checked(turncredit: Call) -> None:
    result = turncredit("verify", "--method", "credit/hgpo")
    assert result.code == 0, result.out
    assert "25 of 25 agree; 2 cases of rounding noise are not counted" in result.out
    assert "(2 more: rounding noise)" in result.out
    assert "rand04: advantage[13]: ours 0.21999993, expected 0.132" in result.out


def test_right_cases_agree(turncredit: Call, file: Path) -> None:
    result = turncredit("verify", file)
    assert result.code == 0, result.out + result.err
    for line in ("credit/dr_grpo 1/1 worst", "transform/hicra 1/1", "objective/ppo_clip 1/1", "4 of 4 agree"):
        assert line in " ".join(result.out.split()), result.out
    (report,) = json.loads(turncredit("verify", file, "--json").out)
    assert [(entry["agree"], entry["total"], entry["failed"]) for entry in report["functions"]] == [(1, 1, [])] * 4


@pytest.mark.parametrize(
    ("place", "value", "outcome", "part"),
    [
        (
            ("cases", 0, "expected", "advantage"),
            [0.5, -0.50001],
            "differs",
            "advantage[1]: ours -0.5, expected -0.50001",
        ),
        (("cases", 0, "expected", "advantage"), [0.5], "differs", "advantage: ours 2 values, expected 1 values"),
        (("cases", 0, "expected", "keep"), [1, True], "differs", "keep[0]: ours True, expected 1"),
        (("cases", 1, "expected", "advantage"), [1.1, 0.0], "differs", "advantage[0]: ours 1, expected 1.1"),
        (("cases", 3, "expected", "loss"), -1.60001, "differs", "loss: ours -1.6, expected -1.60001"),
        (("cases", 3, "expected", "gradient"), [[1e-6, -1.0]], "differs", "gradient[0][0]"),
        (("cases", 0, "options", "moon_phase"), 1, "refused", "dr_grpo has no option 'moon_phase'"),
        (("cases", 0, "options", "singleton"), "none", "refused", "singleton"),
        (("cases", 0, "expected", "aura"), [1, 2], "refused", "there is no result 'aura'"),
        (("cases", 0, "columns"), {**CASES["tables"]["two"], "aura": [1, 2]}, "refused", "no column 'aura'"),
        (("cases", 2, "columns", "aura"), [[1, 2]], "refused", "aura"),
        (("cases", 3, "options", "moon_phase"), 1, "refused", "moon_phase"),
        (("cases", 3, "columns", "aura"), [[1, 2]], "refused", "aura"),
        (
            ("cases", 0, "function"),
            "credit/gipgo",
            "unimplemented",
            "no credit function 'gipgo'; did you mean 'gigpo'?",
        ),
        (("cases", 0, "function"), "objective/frobnicate", "unimplemented", "no objective function 'frobnicate'"),
        (("cases", 0, "function"), "helper/frobnicate", "unimplemented", "no helper function 'frobnicate'"),
        (("cases", 0, "function"), "gigpo", "unimplemented", "there is no gigpo function"),
        (("cases", 0), 3, "malformed", "case 0: it is not an object with 'name' and 'function'"),
        (("cases", 0, "expected"), {}, "malformed", "centred: it has no expected results"),
        (("cases", 0, "columns"), "three", "malformed", "neither an object nor the name of a table"),
        (("cases", 0, "aura"), 1, "malformed", "unknown keys ['aura']"),
        (("cases", 0, "status"), "wrong", "malformed", "unknown status 'wrong'"),
        (("cases", 0, "tolerance"), {"relative": 0, "absolute": 1}, "malformed", "both > 0"),
    ],
)
def test_a_case_that_does_not_agree_is_named_and_hides_no_other(
    turncredit: Call, file: Path, place: tuple[Any, ...], value: object, outcome: str, part: str
) -> None:
    result = turncredit("verify", write(file, changed(place, value)))
    assert result.code == (2 if outcome == "malformed" else 1)
    assert f"  {outcome}  " in result.out
    assert part in result.out, result.out
    assert "3 of 4 agree" in result.out


@pytest.mark.parametrize("result", ["advantage", "step", "episode"])
def test_a_damaged_shipped_result_is_found(turncredit: Call, tmp_path: Path, result: str) -> None:
    content = json.loads((REFERENCE / "gigpo.json").read_text(encoding="utf-8"))
    case = next(case for case in content["cases"] if case["function"] == "credit/gigpo")
    case["expected"][result][3] += 0.01
    outcome_of_command = turncredit("verify", write(tmp_path / "g.json", {**content, "cases": [case]}))
    assert outcome_of_command.code == 1
    assert f"{case['name']}: {result}[3]" in outcome_of_command.out


def test_rounding_noise_is_shown_and_not_counted(turncredit: Call, file: Path) -> None:
    noise = {**CASES["cases"][0], "status": "noise", "expected": {"advantage": [0.75, -0.5]}}
    result = turncredit("verify", write(file, {**CASES, "cases": [*CASES["cases"], noise]}))
    assert result.code == 0
    assert "credit/dr_grpo            1/1" in result.out
    assert "rounding noise  centred: advantage[0]: ours 0.5, expected 0.75" in result.out


@pytest.mark.parametrize(
    ("content", "part"),
    [
        ("{", "is not JSON"),
        ([], f'must be a JSON object with "format": "{FORMAT}"'),
        ({"cases": [{"name": "grpo", "inputs": {}}]}, f'must be a JSON object with "format": "{FORMAT}"'),
        ({"format": FORMAT, "cases": []}, "has no cases"),
    ],
)
def test_files_that_cannot_be_read(turncredit: Call, tmp_path: Path, content: object, part: str) -> None:
    one_sentence(turncredit("verify", write(tmp_path / "x.json", content)), part, "x.json")


def test_a_disagreement_counts_more_than_an_unreadable_file(turncredit: Call, file: Path, tmp_path: Path) -> None:
    torn, wrong = write(tmp_path / "t.json", "{"), changed(("cases", 1, "expected", "advantage"), [3.0, 0.0])
    result = turncredit("verify", torn, tmp_path / "none.json", file)
    assert result.code == 2
    assert "4 of 4 agree" in result.out
    assert "t.json is not JSON" in result.out + result.err
    wrong["cases"][0] = 3
    result = turncredit("verify", torn, write(file, wrong), "--json")
    assert result.code == 1
    reports = json.loads(result.out.rpartition("]")[0] + "]")
    assert [set(entry) & {"functions", "error"} for entry in reports] == [{"functions"}, {"error"}]


def test_missing_files_and_unknown_methods(turncredit: Call, tmp_path: Path, file: Path) -> None:
    one_sentence(turncredit("verify", tmp_path / "no.json"), "no.json does not exist")
    one_sentence(turncredit("verify", file, "--method", "credit/dr_grop"), "credit/dr_grpo")


def test_without_torch_the_losses_are_not_checked(
    turncredit: Call, file: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in [name for name in sys.modules if name.startswith("turncredit.training.objectives")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "torch", None)
    one_sentence(turncredit("verify", file), installation_command("train"))
    plain = write(tmp_path / "plain.json", {**CASES, "cases": CASES["cases"][:3]})
    result = turncredit("verify", file, plain)
    assert result.code == 2
    assert "3 of 3 agree" in result.out
    assert "cases.json is not checked" in result.out + result.err


def test_differences_are_relative() -> None:
    assert difference(1.0 + 3e-6, 1.0, 1e-6, 1e-6) == pytest.approx(1.5e-6)
    assert difference(100.0 + 1e-4, 100.0, 1e-6, 1e-8) == pytest.approx(1e-6, rel=1e-3)
    assert difference(math.nan, 1.0, 1e-6, 1e-6) == math.inf
    assert difference(math.inf, math.inf, 1e-6, 1e-6) == 0.0


# ---- somebody else's function ----

THEIRS = """
import numpy as np
from turncredit.credit import dr_grpo

def right(steps, **options):
    return dr_grpo(steps, **options).values

def whole(steps, **options):
    return dr_grpo(steps, **options)

def wrong(steps, **options):
    return dr_grpo(steps, **options).values + 0.01

def strange(steps, **options):
    return "no numbers"

def broken(steps, **options):
    return steps.nothing

def leaving(steps, **options):
    raise SystemExit(0)

def ppo(logprobs, old, advantages, mask, *, clip_low, clip_high, aggregation):
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
        ("their_port:right", 0, "1 of 1 agree"),
        ("their_port:whole", 0, "1 of 1 agree"),
        ("their_port:wrong", 1, "advantage[1]"),
        ("their_port:strange", 1, "expected Advantages or numbers, got str"),
        ("their_port:broken", 1, "AttributeError"),
        ("their_port:leaving", 1, "SystemExit"),
        ("their_port", 2, "importable module:name"),
        ("their_port:nothing", 2, "nothing"),
        ("no_such_module:f", 2, "no_such_module"),
        ("their_port:NUMBER", 2, "must be a function, got int"),
        ("leaves:f", 2, "SystemExit"),
    ],
)
def test_a_function_of_somebody_else(turncredit: Call, file: Path, name: str, code: int, part: str) -> None:
    result = turncredit("verify", file, "--method", "dr_grpo", "--function", name)
    assert result.code == code, result.out + result.err
    assert part in result.out + result.err
    assert "hicra" not in result.out


@pytest.mark.usefixtures("theirs")
def test_a_loss_of_somebody_else(turncredit: Call, file: Path) -> None:
    one_sentence(turncredit("verify", file, "--function", "their_port:ppo"), "which --method must name")
    result = turncredit("verify", file, "--function", "their_port:ppo", "--method", "objective/ppo_clip")
    assert result.code == 0, result.out
