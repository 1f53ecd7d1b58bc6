"""`turncredit credit RUN --truth K`: what is played, kept, printed and drawn, and what is refused."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from toys.commands import one_sentence
from toys.corridor import ID, Corridor
from toys.wanderer import Wanderer

from turncredit.agents.agent import Agent
from turncredit.agents.files.trajectory_files import TrajectoryWriter
from turncredit.agents.rollouts.rollout import rollout

Call = Any


@pytest.fixture
def run(trained: Path, tmp_path: Path) -> Path:
    """A trained run that may be changed."""
    return Path(shutil.copytree(trained, tmp_path / "run"))


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Episodes of no run."""
    groups = rollout(Agent(max_turns=8), Wanderer(0.7), ["open-3-1", "fetch-3-1", "open-4-2"], make=Corridor, size=4)
    with TrajectoryWriter(tmp_path / "played.jsonl") as writer:
        for group in groups:
            for trajectory in group.trajectories:
                writer.write(trajectory)
    return tmp_path / "played.jsonl"


ALONE = ("--policy", "random", f"truth.env={ID}")


def test_a_run_is_measured_with_its_own_checkpoint(turncredit: Call, run: Path) -> None:
    first = turncredit("credit", run, "--truth", "3", "--credit", "grpo,gigpo,rtmc")
    assert first.code == 0, first.err
    assert re.search(r"playing [\d,]+ forks, 3 from each of \d+ different histories of \d+ turns: about", first.err)
    assert re.search(r"^rule +rank +true", first.out, re.MULTILINE)
    assert re.search(r"^gigpo .*\[", first.out, re.MULTILINE)
    assert "direct." in first.out  # the policy is here, and small
    assert re.search(r"reliability of (the truth|0\.\d\d)", first.out)
    (kept,) = (run / "trajectories").glob("*.truth.jsonl")
    size = kept.stat().st_size
    again = turncredit("credit", run, "--truth", "3", "--credit", "grpo,gigpo,rtmc")
    assert again.code == 0, again.err
    assert "are there" in again.err
    assert again.out == first.out
    assert kept.stat().st_size == size
    more = turncredit("credit", run, "--truth", "5", "--credit", "grpo", "truth.gradients=false")
    assert more.code == 0, more.err
    assert kept.stat().st_size > size
    assert "direct." not in more.out
    audit = turncredit("audit", run)
    assert audit.code == 0, audit.out
    assert turncredit("report", run, "--output", run / "report.html").code == 0


def test_json_has_the_truth_turn_by_turn(turncredit: Call, file: Path) -> None:
    said = turncredit("credit", file, "--truth", "4", *ALONE, "--json", "gamma=0.9")
    assert said.code == 0, said.err
    data = json.loads(said.out)
    assert (data["gamma"], data["chance"]) == (0.9, False)
    assert len(data["truth"]) == data["turns"]
    assert {"rank", "within", "sign", "leak", "error", "rank_true"} == set(data["rules"]["grpo"])
    assert set(data["rules"]["grpo"]["rank"]) == {"value", "low", "high", "n"}
    assert "gae" in data["left_out"]
    order = [rule["rank"]["value"] for rule in data["rules"].values() if rule["rank"]["value"] is not None]
    assert order == sorted(order, reverse=True)
    by_episode: dict[str, list[float]] = {}
    for turn in data["truth"]:
        by_episode.setdefault(turn["trajectory"], []).append(turn["value"])
    starts = {name.partition("#")[0]: values[0] for name, values in by_episode.items()}
    assert all(values[0] == starts[name.partition("#")[0]] for name, values in by_episode.items())


def test_a_function_of_ones_own_is_scored(turncredit: Call, file: Path) -> None:
    said = turncredit(
        "credit", file, "--truth", "2", *ALONE, "--credit", "toys.outside_parts:last_turn,grpo", "--trust"
    )
    assert said.code == 0, said.err
    assert "toys.outside_parts:last_turn" in said.out
    assert "K is too small" in said.err or "reliability" in said.out


@pytest.mark.parametrize("suffix", [".svg", ".pdf", ".png"])
def test_a_picture(turncredit: Call, file: Path, tmp_path: Path, suffix: str) -> None:
    picture = tmp_path / f"truth{suffix}"
    said = turncredit("credit", file, "--truth", "2", *ALONE, "--credit", "grpo,gigpo", "--picture", picture)
    assert said.code == 0, said.err
    assert picture.stat().st_size > 2000
    if suffix == ".svg":
        text = picture.read_text(encoding="utf-8")
        assert "gigpo" in text
        assert "true advantage" in text


def test_a_budget_and_fewer_episodes(turncredit: Call, file: Path) -> None:
    few = turncredit("credit", file, "--truth", "8", *ALONE, "--credit", "grpo", "truth.trajectories=4")
    assert few.code == 0, few.err
    lowered = turncredit("credit", file, "--truth", "64", *ALONE, "--credit", "grpo", "truth.turns=2000")
    assert lowered.code == 0, lowered.err
    forks = int(re.search(r"forks, (\d+) from each", lowered.err)[1])  # type: ignore[index]
    assert 2 <= forks < 64


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("truth.env=toys/Corridor-v0",), "belong to no run with a checkpoint; say --policy"),
        (("--policy", "random"), "belong to no run; say truth.env=ID"),
        ((*ALONE, "truth.speed=3"), "there is no option truth.speed"),
        ((*ALONE, "truth.turns=5"), "two forks of"),
        ((*ALONE, "truth.reliability=x"), "truth.reliability must be a number"),
        ((*ALONE, "truth.trajectories=0"), "truth.trajectories must be an integer >= 1"),
        ((*ALONE, "--picture", "out.html"), "must end in one of .svg, .pdf, .png"),
        ((*ALONE, "truth.gradients=true"), "truth.gradients needs a policy with its weights"),
    ],
)
def test_what_is_refused_is_said_in_one_sentence(turncredit: Call, file: Path, words: Any, message: str) -> None:
    said = turncredit("credit", file, "--truth", "2", "--credit", "grpo", *words)
    one_sentence(said, message)


def test_forks_of_another_player_are_not_mixed_in(turncredit: Call, file: Path) -> None:
    assert turncredit("credit", file, "--truth", "2", *ALONE, "--credit", "grpo").code == 0
    other = turncredit("credit", file, "--truth", "2", "--policy", "expert", f"truth.env={ID}", "--credit", "grpo")
    one_sentence(other, "holds forks with player = 'random'")


def test_a_policy_without_forks_is_refused(turncredit: Call, file: Path) -> None:
    said = turncredit("credit", file, "--policy", "random")
    one_sentence(said, "--policy plays forks, which need --truth K")
