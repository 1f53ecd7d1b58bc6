"""Games of TextArena and PettingZoo and questions of reasoning-gym, played from the first move to the last."""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

import turncredit.envs
from turncredit.envs import EnvError, UnknownOption, UnknownTask, check_env
from turncredit.envs.adapters.opponents import opponent

pytestmark = pytest.mark.frameworks

TEXTARENA = partial(turncredit.envs.make, "turncredit/TextArena-v0")
PETTINGZOO = partial(turncredit.envs.make, "turncredit/PettingZoo-v0")
QUESTIONS = partial(turncredit.envs.make, "turncredit/ReasoningGym-v0")
LINES = ((0, 1, 2), (3, 4, 5), (6, 7, 8), (0, 3, 6), (1, 4, 7), (2, 5, 8), (0, 4, 8), (2, 4, 6))


def need(package: str) -> Any:
    return pytest.importorskip(package, reason=f"{package} is not installed")


def play(env: Any, task: str, choose: Callable[[str, dict[str, Any]], str]) -> list[Any]:
    """Play a task to its end; return all answers."""
    answers = [env.reset(seed=0, options={"task": task})]
    for _ in range(100):
        answers.append(env.step(choose(answers[-1][0], answers[-1][-1])))
        if answers[-1][2] or answers[-1][3]:
            return answers
    raise AssertionError("the game does not end")


def of_text(observation: str, info: dict[str, Any]) -> str:
    """The first move that TextArena's TicTacToe lists last."""
    return observation.rpartition("Available Moves: ")[2].split("'")[1]


@pytest.mark.parametrize("number", range(6))
def test_tic_tac_toe_of_textarena_ends_as_the_moves_say(number: int):
    need("textarena")
    env = TEXTARENA(opponent="random")
    answers = play(env, f"train/{number}", of_text)
    seat = number % 2
    assert f"You are Player {seat} in Tic Tac Toe." in answers[0][0]
    *_, (_, reward, terminated, truncated, info) = answers
    assert (terminated, truncated) == (True, False)
    text = "\n".join(answer[0] for answer in answers)
    assert info["won"] is (f"Player {seat} has won!" in text)
    assert info["score"] == (reward + 1) / 2
    assert all("You are Player" not in answer[0] for answer in answers[1:]), "a move repeats the history"


def test_a_function_plays_the_other_seat_and_wins():
    need("textarena")

    def blocking(observation: str, actions: Any, random: np.random.Generator) -> str:
        assert "[Player 0]" in observation or "Current Board" in observation
        return actions[-1]

    env = TEXTARENA(opponent=blocking, seat=0)
    first = iter(["[0]", "[1]", "[3]", "[4]", "[5]"])
    answers = play(env, "train/0", lambda observation, info: next(first))
    # 0, 1, 3, ... against 8, 7, 6
    assert "Player 1 has won!" in answers[-1][0]
    assert (answers[-1][1], answers[-1][-1]["score"], answers[-1][-1]["won"]) == (-1.0, 0.0, False)


def test_an_invalid_move_is_reported_and_the_second_one_loses():
    need("textarena")
    env = TEXTARENA(seat=0)
    env.reset(seed=0, options={"task": "train/0"})
    _, reward, terminated, _, info = env.step("the middle")
    assert (reward, terminated, info["valid"]) == (0.0, False, False)
    _, reward, terminated, _, info = env.step("the middle")
    assert (reward, terminated, info["valid"], info["won"]) == (-1.0, True, False, False)


@pytest.mark.parametrize("make", [TEXTARENA, PETTINGZOO], ids=["textarena", "pettingzoo"])
def test_games_repeat_beside_others_and_leave_the_global_generators_alone(make: Callable[..., Any]):
    need("textarena" if make is TEXTARENA else "pettingzoo")
    choose = of_text if make is TEXTARENA else lambda observation, info: info["admissible_actions"][0]
    alone = [play(make(), f"train/{number}", choose) for number in (4, 5)]
    random.seed(1)
    np.random.seed(1)
    expected = (random.random(), np.random.rand())
    random.seed(1)
    np.random.seed(1)
    envs = (make(), make())
    beside = [[env.reset(seed=0, options={"task": f"train/{4 + seat}"})] for seat, env in enumerate(envs)]
    while any(len(answers) < len(whole) for answers, whole in zip(beside, alone, strict=True)):
        for env, answers, whole in zip(envs, beside, alone, strict=True):
            if len(answers) < len(whole):
                answers.append(env.step(choose(answers[-1][0], answers[-1][-1])))
    assert beside == alone
    assert (random.random(), np.random.rand()) == expected


@pytest.mark.parametrize("number", range(6))
def test_tic_tac_toe_of_pettingzoo_is_scored_by_the_board(number: int):
    need("pettingzoo")
    env = PETTINGZOO()
    answers = play(env, f"train/{number}", lambda observation, info: info["admissible_actions"][0])
    planes = env.unwrapped._game.unwrapped.board.squares
    marks = np.asarray(planes).ravel()
    own = 1 + number % 2
    won = [mark for mark in (1, 2) if any(all(marks[cell] == mark for cell in line) for line in LINES)]
    assert answers[-1][-1]["score"] == (1.0 if won == [own] else 0.0 if won else 0.5)
    assert sum(answer[1] for answer in answers[1:]) == (1 if won == [own] else -1 if won else 0)


