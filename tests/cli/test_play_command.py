"""`turnwise play`: by script, with hints, with agents."""

from __future__ import annotations

import re
from pathlib import Path

from commands import ENV, Call


def test_a_script_can_win(turnwise: Call) -> None:
    said = turnwise("play", ENV, "--task", "open-3-1", stdin="take key\ng e\n2\n3\ngo east\n")
    assert said.code == 0
    assert "> take key" in said.out
    said = turnwise("play", ENV, "--task", "open-3-1", stdin="take key\ng e\nunl\ngo east\n")
    assert "Won after 4 turns, reward 1" in said.out


def test_hints_lead_to_the_goal(turnwise: Call) -> None:
    typed = ""
    for _ in range(20):
        said = turnwise("play", ENV, "--task", "fetch-3-2", "--hint", stdin=typed)
        if "Won" in said.out:
            break
        typed += re.findall(r"hint: (.+?)   \(", said.out)[-1] + "\n"
    assert "Won" in said.out


def test_history_undo_actions_and_mistakes(turnwise: Call) -> None:
    said = turnwise(
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
    assert "A number of turns was expected, not 'x'" in said.out
    assert "--policy CHECKPOINT" in said.out
    assert "the turn is spent" in said.out
    assert "> look" not in said.out


def test_the_same_seed_draws_the_same_task(turnwise: Call) -> None:
    first, second = (turnwise("play", ENV, "--seed", 7, stdin=":task\n").out for _ in range(2))
    assert first == second
    assert turnwise("play", ENV, "--seed", 8, stdin=":task\n").out != first


def test_a_trained_agent_can_be_asked_and_watched(turnwise: Call, trained: Path) -> None:
    said = turnwise("play", "--policy", trained, "--task", "open-3-1", stdin=":ask\ntake key\n:ask\n:watch 1\n")
    assert said.code == 0, said.err
    assert said.out.count("agent: ") == 2
    assert "go east" in said.out or "in which there is no action" in said.out


def test_the_expert_can_be_watched_to_the_end(turnwise: Call) -> None:
    said = turnwise("play", ENV, "--task", "fetch-4-2", "--policy", "expert", stdin="look\n:watch\n:ask\n")
    assert "Won after 10 turns" in said.out
    assert "The episode is over." in said.out
