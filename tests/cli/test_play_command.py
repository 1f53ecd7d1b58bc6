"""`turncredit play`: by script, with hints, with agents."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from toys.commands import ENV, Call, one_sentence


def test_a_script_can_win(turncredit: Call) -> None:
    said = turncredit("play", ENV, "--task", "open-3-1", stdin="take key\ng e\n2\n3\ngo east\n")
    assert said.code == 0
    assert "> take key" in said.out
    said = turncredit("play", ENV, "--task", "open-3-1", stdin="take key\ng e\nunl\ngo east\n")
    assert "Won after 4 turns, reward 1" in said.out


def test_hints_lead_to_the_goal(turncredit: Call) -> None:
    typed = ""
    for _ in range(20):
        said = turncredit("play", ENV, "--task", "fetch-3-2", "--hint", stdin=typed)
        if "Won" in said.out:
            break
        typed += re.findall(r"hint: (.+?)   \(", said.out)[-1] + "\n"
    assert "Won" in said.out


def test_history_undo_actions_and_mistakes(turncredit: Call) -> None:
    said = turncredit(
        "play",
        ENV,
        "--task",
        "open-3-1",
        stdin="take key\nfly\n:history\n:undo\n:actions\n:undo\n:hisory\n:hi\n:undo x\n:ask\n!fly\n:quit\nlook\n",
    )
    assert said.code == 0
    assert "'fly' is not possible here" in said.out
    assert "1  > take key" in said.out
    assert "(1 taken back)" in said.out
    assert re.search(r"1  go east +2  look +3  take key", said.out)
    assert "(nothing to take back)" in said.out
    assert "unknown command ':hisory'; did you mean ':history'?" in said.out
    assert "':hi' can mean: :hint, :history" in said.out
    assert "expected a number of turns, got 'x'" in said.out
    assert "--policy CHECKPOINT" in said.out
    assert "the turn is spent" in said.out
    assert "> look" not in said.out


def test_the_same_seed_draws_the_same_task(turncredit: Call) -> None:
    first, second = (turncredit("play", ENV, "--seed", 7, stdin=":task\n").out for _ in range(2))
    assert first == second
    assert turncredit("play", ENV, "--seed", 8, stdin=":task\n").out != first


def test_a_trained_agent_can_be_asked_and_watched(turncredit: Call, trained: Path) -> None:
    said = turncredit("play", "--policy", trained, "--task", "open-3-1", stdin=":ask\ntake key\n:ask\n:watch 1\n")
    assert said.code == 0, said.err
    assert said.out.count("agent: ") == 2
    assert "go east" in said.out or "contains no action" in said.out


def test_the_expert_can_be_watched_to_the_end(turncredit: Call) -> None:
    said = turncredit("play", ENV, "--task", "fetch-4-2", "--policy", "expert", stdin="look\n:watch\n:ask\n")
    assert "Won after 10 turns" in said.out
    assert "the episode is over" in said.out


def test_without_arguments_a_small_household_game_is_played(turncredit: Call) -> None:
    said = turncredit("play", stdin=":actions\n")
    assert said.code == 0, said.err
    assert "tiny" in said.out
    assert "go to" in said.out
    assert "task held_out/tiny" in turncredit("play", "split=held_out").out


def test_an_episode_of_a_person_is_saved_and_imitated(turncredit: Call, run_file: Path, tmp_path: Path) -> None:
    from turncredit.agents.files.trajectory_files import read_trajectories

    file = tmp_path / "mine.jsonl"
    words = ("play", ENV, "--task", "open-3-1", "--save", file)
    won = "take key\n!dance\n:undo\n!fly\ngo east\nunlock door\n{}go east\n"
    said = turncredit(*words, stdin=won.format("") + ":restart\n" + won.format("look\n"))
    assert said.out.count("saved to") == 2, said.out
    first, second = read_trajectories(file)
    assert (first.id, second.id) == ("open-3-1#0@0", "open-3-1#1@0")
    assert (first.won, first.stop) == (True, "terminated")
    assert [turn.action for turn in first.turns] == ["take key", "fly", "go east", "unlock door", "go east"]
    assert [turn.valid for turn in first.turns] == [True, False, True, True, True]
    assert first.turns[0].state != first.turns[1].state == first.turns[2].state
    assert len(second.turns) == 6
    assert "has not ended, so it was not saved" in turncredit(*words, stdin="look\n").out
    assert len(list(read_trajectories(file))) == 2
    pytest.importorskip("torch")
    (tmp_path / "run.toml").write_text(run_file.read_text().replace("demonstrator.noise = 0.3\n", ""))
    keys = (f"imitation.demonstrator={file}", "train.iterations=0", "evaluation.episodes=0")
    said = turncredit("train", tmp_path / "run.toml", *keys, "--output", tmp_path / "run")
    assert said.code == 0, said.err
    assert "2 demonstrations, 2 won" in said.out
    one_sentence(turncredit("play", ENV, "--save", tmp_path / "no" / "x.jsonl"), "does not exist")
    one_sentence(turncredit("play", ENV, "--save", tmp_path / "x.txt"), ".jsonl")


def test_a_recorded_episode_is_what_a_rollout_of_the_same_actions_gives() -> None:
    from dataclasses import replace

    from toys.corridor import Corridor

    from turncredit.agents.agent import Agent
    from turncredit.agents.demonstrations.recording import EpisodeRecorder
    from turncredit.agents.rollouts.rollout import rollout
    from turncredit.engines import Scripted

    actions = ["take key", "dance", "go east", "unlock door", "go east"]
    (group,) = rollout(Agent(), Scripted(actions), ["open-3-1"], make=Corridor, seed=3)
    (played,) = group.trajectories
    env = Corridor()
    recorder = EpisodeRecorder(*env.reset(seed=played.seed, options={"task": "open-3-1"}), seed=played.seed)
    for action in actions:
        recorder.add(action, *env.step(action))
    recorded = recorder.trajectory()
    turns = tuple(replace(turn, admissible=None) for turn in recorded.turns)
    assert replace(recorded, turns=turns, id=played.id, seconds=0.0) == replace(played, seconds=0.0)