def test_a_move_that_is_not_possible_changes_nothing():
    need("pettingzoo")
    env = PETTINGZOO(seat="player_1", actions=[f"cell {number}" for number in range(9)], opponent="first")
    _, start = env.reset(seed=0, options={"task": "train/0"})
    text, reward, over, _, info = env.step("corner")
    assert (reward, over, info["valid"], info["state"]) == (0.0, False, False, start["state"])
    assert "'corner' is not possible; choose from cell 0" in text
    assert env.step("cell 0")[-1]["admissible_actions"] == [f"cell {number}" for number in range(2, 9)]


@pytest.mark.parametrize("dataset", ["chain_sum", "leg_counting", "caesar_cipher"])
def test_the_answer_of_a_dataset_wins_and_another_does_not(dataset: str):
    need("reasoning_gym")
    env = QUESTIONS(dataset=dataset)
    for task in env.unwrapped.task_ids(3):
        env.reset(seed=0, options={"task": task})
        _, reward, over, _, info = env.step(env.unwrapped.plan()[0])
        assert (reward, over, info["won"], info["task_type"]) == (1.0, True, True, dataset)
        env.reset(seed=0, options={"task": task})
        assert env.step("I do not know")[-1]["won"] is False


def test_splits_have_different_questions():
    need("reasoning_gym")
    env, other = QUESTIONS(), QUESTIONS(split="held_out")
    starts = {env.reset(options={"task": task})[0] for task in env.unwrapped.task_ids(20)}
    others = {other.reset(options={"task": task})[0] for task in other.unwrapped.task_ids(20)}
    assert len(starts & others) < 5
    with pytest.raises(UnknownTask, match="ids look like 'train/7'"):
        env.reset(options={"task": "held_out/1"})


@pytest.mark.parametrize(
    ("make", "package", "arguments", "reason"),
    [
        (TEXTARENA, "textarena", {"game": "TicTacTo-v0"}, "did you mean 'TicTacToe-v0'"),
        (TEXTARENA, "textarena", {"opponent": "randum"}, "unknown opponent 'randum'; did you mean 'random'"),
        (TEXTARENA, "textarena", {"opponent": "os:sep"}, "an opponent is a function"),
        (PETTINGZOO, "pettingzoo", {"game": "tictactoe"}, "did you mean 'tictactoe_v3'"),
        (PETTINGZOO, "pettingzoo", {"seat": "player_0"}, "no seat 'player_0'; choose from player_1, player_2"),
        (QUESTIONS, "reasoning_gym", {"dataset": "chainsum"}, "did you mean 'chain_sum'"),
        (QUESTIONS, "reasoning_gym", {"dataset": []}, "non-empty list"),
    ],
)
def test_wrong_arguments_say_what_is_wanted(make: Any, package: str, arguments: dict[str, Any], reason: str):
    need(package)
    with pytest.raises(UnknownOption, match=reason):
        make(**arguments)


def test_an_opponent_without_listed_moves_is_refused_with_advice():
    with pytest.raises(UnknownOption, match="name a function: opponent=module:function"):
        opponent("random")("What do you say?", [], np.random.default_rng(0))


@pytest.mark.parametrize("who", ["random", "first"])
def test_a_game_that_lists_other_moves_than_the_allowed_ones_is_refused_at_once(who: str):
    need("textarena")
    with pytest.raises(UnknownOption, match=r"Nim-v0 lists .* not allowed.*opponent=module:function"):
        TEXTARENA(game="Nim-v0", opponent=who)


def test_the_opponent_of_a_card_game_makes_moves_that_are_allowed():
    need("textarena")
    env = TEXTARENA(game="KuhnPoker-v0", opponent="random")
    for number in range(24):
        answers = play(env, f"train/{number}", lambda text, info: text.rpartition("actions are: ")[2].split("'")[1])
        text = "\n".join(answer[0] for answer in answers)
        assert "Action must be" not in text
        assert "wins pot" in text or "has folded" in text


def takes_all(observation: str, actions: Any, random: np.random.Generator) -> str:
    """Takes the only pile, or half of the times the first object of it."""
    return "[0 2]" if random.random() < 0.5 else "[0 1]"


def test_a_game_that_the_opponent_ends_with_the_first_move_is_drawn_again():
    need("textarena")
    env = TEXTARENA(game="Nim-v0", opponent=takes_all, seat=1, options={"piles": [2]})
    for number in range(12):
        starts = [env.reset(seed=0, options={"task": f"train/{number}"})[0] for _ in range(2)]
        assert starts[0] == starts[1]
        assert "pile 0: 1" in starts[0]
        assert env.step("[0 1]")[4]["won"]
    hopeless = TEXTARENA(game="Nim-v0", opponent=takes_all, seat=1, options={"piles": [1]})
    with pytest.raises(EnvError, match="over before the agent's first move"):
        hopeless.reset(seed=0)


@pytest.mark.parametrize(
    ("package", "make"),
    [("textarena", TEXTARENA), ("pettingzoo", PETTINGZOO), ("reasoning_gym", QUESTIONS)],
)
def test_the_contract_is_kept(package: str, make: Callable[[], Any]):
    need(package)
    report = check_env(make)
    assert report.ok, str(report)
